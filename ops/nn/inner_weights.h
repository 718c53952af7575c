// Weights in the layout that a primitive works in.
#pragma once

#include "kaon/engine/derived.h"
#include "kaon/ops/nn/onednn.h"

namespace kaon {

// What the reorder `to_inner` makes of `weights`, or these themselves when it is empty. A plan that predicts keeps it
// beside the array until that is written, once for all plans of the process; otherwise it is made for this call.
class InnerWeights {
 public:
  InnerWeights(KernelContext& c, const onednn::Primitive& to_inner, const float* weights);
  const float* data() const { return data_; }

 private:
  const float* data_;
  std::shared_ptr<const Derived> kept_;
};

}  // namespace kaon
