#include "kaon/graph/plan_ops/pad_rows.h"

#include "kaon/ops/cuda/index.cuh"

namespace kaon {

using namespace graph;

void run_cuda(const op::PadRows&, KernelContext& c) {
  const size_t given = std::min(c.in(0).bytes(), c.out().bytes());
  cuda::copy_bytes(c, c.in(0).data, c.out().data, given);
  cuda::zero_bytes(c, c.out().as<char>() + given, c.out().bytes() - given);
}

void run_cuda(const op::TakeRows&, KernelContext& c) {
  cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
}

}  // namespace kaon
