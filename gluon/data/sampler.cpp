#include "kaon/gluon/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
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

std::span<const int64_t> EpochBatches::operator[](int64_t batch) const {
  const size_t begin = size_t(batch * batch_size_);
  return std::span(indices_).subspan(begin, std::min(size_t(batch_size_), indices_.size() - begin));
}

BatchSampler::BatchSampler(Sampler sampler, int64_t batch_size, LastBatch last_batch)
    : sampler_(std::move(sampler)), batch_size_(batch_size), last_batch_(last_batch) {
  if (batch_size < 1 || batch_size > INT32_MAX) {
    throw ValueError(fmt::format("[BatchSampler] batch_size: expected at least 1, got {}", batch_size));
  }
}

int64_t BatchSampler::rolled_over(uint64_t epoch) const {
  if (last_batch_ != LastBatch::rollover) return 0;
  // the remainder of epoch * size samples after whole batches
  const uint64_t b = uint64_t(batch_size_);
  return int64_t((epoch % b) * (uint64_t(sampler_.size()) % b) % b);
}

int64_t BatchSampler::size(uint64_t epoch) const {
  const int64_t n = sampler_.size() + rolled_over(epoch);
  return last_batch_ == LastBatch::keep ? (n + batch_size_ - 1) / batch_size_ : n / batch_size_;
}

EpochBatches BatchSampler::batches(uint64_t epoch) const {
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

}  // namespace kaon::gluon::data
