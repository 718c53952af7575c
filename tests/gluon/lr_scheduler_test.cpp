#include "kaon/gluon/lr_scheduler.h"

#include <catch2/catch.hpp>

#include <utility>
#include <vector>

#include "kaon/engine/error.h"

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
