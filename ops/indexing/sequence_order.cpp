// SequenceLast and SequenceReverse: rows taken by computed numbers.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void infer_lengths(InferContext& c, bool used, int batch_axis) {
  c.expect_ndim_at_least(0, 2);
  if (!used) return;
  c.expect_shape(1, Shape(c.shape(0)[batch_axis]));
  if (c.dtype(1) == DType::boolean) c.fail_dtype("sequence_length must be numbers, got bool");
}

// 0 to n - 1 as int64.
NDArray counted(int64_t n) { return nd.arange(double(n), {.dtype = DType::int64}); }

NDArray lengths(const NDArray& given, int64_t least, int64_t most) {
  return nd.clip(nd.cast(given, DType::int64), double(least), double(most));
}

// The rows of x, seen as an array of all its steps of all its sequences, with these numbers.
NDArray rows(const NDArray& x, const NDArray& numbers, const Shape& shape) {
  const Shape& s = x.shape();
  const NDArray all = nd._reshape_to(x, {.shape = {s[0] * s[1], s.product(2, s.ndim())}});
  return nd._reshape_to(nd.take(all, numbers), {.shape = shape});
}

}  // namespace

constinit const OpDef op::SequenceLast::def = make_op_def<op::SequenceLast>();

void op::SequenceLast::infer(InferContext& c) const {
  if (axis != 0 && axis != 1) c.fail_value(fmt::format("axis must be 0 or 1, got {}", axis));
  infer_lengths(c, use_sequence_length, 1 - axis);
  const Shape& data = c.shape(0);
  if (data[axis] < 1) c.fail(fmt::format("sequences must have at least one step, got data {}", data.str()));
  Shape out(data[1 - axis]);
  for (int i = 2; i < data.ndim(); ++i) out.push_back(data[i]);
  c.set_output(out, c.dtype());
}

void op::SequenceLast::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const int64_t steps = x.shape()[axis], batch = x.shape()[1 - axis];
  if (!use_sequence_length || x.size() == 0) {
    const NDArray last = nd.slice_axis(x, axis, steps - 1, steps);
    return c.set(nd._reshape_to(last, {.shape = c.output().shape}));
  }
  const NDArray step = lengths(c.input(1), 1, steps) - 1, sequence = counted(batch);
  c.set(rows(x, axis == 0 ? step * double(batch) + sequence : sequence * double(steps) + step, c.output().shape));
}

constinit const OpDef op::SequenceReverse::def = make_op_def<op::SequenceReverse>();

void op::SequenceReverse::infer(InferContext& c) const {
  if (axis != 0) c.fail_value(fmt::format("axis must be 0, got {}", axis));
  infer_lengths(c, use_sequence_length, 1);
  c.set_output(c.shape(0), c.dtype());
}

void op::SequenceReverse::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  if (!use_sequence_length || x.size() == 0) return c.set(nd.reverse(x, {0}));
  const int64_t steps = x.shape()[0], batch = x.shape()[1];
  const NDArray step = nd._reshape_to(counted(steps), {.shape = {steps, 1}});
  const NDArray length = nd._reshape_to(lengths(c.input(1), 0, steps), {.shape = {1, batch}});
  const NDArray from = step + (step < length) * (length - 1 - step * 2);
  const NDArray numbers = from * double(batch) + nd._reshape_to(counted(batch), {.shape = {1, batch}});
  c.set(rows(x, nd._reshape_to(numbers, {.shape = Shape(steps * batch)}), x.shape()));
}

}  // namespace kaon
