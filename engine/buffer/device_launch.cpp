#include "kaon/engine/buffer/device_launch.h"

#include <algorithm>

#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/profiler.h"

namespace kaon::engine {
namespace {
thread_local DeviceLaunch* t_launch = nullptr;
}

DeviceLaunch* DeviceLaunch::current() noexcept { return t_launch; }

DeviceLaunch::DeviceLaunch(Gpu& gpu, Lane lane, const OpLabel& label)
    : gpu_(gpu), lane_(lane), lock_(gpu.lanes_[size_t(lane)].mutex), outer_(t_launch), label_(label) {
  gpu.begin_launch(label);
  if (Engine::current().profiler().is_on()) [[unlikely]] {
    gpu.clock();
    begin_ = stream()->record_time();
  }
  gpu.driver.begin_range(label.name ? label.name : "kaon");
  t_launch = this;
}

DeviceLaunch::~DeviceLaunch() {
  t_launch = outer_;
  gpu_.driver.end_range();
  free_workspace();
  const StreamPoint point = Gpu::order().launched(stream_number());
  for (const Used& u : used_) u.use->add(point, u.writes);
  if (begin_) record_time();
}

// Records the times in the profiler once they are known.
void DeviceLaunch::record_time() {
  try {
    const IntrusivePtr<StreamEvent> end_time = stream()->record_time();
    gpu_.when_done(Gpu::order().launched(stream_number()), [=, gpu = &gpu_, begin = begin_, label = label_,
                                                            lane = lane_,
                                                            engine = Engine::current().ref()](auto failure) {
      if (failure) return;
      const Gpu::Clock& clock = gpu->clock();
      const auto host_time = [&](StreamEvent& e) {
        return clock.host + uint64_t(int64_t(e.seconds_since(*clock.event) * 1e9));
      };
      Engine::use_if_alive(engine, [&](Engine& e) {
        e.profiler().record({.name = label.name,
                             .category = "gpu",
                             .begin = host_time(*begin),
                             .end = host_time(*end_time),
                             .block_path = label.block_path,
                             .site = label.site,
                             .thread = Profiler::first_gpu_track + uint32_t(gpu->device.index * lanes + size_t(lane))});
      });
    });
  } catch (const std::exception&) {  // the GPU has failed, which every wait reports
  }
}

void DeviceLaunch::use(Buffer& buffer, bool writes) {
  StreamUse& use = GpuMemory::of(buffer).use;
  use.order_before(Gpu::order(), stream_number(), writes);
  used_.push_back({&use, writes});  // duplicates do no harm
}

void DeviceLaunch::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(n, begin + grain));
}

void* DeviceLaunch::workspace(size_t bytes) {
  void* memory = gpu_.memory.allocate(bytes, stream_number());
  blocks_.push_back({memory, bytes});
  return memory;
}

void DeviceLaunch::free_workspace() noexcept {
  if (blocks_.empty()) return;
  const StreamPoint point = Gpu::order().launched(stream_number());
  for (const Block& b : blocks_) gpu_.memory.free(b.memory, b.bytes, std::span(&point, 1));
  blocks_.clear();
}

}  // namespace kaon::engine
