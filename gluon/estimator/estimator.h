// Estimator: a training loop that is awaited, paused and stopped.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/estimator/event_handler.h"
#include "kaon/gluon/metric/eval_metric.h"
#include "kaon/gluon/metric/regression.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"

namespace KAON_API kaon {
namespace gluon {

namespace detail {
class Gate;
}

// What is done with a batch. Derive for nets of several inputs and losses of one's own.
class BatchProcessor {
 public:
  virtual ~BatchProcessor() = default;
  virtual BatchResult fit_batch(const data::Batch& batch, Trainer& trainer) = 0;  // updates the parameters
  virtual BatchResult evaluate_batch(const data::Batch& batch) = 0;
};

namespace detail {

// loss(net(data), label): a HybridBlock is trained by a TrainingStep, another Block by record(), backward() and
// Trainer::step().
template <class Net, class Loss>
class NetProcessor final : public BatchProcessor {
 public:
  NetProcessor(Net net, Loss loss, const std::source_location& site)  // for errors: where the program made it
      : net_(std::move(net)), loss_(std::move(loss)), site_(site) {}

  BatchResult fit_batch(const data::Batch& batch, Trainer& trainer) override {
    if constexpr (is_hybrid) {
      if (!step_) {
        step_.emplace(
            [net = net_, loss = loss_, site = site_](auto x, auto y) mutable {
              auto prediction = net(x, site);
              return std::pair(call_from(site, loss, prediction, y), prediction);
            },
            trainer);
      }
      const NDArray loss = (*step_)(batch.data, batch.label, site_);
      return {step_->outputs()[0], batch.label, loss};
    } else {
      BatchResult result{.prediction = {}, .label = batch.label, .loss = {}};
      autograd::record([&] {
        result.prediction = call_from(site_, net_, batch.data);
        result.loss = call_from(site_, loss_, result.prediction, batch.label);
      });
      result.loss.backward();
      trainer.step(batch.size(), false, site_);
      return result;
    }
  }
  BatchResult evaluate_batch(const data::Batch& batch) override {
    const NDArray prediction = call_from(site_, net_, batch.data);
    return {prediction, batch.label, call_from(site_, loss_, prediction, batch.label)};
  }

 private:
  static constexpr bool is_hybrid = requires(const Net& net) {
    []<class D>(const HybridBlock<D>&) {}(net);
  };
  Net net_;
  Loss loss_;
  std::source_location site_;
  std::optional<TrainingStep> step_;
};

}  // namespace detail

struct FitOptions {
  int64_t epochs = 0;   // until so many have been trained, those before a checkpoint included
  int64_t batches = 0;  // until so many have been trained by this call; 0: no limit
};
static_assert(std::is_trivially_destructible_v<FitOptions>);

// MXNet's gluon.contrib.estimator.Estimator. fit() runs ahead of the engine as any loop does: what waits is the loading
// of a batch, and what handlers await. Thread safety: one coroutine, but for pause(), resume() and stop(): any thread.
class Estimator {
 public:
  // The trainer must live as long. Metrics get labels and predictions of each batch. Throws ValueError for a metric
  // that is in both lists: validation would reset what training has counted.
  template <std::derived_from<Block> Net, std::copy_constructible Loss>
  Estimator(Net net, Loss loss, Trainer& trainer, std::vector<metric::EvalMetric> train_metrics = {},
            std::vector<metric::EvalMetric> val_metrics = {},
            std::source_location site = std::source_location::current())
      : Estimator(net, std::unique_ptr<BatchProcessor>(new detail::NetProcessor<Net, Loss>(net, loss, site)), trainer,
                  std::move(train_metrics), std::move(val_metrics)) {}
  // With a processor of batches, of a net whose parameters CheckpointHandler saves.
  Estimator(const Block& net, std::unique_ptr<BatchProcessor> processor, Trainer& trainer,
            std::vector<metric::EvalMetric> train_metrics = {}, std::vector<metric::EvalMetric> val_metrics = {});
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;
  ~Estimator();

  void add_handler(std::shared_ptr<EventHandler> handler);  // throws ValueError for null
  // Trains from epoch() on; epoch e takes the loader's batches of epoch e. Throws ValueError when neither limit is
  // given, StateError while it runs already, and what loading, handlers and steps throw: then training may go on from
  // epoch(). An epoch that was stopped does not count.
  Task<void> fit(data::DataLoader train, FitOptions options);
  // Resets the metrics of validation and gives them all batches.
  Task<void> evaluate(data::DataLoader data);

  void pause();   // fit() suspends before the next batch, holding no thread
  void resume();  // it goes on
  // fit() ends before the next batch, also a paused one; where none runs, the next one ends at once.
  void stop();
  bool is_stopped() const { return was_stopped_; }  // whether the last fit() was

  // Trained so far, in epoch_end() with the one that has ended; while one is trained its number, from 0.
  int64_t epoch() const { return epoch_; }
  int64_t batch() const { return batch_; }  // trained so far of this epoch
  void set_epoch(int64_t epoch);            // the next to be trained; ValueError for a negative one
  Block& net() { return net_; }
  Trainer& trainer() { return trainer_; }
  const metric::Loss& train_loss() const { return train_loss_; }  // the mean over the epoch
  const metric::Loss& val_loss() const { return val_loss_; }      // of the last evaluate()
  int64_t evaluations() const { return evaluations_; }            // calls of evaluate() so far
  const std::vector<metric::EvalMetric>& train_metrics() const { return train_metrics_; }
  const std::vector<metric::EvalMetric>& val_metrics() const { return val_metrics_; }

 private:
  Task<void> train(data::DataLoader& train, FitOptions options);
  Block net_;
  std::unique_ptr<BatchProcessor> processor_;
  Trainer& trainer_;
  std::vector<metric::EvalMetric> train_metrics_, val_metrics_;
  metric::Loss train_loss_, val_loss_;
  std::vector<std::shared_ptr<EventHandler>> handlers_;
  std::unique_ptr<detail::Gate> gate_;
  std::atomic<bool> stopped_ = false, was_stopped_ = false;
  bool is_running_ = false;
  int64_t epoch_ = 0, batch_ = 0, evaluations_ = 0;
};

}  // namespace gluon
}  // namespace kaon
