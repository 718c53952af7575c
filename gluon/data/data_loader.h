// DataLoader: batches of a dataset, loaded ahead on the engine's io pool while the program computes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/engine/generator.h"
#include "kaon/gluon/data/batchify.h"
#include "kaon/gluon/data/dataset.h"
#include "kaon/gluon/data/sampler.h"

namespace KAON_API kaon {
namespace gluon::data {

struct LoaderOptions {
  int64_t batch_size = 0;  // must be given, unless there is a BatchSampler
  bool shuffle = false;    // another order each epoch
  LastBatch last_batch = LastBatch::keep;
  int workers = 2;    // batches that are loaded at a time (decoded: EngineOptions::io_threads); 0: inside next()
  int prefetch = 0;   // batches ready or being loaded ahead of the program; 0: two per worker
  Device device{};    // batches are copied to it as soon as they are loaded
  uint64_t seed = 0;  // of order and augmentation; batches depend on it and on the epoch, never on `workers`
  // Leaves samples whose loading throws IoError, such as damaged images, out of their batches, which are smaller then,
  // and says so in Batch::skipped; a batch of none is left out. The first error is thrown at the end of an epoch that
  // had no sample.
  bool skip_corrupt = false;
};
static_assert(std::is_trivially_destructible_v<LoaderOptions>);

// A range over the batches of one epoch for plain code: for (Batch& batch : loader.sync()). begin() and ++ block until
// the next batch is loaded, helping the engine, and throw what its loading threw. Thread safety: unsafe.
class SyncBatches {
 public:
  explicit SyncBatches(AsyncGenerator<Batch> batches) : batches_(std::move(batches)) {}
  class Iterator {
   public:
    explicit Iterator(SyncBatches* range) : range_(range) {}
    Batch& operator*() const { return *range_->batch_; }
    Batch* operator->() const { return &*range_->batch_; }
    Iterator& operator++() {
      range_->advance();
      return *this;
    }
    bool operator!=(std::default_sentinel_t) const { return range_->batch_.has_value(); }

   private:
    SyncBatches* range_;
  };
  Iterator begin() {
    advance();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  void advance();
  AsyncGenerator<Batch> batches_;
  std::optional<Batch> batch_;
};

// A handle: a copy is the same loader. Batches come in the sampler's order, and the next() that would have given a
// batch throws the error of its samples, whatever the number of workers. At most `prefetch` batches are held.
// Destroying the generator stops the loading: it blocks until the samples that are being decoded are done; asynchronous
// samples end later and are dropped. Nothing else blocks. Thread safety: any thread; each generator on one thread.
class DataLoader {
 public:
  // Throw ValueError for options that are out of range or exclude each other, DeviceError for a missing device.
  DataLoader(Dataset dataset, const LoaderOptions& options, BatchifyFunction batchify_fn = {});
  DataLoader(Dataset dataset, BatchSampler batches, const LoaderOptions& options = {},
             BatchifyFunction batchify_fn = {});

  // The batches of the next epoch: 0, 1, ... Loading starts at the call, on the current engine. Throws ValueError when
  // the sampler gives a wrong number of indices.
  AsyncGenerator<Batch> batches() const;
  AsyncGenerator<Batch> batches(uint64_t epoch) const;         // of that epoch; the next epoch does not change
  SyncBatches sync() const { return SyncBatches(batches()); }  // batches() for plain code

  int64_t size() const;         // batches in the next epoch
  uint64_t next_epoch() const;  // the epoch of the next batches()
  void set_next_epoch(uint64_t epoch) const;
  const LoaderOptions& options() const;
  const Dataset& dataset() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gluon::data
}  // namespace kaon
