// Kaon in an Asio program: one thread runs the event loop, the engine's threads compute, neither waits for the other.
// Prints two predictions, that a timer ticked on the same thread meanwhile, and that a request was given up in time.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join
#include <kaon/asio.h>
#include <kaon/kaon.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

using namespace kaon;
using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace nn = kaon::gluon::nn;

// A request: values in, values out.
asio::awaitable<std::vector<float>> predict(nn::HybridSequential net, std::vector<float> sample) {
  // until the engine has room, so that the push does not block
  co_await Engine::current().async_admit(asio::use_awaitable);
  NDArray y = net(nd.array(sample, {1, 512}));
  // resumes on this thread, or throws what an operator has thrown
  co_await y.async_wait(asio::use_awaitable);
  co_return y.asvector<float>();  // ready, so this does not wait
}

asio::awaitable<void> client(nn::HybridSequential net, float value) {
  const std::vector<float> sample(512, value);
  const std::vector<float> y = co_await predict(net, sample);
  fmt::print("prediction for {}: {}\n", value, fmt::join(y, " "));
}

// Work that is dropped once `stop` is requested, unless it has begun. A plain function: scopes belong to a thread, and
// a foreign coroutine must not hold one across a co_await.
NDArray slow_work(std::stop_token stop) {
  const EngineScope engine(Engine::current());
  const EngineScope scope = engine.with_budget(0, stop);
  NDArray x = nd.zeros({1});
  for (int i = 0; i < 50; ++i) {
    Engine::current().push({update(x.var())}, [x](RunContext&) { std::this_thread::sleep_for(10ms); });
  }
  return x;
}

asio::awaitable<void> impatient_client() {
  std::stop_source stop;
  auto give_up = std::make_shared<asio::cancellation_signal>();
  asio::steady_timer limit(co_await asio::this_coro::executor, 30ms);
  limit.async_wait([stop, give_up](boost::system::error_code in_time) mutable {
    if (in_time) return;
    stop.request_stop();                               // what is queued does not run
    give_up->emit(asio::cancellation_type::terminal);  // the wait ends now
  });
  NDArray y = slow_work(stop.get_token());
  try {
    co_await y.async_wait(asio::bind_cancellation_slot(give_up->slot(), asio::use_awaitable));
    fmt::print("the slow request: done\n");
  } catch (const boost::system::system_error& e) {
    fmt::print("the slow request: {}\n", e.code() == asio::error::operation_aborted ? "given up" : e.what());
  }
}

asio::awaitable<void> tick(int& ticks) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int i = 0; i < 10; ++i) {
    timer.expires_after(1ms);
    co_await timer.async_wait(asio::use_awaitable);
    ++ticks;
  }
}

int main() {
  nn::HybridSequential net(nn::Dense(256, {.activation = "relu"}), nn::Dense(2));
  net.initialize(init::One());
  net.hybridize({.static_alloc = true, .static_shape = true});
  net(nd.zeros({1, 512})).wait_to_read();  // traced and planned now: no request has to wait for that

  asio::io_context io(1);
  auto check = [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  };
  int ticks = 0;
  asio::co_spawn(io, client(net, 1), check);
  asio::co_spawn(io, client(net, 2), check);
  asio::co_spawn(io, impatient_client(), check);
  asio::co_spawn(io, tick(ticks), check);
  io.run();  // ends when nothing is pending: a wait for an array counts as work
  fmt::print("{} ticks\n", ticks);
}
