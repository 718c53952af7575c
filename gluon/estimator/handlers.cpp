#include "kaon/gluon/estimator/handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "kaon/gluon/estimator/estimator.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/util/checkpoint.h"

namespace kaon::gluon {
namespace {

int64_t check_at_least(int64_t value, int64_t least, const char* what) {
  if (value >= least) return value;
  throw ValueError(fmt::format("[Estimator] {} must be {} or more, got {}", what, least, value));
}

double worst(Better better) {
  return better == Better::lower ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

// By more than `by`; a NaN is never better.
bool is_better(Better better, double value, double than, double by) {
  return better == Better::lower ? value < than - by : value > than + by;
}

Task<std::string> figures(const char* kind, const metric::Loss& loss, const std::vector<metric::EvalMetric>& metrics) {
  const double mean = co_await loss.value();
  std::string text = fmt::format("{} loss {:.4f}", kind, mean);
  for (const metric::EvalMetric& m : metrics) {
    const std::vector<double> values = co_await m.values();
    const std::vector<std::string> names = m.names();
    for (size_t i = 0; i < values.size(); ++i) text += fmt::format(", {} {} {:.4f}", kind, names[i], values[i]);
  }
  co_return text;
}

}  // namespace

LoggingHandler::LoggingHandler(int64_t every_batches, Sink sink)
    : every_batches_(check_at_least(every_batches, 0, "every_batches")), sink_(std::move(sink)) {
  if (!sink_) {
    sink_ = [](const std::string& line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    };
  }
}

Task<void> LoggingHandler::epoch_begin(Estimator&) {
  begin_ = std::chrono::steady_clock::now();
  co_return;
}

Task<void> LoggingHandler::batch_end(Estimator& e, const data::Batch&, const BatchResult&) {
  if (every_batches_ == 0 || e.batch() % every_batches_ != 0) co_return;
  const std::string text = co_await figures("train", e.train_loss(), e.train_metrics());
  sink_(fmt::format("[epoch {}, batch {}] {}", e.epoch() + 1, e.batch(), text));
}

Task<void> LoggingHandler::epoch_end(Estimator& e) {
  std::string text = co_await figures("train", e.train_loss(), e.train_metrics());
  if (e.evaluations() != evaluations_) {
    evaluations_ = e.evaluations();
    const std::string validation = co_await figures("validation", e.val_loss(), e.val_metrics());
    text += ", " + validation;
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
  sink_(fmt::format("[epoch {}] {:.1f} s: {}", e.epoch(), time.count(), text));
}

ValidationHandler::ValidationHandler(data::DataLoader data, int64_t every_epochs)
    : data_(std::move(data)), every_epochs_(check_at_least(every_epochs, 1, "every_epochs")) {}

Task<void> ValidationHandler::epoch_end(Estimator& e) {
  if (e.epoch() % every_epochs_ == 0) co_await e.evaluate(data_);
}

EarlyStoppingHandler::EarlyStoppingHandler(const metric::EvalMetric& monitor, Better better, int64_t patience,
                                           double min_delta, int64_t every_epochs)
    : monitor_(monitor),
      better_(better),
      patience_(check_at_least(patience, 0, "patience")),
      every_epochs_(check_at_least(every_epochs, 1, "every_epochs")),
      min_delta_(min_delta),
      best_(worst(better)) {
  if (!(min_delta >= 0)) {
    throw ValueError(fmt::format("[Estimator] min_delta must be 0 or more, got {}", min_delta));
  }
}

Task<void> EarlyStoppingHandler::train_begin(Estimator&) {
  best_ = worst(better_);
  waited_ = 0;
  co_return;
}

Task<void> EarlyStoppingHandler::epoch_end(Estimator& e) {
  if (e.epoch() % every_epochs_ != 0) co_return;
  const double value = co_await monitor_.value();
  if (std::isnan(value)) co_return;
  if (is_better(better_, value, best_, min_delta_)) {
    best_ = value;
    waited_ = 0;
  } else if (++waited_ >= patience_) {
    e.stop();
  }
}

CheckpointHandler::CheckpointHandler(std::filesystem::path folder, std::string prefix, int64_t every_epochs,
                                     int64_t most)
    : folder_(std::move(folder)),
      prefix_(std::move(prefix)),
      every_epochs_(check_at_least(every_epochs, 1, "every_epochs")),
      most_(check_at_least(most, 1, "most")) {
  if (prefix_.empty() || prefix_.find('/') != prefix_.npos) {
    throw ValueError(fmt::format("[CheckpointHandler] the prefix must be a name, got '{}'", prefix_));
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw IoError(fmt::format("[CheckpointHandler] {} cannot be made: {}", folder_.string(), error.message()));
}

void CheckpointHandler::save_best(const metric::EvalMetric& monitor, Better better) {
  monitor_ = monitor;
  better_ = better;
  best_ = worst(better);
}

std::vector<std::pair<int64_t, std::filesystem::path>> CheckpointHandler::checkpoints() const {
  std::vector<std::pair<int64_t, std::filesystem::path>> found;
  const std::string begin = prefix_ + "-", end = ".params";
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size()) continue;
    const std::string number = name.substr(begin.size(), name.size() - begin.size() - end.size());
    const bool is_number =
        number.size() < 18 && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) found.emplace_back(std::stoll(number), entry.path());
  }
  std::ranges::sort(found);
  return found;
}

bool CheckpointHandler::resume(Estimator& e) {
  const auto all = checkpoints();
  if (all.empty()) return false;
  for (const auto& [name, array] : load_checkpoint(all.back().second, e.net(), e.trainer())) {
    if (name == "best") best_ = array.asscalar<double>();
  }
  e.set_epoch(all.back().first);
  return true;
}

Task<void> CheckpointHandler::epoch_end(Estimator& e) {
  const auto& ranks = e.trainer().over_ranks();
  const bool writes = !ranks || ranks->ranks().rank() == 0;
  if (monitor_) {
    const double value = co_await monitor_->value();
    if (is_better(better_, value, best_, 0)) {
      best_ = value;
      if (writes) e.net().save_parameters(folder_ / (prefix_ + "-best.params"));
    }
  }
  if (e.epoch() % every_epochs_ != 0) co_return;
  NamedArrays more;
  if (monitor_) more.emplace_back("best", nd.full({1}, best_, {.dtype = DType::float64}));
  save_checkpoint(folder_ / fmt::format("{}-{:04}.params", prefix_, e.epoch()), e.net(), e.trainer(), more);
  if (!writes) co_return;
  const auto all = checkpoints();
  for (size_t i = 0; i + size_t(most_) < all.size(); ++i) std::filesystem::remove(all[i].second);
}

}  // namespace kaon::gluon
