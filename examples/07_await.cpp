// Waiting without blocking a thread: co_await in Kaon's tasks, completion tokens in Asio's programs.
// Prints an array, a vector and a value that were awaited; the results of three tasks; the error of an operator, with
// the line that pushed it, as it arrives at a co_await; an array awaited in an Asio coroutine and by a callback; and a
// wait given up after 20 ms.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join
#include <kaon/asio.h>
#include <kaon/kaon.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

using namespace kaon;
using namespace std::chrono_literals;
namespace asio = boost::asio;

// A Task is lazy and resumes where its awaiter runs. Pushing inside one never blocks.
Task<float> mean_of_square(NDArray x) {
  NDArray y = nd.mean(nd.square(x));
  co_return co_await y.item<float>();
}

Task<void> awaits() {
  NDArray x = nd.arange(6).reshape({2, 3});
  NDArray ready = co_await (x + 1);  // the array, once it is computed
  fmt::print("array: {}\n", ready);
  const std::vector<float> values = co_await x.host<float>();
  fmt::print("vector: {}\n", fmt::join(values, " "));
  fmt::print("value: {}\n", co_await x.sum().item<float>());
  for (int scale : {1, 2, 3}) {
    const float mean = co_await mean_of_square(x * scale);
    fmt::print("mean square of {} x: {:.2f}\n", scale, mean);
  }

  // An operator that fails poisons what it writes; whoever waits for that is told.
  NDArray row = nd.take(x, nd.array({7}), {.mode = IndexMode::raise});
  NDArray after = row * 2;
  try {
    co_await after;
  } catch (const IndexError& e) {
    fmt::print("IndexError: {}\n", e.what());
  }
  co_await Engine::current().idle();  // all that was pushed, by anybody
}

// The same in a program that belongs to Asio. Its thread never blocks.
asio::awaitable<void> in_asio(NDArray x) {
  co_await x.async_wait(asio::use_awaitable);
  fmt::print("awaited in an Asio coroutine: {}\n", x.asscalar<float>());
}

void asio_program() {
  asio::io_context io;
  NDArray m = nd.random_normal({256, 256}, {.scale = 0.05});
  NDArray one = nd.norm(nd.dot(nd.dot(m, m), m)) * 0 + 1;
  asio::co_spawn(io, in_asio(one), asio::detached);
  auto told = [](std::exception_ptr error) { fmt::print("callback: {}\n", error ? "failed" : "ready"); };
  one.async_wait(asio::bind_executor(io, told));
  io.run();
}

// An operator that takes 200 ms, and a wait for it that is given up earlier. The operator itself runs to its end.
void cancelled_wait() {
  asio::io_context io;
  NDArray slow = nd.zeros({1});
  slow.wait_to_read();
  Engine::current().push({update(slow.var())}, [slow](RunContext&) { std::this_thread::sleep_for(200ms); });
  asio::cancellation_signal cancel;
  auto told = [](std::exception_ptr error) { fmt::print("the slow array: {}\n", error ? "given up" : "ready"); };
  slow.async_wait(asio::bind_cancellation_slot(cancel.slot(), asio::bind_executor(io, told)));
  asio::steady_timer timer(io, 20ms);
  timer.async_wait([&](boost::system::error_code) { cancel.emit(asio::cancellation_type::all); });
  io.run();
}

int main() {
  sync_wait(awaits());  // plain code enters here; `return run_main(awaits());` would be a whole main()
  asio_program();
  cancelled_wait();
  nd.waitall();
}
