// OpCounts: how many operations have been pushed and have ended.
#pragma once

#include <atomic>
#include <cstdint>

namespace kaon::engine {

// Threads that push and threads that run touch a cache line each. Thread safety: any thread.
class OpCounts {
 public:
  uint64_t push() noexcept { return pushed_.fetch_add(1, std::memory_order_seq_cst) + 1; }  // the operation's number
  uint64_t end() noexcept { return done_.fetch_add(1, std::memory_order_seq_cst); }         // how many had ended before
  void fail() noexcept { failed_.fetch_add(1, std::memory_order_relaxed); }

  uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_seq_cst); }
  uint64_t done() const noexcept { return done_.load(std::memory_order_seq_cst); }
  uint64_t failed() const noexcept { return failed_.load(); }
  uint64_t in_flight() const noexcept {
    // done first: pushed can only have grown since. seq_cst: a thread that parks checks this after counting itself
    const uint64_t d = done();
    return pushed() - d;
  }
  // Whether more than `most` are in flight just after push() has given `sequence`. It looks at an earlier number of
  // ended operations first, so that a push does not touch the workers' line.
  bool exceed(uint64_t most, uint64_t sequence) noexcept {
    if (sequence - done_seen_.load(std::memory_order_relaxed) <= most) return false;
    done_seen_.store(done_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return in_flight() > most;
  }

 private:
  alignas(64) std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> done_seen_{0};
  alignas(64) std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
};

}  // namespace kaon::engine
