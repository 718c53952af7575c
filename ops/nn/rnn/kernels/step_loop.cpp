#include "kaon/ops/nn/rnn/kernels/step_loop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "kaon/engine/base/spin_lock.h"

namespace kaon::ops {
namespace {

constexpr int64_t most_pieces = 64;
// Looks at the others' progress, of some 40 cycles each, before a thread takes over the pieces of one that is late:
// earlier it would only have them read by another core. And before it offers its core to a thread that has none.
constexpr int patience = 256, looks_before_yield = 1024;

class StepLoop {
 public:
  StepLoop(int64_t steps, int64_t pieces, engine::FunctionRef<void(int64_t, int64_t)> body)
      : steps_(steps), pieces_(pieces), body_(body) {}

  // One thread's part, until the last step is done.
  void join() {
    const int64_t me = joined_.fetch_add(1, std::memory_order_relaxed);
    try {
      for (int64_t step = done_.load(std::memory_order_acquire) / pieces_; step < steps_; ++step) {
        if (!take_part(me, step)) return;
      }
    } catch (...) {
      has_failed_.store(true, std::memory_order_relaxed);
      throw;
    }
  }

 private:
  struct alignas(64) Piece {
    std::atomic<int64_t> taken{0};  // in so many steps
  };

  // False: a piece has failed.
  bool take_part(int64_t me, int64_t step) {
    const int64_t threads = std::min(joined_.load(std::memory_order_relaxed), pieces_);
    const int64_t first = pieces_ * me / threads, last = me < threads ? pieces_ * (me + 1) / threads : first;
    int64_t made = 0;
    for (int64_t i = first; i < last; ++i) {
      // to and fro, so that the end of a step and the beginning of the next read what is in the cache
      made += make(step, step % 2 == 0 ? i : first + last - 1 - i);
    }
    if (made > 0) done_.fetch_add(made, std::memory_order_acq_rel);
    const int64_t all = (step + 1) * pieces_;
    for (int looks = 0; done_.load(std::memory_order_acquire) < all; ++looks) {
      if (has_failed_.load(std::memory_order_relaxed)) return false;
      if (looks == patience) {
        for (int64_t i = pieces_; i-- > 0;) {
          if (make(step, i)) done_.fetch_add(1, std::memory_order_acq_rel);
        }
      }
      if (looks < looks_before_yield) {
        engine::cpu_pause();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }

  bool make(int64_t step, int64_t piece) {
    int64_t untaken = step;
    // relaxed: what the step before has written was seen with its last done_
    if (!pieces_of_[size_t(piece)].taken.compare_exchange_strong(untaken, step + 1, std::memory_order_relaxed)) {
      return false;
    }
    body_(step, piece);
    return true;
  }

  const int64_t steps_, pieces_;
  const engine::FunctionRef<void(int64_t, int64_t)> body_;
  std::array<Piece, most_pieces> pieces_of_;
  alignas(64) std::atomic<int64_t> done_{0};  // pieces, of all steps
  alignas(64) std::atomic<int64_t> joined_{0};
  std::atomic<bool> has_failed_{false};
};

}  // namespace

void in_steps(RunContext& run, int64_t steps, int64_t pieces, engine::FunctionRef<void(int64_t, int64_t)> body) {
  if (pieces == 1) {
    for (int64_t step = 0; step < steps; ++step) body(step, 0);
    return;
  }
  if (steps == 0 || pieces == 0) return;
  if (pieces > most_pieces) {
    for (int64_t step = 0; step < steps; ++step) {
      run.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(step, i);
      });
    }
    return;
  }
  StepLoop loop(steps, pieces, body);
  run.parallel_for(pieces, 1, [&](int64_t, int64_t) { loop.join(); });
}

}  // namespace kaon::ops
