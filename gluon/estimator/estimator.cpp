#include "kaon/gluon/estimator/estimator.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/estimator/internal/gate.h"

namespace kaon::gluon {

Task<void> EventHandler::train_begin(Estimator&) { co_return; }
Task<void> EventHandler::epoch_begin(Estimator&) { co_return; }
Task<void> EventHandler::batch_begin(Estimator&, const data::Batch&) { co_return; }
Task<void> EventHandler::batch_end(Estimator&, const data::Batch&, const BatchResult&) { co_return; }
Task<void> EventHandler::epoch_end(Estimator&) { co_return; }
Task<void> EventHandler::train_end(Estimator&) { co_return; }

Estimator::Estimator(const Block& net, std::unique_ptr<BatchProcessor> processor, Trainer& trainer,
                     std::vector<metric::EvalMetric> train_metrics, std::vector<metric::EvalMetric> val_metrics)
    : net_(net),
      processor_(std::move(processor)),
      trainer_(trainer),
      train_metrics_(std::move(train_metrics)),
      val_metrics_(std::move(val_metrics)),
      gate_(std::make_unique<detail::Gate>()) {
  if (!processor_) throw ValueError("[Estimator] a processor of batches must be given");
  for (const metric::EvalMetric& m : train_metrics_) {
    if (std::ranges::any_of(val_metrics_, [&](const metric::EvalMetric& v) { return v.is_same(m); })) {
      throw ValueError(fmt::format(
          "[Estimator] the metric {} is in both lists, and validation would reset what training has counted: make one "
          "for each",
          m.name()));
    }
  }
}
Estimator::~Estimator() = default;

void Estimator::add_handler(std::shared_ptr<EventHandler> handler) {
  if (!handler) throw ValueError("[Estimator] a handler must not be null");
  handlers_.push_back(std::move(handler));
}

void Estimator::set_epoch(int64_t epoch) {
  if (epoch < 0) throw ValueError(fmt::format("[Estimator] the epoch must not be negative, got {}", epoch));
  epoch_ = epoch;
}

void Estimator::pause() { gate_->close(); }
void Estimator::resume() { gate_->open(); }
void Estimator::stop() {
  stopped_ = true;
  gate_->open();
}

Task<void> Estimator::fit(data::DataLoader train, FitOptions options) {
  if (options.epochs < 0 || options.batches < 0 || (options.epochs == 0 && options.batches == 0)) {
    throw ValueError(fmt::format("[Estimator.fit] epochs or batches must be above 0, got {} and {}", options.epochs,
                                 options.batches));
  }
  if (is_running_) throw StateError("[Estimator.fit] it is running already");
  struct Running {
    Estimator& self;
    explicit Running(Estimator& e) : self(e) { self.is_running_ = true; }
    ~Running() {
      self.was_stopped_ = self.stopped_.exchange(false);
      self.is_running_ = false;
    }
  } running(*this);
  co_await this->train(train, options);
}

Task<void> Estimator::train(data::DataLoader& train, FitOptions options) {
  int64_t trained = 0;
  const auto is_done = [&] { return stopped_ || (options.batches > 0 && trained == options.batches); };
  for (auto& h : handlers_) co_await h->train_begin(*this);
  while (!is_done() && (options.epochs == 0 || epoch_ < options.epochs)) {
    batch_ = 0;
    train_loss_.reset();
    for (metric::EvalMetric& m : train_metrics_) m.reset();
    for (auto& h : handlers_) co_await h->epoch_begin(*this);
    auto batches = train.batches(uint64_t(epoch_));
    bool is_whole = false;
    while (true) {
      co_await *gate_;
      if (is_done()) break;
      const std::optional<data::Batch> batch = co_await batches.next();
      if (!batch) {
        is_whole = true;
        break;
      }
      for (auto& h : handlers_) co_await h->batch_begin(*this, *batch);
      const BatchResult result = processor_->fit_batch(*batch, trainer_);
      train_loss_.update(result.loss, result.loss);
      for (metric::EvalMetric& m : train_metrics_) m.update(result.label, result.prediction);
      ++batch_, ++trained;
      for (auto& h : handlers_) co_await h->batch_end(*this, *batch, result);
    }
    is_whole = is_whole || batch_ == train.size();
    if (batch_ == 0 && is_whole) throw ValueError("[Estimator.fit] the loader gives no batches");
    if (is_whole) ++epoch_;
    if (is_whole || !stopped_) {
      for (auto& h : handlers_) co_await h->epoch_end(*this);
    }
    if (is_whole) batch_ = 0;
  }
  for (auto& h : handlers_) co_await h->train_end(*this);
}

Task<void> Estimator::evaluate(data::DataLoader data) {
  ++evaluations_;
  val_loss_.reset();
  for (metric::EvalMetric& m : val_metrics_) m.reset();
  auto batches = data.batches(0);
  while (true) {
    const std::optional<data::Batch> batch = co_await batches.next();
    if (!batch) break;
    const BatchResult result = processor_->evaluate_batch(*batch);
    val_loss_.update(result.loss, result.loss);
    for (metric::EvalMetric& m : val_metrics_) m.update(result.label, result.prediction);
  }
}

}  // namespace kaon::gluon
