// The gradient of attention on the CPU.
#pragma once

#include "kaon/ops/nn/attention/kernels/attention_call.h"

namespace kaon::ops {

struct AttentionBackward {
  AttentionSizes sizes;
  DType dtype;
  const void *head, *output, *logsum, *query, *key, *value;
  AttentionMask mask;
  AttentionDropout dropout;
  const int64_t* lengths;
  void *d_query, *d_key, *d_value;  // each may be null
};

void attention_backward(const AttentionBackward& call, RunContext& run);

}  // namespace kaon::ops
