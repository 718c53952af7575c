// Elements found, gathered and scattered along an axis; parts of matrices; arrays rolled, turned and spanned to grids.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- searchsorted: where values belong in an ordered array.

namespace op {
// For each value v the first index i along the last axis of `sorted`, which ascends, with sorted_i >= v, or > v with
// `right`; its length where there is none. int64. sorted is (n), or (..., n) for values (..., m) with equal other axes.
// Both are numbers of one dtype; NaN is larger than all.
struct SearchSorted {
  bool right = false;
  static constexpr OpTraits traits{
      .name = "searchsorted", .inputs = ops::Names("sorted", "values"), .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) { field("right", &SearchSorted::right); }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return !q.has_rows(0) || (q.all_have_rows() && q.ndim() >= 2); }
};
}  // namespace op
void run_cpu(const op::SearchSorted& op, KernelContext& c);
void run_cuda(const op::SearchSorted& op, KernelContext& c);

// --- take_along_axis and put_along_axis: an index for each element. data and indices have one shape but for `axis`.

// What becomes of an element that is written to.
enum class Scatter : uint8_t { none, add, mul, max, min };
constexpr std::array<std::string_view, 5> enum_names(Scatter) { return {"none", "add", "mul", "max", "min"}; }

namespace op {
// out[..., j, ...] = data[..., indices[..., j, ...], ...]. Every dtype; indices are numbers, outside as `mode` says.
struct TakeAlongAxis {
  int axis = -1;
  IndexMode mode = IndexMode::raise;
  static constexpr OpTraits traits{
      .name = "take_along_axis", .inputs = ops::Names("data", "indices"), .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &TakeAlongAxis::axis);
    field("mode", &TakeAlongAxis::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// data with the elements at indices[..., j, ...] replaced by values[..., j, ...], of equal indices by the last; or, as
// `reduce` says, with the values added, multiplied, or the larger or smaller taken, in order of j. 16-bit floats are
// combined in float32; a NaN passes max and min. none: every dtype, else numbers. Gradients: of max and min, equal
// elements share it evenly; of none, each value gets that of its place.
struct PutAlongAxis {
  int axis = -1;
  Scatter reduce = Scatter::none;
  IndexMode mode = IndexMode::raise;
  static constexpr OpTraits traits{
      .name = "put_along_axis", .inputs = ops::Names("data", "indices", "values"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &PutAlongAxis::axis);
    field("reduce", &PutAlongAxis::reduce);
    field("mode", &PutAlongAxis::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// data plus, in each slice index[j] along `axis`, the sum of the slices j of values, in order of j. Indices outside as
// `mode` says. Numbers; 16-bit floats are rounded once.
struct IndexAdd {
  int axis = 0;
  IndexMode mode = IndexMode::raise;
  static constexpr OpTraits traits{
      .name = "index_add", .inputs = ops::Names("data", "index", "values"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &IndexAdd::axis);
    field("mode", &IndexAdd::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const {
    return q.has_rows(0) && !q.has_rows(1) && q.has_rows(2) && !q.is_first(axis);
  }
};
}  // namespace op
void run_cpu(const op::TakeAlongAxis& op, KernelContext& c);
void run_cuda(const op::TakeAlongAxis& op, KernelContext& c);
void run_cpu(const op::PutAlongAxis& op, KernelContext& c);
void run_cuda(const op::PutAlongAxis& op, KernelContext& c);
void run_cpu(const op::IndexAdd& op, KernelContext& c);
void run_cuda(const op::IndexAdd& op, KernelContext& c);

// --- tril and triu: matrices with zeros above or below a diagonal.

namespace op {
// The matrices of the last two axes with zeros above diagonal k; of a vector, the matrix whose rows it is. Diagonal
// k > 0 is above the main one. Every dtype.
struct Tril {
  int k = 0;
  static constexpr OpTraits traits{.name = "_npi_tril", .recomputable = true, .aliases = ops::Names("tril")};
  static constexpr void fields(auto field) { field("k", &Tril::k); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() >= 3; }
};

// The same with zeros below it.
struct Triu {
  int k = 0;
  static constexpr OpTraits traits{.name = "triu", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("k", &Triu::k); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() >= 3; }
};
}  // namespace op
void run_cpu(const op::Tril& op, KernelContext& c);
void run_cuda(const op::Tril& op, KernelContext& c);
void run_cpu(const op::Triu& op, KernelContext& c);
void run_cuda(const op::Triu& op, KernelContext& c);

// --- Arrays rolled, turned, differenced; grids.

namespace op {
// Each element moved by shift[i] along axis[i], those beyond the end to the begin: out[(p + shift) mod n] = data[p].
// One shift serves all axes. Without axis: of the flattened array. Every dtype.
struct Roll {
  std::optional<Shape> shift{};
  std::optional<Shape> axis{};
  static constexpr OpTraits traits{.name = "_np_roll", .recomputable = true, .aliases = ops::Names("roll")};
  static constexpr void fields(auto field) {
    field("shift", &Roll::shift);
    field("axis", &Roll::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.names_first(*axis); }
};

// Turned k times by 90 degrees from the first towards the second of `axes`, which are (0, 1). Every dtype.
struct Rot90 {
  int k = 1;
  std::optional<Shape> axes{};
  static constexpr OpTraits traits{.name = "_npi_rot90", .aliases = ops::Names("rot90")};
  static constexpr void fields(auto field) {
    field("k", &Rot90::k);
    field("axes", &Rot90::axes);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// x_(i + 1) - x_i along `axis`: an element fewer of at least one. Numbers; integers wrap.
struct Difference {
  int axis = 0;
  static constexpr OpTraits traits{.name = "_difference", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &Difference::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(axis); }
};

// The same n times: n elements fewer, none where there are no more.
struct Diff {
  int n = 1;
  int axis = -1;
  static constexpr OpTraits traits{.name = "_npi_diff", .inputs = ops::Names("a"), .aliases = ops::Names("diff")};
  static constexpr void fields(auto field) {
    field("n", &Diff::n);
    field("axis", &Diff::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Axis source[i] moved to place destination[i], the others in their order. Every dtype.
struct MoveAxis {
  Shape source{};
  Shape destination{};
  static constexpr OpTraits traits{
      .name = "_np_moveaxis", .inputs = ops::Names("a"), .aliases = ops::Names("moveaxis")};
  static constexpr void fields(auto field) {
    field("source", &MoveAxis::source, true);
    field("destination", &MoveAxis::destination, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

enum class GridIndexing : uint8_t { xy, ij };
constexpr std::array<std::string_view, 2> enum_names(GridIndexing) { return {"xy", "ij"}; }

namespace op {
// Arrays x_k of length n_k, of no or one dimension, each repeated to the grid (n_0, n_1, ...), where x_k varies along
// axis k; with xy, the first two axes are exchanged. One dtype, any.
struct Meshgrid {
  int num_args = 0;
  GridIndexing indexing = GridIndexing::xy;
  static constexpr OpTraits traits{
      .name = "meshgrid", .inputs = ops::Names("arg"), .variadic = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("num_args", &Meshgrid::num_args, true);
    field("indexing", &Meshgrid::indexing);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  int num_outputs() const { return num_args; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Difference& op, KernelContext& c);
void run_cuda(const op::Difference& op, KernelContext& c);
void run_cpu(const op::Roll& op, KernelContext& c);
void run_cuda(const op::Roll& op, KernelContext& c);

}  // namespace kaon
