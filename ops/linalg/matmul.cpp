// NumPy's products: matmul, tensordot, outer, kron.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/kernels/contraction.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Matmul::def = make_op_def<op::Matmul>();
constinit const OpDef op::Tensordot::def = make_op_def<op::Tensordot>();
constinit const OpDef op::TensordotIntAxes::def = make_op_def<op::TensordotIntAxes>();
constinit const OpDef op::Outer::def = make_op_def<op::Outer>();
constinit const OpDef op::Kron::def = make_op_def<op::Kron>();

namespace {

// The operands of matmul: vectors are a row on the left and a column on the right.
struct MatmulSizes {
  Shape a, b;   // as matrices
  Shape batch;  // the leading axes, broadcast; valid only if `fits`
  bool fits = true;
  Shape result;  // without the axes of vectors

  MatmulSizes(const Shape& left, const Shape& right)
      : a(left.ndim() == 1 ? Shape(1, left[0]) : left), b(right.ndim() == 1 ? Shape(right[0], 1) : right) {
    const int n = std::max(a.ndim(), b.ndim()) - 2;
    fits = a.back() == b[b.ndim() - 2];
    for (int i = 0; i < n; ++i) {
      const int ia = i - n + a.ndim() - 2, ib = i - n + b.ndim() - 2;
      const int64_t na = ia < 0 ? 1 : a[ia], nb = ib < 0 ? 1 : b[ib];
      fits = fits && (na == nb || na == 1 || nb == 1);
      batch.push_back(na == 1 ? nb : na);
    }
    result = batch;
    if (left.ndim() > 1) result.push_back(a[a.ndim() - 2]);
    if (right.ndim() > 1) result.push_back(b.back());
    result = at_least_1d(result);
  }
};

// x as (batch, rows, columns), its leading axes repeated to those of `batch`.
MatrixBatch repeated(NDArray x, const Shape& matrices, const Shape& batch) {
  const int missing = batch.ndim() + 2 - matrices.ndim();
  const Shape same = joined(Shape::filled(missing, 1), matrices);
  x = shaped(x, same);
  for (int i = 0; i < batch.ndim(); ++i) {
    if (batch[i] == 0 && same[i] == 1) x = nd.slice_axis(x, i, 0, 0);
  }
  const Shape all = joined(batch, Shape(matrices[matrices.ndim() - 2], matrices.back()));
  if (x.shape() != all) x = nd.broadcast_to(x, all);
  const int n = batch.ndim();
  return as_matrices(x, consecutive_axes(0, n), Shape(n), Shape(n + 1));
}

Shape checked_axes(const InferContext& c, const char* name, const Shape& axes, int ndim) {
  Shape checked;
  for (int64_t axis : axes) {
    const int64_t i = normalize_axis(axis, ndim, c.op());
    if (std::find(checked.begin(), checked.end(), i) != checked.end()) {
      c.fail_value(fmt::format("{} names axis {} twice: {}", name, i, axes.str()));
    }
    checked.push_back(i);
  }
  return checked;
}

Shape normalized(const Shape& axes, int ndim) {
  Shape all;
  for (int64_t axis : axes) all.push_back(axis < 0 ? axis + ndim : axis);
  return all;
}

void infer_tensordot(InferContext& c, const Shape& a_axes, const Shape& b_axes) {
  expect_numbers(c);
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a_axes.ndim() != b_axes.ndim()) {
    c.fail_value(
        fmt::format("as many axes of a as of b must be summed over, got {} and {}", a_axes.str(), b_axes.str()));
  }
  if (sizes_of(a, a_axes) != sizes_of(b, b_axes)) {
    c.fail(fmt::format("the axes {} of a and {} of b must be of equal sizes, got {}", a_axes.str(), b_axes.str(),
                       c.describe_inputs()));
  }
  const Shape left = sizes_of(a, other_axes(a.ndim(), a_axes)), right = sizes_of(b, other_axes(b.ndim(), b_axes));
  if (left.ndim() + right.ndim() > Shape::max_ndim) {
    c.fail(fmt::format("the result would have more than {} axes; {}", Shape::max_ndim, c.describe_inputs()));
  }
  c.set_output(at_least_1d(joined(left, right)), c.dtype());
}

NDArray tensordot(const NDArray& a, const NDArray& b, const Shape& a_axes, const Shape& b_axes, const Shape& out) {
  const MatrixBatch rows = as_matrices(a, {}, other_axes(a.shape().ndim(), a_axes), a_axes);
  const MatrixBatch columns = as_matrices(b, {}, b_axes, other_axes(b.shape().ndim(), b_axes));
  return shaped(batch_product(rows, columns), out);
}

// The axes of a and b, with 1 in front of the shorter one.
std::pair<Shape, Shape> aligned(const Shape& a, const Shape& b) {
  Shape x, y;
  const int n = std::max(a.ndim(), b.ndim());
  for (int i = 0; i < n; ++i) {
    const int ia = i - n + a.ndim(), ib = i - n + b.ndim();
    x.push_back(ia < 0 ? 1 : a[ia]), y.push_back(ib < 0 ? 1 : b[ib]);
  }
  return {x, y};
}

}  // namespace

void op::Matmul::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  c.expect_ndim_at_least(1, 1);
  expect_numbers(c);
  const MatmulSizes s(c.shape(0), c.shape(1));
  if (!s.fits) {
    c.fail(
        fmt::format("the columns of a and the rows of b must be equal, and their leading axes must broadcast, got {}",
                    c.describe_inputs()));
  }
  c.set_output(s.result, c.dtype());
}

void op::Matmul::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  const MatmulSizes s(a.shape(), b.shape());
  if (s.b.ndim() == 2) {  // one matrix for all rows of a
    const int last = s.a.ndim() - 1;
    const MatrixBatch rows = as_matrices(shaped(a, s.a), {}, consecutive_axes(0, last), Shape(last));
    return c.set(shaped(batch_product(rows, as_matrices(shaped(b, s.b), {}, Shape(0), Shape(1))), s.result));
  }
  c.set(shaped(batch_product(repeated(a, s.a, s.batch), repeated(b, s.b, s.batch)), s.result));
}

void op::Tensordot::infer(InferContext& c) const {
  infer_tensordot(c, checked_axes(c, "a_axes_summed", a_axes_summed, c.shape(0).ndim()),
                  checked_axes(c, "b_axes_summed", b_axes_summed, c.shape(1).ndim()));
}

void op::Tensordot::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  c.set(tensordot(a, b, normalized(a_axes_summed, a.shape().ndim()), normalized(b_axes_summed, b.shape().ndim()),
                  c.output().shape));
}

void op::TensordotIntAxes::infer(InferContext& c) const {
  const int least = std::min(c.shape(0).ndim(), c.shape(1).ndim());
  if (axes < 0 || axes > least) {
    c.fail_value(fmt::format("axes must be from 0 to {}, got {}; {}", least, axes, c.describe_inputs()));
  }
  infer_tensordot(c, consecutive_axes(c.shape(0).ndim() - axes, axes), consecutive_axes(0, axes));
}

void op::TensordotIntAxes::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  c.set(tensordot(a, b, consecutive_axes(a.shape().ndim() - axes, axes), consecutive_axes(0, axes), c.output().shape));
}

void op::Outer::infer(InferContext& c) const {
  expect_numbers(c);
  c.set_output(Shape(c.shape(0).size(), c.shape(1).size()), c.dtype());
}

void op::Outer::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  c.set(nd.broadcast_mul(shaped(c.input(0), Shape(out[0], 1)), shaped(c.input(1), Shape(1, out[1]))));
}

void op::Kron::infer(InferContext& c) const {
  expect_numbers(c);
  const auto [a, b] = aligned(c.shape(0), c.shape(1));
  Shape out;
  for (int i = 0; i < a.ndim(); ++i) {
    int64_t n = 0;
    if (__builtin_mul_overflow(a[i], b[i], &n)) {
      c.fail(fmt::format("the result has too many elements along axis {}; {}", i, c.describe_inputs()));
    }
    out.push_back(n);
  }
  if (2 * a.ndim() > Shape::max_ndim) {
    c.fail(fmt::format("arrays must have at most {} axes, got {}", Shape::max_ndim / 2, c.describe_inputs()));
  }
  c.set_output(out, c.dtype());
}

void op::Kron::compose(ComposeContext& c) const {
  auto [a, b] = aligned(c.input(0).shape(), c.input(1).shape());
  NDArray x = c.input(0), y = c.input(1);
  const int last = a.ndim() - 1;
  // Short rows of y make short products. Repeated along the last axis first, both have whole rows of the result; that
  // is little where other axes multiply them. In float32, a vector's numbers are enough of a row.
  constexpr int64_t large = 1 << 15, repeats = 8;
  const int64_t short_row = x.dtype() == DType::float32 ? 16 : 256;
  const bool is_repeated = last > 0 && b[last] < short_row && c.output().shape.size() >= large &&
                           a.product(0, last) >= repeats && b.product(0, last) >= repeats;
  if (is_repeated) {
    x = nd.repeat(shaped(x, a), int(b[last]), last);
    Shape times = Shape::filled(last + 1, 1);
    times[last] = a[last];
    y = nd.tile(shaped(y, b), times);
    a[last] = b[last] = a[last] * b[last];
  }
  Shape outer, inner;
  for (int i = 0; i <= last; ++i) {
    outer.push_back(a[i]);
    if (i < last || !is_repeated) outer.push_back(1), inner.push_back(1);
    inner.push_back(b[i]);
  }
  c.set(shaped(nd.broadcast_mul(shaped(x, outer), shaped(y, inner)), c.output().shape));
}

}  // namespace kaon
