// The trace of a training over ranks: sums that are in flight while the backward goes on.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "checks.h"
#include "kaon/tests/support/written_trace.h"

namespace trace_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;

namespace {

struct Span {
  std::string name;
  double begin = 0, end = 0;
  int64_t bytes = 0;
};
struct Trace {
  std::vector<Span> collectives, operators;  // by begin
};

Trace trace_of(const Profiler& profiler) {
  Trace trace;
  std::map<int64_t, size_t> begun;  // by id
  const boost::json::value json = test::written_trace(profiler);
  for (const auto& e : json.at("traceEvents").as_array()) {
    const auto& phase = e.at("ph").as_string();
    if (phase == "M") continue;
    const std::string name(e.at("name").as_string()), category(e.at("cat").as_string());
    const double at = e.at("ts").to_number<double>();
    if (phase == "X" && (category == "operator" || category == "plan")) {
      trace.operators.push_back({name, at, at + e.at("dur").to_number<double>()});
    } else if (phase == "b") {
      CHECK(category == "collective");
      CHECK(begun.emplace(e.at("id").as_int64(), trace.collectives.size()).second);
      trace.collectives.push_back({name, at, 0, e.at("args").at("bytes").as_int64()});
    } else if (phase == "e") {
      Span& span = trace.collectives.at(begun.at(e.at("id").as_int64()));
      CHECK(span.name == name);
      span.end = at;
    }
  }
  return trace;
}

bool is_backward_of_convolution(std::string_view name) { return name == "_backward_Convolution_weight"; }

int64_t bytes_of(const Parameter& p) { return (p.shape().size() * 4 + 63) / 64 * 64; }  // in a bucket

// Dense layers whose gradients fill the first bucket, behind two convolutions whose gradients are in the second. For
// each rank in turn the others begin a step only when it has computed the gradients of the convolutions: so its first
// sum cannot have ended, and that backward would wait for ever if it waited for the sum.
void check_overlap(nn::HybridSequential net, const Shape& data, size_t parameters_of_dense) {
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  const comm::Communicator signals = comm::mpi().split(0, rank());
  net.initialize(init::Xavier());
  const NDArray x = numbers(data, rank() + 1), y = labels(data[0], rank());
  net(x).wait_to_read();
  const auto parameters = net.collect_params();
  int64_t bytes = 0;
  for (size_t k = parameters.size() - parameters_of_dense; k < parameters.size(); ++k) bytes += bytes_of(parameters[k]);
  Trainer trainer(parameters, optimizer::SGD({.learning_rate = 0.01}), {.kvstore = "dist_sync"});
  const loss::SoftmaxCrossEntropyLoss loss;
  TrainingStep training_step(net, loss, trainer);
  // Nothing runs before all is pushed: else a sum could be pushed later than the operation after it has run.
  const auto step = [&] {
    std::atomic<bool> is_pushed{false};
    engine.push({update(x.var())}, [&](RunContext&) { is_pushed.wait(false); });
    const NDArray l = training_step(x, y);
    is_pushed = true;
    is_pushed.notify_all();
    l.wait_to_read();
  };
  training_step(x, y);  // which also compares the ranks, and waits for that
  nd.waitall();
  Profiler& profiler = engine.profiler();
  for (int early = 0; early < ranks(); ++early) {
    CAPTURE(early);
    profiler.start();
    if (rank() == early) step();
    const auto has_gradients = [&] {
      const auto events = profiler.events();
      return std::count_if(events.begin(), events.end(), [](const auto& e) {
               return is_backward_of_convolution(e.name) && e.end > e.begin + 1;
             }) >= 2;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (rank() == early && !has_gradients() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    signals.barrier().wait_to_read();
    if (rank() != early) step();
    nd.waitall();
    profiler.stop();

    const Trace trace = trace_of(profiler);
    std::vector<Span> sums;
    for (const Span& c : trace.collectives) {
      CHECK(c.end > c.begin);
      if (c.name == "all_reduce") sums.push_back(c);
    }
    REQUIRE(sums.size() == 3);  // of the dense layers, and of each convolution
    CHECK(sums[0].bytes == bytes);
    CHECK(sums[1].bytes > 1 << 20);
    CHECK(sums[0].end <= sums[1].end);
    if (rank() != early) continue;
    int beside = 0;
    for (const Span& o : trace.operators) {
      if (!is_backward_of_convolution(o.name)) continue;
      ++beside;
      CHECK(o.begin >= sums[0].begin);
      CHECK(o.end <= sums[0].end);
    }
    CHECK(beside == 2);
  }
  check_same_on_ranks(parameters);
}

}  // namespace

TEST_CASE("comm trace: the last layers' gradients are added up while the first layers' are computed") {
  if (ranks() == 1) return;
  const nn::ConvOptions convolution{.kernel_size = 3, .activation = "relu", .use_bias = false};
  // A sum that the communicator's thread runs.
  check_overlap(nn::HybridSequential(nn::Conv2D(192, convolution), nn::Conv2D(192, convolution),
                                     nn::Dense(300, {.activation = "relu"}), nn::Dense(4)),
                {2, 3, 6, 6}, 4);
  // One that is begun on the engine's thread, and handed over since the other ranks are late.
  check_overlap(nn::HybridSequential(nn::Conv2D(192, convolution), nn::Conv2D(192, convolution), nn::Dense(4)),
                {2, 3, 6, 6}, 2);
}

}  // namespace trace_test
