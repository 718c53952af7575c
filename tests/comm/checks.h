// Comparing a training over ranks with one of one process.
#pragma once

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "support.h"

namespace kaon::ranks_test {

template <class A, class B>
void copy_parameters(const A& from, const B& to) {
  const auto a = from.collect_params(), b = to.collect_params();
  for (size_t i = 0; i < a.size(); ++i) b[i].set_data(a[i].data());
}

// Every rank has the very same bits.
inline void check_same_on_ranks(const gluon::ParameterDict& parameters) {
  for (const gluon::Parameter& p : parameters) {
    CAPTURE(p.name());
    const NDArray mine = p.data();
    CHECK(nd.array_equal(comm::mpi().all_reduce(mine, comm::Reduce::max), mine).asscalar<bool>());
  }
}

template <class A, class B>
void check_same(const A& a, const B& b, double tolerance) {
  const auto p = a.collect_params(), q = b.collect_params();
  for (size_t i = 0; i < p.size(); ++i) {
    CAPTURE(p[i].name());
    const auto x = p[i].data().template asvector<double>(), y = q[i].data().template asvector<double>();
    for (size_t k = 0; k < x.size(); ++k) REQUIRE(x[k] == Approx(y[k]).epsilon(tolerance).margin(tolerance));
  }
  check_same_on_ranks(p);
}

// Steps over ranks beside as many of one process with the whole batch.
inline void check_training(const optimizer::Optimizer& rule, Mode mode, const gluon::TrainerOptions& options = {},
                           double tolerance = 2e-4) {
  const int64_t all = 8 * ranks();
  gluon::nn::HybridSequential net = mlp(), alone = mlp();
  random::seed(uint64_t(100 + rank()));  // other values on each rank, of which rank 0's count
  net.initialize();
  alone.initialize();
  if (mode == Mode::hybridized) net.hybridize();
  gluon::TrainerOptions over_ranks = options;
  over_ranks.kvstore = "dist_device_sync";
  gluon::Trainer trainer(net.collect_params(), rule, over_ranks),
      reference(alone.collect_params(), rule, {.clip_global_norm = options.clip_global_norm});
  copy_parameters(net, alone);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::TrainingStep training_step(net, loss, trainer);
  for (int step = 0; step < 5; ++step) {
    const NDArray x = numbers({all, 10}, step + 1), y = labels(all, step);
    if (mode == Mode::training_step) {
      const NDArray l = training_step(part(x), part(y));
      CHECK(l.shape() == Shape(8));
    } else if (options.deterministic) {
      const NDArray parts[] = {part(x), part(y)};
      trainer.backward_by_shards(parts, [&](std::span<const NDArray> in) { return loss(net(in[0]), in[1]); });
      trainer.step(all);
    } else {
      autograd::record([&] { return loss(net(part(x)), part(y)); }).backward();
      trainer.step(all);
    }
    autograd::record([&] { return loss(alone(x), y); }).backward();
    reference.step(all);
  }
  CHECK(trainer.steps() == 5);
  check_same(net, alone, tolerance);
}

inline std::vector<std::pair<const char*, optimizer::Optimizer>> all_optimizers() {
  return {
      {"SGD", optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9, .wd = 0.01})},
      {"NAG", optimizer::NAG({.learning_rate = 0.1, .momentum = 0.9})},
      {"Signum", optimizer::Signum({.learning_rate = 0.01})},
      {"Lion", optimizer::Lion({.learning_rate = 0.01})},
      {"Adam", optimizer::Adam({.learning_rate = 0.01})},
      {"AdamW", optimizer::AdamW({.learning_rate = 0.01, .wd = 0.01})},
      {"AdaBelief", optimizer::AdaBelief({.learning_rate = 0.01})},
      {"Adamax", optimizer::Adamax({.learning_rate = 0.01})},
      {"Nadam", optimizer::Nadam({.learning_rate = 0.01})},
      {"AdaGrad", optimizer::AdaGrad({.learning_rate = 0.05})},
      {"GroupAdaGrad", optimizer::GroupAdaGrad({.learning_rate = 0.05})},
      {"AdaDelta", optimizer::AdaDelta()},
      {"RMSProp", optimizer::RMSProp({.learning_rate = 0.01})},
      {"Ftrl", optimizer::Ftrl({.learning_rate = 0.05})},
      {"FTML", optimizer::FTML({.learning_rate = 0.01})},
      {"DCASGD", optimizer::DCASGD({.learning_rate = 0.05})},
      {"LARS", optimizer::LARS({.learning_rate = 0.1})},
      {"LBSGD", optimizer::LBSGD({.learning_rate = 0.05})},
      {"LAMB", optimizer::LAMB({.learning_rate = 0.01})},
  };
}

}  // namespace kaon::ranks_test
