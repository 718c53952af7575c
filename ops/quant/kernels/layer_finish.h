// What a quantised layer does with its sums.
#pragma once

#include "kaon/ops/quant/kernels/int8_conv.h"
#include "kaon/ops/quant/quant.h"

namespace kaon::ops {

// y = postsum(act(sums + bias) + addend), in levels of the result or as floats.
struct LayerFinish {
  TensorView out;
  bool in_rows = false;                // channels of a position are together in memory
  int64_t filters = 0, positions = 0;  // of an image of the result
  const int32_t* bias = nullptr;
  bool is_bias_whole = false;  // added to the sums as whole numbers; else as floats
  // By filter: from sums to levels of the result, or to units where act is not homogeneous; null: they are levels.
  const float* scale = nullptr;
  float unit = 1;  // levels of the result per unit; 1 for floats
  float zero = 0;  // the level that stands for 0; other than 0 without addend, with none or relu as act
  FusedKind act = FusedKind::none, postsum = FusedKind::none;
  double act_alpha = 0, postsum_alpha = 0;
  const TensorView* addend = nullptr;  // levels
  float addend_scale = 1;

  // On the thread that has computed the sums.
  void operator()(const Int8Sums& part) const;

 private:
  bool is_exact() const;
  void write(const Int8Sums& part, const void* result) const;
};

// Whether results are never negative.
bool is_nonnegative(FusedKind kind);

}  // namespace kaon::ops
