#include "kaon/gluon/data/internal/stacked_rows.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/ops/array/array_node.h"

namespace kaon::gluon::data::detail {
namespace {

NDArray rows_of(int64_t count, const Shape& row, DType dtype) {
  Shape shape(count);
  for (int64_t d : row) shape.push_back(d);
  return NDArray::empty(shape, dtype);
}

}  // namespace

StackedRows::StackedRows(int64_t count, const HostTensor& first)
    : array_(rows_of(count, first.shape(), first.dtype())),
      memory_(static_cast<std::byte*>(array_.node().data())),
      shape_(first.shape()) {}

void StackedRows::add(const HostTensor& value, const std::string& what) {
  if (!value.defined() || value.shape() != shape_) {
    throw ShapeError(
        fmt::format("[DataLoader] the samples of a batch must agree in {}: expected shape {}, got {}{}", what,
                    shape_.str(), value.defined() ? "shape " + value.shape().str() : "none",
                    value.defined() && value.shape().ndim() == shape_.ndim() ? " (batchify::Pad fills up)" : ""));
  }
  if (value.dtype() != array_.dtype()) {
    throw TypeError(fmt::format("[DataLoader] the samples of a batch must agree in {}: expected dtype {}, got {}", what,
                                name_of(array_.dtype()), name_of(value.dtype())));
  }
  if (const size_t n = value.bytes()) std::memcpy(memory_ + size_t(added_) * n, value.data(), n);
  ++added_;
}

NDArray StackedRows::finish() {
  if (added_ == array_.shape()[0]) return array_;
  NDArray fewer = rows_of(added_, shape_, array_.dtype());
  const size_t bytes = size_t(fewer.shape().size()) * size_of(array_.dtype());
  if (bytes) std::memcpy(fewer.node().data(), memory_, bytes);
  return fewer;
}

}  // namespace kaon::gluon::data::detail
