#include "kaon/ops/indexing/indexing.h"

#include <algorithm>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Pick::def = make_op_def<op::Pick>();
constinit const OpDef op::PickGrad::def = make_op_def<op::PickGrad>();
constinit const OpDef op::BatchTake::def = make_op_def<op::BatchTake>();
constinit const OpDef op::OneHot::def = make_op_def<op::OneHot>();

namespace {

constexpr int64_t pick_grain = 1 << 15;

// Checks mode and index against the data's shape; returns the axis.
int check_pick(const InferContext& c, const Shape& data, int axis, IndexMode mode) {
  if (mode == IndexMode::raise) c.fail_value("mode must be clip or wrap, got raise");
  if (c.dtype(1) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  const int at = normalize_axis(axis, data.ndim(), c.op());
  Shape kept = data, reduced;
  kept[at] = 1;
  for (int i = 0; i < data.ndim(); ++i) {
    if (i != at) reduced.push_back(data[i]);
  }
  if (reduced.empty()) reduced.push_back(1);
  if (c.shape(1) != kept && c.shape(1) != reduced) {
    c.fail(fmt::format("index must have shape {} or {}, got {}", reduced.str(), kept.str(), c.shape(1).str()));
  }
  if (data[at] == 0 && reduced.size() > 0) c.fail(fmt::format("cannot pick from axis {} of shape {}", at, data.str()));
  return at;
}

// visit(picked element of the data, k) for every index k.
template <class Visit>
void for_each_pick(KernelContext& c, const Shape& data, int at, IndexMode mode, const char* op, Visit visit) {
  const int64_t n = data[at], inner = data.product(at + 1, data.ndim()), count = c.in(1).size();
  const int64_t* index = load_indices(c, c.in(1), n, mode, op);
  c.run.parallel_for(count, pick_grain, [&](int64_t k, int64_t end) {
    for (; k < end; ++k) visit((k / inner * n + index[k]) * inner + k % inner, k);
  });
}

void run_pick(KernelContext& c, int at, IndexMode mode, const char* op) {
  dispatch_width(c.out().dtype, [&]<class T>() {
    const T* in = c.in(0).as<T>();
    T* out = c.out().as<T>();
    for_each_pick(c, c.in(0).shape, at, mode, op, [&](int64_t i, int64_t k) { out[k] = in[i]; });
  });
}

}  // namespace

IndexUse op::Pick::index_use(std::span<const TensorView> inputs) const {
  const Shape& s = inputs[0].shape;
  if (mode != IndexMode::clip) return {};
  return {1, s[normalize_axis(axis, s.ndim(), "pick")]};
}

void op::Pick::infer(InferContext& c) const {
  const Shape& data = c.shape(0);
  const int at = check_pick(c, data, axis, mode);
  Shape out;
  for (int i = 0; i < data.ndim(); ++i) {
    if (i != at) {
      out.push_back(data[i]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  if (out.empty()) out.push_back(1);
  c.set_output(out, c.dtype());
}
void op::Pick::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_pick(g.head(), g.input(1), {.shape = g.input_like(0).shape(), .axis = axis, .mode = mode}));
}
void run_cpu(const op::Pick& op, KernelContext& c) {
  run_pick(c, normalize_axis(op.axis, c.in(0).shape.ndim(), "pick"), op.mode, "pick");
}

void op::PickGrad::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  check_pick(c, shape, axis, mode);
  if (c.shape(0).size() != c.shape(1).size()) c.fail("head and index differ in size: " + c.describe_inputs());
  c.set_output(shape, c.dtype());
}
void op::PickGrad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray picked = nd.pick(g.head(), g.input(1), {.axis = axis, .mode = mode});
  g.set(0, nd._reshape_to(picked, {.shape = g.input_like(0).shape()}));
}
void run_cpu(const op::PickGrad& op, KernelContext& c) {
  zero_bytes(c.run, c.out().data, c.out().bytes());
  dispatch_width(c.out().dtype, [&]<class T>() {
    const T* head = c.in(0).as<T>();
    T* out = c.out().as<T>();
    for_each_pick(c, op.shape, normalize_axis(op.axis, op.shape.ndim(), "_backward_pick"), op.mode, "_backward_pick",
                  [&](int64_t i, int64_t k) { out[i] = head[k]; });
  });
}

void op::BatchTake::infer(InferContext& c) const {
  c.expect_ndim(0, 2);
  check_pick(c, c.shape(0), 1, IndexMode::clip);
  c.set_output(c.shape(1), c.dtype());
}
void op::BatchTake::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_pick(g.head(), g.input(1), {.shape = g.input_like(0).shape(), .axis = 1}));
}
void run_cpu(const op::BatchTake&, KernelContext& c) { run_pick(c, 1, IndexMode::clip, "batch_take"); }

void op::OneHot::infer(InferContext& c) const {
  if (depth < 0) c.fail_value(fmt::format("depth must not be negative, got {}", depth));
  if (c.dtype() == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  expect_holds(c, "on_value", on_value, dtype);
  expect_holds(c, "off_value", off_value, dtype);
  Shape out = c.shape(0);
  out.push_back(depth);
  c.set_output(out, dtype);
}
void run_cpu(const op::OneHot& op, KernelContext& c) {
  dispatch_all("one_hot", c.in(0).dtype, [&]<class I>() {
    const I* index = c.in(0).as<I>();
    dispatch_width(op.dtype, [&]<class T>() {
      const T on = T(element_bits(op.on_value, op.dtype)), off = T(element_bits(op.off_value, op.dtype));
      T* out = c.out().as<T>();
      c.run.parallel_for(c.in(0).size(), std::max<int64_t>(1, pick_grain / std::max<int64_t>(1, op.depth)),
                         [&](int64_t k, int64_t end) {
                           for (; k < end; ++k) {
                             std::fill_n(out + k * op.depth, op.depth, off);
                             const double i = double(accumulate_t<I>(index[k]));
                             if (i > -1 && i < double(op.depth)) out[k * op.depth + int64_t(i)] = on;
                           }
                         });
    });
  });
}

}  // namespace kaon
