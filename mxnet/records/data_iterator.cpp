#include "kaon/mxnet/records/data_iterator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/sampler.h"

namespace kaon::mxnet {

using namespace gluon::data;

namespace {

// One epoch, whose batches are known.
class KnownBatches final : public BatchSamplerSource {
 public:
  explicit KnownBatches(std::vector<std::vector<int64_t>> batches) : batches_(std::move(batches)) {}
  int64_t size(uint64_t) const override { return int64_t(batches_.size()); }
  EpochBatches batches(uint64_t) const override { return EpochBatches(batches_); }

 private:
  std::vector<std::vector<int64_t>> batches_;
};

}  // namespace

DataIterator::DataIterator(Dataset dataset, const BatchOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (options.batch_size < 1) {
    throw ValueError(fmt::format("batch_size: expected a positive number, got {}", options.batch_size));
  }
}

std::vector<int64_t> DataIterator::pass(uint64_t number) const {
  if (options_.shuffles) return RandomSampler(dataset_.size(), options_.seed).indices(number);
  return SequentialSampler(dataset_.size()).indices(0);
}

void DataIterator::begin() {
  const int64_t size = options_.batch_size;
  std::vector<int64_t> samples = pass(pass_);
  samples.erase(samples.begin(), samples.begin() + start_);
  const int64_t pad = (size - int64_t(samples.size()) % size) % size;
  start_ = 0;
  ++pass_;
  if (pad > 0 && options_.drops_last) {
    samples.resize(samples.size() - size_t(size - pad));
  } else if (pad > 0 && options_.round_batch) {
    const std::vector<int64_t> following = pass(pass_);
    if (pad > int64_t(following.size())) {
      throw ValueError(
          fmt::format("batch_size: expected at most the number of samples, {}, got {}", following.size(), size));
    }
    samples.insert(samples.end(), following.begin(), following.begin() + pad);
    start_ = pad;
  } else if (pad > 0 && !samples.empty()) {
    // the rest of the batch before, in the place that it had there
    for (int64_t i = 0; i < pad; ++i) {
      const int64_t at = int64_t(samples.size()) - size;
      samples.push_back(samples[size_t(std::max<int64_t>(at, 0))]);
    }
  }
  std::vector<std::vector<int64_t>> batches;
  for (size_t at = 0; at < samples.size(); at += size_t(size)) {
    batches.emplace_back(samples.begin() + int64_t(at), samples.begin() + int64_t(at) + size);
  }
  pads_.assign(batches.size(), 0);
  if (!pads_.empty() && !options_.drops_last) pads_.back() = int(pad);
  const LoaderOptions loading{
      .workers = options_.workers, .prefetch = std::max(options_.prefetch, 1), .seed = options_.seed};
  const DataLoader loader(dataset_, BatchSampler(std::make_shared<KnownBatches>(std::move(batches))), loading);
  batches_.emplace(loader.batches(epoch_++));
}

bool DataIterator::next() {
  if (is_at_end_) return false;
  ++batch_;
  if (!batches_) {
    begin();
    at_.emplace(batches_->begin());
  } else {
    ++*at_;
  }
  index_.clear();
  is_at_end_ = !(*at_ != std::default_sentinel);
  return !is_at_end_;
}

void DataIterator::before_first() {
  if (batches_ && !is_at_end_) start_ = 0;  // an epoch that was left early is not continued
  at_.reset();
  batches_.reset();
  batch_ = -1;
  is_at_end_ = false;
}

const Batch& DataIterator::current() const {
  if (!at_ || is_at_end_) throw StateError("the iterator has no current batch: expected a next() that gave one");
  return **at_;
}

const std::vector<uint64_t>& DataIterator::index() {
  const Batch& batch = current();
  if (index_.empty() && batch.num_arrays() > 2) {
    for (const int64_t i : batch[2].asvector<int64_t>()) index_.push_back(uint64_t(i));
  }
  return index_;
}

Part part_of(const IteratorAttributes& attributes, int64_t samples) {
  const int64_t parts = attributes.integer("num_parts"), index = attributes.integer("part_index");
  if (parts < 1) attributes.fail("num_parts", fmt::format("expected a positive number, got {}", parts));
  if (index < 0 || index >= parts) {
    attributes.fail("part_index", fmt::format("expected a number from 0 to {}, got {}", parts - 1, index));
  }
  return {samples * index / parts, samples * (index + 1) / parts};
}

BatchOptions batch_options(const IteratorAttributes& attributes) {
  BatchOptions options{.batch_size = attributes.integer("batch_size")};
  if (options.batch_size < 1) {
    attributes.fail("batch_size", fmt::format("expected a positive number, got {}", options.batch_size));
  }
  if (attributes.has("round_batch")) options.round_batch = attributes.flag("round_batch");
  if (attributes.has("prefetch_buffer")) {
    options.prefetch = int(std::clamp<int64_t>(attributes.integer("prefetch_buffer"), 1, 64));
  }
  return options;
}

}  // namespace kaon::mxnet
