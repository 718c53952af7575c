// Proposals on CUDA: a thread for each anchor, and for each proposal.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/region/kernels/proposal_values.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::ProposalRows& op, KernelContext& c) {
  dispatch_float("_proposal_rows", c.in(0).dtype,
                 [&]<class T>() { cuda::for_each(c, c.out().size() / 5, ProposalRow<T, accumulate_t<T>>(op, c)); });
}

void run_cuda(const op::ProposalRois& op, KernelContext& c) {
  dispatch_float("_proposal_rois", c.in(0).dtype, [&]<class T>() {
    cuda::for_each(c, c.out().shape[0],
                   ProposalRoi<T>{op.count, c.in(0).shape[1], c.in(0).as<const T>(), c.in(1).as<const int64_t>(),
                                  c.out().as<T>(), c.out(1).as<T>()});
  });
}

}  // namespace kaon
