// DeviceLaunch: while it lives, an operation is launched on a lane of a GPU.
#pragma once

#include <vector>

#include "kaon/engine/buffer/chunk.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/run_context.h"

namespace kaon {

// What is launched runs after the last use of the arrays that are named, and later users of these run after it; that
// takes events only where they are on other streams. Also when launching fails half way. Thread safety: used by one
// thread; others that launch on the same lane wait.
class DeviceLaunch final : public RunContext {
 public:
  DeviceLaunch(Gpu& gpu, Lane lane, const OpLabel& label);  // throws DeviceError when the GPU has failed
  ~DeviceLaunch() override;
  DeviceLaunch(const DeviceLaunch&) = delete;
  DeviceLaunch& operator=(const DeviceLaunch&) = delete;

  // Before its memory is asked for. An array of this GPU, or of another one that this one copies from or to.
  void use(Chunk& chunk, bool writes);
  // The launches of this thread nest only where an operation is part of another.
  static DeviceLaunch* current() noexcept;

  Gpu& gpu() { return gpu_; }
  uint32_t stream_number() const { return gpu_.number(lane_); }
  StreamPoint launched_so_far() const { return Gpu::order().launched(stream_number()); }

  // --- what a kernel gets
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override;  // on this thread
  void* workspace(size_t bytes) override;  // of the GPU
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

}  // namespace kaon
