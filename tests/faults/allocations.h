// Allocations that fail on purpose, and how many are alive. The program's own malloc takes the place of the C
// library's. Sanitizers bring a malloc as well, so sanitized builds leave this program out.
#pragma once

#include <cstdint>

namespace kaon::test {

// Which allocations fail, of those that any thread makes from now on.
enum class Lack : uint8_t {
  one,          // only the n-th
  from_then_on  // the n-th and all after it
};

// One at a time. Allocations made inside the libraries that do not bear a failure always succeed: docs/errors.md names
// them.
class FailingAllocations {
 public:
  FailingAllocations(long n, Lack lack);  // n from 1
  ~FailingAllocations() { stop(); }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  void stop() noexcept;               // from now on all succeed
  static bool has_failed() noexcept;  // has one failed since the last of these was made?
};

// Those of this thread fail as long as one of these lives.
class NoMemoryHere {
 public:
  NoMemoryHere() noexcept;
  ~NoMemoryHere();
  NoMemoryHere(const NoMemoryHere&) = delete;
  NoMemoryHere& operator=(const NoMemoryHere&) = delete;
};
// The same without an end, by an operation that fails; until every_thread_has_memory().
void lose_memory_of_this_thread() noexcept;
void every_thread_has_memory() noexcept;

long allocations_alive() noexcept;

}  // namespace kaon::test
