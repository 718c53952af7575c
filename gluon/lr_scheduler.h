// Learning rate schedules: the rate as a function of the number of updates.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/ops/shape.h"

namespace KAON_API kaon {
namespace lr_scheduler {

// The rate for update number `num_update`, from 1 on.
using RateFunction = std::function<double(int64_t num_update)>;

enum class Kind : uint8_t { none, factor, multi_factor, poly, cosine, custom };
enum class WarmupMode : uint8_t { linear, constant };

// A value, made by the functions below. The rate depends on the number of updates only, so training that continues from
// a checkpoint needs nothing else. Thread safety: a value.
struct LRScheduler {
  Kind kind = Kind::none;
  double base_lr = 0.01;
  int64_t warmup_steps = 0;  // before this many updates: from warmup_begin_lr to base_lr
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
  int64_t step = 0;  // factor: updates between two reductions
  Shape steps{};     // multi_factor: reductions after these updates
  double factor = 1;
  double stop_factor_lr = 0;
  int64_t max_update = 0;  // poly, cosine: final_lr is reached here
  double power = 2;
  double final_lr = 0;
  const RateFunction* function = nullptr;  // custom

  bool is_set() const { return kind != Kind::none; }
  // The rate for update number `num_update`, from 1 on. base_lr when unset.
  double operator()(int64_t num_update) const;
};

struct FactorOptions {
  int64_t step = 1;
  double factor = 1;
  double stop_factor_lr = 1e-8;
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
struct MultiFactorOptions {
  Shape step{};  // increasing; up to 8
  double factor = 1;
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
struct PolyOptions {
  int64_t max_update = 1;
  double base_lr = 0.01;
  double pwr = 2;
  double final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
struct CosineOptions {
  int64_t max_update = 1;
  double base_lr = 0.01;
  double final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
static_assert(std::is_trivially_destructible_v<LRScheduler> && std::is_trivially_destructible_v<MultiFactorOptions>);

// Each throws ValueError for options out of range (CustomScheduler: for an empty function).
// base_lr factor^k after k * step updates, never below stop_factor_lr.
KAON_API LRScheduler FactorScheduler(const FactorOptions& options);
// base_lr factor^k after the k-th of the listed updates.
KAON_API LRScheduler MultiFactorScheduler(const MultiFactorOptions& options);
// final + (base - final) (1 - t)^pwr, where t goes from 0 after the warm-up to 1 at max_update, and stays there.
KAON_API LRScheduler PolyScheduler(const PolyOptions& options);
// final + (base - final) (1 + cos(pi t)) / 2 with the same t.
KAON_API LRScheduler CosineScheduler(const CosineOptions& options);
// Any function of the number of updates, which Trainer::step calls, twice a step at most. It is kept as long as the
// process lives: make such a scheduler once.
KAON_API LRScheduler CustomScheduler(RateFunction function);

enum class PlateauMode : uint8_t { min, max };              // whether a smaller or a larger figure is better
enum class ThresholdMode : uint8_t { relative, absolute };  // to the best figure so far

struct PlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;
  int64_t patience = 10;    // figures that are no better, before the rate falls
  double threshold = 1e-4;  // by which a figure must be better than the best one
  ThresholdMode threshold_mode = ThresholdMode::relative;
  int64_t cooldown = 0;  // figures after a reduction that do not count
  double min_lr = 0;
  double eps = 1e-8;  // smaller reductions are left out
};

// A rate that falls when a figure, as the loss of validation data after each epoch, stays where it is; the semantics
// are those of PyTorch. A copy has a state of its own. Thread safety: one thread.
//     trainer.set_learning_rate(plateau.step(loss, trainer.learning_rate()));
class ReduceLROnPlateau {
 public:
  // Throws ValueError for a factor outside (0, 1) and negative numbers.
  explicit ReduceLROnPlateau(const PlateauOptions& options = {});
  // The rate from here on, given the present one. A NaN is no better than anything.
  double step(double figure, double lr);
  double best() const { return best_; }  // infinite before the first figure

 private:
  PlateauOptions options_;
  double best_;
  int64_t bad_ = 0, cooling_ = 0;  // figures in a row
};

}  // namespace lr_scheduler
}  // namespace kaon
