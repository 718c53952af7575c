// What there is once in a process, for all its engines, and what a fork leaves of it.
#pragma once

#include <array>
#include <mutex>

namespace kaon {

// One T, made before main and never destroyed: static arrays outlive main. T is a lock (lock, unlock) for what it
// holds. Forks take it, so that a child finds it free and whole; under it no other of these may be asked for.
// Thread safety: any thread.
template <class T>
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

namespace detail {
struct ProcessWideLock {
  void (*lock)(void*);
  void (*unlock)(void*);
  void* value;
  ProcessWideLock* next = nullptr;
};
void add_process_wide(ProcessWideLock& lock) noexcept;  // for good
// Around a fork.
void lock_process_wide();
void unlock_process_wide();
}  // namespace detail

template <class T>
struct ProcessWide<T>::Entry {
  T value;
  detail::ProcessWideLock in_list{[](void* v) { static_cast<T*>(v)->lock(); },
                                  [](void* v) { static_cast<T*>(v)->unlock(); }, &value};
  Entry() { detail::add_process_wide(in_list); }
};

}  // namespace kaon
