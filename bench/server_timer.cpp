// Does inference disturb an event loop? An Asio program on one thread: a timer of 1 kHz alone, then beside a hundred
// inferences in flight, whose coroutines push, wait and read on the same thread. Prints how late the timer's handler
// is: median and 99th percentile of each run, medians over the runs, and how many inferences that was a second. Once
// with an engine that leaves a core to the loop, once with the default, which does not.
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "kaon/asio.h"
#include "kaon/bench/common.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/ops/functions.h"

using namespace kaon;
namespace asio = boost::asio;
namespace nn = kaon::gluon::nn;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int in_flight = 100;
constexpr std::chrono::seconds run_time{2};

struct Run {
  Clock::time_point end = Clock::now() + run_time;
  std::vector<double> lateness;  // microseconds
  uint64_t inferences = 0;
};

asio::awaitable<void> tick(Run& run) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (auto at = Clock::now(); at < run.end;) {
    at += std::chrono::milliseconds(1);
    timer.expires_at(at);
    co_await timer.async_wait(asio::use_awaitable);
    run.lateness.push_back(std::chrono::duration<double, std::micro>(Clock::now() - at).count());
  }
}

// One request after another, as a server's connection has them: bytes in, values out.
asio::awaitable<void> infer(Run& run, nn::HybridSequential net) {
  const std::vector<float> bytes(512, 0.5f);
  Engine& engine = Engine::current();
  while (Clock::now() < run.end) {
    co_await engine.async_admit(asio::use_awaitable);
    NDArray y = net(NDArray::from(bytes.data(), bytes.size(), Shape(1, 512)));
    co_await y.async_wait(asio::use_awaitable);
    const std::vector<float> values = y.asvector<float>();
    run.inferences += values.size() == 2;
  }
}

Run run(const nn::HybridSequential* net) {
  Run run;
  asio::io_context io(1);
  auto check = [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  };
  asio::co_spawn(io, tick(run), check);
  for (int i = 0; net && i < in_flight; ++i) asio::co_spawn(io, infer(run, *net), check);
  io.run();
  std::sort(run.lateness.begin(), run.lateness.end());
  return run;
}

double percentile(const Run& run, double share) {
  return run.lateness[size_t(share * double(run.lateness.size() - 1))];
}

void compare(int threads) {
  Engine engine({.threads = threads});
  const EngineScope scope(engine);
  nn::HybridSequential net(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}),
                           nn::Dense(2));
  net.initialize();
  net.hybridize({.static_alloc = true, .static_shape = true});
  net(nd.zeros({1, 512})).wait_to_read();

  std::vector<double> alone[2], loaded[2], rate;
  for (int round = 0; round < 5; ++round) {
    const Run a = run(nullptr), b = run(&net);
    for (int i : {0, 1}) {
      alone[i].push_back(percentile(a, i ? 0.99 : 0.5));
      loaded[i].push_back(percentile(b, i ? 0.99 : 0.5));
    }
    rate.push_back(double(b.inferences) / std::chrono::duration<double>(run_time).count());
  }
  const std::string suffix = fmt::format("_{}_threads", threads);
  for (int i : {0, 1}) {
    const std::string name = i ? "timer_lateness_p99" : "timer_lateness_p50";
    const bench::Result base = bench::summarize(alone[i]);
    bench::print(name + "_alone" + suffix, base, "us");
    bench::print(name + "_100_inferences" + suffix, bench::summarize(loaded[i]), "us", name + "_alone" + suffix, base);
  }
  bench::print("inferences" + suffix, bench::summarize(rate), "1/s");
}

}  // namespace

int main() {
  bench::print_machine();
  bench::print_ping_pong();
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  if (cores > 1) compare(cores - 1);
  compare(cores);
}
