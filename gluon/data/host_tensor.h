// HostTensor and Sample: a dataset's samples, lists of plain memory with a shape, which the engine does not know.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon::data {

namespace detail {
// "data", "label", "array 2", or what the names say.
KAON_API std::string name_of_array(size_t place, const std::vector<std::string>* names);
[[noreturn]] KAON_API void no_such_array(const std::string& asked, size_t count, const std::vector<std::string>* names);
}  // namespace detail

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
  // The values as an array on the CPU, ready at once. Throws ValueError where nothing is held.
  NDArray to_array() const;

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

// Any number of arrays: the first two have members of their own, `others` are all behind them. Names are optional, and
// say which array is which in messages too.
template <class Array>
class ArrayList {
 public:
  using Names = std::shared_ptr<const std::vector<std::string>>;
  ArrayList() = default;
  explicit ArrayList(Array data, Array label = Array()) : data(std::move(data)), label(std::move(label)) {}
  explicit ArrayList(std::vector<Array> arrays, Names names = nullptr) : names(std::move(names)) {
    for (size_t i = 0; i < arrays.size(); ++i) put(i, std::move(arrays[i]));
  }

  size_t num_arrays() const {
    return !others.empty() ? 2 + others.size() : label.defined() ? 2 : data.defined() ? 1 : 0;
  }
  // Array i, or the one of that name: "data" and "label" are the first two where no names were given. Throw IndexError.
  Array& operator[](size_t i) { return const_cast<Array&>(std::as_const(*this)[i]); }
  const Array& operator[](size_t i) const {
    if (i >= num_arrays()) detail::no_such_array(std::to_string(i), num_arrays(), names.get());
    return i == 0 ? data : i == 1 ? label : others[i - 2];
  }
  Array& operator[](std::string_view name) { return (*this)[place_of(name)]; }
  const Array& operator[](std::string_view name) const { return (*this)[place_of(name)]; }
  std::vector<Array> arrays() const {
    std::vector<Array> all;
    for (size_t i = 0; i < num_arrays(); ++i) all.push_back((*this)[i]);
    return all;
  }
  std::string name_of(size_t i) const { return detail::name_of_array(i, names.get()); }

  Array data;
  Array label;  // undefined where there is none
  std::vector<Array> others;
  Names names;

 protected:
  void put(size_t i, Array array) { (i == 0 ? data : i == 1 ? label : others.emplace_back()) = std::move(array); }

 private:
  size_t place_of(std::string_view name) const {
    for (size_t i = 0; i < num_arrays(); ++i) {
      if (name_of(i) == name) return i;
    }
    detail::no_such_array('"' + std::string(name) + '"', num_arrays(), names.get());
  }
};

// One item of a dataset. A list or a tuple of tensors is one too.
class Sample : public ArrayList<HostTensor> {
 public:
  Sample() = default;
  explicit Sample(HostTensor data, HostTensor label = HostTensor()) : ArrayList(std::move(data), std::move(label)) {}
  template <std::convertible_to<HostTensor>... More>
    requires(sizeof...(More) > 0)
  Sample(HostTensor data, HostTensor label, More... more) : ArrayList(std::move(data), std::move(label)) {
    (others.push_back(HostTensor(std::move(more))), ...);
  }
  Sample(std::vector<HostTensor> arrays, Names names = nullptr) : ArrayList(std::move(arrays), std::move(names)) {}
  template <std::convertible_to<HostTensor>... T>
  Sample(std::tuple<T...> arrays) {
    size_t i = 0;
    std::apply([&](auto&... array) { (put(i++, HostTensor(std::move(array))), ...); }, arrays);
  }
  template <std::convertible_to<HostTensor> A, std::convertible_to<HostTensor> B>
  Sample(std::pair<A, B> arrays) : ArrayList(std::move(arrays.first), std::move(arrays.second)) {}
};

}  // namespace gluon::data
}  // namespace kaon
