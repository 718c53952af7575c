#include "kaon/ops/nn/softmax/softmax.h"

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/softmax/kernels/softmax_call.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Checks the attributes that the softmax family shares and sets the output.
template <class Op>
void infer_softmax(const Op& op, InferContext& c) {
  c.expect_floating();
  const int axis = normalize_axis(op.axis, c.shape(0).ndim(), c.op());
  if (op.temperature && !(*op.temperature > 0)) {
    c.fail_value("temperature must be positive, got " + to_text(*op.temperature));
  }
  const DType in = c.dtype(), out = op.dtype.value_or(in);
  if (!is_floating(out)) c.fail_dtype("dtype must be a floating one, got " + to_text(out));
  if (op.use_length && c.num_inputs() == 1) c.fail_value("use_length must be False: there is no input of lengths");
  if (c.num_inputs() > 1) {
    const Shape& data = c.shape(0);
    Shape rows;
    for (int i = 0; i < data.ndim(); ++i) {
      if (i != axis) rows.push_back(data[i]);
    }
    if (c.shape(1).size() != rows.size()) c.expect_shape(1, rows);
  }
  c.set_output(c.shape(0), out);
}

// The gradient has the output's dtype; it is converted to the data's.
NDArray like_data(NDArray gradient, GradContext& g) {
  const DType dtype = g.input_like(0).dtype();
  return gradient.dtype() == dtype ? gradient : gradient.astype(dtype);
}

void infer_backward(InferContext& c, int axis) {
  c.expect_floating();
  c.expect_same_dtype();
  if (c.shape(0) != c.shape(1)) c.fail("shapes must be equal: " + c.describe_inputs());
  normalize_axis(axis, c.shape(0).ndim(), c.op());
  c.set_output(c.shape(0), c.dtype());
}

void forward(const SoftmaxCall& call, KernelContext& c) {
  softmax_forward(call.kind, call.rows, call.scale, c.in(0), c.num_inputs() > 1 ? &c.in(1) : nullptr, c.out(), c.run);
}
void backward(const SoftmaxCall& call, KernelContext& c) {
  softmax_backward(call.kind, call.rows, call.scale, c.in(0), c.in(1), c.out(), c.run);
}

NDArray sum_along(const NDArray& x, int axis) { return nd.sum(x, {.axis = Shape(axis), .keepdims = true}); }

}  // namespace

constinit const OpDef op::Softmax::def = make_op_def<op::Softmax>();
constinit const OpDef op::Softmin::def = make_op_def<op::Softmin>();
constinit const OpDef op::LogSoftmax::def = make_op_def<op::LogSoftmax>();
constinit const OpDef op::BackwardSoftmax::def = make_op_def<op::BackwardSoftmax>();
constinit const OpDef op::BackwardLogSoftmax::def = make_op_def<op::BackwardLogSoftmax>();
constinit const OpDef op::SoftmaxActivation::def = make_op_def<op::SoftmaxActivation>();
constinit const OpDef op::BackwardSoftmaxActivation::def = make_op_def<op::BackwardSoftmaxActivation>();

void op::Softmax::infer(InferContext& c) const { infer_softmax(*this, c); }
void op::Softmax::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, like_data(nd._backward_softmax(g.head(), g.output(), {.axis = axis, .scale = scale_of(temperature)}), g));
}
void run_cpu(const op::Softmax& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }

void op::Softmin::infer(InferContext& c) const { infer_softmax(*this, c); }
void op::Softmin::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, like_data(nd._backward_softmax(g.head(), g.output(), {.axis = axis, .scale = -scale_of(temperature)}), g));
}
void run_cpu(const op::Softmin& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }

void op::LogSoftmax::infer(InferContext& c) const { infer_softmax(*this, c); }
void op::LogSoftmax::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0,
        like_data(nd._backward_log_softmax(g.head(), g.output(), {.axis = axis, .scale = scale_of(temperature)}), g));
}
void run_cpu(const op::LogSoftmax& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }

void op::BackwardSoftmax::infer(InferContext& c) const { infer_backward(c, axis); }
// Bilinear in head and (y, y): with u the head that arrives here, the part of y is
// scale (u (head - sum(head y)) - head sum(u y)).
void op::BackwardSoftmax::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray& u = g.head();
  const NDArray &head = g.input(0), &y = g.input(1);
  if (g.wants(0)) g.set(0, nd._backward_softmax(u, y, *this));
  if (g.wants(1)) g.set(1, scale * (u * (head - sum_along(head * y, axis)) - head * sum_along(u * y, axis)));
}
void run_cpu(const op::BackwardSoftmax& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }

void op::BackwardLogSoftmax::infer(InferContext& c) const { infer_backward(c, axis); }
// With p = e^y: the part of head is scale (u - sum(u p)), the part of y is -scale u p sum(head).
void op::BackwardLogSoftmax::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray& u = g.head();
  const NDArray p = nd.exp(g.input(1));
  if (g.wants(0)) g.set(0, scale * (u - sum_along(u * p, axis)));
  if (g.wants(1)) g.set(1, -scale * (u * p * sum_along(g.input(0), axis)));
}
void run_cpu(const op::BackwardLogSoftmax& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }

void op::SoftmaxActivation::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, mode == SoftmaxMode::channel ? 2 : 1);
  c.set_output(c.shape(0), c.dtype());
}
void op::SoftmaxActivation::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._backward_SoftmaxActivation(g.head(), g.output(), {.mode = mode}));
}
void run_cpu(const op::SoftmaxActivation& op, KernelContext& c) { forward(call_of(op, c.in(0).shape), c); }

void op::BackwardSoftmaxActivation::infer(InferContext& c) const {
  infer_backward(c, 0);
  c.expect_ndim_at_least(0, mode == SoftmaxMode::channel ? 2 : 1);
}
void run_cpu(const op::BackwardSoftmaxActivation& op, KernelContext& c) { backward(call_of(op, c.in(0).shape), c); }

}  // namespace kaon
