// Pseudo-inverses, inverses and systems of equations of arrays, eigenvalues.
#include <fmt/format.h>

#include "kaon/ops/analysis/analysis.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Pinv::def = make_op_def<op::Pinv>();
constinit const OpDef op::PinvScalarRcond::def = make_op_def<op::PinvScalarRcond>();
constinit const OpDef op::TensorInv::def = make_op_def<op::TensorInv>();
constinit const OpDef op::TensorSolve::def = make_op_def<op::TensorSolve>();
template <bool Vectors>
constinit const OpDef op::SymmetricEigen<Vectors>::def = make_op_def<op::SymmetricEigen<Vectors>>();
constinit const OpDef op::Eigvals::def = make_op_def<op::Eigvals>();

// --- pinv

namespace {

void infer_pinv(bool hermitian, InferContext& c) {
  if (hermitian) c.fail_value("hermitian is not implemented, as in MXNet");
  expect_matrices(c);
  expect_factorable(c);
  const Matrices m(c.shape(0));
  c.set_output(of_batch(c.shape(0), {m.columns, m.rows}), c.dtype());
}

// `rcond`: one for each of the matrices, (..., 1), or a number that is used without it.
NDArray pseudo_inverse(const NDArray& a, const Shape& shape, const NDArray& rcond, double number) {
  const Matrices m(a.shape());
  if (m.rows == 0 || m.columns == 0) return nd.zeros(shape, {.dtype = a.dtype()});
  const std::vector<NDArray> parts = nd.call_all(op::LinalgSvd{}, a);
  const NDArray& values = parts[1];
  const NDArray most = nd.stop_gradient(nd._np_max(values, {.axis = Shape(-1), .keepdims = true}));
  const NDArray limit = rcond.defined() ? nd.broadcast_mul(most, nd.stop_gradient(rcond)) : most * number;
  const NDArray is_kept = nd.broadcast_greater(values, limit);
  const NDArray inverses = is_kept / nd.where(is_kept, values, nd.ones_like(values));
  const NDArray rows = nd.broadcast_mul(parts[2], nd.expand_dims(inverses, -1));
  return nd.matmul(transposed(rows), transposed(parts[0]));
}

}  // namespace

void op::Pinv::infer(InferContext& c) const {
  const Shape batch = of_batch(c.shape(0), {});
  infer_pinv(hermitian, c);
  const Shape& rcond = c.shape(1);
  if (rcond.ndim() > batch.ndim() || broadcast_shapes(batch, rcond, c.op()) != batch) {
    c.fail(fmt::format("rcond must broadcast to the leading axes of A, got {}", c.describe_inputs()));
  }
}

void op::Pinv::compose(ComposeContext& c) const {
  c.set(pseudo_inverse(c.input(0), c.output().shape, nd.expand_dims(c.input(1), -1), 0));
}

void op::PinvScalarRcond::infer(InferContext& c) const { infer_pinv(hermitian, c); }

void op::PinvScalarRcond::compose(ComposeContext& c) const {
  c.set(pseudo_inverse(c.input(), c.output().shape, NDArray(), rcond));
}

// --- tensorinv and tensorsolve

void op::TensorInv::infer(InferContext& c) const {
  expect_factorable(c);
  const Shape& a = c.shape(0);
  if (ind < 1 || ind >= a.ndim()) c.fail_value(fmt::format("ind must be in [1, {}), got {}", a.ndim(), ind));
  if (a.product(0, ind) != a.product(ind, a.ndim())) {
    c.fail(fmt::format("the first {} axes of a must have as many elements as the others, got shape {}", ind, a.str()));
  }
  Shape out;
  for (int i = 0; i < a.ndim(); ++i) out.push_back(a[(i + ind) % a.ndim()]);
  c.set_output(out, c.dtype());
}

void op::TensorInv::compose(ComposeContext& c) const {
  const int64_t n = c.input().shape().product(0, ind);
  const NDArray inverse = nd.linalg_inverse(nd._reshape_to(c.input(), {.shape = Shape(n, n)}));
  c.set(nd._reshape_to(inverse, {.shape = c.output().shape}));
}

namespace {

// The axes of a, those in a_axes at the end.
Shape solved_order(const Shape& a_axes, int ndim) {
  uint32_t moved = 0;
  Shape order, behind;
  for (int64_t a : a_axes) {
    const int at = normalize_axis(a, ndim, "_npi_tensorsolve");
    if ((moved & bit(at)) == 0) behind.push_back(at);
    moved |= bit(at);
  }
  for (int i = 0; i < ndim; ++i) {
    if ((moved & bit(i)) == 0) order.push_back(i);
  }
  for (int64_t a : behind) order.push_back(a);
  return order;
}

}  // namespace

void op::TensorSolve::infer(InferContext& c) const {
  expect_factorable(c);
  const Shape &a = c.shape(0), &b = c.shape(1);
  const Shape order = solved_order(a_axes, a.ndim());
  Shape moved;
  for (int64_t i : order) moved.push_back(a[int(i)]);
  if (b.ndim() > a.ndim() || moved.product(0, b.ndim()) != b.size() || moved.product(b.ndim(), a.ndim()) != b.size()) {
    c.fail(
        fmt::format("a, with a_axes at its end, must be a square matrix from its axes behind the first {} to these, "
                    "which have the elements of b, got {}",
                    b.ndim(), c.describe_inputs()));
  }
  Shape out;
  for (int i = b.ndim(); i < a.ndim(); ++i) out.push_back(moved[i]);
  c.set_output(out, c.dtype());
}

void op::TensorSolve::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  const int64_t n = b.size();
  const NDArray moved = a_axes.empty() ? a : nd.transpose(a, solved_order(a_axes, a.ndim()));
  const NDArray matrix = nd._reshape_to(moved, {.shape = Shape(n, n)});
  const NDArray x = nd.linalg_solve(matrix, nd._reshape_to(b, {.shape = Shape(n, 1)}));
  c.set(nd._reshape_to(x, {.shape = c.output().shape}));
}

// --- eigenvalues

namespace {

// Numbers that LAPACK has no functions for are taken as float64.
DType eigen_dtype(const InferContext& c) {
  if (c.dtype() == DType::float16 || c.dtype() == DType::bfloat16 || c.dtype() == DType::boolean) {
    c.fail_dtype(fmt::format("A must be float32, float64 or of integers, got {}", name_of(c.dtype())));
  }
  return is_floating(c.dtype()) ? c.dtype() : DType::float64;
}

NDArray factorable(const NDArray& a) { return is_floating(a.dtype()) ? a : nd.cast(a, DType::float64); }

}  // namespace

template <bool Vectors>
void op::SymmetricEigen<Vectors>::infer(InferContext& c) const {
  if (UPLO != ops::Word{"L"} && UPLO != ops::Word{"U"}) {
    c.fail_value(fmt::format("UPLO must be L or U, got {}", UPLO.text));
  }
  expect_square(c);
  const DType dtype = eigen_dtype(c);
  c.set_output(0, of_batch(c.shape(0), {c.shape(0).back()}), dtype);
  if (Vectors) c.set_output(1, c.shape(0), dtype);
}

template <bool Vectors>
void op::SymmetricEigen<Vectors>::compose(ComposeContext& c) const {
  const NDArray a = factorable(c.input());
  const std::vector<NDArray> parts = nd.linalg_syevd(UPLO == ops::Word{"L"} ? a : transposed(a));
  c.set(0, parts[1]);
  if (Vectors) c.set(1, transposed(parts[0]));
}

void op::Eigvals::infer(InferContext& c) const {
  expect_square(c);
  c.set_output(of_batch(c.shape(0), {c.shape(0).back()}), eigen_dtype(c));
}

void op::Eigvals::compose(ComposeContext& c) const { c.set(nd.linalg_eig(factorable(c.input()))[0]); }

template struct op::SymmetricEigen<true>;
template struct op::SymmetricEigen<false>;

}  // namespace kaon
