// Moments of a program: its allocations and what it does with locks, where a test acts.
#pragma once

namespace kaon::test {

// What happens at the moments of all threads, as long as it lives. A moment is an allocation, or one side of a lock
// that is taken or given back: between two of them a thread shares nothing with others but what atomic operations
// change. One at a time. An action has no moments of its own.
class AtMoments {
 public:
  AtMoments() = default;
  AtMoments(const AtMoments&) = delete;
  AtMoments& operator=(const AtMoments&) = delete;
  void begin() noexcept;
  void end() noexcept;  // waits for the threads that are acting

  virtual void act() noexcept = 0;

 protected:
  ~AtMoments() = default;
};

// Locks of the C library (mutexes, and with them most others) that this thread has at the moment.
int locks_held() noexcept;
// This thread's moments do not count.
void leave_out_this_thread() noexcept;
// In a child of a fork.
void forget_moments() noexcept;

// For the program's malloc.
void moment() noexcept;

}  // namespace kaon::test
