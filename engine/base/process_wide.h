// What there is once in a process, for all its engines, and what a fork leaves of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace kaon {

// The order in which a fork takes locks. Under a lock, those of later kinds may be taken, and none of its own kind.
enum class ForkOrder : uint8_t {
  traces,      // one block is traced at a time
  primitives,  // oneDNN makes one
  making,      // MadeOnce
  default_engine,
  engines,
  others,
};

// One T, made before main and never destroyed: static arrays outlive main. T is a lock (lock, unlock) for what it
// holds. Forks take it, so that a child finds it free and whole.
// Thread safety: any thread.
template <class T, ForkOrder order = ForkOrder::others>
class ProcessWide {
 public:
  static T& get() {
    (void)&made_early;
    static Entry* const entry = new Entry;
    return entry->value;
  }

 private:
  struct Entry;
  // Were it made when first asked for, a child of a fork at that moment would wait for ever for it to be made.
  static inline T& made_early = get();
};

// How many forks lie between the first process and this one.
uint32_t fork_count() noexcept;

// For a T that has no lock of its own.
struct WithMutex {
  std::mutex mutex;
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
};

// Sixteen that have a mutex each, so that threads do not meet on one.
template <class Shard>
struct Shards {
  std::array<Shard, 16> all;
  void lock() {
    for (Shard& s : all) s.mutex.lock();
  }
  void unlock() {
    for (Shard& s : all) s.mutex.unlock();
  }
};

// A mutex that a thread may take again while it holds it. There is one object of each type derived from it. Unlike
// std::recursive_mutex, which knows its owner by a number that is another one in the child, it can be given back after
// a fork.
template <class Derived>
class Reentrant {
 public:
  void lock() {
    if (t_depth == 0) mutex_.lock();
    ++t_depth;
  }
  void unlock() {
    if (--t_depth == 0) mutex_.unlock();
  }

 private:
  static inline thread_local constinit int t_depth = 0;
  std::mutex mutex_;
};

namespace detail {
struct ProcessWideLock {
  void (*lock)(void*);
  void (*unlock)(void*);
  void* value;
  ForkOrder order;
  ProcessWideLock* next = nullptr;
};
void add_process_wide(ProcessWideLock& lock) noexcept;  // for good
// Around a fork.
void lock_process_wide();
void unlock_process_wide();

struct Making : Reentrant<Making> {};
}  // namespace detail

template <class T, ForkOrder order>
struct ProcessWide<T, order>::Entry {
  T value;
  detail::ProcessWideLock in_list{[](void* v) { static_cast<T*>(v)->lock(); },
                                  [](void* v) { static_cast<T*>(v)->unlock(); }, &value, order};
  Entry() { detail::add_process_wide(in_list); }
};

// One T, made when it is first asked for and never destroyed. In place of a static local variable with an initializer,
// which a child of a fork at that moment would wait for: a fork waits until it is made. Declare it
// `static constinit MadeOnce<T> name;`. Making one may make others. Thread safety: any thread.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  // `make` returns a T*; when it throws, the next call makes it.
  template <class Make>
  T& get(Make&& make) {
    T* made = made_.load(std::memory_order_acquire);  // pairs with the store
    if (!made) [[unlikely]] {
      std::lock_guard lock(ProcessWide<detail::Making, ForkOrder::making>::get());
      made = made_.load(std::memory_order_relaxed);
      if (!made) made_.store(made = std::forward<Make>(make)(), std::memory_order_release);
    }
    return *made;
  }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace kaon
