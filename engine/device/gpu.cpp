#include "kaon/engine/device/gpu.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/profiler.h"

namespace kaon::engine {
namespace {

// Read by every wait_all, also in processes without a GPU.
constexpr size_t most = 64;
constinit std::array<Gpu*, most> g_in_use{};
constinit std::atomic<size_t> g_count{0};

// Made for the first GPU and never destroyed: static arrays outlive main, and so may the driver's threads.
struct Gpus {
  std::mutex mutex;
  std::vector<std::unique_ptr<Gpu>> by_index;  // under mutex

  StreamOrder order;
  boost::asio::thread_pool thread{1};
  StreamCompletions completions{order,
                                [this](std::function<void()> work) { boost::asio::post(thread, std::move(work)); }};
};
Gpus& gpus() {
  static constinit MadeOnce<Gpus> all;
  return all.get([] { return new Gpus; });
}

}  // namespace

Gpu& Gpu::of(Device device) {
  check_device(device, "gpu");
  for (Gpu* known : all()) {
    if (known->device == device) return *known;
  }
  Gpus& g = gpus();
  std::lock_guard lock(g.mutex);
  if (g.by_index.size() <= device.index) g.by_index.resize(size_t(device.index) + 1);
  std::unique_ptr<Gpu>& made = g.by_index[device.index];
  if (!made) {
    const size_t count = g_count.load(std::memory_order_relaxed);  // under the lock
    if (count == most) throw DeviceError("[gpu] more GPUs in use than Kaon counts: " + std::to_string(count));
    made.reset(new Gpu(device));
    g_in_use[count] = made.get();
    g_count.store(count + 1, std::memory_order_release);
  }
  return *made;
}

std::span<Gpu* const> Gpu::all() { return {g_in_use.data(), g_count.load(std::memory_order_acquire)}; }

StreamOrder& Gpu::order() { return gpus().order; }

Gpu::Gpu(Device device)
    : device(device), driver(gpu_driver(device.index)), memory(driver, order()), pinned(driver, order()) {
  for (LaneState& lane : lanes_) {
    lane.stream = driver.make_stream();
    lane.number = add_stream(*lane.stream);
  }
}

uint32_t Gpu::add_stream(Stream& stream) {
  {
    std::lock_guard lock(mutex_);
    if (!retired_.empty()) {
      const uint32_t number = retired_.back();
      order().reuse(number, stream);
      retired_.pop_back();
      return number;
    }
  }
  std::unique_ptr<Stream> signals = driver.make_stream();
  const uint32_t number = order().add(stream);
  gpus().completions.add(number, *signals);
  std::lock_guard lock(mutex_);
  signals_.push_back(std::move(signals));
  retired_.reserve(signals_.size());  // retire_stream() allocates nothing
  return number;
}

void Gpu::retire_stream(uint32_t number) noexcept {
  try {
    order().retire(number);
  } catch (...) {
    return;  // the GPU has failed, which every wait reports: none of its streams is used again
  }
  std::lock_guard lock(mutex_);
  retired_.push_back(number);
}

void Gpu::wait_for_all() {
  for (Gpu* gpu : all()) {
    for (const LaneState& lane : gpu->lanes_) gpu->wait(order().end(lane.number));
  }
}

bool Gpu::is_idle() {
  for (Gpu* gpu : all()) {
    for (const LaneState& lane : gpu->lanes_) {
      try {
        if (!order().is_done(order().end(lane.number))) return false;
      } catch (const DeviceError&) {
        std::rethrow_exception(gpu->failure());
      }
    }
  }
  return true;
}

void Gpu::when_done(StreamPoint point, StreamCompletions::Work work) {
  gpus().completions.when_done(point, [this, work = std::move(work)](std::exception_ptr failure) {
    if (failure) {
      try {
        std::rethrow_exception(failure);
      } catch (...) {
        failure = this->failure();
      }
    }
    work(failure);
  });
}

void Gpu::wait(StreamPoint point) {
  try {
    if (const IntrusivePtr<StreamEvent> event = order().event_after(point)) event->wait();
  } catch (const DeviceError&) {
    std::rethrow_exception(failure());
  }
}

std::exception_ptr Gpu::failure() {
  std::lock_guard lock(mutex_);
  if (!failure_) {
    const std::string last = last_.name ? std::string("; launched last: [") + last_.name + "]" + describe(last_) : "";
    failure_ = add_context(std::current_exception(), " on " + device.str() + last);
  }
  return failure_;
}

void Gpu::begin_launch(const OpLabel& label) {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  last_ = label;
}

const Gpu::Clock& Gpu::clock() {
  std::lock_guard lock(mutex_);
  if (!clock_) {
    const std::unique_ptr<Stream> idle = driver.make_stream();
    const IntrusivePtr<StreamEvent> event = idle->record_time();
    event->wait();
    clock_ = Clock{event, Profiler::now()};
  }
  return *clock_;
}

}  // namespace kaon::engine
