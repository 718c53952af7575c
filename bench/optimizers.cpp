// How fast are the updates of optimizers? Trainer's operator on float32 weights of N elements, beside the time in which
// this machine copies as many bytes as the update reads and writes: 1 is the limit of its memory, the goal 0.8. One
// JSON line for each optimizer. bench/peers_optimizers runs PyTorch's beside it.
//   bench_optimizers [threads [elements]]
#include <cstdlib>

#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/ops/functions.h"

using namespace kaon;

namespace {

constexpr int rounds = 15;

struct Case {
  const char* name;
  optimizer::Optimizer optimizer;
  bool writes_states = true;
};

// Seconds for one of `calls`.
double update_seconds(const optimizer::Optimizer& optimizer, std::span<const NDArray* const> arrays, int calls) {
  return bench::seconds([&] {
           for (int i = 0; i < calls; ++i) {
             optimizer.rule().update(arrays, optimizer.step_options(1), std::source_location::current());
           }
           nd.waitall();
         }) /
         calls;
}

double copy_seconds(NDArray& to, const NDArray& from, int calls) {
  return bench::seconds([&] {
           for (int i = 0; i < calls; ++i) to.assign(from);
           nd.waitall();
         }) /
         calls;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : int(std::thread::hardware_concurrency());
  const int64_t n = argc > 2 ? std::atoll(argv[2]) : 1'000'000;
  if (n < 1 || threads < 0) {
    fmt::print(stderr, "usage: bench_optimizers [threads [elements]]\n");
    return 2;
  }
  bench::print_machine();
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  using namespace optimizer;
  const std::vector<Case> cases{{"sgd", SGD()},
                                {"sgd_momentum", SGD({.momentum = 0.9})},
                                {"nag", NAG({.momentum = 0.9})},
                                {"signum", Signum()},
                                {"lion", Lion()},
                                {"adam", Adam()},
                                {"adamw", AdamW()},
                                {"adabelief", AdaBelief()},
                                {"adamax", Adamax()},
                                {"nadam", Nadam()},
                                {"adagrad", AdaGrad()},
                                {"adadelta", AdaDelta()},
                                {"rmsprop", RMSProp()},
                                {"rmsprop_centered", RMSProp({.centered = true})},
                                {"ftrl", Ftrl()},
                                {"ftml", FTML()},
                                {"dcasgd", DCASGD({.momentum = 0.9})},
                                {"lars", LARS({.momentum = 0.9})},
                                {"lamb", LAMB()},
                                {"lbsgd", LBSGD({.momentum = 0.9})}};
  const int calls = int(std::max<int64_t>(3, 20'000'000 / n));
  for (const Case& c : cases) {
    const Rule& rule = c.optimizer.rule();
    std::vector<NDArray> arrays{nd.random_normal({n}), nd.random_normal({n}, {.scale = 0.01})};
    for (int k = 0; k < rule.num_states(); ++k) {
      const RuleState state = rule.state(k, {n}, DType::float32);
      arrays.push_back(nd.full(state.shape, 0.01, {.dtype = state.dtype}));
    }
    std::vector<double> numbers(size_t(rule.num_numbers()));
    rule.numbers({.name = "w", .lr = 1e-4, .wd = 0, .t = 100, .rate = 1e-4, .last_rate = 1e-4}, numbers);
    arrays.push_back(nd.array(numbers, {int64_t(numbers.size())}));
    std::vector<const NDArray*> pointers;
    int64_t states = 0;
    for (const NDArray& a : arrays) {
      pointers.push_back(&a);
      states += a.size();
    }
    states = (states - 2 * n) / n;
    const int64_t moved = 3 + 2 * states;  // arrays that are read or written: w twice, g once, each state twice
    const NDArray from = nd.random_normal({n * moved / 2});
    NDArray to = nd.zeros({n * moved / 2});
    nd.waitall();
    const auto results = bench::interleave(rounds, {[&] { return 1e6 * update_seconds(c.optimizer, pointers, calls); },
                                                    [&] { return 1e6 * copy_seconds(to, from, calls); }});
    fmt::print(
        "{{\"name\": \"{}\", \"elements\": {}, \"median\": {:.4g}, \"min\": {:.4g}, \"max\": {:.4g}, "
        "\"unit\": \"us\", \"copy\": {:.4g}, \"of_limit\": {:.3f}, \"goal\": 0.8}}\n",
        c.name, n, results[0].median, results[0].min, results[0].max, results[1].median,
        results[1].median / results[0].median);
  }
}
