// GpuCalls: the calls of one communicator on arrays of this rank's GPU, on a stream of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kaon/comm/backend/backend.h"
#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/device/gpu.h"

namespace kaon::comm {

// A stream for each communicator: one that waits for other ranks does not hold up what another one launches.
// Thread safety: one thread launches; failure(), abort() and when_done() any thread.
class GpuCalls {
 public:
  // All ranks of `group` call it. Blocks. Throws CommError, also when is_over() says so; DeviceError.
  GpuCalls(Group& group, Device device, const std::function<bool()>& is_over);
  ~GpuCalls();
  GpuCalls(const GpuCalls&) = delete;
  GpuCalls& operator=(const GpuCalls&) = delete;

  // Launches the call after what uses its arrays so far, and before what is launched later on them. Gives its end.
  // Throws CommError.
  engine::StreamPoint launch(const Call& call, engine::Buffer& in, engine::Buffer& out, const char* name);
  // `work` is called once the point is reached, or the GPU has failed. It must not wait.
  void when_done(engine::StreamPoint end, engine::StreamCompletions::Work work) {
    gpu_.when_done(end, std::move(work));
  }
  std::string failure() { return group_->failure(); }
  void abort() noexcept;

 private:
  engine::Gpu& gpu_;
  const std::unique_ptr<engine::Stream> stream_;
  const uint32_t number_;
  std::unique_ptr<GpuGroup> group_;
};

}  // namespace kaon::comm
