#include "kaon/engine/scheduler/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {
namespace {

// A range of consecutive pieces, which one thread works through before others take from it.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
  std::atomic<bool> has_owner{false};
};

// This thread's latest share: the same range of the next operation is likely in its cache.
thread_local size_t t_share = 0;

// Shared by the caller and the workers that it invited; the last one frees it, since a worker may start late.
struct ParallelJob : RefCounted<ParallelJob>, Pooled {
  ParallelJob(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body, const OpNode* op, int64_t threads)
      : n(n), grain(grain), pieces((n + grain - 1) / grain), body(body), op(op) {
    num_shares = size_t(std::min<int64_t>(threads, int64_t(shares.size())));
    for (size_t i = 0; i < num_shares; ++i) {
      shares[i].next.store(begin_of(i), std::memory_order_relaxed);
      shares[i].end = begin_of(i + 1);
    }
  }

  const int64_t n, grain, pieces;
  FunctionRef<void(int64_t, int64_t)> body;  // the caller's: valid while a piece is unfinished
  const OpNode* op;                          // the operation that calls parallel_for; null: none. Valid as above
  std::array<Share, 8> shares;
  size_t num_shares;
  std::atomic<int64_t> finished{0};
  SpinLock lock;
  std::exception_ptr error;  // of the first piece that failed
  int64_t error_piece = 0;

  int64_t begin_of(size_t share) const { return pieces * int64_t(share) / int64_t(num_shares); }

  // A share that no thread has taken; any share when there are more threads.
  size_t take_share() {
    for (size_t i = 0; i < num_shares; ++i) {
      const size_t share = (t_share + i) % num_shares;
      if (!shares[share].has_owner.exchange(true, std::memory_order_relaxed)) return t_share = share;
    }
    return t_share % num_shares;
  }

  // Runs this thread's share, then the rest of the others'.
  void work() {
    t_has_shared = true;
    const size_t own = take_share();
    for (size_t i = 0; i < num_shares; ++i) {
      Share& share = shares[(own + i) % num_shares];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const int64_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
        if (piece < share.end) run(piece);
      }
    }
  }

  void run(int64_t piece) {
    try {
      body(piece * grain, std::min(n, (piece + 1) * grain));
    } catch (...) {
      std::lock_guard guard(lock);
      if (!error || piece < error_piece) {
        error = std::current_exception();
        error_piece = piece;
      }
    }
    finished.fetch_add(1, std::memory_order_acq_rel);  // pairs with the caller's acquire
  }
};

// An invitation is queued like an operation, but is none: nothing waits for it, and it is not counted.
struct Invitation {
  IntrusivePtr<ParallelJob> job;
  void operator()(RunContext&) const {
    if (!std::exchange(t_is_helping, true)) t_running->engine->workers.slots.begin_helping();
    // waits and accesses inside a piece are those of its operation
    const OpNode* own = std::exchange(t_running->op, job->op ? job->op : t_running->op);
    job->work();
    t_running->op = own;
  }
};

// Makes a job and queues `invited` invitations, or fewer when memory is short. It never throws: a worker may have the
// job already and use the caller's frame. Null: no memory for the job.
IntrusivePtr<ParallelJob> invite(Engine::Impl& engine, int64_t n, int64_t grain,
                                 FunctionRef<void(int64_t, int64_t)> body, int64_t invited) noexcept {
  IntrusivePtr<ParallelJob> job;
  try {
    job = IntrusivePtr<ParallelJob>(new ParallelJob(n, grain, body, t_running ? t_running->op : nullptr, invited + 1));
    const OpLabel label = job->op ? job->op->label : OpLabel{.name = "parallel_for"};
    for (int64_t i = 0; i < invited; ++i) {
      auto* op = new OpNode;
      OpBody<Invitation>::store(*op, Invitation{job});
      op->type = &OpBody<Invitation>::type;
      op->label = label;
      op->priority = job->op ? job->op->priority : Priority::normal;
      op->counted = false;
      op->reserve_deps(0);
      engine.workers.make_ready(*op);
    }
  } catch (const Error&) {  // MemoryError
  } catch (const std::bad_alloc&) {
  }
  return job;
}

}  // namespace

void parallel_for(Engine::Impl& engine, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  int64_t pieces = (n + grain - 1) / grain;
  const Workers& workers = engine.workers;
  const int busy = workers.slots.busy(t_is_helping && workers.caller_has_slot());
  const bool may_invite = !engine.is_gone() && !engine.ready.chosen();
  const int64_t invited = may_invite ? std::min<int64_t>(pieces - 1, workers.slots.count() - busy) : 0;
  IntrusivePtr<ParallelJob> job;
  if (invited > 0) job = invite(engine, n, grain, body, invited);
  if (!job) {
    for (int64_t p = 0; p < pieces; ++p) body(p * grain, std::min(n, (p + 1) * grain));
    return;
  }
  job->work();
  for (int looks = 0; job->finished.load(std::memory_order_acquire) < pieces; ++looks) {
    if (looks < 1024) {
      cpu_pause();
    } else {
      std::this_thread::yield();  // a piece whose thread lost its core may need this one
    }
  }
  // moved out of the job, which a worker may be the last to release, so that only this thread owns the exception
  if (std::exception_ptr error = std::exchange(job->error, nullptr)) std::rethrow_exception(std::move(error));
}

}  // namespace kaon::engine
