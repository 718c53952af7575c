// Reductions over axes: sum, mean, prod, max, min, nansum, nanprod.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"
#include "kaon/ops/reduce/kernels/reduce_kernels.h"

namespace kaon {

struct OpDef;

enum class ReduceKind : uint8_t { sum, mean, prod, max, min, nansum, nanprod };

constexpr Combine combine_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::prod: return Combine::prod;
    case ReduceKind::max: return Combine::max;
    case ReduceKind::min: return Combine::min;
    case ReduceKind::nansum: return Combine::nan_sum;
    case ReduceKind::nanprod: return Combine::nan_prod;
    default: return Combine::sum;
  }
}

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

// The result over the axes in `axis` (empty: all of them), or over all others when `exclude`. Reduced axes vanish, or
// stay with size 1 when `keepdims`; a result without axes has shape (1,). The dtype stays; 16-bit floats accumulate in
// float32 and sums are pairwise; integer sums wrap; mean is for floating dtypes. max and min propagate NaN, nansum and
// nanprod skip it. max and min of no elements throw ShapeError; their gradient goes whole to every tied element.
template <ReduceKind K>
struct Reduce {
  Shape axis{};
  bool keepdims = false;
  bool exclude = false;
  static constexpr OpTraits traits = reduce_traits(K);
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
template <ReduceKind K>
void run_cpu(const Reduce<K>& op, KernelContext& c);
void run_reduce_cuda(ReduceKind kind, const Shape& axis, bool exclude, KernelContext& c);
template <ReduceKind K>
void run_cuda(const Reduce<K>& op, KernelContext& c) {
  run_reduce_cuda(K, op.axis, op.exclude, c);
}

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

// Bit i: axis i is reduced. Throws ShapeError for an axis that is out of range or named twice.
uint32_t reduced_axes(const Shape& axis, bool exclude, int ndim, const char* op);
// The shape of the result.
Shape reduced_shape(const Shape& in, uint32_t mask, bool keepdims);
// The axes in a mask as a list.
Shape axes_of(uint32_t mask);
// Throws ShapeError when a result that needs an element (max, argmax) would be taken over none.
void expect_elements(const InferContext& c, uint32_t mask);

}  // namespace kaon
