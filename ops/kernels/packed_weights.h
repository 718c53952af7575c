// Weights in the layout that a kernel works in.
#pragma once

#include "kaon/engine/buffer/packed_cache.h"
#include "kaon/ops/kernels/onednn.h"

namespace kaon::ops {

// A plan that predicts keeps them beside the array until that is written, once for all plans of the process; otherwise
// they are made for this call.
class PackedWeights {
 public:
  // The weights after the reorder `to_inner`, or `weights` themselves when it is empty.
  PackedWeights(KernelContext& c, const onednn::Primitive& to_inner, const float* weights);
  // The result of make(weights, result): a tensor `inner`, by which it is found among others made of `plain`.
  PackedWeights(KernelContext& c, const onednn::Desc& plain, const onednn::Desc& inner,
                FunctionRef<void(const float*, float*)> make, const float* weights);
  const float* data() const { return data_; }

 private:
  void obtain(KernelContext& c, const onednn::Desc& plain, const onednn::Desc& inner,
              FunctionRef<void(const float*, float*)> make);

  const float* data_;
  std::shared_ptr<const PackedData> kept_;
};

}  // namespace kaon::ops
