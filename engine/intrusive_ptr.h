// IntrusivePtr: a pointer to an object that counts its own references.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace engine {

// Base of counted objects. The count starts at 0, and the first IntrusivePtr makes it 1; or at the constructor's
// argument, for adopt(). T may hide `destroy()` to free its memory elsewhere. Thread safety: counting is atomic.
template <class T>
class RefCounted {
 public:
  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  // Called by the maker of an object, which no other thread knows while it has no reference, or by an owner.
  void retain_perhaps_first() const noexcept {
    if (refs_.load(std::memory_order_relaxed) == 0) return refs_.store(1, std::memory_order_relaxed);
    retain();
  }
  // Called by the only owner of an object that no other thread knows yet.
  void retain_unshared() const noexcept {
    refs_.store(refs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void release() const noexcept {
    // acquire: the last owner must see what the others wrote. A count of 1 is the caller's own reference: no other
    // owner can add one, so no locked instruction is needed.
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const_cast<T*>(static_cast<const T*>(this))->destroy();
    }
  }
  uint32_t use_count() const noexcept { return refs_.load(std::memory_order_relaxed); }
  void destroy() { delete static_cast<T*>(this); }

 protected:
  RefCounted() = default;
  explicit RefCounted(uint32_t refs) : refs_(refs) {}
  ~RefCounted() = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept { return *this; }

 private:
  mutable std::atomic<uint32_t> refs_{0};
};

// Like shared_ptr in one word. Thread safety: distinct pointers: safe; one shared pointer: unsafe.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  explicit IntrusivePtr(T* p) noexcept : p_(p) {
    if (p_) p_->retain_perhaps_first();
  }
  IntrusivePtr(const IntrusivePtr& o) noexcept : p_(o.p_) {
    if (p_) p_->retain();
  }
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  IntrusivePtr(IntrusivePtr<U>&& o) noexcept : p_(o.detach()) {}
  IntrusivePtr(IntrusivePtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  IntrusivePtr(const IntrusivePtr<U>& o) noexcept : p_(o.get()) {
    if (p_) p_->retain();
  }
  ~IntrusivePtr() {
    if (p_) p_->release();
  }
  IntrusivePtr& operator=(IntrusivePtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }

  static IntrusivePtr adopt(T* p) noexcept {  // takes over a reference that is already counted
    IntrusivePtr r;
    r.p_ = p;
    return r;
  }
  T* detach() noexcept { return std::exchange(p_, nullptr); }
  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace engine
}  // namespace kaon
