#include "kaon/ops/movement/movement.h"

#include "kaon/ops/cuda/index.cuh"

namespace kaon {

using namespace ops;

namespace {

void copy_all(KernelContext& c) { cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes()); }

}  // namespace

void run_cuda(const op::Reshape&, KernelContext& c) { copy_all(c); }
void run_cuda(const op::ReshapeLike&, KernelContext& c) { copy_all(c); }
void run_cuda(const op::Flatten&, KernelContext& c) { copy_all(c); }
void run_cuda(const op::ExpandDims&, KernelContext& c) { copy_all(c); }
void run_cuda(const op::Squeeze&, KernelContext& c) { copy_all(c); }
void run_cuda(const op::ReshapeTo&, KernelContext& c) { copy_all(c); }

}  // namespace kaon
