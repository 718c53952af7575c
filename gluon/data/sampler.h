// Samplers: the order of samples in an epoch, and their division into batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace gluon::data {

// Derive from it for a new order.
class SamplerSource {
 public:
  virtual ~SamplerSource() = default;
  virtual int64_t size() const = 0;                                // samples per epoch
  virtual std::vector<int64_t> indices(uint64_t epoch) const = 0;  // size() of them, determined by the epoch alone
};

// A handle. Thread safety: immutable; any thread.
class Sampler {
 public:
  explicit Sampler(std::shared_ptr<const SamplerSource> source);  // throws ValueError when it is null
  int64_t size() const { return source_->size(); }
  // The samples of an epoch in order. Throws ValueError when the source does not give size() of them.
  std::vector<int64_t> indices(uint64_t epoch) const;

 private:
  std::shared_ptr<const SamplerSource> source_;
};

// start, start + 1, ... Throws ValueError for a negative length.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t length, int64_t start = 0);
};

// A permutation of 0 to length - 1 that depends on seed and epoch only. Throws ValueError for a negative length.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t length, uint64_t seed = 0);
};

// Every `interval`-th sample from 0 on, and with `rollover` from 1, 2, ... on until all have come: 0 3 6 1 4 7 2 5 for
// a length of 8 and an interval of 3. Throws ValueError for an interval outside [1, length].
class IntervalSampler : public Sampler {
 public:
  IntervalSampler(int64_t length, int64_t interval, bool rollover = true);
};

struct WeightedOptions {
  bool replacement = true;  // without: no sample comes twice, and what is drawn is struck from the rest
  uint64_t seed = 0;
};
// `num_samples` samples an epoch, drawn with probabilities proportional to the weights, which depend on seed and epoch
// only. Throws ValueError for a weight that is negative or not finite, and for more samples without replacement than
// there are positive weights.
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples, const WeightedOptions& options = {});
};

struct DistributedOptions {
  bool shuffle = true;  // one order for all workers
  uint64_t seed = 0;    // the same for all workers
  bool drop_last = false;
};
// The part of worker `rank` of `num_workers`: every num_workers-th sample of the common order. All parts are as long:
// the first samples of the order come twice where it takes that, or with drop_last the last ones not at all. Throws
// ValueError for a rank outside [0, num_workers).
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t length, int64_t num_workers, int64_t rank, const DistributedOptions& options = {});
  // Of another order; `shuffle` and `seed` do not count.
  DistributedSampler(Sampler order, int64_t num_workers, int64_t rank, const DistributedOptions& options = {});
};

// The samples that do not fill a batch at the end of an epoch make a smaller batch, are left out, or begin the next
// epoch.
enum class LastBatch : uint8_t { keep, discard, rollover };

// The batches of one epoch.
class EpochBatches {
 public:
  EpochBatches(std::vector<int64_t> indices, int64_t batch_size);  // of that size, but for the last one
  explicit EpochBatches(const std::vector<std::vector<int64_t>>& batches);
  int64_t size() const { return int64_t(begins_.size()) - 1; }  // batches
  std::span<const int64_t> operator[](int64_t batch) const;     // the samples of a batch in [0, size())

 private:
  std::vector<int64_t> indices_;
  std::vector<size_t> begins_;  // of each batch in indices_, and their end
};

// Derive from it for another division into batches.
class BatchSamplerSource {
 public:
  virtual ~BatchSamplerSource() = default;
  virtual int64_t size(uint64_t epoch) const = 0;          // batches in that epoch
  virtual EpochBatches batches(uint64_t epoch) const = 0;  // size(epoch) of them, determined by the epoch alone
};

// A handle. Under rollover the samples that an epoch begins with follow from the epoch's number, whichever epochs were
// visited before. Thread safety: immutable; any thread.
class BatchSampler {
 public:
  explicit BatchSampler(std::shared_ptr<const BatchSamplerSource> source);  // throws ValueError when it is null
  // Throws ValueError when batch_size is not in [1, 2^31).
  BatchSampler(Sampler sampler, int64_t batch_size, LastBatch last_batch = LastBatch::keep);
  int64_t size(uint64_t epoch = 0) const { return source_->size(epoch); }
  EpochBatches batches(uint64_t epoch) const;  // throws ValueError when the source does not give size() of them

 private:
  std::shared_ptr<const BatchSamplerSource> source_;
};

struct BucketOptions {
  int64_t num_buckets = 10;           // of one width between the shortest and the longest sample
  std::span<const int64_t> bounds{};  // the largest length of each bucket, in place of num_buckets
  bool shuffle = false;               // the samples of each bucket, and the batches of all, by seed and epoch
  uint64_t seed = 0;
  // A bucket of shorter samples has batches of max(batch_size, ratio * batch_size * longest / its own) samples.
  double ratio = 0;
  bool drop_last = false;  // of each bucket the samples that do not fill a batch
};
// Batches of samples of similar lengths, for padding: a sample is in the first bucket whose bound is not below its
// length. Throws ValueError for no or negative lengths, for options out of range, and for bounds that do not grow or do
// not reach the longest sample.
class BucketSampler : public BatchSampler {
 public:
  BucketSampler(const std::vector<int64_t>& lengths, int64_t batch_size, const BucketOptions& options = {});
};

}  // namespace gluon::data
}  // namespace kaon
