// SmallArray: so many objects for the length of a call, on the stack when they are few.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace kaon {

// Only the `size` objects asked for are made: std::array would make all `few` of them.
template <class T, size_t few = 12>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : size_(size) {
    data_ = size > few ? std::allocator<T>().allocate(size) : reinterpret_cast<T*>(local_);
    std::uninitialized_value_construct_n(data_, size);
  }
  ~SmallArray() {
    std::destroy_n(data_, size_);
    if (size_ > few) std::allocator<T>().deallocate(data_, size_);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }

 private:
  size_t size_;
  T* data_;
  alignas(T) std::byte local_[few * sizeof(T)];
};

}  // namespace kaon
