// The division of samples into batches: of one size, or of samples of similar lengths.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/sampler.h"

namespace kaon::gluon::data {
namespace {

class FixedSize : public BatchSamplerSource {
 public:
  FixedSize(Sampler sampler, int64_t batch_size, LastBatch last_batch)
      : sampler_(std::move(sampler)), batch_size_(batch_size), last_batch_(last_batch) {}

  int64_t size(uint64_t epoch) const override {
    const int64_t n = sampler_.size() + rolled_over(epoch);
    return last_batch_ == LastBatch::keep ? (n + batch_size_ - 1) / batch_size_ : n / batch_size_;
  }

  EpochBatches batches(uint64_t epoch) const override {
    std::vector<int64_t> order = sampler_.indices(epoch);
    uint64_t earlier = epoch;
    for (size_t missing = size_t(rolled_over(epoch)); missing > 0;) {  // several epochs back if they are short
      std::vector<int64_t> before = sampler_.indices(--earlier);
      const size_t taken = std::min(missing, before.size());
      order.insert(order.begin(), before.end() - std::ptrdiff_t(taken), before.end());
      missing -= taken;
    }
    if (last_batch_ != LastBatch::keep) order.resize(order.size() - order.size() % size_t(batch_size_));
    return EpochBatches(std::move(order), batch_size_);
  }

 private:
  int64_t rolled_over(uint64_t epoch) const {  // samples that earlier epochs leave to this one
    if (last_batch_ != LastBatch::rollover) return 0;
    // the remainder of epoch * size samples after whole batches
    const uint64_t b = uint64_t(batch_size_);
    return int64_t((epoch % b) * (uint64_t(sampler_.size()) % b) % b);
  }
  Sampler sampler_;
  int64_t batch_size_;
  LastBatch last_batch_;
};

int64_t checked_batch_size(int64_t batch_size, const char* who) {
  if (batch_size < 1 || batch_size > INT32_MAX) {
    throw ValueError(fmt::format("[{}] batch_size: expected at least 1, got {}", who, batch_size));
  }
  return batch_size;
}

// Upper bounds of buckets of one width.
std::vector<int64_t> equal_bounds(const std::vector<int64_t>& lengths, int64_t count) {
  if (lengths.empty()) return {};
  const auto [shortest, longest] = std::ranges::minmax(lengths);
  if (count < 1) throw ValueError(fmt::format("[BucketSampler] num_buckets: expected at least 1, got {}", count));
  const int64_t width = std::max<int64_t>((longest - shortest + count) / count, 1);
  std::vector<int64_t> bounds;
  for (int64_t bound = longest; bound >= shortest && int64_t(bounds.size()) < count; bound -= width)
    bounds.push_back(bound);
  std::ranges::reverse(bounds);
  return bounds;
}

class Buckets : public BatchSamplerSource {
 public:
  Buckets(const std::vector<int64_t>& lengths, int64_t batch_size, const BucketOptions& options) : options_(options) {
    const std::vector<int64_t> bounds = options.bounds.empty()
                                            ? equal_bounds(lengths, options.num_buckets)
                                            : std::vector<int64_t>(options.bounds.begin(), options.bounds.end());
    options_.bounds = {};  // the program's

    checked_batch_size(batch_size, "BucketSampler");
    if (lengths.empty()) throw ValueError("[BucketSampler] lengths: expected at least one, got none");
    if (!(options.ratio >= 0 && options.ratio <= 1e6)) {
      throw ValueError(fmt::format("[BucketSampler] ratio: expected a number of at least 0, got {}", options.ratio));
    }
    const auto [shortest, longest] = std::ranges::minmax(lengths);
    if (shortest < 0) throw ValueError(fmt::format("[BucketSampler] lengths: expected at least 0, got {}", shortest));
    for (size_t i = 1; i < bounds.size(); ++i) {
      if (bounds[i] <= bounds[i - 1]) {
        throw ValueError(
            fmt::format("[BucketSampler] bounds: expected growing ones, got {} behind {}", bounds[i], bounds[i - 1]));
      }
    }
    if (bounds.empty() || bounds.back() < longest) {
      throw ValueError(
          fmt::format("[BucketSampler] bounds: expected a last one of at least {}, the longest sample, got {}", longest,
                      bounds.empty() ? "none" : std::to_string(bounds.back())));
    }
    buckets_.resize(bounds.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto at = std::ranges::lower_bound(bounds, lengths[i]) - bounds.begin();
      buckets_[size_t(at)].samples.push_back(int64_t(i));
    }
    for (size_t b = 0; b < bounds.size(); ++b) {
      const double more =
          options.ratio * double(batch_size) * double(bounds.back()) / double(std::max<int64_t>(bounds[b], 1));
      buckets_[b].batch_size = std::max(batch_size, int64_t(std::min(more, 2147483647.0)));
    }
  }

  int64_t size(uint64_t) const override {
    int64_t batches = 0;
    for (const Bucket& b : buckets_) {
      batches += (int64_t(b.samples.size()) + (options_.drop_last ? 0 : b.batch_size - 1)) / b.batch_size;
    }
    return batches;
  }

  EpochBatches batches(uint64_t epoch) const override {
    std::vector<std::vector<int64_t>> all;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      std::vector<int64_t> samples = shuffled(buckets_[b].samples, epoch, b + 1);
      const size_t step = size_t(buckets_[b].batch_size);
      for (size_t begin = 0; begin < samples.size(); begin += step) {
        const size_t end = std::min(begin + step, samples.size());
        if (end - begin < step && options_.drop_last) break;
        all.emplace_back(samples.begin() + std::ptrdiff_t(begin), samples.begin() + std::ptrdiff_t(end));
      }
    }
    return EpochBatches(shuffled(std::move(all), epoch, 0));
  }

 private:
  struct Bucket {
    std::vector<int64_t> samples;
    int64_t batch_size = 1;
  };
  // Streams of the same seed for the buckets and for the batches: epochs that no other sampler has.
  template <class T>
  std::vector<T> shuffled(std::vector<T> items, uint64_t epoch, uint64_t stream) const {
    if (!options_.shuffle) return items;
    const uint64_t own = epoch * (uint64_t(buckets_.size()) + 1) + stream;
    std::vector<T> order;
    for (int64_t i : RandomSampler(int64_t(items.size()), options_.seed).indices(own))
      order.push_back(std::move(items[size_t(i)]));
    return order;
  }
  BucketOptions options_;
  std::vector<Bucket> buckets_;
};

}  // namespace

EpochBatches::EpochBatches(std::vector<int64_t> indices, int64_t batch_size) : indices_(std::move(indices)) {
  for (size_t begin = 0; begin < indices_.size(); begin += size_t(batch_size)) begins_.push_back(begin);
  begins_.push_back(indices_.size());
}

EpochBatches::EpochBatches(const std::vector<std::vector<int64_t>>& batches) : begins_{0} {
  for (const auto& batch : batches) {
    indices_.insert(indices_.end(), batch.begin(), batch.end());
    begins_.push_back(indices_.size());
  }
}

std::span<const int64_t> EpochBatches::operator[](int64_t batch) const {
  const size_t begin = begins_[size_t(batch)];
  return std::span(indices_).subspan(begin, begins_[size_t(batch) + 1] - begin);
}

BatchSampler::BatchSampler(std::shared_ptr<const BatchSamplerSource> source) : source_(std::move(source)) {
  if (!source_) throw ValueError("[BatchSampler] expected a source of batches, got none");
}

BatchSampler::BatchSampler(Sampler sampler, int64_t batch_size, LastBatch last_batch)
    : source_(std::make_shared<FixedSize>(std::move(sampler), checked_batch_size(batch_size, "BatchSampler"),
                                          last_batch)) {}

EpochBatches BatchSampler::batches(uint64_t epoch) const {
  EpochBatches batches = source_->batches(epoch);
  if (batches.size() != size(epoch)) {
    throw ValueError(
        fmt::format("[BatchSampler] expected {} batches for epoch {}, got {}", size(epoch), epoch, batches.size()));
  }
  return batches;
}

BucketSampler::BucketSampler(const std::vector<int64_t>& lengths, int64_t batch_size, const BucketOptions& options)
    : BatchSampler(std::make_shared<Buckets>(lengths, batch_size, options)) {}

}  // namespace kaon::gluon::data
