// HostTensor and Sample: a dataset's samples, plain memory with a shape, which the engine does not know.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon::data {

// A dense row-major tensor that owns its memory, or views memory of another owner. Cheap to move. Only copy_of blocks.
// Thread safety: like std::vector.
class HostTensor {
 public:
  HostTensor() = default;  // holds nothing
  HostTensor(const Shape& shape,
             DType dtype);  // zeros; ShapeError for an unknown shape, TypeError for an unknown dtype
  // A copy of the values. Throws ShapeError when their number does not fit.
  template <class T>
    requires(size_of(dtype_of<T>) == sizeof(T) && !std::is_same_v<T, bool>)
  HostTensor(const Shape& shape, const std::vector<T>& values) : HostTensor(shape, dtype_of<T>) {
    check_size(values.size());
    if (!values.empty()) std::memcpy(own_.data(), values.data(), own_.size());
  }
  // A number, of no dimensions: int gives int32, float gives float32.
  template <class T>
    requires(std::is_arithmetic_v<T>&& size_of(dtype_of<T>) == sizeof(T))
  HostTensor(T number) : HostTensor(Shape(), dtype_of<T>) { std::memcpy(own_.data(), &number, sizeof(T)); }
  // A view: `owner` keeps `data` alive, which must not be written any more.
  static HostTensor view(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype);
  // The values of an array, in its dtype. Blocks; throws the array's failure.
  static HostTensor copy_of(const NDArray& array);

  bool defined() const { return dtype_ != DType(-1); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t size() const { return shape_.size(); }
  size_t bytes() const { return size_t(size()) * size_of(dtype_); }
  const std::byte* data() const { return view_ ? view_ : own_.data(); }
  std::byte* mutable_data();  // a view copies its memory first

  // The elements. Both throw TypeError when the dtype is another one.
  template <class T>
  const T* as() const {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<const T*>(data());
  }
  template <class T>
  T* mutable_as() {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<T*>(mutable_data());
  }
  HostTensor reshape(const Shape& shape) &&;  // throws ShapeError for another number of elements

 private:
  void check_size(size_t count) const;
  void check_dtype(DType wanted) const;

  Shape shape_;
  DType dtype_ = DType(-1);
  std::vector<std::byte> own_;
  const std::byte* view_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// One item of a dataset. The label may be undefined.
class Sample {
 public:
  Sample() = default;
  explicit Sample(HostTensor data, HostTensor label = HostTensor()) : data(std::move(data)), label(std::move(label)) {}

  HostTensor data;
  HostTensor label;
};

}  // namespace gluon::data
}  // namespace kaon
