#include "kaon/engine/engine.h"

#include <algorithm>
#include <string>
#include <thread>

#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/storage.h"

namespace kaon {

Engine::Impl::Impl(Engine& engine, const EngineOptions& o, uint32_t forks)
    : self(engine),
      forks(forks),
      options(o),
      threads(o.threads >= 0 ? o.threads : int(std::max(1u, std::thread::hardware_concurrency()))),
      ready{ReadyQueue(13), ReadyQueue(13), ReadyQueue(13)},
      calls(threads),
      io(forks == no_process ? 0 : std::max(1, o.io_threads)),
      io_executor(io, std::max(1, o.io_threads)) {
  // on a single core a spinning thread takes it from one that has work
  if (std::thread::hardware_concurrency() < 2) options.spin = {};
  if (o.schedule.kind != Schedule::Kind::arrival) {
    chosen = std::make_unique<RandomScheduler>(o.schedule);
    threads = 1;  // one slot: the thread that holds it runs operations
  } else if (threads > 0) {
    pool = std::make_unique<WorkerThreads>(threads);
  }
}

Engine::Engine(EngineOptions options)
    : impl_(new Impl(*this, options, g_forks.load(std::memory_order_relaxed))), ref_(Impl::take_place(*this)) {
  try {
    if (options.max_bytes) budget_ = IntrusivePtr<MemoryBudget>(new MemoryBudget(options.max_bytes, {}, {}));
  } catch (...) {
    Impl::leave_place(*this);
    throw;
  }
}

Engine::Engine(Ended) : impl_(new Impl(*this, {.threads = 0}, no_process)), ref_(Impl::take_place(*this)) {}

Engine::~Engine() {
  if (impl_->is_gone()) {
    Impl::leave_place(*this);
    impl_.release();  // its threads cannot be joined here, nor its locks trusted
    return;
  }
  impl_->wait_for_level(0);
  impl_->io.join();
  impl_->wait_for_level(0);
  if (impl_->pool) impl_->pool->join();
  Impl::leave_place(*this);
}

bool Engine::is_gone() const noexcept { return impl_->is_gone(); }

void Engine::check_not_gone(const char* op) const {
  if (impl_->is_gone()) [[unlikely]]
    impl_->throw_gone(op);
}

void Engine::Impl::throw_gone(const char* op, const std::string& where) const {
  if (forks == no_process) {
    throw StateError(
        "[" + std::string(op) +
        "] the engine of this array has ended: its values can be read, but no operation takes it; an array "
        "that is to be used longer is made outside of the EngineScope, or from these values: "
        "nd.array(x.asvector<float>(), x.shape())" +
        where);
  }
  throw StateError("[" + std::string(op) +
                   "] this process was forked from the one that has the engine's threads: use arrays made here" +
                   where);
}

void Engine::Impl::check_finished(const Var& var) const {
  if (var.is_readable()) return;
  throw StateError(
      "[engine] the array was still being written when this process was forked: only what its parent had "
      "finished by then can be read here");
}

namespace {

class OpRunContext final : public RunContext {
 public:
  explicit OpRunContext(Engine& engine) : engine_(engine) {}
  ~OpRunContext() override { free_workspace(); }
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override {
    engine_.parallel_for(n, grain, body);
  }
  void* workspace(size_t bytes) override {
    if (bytes > SIZE_MAX - sizeof(Block))
      throw MemoryError("[workspace] asked for " + std::to_string(bytes) + " bytes");
    auto* b = static_cast<Block*>(engine_.impl()->allocate(bytes + sizeof(Block)));
    b->next = blocks_;
    b->bytes = bytes + sizeof(Block);
    blocks_ = b;
    return b + 1;
  }
  void free_workspace() noexcept override {
    while (Block* b = blocks_) {
      blocks_ = b->next;
      Storage::cpu().free(b, b->bytes);
    }
  }

 private:
  struct alignas(64) Block {
    Block* next;
    size_t bytes;
  };
  Engine& engine_;
  Block* blocks_ = nullptr;
};

}  // namespace

void run_piece(Engine& engine, FunctionRef<void(RunContext&)> body) {
  OpRunContext context(engine);
  body(context);
}

bool Engine::run_now(std::span<Var* const> reads, FunctionRef<void(RunContext&)> body) noexcept {
  constexpr size_t few = 8;
  Impl& e = *impl_;
  const bool is_alone = !t_running && !thread_context().op && !active_budget();
  if (!is_alone || e.threads == 0 || e.chosen || e.profiler.is_on() || e.is_gone() || reads.size() > few) return false;
  size_t begun = 0;
  while (begun < reads.size() && reads[begun]->try_begin_read()) ++begun;
  if (begun == reads.size()) {
    OpRunContext context(*this);
    body(context);
  }
  for (size_t i = 0; i < begun; ++i) {
    Dep grant;
    grant.set(*reads[i], AccessMode::read);
    if (Dep* granted = reads[i]->complete(grant)) e.grant_all(granted);
  }
  return begun == reads.size();
}

namespace {
// While it exists, this thread is inside an operation.
struct InOperation {
  explicit InOperation(Engine::Impl& engine, const OpNode& op) : frame{&engine, &op, t_running} { t_running = &frame; }
  ~InOperation() { t_running = frame.outer; }
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
  Running frame;
};
}  // namespace

OpNode* Engine::Impl::execute(OpNode& op) noexcept {
  bool heals = false;
  IntrusivePtr<const OpError> error;
  for (int i = 0; i < op.num_deps; ++i) {
    if (op.deps[i].var()->error()) [[unlikely]] {
      error = FailureLog::inherit(op, heals);
      break;
    }
  }
  if (is_dropped(op) && !error) [[unlikely]]
    error = failures.record_dropped(op);
  if (error) [[unlikely]]
    return settle(op, error, op.transactional, heals);

  if (op.type->ends_later) {
    const InOperation inside(*this, op);
    OpRunContext context(self);
    op.type->run(op, context);  // the op may have ended and be destroyed
    ending_later.fetch_add(1, std::memory_order_seq_cst);
    return nullptr;
  }
  uint64_t begin = profiler.is_on() ? Profiler::now() : 0;
  bool spares_updates = false;
  {
    const InOperation inside(*this, op);
    OpRunContext context(self);
    try {
      op.type->run(op, context);
    } catch (...) {
      error = failures.record(op, std::current_exception(), is_dropped(op));
      spares_updates = op.transactional && context.updates_are_whole;
      failed.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (begin) {
    profiler.record({op.label.name, op.counted ? "operator" : "piece", begin, Profiler::now(), op.label.block_path,
                     op.label.site, op.counted ? op.sequence : 0});
  }
  if (error || heals) [[unlikely]]
    return settle(op, error, spares_updates, heals);
  return finish(op);
}

OpNode* Engine::Impl::settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates,
                             bool heals) noexcept {
  if (error || heals) {
    for (int i = 0; i < op.num_deps; ++i) {
      Dep& d = op.deps[i];
      if (d.is_write() && !(spares_updates && d.mode() == AccessMode::update)) d.var()->set_error(error.get());
    }
  }
  return finish(op);
}

void Engine::complete(OpNode& op, std::exception_ptr failure) noexcept {
  Impl& e = *impl_;
  IntrusivePtr<const OpError> error;
  if (failure) {
    error = e.failures.record(op, failure, Impl::is_dropped(op));
    e.failed.fetch_add(1, std::memory_order_relaxed);
  }
  e.ending_later.fetch_sub(1, std::memory_order_seq_cst);  // before settle(), after which the engine may end
  if (OpNode* next = e.settle(op, error, false, true)) e.proceed(*next);
}

void Engine::Impl::granted(OpBase& op, OpNode*& next, uint64_t by) noexcept {
  if (op.pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (op.is_waiter()) {
    auto& waiter = static_cast<WaitNode&>(op);
    waiter.ended_by = by;
    complete_waiter(waiter, next);
    return;
  }
  auto& node = static_cast<OpNode&>(op);
  if (serial_queue_of(node)) {
    make_ready(node);
  } else if (!next) {
    next = &node;
  } else if (node.priority < next->priority) {
    make_ready(*std::exchange(next, &node));
  } else {
    make_ready(node);
  }
}

void Engine::Impl::complete_waiter(WaitNode& waiter, OpNode*& next) noexcept {
  Dep& d = waiter.dep;
  waiter.error = IntrusivePtr<const OpError>(d.var()->error());
  for (Dep* g = d.var()->complete(d); g;) {
    Dep* following = g->next;
    granted(*g->op, next, waiter.ended_by);
    g = following;
  }
  if (op_waits.count.load(std::memory_order_seq_cst) > 0) end_op_wait(waiter);
  waiter.type->signal(waiter);  // the waiter may be destroyed after this
}

OpNode* Engine::Impl::finish(OpNode& op) noexcept {
  OpNode* next = nullptr;
  const bool counted = op.counted;
  const uint64_t sequence = op.sequence;
  const auto grant = [&](Dep* list) {
    for (Dep* g = list; g;) {
      Dep* following = g->next;  // before the decrement, after which g's op may be destroyed
      granted(*g->op, next, sequence);
      g = following;
    }
  };
  for (int i = 0; i < op.num_deps; ++i) grant(op.deps[i].var()->complete(op.deps[i]));
  if (op.read_lease) op.read_lease->leave(grant);
  op.type->destroy(op);
  if (op.budget) [[unlikely]]
    op.budget->release();
  op.free_deps();
  delete &op;
  if (!counted) return nullptr;
  const uint64_t ended_before = done.fetch_add(1, std::memory_order_seq_cst);
  if (parked.load(std::memory_order_seq_cst)) [[unlikely]]
    check_parked(sequence, ended_before);  // pairs with the increment before parking
  return next;
}

EngineStats Engine::stats() const {
  return {impl_->pushed.load(), impl_->done.load(), impl_->failed.load(), impl_->threads};
}
const EngineOptions& Engine::options() const { return impl_->options; }
bool Engine::has_workers() const { return impl_->pool != nullptr; }
void Engine::save_schedule(const std::filesystem::path& file) const {
  if (impl_->options.schedule.kind != Schedule::Kind::random) {
    throw StateError("[save_schedule] this engine has made no choices: its schedule is not Schedule::random");
  }
  impl_->chosen->save(file);
}
Profiler& Engine::profiler() { return impl_->profiler; }
Executor& Engine::io_executor() { return impl_->io_executor; }
bool Engine::on_worker() const {
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine == impl_.get()) return true;
  }
  return false;
}

void Engine::post_io(std::function<void()> work) {
  if (impl_->is_gone()) impl_->throw_gone();
  boost::asio::post(impl_->io, std::move(work));
}

void Engine::post_after(std::chrono::nanoseconds delay, std::coroutine_handle<> work, Executor& executor) {
  if (impl_->is_gone()) impl_->throw_gone();
  auto timer = std::make_shared<PoolTimer>(impl_->io.get_executor(), delay);
  timer->async_wait([timer, work, io = &impl_->io_executor, &executor](const boost::system::error_code&) {
    if (&executor == io) {
      resume_coroutine(work);  // already on the io pool
    } else {
      post_surely(executor, work);
    }
  });
}

}  // namespace kaon
