// DeviceLaunch: the scope in which an operation is launched on a lane of a GPU.
#pragma once

#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/run_context.h"

namespace kaon::engine {

// The launched work runs after the earlier uses of the arrays given to use(), and their later uses run after it; that
// takes events only between streams. This also holds when launching fails half way. Thread safety: used by one thread;
// others that launch on the same lane wait.
class DeviceLaunch final : public RunContext {
 public:
  DeviceLaunch(Gpu& gpu, Lane lane, const OpLabel& label);  // throws DeviceError when the GPU has failed
  ~DeviceLaunch() override;
  DeviceLaunch(const DeviceLaunch&) = delete;
  DeviceLaunch& operator=(const DeviceLaunch&) = delete;

  // Declares an array of this GPU, or one of another GPU that is copied from or to, before its memory is used.
  void use(Buffer& buffer, bool writes);
  // This thread's innermost launch. They nest only when an operation is part of another.
  static DeviceLaunch* current() noexcept;

  Gpu& gpu() { return gpu_; }
  uint32_t stream_number() const { return gpu_.number(lane_); }
  StreamPoint launched_so_far() const { return Gpu::order().launched(stream_number()); }

  // --- RunContext, for kernels
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override;  // on this thread
  void* workspace(size_t bytes) override;                                                          // of the GPU
  void free_workspace() noexcept override;
  Stream* stream() override { return &gpu_.stream(lane_); }

 private:
  void record_time();
  struct Used {
    StreamUse* use;
    bool writes;
  };
  struct Block {
    void* memory;
    size_t bytes;
  };
  Gpu& gpu_;
  const Lane lane_;
  std::unique_lock<std::mutex> lock_;
  DeviceLaunch* const outer_;
  std::vector<Used> used_;
  std::vector<Block> blocks_;
  const OpLabel label_;
  IntrusivePtr<StreamEvent> begin_;  // while the profiler is on
};

}  // namespace kaon::engine
