// Triangles and diagonals of matrices.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/linalg/factor/kernels/packed_triangle.h"
#include "kaon/ops/linalg/kernels/contraction.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::LinalgSumLogDiag::def = make_op_def<op::LinalgSumLogDiag>();
constinit const OpDef op::LinalgExtractDiag::def = make_op_def<op::LinalgExtractDiag>();
constinit const OpDef op::LinalgMakeDiag::def = make_op_def<op::LinalgMakeDiag>();
constinit const OpDef op::LinalgExtractTrian::def = make_op_def<op::LinalgExtractTrian>();
constinit const OpDef op::LinalgMakeTrian::def = make_op_def<op::LinalgMakeTrian>();
constinit const OpDef op::Triangle::def = make_op_def<op::Triangle>();

namespace {

// The length of the diagonal `offset` of the square matrices of A.
int64_t expect_diagonal(const InferContext& c, int64_t offset) {
  expect_square(c);
  const int64_t n = c.shape(0).back() - std::abs(offset);
  if (n < 0) c.fail(fmt::format("there is no diagonal {}, got {}", offset, c.describe_inputs()));
  return n;
}

// Where the diagonal `offset` begins in a row-major matrix.
int64_t first_of_diagonal(int64_t offset, int64_t columns) { return offset >= 0 ? offset : -offset * columns; }

// The shape of A with its last axis replaced by matrices of m rows and columns, or more, for the diagonal `offset`.
Shape expect_square_result(const InferContext& c, int64_t m, int64_t offset) {
  if (c.shape(0).ndim() == Shape::max_ndim) {
    c.fail(fmt::format("A must have fewer than {} axes, got {}", Shape::max_ndim, c.describe_inputs()));
  }
  Shape shape = c.shape(0);
  shape[shape.ndim() - 1] = m + std::abs(offset);
  shape.push_back(m + std::abs(offset));
  return shape;
}

// body(begin, end) for pieces of the rows of all matrices, of some 64 kB.
template <class F>
void each_row(RunContext& run, const Matrices& m, size_t width, F&& body) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, m.columns * int64_t(width)));
  run.parallel_for(m.batch * m.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

// Moves the elements of each row that the triangle has: move(element of the row, packed element, count) where these lie
// together, in lower triangles, else one by one.
template <class Move>
void each_part(RunContext& run, const Matrices& m, const PackedTriangle& t, size_t width, Move&& move) {
  each_row(run, m, width, [&](int64_t row) {
    const int64_t i = row % m.rows, packed = row / m.rows * t.size(), first = t.first(i), last = t.last(i);
    const int64_t at = row * m.columns;
    if (t.is_lower) {
      if (last > 0) move(at, packed + t.place(i, 0), last);
      return;
    }
    for (int64_t j = first; j < last; ++j) move(at + j, packed + t.place(i, j), int64_t(1));
  });
}

}  // namespace

void op::LinalgSumLogDiag::infer(InferContext& c) const {
  expect_square(c);
  c.expect_floating();
  c.set_output(batch_shape(c.shape(0)), c.dtype());
}

void op::LinalgSumLogDiag::compose(ComposeContext& c) const {
  c.set(nd.sum(nd.log(nd.linalg_extractdiag(c.input())), {.axis = Shape(-1)}));
}

void op::LinalgExtractDiag::infer(InferContext& c) const {
  const int64_t n = expect_diagonal(c, offset);
  c.set_output(of_batch(c.shape(0), {n}), c.dtype());
}

// Every (n + 1)-th element of a matrix is on its diagonal.
void op::LinalgExtractDiag::compose(ComposeContext& c) const {
  const Matrices m(c.input().shape());
  const Shape& out = c.output().shape;
  const int64_t first = first_of_diagonal(offset, m.columns), count = out.back(), step = m.columns + 1;
  const NDArray rows = shaped(c.input(), Shape(m.batch, m.size()));
  const int64_t begin = count == 0 ? 0 : first, end = count == 0 ? 0 : first + (count - 1) * step + 1;
  c.set(shaped(nd.slice(rows, {std::nullopt, begin}, {std::nullopt, end}, {std::nullopt, step}), out));
}

void op::LinalgMakeDiag::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  c.set_output(expect_square_result(c, c.shape(0).back(), offset), c.dtype());
}

void op::LinalgMakeDiag::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const Matrices m(out);
  const NDArray rows = shaped(c.input(), Shape(m.batch, c.input().shape().back()));
  const NDArray placed = nd._backward_slice(rows, {.shape = Shape(m.batch, m.size()),
                                                   .begin = Shape(0, first_of_diagonal(offset, m.columns)),
                                                   .step = Shape(1, m.columns + 1)});
  c.set(shaped(placed, out));
}

void op::LinalgExtractTrian::infer(InferContext& c) const {
  const int64_t m = expect_diagonal(c, offset);
  c.set_output(of_batch(c.shape(0), {m * (m + 1) / 2}), c.dtype());
}

void op::LinalgExtractTrian::grad(GradContext& g) const {
  g.set(0, nd.linalg_maketrian(g.head(), {.offset = offset, .lower = lower}));
}

void run_cpu(const op::LinalgExtractTrian& op, KernelContext& c) {
  const Matrices m(c.in(0).shape);
  const PackedTriangle t(m.rows, op.offset, op.lower);
  dispatch_width(c.out().dtype, [&]<class T>() {
    const T* const square = c.in(0).as<const T>();
    T* const packed = c.out().as<T>();
    each_part(c.run, m, t, sizeof(T),
              [&](int64_t from, int64_t to, int64_t count) { std::copy_n(square + from, count, packed + to); });
  });
}

void op::LinalgMakeTrian::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  const int64_t size = c.shape(0).back(), m = (int64_t(std::sqrt(8 * double(size) + 1)) - 1) / 2;
  if (m * (m + 1) / 2 != size) {
    c.fail(fmt::format("the last axis must be a triangle, of 1, 3, 6, 10 ... elements, got {}", c.describe_inputs()));
  }
  c.set_output(expect_square_result(c, m, offset), c.dtype());
}

void op::LinalgMakeTrian::grad(GradContext& g) const {
  g.set(0, nd.linalg_extracttrian(g.head(), {.offset = offset, .lower = lower}));
}

void run_cpu(const op::LinalgMakeTrian& op, KernelContext& c) {
  const Matrices m(c.out().shape);
  const PackedTriangle t(m.rows, op.offset, op.lower);
  std::memset(c.out().data, 0, c.out().bytes());
  dispatch_width(c.out().dtype, [&]<class T>() {
    const T* const packed = c.in(0).as<const T>();
    T* const square = c.out().as<T>();
    each_part(c.run, m, t, sizeof(T),
              [&](int64_t to, int64_t from, int64_t count) { std::copy_n(packed + from, count, square + to); });
  });
}

void op::Triangle::infer(InferContext& c) const {
  expect_matrices(c);
  c.set_output(c.shape(0), c.dtype());
}

void op::Triangle::grad(GradContext& g) const { g.set(0, nd._triangle(g.head(), {.lower = lower})); }

void run_cpu(const op::Triangle& op, KernelContext& c) {
  const Matrices m(c.out().shape);
  const size_t width = size_of(c.out().dtype);
  each_row(c.run, m, width, [&](int64_t row) {
    const int64_t i = row % m.rows, end = m.columns;
    const int64_t first = op.lower ? 0 : std::min(i, end), last = op.lower ? std::min(i + 1, end) : end;
    const size_t at = size_t(row * m.columns) * width;
    char* const to = c.out().as<char>() + at;
    std::memset(to, 0, size_t(first) * width);
    std::memcpy(to + size_t(first) * width, c.in(0).as<const char>() + at + size_t(first) * width,
                size_t(last - first) * width);
    std::memset(to + size_t(last) * width, 0, size_t(end - last) * width);
  });
}

}  // namespace kaon
