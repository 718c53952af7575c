#include "kaon/engine/gpu_stream.h"

#include "kaon/engine/buffer/device_launch.h"

namespace kaon {

CallerStream::CallerStream(Device device, void* stream)
    : gpu_(Gpu::of(device)), stream_(gpu_.driver.borrow_stream(stream)), number_(gpu_.add_stream(*stream_)) {}

CallerStream::~CallerStream() { gpu_.retire_stream(number_); }

void* CallerStream::begin(Buffer& buffer, bool writes, const std::source_location& site) {
  if (buffer.device != gpu_.device) {
    throw ValueError("[CallerStream] the stream is of " + gpu_.device.str() + ", the array of " + buffer.device.str());
  }
  buffer.engine->wait(buffer.var, writes ? AccessMode::update : AccessMode::read);
  if (!buffer.data) {  // nothing has been written yet
    DeviceLaunch launch(gpu_, Lane::compute, {.name = "CallerStream"});
    launch.use(buffer, true);
    buffer.ensure();
  }
  GpuMemory::of(buffer).use.order_before(Gpu::order(), number_, writes);
  used_.push_back({IntrusivePtr<Buffer>(&buffer), writes});
  if (writes) buffer.note_write(site);
  return buffer.data;
}

void CallerStream::end() {
  const StreamPoint point = Gpu::order().launched(number_);
  for (const Used& u : used_) GpuMemory::of(*u.buffer).use.add(point, u.writes);
  used_.clear();
}

}  // namespace kaon
