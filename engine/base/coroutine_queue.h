// CoroutineQueue: coroutines that are to be resumed, in order.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace kaon::engine {

// A ring that grows ahead of need. A coroutine that has become ready must reach its executor, also when the process has
// no memory: so each push that finds the ring more than half full enlarges it if it can, and pushes only fail when the
// second half has filled while every allocation failed. Thread safety: unsafe.
class CoroutineQueue {
 public:
  CoroutineQueue() = default;
  CoroutineQueue(const CoroutineQueue&) = delete;
  CoroutineQueue& operator=(const CoroutineQueue&) = delete;

  bool is_empty() const noexcept { return size_ == 0; }
  // Throws std::bad_alloc, and has changed nothing then.
  void push(std::coroutine_handle<> work) {
    if (2 * size_ >= capacity_ && !grow() && size_ == capacity_) throw std::bad_alloc();
    at(size_++) = work;
  }
  // An empty handle when there is none.
  std::coroutine_handle<> pop() noexcept {
    if (is_empty()) return {};
    const std::coroutine_handle<> work = at(0);
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
    return work;
  }

 private:
  std::coroutine_handle<>& at(size_t i) noexcept { return ring_[(first_ + i) & (capacity_ - 1)]; }
  bool grow() noexcept {
    std::unique_ptr<std::coroutine_handle<>[]> larger(new (std::nothrow) std::coroutine_handle<>[2 * capacity_]);
    if (!larger) return false;
    for (size_t i = 0; i < size_; ++i) larger[i] = at(i);
    heap_ = std::move(larger);
    ring_ = heap_.get();
    capacity_ *= 2;
    first_ = 0;
    return true;
  }

  std::array<std::coroutine_handle<>, 64> few_{};
  std::unique_ptr<std::coroutine_handle<>[]> heap_;  // in place of `few_`, once these were too few
  std::coroutine_handle<>* ring_ = few_.data();
  size_t capacity_ = few_.size();  // a power of two
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace kaon::engine
