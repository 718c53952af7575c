// Functions of NumPy's front end that are made of other operators: arrays stacked, split, padded and edited, diagonals,
// windows and grids, and arithmetic of several dtypes.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Arithmetic that promotes, as MXNet's mx.np has it.

namespace ops {
constexpr std::string_view promoting_name(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::add: return "_npi_add";
    case BinaryKind::sub: return "_npi_subtract";
    case BinaryKind::mul: return "_npi_multiply";
    case BinaryKind::mod: return "_npi_mod";
    default: return "_npi_power";
  }
}
}  // namespace ops

namespace op {
// Binary<K> of two arrays that are cast to result_type first. Sums of bool are `or`, products `and`, as in NumPy;
// differences, remainders and powers of bool are refused.
template <ops::BinaryKind K>
struct PromotingBinary {
  static constexpr OpTraits traits{.name = ops::promoting_name(K), .inputs = ops::Names("lhs", "rhs")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using PromotingAdd = PromotingBinary<ops::BinaryKind::add>;
using PromotingSubtract = PromotingBinary<ops::BinaryKind::sub>;
using PromotingMultiply = PromotingBinary<ops::BinaryKind::mul>;
using PromotingMod = PromotingBinary<ops::BinaryKind::mod>;
using PromotingPower = PromotingBinary<ops::BinaryKind::power>;
}  // namespace op

// --- Arrays stacked and split.

namespace ops {
enum class StackKind : uint8_t { columns, horizontal, vertical, depth };
constexpr OpTraits stack_traits(StackKind kind) {
  constexpr Names names[] = {{"_npi_column_stack", "column_stack"},
                             {"_npi_hstack", "hstack"},
                             {"_npi_vstack", "vstack"},
                             {"_npi_dstack", "dstack"}};
  const Names& n = names[size_t(kind)];
  return {.name = n[0], .inputs = Names("data"), .variadic = true, .aliases = Names(n[1])};
}
KAON_API void infer_stack(StackKind kind, int num_args, InferContext& c);
KAON_API void compose_stack(StackKind kind, ComposeContext& c);
}  // namespace ops

namespace op {
// Arrays of one dtype, one after the other: hstack along axis 1, or 0 where they have one dimension; vstack along axis
// 0, vectors as rows; dstack along axis 2, (n,) as (1, n, 1) and (m, n) as (m, n, 1); column_stack along axis 1,
// vectors as columns. `dim` has no effect.
template <ops::StackKind K>
struct NumpyStack {
  int num_args = 0;
  int dim = 1;
  static constexpr OpTraits traits = ops::stack_traits(K);
  static constexpr void fields(auto field) {
    field("num_args", &NumpyStack::num_args, true);
    if constexpr (K == ops::StackKind::horizontal || K == ops::StackKind::depth) field("dim", &NumpyStack::dim);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const { ops::infer_stack(K, num_args, c); }
  void compose(ComposeContext& c) const { ops::compose_stack(K, c); }
};
using ColumnStack = NumpyStack<ops::StackKind::columns>;
using HStack = NumpyStack<ops::StackKind::horizontal>;
using VStack = NumpyStack<ops::StackKind::vertical>;
using DStack = NumpyStack<ops::StackKind::depth>;

// Each array with at least N dimensions: () as (1,), (1, 1), (1, 1, 1); (n,) as (1, n) and (1, n, 1); (m, n) as
// (m, n, 1). Every dtype, also several.
template <int N>
struct AtLeast {
  int num_args = 0;
  static constexpr OpTraits traits{.name = N == 1   ? "_np_atleast_1d"
                                           : N == 2 ? "_np_atleast_2d"
                                                    : "_np_atleast_3d",
                                   .inputs = ops::Names("arys"),
                                   .variadic = true,
                                   .aliases = ops::Names(N == 1   ? "atleast_1d"
                                                         : N == 2 ? "atleast_2d"
                                                                  : "atleast_3d")};
  static constexpr void fields(auto field) { field("num_args", &AtLeast::num_args, true); }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  int num_outputs() const { return num_args; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using AtLeast1d = AtLeast<1>;
using AtLeast2d = AtLeast<2>;
using AtLeast3d = AtLeast<3>;

// _split_v2 along axis 1 (hsplit; 0 of a vector), or 2 (dsplit), into equal parts. `axis` has no effect.
template <bool Depth>
struct NumpySplit {
  Shape indices{};
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
  static constexpr OpTraits traits{.name = Depth ? "_npi_dsplit" : "_npi_hsplit",
                                   .aliases = ops::Names(Depth ? "dsplit" : "hsplit")};
  static constexpr void fields(auto field) {
    field("indices", &NumpySplit::indices, true);
    field("axis", &NumpySplit::axis);
    field("squeeze_axis", &NumpySplit::squeeze_axis);
    field("sections", &NumpySplit::sections);
  }
  static const OpDef def;
  int num_outputs() const { return sections > 0 ? sections : indices.ndim(); }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using HSplit = NumpySplit<false>;
using DSplit = NumpySplit<true>;
}  // namespace op

// --- Diagonals. A diagonal outside of a matrix has no elements, where diag throws.

namespace op {
// The k-th diagonal of a matrix; of a vector, the matrix with it as the k-th diagonal and zeros elsewhere.
struct NumpyDiag {
  int k = 0;
  static constexpr OpTraits traits{.name = "_np_diag"};
  static constexpr void fields(auto field) { field("k", &NumpyDiag::k); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The matrix with all elements, row by row, as its k-th diagonal.
struct DiagFlat {
  int k = 0;
  static constexpr OpTraits traits{.name = "_np_diagflat", .aliases = ops::Names("diagflat")};
  static constexpr void fields(auto field) { field("k", &DiagFlat::k); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The diagonals `offset` of the matrices along axis1 and axis2, which become the last axis.
struct Diagonal {
  int offset = 0;
  int axis1 = 0;
  int axis2 = 1;
  static constexpr OpTraits traits{.name = "_np_diagonal", .aliases = ops::Names("diagonal")};
  static constexpr void fields(auto field) {
    field("offset", &Diagonal::offset);
    field("axis1", &Diagonal::axis1);
    field("axis2", &Diagonal::axis2);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Their sums, in the array's dtype, of shape (1,) for one matrix. Numbers.
struct Trace {
  int offset = 0;
  int axis1 = 0;
  int axis2 = 1;
  static constexpr OpTraits traits{.name = "_np_trace", .aliases = ops::Names("trace")};
  static constexpr void fields(auto field) {
    field("offset", &Trace::offset);
    field("axis1", &Trace::axis1);
    field("axis2", &Trace::axis2);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The indices of the main diagonal of an array whose sizes are equal, (dimensions, n), int64.
struct DiagIndicesFrom {
  static constexpr OpTraits traits{
      .name = "_npi_diag_indices_from", .flat = true, .aliases = ops::Names("diag_indices_from")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- Arrays made of numbers.

namespace ops {
enum class WindowKind : uint8_t { blackman, hamming, hanning };
constexpr OpTraits window_traits(WindowKind kind) {
  constexpr Names names[] = {{"_npi_blackman", "blackman"}, {"_npi_hamming", "hamming"}, {"_npi_hanning", "hanning"}};
  return {.name = names[size_t(kind)][0], .inputs = {}, .aliases = Names(names[size_t(kind)][1])};
}
KAON_API void infer_window(std::optional<int64_t> points, DType dtype, InferContext& c);
KAON_API void compose_window(WindowKind kind, std::optional<Device> ctx, ComposeContext& c);
}  // namespace ops

namespace op {
// M points of a window, with x = 2 pi i / (M - 1): hanning (1 - cos x) / 2, hamming 0.54 - 0.46 cos x, blackman
// 0.42 - 0.5 cos x + 0.08 cos 2x; 1 for M = 1. Computed in float64.
template <ops::WindowKind K>
struct Window {
  std::optional<int64_t> M{};
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits = ops::window_traits(K);
  static constexpr void fields(auto field) {
    field("M", &Window::M);
    field("ctx", &Window::ctx);
    field("dtype", &Window::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_window(M, dtype, c); }
  void compose(ComposeContext& c) const { ops::compose_window(K, ctx, c); }
};
using Blackman = Window<ops::WindowKind::blackman>;
using Hamming = Window<ops::WindowKind::hamming>;
using Hanning = Window<ops::WindowKind::hanning>;

// (N, M), M = N where it is not given: ones where column - row == k.
struct NumpyEye {
  int64_t N = 0;
  std::optional<int64_t> M{};
  int64_t k = 0;
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_npi_eye", .inputs = {}};
  static constexpr void fields(auto field) {
    field("N", &NumpyEye::N, true);
    field("M", &NumpyEye::M);
    field("k", &NumpyEye::k);
    field("ctx", &NumpyEye::ctx);
    field("dtype", &NumpyEye::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Ones on the diagonal of a square matrix of this shape, zeros elsewhere.
struct Identity {
  Shape shape{};
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_npi_identity", .inputs = {}};
  static constexpr void fields(auto field) {
    field("shape", &Identity::shape);
    field("ctx", &Identity::ctx);
    field("dtype", &Identity::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// (number of dimensions, dimensions...): entry i holds the position along axis i.
struct Indices {
  Shape dimensions{};
  DType dtype = DType::int32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_npi_indices", .inputs = {}};
  static constexpr void fields(auto field) {
    field("dimensions", &Indices::dimensions, true);
    field("dtype", &Indices::dtype);
    field("ctx", &Indices::ctx);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// base^x for `num` values x evenly from start to stop, computed in float64; `endpoint` as in linspace.
struct LogSpace {
  double start = 0;
  double stop = 0;
  int num = 50;
  bool endpoint = true;
  double base = 10;
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_npi_logspace", .inputs = {}};
  static constexpr void fields(auto field) {
    field("start", &LogSpace::start, true);
    field("stop", &LogSpace::stop, true);
    field("num", &LogSpace::num, true);
    field("endpoint", &LogSpace::endpoint);
    field("base", &LogSpace::base);
    field("ctx", &LogSpace::ctx);
    field("dtype", &LogSpace::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// All elements fill_value, in the shape of a, in `dtype` or a's. ctx is not read: the device is a's.
struct FullLike {
  double fill_value = 0;
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{
      .name = "_npi_full_like", .inputs = ops::Names("a"), .flat = true, .aliases = ops::Names("full_like")};
  static constexpr void fields(auto field) {
    field("fill_value", &FullLike::fill_value, true);
    field("ctx", &FullLike::ctx);
    field("dtype", &FullLike::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- Arrays edited.

namespace op {
// data with `value` where the mask is not 0. The mask has the sizes of data from axis start_axis on, and covers the
// axes behind its own whole. Bool or numbers.
struct MaskAssignScalar {
  double value = 0;
  int start_axis = 0;
  static constexpr OpTraits traits{.name = "_npi_boolean_mask_assign_scalar", .inputs = ops::Names("data", "mask")};
  static constexpr void fields(auto field) {
    field("value", &MaskAssignScalar::value, true);
    field("start_axis", &MaskAssignScalar::start_axis, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// arr without slice int_ind along `axis`, or without the slices start:stop:step; of the flattened array without axis.
// IndexError for an index outside. With an array of indices the size depends on values: nd._npi_delete(arr, obj, axis).
struct Delete {
  std::optional<int> start{};
  std::optional<int> stop{};
  std::optional<int> step{};
  std::optional<int> int_ind{};
  std::optional<int> axis{};
  static constexpr OpTraits traits{.name = "_npi_delete", .inputs = ops::Names("arr")};
  static constexpr void fields(auto field) {
    field("start", &Delete::start);
    field("stop", &Delete::stop);
    field("step", &Delete::step);
    field("int_ind", &Delete::int_ind);
    field("axis", &Delete::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

}  // namespace op

namespace ops {
enum class InsertAt : uint8_t { index, slice, positions };
constexpr OpTraits insert_traits(InsertAt at) {
  switch (at) {
    case InsertAt::index: return {.name = "_npi_insert_scalar", .inputs = Names("arr", "values")};
    case InsertAt::slice: return {.name = "_npi_insert_slice", .inputs = Names("arr", "values")};
    default: return {.name = "_npi_insert_tensor", .inputs = Names("arr", "values", "obj")};
  }
}
}  // namespace ops

namespace op {
// arr with slices inserted along `axis`, of the flattened array without it, before the positions int_ind,
// start:stop:step, or the 1-D whole numbers obj, of equal ones in their order; negative ones count from the end. The
// slices are `values`, cast to arr's dtype and broadcast, whose axis 0 is the new one for int_ind; or `val`, and there
// are no values. IndexError for an index outside; obj is clipped.
template <ops::InsertAt At>
struct Insert {
  std::optional<double> val{};
  std::optional<int> start{};
  std::optional<int> stop{};
  std::optional<int> step{};
  std::optional<int> int_ind{};
  std::optional<int> axis{};
  static constexpr OpTraits traits = ops::insert_traits(At);
  static constexpr void fields(auto field) {
    field("val", &Insert::val);
    field("start", &Insert::start);
    field("stop", &Insert::stop);
    field("step", &Insert::step);
    field("int_ind", &Insert::int_ind);
    field("axis", &Insert::axis);
  }
  static const OpDef def;
  int num_inputs() const { return 1 + int(!val) + int(At == ops::InsertAt::positions); }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using InsertScalar = Insert<ops::InsertAt::index>;
using InsertSlice = Insert<ops::InsertAt::slice>;
using InsertTensor = Insert<ops::InsertAt::positions>;
}  // namespace op

// --- pad, of any number of axes.

enum class NumpyPadMode : uint8_t { constant, edge, reflect, symmetric, maximum, minimum };
constexpr std::array<std::string_view, 6> enum_names(NumpyPadMode) {
  return {"constant", "edge", "reflect", "symmetric", "maximum", "minimum"};
}

namespace ops {
// (before, after) for each axis, as the text "((1, 2), (0, 1))".
struct PadWidths {
  IntTuple numbers{};
  friend bool operator==(const PadWidths&, const PadWidths&) = default;
};
KAON_API std::string to_text(const PadWidths& value);
KAON_API bool from_text(std::string_view text, PadWidths& value);
}  // namespace ops

namespace op {
// pad_width elements put before and behind each axis, one axis after the other: constant_value; the element at the end;
// those before it in reverse order, without it (reflect) or with it (symmetric), repeated as often as it takes; the
// largest or smallest element along the axis. reflect_type must be even. Every dtype; extrema of numbers.
struct NumpyPad {
  ops::PadWidths pad_width{};
  NumpyPadMode mode = NumpyPadMode::constant;
  double constant_value = 0;
  ops::Word reflect_type{"even"};
  static constexpr OpTraits traits{.name = "_npi_pad"};
  static constexpr void fields(auto field) {
    field("pad_width", &NumpyPad::pad_width, true);
    field("mode", &NumpyPad::mode);
    field("constant_value", &NumpyPad::constant_value);
    field("reflect_type", &NumpyPad::reflect_type);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
