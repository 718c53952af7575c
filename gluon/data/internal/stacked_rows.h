// StackedRows: tensors of one shape copied, one after another, into the rows of an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kaon/gluon/data/host_tensor.h"

namespace kaon::gluon::data {

namespace detail {

// Copies into the memory of the array, which no other thread knows yet. Thread safety: unsafe.
class StackedRows {
 public:
  // Room for `count` tensors like `first`, which is not added. The current engine owns the array.
  StackedRows(int64_t count, const HostTensor& first);
  // Throws ShapeError or TypeError, which say `what`, for a tensor unlike the first.
  void add(const HostTensor& value, const std::string& what);
  NDArray finish();  // the rows that there are

 private:
  NDArray array_;
  std::byte* memory_;
  Shape shape_;
  int64_t added_ = 0;
};

}  // namespace detail
}  // namespace kaon::gluon::data
