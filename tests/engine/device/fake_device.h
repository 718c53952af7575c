// A device in this process, for what orders work on devices: it runs what its streams hold in an order of chance, so
// that only what they have been told to wait for is certain.
#pragma once

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kaon/engine/device/stream_pool.h"
#include "kaon/engine/error.h"

namespace kaon::test {

using namespace engine;

class FakeDevice;

struct FakeEvent final : StreamEvent {
  explicit FakeEvent(FakeDevice& device) : device(device) {}
  bool is_done() override;
  void wait() override;
  double seconds_since(StreamEvent&) override { return 0; }
  FakeDevice& device;
  bool is_reached = false;
};

class FakeStream final : public Stream {
 public:
  explicit FakeStream(FakeDevice& device) : device_(device) {}
  IntrusivePtr<StreamEvent> record() override {
    IntrusivePtr<FakeEvent> event(new FakeEvent(device_));
    commands.push_back({nullptr, [event] { event->is_reached = true; }});
    ++events;
    return event;
  }
  IntrusivePtr<StreamEvent> record_time() override { return record(); }
  void wait(StreamEvent& event) override {
    commands.push_back({IntrusivePtr<FakeEvent>(static_cast<FakeEvent*>(&event)), [] {}});
    ++waits;
  }
  void call(void (*work)(void*) noexcept, void* argument) override {
    commands.push_back({nullptr, [work, argument] { work(argument); }, true});
  }
  void* native() override { return this; }
  void launch(std::function<void()> work) { commands.push_back({nullptr, std::move(work)}); }

  struct Command {
    IntrusivePtr<FakeEvent> after;
    std::function<void()> work;
    bool is_call = false;
    bool can_run() const { return !after || after->is_reached; }
  };
  std::deque<Command> commands;
  int events = 0, waits = 0;

 private:
  FakeDevice& device_;
};

class FakeDevice final : public DeviceMemory {
 public:
  explicit FakeDevice(uint64_t seed, size_t blocks = SIZE_MAX) : random_(seed), blocks_left_(blocks) {}

  FakeStream& stream() {
    streams_.push_back(std::make_unique<FakeStream>(*this));
    return *streams_.back();
  }
  // One command of any stream that can go on. False: there is none.
  bool run_one() {
    std::vector<FakeStream*> able;
    for (const auto& s : streams_) {
      if (!s->commands.empty() && s->commands.front().can_run()) able.push_back(s.get());
    }
    if (able.empty()) return false;
    FakeStream& s = *able[random_() % able.size()];
    const FakeStream::Command command = std::move(s.commands.front());
    s.commands.pop_front();
    command.work();
    return true;
  }
  void run_all() {
    while (run_one()) {
    }
  }
  bool is_idle() const {
    for (const auto& s : streams_) {
      if (!s->commands.empty()) return false;
    }
    return true;
  }
  // As CUDA: everything says so from now on; what was to be called is called.
  void fail() {
    has_failed = true;
    for (const auto& s : streams_) {
      std::deque<FakeStream::Command> commands = std::exchange(s->commands, {});
      for (const FakeStream::Command& c : commands) {
        if (c.is_call) c.work();
      }
    }
  }

  void* allocate(size_t bytes) override {
    if (blocks_left_ == 0) return nullptr;
    --blocks_left_;
    return std::malloc(bytes);
  }
  void free(void* block) noexcept override {
    run_all();  // as cudaFree, which waits for the device
    ++blocks_left_;
    std::free(block);
  }

  bool has_failed = false;

 private:
  std::mt19937_64 random_;
  size_t blocks_left_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
};

inline bool FakeEvent::is_done() {
  if (device.has_failed) throw DeviceError("[device] it has failed");
  return is_reached;
}
inline void FakeEvent::wait() {
  while (!is_done()) device.run_one();
}

}  // namespace kaon::test
