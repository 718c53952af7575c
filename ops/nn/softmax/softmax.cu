#include "kaon/ops/nn/softmax/softmax.h"

#include "kaon/ops/nn/softmax/kernels/softmax_call.h"

namespace kaon {

using namespace ops;
namespace {

void forward(const SoftmaxCall& call, KernelContext& c) {
  cuda::softmax_forward(call.kind, call.rows, call.scale, c.in(0), c.num_inputs() > 1 ? &c.in(1) : nullptr, c.out(), c);
}
void backward(const SoftmaxCall& call, KernelContext& c) {
  cuda::softmax_backward(call.kind, call.rows, call.scale, c.in(0), c.in(1), c.out(), c);
}

}  // namespace

void run_cuda(const op::Softmax& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::Softmin& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::LogSoftmax& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::BackwardSoftmax& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::BackwardLogSoftmax& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::SoftmaxActivation& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }
void run_cuda(const op::BackwardSoftmaxActivation& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }

}  // namespace kaon
