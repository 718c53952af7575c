// Reductions as NumPy has them, made of MXNet's.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"
#include "kaon/ops/statistics/kernels/chosen_axes.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

template <ReduceKind K>
constinit const OpDef op::NumpyReduce<K>::def = make_op_def<op::NumpyReduce<K>>();
template <ReduceKind K>
constinit const OpDef op::NumpyExtreme<K>::def = make_op_def<op::NumpyExtreme<K>>();
template <bool Max>
constinit const OpDef op::NumpyArg<Max>::def = make_op_def<op::NumpyArg<Max>>();

namespace {

// x reduced over the axes in `mask`; over none it stays.
template <class Op>
NDArray reduced(const NDArray& x, uint32_t mask) {
  return mask == 0 ? x : nd.call(Op{.axis = axes_of(mask)}, x);
}

void expect_initial(const InferContext& c, const std::optional<double>& initial, DType dtype) {
  if (!initial) return;
  expect_holds(c, "initial", *initial, dtype);
  if (!is_floating(dtype) && *initial != double(int64_t(*initial))) {
    c.fail_value(fmt::format("initial must be a whole number for {}, got {}", name_of(dtype), *initial));
  }
}

}  // namespace

// --- sum, mean, prod

template <ReduceKind K>
void op::NumpyReduce<K>::infer(InferContext& c) const {
  const bool is_mean = K == ReduceKind::mean;
  DType result = c.dtype();
  if (is_mean ? !is_floating(result) : result == DType::boolean) result = is_mean ? DType::float32 : DType::int64;
  result = dtype.value_or(result);
  if (is_mean ? !is_floating(result) : result == DType::boolean) {
    c.fail_dtype(fmt::format("dtype must be one of {}, got {}", is_mean ? "reals" : "numbers", name_of(result)));
  }
  if (is_mean && initial) c.fail_value("a mean has no initial");
  expect_initial(c, initial, result);
  c.set_output(reduced_shape(c.shape(0), chosen_axes(axis, c.shape(0).ndim(), c.op()), keepdims), result);
}

template <ReduceKind K>
void op::NumpyReduce<K>::compose(ComposeContext& c) const {
  const NDArray& a = c.input();
  const auto& [shape, result] = c.output();
  const NDArray x = in_dtype(a, result);
  NDArray y = reduced<Reduce<K>>(x, chosen_axes(axis, x.ndim(), traits.name.data()));
  if (initial) y = K == ReduceKind::prod ? y * *initial : y + *initial;
  c.set(shaped(y, shape));
}

// --- max, min

template <ReduceKind K>
void op::NumpyExtreme<K>::infer(InferContext& c) const {
  const uint32_t mask = chosen_axes(axis, c.shape(0).ndim(), c.op());
  if (!initial) expect_elements(c, mask);
  expect_initial(c, initial, c.dtype());
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), c.dtype());
}

template <ReduceKind K>
void op::NumpyExtreme<K>::compose(ComposeContext& c) const {
  const NDArray& a = c.input();
  const auto& [shape, dtype] = c.output();
  if (a.size() == 0) return c.set(nd.full(shape, initial.value_or(0), {.dtype = dtype}));
  const bool is_bool = dtype == DType::boolean;
  NDArray y =
      reduced<Reduce<K>>(is_bool ? nd.cast(a, DType::uint8) : a, chosen_axes(axis, a.ndim(), traits.name.data()));
  if (initial) y = K == ReduceKind::max ? nd.maximum(y, *initial) : nd.minimum(y, *initial);
  c.set(shaped(is_bool ? nd.cast(y, dtype) : y, shape));
}

// --- argmax, argmin

namespace {

// A dtype with the order of this one that counts to n.
DType counting(DType dtype, int64_t n) {
  const bool is_real = is_floating(dtype);
  if (is_real) return n > 1 << 24 ? DType::float64 : size_of(dtype) < 4 ? DType::float32 : dtype;
  return size_of(dtype) == 8 ? dtype : n > INT32_MAX ? DType::int64 : size_of(dtype) < 4 ? DType::int32 : dtype;
}

}  // namespace

template <bool Max>
void op::NumpyArg<Max>::infer(InferContext& c) const {
  const int ndim = c.shape(0).ndim();
  const uint32_t mask = axis ? bit(normalize_axis(*axis, ndim, c.op())) : (1u << ndim) - 1;
  expect_elements(c, mask);
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), DType::int64);
}

template <bool Max>
void op::NumpyArg<Max>::compose(ComposeContext& c) const {
  const NDArray& data = c.input();
  const DType dtype = counting(data.dtype(), data.size());
  const NDArray x = in_dtype(data, dtype);
  using Arg = std::conditional_t<Max, ArgMax, ArgMin>;
  c.set(nd.cast(nd.call(Arg{.axis = axis, .keepdims = keepdims}, x), DType::int64));
}

template struct op::NumpyReduce<ReduceKind::sum>;
template struct op::NumpyReduce<ReduceKind::mean>;
template struct op::NumpyReduce<ReduceKind::prod>;
template struct op::NumpyExtreme<ReduceKind::max>;
template struct op::NumpyExtreme<ReduceKind::min>;
template struct op::NumpyArg<true>;
template struct op::NumpyArg<false>;

}  // namespace kaon
