// ProcessWide and MadeOnce: fork-safe singletons that all engines of a process share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace kaon::engine {

// Lock order, for fork() and for all other code: a thread that holds a lock may take only locks of later kinds.
enum class ForkOrder : uint8_t {
  traces,      // held while a block is traced
  primitives,  // held while oneDNN creates a primitive
  making,      // held while a MadeOnce is constructed
  default_engine,
  engines,
  others,
};

// A singleton T, constructed before main and never destroyed, because static arrays may use it after main. T provides
// lock() and unlock() for its data. fork() holds that lock, so the child gets consistent data and a free lock.
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
  // Forces construction before main. If another thread constructed it during a fork, the child would wait forever for
  // the static local's guard.
  static inline T& made_early = get();
};

inline constinit std::atomic<uint32_t> g_forks{0};

// Number of forks between the original process and this one. A child has none of its parent's threads.
inline uint32_t fork_count() noexcept { return g_forks.load(std::memory_order_relaxed); }

// For a T that has no lock of its own.
struct WithMutex {
  std::mutex mutex;
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
};

// Sixteen shards with a mutex each, to reduce contention.
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

// A recursive mutex that a child can unlock after a fork. std::recursive_mutex cannot be: it stores the owner's thread
// id, which differs in the child. The depth is thread-local per type, so each derived type has one object only.
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

struct ProcessWideLock {
  void (*lock)(void*);
  void (*unlock)(void*);
  void* value;
  ForkOrder order;
  ProcessWideLock* next = nullptr;
};
void add_process_wide(ProcessWideLock& lock) noexcept;  // is never removed
struct Making : Reentrant<Making> {};

template <class T, ForkOrder order>
struct ProcessWide<T, order>::Entry {
  T value;
  ProcessWideLock in_list{[](void* v) { static_cast<T*>(v)->lock(); }, [](void* v) { static_cast<T*>(v)->unlock(); },
                          &value, order};
  Entry() { add_process_wide(in_list); }
};

// A T constructed at first use and never destroyed. Replaces a static local variable, whose guard would block the child
// forever if another thread was constructing it during the fork; here fork() waits until construction has finished.
// Declare it `static constinit MadeOnce<T> name;`. Constructing one may construct others. Thread safety: any thread.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  // `make` returns a T*; if it throws, the next call tries again.
  template <class Make>
  T& get(Make&& make) {
    T* made = made_.load(std::memory_order_acquire);  // pairs with the store
    if (!made) [[unlikely]] {
      std::lock_guard lock(ProcessWide<Making, ForkOrder::making>::get());
      made = made_.load(std::memory_order_relaxed);
      if (!made) made_.store(made = std::forward<Make>(make)(), std::memory_order_release);
    }
    return *made;
  }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace kaon::engine
