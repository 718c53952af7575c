#include "kaon/gluon/lr_scheduler.h"

#include <catch2/catch.hpp>

#include <limits>
#include <utility>
#include <vector>

#include "kaon/engine/error.h"

namespace lr_scheduler_test {

using namespace kaon;
using namespace kaon::lr_scheduler;

namespace {
void check(const LRScheduler& scheduler, const std::vector<std::pair<int64_t, double>>& expected) {
  for (auto [update, rate] : expected) {
    INFO("update " << update);
    CHECK(scheduler(update) == Approx(rate).margin(1e-12));
  }
}
}  // namespace

TEST_CASE("lr_scheduler: factor", "[gluon]") {
  check(FactorScheduler({.step = 100,
                         .factor = 0.1,
                         .stop_factor_lr = 1e-4,
                         .base_lr = 1,
                         .warmup_steps = 20,
                         .warmup_begin_lr = 0.1,
                         .warmup_mode = WarmupMode::constant}),
        {{0, 0.1}, {10, 0.1}, {21, 1}, {100, 1}, {101, 0.1}, {201, 0.01}, {1000, 1e-4}});
  check(FactorScheduler({.step = 2, .factor = 0.1, .base_lr = 1}), {{1, 1}, {2, 1}, {3, 0.1}, {5, 0.01}, {99, 1e-8}});
}

TEST_CASE("lr_scheduler: factors at given updates", "[gluon]") {
  check(MultiFactorScheduler(
            {.step = {15, 25}, .factor = 0.1, .base_lr = 0.1, .warmup_steps = 10, .warmup_begin_lr = 0.05}),
        {{0, 0.05}, {5, 0.075}, {15, 0.1}, {16, 0.01}, {20, 0.01}, {26, 0.001}});
}

TEST_CASE("lr_scheduler: polynomial and cosine", "[gluon]") {
  auto poly = PolyScheduler({.max_update = 1000, .base_lr = 3, .pwr = 2, .warmup_steps = 100});
  check(poly, {{0, 0}, {50, 1.5}, {100, 3}, {550, 0.75}, {1000, 0}, {5000, 0}});
  CHECK(poly(500) < 1.6);
  auto cosine = CosineScheduler({.max_update = 1000, .base_lr = 3, .final_lr = 0.1});
  check(cosine, {{0, 3}, {500, 1.55}, {1000, 0.1}, {2000, 0.1}});
}

TEST_CASE("lr_scheduler: a function of the user's", "[gluon]") {
  check(CustomScheduler([](int64_t n) { return 1.0 / double(n); }), {{1, 1}, {4, 0.25}});
  const std::vector<double> table{3, 2, 1};
  check(CustomScheduler([table](int64_t n) { return table[size_t(n - 1)]; }), {{1, 3}, {3, 1}});
}

TEST_CASE("lr_scheduler: options out of range", "[gluon]") {
  CHECK_THROWS_AS(FactorScheduler({.step = 0}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.factor = 2}), ValueError);
  CHECK_THROWS_AS(FactorScheduler({.warmup_steps = 5, .warmup_begin_lr = 1}), ValueError);
  CHECK_THROWS_AS(MultiFactorScheduler({}), ValueError);
  CHECK_THROWS_AS(MultiFactorScheduler({.step = {20, 10}}), ValueError);
  CHECK_THROWS_AS(PolyScheduler({.max_update = 10, .warmup_steps = 10}), ValueError);
  CHECK_THROWS_AS(CustomScheduler(nullptr), ValueError);
}

TEST_CASE("lr scheduler: ReduceLROnPlateau as PyTorch 2.15's") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> figures{5, 4, 4, 4, 3.9999, 3.99995, 4,   2,   2.5, 2.4, nan, 1,   1,
                                    1, 1, 1, 1, 1,      1,       0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6};
  // the rate 0.1, then where PyTorch changed it, and to what
  const auto check = [&](const PlateauOptions& options, std::vector<std::pair<size_t, double>> changes) {
    ReduceLROnPlateau plateau(options);
    double lr = 0.1, expected = 0.1;
    for (size_t i = 0; i < figures.size(); ++i) {
      for (const auto& [at, rate] : changes) {
        if (at == i) expected = rate;
      }
      lr = plateau.step(figures[i], lr);
      INFO("figure " << i);
      REQUIRE(lr == Approx(expected).epsilon(1e-9));
    }
  };
  check({.factor = 0.5, .patience = 1}, {{3, 0.05},
                                         {5, 0.025},
                                         {9, 0.0125},
                                         {13, 0.00625},
                                         {15, 0.003125},
                                         {17, 0.0015625},
                                         {21, 0.00078125},
                                         {23, 0.000390625},
                                         {25, 0.0001953125}});
  check({.mode = PlateauMode::max,
         .patience = 0,
         .threshold = 0.3,
         .threshold_mode = ThresholdMode::absolute,
         .cooldown = 2},
        {{1, 1e-2}, {4, 1e-3}, {7, 1e-4}, {10, 1e-5}, {13, 1e-6}, {16, 1e-7}, {19, 1e-8}});
  check({.patience = 2, .threshold = 0.1, .min_lr = 0.02}, {{4, 0.02}});
  check({.factor = 0.9, .patience = 0, .cooldown = 1, .eps = 0.01}, {});
  CHECK_THROWS_AS(ReduceLROnPlateau({.factor = 1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau({.patience = -1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau({.threshold = nan}), ValueError);
}

}  // namespace lr_scheduler_test
