// Waiting for arrays: blocking, in Tasks, and in Asio programs by token, with cancellation.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "kaon/asio.h"
#include "kaon/engine/generator.h"
#include "kaon/engine/storage.h"
#include "kaon/engine/task.h"
#include "kaon/engine/when.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace array_wait_test {

using namespace kaon;
using namespace kaon::ops;
namespace asio = boost::asio;

namespace {

// Keeps arrays from being written until it is opened. The operations share its state: the last of them may still run
// when a test has seen what it waited for and ends.
class Gate {
 public:
  // An array that becomes 3 once the gate is open.
  NDArray array() {
    NDArray x = NDArray::empty({2});
    auto node = x.ptr();
    x.engine().push({write(x.var())}, [state = state_, node](RunContext&) {
      std::unique_lock lock(state->mutex);
      state->opened.wait(lock, [&] { return state->open; });
      float* v = static_cast<float*>(node->data());
      v[0] = v[1] = 3;
    });
    return x;
  }
  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->opened.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
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

TEST_CASE("waiting: wait_to_read, wait_to_write and waitall", "[wait][async]") {
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

TEST_CASE("waiting: a Task awaits arrays, their values and one value", "[wait][async]") {
  CHECK(sync_wait(sum_of(nd.ones({3}))) == 8);
  CHECK_THROWS_AS(sync_wait(fail_at(failing())), ValueError);
  auto not_one = [](NDArray x) -> Task<float> { co_return co_await x.item<float>(); };
  CHECK_THROWS_AS(sync_wait(not_one(nd.ones({2}))), ShapeError);
  nd.waitall();
}

namespace {

// Goes along by value wherever a coroutine takes arguments; counts how many there are.
struct Counted {
  static inline std::atomic<int> live{0};
  Counted() { ++live; }
  Counted(const Counted&) { ++live; }
  ~Counted() { --live; }
};
Task<int> later(Counted, NDArray x, bool sleeps) {
  if (sleeps) co_await sleep_for(std::chrono::microseconds(100));
  co_await x;
  co_return 1;
}
AsyncGenerator<NDArray> halves(Counted, NDArray x) {
  for (int64_t i = 0; i < 2; ++i) {
    NDArray half = x[i];
    co_yield half;
  }
}
asio::awaitable<void> in_asio_counted(Counted, NDArray x) {
  co_await x.async_wait(asio::use_awaitable);
  co_await x.reshape({6}).async_wait(asio::use_awaitable);
  co_await x.engine().async_admit(asio::use_awaitable);
}

// Every form that a program may await, each once.
Task<int> await_all_forms(Counted counted, NDArray x) {
  int n = 0;
  co_await x;
  co_await (x * 2);
  co_await x.reshape({2, 3});
  n += int((co_await x.reshape({2, 3}).host<float>()).size());
  n += int(co_await x.sum().item<float>());
  n += int(co_await nd.ones({2, 3}).sum().item<float>());
  const std::vector<float> all = co_await x.slice(0, 1).host<float>();
  n += int(all.size());
  n += co_await later(counted, x, false);
  n += co_await later(Counted(), x * 2, true);
  Task<int> named = later(counted, x, true);
  n += co_await named;
  const auto both = co_await when_all(later(counted, x, false), later(Counted(), x + 1, true));
  n += std::get<0>(both) + std::get<1>(both);
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(later(counted, x, i % 2 == 0));
  n += int((co_await when_all(std::move(tasks))).size());
  std::vector<Task<int>> racing;
  for (int i = 0; i < 3; ++i) racing.push_back(later(counted, x, i != 1));
  n += (co_await when_any(std::move(racing))).second;
  auto values = halves(counted, x);
  while (auto half = co_await values.next()) n += int(half->size());
  co_await x.engine().admit();
  co_await sleep_for(std::chrono::microseconds(10));
  co_await x.engine().idle();
  co_return n;
}

}  // namespace

TEST_CASE("users row 51: whatever form is awaited, all that goes along is destroyed once", "[wait][async]") {
  const size_t before = Storage::cpu().stats().live;
  {
    NDArray x = nd.ones({2, 3});
    nd.waitall();
    for (int round = 0; round < 20; ++round) {
      CHECK(sync_wait(await_all_forms(Counted(), x)) == 6 + 6 + 6 + 3 + 1 + 1 + 1 + 2 + 3 + 1 + 6);
      asio::io_context io;
      asio::co_spawn(io, in_asio_counted(Counted(), x), asio::detached);
      io.run();
    }
    nd.waitall();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((Counted::live > 0 || x.ptr()->use_count() > 1) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // losers of when_any
    }
    CHECK(Counted::live == 0);
    CHECK(x.ptr()->use_count() == 1);
    CHECK(x.asvector<float>() == std::vector<float>(6, 1));
  }
  CHECK(Storage::cpu().stats().live == before);
}

TEST_CASE("users row 15: memory that a pending operation still reads is not given to others", "[wait][async]") {
  Engine engine({.threads = 1}), other({.threads = 1});
  EngineScope scope(engine);
  constexpr int64_t n = 1 << 16;
  Gate gate;
  NDArray sum;
  {
    const NDArray x = nd.full({n}, 5);
    x.wait_to_read();
    NDArray late = gate.array();
    sum = nd.broadcast_add(x.slice(n - 2, n), late);
  }
  for (int i = 0; i < 1000; ++i) {
    EngineScope inner(other);
    nd.full({n}, 7).wait_to_read();
  }
  gate.open();
  CHECK(sum.asvector<float>() == std::vector<float>{8, 8});
}

TEST_CASE("waiting: a later write waits until a coroutine has its values", "[wait][async]") {
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

TEST_CASE("waiting: Asio coroutines resume when the array is written", "[wait][async]") {
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

TEST_CASE("waiting: a callback runs on its executor, never inside the call", "[wait][async]") {
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

TEST_CASE("waiting: Asio sees the failure of an array", "[wait][async]") {
  asio::io_context context;
  std::string text;
  failing().async_wait(asio::bind_executor(context, [&](std::exception_ptr e) { text = text_of(e); }));
  context.run();
  CHECK_THAT(text, Catch::Matchers::Contains("[_random_normal] scale must not be negative"));
  CHECK_THROWS_AS(failing().async_wait(asio::use_future).get(), ValueError);
  nd.waitall();
}

TEST_CASE("waiting: a cancelled wait ends at once, and the array is written all the same", "[wait][async]") {
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

TEST_CASE("waiting: cancellation and completion at once call the handler once", "[wait][async]") {
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

namespace {

// A wait that is told on `context` and given up by a signal.
struct Told {
  asio::cancellation_signal signal;
  int calls = 0;
  std::string text;
  auto on(asio::io_context& context) {
    return asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(context, [this](std::exception_ptr e) {
                                          ++calls;
                                          text = text_of(e);
                                        }));
  }
};

// Runs what is ready until `condition`, for five seconds at most.
template <class F>
bool run_until(asio::io_context& context, F&& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    context.restart();
    if (context.poll() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A push inside a Task never waits, at no limit.
Task<std::vector<NDArray>> arrays_past_limit(Gate& gate) {
  std::vector<NDArray> arrays(20);
  for (NDArray& x : arrays) x = gate.array();
  co_return arrays;
}

}  // namespace

TEST_CASE("waiting: async_admit asks for room under the limit of operations, in the order of asking", "[wait][async]") {
  Engine engine({.threads = 1, .max_in_flight = 8});
  const EngineScope scope(engine);
  asio::io_context context;
  Gate gate;
  Told first;
  engine.async_admit(first.on(context));
  context.run();  // there is room
  CHECK(first.calls == 1);
  CHECK(first.text == "");

  const std::vector<NDArray> pending = sync_wait(arrays_past_limit(gate));
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    engine.async_admit(asio::bind_executor(context, [&order, i](std::exception_ptr e) {
      CHECK(text_of(e) == "");
      order.push_back(i);
    }));
  }
  auto future = engine.async_admit(asio::use_future);
  context.restart();
  CHECK(context.poll() == 0);
  CHECK(future.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout);
  gate.open();
  context.run();  // ends by itself: nobody asks any more
  CHECK(order == std::vector{0, 1, 2, 3, 4});
  CHECK_NOTHROW(future.get());
}

TEST_CASE("waiting: async_admit asks for room under the budgets of the caller", "[wait][async]") {
  Engine engine({.threads = 2});
  const EngineScope scope(engine);
  asio::io_context context;
  Gate first, second;
  const NDArray ends_first = first.array(), ends_second = second.array();
  Told inside, outside;
  NDArray large;
  {
    const EngineScope budget = scope.with_budget(1000);
    large = NDArray::empty({500});  // counts before it has memory
    CHECK(budget.used_bytes() == 2000);
    engine.async_admit(inside.on(context));
  }
  engine.async_admit(outside.on(context));
  CHECK(run_until(context, [&] { return outside.calls == 1; }));
  CHECK(inside.calls == 0);
  large = NDArray();
  first.open();  // who asks is told at the end of an operation
  CHECK(run_until(context, [&] { return inside.calls == 1; }));
  CHECK(inside.text == "");
  CHECK(run_until(context, [&] { return engine.stats().completed == 1; }));

  {  // with nothing pending waiting would change nothing
    const EngineScope budget = scope.with_budget(1000);
    large = NDArray::empty({500});
    Told goes_on;
    engine.async_admit(goes_on.on(context));
    second.open();
    CHECK(run_until(context, [&] { return goes_on.calls == 1; }));
    CHECK(engine.stats().completed == 2);
  }
}

TEST_CASE("waiting: a cancelled async_admit ends at once and takes nobody's place", "[wait][async]") {
  Engine engine({.threads = 1, .max_in_flight = 8});
  const EngineScope scope(engine);
  asio::io_context context;
  Gate gate;
  const std::vector<NDArray> pending = sync_wait(arrays_past_limit(gate));
  Told given_up, patient;
  engine.async_admit(given_up.on(context));
  engine.async_admit(patient.on(context));
  given_up.signal.emit(asio::cancellation_type::terminal);
  CHECK(run_until(context, [&] { return given_up.calls == 1; }));
  CHECK_THAT(given_up.text, Catch::Matchers::Contains("cancel"));
  CHECK(patient.calls == 0);
  gate.open();
  context.restart();
  context.run();
  CHECK(patient.calls == 1);
  CHECK(patient.text == "");
  CHECK(given_up.calls == 1);
  given_up.signal.emit(asio::cancellation_type::terminal);  // after the end: nothing happens
  engine.wait_all();
}

namespace {

// What the coroutines of one thread have in common.
struct Loop {
  asio::io_context context{1};
  std::thread::id thread = std::this_thread::get_id();
  int left = 0;  // that have not ended
  int resumes = 0, elsewhere = 0, wrong = 0, ticks = 0;
  asio::steady_timer timer{context};

  void resumed() {
    ++resumes;
    elsewhere += std::this_thread::get_id() != thread;
  }
};

asio::awaitable<void> infer(Loop& loop, NDArray weight, int k, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    co_await Engine::current().async_admit(asio::use_awaitable);
    loop.resumed();
    NDArray y = nd.sum(nd.relu(nd.dot(nd.full(Shape(4, 32), double(k)), weight)));
    co_await y.async_wait(asio::use_awaitable);
    loop.resumed();
    loop.wrong += y.asscalar<float>() != float(4 * 32 * 32 * k);
  }
  if (--loop.left == 0) loop.timer.cancel();
}

asio::awaitable<void> tick(Loop& loop) {
  boost::system::error_code cancelled;
  for (auto at = std::chrono::steady_clock::now(); loop.left > 0;) {
    at += std::chrono::milliseconds(1);
    loop.timer.expires_at(at);
    co_await loop.timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    loop.resumed();
    ++loop.ticks;
  }
}

}  // namespace

TEST_CASE("users row 47: a hundred inferences and a timer on one thread, which ends when the work is done",
          "[wait][async]") {
  for (int threads : {1, 2}) {
    INFO("engine with " << threads << " threads");
    Engine engine({.threads = threads});
    const EngineScope scope(engine);
    Loop loop;
    const NDArray weight = nd.ones({32, 32});
    Gate gate;
    constexpr int requests = 100, rounds = 5;
    loop.left = requests;
    const NDArray held = gate.array();  // a worker is taken, then free
    for (int k = 0; k < requests; ++k) asio::co_spawn(loop.context, infer(loop, weight, k, rounds), asio::detached);
    asio::co_spawn(loop.context, tick(loop), asio::detached);
    CHECK(run_until(loop.context, [&] { return loop.ticks >= 5 || loop.left == 0; }));
    if (threads == 1) CHECK(loop.left == requests);  // nothing is ready yet
    gate.open();
    loop.context.restart();
    loop.context.run();
    CHECK(loop.left == 0);
    CHECK(loop.wrong == 0);
    CHECK(loop.elsewhere == 0);
    CHECK(loop.resumes == requests * rounds * 2 + loop.ticks);
  }
}

namespace {

asio::awaitable<void> wait_for(NDArray y, std::string& text) {
  try {
    co_await y.async_wait(asio::use_awaitable);
    text = "ready";
  } catch (const std::exception& e) {
    text = e.what();
  }
}
Task<void> await(NDArray y, std::string& text) {
  try {
    co_await y;
    text = "ready";
  } catch (const Cancelled& e) {
    text = e.what();
  }
}

}  // namespace

TEST_CASE("users row 48: what a cancelled request has queued never runs, and its coroutines end before",
          "[wait][async]") {
  Engine engine({.threads = 1});
  const EngineScope scope(engine);
  nd.waitall();
  const size_t base = Storage::cpu().stats().live;
  {
    asio::io_context context;
    AsioAdapter executor(context.get_executor());
    Gate gate;
    std::stop_source stop;
    asio::cancellation_signal signal;
    std::atomic<int> begun{0};
    std::string waited, awaited, unaware, other;
    size_t used = 0;
    const NDArray head = gate.array();  // holds the only worker
    // one operation that counts itself, then others behind it
    auto request = [&] {
      NDArray x = head + 1;
      engine.push({update(x.var())}, [&begun](RunContext&) { ++begun; });
      return nd.dot(nd.broadcast_add(nd.zeros({300, 2}), x), nd.ones({2, 300}));
    };
    {
      const EngineScope mine = scope.with_budget(0, stop.get_token());
      const NDArray y = request();
      used = mine.used_bytes();
      asio::co_spawn(context, wait_for(y, waited), asio::bind_cancellation_slot(signal.slot(), asio::detached));
      asio::co_spawn(context, wait_for(y, unaware), asio::detached);
      spawn(await(y, awaited), executor);
    }
    NDArray theirs = request();
    asio::co_spawn(context, wait_for(theirs, other), asio::detached);
    CHECK(used >= 300 * 300 * sizeof(float));
    context.poll();
    CHECK(waited + awaited + unaware + other == "");

    stop.request_stop();
    signal.emit(asio::cancellation_type::terminal);
    CHECK(run_until(context, [&] { return waited != "" && awaited != ""; }));  // with the worker still held
    CHECK_THAT(waited, Catch::Matchers::Contains("cancel"));
    CHECK_THAT(awaited, Catch::Matchers::Contains("stopped"));
    CHECK(begun == 0);
    CHECK(other == "");

    gate.open();
    context.restart();
    context.run();
    CHECK(other == "ready");
    CHECK(theirs.asvector<float>() == std::vector<float>(300 * 300, 8));
    CHECK_THAT(unaware, Catch::Matchers::Contains("stopped"));  // told when its turn had come
    CHECK_NOTHROW(nd.waitall());                                // what was dropped is no failure
    CHECK(begun == 1);                                          // theirs
  }
  CHECK(Storage::cpu().stats().live == base);
}

}  // namespace array_wait_test
