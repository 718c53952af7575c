// The weights of a quantised layer as its kernel works with them.
#pragma once

#include <memory>
#include <vector>

#include "kaon/engine/storage.h"
#include "kaon/ops/quant/kernels/int8_conv.h"

namespace kaon::ops {

// Memory for packed weights.
class PackedBytes {
 public:
  explicit PackedBytes(size_t bytes) : bytes_(bytes), data_(Storage::cpu().allocate(bytes)) {}
  ~PackedBytes() { Storage::cpu().free(data_, bytes_); }
  PackedBytes(const PackedBytes&) = delete;
  PackedBytes& operator=(const PackedBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// What the weights are made of beside themselves. Pointers are null for what a layer lacks.
struct LayerParameters {
  const float* bias = nullptr;
  const float *gamma = nullptr, *beta = nullptr, *mean = nullptr, *var = nullptr;
  double eps = 0;
  float data_scale = 1;         // levels of the data per unit
  bool is_channelwise = false;  // a range per filter; else one of all
};

// Weights as levels: each filter times `scales` of it, the bias times that and the data's scale.
struct LayerWeights : PackedData {
  std::vector<float> key;  // what they are made of beside the weights
  ConvGeometry g;
  size_t offset = 0;          // of the weights in their Buffer
  std::vector<float> scales;  // levels per unit, by filter
  std::vector<int32_t> bias;  // empty: none
  float range = 0;            // of all weights
  std::unique_ptr<PackedBytes> packed;
};

// Kept beside `weights`, float32 (filters, channels / groups, kernel...), by plans that predict.
std::shared_ptr<const LayerWeights> quantized_weights(KernelContext& c, const Int8ConvSet& set, const float* weights,
                                                      const LayerParameters& parameters);

// The same for weights that are levels already: packed alone.
std::shared_ptr<const LayerWeights> packed_weights(KernelContext& c, const Int8ConvSet& set, const int8_t* weights);

}  // namespace kaon::ops
