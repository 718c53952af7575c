// KernelRunner: runs a kernel's blocks one after the other, the threads of a block as fibers.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "kaon_emulator/threads.h"

namespace kaon_emulator {

// A fiber runs one thread of the block after the other until one has to wait; others go on in other fibers. So a kernel
// without barriers pays a function call per thread. Threads start and go on in ascending or in descending order, as
// chance has it, which shows barriers that are missing. Thread safety: of one CPU thread.
class KernelRunner {
 public:
  // Says what the kernel did wrong; empty if nothing.
  std::string run(dim3 grid, dim3 block, const std::function<void()>& body, std::mt19937_64& random);

  // Called from the kernel, by threads.h
  uint64_t wait(Barrier kind, unsigned mask, uint64_t value, unsigned source, const Here& here);
  [[noreturn]] void trap(const Here& here);
  unsigned lane() const { return current_ % 32; }

 private:
  struct Fiber {
    boost::context::fiber self, caller;
  };
  enum class State { not_started, running, waits, exited };
  struct Thread {
    State state = State::not_started;
    Fiber* fiber = nullptr;
    Barrier barrier = Barrier::sync;
    unsigned mask = 0, source = 0;
    uint64_t value = 0;
    Here here;
  };
  struct Abandoned {};  // thrown through threads that wait for ever

  void run_block(std::mt19937_64& random);
  void run_threads(Fiber& fiber);
  void add_fiber();
  bool release_warp(unsigned warp);
  bool release_block();
  void answer(unsigned first, unsigned mask);
  void go_on(unsigned thread);
  void enter(Fiber& fiber);
  void abandon();
  std::string who_waits() const;
  static bool is_of_block(Barrier kind) { return kind <= Barrier::sync_count; }

  const std::function<void()>* body_ = nullptr;
  dim3 block_;
  unsigned num_threads_ = 0, next_ = 0, unfinished_ = 0, current_ = 0;
  bool descends_ = false, is_abandoned_ = false;
  std::mt19937_64* random_ = nullptr;
  std::string complaint_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace kaon_emulator
