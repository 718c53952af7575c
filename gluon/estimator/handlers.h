// Handlers of Estimator::fit: logging, validation, checkpoints, early stopping.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/estimator/event_handler.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace gluon {

// Whether a smaller or a larger value of a metric is better.
enum class Better : uint8_t { lower, higher };

// Writes a line after each epoch, and after every `every_batches` batches if that is above 0: the means so far of the
// loss and the metrics, which it waits for.
class LoggingHandler final : public EventHandler {
 public:
  using Sink = std::function<void(const std::string& line)>;
  explicit LoggingHandler(int64_t every_batches = 0, Sink sink = {});  // by default to the standard output
  Task<void> epoch_begin(Estimator& estimator) override;
  Task<void> batch_end(Estimator& estimator, const data::Batch& batch, const BatchResult& result) override;
  Task<void> epoch_end(Estimator& estimator) override;

 private:
  int64_t every_batches_;
  Sink sink_;
  int64_t evaluations_ = 0;  // that have been written
  std::chrono::steady_clock::time_point begin_;
};

// Evaluates after every so many epochs. Add it before the handlers that look at validation.
class ValidationHandler final : public EventHandler {
 public:
  explicit ValidationHandler(data::DataLoader data, int64_t every_epochs = 1);  // ValueError below 1
  Task<void> epoch_end(Estimator& estimator) override;

 private:
  data::DataLoader data_;
  int64_t every_epochs_;
};

// Stops when a metric has not become better by more than min_delta at `patience` looks in a row, at least one; a look
// is after every so many epochs: as many as the ValidationHandler whose metric it is. A NaN, as of a metric without
// updates, is left out. fit() begins anew: checkpoints have nothing of it.
class EarlyStoppingHandler final : public EventHandler {
 public:
  // Throws ValueError for a negative patience or min_delta, and every_epochs below 1.
  explicit EarlyStoppingHandler(const metric::EvalMetric& monitor, Better better = Better::lower, int64_t patience = 0,
                                double min_delta = 0, int64_t every_epochs = 1);
  Task<void> train_begin(Estimator& estimator) override;
  Task<void> epoch_end(Estimator& estimator) override;
  double best() const { return best_; }  // infinite before the first epoch

 private:
  metric::EvalMetric monitor_;
  Better better_;
  int64_t patience_, every_epochs_, waited_ = 0;
  double min_delta_, best_;
};

// Writes "<prefix>-<epochs trained, four digits>.params" after every so many epochs, by save_checkpoint(), which waits
// for what is pending, and removes all but the newest `most`. With a metric, the parameters of the best epoch too:
// "<prefix>-best.params".
class CheckpointHandler final : public EventHandler {
 public:
  // Throws ValueError below 1 and for a prefix that is no name of a file, IoError when the folder cannot be made.
  explicit CheckpointHandler(std::filesystem::path folder, std::string prefix = "model", int64_t every_epochs = 1,
                             int64_t most = 5);
  void save_best(const metric::EvalMetric& monitor, Better better = Better::lower);
  // Loads the newest checkpoint of the folder, so that fit() goes on after its epoch, with its best figure; false:
  // there is none. Blocks. Throws as load_checkpoint() does.
  bool resume(Estimator& estimator);
  Task<void> epoch_end(Estimator& estimator) override;

 private:
  std::vector<std::pair<int64_t, std::filesystem::path>> checkpoints() const;  // by epoch
  std::filesystem::path folder_;
  std::string prefix_;
  int64_t every_epochs_, most_;
  std::optional<metric::EvalMetric> monitor_;
  Better better_ = Better::lower;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace gluon
}  // namespace kaon
