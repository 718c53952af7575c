#include "kaon/ops/movement/movement.h"

#include <vector>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Concat::def = make_op_def<op::Concat>();
constinit const OpDef op::Stack::def = make_op_def<op::Stack>();
constinit const OpDef op::SliceChannel::def = make_op_def<op::SliceChannel>();

namespace {

void expect_count(const InferContext& c, int num_args) {
  if (c.num_inputs() == 0) c.fail_value("needs at least one array");
  if (num_args != 0 && num_args != c.num_inputs()) {
    c.fail_value(fmt::format("num_args is {}, got {} arrays", num_args, c.num_inputs()));
  }
  c.expect_same_dtype();
}

// Copies a dense block of `outer` rows of `n` elements between two arrays of wider rows.
void copy_block(RunContext& run, int64_t outer, int64_t n, const void* src, int64_t src_row, void* dst, int64_t dst_row,
                size_t width) {
  StridedCopy copy;
  copy.dims.push(outer, src_row, dst_row);
  copy.dims.push(n, 1, 1);
  strided_copy(run, copy, src, dst, width);
}

// Copies the inputs one after the other into each row of the output.
void join(KernelContext& c, int64_t outer) {
  if (outer == 0) return;
  const size_t width = size_of(c.out().dtype);
  const int64_t row = c.out().size() / outer;
  char* dst = c.out().as<char>();
  for (const TensorView& in : c.inputs) {
    const int64_t n = in.size() / outer;
    copy_block(c.run, outer, n, in.data, n, dst, row, width);
    dst += size_t(n) * width;
  }
}

}  // namespace

void op::Concat::infer(InferContext& c) const {
  expect_count(c, num_args);
  Shape out = c.shape(0);
  const int axis = normalize_axis(dim, out.ndim(), c.op());
  for (int i = 1; i < c.num_inputs(); ++i) {
    Shape expected = c.shape(0);
    const Shape& given = c.shape(i);
    if (given.ndim() == expected.ndim()) {
      for (int d = 0; d < given.ndim(); ++d) {
        if (d == axis || given[d] == expected[d] || given[d] < 0 || expected[d] < 0) continue;
        c.fail(fmt::format("all dimensions but dim {} must be equal, input 0 is {}, input {} is {}", axis,
                           expected.str(), i, given.str()));
      }
      expected[axis] = given[axis];
    }
    c.expect_shape(i, expected);
    out[axis] += c.shape(i)[axis];
  }
  c.set_output(out, c.dtype());
}

void op::Concat::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const int axis = normalize_axis(dim, g.input_like(0).ndim(), "Concat");
  int64_t begin = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const int64_t end = begin + g.input_like(i).shape()[axis];
    if (g.wants(i)) g.set(i, nd.slice_axis(g.head(), axis, begin, end));
    begin = end;
  }
}

void run_cpu(const op::Concat& op, KernelContext& c) {
  join(c, c.out().shape.product(0, normalize_axis(op.dim, c.out().shape.ndim(), "Concat")));
}

void op::Stack::infer(InferContext& c) const {
  expect_count(c, num_args);
  const Shape& in = c.shape(0);
  for (int i = 1; i < c.num_inputs(); ++i) c.expect_shape(i, in);
  const int at = normalize_axis(axis, in.ndim() + 1, c.op());
  Shape out;
  for (int i = 0; i <= in.ndim(); ++i) {
    if (i == at) out.push_back(c.num_inputs());
    if (i < in.ndim()) out.push_back(in[i]);
  }
  c.set_output(out, c.dtype());
}

void op::Stack::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const Shape& shape = g.input_like(0).shape();
  const int at = normalize_axis(axis, shape.ndim() + 1, "stack");
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (g.wants(i)) g.set(i, nd._reshape_to(nd.slice_axis(g.head(), at, i, i + 1), {.shape = shape}));
  }
}

void run_cpu(const op::Stack& op, KernelContext& c) {
  join(c, c.out().shape.product(0, normalize_axis(op.axis, c.out().shape.ndim(), "stack")));
}

void op::SliceChannel::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  const int at = normalize_axis(axis, in.ndim(), c.op());
  if (num_outputs < 1) c.fail_value(fmt::format("num_outputs must be at least 1, got {}", num_outputs));
  if (in[at] % num_outputs != 0 || (squeeze_axis && in[at] != num_outputs)) {
    c.fail(fmt::format("axis {} of shape {} cannot be split into {} parts{}", at, in.str(), num_outputs,
                       squeeze_axis ? " of size 1" : ""));
  }
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    if (i != at) {
      out.push_back(in[i]);
    } else if (!squeeze_axis) {
      out.push_back(in[i] / num_outputs);
    }
  }
  if (out.empty()) out.push_back(1);
  for (int i = 0; i < num_outputs; ++i) c.set_output(i, out, c.dtype());
}

void op::SliceChannel::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  std::vector<NDArray> heads;
  for (int i = 0; i < num_outputs; ++i) heads.push_back(g.head(i));
  const Shape& shape = g.input_like(0).shape();
  const int at = normalize_axis(axis, shape.ndim(), "SliceChannel");
  if (squeeze_axis) {
    g.set(0, nd._reshape_to(nd.stack(heads, {.axis = shape.ndim() > 1 ? at : 0}), {.shape = shape}));
  } else {
    g.set(0, nd.concat(heads, {.dim = at}));
  }
}

void run_cpu(const op::SliceChannel& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const int at = normalize_axis(op.axis, in.shape.ndim(), "SliceChannel");
  const int64_t outer = in.shape.product(0, at), row = in.shape.product(at, in.shape.ndim()), n = row / op.num_outputs;
  const size_t width = size_of(in.dtype);
  for (int i = 0; i < op.num_outputs; ++i) {
    const TensorView& out = c.out(i);
    if (out.data) copy_block(c.run, outer, n, in.as<char>() + size_t(i * n) * width, row, out.data, n, width);
  }
}

}  // namespace kaon
