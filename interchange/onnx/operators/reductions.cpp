// Reductions over axes, softmax, sums up to each element, order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

using Reduction = Symbol (*)(const Symbol& x, const Shape& axes);

// The axes as an input came with version 18, for ReduceSum with 13.
template <Reduction F, int Moved = 18>
void reduce(Call& c) {
  std::vector<int64_t> axes = axes_of(c, 1, c.rank(), Moved);
  const bool keeps = c.integer("keepdims", 1) != 0;
  if (axes.empty() && c.integer("noop_with_empty_axes", 0) != 0) {
    // over no axis: each element by itself
    const Symbol one = reshaped(c.x(), Shape(c.shape().size(), 1));
    return c.set(reshaped(F(one, Shape(1)), c.shape()));
  }
  if (axes.empty()) {
    axes.resize(size_t(c.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  Shape result;
  for (int i = 0; i < c.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced || keeps) result.push_back(reduced ? 1 : c.shape()[i]);
  }
  if (c.rank() == 0) return c.set(reshaped(F(reshaped(c.x(), Shape(1)), Shape(0)), result));
  c.set(reshaped(F(c.x(), as_shape(axes)), result));
}

double highest_of(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == DType::boolean) return 1;
  const int bits = int(8 * size_of(dtype)) - (ops::is_unsigned(dtype) ? 0 : 1);
  return std::ldexp(1.0, bits) - (bits > 53 ? 1024 : 1);  // the last one that float64 holds
}

double lowest_of(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::boolean || ops::is_unsigned(dtype)) return 0;
  return -std::ldexp(1.0, int(8 * size_of(dtype)) - 1);
}

// max and min of nothing are their neutral elements.
template <bool Largest>
Symbol extreme(const Symbol& x, const Shape& axes) {
  const DType dtype = dtype_of(x);
  if (shape_of(x).size() == 0) {
    Shape rest;
    for (int i = 0; i < rank_of(x); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) rest.push_back(shape_of(x)[i]);
    }
    return full(rest, Largest ? lowest_of(dtype) : highest_of(dtype), dtype);
  }
  if (Largest) return sym._np_max(x, {.axis = axes});
  return sym._np_min(x, {.axis = axes});
}

Symbol sum(const Symbol& x, const Shape& axes) { return sym.sum(x, {.axis = axes}); }

Symbol mean(const Symbol& x, const Shape& axes) {
  const DType dtype = dtype_of(x);
  if (is_floating(dtype)) return sym.mean(x, {.axis = axes});
  int64_t n = 1;
  for (int64_t a : axes) n *= shape_of(x)[int(a)];
  return sym.broadcast_div(sum(x, axes), reshaped(scalar(double(n), dtype), Shape(1)));
}

Symbol prod(const Symbol& x, const Shape& axes) { return sym.prod(x, {.axis = axes}); }
Symbol sum_square(const Symbol& x, const Shape& axes) { return sum(sym.square(x), axes); }
Symbol l1(const Symbol& x, const Shape& axes) { return sum(sym.abs(x), axes); }

Symbol l2(const Symbol& x, const Shape& axes) {
  const DType dtype = dtype_of(x);
  if (is_floating(dtype)) return sym.sqrt(sum_square(x, axes));
  return cast(sym.sqrt(sum_square(cast(x, DType::float64), axes)), dtype);
}

Symbol log_sum(const Symbol& x, const Shape& axes) {
  const DType dtype = dtype_of(x);
  if (is_floating(dtype)) return sym.log(sum(x, axes));
  return cast(sym.log(sum(cast(x, DType::float64), axes)), dtype);
}

Symbol log_sum_exp(const Symbol& x, const Shape& axes) {
  const DType dtype = dtype_of(x);
  if (!is_floating(dtype)) return cast(log_sum_exp(cast(x, DType::float64), axes), dtype);
  if (shape_of(x).size() == 0) return sym.log(sum(x, axes));
  return sym.logsumexp(x, {.axis = axes});
}

template <bool Largest>
void arg_extreme(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  const bool keeps = c.integer("keepdims", 1) != 0, last = c.integer("select_last_index", 0) != 0;
  const Symbol x = last ? sym.reverse(c.x(), Shape(axis)) : c.x();
  Symbol at = Largest ? sym._npi_argmax(x, {.axis = axis}) : sym._npi_argmin(x, {.axis = axis});
  at = cast(at, DType::int64);
  if (last) at = at * -1 + double(c.shape()[axis] - 1);
  c.set(reshaped(at, keeps ? with_dim(c.shape(), axis, 1) : without(c.shape(), axis)));
}

// Before version 13 over all axes from `axis` on, as one.
template <class F>
void softmax_like(Call& c, F&& fn) {
  if (c.shape().size() == 0) return c.set(sym.identity(c.x()));
  if (c.rank() == 0) return c.set(reshaped(fn(reshaped(c.x(), Shape(1)), 0), Shape()));
  if (c.opset() >= 13) return c.set(fn(c.x(), c.axis("axis", -1, c.rank())));
  const int axis = c.axis("axis", 1, c.rank());
  const Shape matrix(c.shape().product(0, axis), c.shape().product(axis, c.rank()));
  c.set(reshaped(fn(reshaped(c.x(), matrix), 1), c.shape()));
}

void softmax(Call& c) {
  softmax_like(c, [](const Symbol& x, int axis) { return sym.softmax(x, {.axis = axis}); });
}

void log_softmax(Call& c) {
  softmax_like(c, [](const Symbol& x, int axis) { return sym.log_softmax(x, {.axis = axis}); });
}

void hardmax(Call& c) {
  softmax_like(c, [](const Symbol& x, int axis) {
    const int64_t n = shape_of(x)[axis];
    const Symbol first = cast(sym._npi_argmax(x, {.axis = axis}), DType::int64);
    const Symbol hot = sym.one_hot(reshaped(first, without(shape_of(x), axis)), n, {.dtype = dtype_of(x)});
    std::vector<int64_t> axes;  // the new last axis goes to its place
    for (int i = 0; i < rank_of(x); ++i) axes.push_back(i < axis ? i : i == axis ? rank_of(x) - 1 : i - 1);
    return transposed(hot, axes);
  });
}

// Sums or products, of those before each element where `exclusive`, from the end where `reverse`.
template <bool Product>
void cumulate(Call& c) {
  const int axis = c.axis(int64_t(c.number(1)), c.rank());
  const bool exclusive = c.integer("exclusive", 0) != 0, reverse = c.integer("reverse", 0) != 0;
  Symbol x = reverse ? sym.reverse(c.x(), Shape(axis)) : c.x();
  if (exclusive && c.shape()[axis] > 0) {
    std::vector<int64_t> before(size_t(c.rank())), after(size_t(c.rank()));
    before[size_t(axis)] = 1;
    x = padded(slice_along(x, axis, 0, c.shape()[axis] - 1), before, after, Product ? 1 : 0);
  }
  x = Product ? sym.cumprod(x, {.axis = axis}) : sym.cumsum(x, {.axis = axis});
  c.set(reverse ? sym.reverse(x, Shape(axis)) : x);
}

void top_k(Call& c) {
  const int axis = c.axis("axis", -1, c.rank());
  const int64_t k = c.opset() < 10 ? c.integer("k", 1) : int64_t(c.number(1));
  if (k < 0 || k > c.shape()[axis]) c.fail(fmt::format("k = {} of {} elements", k, c.shape()[axis]));
  if (k == 0) {
    const Shape none = with_dim(c.shape(), axis, 0);
    c.set(0, Value::of(full(none, 0, c.dtype())));
    return c.set(1, Value::of(full(none, 0, DType::int64)));
  }
  std::vector<int64_t> axes(size_t(c.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[size_t(axis)], axes.back());
  const std::vector<Symbol> both =
      sym._order(transposed(c.x(), axes), {.k = k, .is_ascend = c.integer("largest", 1) == 0, .first = 0});
  c.set(0, transposed(both[0], axes));
  c.set(1, transposed(both[1], axes));
}

constexpr Row reduction_table[] = {
    {"ReduceSum", reduce<sum, 13>},
    {"ReduceMean", reduce<mean>},
    {"ReduceProd", reduce<prod>},
    {"ReduceMax", reduce<extreme<true>>},
    {"ReduceMin", reduce<extreme<false>>},
    {"ReduceL1", reduce<l1>},
    {"ReduceL2", reduce<l2>},
    {"ReduceLogSum", reduce<log_sum>},
    {"ReduceLogSumExp", reduce<log_sum_exp>},
    {"ReduceSumSquare", reduce<sum_square>},
    {"ArgMax", arg_extreme<true>},
    {"ArgMin", arg_extreme<false>},
    {"Softmax", softmax},
    {"LogSoftmax", log_softmax},
    {"Hardmax", hardmax},
    {"CumSum", cumulate<false>},
    {"CumProd", cumulate<true>},
    {"TopK", top_k},
};

}  // namespace

std::span<const Row> reduction_rows() { return reduction_table; }

}  // namespace kaon::onnx::convert
