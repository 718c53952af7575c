#include "kaon/gluon/lr_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kaon/engine/base/keep.h"
#include "kaon/engine/error.h"

namespace kaon::lr_scheduler {
namespace {

template <class Options>
LRScheduler with_warmup(Kind kind, const Options& o) {
  if (!(o.base_lr >= 0))
    throw ValueError(fmt::format("[lr_scheduler] base_lr must not be negative, got {}", o.base_lr));
  if (o.warmup_steps < 0)
    throw ValueError(fmt::format("[lr_scheduler] warmup_steps must not be negative, got {}", o.warmup_steps));
  if (o.warmup_steps > 0 && o.warmup_begin_lr > o.base_lr) {
    throw ValueError(fmt::format("[lr_scheduler] the warm-up must not fall: warmup_begin_lr {}, base_lr {}",
                                 o.warmup_begin_lr, o.base_lr));
  }
  return {.kind = kind,
          .base_lr = o.base_lr,
          .warmup_steps = o.warmup_steps,
          .warmup_begin_lr = o.warmup_begin_lr,
          .warmup_mode = o.warmup_mode};
}

void check_factor(double factor) {
  if (!(factor > 0 && factor <= 1))
    throw ValueError(fmt::format("[lr_scheduler] factor must lie in (0, 1], got {}", factor));
}

void check_max_update(int64_t max_update, int64_t warmup_steps) {
  if (max_update < 1 || max_update <= warmup_steps) {
    throw ValueError(fmt::format("[lr_scheduler] max_update must be positive and beyond the warm-up of {}, got {}",
                                 warmup_steps, max_update));
  }
}

}  // namespace

LRScheduler FactorScheduler(const FactorOptions& o) {
  check_factor(o.factor);
  if (o.step < 1) throw ValueError(fmt::format("[FactorScheduler] step must be at least 1, got {}", o.step));
  LRScheduler s = with_warmup(Kind::factor, o);
  s.step = o.step;
  s.factor = o.factor;
  s.stop_factor_lr = o.stop_factor_lr;
  return s;
}

LRScheduler MultiFactorScheduler(const MultiFactorOptions& o) {
  check_factor(o.factor);
  if (o.step.empty()) throw ValueError("[MultiFactorScheduler] step must list at least one update");
  for (int i = 0; i < o.step.ndim(); ++i) {
    if (o.step[i] < 1 || (i && o.step[i] <= o.step[i - 1])) {
      throw ValueError(fmt::format("[MultiFactorScheduler] step must be positive and increase, got {}", o.step.str()));
    }
  }
  LRScheduler s = with_warmup(Kind::multi_factor, o);
  s.steps = o.step;
  s.factor = o.factor;
  return s;
}

LRScheduler PolyScheduler(const PolyOptions& o) {
  check_max_update(o.max_update, o.warmup_steps);
  LRScheduler s = with_warmup(Kind::poly, o);
  s.max_update = o.max_update;
  s.power = o.pwr;
  s.final_lr = o.final_lr;
  return s;
}

LRScheduler CosineScheduler(const CosineOptions& o) {
  check_max_update(o.max_update, o.warmup_steps);
  LRScheduler s = with_warmup(Kind::cosine, o);
  s.max_update = o.max_update;
  s.final_lr = o.final_lr;
  return s;
}

LRScheduler CustomScheduler(RateFunction function) {
  if (!function) throw ValueError("[CustomScheduler] the function must not be empty");
  return {.kind = Kind::custom, .function = engine::keep_forever(std::move(function))};
}

double LRScheduler::operator()(int64_t num_update) const {
  if (kind == Kind::custom) return (*function)(std::max<int64_t>(1, num_update));
  if (num_update < warmup_steps) {
    if (warmup_mode == WarmupMode::constant) return warmup_begin_lr;
    return warmup_begin_lr + (base_lr - warmup_begin_lr) * double(num_update) / double(warmup_steps);
  }
  // How far between the warm-up and max_update.
  auto part = [&] { return std::min(1.0, double(num_update - warmup_steps) / double(max_update - warmup_steps)); };
  switch (kind) {
    case Kind::factor: {
      int64_t reductions = std::max<int64_t>(0, num_update - 1) / step;
      return std::max(base_lr * std::pow(factor, double(reductions)), std::min(stop_factor_lr, base_lr));
    }
    case Kind::multi_factor: {
      auto passed = std::count_if(steps.begin(), steps.end(), [&](int64_t s) { return num_update > s; });
      return base_lr * std::pow(factor, double(passed));
    }
    case Kind::poly: return final_lr + (base_lr - final_lr) * std::pow(1 - part(), power);
    case Kind::cosine: return final_lr + (base_lr - final_lr) * (1 + std::cos(std::numbers::pi * part())) / 2;
    case Kind::none:
    case Kind::custom: break;
  }
  return base_lr;
}

ReduceLROnPlateau::ReduceLROnPlateau(const PlateauOptions& o)
    : options_(o), best_((o.mode == PlateauMode::min ? 1 : -1) * std::numeric_limits<double>::infinity()) {
  if (!(o.factor > 0 && o.factor < 1))
    throw ValueError(fmt::format("[ReduceLROnPlateau] factor must lie in (0, 1), got {}", o.factor));
  if (o.patience < 0 || o.cooldown < 0 || !(o.threshold >= 0) || !(o.min_lr >= 0) || !(o.eps >= 0)) {
    throw ValueError(
        fmt::format("[ReduceLROnPlateau] patience {}, cooldown {}, threshold {}, min_lr {} and eps {} must not be "
                    "negative",
                    o.patience, o.cooldown, o.threshold, o.min_lr, o.eps));
  }
}

double ReduceLROnPlateau::step(double figure, double lr) {
  const bool is_min = options_.mode == PlateauMode::min;
  const double by = is_min ? -options_.threshold : options_.threshold;
  const double limit = options_.threshold_mode == ThresholdMode::absolute ? best_ + by : best_ * (1 + by);
  if (is_min ? figure < limit : figure > limit) {
    best_ = figure;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return lr;
  cooling_ = options_.cooldown;
  bad_ = 0;
  const double next = std::max(lr * options_.factor, options_.min_lr);
  return lr - next > options_.eps ? next : lr;
}

}  // namespace kaon::lr_scheduler
