#include "kaon/engine/engine.h"

#include <utility>

#include "kaon/engine/await.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/scheduler/parallel.h"
#include "kaon/engine/scheduler/process_engines.h"
#include "kaon/engine/scheduler/submit.h"

namespace kaon {

using namespace engine;

Engine::Engine(EngineOptions options) : impl_(new Impl(*this, options, fork_count())), ref_(enter_engine(*this)) {
  try {
    if (options.max_bytes) budget_ = IntrusivePtr<MemoryBudget>(new MemoryBudget(options.max_bytes, {}, {}));
  } catch (...) {
    leave_engine(*this);
    throw;
  }
}

Engine::Engine(Ended) : impl_(new Impl(*this, {.threads = 0}, Impl::no_process)), ref_(enter_engine(*this)) {}

Engine::~Engine() {
  if (impl_->is_gone()) {
    leave_engine(*this);
    (void)impl_.release();  // its threads cannot be joined here, nor its locks trusted
    return;
  }
  impl_->backpressure.wait_until_idle();
  impl_->io.join();
  impl_->backpressure.wait_until_idle();
  impl_->runner.wait_for_completers();
  impl_->workers.join();
  leave_engine(*this);
}

Engine& Engine::process_default() { return default_engine(); }
void Engine::set_default_options(const EngineOptions& options) { set_default_engine_options(options); }

Engine& Engine::ended() {
  static constinit MadeOnce<Engine> engine;
  return engine.get([] { return new Engine(Ended()); });
}

void Engine::use_if_alive(const EngineRef& engine, FunctionRef<void(Engine&)> use) {
  for_each_engine([&](Engine& e) {
    if (e.ref() == engine) use(e);
  });
}

bool Engine::is_gone() const noexcept { return impl_->is_gone(); }

void Engine::check_not_gone(const char* op) const {
  if (impl_->is_gone()) [[unlikely]]
    impl_->throw_gone(op);
}

// --- operations

void Engine::discard(OpNode* op) noexcept {
  op->free_deps();
  delete op;
}

void Engine::submit(OpNode& op) { engine::submit(*impl_, op); }
void Engine::complete(OpNode& op, std::exception_ptr failure) noexcept { impl_->runner.complete(op, failure); }
void Engine::grant(Dep* list) noexcept { impl_->runner.grant_all(list); }

void Engine::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  engine::parallel_for(*impl_, n, grain, body);
}

bool Engine::on_worker() const {
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine == impl_.get()) return true;
  }
  return false;
}

bool Engine::help_once() {
  int runs = 0;
  auto once = [&] { return runs++ > 0; };
  return impl_->workers.help(once);
}

bool Engine::has_workers() const { return impl_->workers.has_pool(); }

// --- waits

void Engine::wait(Var& var, AccessMode mode) { impl_->waits.wait(var, mode); }
bool Engine::read_now(Var& var, FunctionRef<void()> body) { return impl_->waits.read_now(var, body); }
bool Engine::run_now(std::span<Var* const> reads, FunctionRef<void(RunContext&)> body) noexcept {
  return !active_budget() && impl_->waits.run_now(reads, body);
}
bool Engine::enqueue_waiter(WaitNode& waiter, const Executor* resumes_on) {
  return impl_->waits.enqueue(waiter, resumes_on);
}
bool Engine::abandon_waiter(WaitNode& waiter) { return impl_->waits.abandon(waiter); }

void Engine::wait_all() {
  impl_->deadlocks.refuse_inside("wait_all");
  if (impl_->is_gone() && impl_->counts.in_flight() > 0) impl_->throw_gone();
  {
    TraceSpan span(impl_->profiler, "waitall", "wait");
    impl_->backpressure.wait_until_idle();
    Gpu::wait_for_all();
  }
  if (std::exception_ptr e = take_unreported()) std::rethrow_exception(e);
}

std::exception_ptr Engine::take_unreported() {
  try {
    Gpu::is_idle();
  } catch (const DeviceError&) {  // thrown at every call from now on; the other failures stay unreported
    return std::current_exception();
  }
  return impl_->failures.take_unreported();
}

IdleAwaiter Engine::idle() { return IdleAwaiter(*this); }
AdmitAwaiter Engine::admit() { return AdmitAwaiter(*this); }

void Engine::on_idle(std::coroutine_handle<> work, Executor& executor) {
  impl_->deadlocks.refuse_inside("idle");
  impl_->backpressure.resume_when_idle(work, executor);
}
void Engine::on_room(std::coroutine_handle<> work, Executor& executor) {
  impl_->backpressure.resume_when_room(work, executor);
}

// An operation might wait for room that only its own end makes.
bool Engine::is_over_budget() const {
  return impl_->backpressure.is_over_limit(active_budget()) && !on_worker() && !thread_context().op_engine;
}
bool Engine::admits_now() const {
  return !is_over_budget() && (!impl_->backpressure.has_parked_for_room() || on_worker() || thread_context().op_engine);
}

std::stop_token Engine::stop_token() const noexcept {
  const MemoryBudget* budget = active_budget();
  return budget ? budget->stop_token() : std::stop_token();
}

// --- the rest

EngineStats Engine::stats() const {
  const OpCounts& counts = impl_->counts;
  return {counts.pushed(), counts.done(), counts.failed(), impl_->workers.slots.count()};
}
const EngineOptions& Engine::options() const { return impl_->options; }
Profiler& Engine::profiler() { return impl_->profiler; }

void Engine::save_schedule(const std::filesystem::path& file) const {
  if (impl_->options.schedule.kind != Schedule::Kind::random) {
    throw StateError("[save_schedule] this engine has made no choices: its schedule is not Schedule::random");
  }
  impl_->ready.chosen()->save(file);
}

Executor& Engine::io_executor() { return impl_->io; }

void Engine::post_io(std::function<void()> work) {
  if (impl_->is_gone()) impl_->throw_gone();
  impl_->io.call(std::move(work));
}

void Engine::post_after(std::chrono::nanoseconds delay, std::coroutine_handle<> work, Executor& executor) {
  if (impl_->is_gone()) impl_->throw_gone();
  impl_->io.call_after(delay, [work, io = &impl_->io, &executor] {
    if (&executor == io) {
      resume_coroutine(work);  // already on the io pool
    } else {
      post_surely(executor, work);
    }
  });
}

// --- EngineScope

EngineScope::EngineScope(Engine& engine) : EngineScope(engine, nullptr) {}

EngineScope::EngineScope(Engine& engine, IntrusivePtr<MemoryBudget> budget)
    : current_(&engine),
      own_(std::move(budget)),
      engine_(std::exchange(thread_context().engine, engine.ref())),
      outer_(thread_context().budget) {
  if (own_) {
    thread_context().budget = own_.get();
  } else if (!(engine_ == engine.ref())) {
    thread_context().budget = nullptr;  // the outer scope's belong to another engine
  }
}

EngineScope::~EngineScope() {
  thread_context().engine = engine_;
  thread_context().budget = outer_;
}

EngineScope EngineScope::with_budget(size_t bytes, std::stop_token stop) const& {
  IntrusivePtr<MemoryBudget> outer(own_ ? own_.get() : current_->active_budget());
  return EngineScope(*current_, IntrusivePtr<MemoryBudget>(new MemoryBudget(bytes, std::move(stop), std::move(outer))));
}

size_t EngineScope::used_bytes() const noexcept { return own_ ? own_->used() : 0; }

}  // namespace kaon
