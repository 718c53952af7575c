// Asio programs in which any allocation may fail, Asio's own among them.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <exception>
#include <vector>

#include "harness.h"
#include "kaon/asio.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace asio_test {

using namespace kaon;
using namespace kaon::test;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// A loop and the first failure of what runs in it.
struct Loop {
  asio::io_context io{1};
  std::exception_ptr failure{};

  void note(std::exception_ptr e) {
    if (e && !failure) failure = e;
  }
  // Until nothing is pending. What a handler throws leaves run(), which goes on with the next one; so does what Asio
  // throws when it cannot begin an operation of a coroutine, which it then drops without a word to anybody else.
  template <class F>
  void run(F&& after_failure) {
    for (;;) {
      try {
        io.run();
        break;
      } catch (...) {
        note(std::current_exception());
        after_failure();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }
  void run() {
    run([] {});
  }
};

nn::HybridSequential small_net() {
  nn::HybridSequential net(nn::Dense(6, {.activation = "relu", .in_units = 5}), nn::Dense(3, {.in_units = 6}));
  net.initialize(init::One());
  net.hybridize();
  return net;
}

// Waits by callbacks: for room, then for an array, then for the next.
Results callbacks() {
  Loop loop;
  Results all;
  NDArray x;
  const auto on_loop = [&](auto f) {
    return asio::bind_executor(loop.io.get_executor(), [&loop, f](std::exception_ptr e) {
      loop.note(e);
      if (!e) f();
    });
  };
  const auto second = [&] { all.push_back(x.sum().asscalar<float>()); };
  const auto first = [&] {
    all = x.asvector<float>();
    x = x * 2;
    x.async_wait(on_loop(second));
  };
  const auto begin = [&] {
    x = nd.dot(numbers({4, 4}), numbers({4, 4}));
    x.async_wait(on_loop(first));
  };
  try {
    Engine::current().async_admit(on_loop(begin));
  } catch (...) {
    loop.note(std::current_exception());
  }
  loop.run();
  return all;
}

asio::awaitable<void> predict(nn::HybridSequential net, float value, Results& to) {
  const std::vector<float> sample(5, value);
  co_await Engine::current().async_admit(asio::use_awaitable);
  NDArray y = net(nd.array(sample, {1, 5}));
  co_await y.async_wait(asio::use_awaitable);
  to = y.asvector<float>();
}

// Coroutines side by side.
Results coroutines() {
  Loop loop;
  nn::HybridSequential net = small_net();
  Results parts[3];
  try {
    for (int i = 0; i < 3; ++i) {
      asio::co_spawn(loop.io, predict(net, float(i + 1), parts[i]), [&](std::exception_ptr e) { loop.note(e); });
    }
  } catch (...) {
    loop.note(std::current_exception());
  }
  loop.run();
  Results all;
  for (const Results& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A Task of Kaon in the loop.
Results task_in_a_loop() {
  Loop loop;
  Results all;
  AsioAdapter executor(loop.io.get_executor());
  auto add = [](Results& to, Loop& loop) -> Task<void> {
    try {
      NDArray x = co_await (nd.ones({3}) * 2);
      to = co_await x.host<float>();
      co_await yield();
      to.push_back(co_await x.sum().item<float>());
    } catch (...) {
      loop.note(std::current_exception());
    }
  };
  try {
    spawn(add(all, loop), executor);
  } catch (...) {
    loop.note(std::current_exception());
  }
  loop.run();
  return all;
}

asio::awaitable<void> serve(tcp::acceptor& acceptor, nn::HybridSequential net) {
  tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
  for (int i = 0; i < 2; ++i) {
    std::vector<float> sample(5);
    co_await asio::async_read(socket, asio::buffer(sample), asio::use_awaitable);
    co_await Engine::current().async_admit(asio::use_awaitable);
    NDArray y = net(nd.array(sample, {1, 5}));
    co_await y.async_wait(asio::use_awaitable);
    const std::vector<float> answer = y.asvector<float>();
    co_await asio::async_write(socket, asio::buffer(answer), asio::use_awaitable);
  }
}

asio::awaitable<void> ask(tcp::endpoint server, Results& to) {
  tcp::socket socket(co_await asio::this_coro::executor);
  co_await socket.async_connect(server, asio::use_awaitable);
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> sample(5, float(i + 1));
    co_await asio::async_write(socket, asio::buffer(sample), asio::use_awaitable);
    std::vector<float> answer(3);
    co_await asio::async_read(socket, asio::buffer(answer), asio::use_awaitable);
    to.insert(to.end(), answer.begin(), answer.end());
  }
}

// A server and its client in one loop; whichever fails first ends the other.
Results loopback_server() {
  Loop loop;
  nn::HybridSequential net = small_net();
  Results all;
  tcp::acceptor acceptor(loop.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const auto stop = [&] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
  };
  const auto end = [&](std::exception_ptr e) {
    loop.note(e);
    if (e) stop();
  };
  try {
    asio::co_spawn(loop.io, serve(acceptor, net), end);
    asio::co_spawn(loop.io, ask(acceptor.local_endpoint(), all), end);
  } catch (...) {
    end(std::current_exception());
  }
  loop.run(stop);
  return all;
}

struct Program {
  const char* name;
  Results (*run)();
  // Where one allocation fails, Asio drops such a coroutine from a destructor that allocates again: a second failure
  // ends the process.
  bool has_coroutines_of_asio = false;
};
constexpr Program programs[] = {{"callbacks", callbacks},
                                {"coroutines of Asio", coroutines, true},
                                {"a Task in a loop", task_in_a_loop},
                                {"a server on loopback", loopback_server, true}};

void check(int threads, int most) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  for (const Program& p : programs) {
    std::vector<Lack> lacks{Lack::one};
    // workers wait until there is memory to call a handler, and this program has none before it ends
    if (threads == 0 && !p.has_coroutines_of_asio) lacks.push_back(Lack::from_then_on);
    DYNAMIC_SECTION(p.name) { survives(p.name, p.run, {.most = most, .lacks = lacks}); }
  }
}

}  // namespace

TEST_CASE("faults: Asio programs bear that an allocation fails", "[faults]") {
  const int threads = GENERATE(0, 2);
  check(threads, 30);
}
TEST_CASE("faults: Asio programs bear that any allocation fails", "[faults][slow]") {
  const int threads = GENERATE(0, 2);
  check(threads, 0);
}

}  // namespace asio_test
