// Sums, means, norms, the largest element, their gradients, and the largest elements in order.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Reductions over axes: sum, mean, prod, max, min, nansum, nanprod.

namespace ops {
enum class ReduceKind : uint8_t { sum, mean, prod, max, min, nansum, nanprod };

constexpr OpTraits reduce_traits(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum: return {.name = "sum", .aliases = Names("sum_axis")};
    case ReduceKind::mean: return {.name = "mean"};
    case ReduceKind::prod: return {.name = "prod"};
    case ReduceKind::max: return {.name = "max", .aliases = Names("max_axis")};
    case ReduceKind::min: return {.name = "min", .aliases = Names("min_axis")};
    case ReduceKind::nansum: return {.name = "nansum"};
    case ReduceKind::nanprod: return {.name = "nanprod"};
  }
  return {};
}
}  // namespace ops

namespace op {
// The result over the axes in `axis` (empty: all of them), or over all others when `exclude`. Reduced axes vanish, or
// stay with size 1 when `keepdims`; a result without axes has shape (1,). The dtype stays; 16-bit floats accumulate in
// float32 and sums are pairwise; integer sums wrap; mean is for floating dtypes. Sums and products of bool count in
// int64, means of bool are float32, as in NumPy; MXNet's sum of bool is true or false. max and min propagate NaN,
// nansum and nanprod skip it. max and min of no elements throw ShapeError; their gradient goes whole to every tied
// element.
template <ReduceKind K>
struct Reduce {
  Shape axis{};
  ops::Flag keepdims = false;
  bool exclude = false;
  static constexpr OpTraits traits = ops::reduce_traits(K);
  static constexpr void fields(auto field) {
    field("axis", &Reduce::axis);
    field("keepdims", &Reduce::keepdims);
    field("exclude", &Reduce::exclude);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const;
};

using Sum = Reduce<ReduceKind::sum>;
using Mean = Reduce<ReduceKind::mean>;
using Prod = Reduce<ReduceKind::prod>;
using Max = Reduce<ReduceKind::max>;
using Min = Reduce<ReduceKind::min>;
using NanSum = Reduce<ReduceKind::nansum>;
using NanProd = Reduce<ReduceKind::nanprod>;

// Their members are in reduce.cpp.
extern template struct Reduce<ReduceKind::sum>;
extern template struct Reduce<ReduceKind::mean>;
extern template struct Reduce<ReduceKind::prod>;
extern template struct Reduce<ReduceKind::max>;
extern template struct Reduce<ReduceKind::min>;
extern template struct Reduce<ReduceKind::nansum>;
extern template struct Reduce<ReduceKind::nanprod>;
}  // namespace op
template <ops::ReduceKind K>
void run_cpu(const op::Reduce<K>& op, KernelContext& c);

namespace ops {
constexpr bool counts_bool(ReduceKind kind) {
  return kind == ReduceKind::sum || kind == ReduceKind::mean || kind == ReduceKind::prod;
}
void run_reduce_cuda(ReduceKind kind, const Shape& axis, bool exclude, KernelContext& c);
}  // namespace ops

template <ops::ReduceKind K>
void run_cuda(const op::Reduce<K>& op, KernelContext& c) {
  ops::run_reduce_cuda(K, op.axis, op.exclude, c);
}

// --- norm: the 1-norm or 2-norm over axes.

namespace op {
// ord 1: sum |x|; ord 2: sqrt(sum x^2), accumulated in float64 so that squares do not overflow. Axes as in Reduce.
// Floating dtypes. The gradient of the 2-norm at 0 is 0.
struct Norm {
  int ord = 2;
  Shape axis{};
  std::optional<DType> out_dtype{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "norm"};
  static constexpr void fields(auto field) {
    field("ord", &Norm::ord);
    field("axis", &Norm::axis);
    field("out_dtype", &Norm::out_dtype);
    field("keepdims", &Norm::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};

// Gradient of norm: head * sign(data), or head * data / out.
struct NormGrad {
  int ord = 2;
  Shape axis{};
  static constexpr OpTraits traits{
      .name = "_backward_norm", .inputs = Names("head", "data", "out"), .inplace = 1, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("ord", &NormGrad::ord);
    field("axis", &NormGrad::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::Norm& op, KernelContext& c);
void run_cuda(const op::Norm& op, KernelContext& c);
void run_cpu(const op::NormGrad& op, KernelContext& c);
void run_cuda(const op::NormGrad& op, KernelContext& c);

// --- argmax, argmin, argmax_channel: where the largest or smallest element is.

namespace op {
// The index of the first largest element along `axis`, or in the flattened array when there is none, in the dtype of
// the data, as in MXNet (of bool: float32). A NaN counts as the largest (NumPy). ShapeError where that dtype does not
// hold every index, which MXNet rounds or wraps: more elements than 2048 in float16, 257 in bfloat16, 256 in uint8. The
// gradient is zero.
struct ArgMax {
  std::optional<int> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "argmax", .flat = true};
  static constexpr void fields(auto field) {
    field("axis", &ArgMax::axis);
    field("keepdims", &ArgMax::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};

// The same for the smallest element; a NaN counts as the smallest.
struct ArgMin {
  std::optional<int> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "argmin", .flat = true};
  static constexpr void fields(auto field) {
    field("axis", &ArgMin::axis);
    field("keepdims", &ArgMin::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};

// argmax along axis 1 of a matrix: (n, c) to (n,), the class of each row.
struct ArgMaxChannel {
  static constexpr OpTraits traits{.name = "argmax_channel", .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::ArgMax& op, KernelContext& c);
void run_cuda(const op::ArgMax& op, KernelContext& c);
void run_cpu(const op::ArgMin& op, KernelContext& c);
void run_cuda(const op::ArgMin& op, KernelContext& c);
void run_cpu(const op::ArgMaxChannel& op, KernelContext& c);
void run_cuda(const op::ArgMaxChannel& op, KernelContext& c);

// --- _sum_to: sums an array down to a shape that broadcasts to its own: the gradient of broadcasting.

namespace op {
// y = x summed over the axes that `shape` lacks on the left, and over those where it has 1. Sums are taken in double
// (integers: in int64) in an order fixed by the shapes. In `shape`, -1 keeps the input's dimension.
struct SumTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "_sum_to", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &SumTo::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::SumTo& op, KernelContext& c);
void run_cuda(const op::SumTo& op, KernelContext& c);

// --- Gradients of the reductions: a value per result spreads over the elements that were reduced into it.

namespace op {
// Gradient of sum and mean: scale * head, repeated along `axis` to give `shape`.
struct SumGrad {
  Shape shape{};
  Shape axis{};
  double scale = 1;
  static constexpr OpTraits traits{.name = "_backward_sum", .inputs = Names("head"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &SumGrad::shape, true);
    field("axis", &SumGrad::axis);
    field("scale", &SumGrad::scale);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// Gradient of max and min: head where data equals out, else 0.
struct MaxGrad {
  Shape axis{};
  static constexpr OpTraits traits{
      .name = "_backward_max", .inputs = Names("head", "data", "out"), .inplace = 1, .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &MaxGrad::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// Gradient of nansum: head where data is a number, else 0.
struct NanSumGrad {
  Shape axis{};
  static constexpr OpTraits traits{
      .name = "_backward_nansum", .inputs = Names("head", "data"), .inplace = 1, .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &NanSumGrad::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Gradient of prod and nanprod: head times the product of the other elements, right for zeros too.
struct ProdGrad {
  Shape axis{};
  bool skip_nan = false;
  static constexpr OpTraits traits{
      .name = "_backward_prod", .inputs = Names("head", "data"), .inplace = 1, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &ProdGrad::axis);
    field("skip_nan", &ProdGrad::skip_nan);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::SumGrad& op, KernelContext& c);
void run_cuda(const op::SumGrad& op, KernelContext& c);
void run_cpu(const op::MaxGrad& op, KernelContext& c);
void run_cuda(const op::MaxGrad& op, KernelContext& c);
void run_cpu(const op::NanSumGrad& op, KernelContext& c);
void run_cuda(const op::NanSumGrad& op, KernelContext& c);
void run_cpu(const op::ProdGrad& op, KernelContext& c);
void run_cuda(const op::ProdGrad& op, KernelContext& c);

// --- Order: the largest or smallest elements along an axis. NaN counts as larger than all numbers; of equal elements
// the one with the smaller index comes first, whatever the direction. Numbers of any dtype but bool.

enum class TopKReturn : uint8_t { value, indices, mask, both };
constexpr std::array<std::string_view, 4> enum_names(TopKReturn) { return {"value", "indices", "mask", "both"}; }

namespace op {
// The elements `first` to first + k, k = 0: all that follow, of each row along the last axis in ascending or descending
// order, and their indices (int64). The gradient goes back to these elements.
struct Order {
  int64_t k = 0;
  bool is_ascend = true;
  int64_t first = 0;
  static constexpr OpTraits traits{.name = "_order", .outputs = 2, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("k", &Order::k);
    field("is_ascend", &Order::is_ascend);
    field("first", &Order::first);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() >= 2; }
};

// The k largest elements along `axis`, or the smallest with is_ascend, in that order: their values, their indices in
// `dtype`, both, or a mask of data's shape and dtype that is 1 there. k < 1: all. Without `axis`, of the flattened
// data.
struct TopK {
  std::optional<int> axis = -1;
  int k = 1;
  TopKReturn ret_typ = TopKReturn::indices;
  bool is_ascend = false;
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "topk"};
  static constexpr void fields(auto field) {
    field("axis", &TopK::axis);
    field("k", &TopK::k);
    field("ret_typ", &TopK::ret_typ);
    field("is_ascend", &TopK::is_ascend);
    field("dtype", &TopK::dtype);
  }
  static const OpDef def;
  int num_outputs() const { return ret_typ == TopKReturn::both ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The elements along `axis` in order; without `axis`, of the flattened data.
struct Sort {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  static constexpr OpTraits traits{.name = "sort"};
  static constexpr void fields(auto field) {
    field("axis", &Sort::axis);
    field("is_ascend", &Sort::is_ascend);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Their indices, in `dtype`.
struct ArgSort {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "argsort"};
  static constexpr void fields(auto field) {
    field("axis", &ArgSort::axis);
    field("is_ascend", &ArgSort::is_ascend);
    field("dtype", &ArgSort::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Order& op, KernelContext& c);
void run_cuda(const op::Order& op, KernelContext& c);

// --- Sums of all elements up to each one.

namespace op {
// y_i = x_0 + ... + x_i along `axis`, or x_i + ... + x_(n - 1) with reverse. 16-bit floats accumulate in float32;
// integer sums wrap. Long lines of few are summed in pieces. Numbers. Gradient: the same in the other direction.
struct Scan {
  int axis = 0;
  bool reverse = false;
  static constexpr OpTraits traits{.name = "_scan", .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &Scan::axis);
    field("reverse", &Scan::reverse);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(axis); }
};

// The sums up to each element along `axis`; without it, of the flattened array. The elements are cast to `dtype` first;
// it is a's, int64 for bool.
struct CumSum {
  std::optional<int> axis{};
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{.name = "_np_cumsum", .inputs = Names("a"), .aliases = Names("cumsum")};
  static constexpr void fields(auto field) {
    field("axis", &CumSum::axis);
    field("dtype", &CumSum::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Scan& op, KernelContext& c);
void run_cuda(const op::Scan& op, KernelContext& c);

}  // namespace kaon
