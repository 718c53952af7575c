// The loops of samples on the CPU, in float and in double.
#pragma once

#include "kaon/engine/run_context.h"
#include "kaon/ops/nn/spatial/kernels/sample_job.h"

namespace kaon::ops {

// out: the samples of data.
template <class T>
void sample_forward(RunContext& run, const SampleJob<T>& job, const T* data, T* out);
// out: the gradient of data.
template <class T>
void sample_backward_data(RunContext& run, const SampleJob<T>& job, const T* head, T* out);
// The gradients of the positions, and of the mask where there is one.
template <class T>
void sample_backward_positions(RunContext& run, const SampleJob<T>& job, const T* head, const T* data, T* positions,
                               T* mask);

}  // namespace kaon::ops
