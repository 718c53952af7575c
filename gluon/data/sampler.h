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

// The samples that do not fill a batch at the end of an epoch make a smaller batch, are left out, or begin the next
// epoch.
enum class LastBatch : uint8_t { keep, discard, rollover };

// The batches of one epoch.
class EpochBatches {
 public:
  EpochBatches(std::vector<int64_t> indices, int64_t batch_size)
      : indices_(std::move(indices)), batch_size_(batch_size) {}
  int64_t size() const { return (int64_t(indices_.size()) + batch_size_ - 1) / batch_size_; }  // batches
  std::span<const int64_t> operator[](int64_t batch) const;  // the samples of a batch in [0, size())

 private:
  std::vector<int64_t> indices_;
  int64_t batch_size_;
};

// A value. Under rollover the samples that an epoch begins with follow from the epoch's number, whichever epochs were
// visited before. Thread safety: immutable; any thread.
class BatchSampler {
 public:
  // Throws ValueError when batch_size is not in [1, 2^31).
  BatchSampler(Sampler sampler, int64_t batch_size, LastBatch last_batch = LastBatch::keep);
  int64_t size(uint64_t epoch = 0) const;  // batches in that epoch
  EpochBatches batches(uint64_t epoch) const;

 private:
  int64_t rolled_over(uint64_t epoch) const;  // samples that earlier epochs leave to this one
  Sampler sampler_;
  int64_t batch_size_;
  LastBatch last_batch_;
};

}  // namespace gluon::data
}  // namespace kaon
