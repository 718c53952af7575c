#include "kaon/gluon/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/engine/error.h"
#include "kaon/ops/math/philox.h"

namespace kaon::gluon::data {

using namespace graph;
namespace {

class Sequence : public SamplerSource {
 public:
  Sequence(int64_t length, int64_t start) : length_(length), start_(start) {}
  int64_t size() const override { return length_; }
  std::vector<int64_t> indices(uint64_t) const override {
    std::vector<int64_t> order(static_cast<size_t>(length_));
    std::iota(order.begin(), order.end(), start_);
    return order;
  }

 private:
  int64_t length_, start_;
};

class Permutation : public SamplerSource {
 public:
  Permutation(int64_t length, uint64_t seed) : length_(length), seed_(seed) {}
  int64_t size() const override { return length_; }
  std::vector<int64_t> indices(uint64_t epoch) const override {
    std::vector<int64_t> order(static_cast<size_t>(length_));
    std::iota(order.begin(), order.end(), 0);
    for (uint64_t i = order.size(); i > 1; --i) {  // Fisher and Yates
      const Philox4 r = random_block(seed_, epoch, i);
      std::swap(order[i - 1], order[uniform_below(r.v[0], r.v[1], i)]);
    }
    return order;
  }

 private:
  int64_t length_;
  uint64_t seed_;
};

class Intervals : public SamplerSource {
 public:
  Intervals(int64_t length, int64_t interval, bool rollover)
      : length_(length), interval_(interval), rollover_(rollover) {}
  int64_t size() const override { return rollover_ ? length_ : (length_ + interval_ - 1) / interval_; }
  std::vector<int64_t> indices(uint64_t) const override {
    std::vector<int64_t> order;
    for (int64_t begin = 0; begin < (rollover_ ? interval_ : 1); ++begin) {
      for (int64_t i = begin; i < length_; i += interval_) order.push_back(i);
    }
    return order;
  }

 private:
  int64_t length_, interval_;
  bool rollover_;
};

class Weighted : public SamplerSource {
 public:
  Weighted(std::vector<double> weights, int64_t count, const WeightedOptions& options)
      : weights_(std::move(weights)), count_(count), options_(options) {
    if (count < 0) {
      throw ValueError(fmt::format("[WeightedRandomSampler] num_samples: expected at least 0, got {}", count));
    }
    int64_t positive = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!(weights_[i] >= 0) || !std::isfinite(sum_ += weights_[i])) {
        throw ValueError(
            fmt::format("[WeightedRandomSampler] weights: expected finite numbers of at least 0, got {} for sample {}",
                        weights_[i], i));
      }
      positive += weights_[i] > 0;
    }
    if (options.replacement ? count > 0 && positive == 0 : count > positive) {
      throw ValueError(
          fmt::format("[WeightedRandomSampler] num_samples: expected at most {}, as many as positive weights, got {}",
                      positive, count));
    }
  }
  int64_t size() const override { return count_; }
  std::vector<int64_t> indices(uint64_t epoch) const override {
    return options_.replacement ? drawn_freely(epoch) : drawn_once(epoch);
  }

 private:
  double uniform(uint64_t epoch, uint64_t i) const {  // in (0, 1)
    const Philox4 r = random_block(options_.seed, epoch, i);
    return (double((uint64_t(r.v[1]) << 32 | r.v[0]) >> 11) + 0.5) * 0x1p-53;
  }
  std::vector<int64_t> drawn_freely(uint64_t epoch) const {
    std::vector<double> ends;  // of each sample's part of [0, sum)
    std::vector<int64_t> samples, order;
    double end = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] == 0) continue;
      samples.push_back(int64_t(i));
      ends.push_back(end += weights_[i]);
    }
    for (int64_t i = 0; i < count_; ++i) {
      const auto at = std::ranges::upper_bound(ends, uniform(epoch, uint64_t(i)) * sum_);
      order.push_back(samples[std::min(size_t(at - ends.begin()), samples.size() - 1)]);
    }
    return order;
  }
  // The smallest of exponential variates with the weights as rates come in the order of draws without replacement
  // (Efraimidis and Spirakis 2006).
  std::vector<int64_t> drawn_once(uint64_t epoch) const {
    std::vector<std::pair<double, int64_t>> keys;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] > 0) keys.emplace_back(-std::log(uniform(epoch, i)) / weights_[i], int64_t(i));
    }
    std::ranges::sort(keys);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count_; ++i) order.push_back(keys[size_t(i)].second);
    return order;
  }

  std::vector<double> weights_;
  int64_t count_;
  WeightedOptions options_;
  double sum_ = 0;
};

class Distributed : public SamplerSource {
 public:
  Distributed(Sampler order, int64_t num_workers, int64_t rank, bool drop_last)
      : order_(std::move(order)), num_workers_(num_workers), rank_(rank), drop_last_(drop_last) {
    if (num_workers < 1 || rank < 0 || rank >= num_workers) {
      throw ValueError(
          fmt::format("[DistributedSampler] expected a rank in [0, num_workers), got {} of {}", rank, num_workers));
    }
  }
  int64_t size() const override { return (order_.size() + (drop_last_ ? 0 : num_workers_ - 1)) / num_workers_; }
  std::vector<int64_t> indices(uint64_t epoch) const override {
    const std::vector<int64_t> all = order_.indices(epoch);
    std::vector<int64_t> mine;
    for (int64_t i = 0; i < size(); ++i) mine.push_back(all[size_t(i * num_workers_ + rank_) % all.size()]);
    return mine;
  }

 private:
  Sampler order_;
  int64_t num_workers_, rank_;
  bool drop_last_;
};

int64_t checked_length(int64_t length) {
  if (length < 0) throw ValueError(fmt::format("[Sampler] expected a length of at least 0, got {}", length));
  return length;
}

}  // namespace

Sampler::Sampler(std::shared_ptr<const SamplerSource> source) : source_(std::move(source)) {
  if (!source_) throw ValueError("[Sampler] expected a source of indices, got none");
}

std::vector<int64_t> Sampler::indices(uint64_t epoch) const {
  std::vector<int64_t> order = source_->indices(epoch);
  if (int64_t(order.size()) != size()) {
    throw ValueError(fmt::format("[Sampler] expected {} indices for epoch {}, got {}", size(), epoch, order.size()));
  }
  return order;
}

SequentialSampler::SequentialSampler(int64_t length, int64_t start)
    : Sampler(std::make_shared<Sequence>(checked_length(length), start)) {}
RandomSampler::RandomSampler(int64_t length, uint64_t seed)
    : Sampler(std::make_shared<Permutation>(checked_length(length), seed)) {}

IntervalSampler::IntervalSampler(int64_t length, int64_t interval, bool rollover)
    : Sampler(std::make_shared<Intervals>(length, interval, rollover)) {
  if (interval < 1 || interval > length) {
    throw ValueError(fmt::format("[IntervalSampler] interval: expected 1 to the length {}, got {}", length, interval));
  }
}
WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             const WeightedOptions& options)
    : Sampler(std::make_shared<Weighted>(std::move(weights), num_samples, options)) {}
DistributedSampler::DistributedSampler(int64_t length, int64_t num_workers, int64_t rank,
                                       const DistributedOptions& options)
    : DistributedSampler(
          options.shuffle ? Sampler(RandomSampler(length, options.seed)) : Sampler(SequentialSampler(length)),
          num_workers, rank, options) {}
DistributedSampler::DistributedSampler(Sampler order, int64_t num_workers, int64_t rank,
                                       const DistributedOptions& options)
    : Sampler(std::make_shared<Distributed>(std::move(order), num_workers, rank, options.drop_last)) {}

}  // namespace kaon::gluon::data
