// NumPy's functions of numbers that are made of other operators: rounding, averages, NaN left out, sets, interpolation,
// polynomials, norms, inverses and systems of equations, eigenvalues.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"
#include "kaon/ops/reduce/reduce.h"

namespace KAON_API kaon {

namespace op {
// --- Elements.

// Rounded to `decimals` digits behind the point, halves to the even neighbour; before the point for a negative number.
// Numbers; integers exactly, where MXNet cuts digits off. The gradient is 0.
struct Around {
  int decimals = 0;
  static constexpr OpTraits traits{
      .name = "_npi_around", .inputs = ops::Names("x"), .flat = true, .aliases = ops::Names("around")};
  static constexpr void fields(auto field) { field("decimals", &Around::decimals); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// p[0] x^(n - 1) + ... + p[n - 1], by Horner's rule; 0 for an empty p. Numbers of one dtype.
struct Polyval {
  static constexpr OpTraits traits{
      .name = "_npi_polyval", .inputs = ops::Names("p", "x"), .aliases = ops::Names("polyval")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The line through the points (xp, fp), which are 1-D and whose xp ascend, at each x; fp's ends, or left and right,
// beyond them. Floating dtypes, one.
struct Interp {
  std::optional<double> left{};
  std::optional<double> right{};
  static constexpr OpTraits traits{.name = "interp", .inputs = ops::Names("x", "xp", "fp"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("left", &Interp::left);
    field("right", &Interp::right);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Whether each element is, or with `invert` is not, among test_elements: bool. No NaN is. Numbers of one dtype.
struct IsIn {
  bool invert = false;
  static constexpr OpTraits traits{
      .name = "isin", .inputs = ops::Names("element", "test_elements"), .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) { field("invert", &IsIn::invert); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// to_begin, the differences of neighbours in the flattened array, to_end: numbers, or arrays of its dtype. Numbers.
struct EDiff1d {
  bool to_begin_arr_given = false;
  bool to_end_arr_given = false;
  std::optional<double> to_begin_scalar{};
  std::optional<double> to_end_scalar{};
  static constexpr OpTraits traits{
      .name = "_npi_ediff1d", .inputs = ops::Names("input1", "input2", "input3"), .aliases = ops::Names("ediff1d")};
  static constexpr void fields(auto field) {
    field("to_begin_arr_given", &EDiff1d::to_begin_arr_given);
    field("to_end_arr_given", &EDiff1d::to_end_arr_given);
    field("to_begin_scalar", &EDiff1d::to_begin_scalar);
    field("to_end_scalar", &EDiff1d::to_end_scalar);
  }
  static const OpDef def;
  int num_inputs() const { return 1 + int(to_begin_arr_given) + int(to_end_arr_given); }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Averages, and reductions without NaN. What has no dimensions left has shape (1,), here and below.

// sum(a w) / sum(w) over the axes in `axis`, over all of them without it, and with `returned` sum(w). The weights have
// a's shape, or are 1-D along one axis; without `weighted` they are 1. float32 for integers and bool.
struct Average {
  std::optional<Shape> axis{};
  bool returned = false;
  bool weighted = true;
  static constexpr OpTraits traits{
      .name = "_npi_average", .inputs = ops::Names("a", "weights"), .aliases = ops::Names("average")};
  static constexpr void fields(auto field) {
    field("axis", &Average::axis);
    field("returned", &Average::returned);
    field("weighted", &Average::weighted);
  }
  static const OpDef def;
  int num_inputs() const { return weighted ? 2 : 1; }
  int num_outputs() const { return returned ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

namespace ops {
constexpr std::string_view nan_reduce_name(ReduceKind kind) {
  return kind == ReduceKind::mean ? "nanmean" : kind == ReduceKind::max ? "nanmax" : "nanmin";
}
}  // namespace ops

namespace op {
// The mean, largest and smallest of the elements other than NaN over the axes in `axis`, over all of them without it;
// NaN where there is none. Floating dtypes; integers too in nanmax and nanmin.
template <ops::ReduceKind K>
struct NanReduce {
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = ops::nan_reduce_name(K), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &NanReduce::axis);
    field("keepdims", &NanReduce::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using NanMean = NanReduce<ops::ReduceKind::mean>;
using NanMax = NanReduce<ops::ReduceKind::max>;
using NanMin = NanReduce<ops::ReduceKind::min>;

// The covariances of the rows of m (variables, observations), or without rowvar of its columns:
// sum (m_i - mean_i)(m_j - mean_j) / (n - ddof), ddof 1, or 0 with `bias`. A vector is one variable. Floating dtypes.
struct Cov {
  bool rowvar = true;
  bool bias = false;
  std::optional<int> ddof{};
  static constexpr OpTraits traits{.name = "cov", .inputs = ops::Names("m"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rowvar", &Cov::rowvar);
    field("bias", &Cov::bias);
    field("ddof", &Cov::ddof);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Products and norms.

// NumPy's dot: of an array and a number, their product; else the last axis of a contracted with the last but one of b,
// or its only one. Numbers of one dtype.
struct NumpyDot {
  static constexpr OpTraits traits{.name = "_np_dot", .inputs = ops::Names("a", "b")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The vector products a x b along `axis`, of size 3, of arrays that broadcast. Numbers of one dtype.
struct Cross {
  int axis = -1;
  static constexpr OpTraits traits{.name = "cross", .inputs = ops::Names("a", "b"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &Cross::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// linalg_norm as files have it. `flag` says which: -2 and 1 are without ord, over all elements or over the axes; 0 and
// -1 with it; 2 is the sum of singular values.
struct NumpyNorm {
  double ord = 2;
  std::optional<Shape> axis{};
  bool keepdims = false;
  int flag = -1;
  static constexpr OpTraits traits{.name = "_npi_norm"};
  static constexpr void fields(auto field) {
    field("ord", &NumpyNorm::ord);
    field("axis", &NumpyNorm::axis);
    field("keepdims", &NumpyNorm::keepdims);
    field("flag", &NumpyNorm::flag);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// NumPy's linalg.norm. Of vectors along one axis: (sum |x|^ord)^(1/ord); the largest |x| for inf, the smallest for
// -inf, the number of elements other than 0 for 0. Of matrices along two: the largest (1) and smallest (-1) sum of a
// column's magnitudes, of a row's (inf, -inf), the largest (2) and smallest (-2) singular value. Without ord the root
// of the sum of squares, over all elements where there is no axis. Without axis a vector or a matrix has an ord.
// Floating dtypes; float32 and float64 for singular values.
struct LinalgNorm {
  std::optional<double> ord{};
  std::optional<Shape> axis{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "linalg_norm", .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("ord", &LinalgNorm::ord);
    field("axis", &LinalgNorm::axis);
    field("keepdims", &LinalgNorm::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Inverses and systems of equations, float32 and float64.

// The pseudo-inverse by singular values, of which those up to rcond times the largest count as 0. rcond: an array with
// the leading axes of A, or with one that broadcasts to them, or the number. hermitian must be false, as in MXNet.
struct Pinv {
  bool hermitian = false;
  static constexpr OpTraits traits{.name = "_npi_pinv", .inputs = ops::Names("A", "rcond")};
  static constexpr void fields(auto field) { field("hermitian", &Pinv::hermitian); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
struct PinvScalarRcond {
  double rcond = 1e-15;
  bool hermitian = false;
  static constexpr OpTraits traits{.name = "_npi_pinv_scalar_rcond", .inputs = ops::Names("A")};
  static constexpr void fields(auto field) {
    field("rcond", &PinvScalarRcond::rcond);
    field("hermitian", &PinvScalarRcond::hermitian);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The inverse of a as the matrix from its axes behind the first `ind` to these, which have as many elements: of shape
// a.shape[ind:] + a.shape[:ind].
struct TensorInv {
  int ind = 2;
  static constexpr OpTraits traits{.name = "_npi_tensorinv", .inputs = ops::Names("a")};
  static constexpr void fields(auto field) { field("ind", &TensorInv::ind); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// x with tensordot(a, x) = b: a_axes of a are moved to its end first; the others are those of b in number.
struct TensorSolve {
  Shape a_axes{};
  static constexpr OpTraits traits{.name = "_npi_tensorsolve", .inputs = ops::Names("a", "b")};
  static constexpr void fields(auto field) { field("a_axes", &TensorSolve::a_axes); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Eigenvalues of symmetric matrices, of which the triangle UPLO, L or U, is read, in ascending order; and, with
// `Vectors`, the eigenvectors in columns, of which the element of largest magnitude is positive. float32 and float64;
// other numbers in float64.
template <bool Vectors>
struct SymmetricEigen {
  ops::Word UPLO{"L"};
  static constexpr OpTraits traits{
      .name = Vectors ? "_npi_eigh" : "_npi_eigvalsh", .inputs = ops::Names("A"), .outputs = Vectors ? 2 : 1};
  static constexpr void fields(auto field) { field("UPLO", &SymmetricEigen::UPLO); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using Eigh = SymmetricEigen<true>;
using Eigvalsh = SymmetricEigen<false>;

// The eigenvalues of square matrices, as _npi_eig has them.
struct Eigvals {
  static constexpr OpTraits traits{.name = "_npi_eigvals", .inputs = ops::Names("A"), .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
