// Attention on the CPU, forward.
#pragma once

#include "kaon/ops/nn/attention/kernels/attention_call.h"

namespace kaon::ops {

// The valid keys of each sample, in workspace.
const int64_t* load_valid_lengths(KernelContext& c, const TensorView* given, int64_t batch, int64_t m);

struct AttentionForward {
  AttentionSizes sizes;
  DType dtype;
  const void *query, *key, *value;
  AttentionMask mask;
  AttentionDropout dropout;
  const int64_t* lengths;
  void* output;
  void* logsum;  // of the accumulating dtype; may be null
};

void attention_forward(const AttentionForward& call, RunContext& run);

}  // namespace kaon::ops
