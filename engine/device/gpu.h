// Gpu: a GPU in use: its streams, the order of their work, its memory.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/pinned_memory.h"
#include "kaon/engine/device/stream_completions.h"
#include "kaon/engine/device/stream_pool.h"
#include "kaon/engine/error.h"

namespace kaon::engine {

// The streams of a GPU: copies to and from it overlap with its computation.
enum class Lane : uint8_t { compute, to_gpu, to_host };
inline constexpr size_t lanes = 3;

// Opened when it is first named, and kept as long as the process. Operations launch on a lane through DeviceLaunch
// (engine/buffer/device_launch.h), one at a time; for the engine they are finished at the launch, and the next
// operations on their arrays are ordered on the device. Thread safety: any thread.
class Gpu {
 public:
  static Gpu& of(Device device);       // throws DeviceError
  static std::span<Gpu* const> all();  // in use
  // Blocks until everything launched on any GPU has run. Throws DeviceError when one has failed.
  static void wait_for_all();
  // Whether everything launched has run. Throws DeviceError when a GPU has failed.
  static bool is_idle();

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Device device;
  DeviceDriver& driver;
  static StreamOrder& order();  // of all GPUs: they may wait for each other
  StreamPool memory;
  PinnedMemory pinned;

  uint32_t number(Lane lane) const { return lanes_[size_t(lane)].number; }
  Stream& stream(Lane lane) { return *lanes_[size_t(lane)].stream; }
  // Adds one more stream of this GPU and returns its number in order(). It must outlive this, or be retired.
  uint32_t add_stream(Stream& stream);
  // After this the stream may be destroyed; the next added stream gets its number and what belongs to that.
  void retire_stream(uint32_t number) noexcept;

  // Calls `work` on a thread of its own once the point is reached or the GPU has failed. `work` must not wait.
  void when_done(StreamPoint point, StreamCompletions::Work work);
  // Blocks until the point is reached. Throws DeviceError when the GPU has failed.
  void wait(StreamPoint point);
  // Makes the exception that is being handled the failure of this GPU, naming the latest launch (which one failed is
  // not known). Every later launch fails with it at once.
  std::exception_ptr failure();

 private:
  friend class DeviceLaunch;
  struct LaneState {
    uint32_t number;
    std::unique_ptr<Stream> stream;
    std::mutex mutex;  // held while an operation is launched
  };
  // A time on the GPU and on the host.
  struct Clock {
    IntrusivePtr<StreamEvent> event;
    uint64_t host;
  };
  explicit Gpu(Device device);
  const Clock& clock();
  void begin_launch(const OpLabel& label);  // throws the failure of the GPU

  std::array<LaneState, lanes> lanes_;
  std::mutex mutex_;  // guards all below
  OpLabel last_;      // the latest launch
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Stream>> signals_;
  std::vector<uint32_t> retired_;  // numbers without a stream
  std::optional<Clock> clock_;
};

}  // namespace kaon::engine
