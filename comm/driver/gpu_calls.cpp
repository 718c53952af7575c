#include "kaon/comm/driver/gpu_calls.h"

#include <utility>
#include <vector>

#include "kaon/engine/buffer/gpu_memory.h"

namespace kaon::comm {

using engine::Gpu;
using engine::GpuMemory;
using engine::StreamPoint;

namespace {
// This thread's calls of CUDA are for the GPU while it lives.
struct OnGpu {
  OnGpu(Gpu& gpu, const char* name) : gpu(gpu) { gpu.driver.begin_range(name); }
  ~OnGpu() { gpu.driver.end_range(); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  Gpu& gpu;
};
}  // namespace

GpuCalls::GpuCalls(Group& group, Device device, const std::function<bool()>& is_over)
    : gpu_(Gpu::of(device)), stream_(gpu_.driver.make_stream()), number_(gpu_.add_stream(*stream_)) {
  try {
    GpuBackend& backend = nccl_backend();
    const OnGpu scope(gpu_, "communicator");
    const std::vector<std::string> ids = group.exchange(group.rank() == 0 ? backend.make_id() : std::string());
    group_ = backend.join(ids[0], group.rank(), group.size(), is_over);
  } catch (...) {
    gpu_.retire_stream(number_);
    throw;
  }
}

GpuCalls::~GpuCalls() {
  {
    const OnGpu scope(gpu_, "communicator");
    group_.reset();
  }
  gpu_.retire_stream(number_);
}

void GpuCalls::abort() noexcept {
  const OnGpu scope(gpu_, "abort");
  group_->abort();
}

StreamPoint GpuCalls::launch(const Call& call, engine::Buffer& in, engine::Buffer& out, const char* name) {
  engine::StreamOrder& order = Gpu::order();
  const std::pair<engine::Buffer*, bool> used[] = {{&in, false}, {&out, true}};
  for (const auto& [buffer, writes] : used) GpuMemory::of(*buffer).use.order_before(order, number_, writes);
  const OnGpu scope(gpu_, name);
  // Also when launching fails: a part of it may have been launched.
  struct Uses {
    ~Uses() {
      end = Gpu::order().launched(number);
      GpuMemory::of(*in).use.add(end, false);
      GpuMemory::of(*out).use.add(end, true);
    }
    engine::Buffer *in, *out;
    uint32_t number;
    StreamPoint& end;
  };
  StreamPoint end;
  {
    const Uses uses{&in, &out, number_, end};
    group_->launch(call, stream_->native());
  }
  return end;
}

}  // namespace kaon::comm
