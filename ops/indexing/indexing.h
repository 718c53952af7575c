// Elements chosen by indices, and parts, blocks and diagonals of arrays.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- take and Embedding: rows of an array by index, and their gradient.

namespace op {
// a[..., indices, ...] along `axis`: the axis is replaced by the axes of indices. Indices may be floats. Gradient:
// scatter-add.
struct Take {
  int axis = 0;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "take", .inputs = Names("a", "indices"), .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &Take::axis);
    field("mode", &Take::mode);
  }
  static const OpDef def;
  IndexUse index_use(std::span<const TensorView> inputs) const;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.count() == 1 && q.has_rows(1) == q.is_first(axis); }
};

// Gradient of take: zeros of `shape` with the slices of head added at the indices, in index order.
struct TakeGrad {
  Shape shape{};
  int axis = 0;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "_backward_take", .inputs = Names("head", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &TakeGrad::shape, true);
    field("axis", &TakeGrad::axis);
    field("mode", &TakeGrad::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// Row data[i] of weight (input_dim, output_dim) for every index: data.shape + (output_dim,). Indices outside are
// clipped. The dtype is that of weight. sparse_grad: the gradient of a weight with attach_row_sparse_grad() is the rows
// that were read; everywhere else it is dense.
struct Embedding {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  DType dtype = DType::float32;
  bool sparse_grad = false;
  static constexpr OpTraits traits{
      .name = "Embedding", .inputs = Names("data", "weight"), .infers = bit(1), .recomputable = true};
  static constexpr void fields(auto field) {
    field("input_dim", &Embedding::input_dim, true);
    field("output_dim", &Embedding::output_dim, true);
    field("dtype", &Embedding::dtype);
    field("sparse_grad", &Embedding::sparse_grad);
  }
  static const OpDef def;
  IndexUse index_use(std::span<const TensorView> inputs) const { return {0, inputs[1].shape[0]}; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows(); }
};

// Embedding, as old files name the one whose gradient is sparse in MXNet; here it is dense.
struct SparseEmbedding {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  DType dtype = DType::float32;
  bool sparse_grad = false;
  static constexpr OpTraits traits{
      .name = "_contrib_SparseEmbedding", .inputs = Names("data", "weight"), .infers = bit(1)};
  static constexpr void fields(auto field) {
    field("input_dim", &SparseEmbedding::input_dim, true);
    field("output_dim", &SparseEmbedding::output_dim, true);
    field("dtype", &SparseEmbedding::dtype);
    field("sparse_grad", &SparseEmbedding::sparse_grad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Take& op, KernelContext& c);
void run_cuda(const op::Take& op, KernelContext& c);
void run_cpu(const op::TakeGrad& op, KernelContext& c);
void run_cuda(const op::TakeGrad& op, KernelContext& c);
void run_cpu(const op::Embedding& op, KernelContext& c);
void run_cuda(const op::Embedding& op, KernelContext& c);

// --- pick, batch_take and one_hot: one element per index along an axis.

namespace op {
// out[..., ...] = data[..., index[..., ...], ...]: one element of each run along `axis`. index has the shape of data
// without that axis, or with size 1 there. Modes clip and wrap.
struct Pick {
  int axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "pick",
                                   .inputs = Names("data", "index"),
                                   .recomputable = true,
                                   .aliases = Names("choose_element_0index")};
  static constexpr void fields(auto field) {
    field("axis", &Pick::axis);
    field("keepdims", &Pick::keepdims);
    field("mode", &Pick::mode);
  }
  static const OpDef def;
  IndexUse index_use(std::span<const TensorView> inputs) const;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// Gradient of pick: zeros of `shape` with head at the picked elements.
struct PickGrad {
  Shape shape{};
  int axis = -1;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "_backward_pick", .inputs = Names("head", "index"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &PickGrad::shape, true);
    field("axis", &PickGrad::axis);
    field("mode", &PickGrad::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// out[i] = a[i, indices[i]]; indices outside are clipped.
struct BatchTake {
  static constexpr OpTraits traits{.name = "batch_take", .inputs = Names("a", "indices")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  IndexUse index_use(std::span<const TensorView> inputs) const { return {1, inputs[0].shape[1]}; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// indices.shape + (depth,): on_value at the index, off_value elsewhere and everywhere for an index outside. Gradient:
// none.
struct OneHot {
  int64_t depth = 0;
  double on_value = 1;
  double off_value = 0;
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "one_hot", .inputs = Names("indices"), .flat = true};
  static constexpr void fields(auto field) {
    field("depth", &OneHot::depth, true);
    field("on_value", &OneHot::on_value);
    field("off_value", &OneHot::off_value);
    field("dtype", &OneHot::dtype);
  }
  static const OpDef def;
  IndexUse index_use(std::span<const TensorView>) const { return {0, depth}; }
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
}  // namespace op
void run_cpu(const op::Pick& op, KernelContext& c);
void run_cuda(const op::Pick& op, KernelContext& c);
void run_cpu(const op::PickGrad& op, KernelContext& c);
void run_cuda(const op::PickGrad& op, KernelContext& c);
void run_cpu(const op::BatchTake& op, KernelContext& c);
void run_cuda(const op::BatchTake& op, KernelContext& c);
void run_cpu(const op::OneHot& op, KernelContext& c);
void run_cuda(const op::OneHot& op, KernelContext& c);

// --- gather_nd: slices of an array by tuples of indices.

namespace op {
// out[j, ...] = data[indices[0, j], ..., indices[m - 1, j], ...]: indices (m, j...), out (j..., data.shape[m:]).
// Negative indices count from the end; others outside fail with IndexError, thrown at the wait, and end the work of a
// GPU (docs/gpu.md). Gradient: scatter-add.
struct GatherNd {
  static constexpr OpTraits traits{.name = "gather_nd", .inputs = Names("data", "indices")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// Gradient of gather_nd: zeros of `shape` with the slices of head added at the indices, in index order.
struct GatherNdGrad {
  Shape shape{};
  static constexpr OpTraits traits{
      .name = "_backward_gather_nd", .inputs = Names("head", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &GatherNdGrad::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::GatherNd& op, KernelContext& c);
void run_cuda(const op::GatherNd& op, KernelContext& c);
void run_cpu(const op::GatherNdGrad& op, KernelContext& c);
void run_cuda(const op::GatherNdGrad& op, KernelContext& c);

// --- SequenceMask: elements after the end of each sequence set to a value.

namespace op {
// data (steps, batch, ...), or (batch, steps, ...) with axis 1: where step >= sequence_length[batch], `value`.
// Lengths are truncated, as in MXNet: 1.9 keeps one step. Without use_sequence_length there is no second input and the
// result is data.
struct SequenceMask {
  bool use_sequence_length = false;
  double value = 0;
  int axis = 0;
  static constexpr OpTraits traits{
      .name = "SequenceMask", .inputs = Names("data", "sequence_length"), .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("use_sequence_length", &SequenceMask::use_sequence_length);
    field("value", &SequenceMask::value);
    field("axis", &SequenceMask::axis);
  }
  static const OpDef def;
  int num_inputs() const { return use_sequence_length ? 2 : 1; }
  IndexUse index_use(std::span<const TensorView> inputs) const {
    if (!use_sequence_length) return {};
    return {1, inputs[0].shape[axis] + 1};
  }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && (!use_sequence_length || axis == 1); }
};
}  // namespace op
void run_cpu(const op::SequenceMask& op, KernelContext& c);
void run_cuda(const op::SequenceMask& op, KernelContext& c);

// --- The last step of sequences, and their steps in reverse order. Lengths outside [1, steps] become the nearest one,
// where MXNet reads other memory; for SequenceReverse 0 is a length.

namespace op {
// data (steps, batch, ...), or (batch, steps, ...) with axis 1, to (batch, ...): step sequence_length[batch] - 1, or
// the last one without use_sequence_length.
struct SequenceLast {
  bool use_sequence_length = false;
  int axis = 0;
  static constexpr OpTraits traits{.name = "SequenceLast", .inputs = Names("data", "sequence_length")};
  static constexpr void fields(auto field) {
    field("use_sequence_length", &SequenceLast::use_sequence_length);
    field("axis", &SequenceLast::axis);
  }
  static const OpDef def;
  int num_inputs() const { return use_sequence_length ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// data (steps, batch, ...): the first sequence_length[batch] steps in reverse order, or all of them without
// use_sequence_length; the others stay where they are. `axis` must be 0.
struct SequenceReverse {
  bool use_sequence_length = false;
  int axis = 0;
  static constexpr OpTraits traits{.name = "SequenceReverse", .inputs = Names("data", "sequence_length")};
  static constexpr void fields(auto field) {
    field("use_sequence_length", &SequenceReverse::use_sequence_length);
    field("axis", &SequenceReverse::axis);
  }
  static const OpDef def;
  int num_inputs() const { return use_sequence_length ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- Slices of an array set by tuples of indices. Negative indices count from the end and others outside fail with
// IndexError, as in gather_nd, where MXNet writes to other memory. Of equal tuples the last one counts.

namespace op {
// lhs with the slice at (indices[0, j], ..., indices[m - 1, j]) replaced by rhs[j]: indices (m, j...), rhs
// (j..., shape[m:]), lhs of `shape`. Any dtype. Gradients: head with zeros at the indices, and head gathered there,
// also for equal tuples. MXNet has it in place only.
struct ScatterSetNd {
  Shape shape{};
  static constexpr OpTraits traits{.name = "_scatter_set_nd",
                                   .inputs = Names("lhs", "rhs", "indices"),
                                   .inplace = 0,
                                   .in_mxnet = false,
                                   .aliases = Names("_npi_scatter_set_nd")};
  static constexpr void fields(auto field) { field("shape", &ScatterSetNd::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// Zeros of `shape` with data's slices at the indices.
struct ScatterNd {
  Shape shape{};
  static constexpr OpTraits traits{.name = "scatter_nd", .inputs = Names("data", "indices")};
  static constexpr void fields(auto field) { field("shape", &ScatterNd::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// old_tensor with the rows index_vector[i] replaced by the rows i of new_tensor.
struct IndexCopy {
  static constexpr OpTraits traits{.name = "_contrib_index_copy",
                                   .inputs = Names("old_tensor", "index_vector", "new_tensor")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::ScatterSetNd& op, KernelContext& c);
void run_cuda(const op::ScatterSetNd& op, KernelContext& c);

// --- Positions of elements: as tuples and as numbers. Gradients: none.

namespace op {
// The position of each element of data along `axes`, or along all axes: int64 of shape data.shape + (number of axes,).
struct IndexArray {
  std::optional<Shape> axes{};
  static constexpr OpTraits traits{.name = "_contrib_index_array"};
  static constexpr void fields(auto field) { field("axes", &IndexArray::axes); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Tuples, the columns of data (m, n), to positions (n,) in a row-major array of this shape, in data's dtype. The first
// size has no effect and may be 0 or -1. Indices are not checked; fractions are cut off after each axis. Numbers.
struct RavelMultiIndex {
  std::optional<Shape> shape{};
  static constexpr OpTraits traits{.name = "_ravel_multi_index", .flat = true, .aliases = Names("ravel_multi_index")};
  static constexpr void fields(auto field) { field("shape", &RavelMultiIndex::shape); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The inverse: n positions, of any shape, to tuples (m, n). The first index takes what is left.
struct UnravelIndex {
  std::optional<Shape> shape{};
  static constexpr OpTraits traits{.name = "_unravel_index", .flat = true, .aliases = Names("unravel_index")};
  static constexpr void fields(auto field) { field("shape", &UnravelIndex::shape); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::RavelMultiIndex& op, KernelContext& c);
void run_cuda(const op::RavelMultiIndex& op, KernelContext& c);
void run_cpu(const op::UnravelIndex& op, KernelContext& c);
void run_cuda(const op::UnravelIndex& op, KernelContext& c);

// --- _split_v2: parts of any size; depth_to_space and its inverse; diag.

namespace op {
// Parts of data along `axis`. Part i begins at indices[i], of which the first is 0, and ends where the next one begins;
// or there are `sections` parts, of which the first ones are larger by 1 where these do not divide the axis.
// squeeze_axis drops the axis, along which all parts must have size 1. At most 64 indices.
struct SplitV2 {
  IntTuple indices{};
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
  static constexpr OpTraits traits{.name = "_split_v2", .aliases = Names("_npi_split")};
  static constexpr void fields(auto field) {
    field("indices", &SplitV2::indices, true);
    field("axis", &SplitV2::axis);
    field("squeeze_axis", &SplitV2::squeeze_axis);
    field("sections", &SplitV2::sections);
  }
  static const OpDef def;
  int num_outputs() const { return sections > 0 ? sections : indices.size(); }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Images (n, b b c, h, w) to (n, c, b h, b w), b = block_size: out[n, c, b y + i, b x + j] = data[n, (b i + j) c', y,
// x] where channel (b i + j) c' is (b i + j) times the number c of channels of the result, plus its channel. Any dtype.
struct DepthToSpace {
  int block_size = 0;
  static constexpr OpTraits traits{.name = "depth_to_space"};
  static constexpr void fields(auto field) { field("block_size", &DepthToSpace::block_size, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The inverse: images (n, c, b h, b w) to (n, b b c, h, w).
struct SpaceToDepth {
  int block_size = 0;
  static constexpr OpTraits traits{.name = "space_to_depth"};
  static constexpr void fields(auto field) { field("block_size", &SpaceToDepth::block_size, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The k-th diagonal of the matrices along axis1 and axis2, which become the last axis: out[..., i] is the element at i
// of axis1 and i + k of axis2, or for negative k at i - k and i. A 1-D array becomes a matrix with it as the k-th
// diagonal and zeros elsewhere. ShapeError where there is no such diagonal; one without elements is allowed. Any dtype.
struct Diag {
  int k = 0;
  int axis1 = 0;
  int axis2 = 1;
  static constexpr OpTraits traits{.name = "diag"};
  static constexpr void fields(auto field) {
    field("k", &Diag::k);
    field("axis1", &Diag::axis1);
    field("axis2", &Diag::axis2);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
