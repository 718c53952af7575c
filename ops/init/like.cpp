// Arrays that follow from the shape of another one.
#include <fmt/format.h>

#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/init/init.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::ArangeLike::def = make_op_def<op::ArangeLike>();

void op::ArangeLike::infer(InferContext& c) const {
  if (repeat < 1) c.fail_value(fmt::format("repeat must be at least 1, got {}", repeat));
  if (step == 0) c.fail_value("step must not be 0");
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool");
  const Shape& data = c.shape(0);
  c.set_output(axis ? Shape(data[normalize_axis(*axis, data.ndim(), c.op())]) : data, c.dtype());
}

void op::ArangeLike::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  const int64_t n = shape.size(), distinct = (n + repeat - 1) / repeat;
  const double stop = start + step * (double(distinct) - 0.5);  // between the last one and the next
  NDArray y = n == 0 ? nd.zeros(Shape(0), {.dtype = dtype})
                     : nd.arange(start, stop, {.step = step, .repeat = repeat, .dtype = dtype});
  if (n < distinct * repeat) y = nd.slice_axis(y, 0, 0, n);
  c.set(nd._reshape_to(y, {.shape = shape}));
}

constinit const OpDef op::ShapeArray::def = make_op_def<op::ShapeArray>();

void op::ShapeArray::infer(InferContext& c) const { c.set_output(Shape(c.shape(0).ndim()), DType::int64); }

void op::ShapeArray::compose(ComposeContext& c) const {
  const Shape& s = c.input().shape();
  c.set(nd.array(std::vector<int64_t>(s.begin(), s.end()), Shape(s.ndim()), {.dtype = DType::int64}));
}

constinit const OpDef op::SizeArray::def = make_op_def<op::SizeArray>();

void op::SizeArray::infer(InferContext& c) const { c.set_output(Shape(1), DType::int64); }

void op::SizeArray::compose(ComposeContext& c) const {
  c.set(nd.array(std::vector<int64_t>{c.input().size()}, Shape(1), {.dtype = DType::int64}));
}

}  // namespace kaon
