#include "kaon/comm/driver/driver.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/engine.h"

namespace kaon::comm {

using engine::IntrusivePtr;
using engine::OpBody;
using engine::OpNode;
using engine::OpType;
using ops::ArrayNode;

namespace {

constexpr std::array<const char*, 9> kind_names{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "exchange",
                                                "send",       "recv",           "barrier",    "split"};
constexpr std::array<const char*, 5> reduce_names{"sum", "mean", "min", "max", "prod"};

bool reduces(const Call& call) { return call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter; }

// Of what must be the same on every rank. FNV-1a.
uint64_t hash_of(uint64_t before, const Call& call) {
  uint64_t h = before ^ 0xcbf29ce484222325;
  const auto add = [&](uint64_t part) {
    for (int i = 0; i < 8; ++i) h = (h ^ (part >> (8 * i) & 0xff)) * 0x100000001b3;
  };
  add(uint64_t(call.kind));
  add(reduces(call) ? uint64_t(call.op) : 0);
  add(uint64_t(call.dtype));
  add(uint64_t(call.count));
  add(call.on_gpus);
  add(call.kind == Kind::broadcast ? uint64_t(call.peer) : 0);
  if (call.counts) {
    for (const int64_t n : *call.counts) add(uint64_t(n));
  }
  return h;
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

std::string describe(const Call& call) {
  std::string text = kind_names[size_t(call.kind)];
  if (call.kind == Kind::barrier || call.kind == Kind::split) return text;
  if (reduces(call)) text += fmt::format(" ({})", reduce_names[size_t(call.op)]);
  text += fmt::format(" of {} elements of {}{}", call.count, name_of(call.dtype), call.on_gpus ? " on GPUs" : "");
  if (call.kind == Kind::broadcast) text += fmt::format(" from rank {}", call.peer);
  if (call.kind == Kind::exchange) text += fmt::format(" with rank {}", call.peer);
  if (call.kind == Kind::send) text += fmt::format(" to rank {}", call.peer);
  if (call.kind == Kind::recv) text += fmt::format(" from rank {}", call.peer);
  return text;
}

// --- the operation

// The body of a call in the engine.
struct Driver::Collective {
  Collective(std::shared_ptr<Driver> driver, uint64_t place, const Call& call, IntrusivePtr<ArrayNode> in,
             IntrusivePtr<ArrayNode> out)
      : driver(std::move(driver)), place(place), call(call), in(std::move(in)), out(std::move(out)) {}
  Collective(Collective&&) = default;
  Collective& operator=(Collective&&) = delete;
  ~Collective() {
    // Its input had failed, or its scope was stopped: this rank will not take part.
    if (driver && !has_begun) driver->lose(place, kind_names[size_t(call.kind)]);
  }

  std::shared_ptr<Driver> driver;
  uint64_t place;
  Call call;
  IntrusivePtr<ArrayNode> in, out;
  int color = 0, key = 0;
  std::shared_ptr<std::shared_ptr<Driver>> part;  // of a split
  bool has_begun = false;
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
  const std::shared_ptr<Driver> driver = body.driver;
  try {
    if (body.out) body.call.out = memory_of(*body.out, op.label);
    body.call.in = body.in ? memory_of(*body.in, op.label) : body.call.out;
  } catch (...) {
    driver->lose(body.place, kind_names[size_t(body.call.kind)]);
    driver->complete(op, std::current_exception());
    return;
  }
  driver->ready(body.place, {&op, &body});
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
      failure_(world_->failure()) {}

std::shared_ptr<Driver> Driver::start(std::shared_ptr<World> world, std::unique_ptr<Group> group, uint64_t id) {
  auto driver = std::make_shared<Driver>(world, std::move(group), id);
  world->add(driver);
  // Signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([driver] { driver->loop(); }).detach();
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
    return !failure_.empty() || (next_ == issued_ && !running_ && sends_.empty() && launched_.empty());
  });
}

void Driver::push(const Call& call, const NDArray& in, const NDArray& out, const OpLabel& label) {
  uint64_t place;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(fmt::format("[{}] {}", kind_names[size_t(call.kind)], failure_));
    place = issued_++;
  }
  Engine& engine = (out.defined() ? out : in).engine();
  Collective body(shared_from_this(), place, call, in.defined() ? in.ptr() : nullptr,
                  out.defined() ? out.ptr() : nullptr);
  std::vector<Access> accesses;
  if (in.defined() && in.ptr() != out.ptr()) accesses.push_back(read(in.var()));
  if (out.defined()) {
    accesses.push_back(in.ptr() == out.ptr() || !out.node().covers_buffer() ? update(out.var()) : write(out.var()));
    out.node().buffer->note_write(label.site);
  }
  engine.push_as(type, accesses, std::move(body), {.label = label});
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
    std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      ready_.emplace(place, entry);
      if (place == next_) wake_.notify_one();
      return;
    }
  }
  complete(*entry.op, std::make_exception_ptr(
                          CommError(fmt::format("[{}] {}", kind_names[size_t(entry.body->call.kind)], failure_))));
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
  Engine& engine = *OpBody<Collective>::get(op).out->buffer->engine;
  engine.complete(op, std::move(failure));
}

void Driver::fail(const std::string& text) noexcept {
  std::vector<std::pair<OpNode*, Kind>> ending;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = text;
    for (auto& [place, entry] : ready_) ending.emplace_back(entry.op, entry.body->call.kind);
    ready_.clear();
    // The thread stays inside a call that may never end, and keeps its arrays.
    if (OpNode* op = std::exchange(running_, nullptr)) ending.emplace_back(op, running_call_.kind);
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
    complete(*op, std::make_exception_ptr(CommError(fmt::format("[{}] {}", kind_names[size_t(kind)], text))));
  }
}

void Driver::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto is_due = [&] { return ready_.count(next_) != 0; };
    if (!is_due()) {
      if (!failure_.empty() || (ends_ && sends_.empty() && launched_.empty() && next_ == issued_)) {
        const std::shared_ptr<GpuCalls> gpu = std::move(gpu_);
        lock.unlock();
        // When the process ends CUDA may have ended before: NCCL is left as it is.
        if (gpu && world_->has_ended()) (void)new std::shared_ptr<GpuCalls>(gpu);
        return;
      }
      auto may_go_on = [&] { return is_due() || ends_ || !failure_.empty(); };
      if (sends_.empty() && !ends_) {
        wake_.wait(lock, may_go_on);
      } else {
        wake_.wait_for(lock, std::chrono::microseconds(50), is_due);
        poll_sends(lock);
      }
      continue;
    }
    const Entry entry = ready_.extract(next_).mapped();
    const uint64_t place = next_++;
    running_ = entry.op;
    running_since_ = std::chrono::steady_clock::now();
    // Copies: fail() may end the operation while the call runs.
    const Call call = running_call_ = entry.body->call;
    const IntrusivePtr<ArrayNode> in = entry.body->in, out = entry.body->out;
    const auto part = entry.body->part;
    const int color = entry.body->color, key = entry.body->key;
    note_begin(call);
    lock.unlock();

    std::exception_ptr failure;
    std::string why;
    std::unique_ptr<Sending> sending;
    engine::StreamPoint end;
    bool is_launched = false;
    try {
      if (call.on_gpus) {
        is_launched = launch(call, *(in ? in : out)->buffer, *out->buffer, end);
      } else if (call.kind == Kind::send) {
        sending = group_->begin_send(call);
      } else if (call.kind == Kind::split) {
        if (std::unique_ptr<Group> group = group_->split(color, key)) {
          *part = start(world_, std::move(group), hash_of(id_ + place, {.kind = Kind::split, .count = color}));
        }
      } else {
        group_->run(call);
      }
      if (call.kind == Kind::barrier || call.kind == Kind::split) std::memset(call.out, 0, out->bytes());
    } catch (const std::exception&) {
      failure = std::current_exception();
      why = failure_text(place, call, failure);
    }

    lock.lock();
    if (running_ != entry.op) return;  // fail() has ended it
    running_ = nullptr;
    if (sending) {
      sends_.push_back({entry.op, std::move(sending)});
      continue;
    }
    if (call.on_gpus && failure && is_comm_error(failure)) {
      // It ends with the others, when the watch has found out why.
      launched_.emplace(place, Launched{entry.op, call, running_since_, begun_});
      lock.unlock();
      world_->report_unless_explained(why);
      lock.lock();
      continue;
    }
    if (is_launched) {
      launched_.emplace(place, Launched{entry.op, call, running_since_, begun_});
      const std::shared_ptr<GpuCalls> gpu = gpu_;
      lock.unlock();
      gpu->when_done(end,
                     [self = shared_from_this(), place](const auto& failed) { self->end_launched(place, failed); });
      lock.lock();
      continue;
    }
    drained_.notify_all();
    lock.unlock();
    if (failure) world_->report(why);
    complete(*entry.op, failure);
    lock.lock();
  }
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
  end = gpu_->launch(call, in, out, kind_names[size_t(call.kind)]);
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
  if (failure) world_->report(failure_text(place, ended.call, failure));
  Engine& engine = *OpBody<Collective>::get(*ended.op).out->buffer->engine;
  if (!engine.has_workers()) return complete(*ended.op, failure);
  engine.post_io([op = ended.op, failure] { complete(*op, failure); });
}

std::vector<LongCall> Driver::long_calls(std::chrono::steady_clock::duration least) const {
  std::lock_guard lock(mutex_);
  std::vector<LongCall> all;
  const auto now = std::chrono::steady_clock::now();
  const auto add = [&](const Call& call, auto since, uint64_t begun) {
    if (call.kind == Kind::exchange || now - since < least) return;  // not all ranks'
    all.push_back({id_, begun, size_t(size_), describe(call)});
  };
  for (const auto& [place, launched] : launched_) add(launched.call, launched.since, launched.begun);
  if (running_ && running_call_.on_gpus) add(running_call_, running_since_, begun_);
  return all;
}

bool Driver::has_begun(uint64_t communicator, uint64_t place) const {
  std::lock_guard lock(mutex_);
  return communicator == id_ && begun_ >= place;
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

void Driver::note_begin(const Call& call) {
  if (call.kind == Kind::send || call.kind == Kind::recv || call.kind == Kind::exchange) return;
  hash_ = hash_of(hash_, call);
  history_[begun_++ % kept_hashes] = hash_;
}

Progress Driver::progress() const {
  std::lock_guard lock(mutex_);
  return {id_, begun_, hash_, begun_ > 0 ? describe(running_call_) : std::string()};
}

std::string Driver::differs(int rank, const Progress& other) const {
  std::lock_guard lock(mutex_);
  if (other.communicator != id_ || other.place == 0 || other.place > begun_ || other.place + kept_hashes <= begun_)
    return {};
  if (history_[(other.place - 1) % kept_hashes] == other.history) return {};
  return fmt::format(
      "the ranks call different collectives: call {} is {} on rank {}; rank {} has called something else there or "
      "before, and is in call {}, {}",
      other.place - 1, other.call, rank, rank_, begun_ - 1, describe(running_call_));
}

bool Driver::waits_for_long() const {
  std::lock_guard lock(mutex_);
  const auto is_long = [now = std::chrono::steady_clock::now()](auto since) {
    return now - since > std::chrono::milliseconds(500);
  };
  return (running_ && is_long(running_since_)) || (!launched_.empty() && is_long(launched_.begin()->second.since));
}

}  // namespace kaon::comm
