#include "kaon/engine/gpu_stream.h"

#include "kaon/engine/buffer/device_launch.h"

namespace kaon {

CallerStream::CallerStream(Device device, void* stream)
    : gpu_(Gpu::of(device)), stream_(gpu_.driver.borrow_stream(stream)), number_(gpu_.add_stream(*stream_)) {}

CallerStream::~CallerStream() { gpu_.retire_stream(number_); }

void* CallerStream::begin(Chunk& chunk, bool writes, const std::source_location& site) {
  if (chunk.device != gpu_.device) {
    throw ValueError("[CallerStream] the stream is of " + gpu_.device.str() + ", the array of " + chunk.device.str());
  }
  chunk.engine->wait(chunk.var, writes ? AccessMode::update : AccessMode::read);
  if (!chunk.data) {  // nothing has been written yet
    DeviceLaunch launch(gpu_, Lane::compute, {.name = "CallerStream"});
    launch.use(chunk, true);
    chunk.ensure();
  }
  GpuMemory::of(chunk).use.order_before(Gpu::order(), number_, writes);
  used_.push_back({IntrusivePtr<Chunk>(&chunk), writes});
  if (writes) chunk.note_write(site);
  return chunk.data;
}

void CallerStream::end() {
  const StreamPoint point = Gpu::order().launched(number_);
  for (const Used& u : used_) GpuMemory::of(*u.chunk).use.add(point, u.writes);
  used_.clear();
}

}  // namespace kaon
