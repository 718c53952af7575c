#include "kaon/ops/linalg/kernels/contraction.h"
#include "kaon/ops/compose/conform.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"

namespace kaon::ops {
namespace {

bool is_in_order(const Shape& axes) {
  for (int i = 0; i < axes.ndim(); ++i) {
    if (axes[i] != i) return false;
  }
  return true;
}

// The matrices themselves, in the order of rows and columns.
NDArray straight(const MatrixBatch& a) { return a.transposed ? nd.swapaxes(a.x, 1, 2) : a.x; }
NDArray only(const MatrixBatch& a) { return shaped(a.x, Shape(a.x.shape()[1], a.x.shape()[2])); }

}  // namespace

MatrixBatch as_matrices(const NDArray& x, const Shape& batch, const Shape& rows, const Shape& columns) {
  const Shape& s = x.shape();
  const int64_t n = sizes_of(s, batch).size(), m = sizes_of(s, rows).size(), k = sizes_of(s, columns).size();
  if (is_in_order(joined(batch, joined(columns, rows))) && !is_in_order(joined(batch, joined(rows, columns)))) {
    return {shaped(x, Shape(n, k, m)), true};
  }
  return {shaped(reordered(x, joined(batch, joined(rows, columns))), Shape(n, m, k))};
}

NDArray batch_product(const MatrixBatch& a, const MatrixBatch& b) {
  if (!is_floating(a.x.dtype())) {
    return nd.sum(nd.broadcast_mul(nd.expand_dims(straight(a), 3), nd.expand_dims(straight(b), 1)), {.axis = Shape(2)});
  }
  if (a.x.shape()[0] != 1) {
    return nd.batch_dot(a.x, b.x, {.transpose_a = a.transposed, .transpose_b = b.transposed});
  }
  return nd.expand_dims(nd.dot(only(a), only(b), {.transpose_a = a.transposed, .transpose_b = b.transposed}), 0);
}

NDArray reordered(const NDArray& x, const Shape& axes) { return is_in_order(axes) ? x : nd.transpose(x, axes); }

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  for (int64_t n : b) all.push_back(n);
  return all;
}

Shape sizes_of(const Shape& shape, const Shape& axes) {
  Shape sizes;
  for (int64_t i : axes) sizes.push_back(shape[int(i)]);
  return sizes;
}

Shape other_axes(int ndim, const Shape& axes) {
  Shape others;
  for (int i = 0; i < ndim; ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) others.push_back(i);
  }
  return others;
}

Shape consecutive_axes(int begin, int count) {
  Shape axes;
  for (int i = 0; i < count; ++i) axes.push_back(begin + i);
  return axes;
}

void expect_numbers(const InferContext& c) {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype(fmt::format("expected numbers, got {}", name_of(c.dtype())));
}

}  // namespace kaon::ops
