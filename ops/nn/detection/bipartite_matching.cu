// Bipartite matching on CUDA, a thread for each sample: the pairs follow from each other.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/detection/kernels/box_values.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::BipartitePairs& op, KernelContext& c) {
  dispatch_float("_bipartite_pairs", c.in(0).dtype,
                 [&]<class T>() { cuda::for_each(c, c.in(0).shape[0], BipartiteSample<T>(op, c)); });
}

}  // namespace kaon
