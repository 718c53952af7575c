// Statistics of an array's elements: truth, variance, quantiles, counts, and running products and extrema.
#pragma once

#include <optional>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"
#include "kaon/ops/reduce/reduce.h"

namespace KAON_API kaon {

// --- any and all: is an element, are all elements other than 0? NaN is.

namespace op {
// Over the axes in `axis`, over all of them without it: bool. Of nothing, `any` is false and `all` true. Every dtype.
template <bool All>
struct Truth {
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = All ? "_np_all" : "_np_any",
                                   .flat = true,
                                   .aliases = All ? ops::Names("all") : ops::Names("any", "_np_sometrue")};
  static constexpr void fields(auto field) {
    field("axis", &Truth::axis);
    field("keepdims", &Truth::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.names_first(*axis); }
};
using Any = Truth<false>;
using All = Truth<true>;
}  // namespace op

namespace ops {
void run_truth(bool all, const std::optional<Shape>& axis, KernelContext& c);
void run_truth_cuda(bool all, const std::optional<Shape>& axis, KernelContext& c);
}  // namespace ops

template <bool All>
void run_cpu(const op::Truth<All>& op, KernelContext& c) {
  ops::run_truth(All, op.axis, c);
}
template <bool All>
void run_cuda(const op::Truth<All>& op, KernelContext& c) {
  ops::run_truth_cuda(All, op.axis, c);
}

// --- Reductions as NumPy has them: of every dtype, in another one, from an initial value.

namespace ops {
constexpr OpTraits numpy_reduce_traits(ReduceKind kind) {
  OpTraits t{.name = "_np_sum", .inputs = Names("a")};
  switch (kind) {
    case ReduceKind::mean: return t.name = "_npi_mean", t;
    case ReduceKind::prod: return t.name = "_np_prod", t.aliases = Names("_np_product"), t;
    case ReduceKind::max: return t.name = "_np_max", t.aliases = Names("_np_amax"), t;
    case ReduceKind::min: return t.name = "_np_min", t.aliases = Names("_np_amin"), t;
    default: return t;
  }
}
}  // namespace ops

namespace op {
// sum, mean and prod: the elements are cast to `dtype` first; without it, it is that of the array, where sums and
// products of bool are int64, and means of integers and bool float32. `initial` is another element; mean has none.
template <ops::ReduceKind K>
struct NumpyReduce {
  std::optional<Shape> axis{};
  std::optional<DType> dtype{};
  ops::Flag keepdims = false;
  std::optional<double> initial{};
  static constexpr OpTraits traits = ops::numpy_reduce_traits(K);
  static constexpr void fields(auto field) {
    field("axis", &NumpyReduce::axis);
    field("dtype", &NumpyReduce::dtype);
    field("keepdims", &NumpyReduce::keepdims);
    field("initial", &NumpyReduce::initial);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using NumpySum = NumpyReduce<ops::ReduceKind::sum>;
using NumpyMean = NumpyReduce<ops::ReduceKind::mean>;
using NumpyProd = NumpyReduce<ops::ReduceKind::prod>;

// The largest or smallest element, in the dtype of the array, which may be bool. A NaN wins.
template <ops::ReduceKind K>
struct NumpyExtreme {
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  std::optional<double> initial{};
  static constexpr OpTraits traits = ops::numpy_reduce_traits(K);
  static constexpr void fields(auto field) {
    field("axis", &NumpyExtreme::axis);
    field("keepdims", &NumpyExtreme::keepdims);
    field("initial", &NumpyExtreme::initial);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using NumpyMax = NumpyExtreme<ops::ReduceKind::max>;
using NumpyMin = NumpyExtreme<ops::ReduceKind::min>;

// argmax and argmin in int64, of arrays of any length.
template <bool Max>
struct NumpyArg {
  std::optional<int> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = Max ? "_npi_argmax" : "_npi_argmin"};
  static constexpr void fields(auto field) {
    field("axis", &NumpyArg::axis);
    field("keepdims", &NumpyArg::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using NumpyArgMax = NumpyArg<true>;
using NumpyArgMin = NumpyArg<false>;

// --- var and std; logsumexp.

// var: sum of (x - mean)^2 / max(n - ddof, 0) over the axes in `axis`, over all of them without it; std: its root. In
// two passes, in float32 or float64, then cast to `dtype`: a floating one; without it that of the array, float32 for
// integers and bool. The gradient of std is 0 where all elements are equal.
template <bool Root>
struct Deviation {
  std::optional<Shape> axis{};
  std::optional<DType> dtype{};
  int ddof = 0;
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = Root ? "_npi_std" : "_npi_var",
                                   .inputs = ops::Names("a"),
                                   .aliases = Root ? ops::Names("std") : ops::Names("var")};
  static constexpr void fields(auto field) {
    field("axis", &Deviation::axis);
    field("dtype", &Deviation::dtype);
    field("ddof", &Deviation::ddof);
    field("keepdims", &Deviation::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using Var = Deviation<false>;
using Std = Deviation<true>;

// log(sum(e^x)) over the axes without overflow: m + log(sum(e^(x - m))), m the largest element. Floating dtypes; -inf
// of nothing, and of -inf alone, where the gradient is 0.
struct LogSumExp {
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "logsumexp", .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &LogSumExp::axis);
    field("keepdims", &LogSumExp::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- Quantiles.

// Which number stands between two elements: on the line through them; the smaller, the larger; the mean; the nearer
// one, of two equally near ones the larger.
enum class Interpolation : uint8_t { higher, linear, lower, midpoint, nearest };
constexpr std::array<std::string_view, 5> enum_names(Interpolation) {
  return {"higher", "linear", "lower", "midpoint", "nearest"};
}

namespace op {
// The element at position q (n - 1) of the n elements in order over the axes in `axis`, over all of them without it,
// between two elements as `interpolation` says; NaN where an element is NaN. q is in [0, 1]: the attribute (ValueError
// outside), or an array of no or one dimension, whose quantiles are along a new first axis, NaN for q outside. float64
// for float64, float32 for other numbers. The gradient goes to the elements that are read.
struct Quantile {
  std::optional<double> q{};
  std::optional<Shape> axis{};
  Interpolation interpolation = Interpolation::linear;
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "quantile", .inputs = ops::Names("a", "q"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("q", &Quantile::q);
    field("axis", &Quantile::axis);
    field("interpolation", &Quantile::interpolation);
    field("keepdims", &Quantile::keepdims);
  }
  static const OpDef def;
  int num_inputs() const { return q ? 1 : 2; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same with q in percent, [0, 100].
struct Percentile {
  std::optional<Shape> axis{};
  Interpolation interpolation = Interpolation::linear;
  ops::Flag keepdims = false;
  std::optional<double> q_scalar{};
  static constexpr OpTraits traits{
      .name = "_npi_percentile", .inputs = ops::Names("a", "q"), .aliases = ops::Names("percentile")};
  static constexpr void fields(auto field) {
    field("axis", &Percentile::axis);
    field("interpolation", &Percentile::interpolation);
    field("keepdims", &Percentile::keepdims);
    field("q_scalar", &Percentile::q_scalar);
  }
  static const OpDef def;
  int num_inputs() const { return q_scalar ? 1 : 2; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The quantile 0.5: of an even number of elements the mean of the two in the middle.
struct Median {
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "median", .inputs = ops::Names("a"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &Median::axis);
    field("keepdims", &Median::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- histogram: how many elements lie in each bin.

namespace ops {
struct Interval {
  double low = 0, high = 1;
  friend bool operator==(const Interval&, const Interval&) = default;
};
KAON_API std::string to_text(const Interval& value);  // "(0.0, 1.0)"
KAON_API bool from_text(std::string_view text, Interval& value);
}  // namespace ops

namespace op {
// Counts (int64) and edges of bins: bin i has the elements in [edge i, edge i + 1), the last one its upper edge too;
// others and NaN are not counted. The edges are the array `bins`, which ascends, or bin_cnt + 1 numbers that cut
// `range` evenly, in the dtype of the data; a range of one number is widened by 0.5 on either side. Numbers.
struct Histogram {
  std::optional<int> bin_cnt{};
  std::optional<ops::Interval> range{};
  static constexpr OpTraits traits{.name = "_histogram",
                                   .inputs = ops::Names("data", "bins"),
                                   .outputs = 2,
                                   .flat = true,
                                   .aliases = ops::Names("histogram", "_npi_histogram")};
  static constexpr void fields(auto field) {
    field("bin_cnt", &Histogram::bin_cnt);
    field("range", &Histogram::range);
  }
  static const OpDef def;
  int num_inputs() const { return bin_cnt ? 1 : 2; }
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::Histogram& op, KernelContext& c);
void run_cuda(const op::Histogram& op, KernelContext& c);

// --- isclose and allclose: equal but for a tolerance.

namespace op {
// |a - b| <= atol + rtol |b|, element by element, broadcasting: bool. Equal infinities are close; two NaN with
// equal_nan. Floating dtypes and integers.
struct IsClose {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
  static constexpr OpTraits traits{.name = "isclose", .inputs = ops::Names("a", "b"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rtol", &IsClose::rtol);
    field("atol", &IsClose::atol);
    field("equal_nan", &IsClose::equal_nan);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// 1 where all are, else 0: uint8 of shape (1,).
struct AllClose {
  float rtol = 1e-5f;
  float atol = 1e-8f;
  bool equal_nan = true;
  static constexpr OpTraits traits{.name = "_contrib_allclose", .inputs = ops::Names("a", "b")};
  static constexpr void fields(auto field) {
    field("rtol", &AllClose::rtol);
    field("atol", &AllClose::atol);
    field("equal_nan", &AllClose::equal_nan);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Products, the largest and the smallest element up to each one.

// y_i = x_0 ... x_i along `axis`. float32, float64, int64, which wraps.
struct ProductScan {
  int axis = 0;
  static constexpr OpTraits traits{.name = "_product_scan", .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &ProductScan::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(axis); }
};

// Its gradient, without a division: dx_i = (x_0 ... x_(i-1)) s_i, s_i = head_i + x_(i+1) s_(i+1).
struct ProductScanGrad {
  int axis = 0;
  static constexpr OpTraits traits{
      .name = "_backward_product_scan", .inputs = ops::Names("head", "data"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &ProductScanGrad::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The index (int64) along `axis` of the largest, or smallest, of the elements up to each one, of equal ones the last.
// A NaN is larger and smaller than all. float32, float64, int64.
struct ExtremeScan {
  int axis = 0;
  bool largest = true;
  static constexpr OpTraits traits{.name = "_extreme_scan", .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("axis", &ExtremeScan::axis);
    field("largest", &ExtremeScan::largest);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(axis); }
};

// The products of the elements up to each one along `axis`; without it, of the flattened array. The elements are cast
// to `dtype` first; it is a's, int64 for bool. 16-bit floats are multiplied in float32.
struct CumProd {
  std::optional<int> axis{};
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{.name = "cumprod", .inputs = ops::Names("a"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &CumProd::axis);
    field("dtype", &CumProd::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The largest, or smallest, of the elements up to each one along `axis`, and its index (int64), of equal ones the last.
// Numbers.
template <bool Max>
struct CumExtreme {
  int axis = 0;
  static constexpr OpTraits traits{.name = Max ? "cummax" : "cummin", .outputs = 2, .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &CumExtreme::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using CumMax = CumExtreme<true>;
using CumMin = CumExtreme<false>;
}  // namespace op
void run_cpu(const op::ProductScan& op, KernelContext& c);
void run_cuda(const op::ProductScan& op, KernelContext& c);
void run_cpu(const op::ProductScanGrad& op, KernelContext& c);
void run_cuda(const op::ProductScanGrad& op, KernelContext& c);
void run_cpu(const op::ExtremeScan& op, KernelContext& c);
void run_cuda(const op::ExtremeScan& op, KernelContext& c);

}  // namespace kaon
