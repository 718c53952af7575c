#include "kaon/comm/driver/driver.h"

#include <fmt/format.h>
#include <pthread.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "kaon/engine/block_pool.h"
#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/profiler.h"

namespace kaon::comm {

using engine::IntrusivePtr;
using engine::OpBody;
using engine::OpNode;
using engine::OpType;
using ops::ArrayNode;

namespace {

// The time to a few milliseconds, which is enough for how long a call has been running, without the exact clock's cost.
std::chrono::steady_clock::time_point coarse_now() {
#ifdef __linux__
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
#else
  return std::chrono::steady_clock::now();
#endif
}

bool is_comm_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// --- the operation

// The body of a call in the engine.
struct Driver::Collective {
  Collective(std::shared_ptr<Driver> driver, uint64_t place, const Call& call, IntrusivePtr<ArrayNode> in,
             IntrusivePtr<ArrayNode> out)
      : driver(std::move(driver)), place(place), call(call), in(std::move(in)), out(std::move(out)) {}
  Collective(Collective&&) = default;
  Collective& operator=(Collective&&) = delete;
  Engine& engine() const { return *out->buffer->engine; }
  ~Collective() {
    // Its input had failed, or its scope was stopped: this rank will not take part.
    if (driver && !has_begun) driver->lose(place, name_of(call.kind));
  }

  std::shared_ptr<Driver> driver;
  uint64_t place;
  Call call;
  IntrusivePtr<ArrayNode> in, out;
  int color = 0, key = 0;
  std::shared_ptr<std::shared_ptr<Driver>> part;  // of a split
  bool has_begun = false;
  uint64_t began = 0;  // while the profiler is on
};

namespace {
// On a GPU memory is there only once something has been launched that writes it.
void* memory_of(ArrayNode& array, const OpLabel& label) {
  engine::Buffer& buffer = *array.buffer;
  if (!buffer.is_on_gpu() || buffer.data) return array.data();
  engine::DeviceLaunch launch(engine::GpuMemory::of(buffer).gpu, engine::Lane::compute, label);
  launch.use(buffer, true);
  return array.data();
}
}  // namespace

const OpType Driver::type{.run = Driver::begin, .destroy = OpBody<Collective>::destroy, .ends_later = true};

void Driver::begin(OpNode& op, RunContext&) {
  Collective& body = OpBody<Collective>::get(op);
  body.has_begun = true;
  if (body.engine().profiler().is_on()) [[unlikely]]
    body.began = Profiler::now();
  const std::shared_ptr<Driver> driver = std::move(body.driver);
  try {
    if (body.out) body.call.out = memory_of(*body.out, op.label);
    body.call.in = body.in ? memory_of(*body.in, op.label) : body.call.out;
  } catch (...) {
    driver->lose(body.place, name_of(body.call.kind));
    driver->complete(op, std::current_exception());
    return;
  }
  driver->ready(body.place, {&op, &body, body.call.priority && !body.call.on_gpus});
}

// --- Driver

Driver::Driver(std::shared_ptr<World> world, std::unique_ptr<Group> group, uint64_t id)
    : world_(std::move(world)),
      group_(std::move(group)),
      id_(id),
      rank_(group_->rank()),
      size_(group_->size()),
      local_rank_(group_->local_rank()),
      local_size_(group_->local_size()),
      shares_memory_(group_->shares_memory()),
      failure_(world_->failure()) {}

std::shared_ptr<Driver> Driver::start(std::shared_ptr<World> world, std::unique_ptr<Group> group, uint64_t id) {
  auto driver = std::make_shared<Driver>(world, std::move(group), id);
  world->add(driver);
  // Signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([driver] {
    driver->loop();
    driver->leave_gpu();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {driver.get(), [driver](Driver* d) { d->close(); }};
}

void Driver::close() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
}

void Driver::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] {
    return !failure_.empty() ||
           (next_ == issued_ && !running_ && beside_.empty() && sends_.empty() && launched_.empty());
  });
}

void Driver::push(const Call& call, const NDArray& in, const NDArray& out, const OpLabel& label) {
  uint64_t place;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(fmt::format("[{}] {}", name_of(call.kind), failure_));
    place = issued_++;
  }
  Engine& engine = (out.defined() ? out : in).engine();
  const bool reads = in.defined() && in.ptr() != out.ptr();
  Collective body(shared_from_this(), place, call, reads ? in.ptr() : nullptr, out.defined() ? out.ptr() : nullptr);
  engine::PooledVector<Access> accesses;
  accesses.reserve(2);
  if (reads) accesses.push_back(read(in.var()));
  if (out.defined()) {
    accesses.push_back(in.ptr() == out.ptr() || !out.node().covers_buffer() ? update(out.var()) : write(out.var()));
    out.node().buffer->note_write(label.site);
  }
  // Before what else is ready: the other ranks wait for it, and it leaves the thread soon.
  engine.push_as(type, accesses, std::move(body), {.label = label, .priority = Priority::high});
}

std::shared_ptr<Driver> Driver::split(int color, int key, const OpLabel& label) {
  uint64_t place;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(fmt::format("[split] {}", failure_));
    place = issued_++;
  }
  const NDArray done = NDArray::empty({1}, DType::uint8);
  Collective body(shared_from_this(), place, {.kind = Kind::split, .dtype = DType::uint8}, nullptr, done.ptr());
  body.color = color;
  body.key = key;
  const auto part = body.part = std::make_shared<std::shared_ptr<Driver>>();
  const Access accesses[] = {write(done.var())};
  done.engine().push_as(type, accesses, std::move(body), {.label = label});
  done.wait_to_read();
  return *part;
}

void Driver::ready(uint64_t place, Entry entry) {
  {
    std::unique_lock lock(mutex_);
    if (failure_.empty()) {
      const Call& call = entry.body->call;
      const bool may_begin = shares_memory_ && call.kind == Kind::all_reduce && !call.on_gpus &&
                             call.count * int64_t(size_of(call.dtype)) <= most_bytes_here;
      if (place == next_ && may_begin && !running_ && beside_.empty() && sends_.empty()) return begin_here(entry, lock);
      ready_.emplace(place, entry);
      if (place == next_) wake_.notify_one();
      return;
    }
  }
  complete(*entry.op,
           std::make_exception_ptr(CommError(fmt::format("[{}] {}", name_of(entry.body->call.kind), failure_))));
}

void Driver::lose(uint64_t place, const char* name) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
  }
  world_->report(fmt::format(
      "rank {} does not take part in call {}, {}: what it was to give has failed, or was dropped", rank_, place, name));
}

std::string Driver::failure_text(uint64_t place, const Call& call, const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return fmt::format("rank {} has failed in call {}, {}: {}", rank_, place, describe(call), e.what());
  }
}

void Driver::complete(OpNode& op, std::exception_ptr failure) {
  const Collective& body = OpBody<Collective>::get(op);
  Engine& engine = body.engine();
  if (body.began) [[unlikely]] {
    engine.profiler().record({.name = op.label.name,
                              .category = "collective",
                              .begin = body.began,
                              .end = Profiler::now(),
                              .block_path = op.label.block_path,
                              .site = op.label.site,
                              .sequence = op.sequence,
                              .bytes = (body.in ? *body.in : *body.out).bytes()});
  }
  engine.complete(op, std::move(failure));
}

void Driver::fail(const std::string& text) noexcept {
  std::vector<std::pair<OpNode*, Kind>> ending;
  {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = text;
    wake_.notify_all();
    drained_.notify_all();
    // One that is pending is ended by the thread that looks after it, unless MPI does not let go of that thread either.
    drained_.wait_for(lock, std::chrono::milliseconds(500),
                      [&] { return (!running_ || !is_pending_) && beside_.empty(); });
    for (auto& [place, entry] : ready_) ending.emplace_back(entry.op, entry.body->call.kind);
    ready_.clear();
    // The thread stays inside a call that may never end, and keeps its arrays.
    if (running_) {
      ending.emplace_back(std::exchange(running_, nullptr), running_call_.kind);
      if (handed_) abandon(*handed_);
      handed_.reset();
      is_pending_ = false;
    }
    for (const Beside& b : beside_) ending.emplace_back(b.op, b.kind);
    beside_.clear();
    for (Send& s : sends_) {
      OpBody<Collective>::get(*s.op).in->retain();  // for ever: MPI may still read it
      (void)s.sending.release();
      ending.emplace_back(s.op, Kind::send);
    }
    sends_.clear();
    for (const auto& [place, launched] : launched_) ending.emplace_back(launched.op, launched.call.kind);
    launched_.clear();
    // Until then the GPU may use the arrays, whose memory is reused in the order of its streams.
    if (gpu_) std::thread([gpu = gpu_] { gpu->abort(); }).detach();
  }
  wake_.notify_all();
  drained_.notify_all();
  for (auto& [op, kind] : ending) {
    complete(*op, std::make_exception_ptr(CommError(fmt::format("[{}] {}", name_of(kind), text))));
  }
}

Driver::Running Driver::take() { return begin_call(ready_.extract(next_).mapped()); }

Driver::Running Driver::begin_call(const Entry& entry) {
  const Collective& body = *entry.body;
  Running running{.op = entry.op,
                  .place = next_++,
                  .call = body.call,
                  .in = body.in,
                  .out = body.out,
                  .color = body.color,
                  .key = body.key,
                  .part = body.part};
  running_ = entry.op;
  running_since_ = coarse_now();
  running_call_ = body.call;
  running_place_ = running.place;
  note_begin(body.call);
  return running;
}

// The running call has ended or failed: another one may begin.
void Driver::leave(Running& running) {
  if (running.failure) abandon(running);
  running.pending.reset();  // before another call begins
  running_ = nullptr;
  is_pending_ = false;
  drained_.notify_all();
}

// Returns when calls that follow fail: those of this thread might else succeed.
void Driver::report(const std::string& why) {
  world_->report(why);
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, std::chrono::seconds(1), [&] { return !failure_.empty(); });
}

void Driver::complete(const Running& running) {
  if (!running.why.empty()) report(running.why);
  complete(*running.op, running.failure);
}

void Driver::end(Running& running, std::unique_lock<std::mutex>& lock) {
  leave(running);
  lock.unlock();
  complete(running);
  lock.lock();
}

void Driver::loop() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds by which a rest may be longer; 50 us by default
#endif
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!is_due()) {
      if (!running_ && (!failure_.empty() || (ends_ && sends_.empty() && launched_.empty() && next_ == issued_)))
        return;
      if (sends_.empty() && (running_ || !ends_)) {
        wake_.wait(lock, [&] { return is_due() || (!running_ && (ends_ || !failure_.empty())); });
      } else {
        wake_.wait_for(lock, std::chrono::microseconds(50), [&] { return is_due(); });
        poll_sends(lock);
      }
      continue;
    }
    if (!handed_ && may_join()) {
      run_beside(lock);
      continue;
    }
    Running running = handed_ ? std::move(*std::exchange(handed_, std::nullopt)) : take();
    if (!running.pending) {
      lock.unlock();
      attempt(running, [&] { run(running); });
      lock.lock();
      if (running_ != running.op) return abandon(running);  // fail() has ended it
    }
    if (running.pending && running.call.kind == Kind::send) {
      running_ = nullptr;
      sends_.push_back({running.op, running.call.peer, running_since_, std::move(running.pending)});
      continue;
    }
    if (running.call.on_gpus && running.failure && is_comm_error(running.failure)) {
      // It ends with the others, when the watch has found out why.
      running_ = nullptr;
      launched_.emplace(running.place, Launched{running.op, running.call, running_since_, begun_});
      lock.unlock();
      world_->report_unless_explained(running.why);
      lock.lock();
      continue;
    }
    if (running.is_launched) {
      running_ = nullptr;
      launched_.emplace(running.place, Launched{running.op, running.call, running_since_, begun_});
      const std::shared_ptr<GpuCalls> gpu = gpu_;
      lock.unlock();
      gpu->when_done(running.end, [self = shared_from_this(), place = running.place](const auto& failed) {
        self->end_launched(place, failed);
      });
      lock.lock();
      continue;
    }
    if (running.pending) {
      is_pending_ = true;
      if (!wait(running, lock)) return abandon(running);  // fail() has ended it
    }
    end(running, lock);
  }
}

// Runs at the end of the communicator's thread. fail() aborts what it finds; this thread may have joined NCCL, or
// launched a call, since then.
void Driver::leave_gpu() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<GpuCalls> gpu = std::move(gpu_);
  const bool has_failed = !failure_.empty();
  lock.unlock();
  if (!gpu) return;
  // When the process ends CUDA may have ended before: NCCL is left as it is.
  if (world_->has_ended()) (void)new std::shared_ptr<GpuCalls>(gpu);
  else if (has_failed) gpu->abort();
}

// On the communicator's thread. Blocks in a split alone.
void Driver::run(Running& running) {
  const Call& call = running.call;
  if (call.on_gpus) {
    const ArrayNode& in = running.in ? *running.in : *running.out;
    running.is_launched = launch(call, *in.buffer, *running.out->buffer, running.end);
  } else if (call.kind == Kind::split) {
    if (std::unique_ptr<Group> group = group_->split(running.color, running.key)) {
      *running.part =
          start(world_, std::move(group), hash_of(id_ + running.place, {.kind = Kind::split, .count = running.color}));
    }
  } else {
    running.pending = group_->begin(call);
  }
  if (call.kind == Kind::barrier || call.kind == Kind::split) std::memset(call.out, 0, running.out->bytes());
}

bool Driver::launch(const Call& call, engine::Buffer& in, engine::Buffer& out, engine::StreamPoint& end) {
  if (!gpu_) {
    auto made = std::make_shared<GpuCalls>(*group_, world_->device(), [this] {
      std::lock_guard lock(mutex_);
      return !failure_.empty();
    });
    std::lock_guard lock(mutex_);
    gpu_ = std::move(made);
  }
  if (call.count == 0) return false;
  end = gpu_->launch(call, in, out, name_of(call.kind));
  return true;
}

// Not on the driver's thread, which may be in a call that waits for other ranks.
void Driver::end_launched(uint64_t place, const std::exception_ptr& failure) {
  Launched ended{};
  {
    std::lock_guard lock(mutex_);
    const auto found = launched_.find(place);
    if (found == launched_.end()) return;  // fail() has ended it
    ended = found->second;
    launched_.erase(found);
  }
  drained_.notify_all();
  wake_.notify_all();
  Engine& engine = OpBody<Collective>::get(*ended.op).engine();
  auto finish = [self = shared_from_this(), op = ended.op, failure,
                 why = failure ? failure_text(place, ended.call, failure) : std::string()] {
    if (failure) self->report(why);
    complete(*op, failure);
  };
  if (!engine.has_workers()) return finish();
  engine.post_io(std::move(finish));
}

void Driver::look_at_gpu() {
  std::shared_ptr<GpuCalls> gpu;
  uint64_t place = 0;
  Call call;
  {
    std::lock_guard lock(mutex_);
    if (!gpu_ || launched_.empty() || !failure_.empty()) return;
    gpu = gpu_;
    place = launched_.begin()->first;
    call = launched_.begin()->second.call;
  }
  if (const std::string why = gpu->failure(); !why.empty()) {
    world_->report_unless_explained(failure_text(place, call, std::make_exception_ptr(CommError(why))));
  }
}

void Driver::poll_sends(std::unique_lock<std::mutex>& lock) {
  std::vector<std::pair<OpNode*, std::exception_ptr>> ended;
  std::erase_if(sends_, [&](Send& s) {
    try {
      if (!s.sending->has_ended()) return false;
      ended.emplace_back(s.op, nullptr);
    } catch (...) {
      ended.emplace_back(s.op, std::current_exception());
    }
    return true;
  });
  if (ended.empty()) return;
  drained_.notify_all();
  lock.unlock();
  for (auto& [op, failure] : ended) complete(*op, failure);
  lock.lock();
}

}  // namespace kaon::comm
