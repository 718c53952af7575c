// Steps of a training over ranks allocate nothing: malloc itself is counted. Returns 1 and prints who asks for memory
// where one does. What MPI's and oneDNN's libraries ask for is not counted, nor what the signs of life between ranks
// do.
#include "kaon/tests/support/counted_allocations.h"

#ifdef KAON_COUNTS_ALLOCATIONS

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "support.h"

using namespace kaon;
using namespace kaon::ranks_test;
namespace allocations = test::allocations;
namespace nn = gluon::nn;

namespace {

bool is_counted = false;  // after the first rounds

template <class F>
void with_count(F&& f) {
  allocations::counting = is_counted;
  f();
  allocations::counting = false;
}

bool on_all_ranks(bool mine) {
  return comm::mpi().all_reduce(nd.full({1}, mine), comm::Reduce::min).asscalar<float>() != 0;
}

// The same number of steps on each rank. Once more operations are pending at a time than ever before, pools grow by a
// page: what counts is that many rounds one after the other ask for nothing.
// counts_all: else what `step` makes with_count() of.
template <class Step>
bool is_steady(const std::string& what, bool counts_all, Step&& step) {
  constexpr int steps = 10, most_rounds = 15, enough = 5;
  const auto round = [&] {
    for (int i = 0; i < steps; ++i) {
      const NDArray loss = step();
      if (i % 3) loss.wait_to_read();
    }
    nd.waitall();
  };
  for (int i = 0; i < 3; ++i) round();
  allocations::ignore_libraries({"libmpi", "libopen-", "mca_", "libpmix", "libevent", "libdnnl"});
  const bool works = allocations::is_working();
  int rounds = 0, steady = 0;
  long seen = 0, all = 0;
  for (; rounds < most_rounds && !on_all_ranks(steady >= enough); ++rounds) {
    is_counted = true;
    allocations::counting = counts_all;
    round();
    is_counted = allocations::counting = false;
    const long now = allocations::count.exchange(0);
    if (now > 0) seen = std::min(now, long(std::size(allocations::askers)));
    all += now;
    steady = now == 0 ? steady + 1 : 0;
  }
  fmt::print("rank {}, {}: {} allocations in {} steps, none in the last {}\n", rank(), what, all, rounds * steps,
             steady * steps);
  std::fflush(stdout);
  if (steady < enough) {
    for (const allocations::Asker& asker : std::span(allocations::askers).first(size_t(seen))) {
      backtrace_symbols_fd(asker.frames + 2, std::min(asker.size - 2, 12), STDOUT_FILENO);
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  return works && steady >= enough;
}

nn::HybridSequential lenet() {
  return nn::HybridSequential(nn::Conv2D(6, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Conv2D(16, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Dense(120, {.activation = "relu"}), nn::Dense(84, {.activation = "relu"}),
                              nn::Dense(10));
}

bool is_steady(int threads, const char* name, const optimizer::Optimizer& rule, Mode mode,
               const gluon::TrainerOptions& options) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  auto net = lenet();
  net.initialize(init::Xavier());
  const NDArray x = numbers({4, 1, 28, 28}, rank() + 1), y = labels(4, rank());
  net(x).wait_to_read();
  if (mode == Mode::hybridized) net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::Trainer trainer(net.collect_params(), rule, options);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::TrainingStep training_step(net, loss, trainer);
  constexpr const char* modes[] = {"imperative", "hybridized", "training step"};
  return is_steady(
      fmt::format("{} threads, {}, {}", threads, name, modes[int(mode)]), mode == Mode::training_step, [&] {
        if (mode == Mode::training_step) return training_step(x, y);
        NDArray l;
        if (options.deterministic) {
          const NDArray inputs[] = {x, y};
          l = trainer.backward_by_shards(inputs, [&](std::span<const NDArray> in) { return loss(net(in[0]), in[1]); });
        } else {
          l = autograd::record([&] { return loss(net(x), y); });
          l.backward();
        }
        with_count([&] { trainer.step(4 * ranks()); });
        return l;
      });
}

}  // namespace

int main() {
  comm::mpi();
  allocations::ignoring_threads = true;  // what asks for memory while nothing is computed gives signs of life
  std::this_thread::sleep_for(std::chrono::seconds(3));
  allocations::ignoring_threads = false;
  bool all = true;
  for (const int threads : {1, 2}) {
    for (const Mode mode : {Mode::training_step, Mode::hybridized, Mode::imperative}) {
      const auto check = [&](const char* name, const optimizer::Optimizer& rule, gluon::TrainerOptions options = {}) {
        options.kvstore = "dist_sync";
        all = is_steady(threads, name, rule, mode, options) && all;
      };
      check("SGD", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
      check("Adam", optimizer::Adam({.learning_rate = 0.01}));
      check("clipped", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}), {.clip_global_norm = 1});
      check("bfloat16", optimizer::SGD({.learning_rate = 0.01}), {.compression_params = {.type = "bfloat16"}});
      check("2bit", optimizer::SGD({.learning_rate = 0.01}), {.compression_params = {.type = "2bit"}});
      check("shard_states", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}), {.shard_states = true});
      check("overlap_update", optimizer::Adam({.learning_rate = 0.01}), {.overlap_update = true});
      check("deterministic", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}),
            {.deterministic = true, .shards = 2 * ranks()});
    }
  }
  return all ? 0 : 1;
}

#else

#include <cstdio>

int main() { std::puts("malloc is not counted here"); }

#endif
