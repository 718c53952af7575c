// Averages, reductions without NaN, covariances.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/ops/analysis/analysis.h"
#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/statistics/kernels/chosen_axes.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Average::def = make_op_def<op::Average>();
template <ReduceKind K>
constinit const OpDef op::NanReduce<K>::def = make_op_def<op::NanReduce<K>>();
constinit const OpDef op::Cov::def = make_op_def<op::Cov>();

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 1-D weights for an array of more axes.
bool are_along_axis(const op::Average& op, const Shape& a, const Shape& weights) {
  return op.weighted && weights != a && weights.ndim() == 1;
}

}  // namespace

// --- average

void op::Average::infer(InferContext& c) const {
  const Shape& a = c.shape(0);
  const uint32_t mask = chosen_axes(axis, a.ndim(), c.op());
  const DType result = is_floating(c.dtype()) ? c.dtype() : DType::float32;
  const Shape out = reduced_shape(a, mask, false);
  Shape sums(1);
  if (weighted) {
    c.expect_same_dtype();
    const Shape& weights = c.shape(1);
    if (weights == a) {
      sums = out;
    } else {
      bool fits = weights.ndim() == 1 && axis && axis->ndim() == 1;
      fits = fits && weights[0] == a[normalize_axis((*axis)[0], a.ndim(), c.op())];
      if (!fits) {
        c.fail(fmt::format("weights must have a's shape, or its size along one axis, got {}", c.describe_inputs()));
      }
    }
  }
  c.set_output(0, out, result);
  if (returned) c.set_output(1, sums, result);
}

void op::Average::compose(ComposeContext& c) const {
  const DType dtype = c.output().dtype;
  const NDArray a = in_dtype(c.input(0), dtype);
  const Shape axes = axes_of(chosen_axes(axis, a.ndim(), traits.name.data()));
  NDArray sums;
  if (!weighted) {
    c.set(0, nd._npi_mean(a, {.axis = axes}));
    const double count = double(reduced_size(a.shape(), chosen_axes(axis, a.ndim(), traits.name.data())));
    if (returned) c.set(1, nd.full({1}, count, {.dtype = dtype}));
    return;
  }
  NDArray weights = in_dtype(c.input(1), dtype);
  if (are_along_axis(*this, a.shape(), weights.shape())) {
    Shape along = Shape::filled(a.ndim(), 1);
    along[int(axes[0])] = weights.shape()[0];
    sums = nd._np_sum(weights);
    weights = nd._reshape_to(weights, {.shape = along});
  } else {
    sums = nd._np_sum(weights, {.axis = axes});
  }
  c.set(0, nd.broadcast_div(nd._np_sum(nd.broadcast_mul(a, weights), {.axis = axes}), sums));
  if (returned) c.set(1, sums);
}

// --- nanmean, nanmax, nanmin

template <ReduceKind K>
void op::NanReduce<K>::infer(InferContext& c) const {
  if (K == ReduceKind::mean) c.expect_floating();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  const uint32_t mask = chosen_axes(axis, c.shape(0).ndim(), c.op());
  if (K != ReduceKind::mean) expect_elements(c, mask);
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), c.dtype());
}

template <ReduceKind K>
void op::NanReduce<K>::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const auto extreme = [&](const NDArray& of) {
    if constexpr (K == ReduceKind::max) return nd._np_max(of, {.axis = axis, .keepdims = keepdims});
    else return nd._np_min(of, {.axis = axis, .keepdims = keepdims});
  };
  if (!is_floating(x.dtype())) return c.set(extreme(x));
  const NDArray is_number = x == x;
  const NDArray count = nd._np_sum(is_number, {.axis = axis, .keepdims = keepdims});
  if constexpr (K == ReduceKind::mean) {
    const NDArray numbers = nd.where(is_number, x, nd.zeros_like(x));
    c.set(nd._np_sum(numbers, {.axis = axis, .keepdims = keepdims}) / count);
  } else {
    const double least = K == ReduceKind::max ? -kInfinity : kInfinity;
    const NDArray y = extreme(nd.where(is_number, x, nd.zeros_like(x) + least));
    c.set(nd.where(count, y, nd.zeros_like(y) + std::numeric_limits<double>::quiet_NaN()));
  }
}

// --- cov

void op::Cov::infer(InferContext& c) const {
  c.expect_floating();
  const Shape& m = c.shape(0);
  if (m.ndim() < 1 || m.ndim() > 2) c.fail(fmt::format("m must have one or two dimensions, got shape {}", m.str()));
  const int64_t n = m.ndim() == 1 ? 1 : m[rowvar ? 0 : 1];
  c.set_output(m.ndim() == 1 ? Shape(1) : Shape(n, n), c.dtype());
}

void op::Cov::compose(ComposeContext& c) const {
  const NDArray& given = c.input();
  const bool is_vector = given.ndim() == 1;
  const NDArray m = is_vector ? nd._reshape_to(given, {.shape = Shape(1, given.size())})
                    : rowvar  ? given
                              : nd.transpose(given);
  const NDArray from_mean = nd.broadcast_sub(m, nd._npi_mean(m, {.axis = Shape(1), .keepdims = true}));
  const int64_t n = m.shape()[1] - ddof.value_or(bias ? 0 : 1);
  const NDArray products = nd.matmul(from_mean, nd.transpose(from_mean)) / double(std::max<int64_t>(n, 0));
  c.set(nd._reshape_to(products, {.shape = c.output().shape}));
}

template struct op::NanReduce<ReduceKind::mean>;
template struct op::NanReduce<ReduceKind::max>;
template struct op::NanReduce<ReduceKind::min>;

}  // namespace kaon
