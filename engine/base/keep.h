// Functions that values point to, which have to be trivially destructible.
#pragma once

#include <deque>
#include <mutex>
#include <utility>

namespace kaon::engine {

// Where `value` is for as long as the process lives. Thread safety: any thread.
template <class T>
const T* keep_forever(T value) {
  static std::mutex mutex;
  static auto* const all = new std::deque<T>;  // not destroyed: what points here may be static too
  std::lock_guard lock(mutex);
  return &all->emplace_back(std::move(value));
}

}  // namespace kaon::engine
