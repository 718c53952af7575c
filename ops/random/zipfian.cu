// Distinct classes on CUDA: a thread for each row draws what the CPU draws.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/random/kernels/zipfian.h"
#include "kaon/ops/random/random.h"

namespace kaon {

void run_cuda(const op::SampleUniqueZipfian& op, KernelContext& c) {
  cuda::for_each(c, op.shape[0], ops::zipfian_rows(op.range_max, c));
}

}  // namespace kaon
