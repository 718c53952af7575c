// Gpu: a GPU in use: its streams, the order of what runs on them, its memory.
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

namespace kaon {

// The streams of a GPU: what is copied to and from it runs beside what it computes.
enum class Lane : uint8_t { compute, to_gpu, to_host };
inline constexpr size_t lanes = 3;

// Opened when it is first named, and kept as long as the process. Operations launch on a lane through DeviceLaunch
// (engine/buffer/device_launch.h), one at a time; for the engine they are finished then, and those who use their arrays
// next are put in order on the device. Thread safety: any thread.
class Gpu {
 public:
  static Gpu& of(Device device);     // throws DeviceError
  static std::span<Gpu* const> all();  // in use
  // Until all that has been launched on any GPU has run. Throws DeviceError when one has failed.
  static void wait_for_all();
  // Whether all has run; throws DeviceError when a GPU has failed.
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
  // For one more stream of this GPU: its number in order(). It must outlive this, or be retired.
  uint32_t add_stream(Stream& stream);
  // The stream may go then; its number, and what belongs to that, is the next one's.
  void retire_stream(uint32_t number) noexcept;

  // On a thread of its own, once the point is reached or the GPU has failed. `work` must not wait.
  void when_done(StreamPoint point, StreamCompletions::Work work);
  // Blocks until then. Throws DeviceError.
  void wait(StreamPoint point);
  // For the exception that is being handled: the failure of the GPU, with what was launched last: where it failed is not
  // known any better. Afterwards whatever is launched fails with it at once.
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
  std::mutex mutex_;  // of what follows
  OpLabel last_;      // launched
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Stream>> signals_;
  std::vector<uint32_t> retired_;  // numbers without a stream
  std::optional<Clock> clock_;
};

}  // namespace kaon
