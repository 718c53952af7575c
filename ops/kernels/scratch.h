// Scratch: memory of the running thread for the length of a scope.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// The pieces of a parallel_for stage their tensors here: memory that the same thread has just used is in its cache, and
// nothing is allocated in steady state. Scopes nest; blocks above 64 MB are freed at once.
// Thread safety: belongs to the thread that made it.
class Scratch {
 public:
  explicit Scratch(size_t bytes);  // throws std::bad_alloc
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return data_; }  // 64-byte aligned
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t mark_ = 0;
  bool owned_ = false;
};

// `bytes` up to whole cache lines: the size of one part of a scratch block.
constexpr size_t line_aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace kaon::ops
