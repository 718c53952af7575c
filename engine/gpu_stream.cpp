#include "kaon/engine/gpu_stream.h"

#include <vector>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/buffer/gpu_memory.h"

namespace kaon {

using namespace engine;

struct CallerStream::State {
  State(Device device, void* native)
      : gpu(Gpu::of(device)), stream(gpu.driver.borrow_stream(native)), number(gpu.add_stream(*stream)) {}
  ~State() { gpu.retire_stream(number); }

  Gpu& gpu;
  const std::unique_ptr<Stream> stream;
  const uint32_t number;
  struct Used {
    IntrusivePtr<Buffer> buffer;
    bool writes;
  };
  std::vector<Used> used;
};

CallerStream::CallerStream(Device device, void* stream) : state_(new State(device, stream)) {}
CallerStream::~CallerStream() = default;

void* CallerStream::begin(Buffer& buffer, bool writes, const std::source_location& site) {
  Gpu& gpu = state_->gpu;
  if (buffer.device != gpu.device) {
    throw ValueError("[CallerStream] the stream is of " + gpu.device.str() + ", the array of " + buffer.device.str());
  }
  buffer.engine->wait(buffer.var, writes ? AccessMode::update : AccessMode::read);
  if (!buffer.data) {  // nothing has been written yet
    DeviceLaunch launch(gpu, Lane::compute, {.name = "CallerStream"});
    launch.use(buffer, true);
    buffer.ensure();
  }
  GpuMemory::of(buffer).use.order_before(Gpu::order(), state_->number, writes);
  state_->used.push_back({IntrusivePtr<Buffer>(&buffer), writes});
  if (writes) buffer.note_write(site);
  return buffer.data;
}

void CallerStream::end() {
  const StreamPoint point = Gpu::order().launched(state_->number);
  for (const State::Used& u : state_->used) GpuMemory::of(*u.buffer).use.add(point, u.writes);
  state_->used.clear();
}

}  // namespace kaon
