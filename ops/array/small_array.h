// SmallArray: an array for the duration of a call, on the stack when it is small, else in recycled memory.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "kaon/engine/block_pool.h"

namespace kaon::ops {

// Only the `size` objects asked for are made: std::array would make all `few` of them.
template <class T, size_t few = 12>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : SmallArray(size, [](size_t) { return T(); }) {}
  // Object i is what make(i) returns.
  template <class Make>
  SmallArray(size_t size, Make&& make) : SmallArray(Room{size}) {
    if constexpr (std::is_trivially_destructible_v<T>) {
      for (size_t i = 0; i < size; ++i) new (data_ + i) T(make(i));
      size_ = size;
    } else {
      for (; size_ < size; ++size_) new (data_ + size_) T(make(size_));  // if make() throws, the destructor ends these
    }
  }
  ~SmallArray() {
    std::destroy_n(data_, size_);
    if (room_ > few) engine::PoolAllocator<T>().deallocate(data_, room_);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }

 private:
  struct Room {
    size_t size;
  };
  explicit SmallArray(Room room)
      : room_(room.size),
        data_(room_ > few ? engine::PoolAllocator<T>().allocate(room_) : reinterpret_cast<T*>(local_)) {}

  size_t size_ = 0, room_;
  T* data_;
  alignas(T) std::byte local_[few * sizeof(T)];
};

}  // namespace kaon::ops
