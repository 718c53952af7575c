// Devices: what they report late, and which there are.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "kaon/engine/device/backend.h"
#include "kaon/tests/engine/support.h"

namespace device_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// Launched operations end on a thread of its own, long after they have run; one of them with a fault.
class LateDevice {
 public:
  explicit LateDevice(Engine& engine) : engine_(engine), thread_([this] { work(); }) {}
  ~LateDevice() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void launch(OpNode& op, bool fails) {
    std::lock_guard lock(mutex_);
    launched_.emplace_back(&op, fails);
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !launched_.empty(); });
      if (launched_.empty()) return;
      auto [op, fails] = launched_.front();
      launched_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(1ms);
      engine_.complete(*op, fails ? std::make_exception_ptr(DeviceError("[device] illegal address")) : nullptr);
      lock.lock();
    }
  }
  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<OpNode*, bool>> launched_;
  bool ended_ = false;
  std::thread thread_;
};

struct Launch {
  LateDevice* device;
  bool fails;
};
constexpr OpType launch_type{
    .run =
        [](OpNode& op, RunContext&) {
          const Launch launch = OpBody<Launch>::get(op);
          launch.device->launch(op, launch.fails);
        },
    .destroy = OpBody<Launch>::destroy,
    .ends_later = true,
};

}  // namespace

TEST_CASE("users row 7: a fault that a device reports after the launch fails what was launched, and that alone",
          "[engine]") {
  at_thread_counts([](Engine& engine) {
    LateDevice device(engine);
    Var good, bad, heir, host;
    int line = 0, ran = 0;
    auto launch = [&](std::initializer_list<Access> accesses, bool fails) {
      line = __LINE__ + 1;
      const OpLabel label{.name = "kernel", .block_path = "body.fc1"};
      engine.push_as(launch_type, accesses, Launch{&device, fails}, {.label = label});
    };
    launch({write(good)}, false);
    launch({write(bad)}, true);
    launch({read(bad), write(heir)}, false);
    engine.push({write(host)}, [&](RunContext&) { ++ran; });
    engine.push({read(bad), read(host), write(heir)}, [&](RunContext&) { ++ran; });
    CHECK_NOTHROW(engine.wait(good));
    for (Var* v : {&bad, &heir, &bad}) {
      CHECK_THROWS_AS(engine.wait(*v), DeviceError);
      CHECK_THROWS_WITH(engine.wait(*v), Contains("illegal address") && Contains("[kernel] in body.fc1") &&
                                             Contains("device_test.cpp:" + std::to_string(line)));
    }
    CHECK_NOTHROW(engine.wait(host));
    CHECK(ran == 1);
    launch({write(bad)}, false);
    CHECK_NOTHROW(engine.wait(bad));
    CHECK_THROWS_AS(engine.wait(heir), DeviceError);
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 8: a device that does not exist is refused at the call, with how many there are", "[engine]") {
  CHECK_NOTHROW(check_device(cpu(3), "empty"));
  CHECK_THROWS_AS(check_device(gpu(99), "empty"), DeviceError);
  CHECK_THROWS_WITH(check_device(gpu(99), "empty"), Contains("[empty]") && Contains("gpu(99)") &&
                                                        Contains(std::to_string(gpu_count()) + " usable GPUs"));
}

TEST_CASE("device: an index is 0 to 255, and another one is told, not cut", "[engine]") {
  CHECK(cpu(255).index == 255);
  CHECK(gpu(255).str() == "gpu(255)");
  static_assert(cpu(1) != cpu(0) && gpu(3).index == 3);
  CHECK_THROWS_WITH(gpu(256), Contains("[gpu] expected an index of 0 to 255, got 256"));
  CHECK_THROWS_WITH(gpu(-1), Contains("got -1"));
  CHECK_THROWS_AS(cpu(-1), ValueError);
  CHECK_THROWS_AS(cpu(1 << 20), ValueError);
}

}  // namespace device_test
