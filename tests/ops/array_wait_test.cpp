// Waiting for arrays: blocking, in Tasks, and in Asio programs by token, with cancellation.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

#include "kaon/asio.h"
#include "kaon/engine/task.h"
#include "kaon/ops/functions.h"

using namespace kaon;
namespace asio = boost::asio;

namespace {

// Keeps an array from being written until it is opened.
class Gate {
 public:
  // An array that becomes 3 once the gate is open.
  NDArray array() {
    NDArray x = NDArray::empty({2});
    auto node = x.ptr();
    x.engine().push({write(x.var())}, [this, node](RunContext&) {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [this] { return open_; });
      float* v = static_cast<float*>(node->data());
      v[0] = v[1] = 3;
    });
    return x;
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

NDArray failing() { return nd.random_normal({2}, {.scale = -1}); }

std::string text_of(std::exception_ptr e) {
  if (!e) return "";
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  }
}

Task<float> sum_of(NDArray x) {
  NDArray y = co_await (x * 2);
  const std::vector<float> all = co_await y.host<float>();
  const float total = co_await y.sum().item<float>();
  co_return total + all[0];
}

Task<void> fail_at(NDArray x) { co_await x; }

asio::awaitable<float> in_asio(NDArray x) {
  co_await x.async_wait(asio::use_awaitable);
  co_return x.asvector<float>()[0];
}

}  // namespace

TEST_CASE("waiting: wait_to_read, wait_to_write and waitall", "[wait]") {
  NDArray x = nd.ones({1000});
  for (int i = 0; i < 100; ++i) x += 1;
  x.wait_to_read();
  x.wait_to_write();
  CHECK(x.asvector<float>().back() == 101);
  const NDArray y = x * 2;
  nd.waitall();
  CHECK(y.asvector<float>()[0] == 202);
  const NDArray bad = failing();
  CHECK_THROWS_AS(nd.waitall(), AggregateError);
  CHECK_NOTHROW(nd.waitall());                      // reported once
  CHECK_THROWS_AS(bad.wait_to_read(), ValueError);  // but the array stays failed
  NDArray healed = failing();
  healed.assign(1);  // a full overwrite
  CHECK(healed.asvector<float>() == std::vector<float>{1, 1});
  CHECK_THROWS_AS(nd.waitall(), AggregateError);
}

TEST_CASE("waiting: a Task awaits arrays, their values and one value", "[wait]") {
  CHECK(sync_wait(sum_of(nd.ones({3}))) == 8);
  CHECK_THROWS_AS(sync_wait(fail_at(failing())), ValueError);
  auto not_one = [](NDArray x) -> Task<float> { co_return co_await x.item<float>(); };
  CHECK_THROWS_AS(sync_wait(not_one(nd.ones({2}))), ShapeError);
  nd.waitall();
}

TEST_CASE("waiting: a later write waits until a coroutine has its values", "[wait]") {
  auto read = [](NDArray x) -> Task<float> {
    auto pending = x.host<float>();
    const std::vector<float> v = co_await pending;
    co_return v[0];
  };
  NDArray x = nd.ones({1000});
  auto task = read(x);
  CHECK(sync_wait(std::move(task)) == 1);
  x += 1;
  CHECK(x.asvector<float>()[0] == 2);
}

TEST_CASE("waiting: Asio coroutines resume when the array is written", "[wait]") {
  asio::io_context context;
  Gate gate;
  float got = 0;
  int turns = 0;
  asio::co_spawn(context, in_asio(gate.array()), [&](std::exception_ptr e, float v) {
    CHECK(text_of(e) == "");
    got = v;
  });
  asio::steady_timer timer(context, std::chrono::milliseconds(5));
  timer.async_wait([&](auto) {  // the context is free while the array is not ready
    ++turns;
    CHECK(got == 0);
    gate.open();
  });
  context.run();
  CHECK(turns == 1);
  CHECK(got == 3);
}

TEST_CASE("waiting: a callback runs on its executor, never inside the call", "[wait]") {
  asio::io_context context;
  std::thread::id where;
  bool called = false;
  const NDArray x = nd.ones({2});
  x.wait_to_read();
  x.async_wait(asio::bind_executor(context, [&](std::exception_ptr e) {
    CHECK(text_of(e) == "");
    where = std::this_thread::get_id();
    called = true;
  }));
  CHECK_FALSE(called);
  context.run();
  CHECK(called);
  CHECK(where == std::this_thread::get_id());
  auto future = (x + 1).async_wait(asio::use_future);
  CHECK_NOTHROW(future.get());
}

TEST_CASE("waiting: Asio sees the failure of an array", "[wait]") {
  asio::io_context context;
  std::string text;
  failing().async_wait(asio::bind_executor(context, [&](std::exception_ptr e) { text = text_of(e); }));
  context.run();
  CHECK_THAT(text, Catch::Matchers::Contains("[_random_normal] scale must not be negative"));
  CHECK_THROWS_AS(failing().async_wait(asio::use_future).get(), ValueError);
  nd.waitall();
}

TEST_CASE("waiting: a cancelled wait ends at once, and the array is written all the same", "[wait]") {
  asio::io_context context;
  asio::cancellation_signal signal;
  Gate gate;
  const NDArray x = gate.array();
  std::string text;
  int calls = 0;
  x.async_wait(asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(context, [&](std::exception_ptr e) {
                                              ++calls;
                                              text = text_of(e);
                                            })));
  signal.emit(asio::cancellation_type::terminal);
  context.run();
  CHECK(calls == 1);
  CHECK_THAT(text, Catch::Matchers::Contains("cancel"));
  gate.open();
  CHECK(x.asvector<float>()[1] == 3);
  signal.emit(asio::cancellation_type::terminal);  // after the end: nothing happens
  context.restart();
  context.run();
  CHECK(calls == 1);
}

TEST_CASE("waiting: cancellation and completion at once call the handler once", "[wait]") {
  for (int round = 0; round < 200; ++round) {
    asio::io_context context;
    asio::cancellation_signal signal;
    int calls = 0;
    const NDArray x = nd.random_normal({2001});
    x.async_wait(asio::bind_cancellation_slot(signal.slot(),
                                              asio::bind_executor(context, [&](std::exception_ptr) { ++calls; })));
    signal.emit(asio::cancellation_type::terminal);
    context.run();
    CHECK(calls == 1);
  }
}
