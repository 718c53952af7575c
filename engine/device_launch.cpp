#include "kaon/engine/device_launch.h"

#include <algorithm>

#include "kaon/engine/gpu_memory.h"

namespace kaon {
namespace {
thread_local DeviceLaunch* t_launch = nullptr;
}

DeviceLaunch* DeviceLaunch::current() noexcept { return t_launch; }

DeviceLaunch::DeviceLaunch(Gpu& gpu, Lane lane, const OpLabel& label)
    : gpu_(gpu), lane_(lane), lock_(gpu.lanes_[size_t(lane)].mutex), outer_(std::exchange(t_launch, this)) {
  std::lock_guard lock(gpu.last_mutex_);
  gpu.last_ = label;
}

DeviceLaunch::~DeviceLaunch() {
  t_launch = outer_;
  free_workspace();
  const StreamPoint point = Gpu::order().launched(stream_number());
  for (const Used& u : used_) u.use->add(point, u.writes);
}

void DeviceLaunch::use(Chunk& chunk, bool writes) {
  StreamUse& use = GpuMemory::of(chunk).use;
  const auto known = std::find_if(used_.begin(), used_.end(), [&](const Used& u) { return u.use == &use; });
  if (known != used_.end() && (known->writes || !writes)) return;
  use.order_before(Gpu::order(), stream_number(), writes);
  if (known != used_.end()) {
    known->writes = true;
  } else {
    used_.push_back({&use, writes});
  }
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

}  // namespace kaon
