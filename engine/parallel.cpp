// parallel_for: one operation's pieces on several workers.
#include <algorithm>
#include <utility>

#include "kaon/engine/engine_impl.h"

namespace kaon {
namespace {

// Shared by the caller and the workers that it invited; the last one frees it, since a worker may come late.
struct ParallelJob : RefCounted<ParallelJob>, Pooled {
  ParallelJob(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body, const OpNode* op)
      : n(n), grain(grain), pieces((n + grain - 1) / grain), body(body), op(op) {}

  const int64_t n, grain, pieces;
  FunctionRef<void(int64_t, int64_t)> body;  // the caller's: valid while a piece is unfinished
  const OpNode* op;                          // the operation that this is a part of; null: none. As above
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> finished{0};
  SpinLock lock;
  std::exception_ptr error;  // of the first piece that failed
  int64_t error_piece = 0;

  void work() {
    for (;;) {
      int64_t p = next.fetch_add(1, std::memory_order_relaxed);
      if (p >= pieces) return;
      try {
        body(p * grain, std::min(n, (p + 1) * grain));
      } catch (...) {
        std::lock_guard guard(lock);
        if (!error || p < error_piece) {
          error = std::current_exception();
          error_piece = p;
        }
      }
      finished.fetch_add(1, std::memory_order_acq_rel);  // pairs with the caller's acquire
    }
  }
};

// An invitation lies in the ready queue like an operation, but is none: nothing waits for it, nobody counts it.
struct Invitation {
  IntrusivePtr<ParallelJob> job;
  void operator()(RunContext&) const {
    // what a piece waits for or touches, its operation does
    const OpNode* own = std::exchange(t_running->op, job->op ? job->op : t_running->op);
    job->work();
    t_running->op = own;
  }
};

}  // namespace

void Engine::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  Impl& e = *impl_;
  int64_t pieces = (n + grain - 1) / grain;
  int idle = e.threads - (e.active.load(std::memory_order_relaxed) - e.spinning.load(std::memory_order_relaxed));
  int64_t invited = e.is_orphan() || e.chosen ? 0 : std::min<int64_t>(pieces - 1, idle);
  if (invited <= 0) {
    for (int64_t p = 0; p < pieces; ++p) body(p * grain, std::min(n, (p + 1) * grain));
    return;
  }
  IntrusivePtr<ParallelJob> job(new ParallelJob(n, grain, body, t_running ? t_running->op : nullptr));
  OpLabel label = job->op ? job->op->label : OpLabel{.name = "parallel_for"};
  for (int64_t i = 0; i < invited; ++i) {
    auto* op = new OpNode;
    OpBody<Invitation>::store(*op, Invitation{job});
    op->type = &OpBody<Invitation>::type;
    op->label = label;
    op->counted = false;
    op->reserve_deps(0);
    e.make_ready(*op);
  }
  job->work();
  for (int looks = 0; job->finished.load(std::memory_order_acquire) < pieces; ++looks) {
    if (looks < 1024) {
      cpu_pause();
    } else {
      std::this_thread::yield();  // a piece whose thread lost its core may need this one
    }
  }
  // taken out of the job, which a worker may be the last to hold: the exception is this thread's alone
  if (std::exception_ptr error = std::exchange(job->error, nullptr)) std::rethrow_exception(std::move(error));
}

}  // namespace kaon
