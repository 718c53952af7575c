#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise/kernels/select_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
void clip_typed(const void* attrs, const void* const* in, void* out, size_t n) {
  const op::Clip& op = *static_cast<const op::Clip*>(attrs);
  T low, high;
  clip_bounds(op.a_min, op.a_max, low, high);
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) y[i] = clip_value(x[i], low, high);
}

void clip_backward_double(const void* attrs, const void* const* in, void* out, size_t n) {
  const op::ClipBackward& op = *static_cast<const op::ClipBackward*>(attrs);
  const double *head = static_cast<const double*>(in[0]), *x = static_cast<const double*>(in[1]);
  double* y = static_cast<double*>(out);
  for (size_t i = 0; i < n; ++i) y[i] = clip_backward_value(head[i], x[i], op.a_min, op.a_max);
}

// Bytes 1 and 0 for the n elements of a condition from `first` on.
void make_mask(const TensorView& condition, int64_t first, size_t n, uint8_t* mask) {
  dispatch_width(condition.dtype, [&]<class C>() {
    const C truth = is_floating(condition.dtype) ? C(C(~C(0)) >> 1) : C(~C(0));  // not the sign of a zero
    const C* c = condition.as<const C>() + first;
    for (size_t i = 0; i < n; ++i) mask[i] = (c[i] & truth) != 0;
  });
}

template <class T>
void select_masked(KernelContext& c) {
  const T *x = c.in(1).as<T>(), *y = c.in(2).as<T>();
  T* out = c.out().as<T>();
  c.run.parallel_for(c.out().size(), pointwise_grain, [&](int64_t begin, int64_t end) {
    uint8_t mask[pointwise_tile];
    for (int64_t i = begin; i < end; i += int64_t(pointwise_tile)) {
      const int64_t n = std::min(int64_t(pointwise_tile), end - i);
      make_mask(c.in(0), i, size_t(n), mask);
      for (int64_t j = 0; j < n; ++j) {  // without branches
        const T from_x = T(T(0) - T(mask[j]));
        out[i + j] = T((x[i + j] & from_x) | (y[i + j] & T(~from_x)));
      }
    }
  });
}

void select_rows(KernelContext& c) {
  const int64_t rows = c.in(0).size();
  const size_t bytes = c.out().bytes() / size_t(rows);
  const int64_t grain = std::max<int64_t>(1, int64_t(256 * 1024 / std::max<size_t>(1, bytes)));
  c.run.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      uint8_t mask;
      make_mask(c.in(0), r, 1, &mask);
      const char* from = c.in(mask ? 1 : 2).as<const char>() + size_t(r) * bytes;
      char* to = c.out().as<char>() + size_t(r) * bytes;
      if (from != to) std::memcpy(to, from, bytes);
    }
  });
}

void expect_numbers(InferContext& c) {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
}

void expect_bounds(InferContext& c, double a_min, double a_max) {
  if (!(a_min <= a_max)) c.fail_value(fmt::format("a_min must not exceed a_max, got {} and {}", a_min, a_max));
}

}  // namespace

constinit const OpDef op::Where::def = make_op_def<op::Where>();
constinit const OpDef op::Clip::def = make_op_def<op::Clip>();
constinit const OpDef op::ClipBackward::def = make_op_def<op::ClipBackward>();

void op::Where::infer(InferContext& c) const {
  if (c.dtype(1) != c.dtype(2)) {
    c.fail_dtype(
        fmt::format("x and y must have one dtype, got {} and {}; use cast", name_of(c.dtype(1)), name_of(c.dtype(2))));
  }
  c.expect_shape(2, c.shape(1));
  const Shape &condition = c.shape(0), &x = c.shape(1);
  const bool rows = condition.ndim() == 1 && x.ndim() > 1 && condition[0] == x[0];
  if (!rows) c.expect_shape(0, x);
  c.set_output(x, c.dtype(1));
}

void op::Where::grad(GradContext& g) const {
  const NDArray& condition = g.input(0);
  if (g.wants(1)) g.set(1, nd.where(condition, g.head(), nd.zeros_like(g.head())));
  if (g.wants(2)) g.set(2, nd.where(condition, nd.zeros_like(g.head()), g.head()));
}

FusedForms op::Where::fused_forms(const RegisterKernels& k) const { return {{.three = k.where}, select_tiles().where}; }

std::optional<CudaExpression> op::Where::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("({} != 0 ? {} : {})", a.in[0], a.in[1], a.in[2]);
}

void run_cpu(const op::Where&, KernelContext& c) {
  if (c.out().size() == 0) return;
  if (c.in(0).shape != c.in(1).shape) return select_rows(c);
  if (c.in(0).dtype == DType::float32 && c.out().dtype == DType::float32) {
    return run_pointwise({.float32 = select_tiles().where}, nullptr, c);
  }
  dispatch_width(c.out().dtype, [&]<class T>() { select_masked<T>(c); });
}

void op::Clip::infer(InferContext& c) const {
  expect_numbers(c);
  expect_bounds(c, a_min, a_max);
  if (!is_floating(c.dtype()) && std::ceil(a_min) > std::floor(a_max)) {
    c.fail_value(fmt::format("no integer lies between a_min {} and a_max {}", a_min, a_max));
  }
  c.set_output(c.shape(0), c.dtype());
}

void op::Clip::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd._backward_clip(g.head(), g.input(0), {.a_min = a_min, .a_max = a_max}));
}

FusedForms op::Clip::fused_forms(const RegisterKernels& k) const {
  FusedForms forms{{.one = k.clip}, select_tiles().clip};
  forms.numbers = {float(a_min), float(a_max)};
  return forms;
}

std::optional<CudaExpression> op::Clip::cuda_expression(const ExpressionArgs& a) const {
  return dispatch_all("fuse", a.dtype, [&]<class T>() {
    accumulate_t<T> low, high;
    clip_bounds(a_min, a_max, low, high);
    return fmt::format("clip_value<{}>({}, {}, {})", a.type(), a.in[0], cuda_literal(low), cuda_literal(high));
  });
}

void run_cpu(const op::Clip& op, KernelContext& c) {
  PointwiseKernels kernels{.float32 = select_tiles().clip, .float64 = &clip_typed<double>};
  kernels.set_integers([]<class T>() -> TypedFn { return &clip_typed<T>; });
  run_pointwise(kernels, &op, c);
}

void op::ClipBackward::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_shape(1, c.shape(0));
  expect_bounds(c, a_min, a_max);
  c.set_output(c.shape(0), c.dtype());
}

void op::ClipBackward::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd._backward_clip(g.head(), g.input(1), *this));
}

FusedForms op::ClipBackward::fused_forms(const RegisterKernels& k) const {
  FusedForms forms{k.clip_backward, select_tiles().clip_backward};
  forms.numbers = {float(a_min), float(a_max)};
  return forms;
}

std::optional<CudaExpression> op::ClipBackward::cuda_expression(const ExpressionArgs& a) const {
  return two_number_expression("clip_backward_value", a, a_min, a_max);
}

void run_cpu(const op::ClipBackward& op, KernelContext& c) {
  const PointwiseKernels kernels{.float32 = select_tiles().clip_backward, .float64 = &clip_backward_double};
  run_pointwise(kernels, &op, c);
}

}  // namespace kaon
