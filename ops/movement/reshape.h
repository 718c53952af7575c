// Operators that keep the bytes and change the shape: Reshape, reshape_like, Flatten, expand_dims, squeeze.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// The shape that MXNet's codes ask for: n > 0 a dimension, 0 copies one, -1 is inferred (at most once), -2 copies the
// rest, -3 multiplies two, -4 splits one into the next two entries (one of which may be -1). `reverse` matches from the
// right. Throws ShapeError naming `op` when the sizes differ or the codes do not fit.
Shape infer_reshape(const Shape& in, const Shape& codes, bool reverse, const char* op);

// The array under the shape that the codes in `shape` describe. `target_shape` (0: inferred, at most once) and
// `keep_highest` are the form that old files use when `shape` is absent.
struct Reshape {
  Shape shape{};
  bool reverse = false;
  Shape target_shape{};
  bool keep_highest = false;
  static constexpr OpTraits traits{.name = "Reshape", .inplace = 0, .view = true, .aliases = Names("reshape")};
  static constexpr void fields(auto field) {
    field("shape", &Reshape::shape);
    field("reverse", &Reshape::reverse);
    field("target_shape", &Reshape::target_shape);
    field("keep_highest", &Reshape::keep_highest);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const Reshape& op, KernelContext& c);
void run_cuda(const Reshape& op, KernelContext& c);

// lhs under the shape of rhs. With ranges, the axes [lhs_begin, lhs_end) of lhs are replaced by the dimensions
// [rhs_begin, rhs_end) of rhs; negative positions count from the end.
struct ReshapeLike {
  std::optional<int> lhs_begin{};
  std::optional<int> lhs_end{};
  std::optional<int> rhs_begin{};
  std::optional<int> rhs_end{};
  static constexpr OpTraits traits{.name = "reshape_like", .inputs = Names("lhs", "rhs"), .inplace = 0, .view = true};
  static constexpr void fields(auto field) {
    field("lhs_begin", &ReshapeLike::lhs_begin);
    field("lhs_end", &ReshapeLike::lhs_end);
    field("rhs_begin", &ReshapeLike::rhs_begin);
    field("rhs_end", &ReshapeLike::rhs_end);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const ReshapeLike& op, KernelContext& c);
void run_cuda(const ReshapeLike& op, KernelContext& c);

// (n, a, b, ...) to (n, a * b * ...).
struct Flatten {
  static constexpr OpTraits traits{.name = "Flatten", .inplace = 0, .view = true, .aliases = Names("flatten")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const Flatten& op, KernelContext& c);
void run_cuda(const Flatten& op, KernelContext& c);

// A dimension of 1 before `axis`, which counts over the result's axes.
struct ExpandDims {
  int axis = 0;
  static constexpr OpTraits traits{.name = "expand_dims", .inplace = 0, .view = true};
  static constexpr void fields(auto field) { field("axis", &ExpandDims::axis, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const ExpandDims& op, KernelContext& c);
void run_cuda(const ExpandDims& op, KernelContext& c);

// Without the given axes, which must have size 1; without all axes of size 1 where no list is given. One axis stays.
struct Squeeze {
  std::optional<Shape> axis{};
  static constexpr OpTraits traits{.name = "squeeze", .inplace = 0, .view = true};
  static constexpr void fields(auto field) { field("axis", &Squeeze::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const Squeeze& op, KernelContext& c);
void run_cuda(const Squeeze& op, KernelContext& c);

// The array under exactly this shape, 0 meaning 0: the gradient of all of these.
struct ReshapeTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "_reshape_to", .inplace = 0, .view = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &ReshapeTo::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
void run_cpu(const ReshapeTo& op, KernelContext& c);
void run_cuda(const ReshapeTo& op, KernelContext& c);

}  // namespace kaon
