#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "kaon/engine/error.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/checks.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/operator/value_dependent.h"
#include "kaon/ops/sparse/kernels/csr_dot.h"
#include "kaon/ops/sparse/sparse.h"

namespace kaon::sparse {

using namespace ops;

namespace {

constexpr const char *row_sparse = "RowSparseNDArray", *csr = "CSRNDArray";

void check_part(const char* kind, const char* name, const NDArray& data, const NDArray& part, const Shape& expected) {
  expect_values(kind);
  if (part.dtype() != DType::int64) {
    throw TypeError(fmt::format("[{}] {} must be int64, got {}", kind, name, name_of(part.dtype())));
  }
  if (part.shape() != expected) {
    throw ShapeError(fmt::format("[{}] {} must have shape {}, got {}", kind, name, expected.str(), part.shape().str()));
  }
  if (part.device() != data.device()) {
    throw DeviceError(
        fmt::format("[{}] data is on {}, {} on {}", kind, data.device().str(), name, part.device().str()));
  }
  check_same_engine(*data.node().buffer, *part.node().buffer, kind);
}

void check_data(const char* kind, const NDArray& data, const Shape& shape, bool fits, const std::string& expected) {
  if (data.dtype() == DType::boolean) throw TypeError(fmt::format("[{}] data must be numbers, got bool", kind));
  if (!shape.is_known() || !fits) {
    throw ShapeError(fmt::format("[{}] of shape {}: data must have shape {}, got {}", kind, shape.str(), expected,
                                 data.shape().str()));
  }
}

Shape with_rows(int64_t rows, const Shape& shape) {
  Shape result = shape;
  result[0] = rows;
  return result;
}

}  // namespace

RowSparseNDArray::RowSparseNDArray(NDArray data, NDArray indices, const Shape& shape)
    : data_(std::move(data)), indices_(std::move(indices)), shape_(shape) {
  const Shape& stored = data_.shape();
  const bool fits = shape.ndim() >= 1 && stored.ndim() == shape.ndim() && with_rows(stored[0], shape) == stored;
  check_data(row_sparse, data_, shape, fits, "(k, ...) with its other dimensions");
  check_part(row_sparse, "indices", data_, indices_, Shape(stored[0]));
  if (!checks().indices) return;
  std::vector<int64_t> sorted = indices_.asvector<int64_t>();
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
      (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= shape[0]))) {
    throw IndexError(fmt::format("[{}] indices must differ and lie in [0, {})", row_sparse, shape[0]));
  }
}

CSRNDArray::CSRNDArray(NDArray data, NDArray indices, NDArray indptr, const Shape& shape)
    : data_(std::move(data)), indices_(std::move(indices)), indptr_(std::move(indptr)), shape_(shape) {
  check_data(csr, data_, shape, shape.ndim() == 2 && data_.ndim() == 1, "(k,), and the array 2 dimensions");
  check_part(csr, "indices", data_, indices_, data_.shape());
  check_part(csr, "indptr", data_, indptr_, Shape(shape[0] + 1));
  if (!checks().indices) return;
  const std::vector<int64_t> columns = indices_.asvector<int64_t>(), starts = indptr_.asvector<int64_t>();
  if (!is_valid_csr(starts.data(), shape[0], columns.data(), int64_t(columns.size()), shape[1])) {
    throw IndexError(
        fmt::format("[{}] indptr must rise from 0 to {} and indices lie in [0, {})", csr, columns.size(), shape[1]));
  }
}

namespace {

constexpr op::TakeGrad rows_of(const Shape& shape) { return {.shape = shape, .axis = 0, .mode = IndexMode::raise}; }

NDArray index_array(const std::vector<int64_t>& values, Device device) {
  return nd.array(values, Shape(int64_t(values.size())), {.dtype = DType::int64, .device = device});
}

// The row of each stored element.
NDArray rows_of_elements(const CSRNDArray& a) {
  const NDArray each = nd.arange(0, double(a.data().size()), {.dtype = DType::int64, .ctx = a.device()});
  return nd.searchsorted(a.indptr(), each, {.right = true}) - 1;
}

// What is at several positions is added up and stored once, in ascending order.
struct Merged {
  std::vector<int64_t> positions;  // that are stored
  NDArray data;
};
Merged merge(const NDArray& values, const std::vector<int64_t>& positions) {
  Merged m;
  m.positions = positions;
  std::sort(m.positions.begin(), m.positions.end());
  m.positions.erase(std::unique(m.positions.begin(), m.positions.end()), m.positions.end());
  std::vector<int64_t> which;
  which.reserve(positions.size());
  for (const int64_t p : positions) {
    which.push_back(std::lower_bound(m.positions.begin(), m.positions.end(), p) - m.positions.begin());
  }
  const Shape shape = with_rows(int64_t(m.positions.size()), values.shape());
  m.data = nd._backward_take(values, index_array(which, values.device()), rows_of(shape));
  return m;
}

void check_alike(const char* function, const auto& a, const auto& b) {
  if (a.shape() != b.shape()) {
    throw ShapeError(fmt::format("[sparse.{}] the arrays must have one shape, got {} and {}", function, a.shape().str(),
                                 b.shape().str()));
  }
}

std::vector<int64_t> flat_positions(const CSRNDArray& a) {
  const std::vector<int64_t> columns = a.indices().asvector<int64_t>(), starts = a.indptr().asvector<int64_t>();
  if (!is_valid_csr(starts.data(), a.shape()[0], columns.data(), int64_t(columns.size()), a.shape()[1])) {
    throw IndexError(
        fmt::format("[sparse] indptr must rise from 0 to {} and indices lie in [0, {})", columns.size(), a.shape()[1]));
  }
  std::vector<int64_t> positions;
  positions.reserve(columns.size());
  for (int64_t row = 0; row < a.shape()[0]; ++row) {
    for (int64_t j = starts[size_t(row)]; j < starts[size_t(row) + 1]; ++j) {
      positions.push_back(row * a.shape()[1] + columns[size_t(j)]);
    }
  }
  return positions;
}

// The csr matrix that has `data` at these ascending positions of its elements.
CSRNDArray csr_of(const NDArray& data, const std::vector<int64_t>& positions, const Shape& shape) {
  std::vector<int64_t> columns, starts(size_t(shape[0]) + 1, 0);
  columns.reserve(positions.size());
  for (const int64_t p : positions) {
    columns.push_back(p % shape[1]);
    ++starts[size_t(p / shape[1]) + 1];
  }
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  return CSRNDArray(data, index_array(columns, data.device()), index_array(starts, data.device()), shape);
}

// The positions of the elements of a vector that are not zero.
std::vector<int64_t> found(const NDArray& x) { return nd.nonzero(x).asvector<int64_t>(); }

}  // namespace

NDArray RowSparseNDArray::todense() const { return nd._backward_take(data_, indices_, rows_of(shape_)); }
RowSparseNDArray RowSparseNDArray::copy() const { return {data_.copy(), indices_.copy(), shape_}; }
RowSparseNDArray RowSparseNDArray::as_in_context(Device device) const {
  return {data_.as_in_context(device), indices_.as_in_context(device), shape_};
}
void RowSparseNDArray::wait_to_read() const { data_.wait_to_read(), indices_.wait_to_read(); }

NDArray CSRNDArray::todense() const {
  const NDArray positions = rows_of_elements(*this) * double(shape_[1]) + indices_;
  return nd._reshape_to(nd._backward_take(data_, positions, rows_of(Shape(shape_.size()))), {.shape = shape_});
}
CSRNDArray CSRNDArray::copy() const { return {data_.copy(), indices_.copy(), indptr_.copy(), shape_}; }
CSRNDArray CSRNDArray::as_in_context(Device device) const {
  return {data_.as_in_context(device), indices_.as_in_context(device), indptr_.as_in_context(device), shape_};
}
void CSRNDArray::wait_to_read() const { data_.wait_to_read(), indices_.wait_to_read(), indptr_.wait_to_read(); }

CSRNDArray CSRNDArray::slice(int64_t begin, int64_t end) const {
  const int64_t rows = shape_[0];
  const auto position = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rows : i, 0, rows); };
  const int64_t first = position(begin), last = std::max(first, position(end));
  const NDArray starts = indptr_.slice(first, last + 1);
  const std::vector<int64_t> values = starts.asvector<int64_t>();
  const int64_t from = values.front(), to = values.back();
  if (from < 0 || from > to || to > data_.size()) {
    throw IndexError(fmt::format("[sparse.slice] indptr must rise from 0 to {}", data_.size()));
  }
  return {data_.slice(from, to), indices_.slice(from, to), starts - double(from), Shape(last - first, shape_[1])};
}

CSRNDArray CSRNDArray::operator[](int64_t index) const {
  const int64_t rows = shape_[0], row = index < 0 ? index + rows : index;
  if (row < 0 || row >= rows) {
    throw IndexError(fmt::format("[sparse] row {} of a matrix of {} rows", index, rows));
  }
  return slice(row, row + 1);
}

template <>
RowSparseNDArray cast_storage<RowSparseNDArray>(const NDArray& dense) {
  expect_values("cast_storage");
  const Shape& shape = dense.shape();
  if (shape.ndim() < 1) throw ShapeError("[cast_storage] a row_sparse array has at least 1 dimension, got none");
  const NDArray rows = nd._reshape_to(dense.detach(), {.shape = Shape(shape[0], shape.product(1, shape.ndim()))});
  const std::vector<int64_t> stored = found(nd.any(rows, {.axis = Shape(1)}));
  const NDArray indices = index_array(stored, dense.device());
  return {nd.take(dense, indices, {.axis = 0}), indices, shape};
}

template <>
CSRNDArray cast_storage<CSRNDArray>(const NDArray& dense) {
  expect_values("cast_storage");
  const Shape& shape = dense.shape();
  if (shape.ndim() != 2) {
    throw ShapeError(fmt::format("[cast_storage] a csr matrix has 2 dimensions, got {}", shape.str()));
  }
  const NDArray flat = nd._reshape_to(dense, {.shape = Shape(shape.size())});
  const std::vector<int64_t> positions = found(flat.detach());
  return csr_of(nd.take(flat, index_array(positions, dense.device()), {.axis = 0}), positions, shape);
}

template <>
RowSparseNDArray zeros<RowSparseNDArray>(const Shape& shape, const ArrayOptions& o) {
  if (shape.ndim() < 1) throw ShapeError("[sparse.zeros] a row_sparse array has at least 1 dimension, got none");
  return {nd.zeros(with_rows(0, shape), o), nd.zeros({0}, {.dtype = DType::int64, .device = o.device}), shape};
}

template <>
CSRNDArray zeros<CSRNDArray>(const Shape& shape, const ArrayOptions& o) {
  if (shape.ndim() != 2) {
    throw ShapeError(fmt::format("[sparse.zeros] a csr matrix has 2 dimensions, got {}", shape.str()));
  }
  const ArrayOptions index{.dtype = DType::int64, .device = o.device};
  return {nd.zeros({0}, o), nd.zeros({0}, index), nd.zeros({shape[0] + 1}, index), shape};
}

namespace {

NDArray product(const CSRNDArray& a, const NDArray& b, bool transpose) {
  const int64_t columns = a.shape()[1];
  if (a.device().type == DeviceType::cpu) {
    return nd.call(op::CsrDot{.columns = columns, .transpose = transpose}, a.data(), a.indices(), a.indptr(), b);
  }
  // On a GPU: a row of b for each element, added up. It takes memory for as many rows.
  const int64_t inner = transpose ? a.shape()[0] : columns;
  if (b.ndim() != 2 || b.shape()[0] != inner) {
    throw ShapeError(fmt::format("[sparse.dot] the dense matrix must have {} rows, got {}", inner, b.shape().str()));
  }
  const NDArray rows = rows_of_elements(a);
  const NDArray terms =
      nd.take(b, transpose ? rows : a.indices(), {.axis = 0, .mode = IndexMode::raise}) * nd.expand_dims(a.data(), 1);
  return nd._backward_take(terms, transpose ? a.indices() : rows,
                           rows_of(Shape(transpose ? columns : a.shape()[0], b.shape()[1])));
}

NDArray transposed(const NDArray& b, const DotOptions& options) { return options.transpose_b ? b.transpose() : b; }

}  // namespace

template <>
NDArray dot<NDArray>(const CSRNDArray& a, const NDArray& b, const DotOptions& options) {
  expect_values("sparse.dot");
  return product(a, transposed(b, options), options.transpose_a);
}

template <>
RowSparseNDArray dot<RowSparseNDArray>(const CSRNDArray& a, const NDArray& b, const DotOptions& options) {
  expect_values("sparse.dot");
  if (!options.transpose_a) {
    throw ValueError("[sparse.dot] the product is row_sparse where transpose_a is given, which it is not");
  }
  const std::vector<int64_t> columns = a.indices().asvector<int64_t>();
  std::vector<int64_t> stored = columns, which;
  std::sort(stored.begin(), stored.end());
  stored.erase(std::unique(stored.begin(), stored.end()), stored.end());
  for (const int64_t c : columns) {
    which.push_back(std::lower_bound(stored.begin(), stored.end(), c) - stored.begin());
  }
  if (!stored.empty() && (stored.front() < 0 || stored.back() >= a.shape()[1])) {
    throw IndexError(fmt::format("[sparse.dot] indices must lie in [0, {})", a.shape()[1]));
  }
  const int64_t count = int64_t(stored.size());
  const CSRNDArray compact(a.data(), index_array(which, a.device()), a.indptr(), Shape(a.shape()[0], count));
  const NDArray rows = product(compact, transposed(b, options), true);
  return {rows, index_array(stored, a.device()), Shape(a.shape()[1], rows.shape()[1])};
}

RowSparseNDArray retain(const RowSparseNDArray& a, const NDArray& indices) {
  expect_values("sparse.retain");
  if (indices.ndim() != 1) {
    throw ShapeError(fmt::format("[sparse.retain] indices must have 1 dimension, got {}", indices.shape().str()));
  }
  const std::vector<int64_t> wanted = indices.asvector<int64_t>(), stored = a.indices().asvector<int64_t>();
  std::vector<std::pair<int64_t, int64_t>> at;  // row, where it is stored
  for (size_t i = 0; i < stored.size(); ++i) at.emplace_back(stored[i], int64_t(i));
  std::sort(at.begin(), at.end());
  std::vector<int64_t> from, to;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] >= a.shape()[0]) {
      throw IndexError(fmt::format("[sparse.retain] indices must lie in [0, {}), got {}", a.shape()[0], wanted[i]));
    }
    const auto it = std::lower_bound(at.begin(), at.end(), std::pair(wanted[i], int64_t(0)));
    if (it != at.end() && it->first == wanted[i]) from.push_back(it->second), to.push_back(int64_t(i));
  }
  if (stored.empty()) return a;
  const NDArray rows = nd.take(a.data(), index_array(from, a.device()), {.axis = 0});
  const NDArray data =
      nd._backward_take(rows, index_array(to, a.device()), rows_of(with_rows(int64_t(wanted.size()), a.shape())));
  return {data, index_array(wanted, a.device()), a.shape()};
}

RowSparseNDArray elemwise_add(const RowSparseNDArray& a, const RowSparseNDArray& b) {
  check_alike("elemwise_add", a, b);
  return sum_rows(nd.concat({.dim = 0}, a.data(), b.data()), nd.concat({.dim = 0}, a.indices(), b.indices()),
                  a.shape());
}

CSRNDArray elemwise_add(const CSRNDArray& a, const CSRNDArray& b) {
  expect_values("sparse.elemwise_add");
  check_alike("elemwise_add", a, b);
  std::vector<int64_t> positions = flat_positions(a);
  const std::vector<int64_t> more = flat_positions(b);
  positions.insert(positions.end(), more.begin(), more.end());
  const Merged m = merge(nd.concat({.dim = 0}, a.data(), b.data()), positions);
  return csr_of(m.data, m.positions, a.shape());
}

RowSparseNDArray sum_rows(const NDArray& values, const NDArray& indices, const Shape& shape) {
  expect_values("sparse.sum_rows");
  const RowSparseNDArray given(values, indices, shape);
  const Merged m = merge(given.data(), given.indices().asvector<int64_t>());
  if (!m.positions.empty() && (m.positions.front() < 0 || m.positions.back() >= shape[0])) {
    throw IndexError(fmt::format("[sparse.sum_rows] indices must lie in [0, {})", shape[0]));
  }
  return {m.data, index_array(m.positions, values.device()), shape};
}

RowSparseNDArray operator*(const RowSparseNDArray& a, double factor) {
  return {a.data() * factor, a.indices(), a.shape()};
}
CSRNDArray operator*(const CSRNDArray& a, double factor) {
  return {a.data() * factor, a.indices(), a.indptr(), a.shape()};
}

NDArray square_sum(const RowSparseNDArray& a, int axis, bool keepdims) {
  if (a.shape().ndim() != 2) {
    throw ShapeError(fmt::format("[sparse.square_sum] the array must have 2 dimensions, got {}", a.shape().str()));
  }
  if (axis != 0 && axis != 1) throw ValueError(fmt::format("[sparse.square_sum] axis must be 0 or 1, got {}", axis));
  NDArray sum = nd.sum(nd.square(a.data()), {.axis = Shape(axis)});
  if (axis == 1) sum = nd._backward_take(sum, a.indices(), rows_of(Shape(a.shape()[0])));
  return keepdims ? nd.expand_dims(sum, axis) : sum;
}

NDArray getnnz(const CSRNDArray& a, std::optional<int> axis) {
  const int64_t rows = a.shape()[0];
  if (!axis) return index_array({a.data().size()}, a.device());
  if (*axis == 1) return a.indptr().slice(1, rows + 1) - a.indptr().slice(0, rows);
  if (*axis != 0) throw ValueError(fmt::format("[sparse.getnnz] axis must be 0 or 1, got {}", *axis));
  return nd._backward_take(nd.ones_like(a.indices()), a.indices(), rows_of(Shape(a.shape()[1])));
}

NDArray where(const CSRNDArray& condition, const NDArray& x, const NDArray& y) {
  return nd.where(condition.todense(), x, y);
}

namespace {

std::string describe(const char* kind, const auto& a) {
  if (!a.defined()) return fmt::format("<{} none>", kind);
  return fmt::format("\n<{} {} @{}>", kind, fmt::join(a.shape(), "x"), a.device().str());
}

}  // namespace

std::string to_string(const RowSparseNDArray& array) { return describe(row_sparse, array); }
std::string to_string(const CSRNDArray& array) { return describe(csr, array); }
std::ostream& operator<<(std::ostream& out, const RowSparseNDArray& array) { return out << to_string(array); }
std::ostream& operator<<(std::ostream& out, const CSRNDArray& array) { return out << to_string(array); }

}  // namespace kaon::sparse
