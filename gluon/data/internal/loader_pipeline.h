// LoaderPipeline: the coroutines that load the batches of one epoch ahead of their consumer. Internal to DataLoader.
#pragma once

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kaon/engine/await.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/data_loader.h"

namespace kaon::gluon::data::detail {

class BatchBuilder;

// How it works. Worker coroutines on the io pool claim batch numbers in order, load, and store the batch or its error
// in the batch's place of a ring as long as the prefetch window. The consumer takes the places in order, so neither
// order nor errors depend on the number of workers. A worker that finds the window full suspends until the consumer
// takes a batch; a consumer that finds its batch missing suspends until it is delivered. Only cancel() blocks a thread.
// A worker that gets no memory to begin or to continue ends; after the last one has, the consumer gets MemoryError.
// Owned by the generator and by its workers. Thread safety: any thread; one consumer.
class LoaderPipeline {
 public:
  LoaderPipeline(Dataset dataset, EpochBatches batches, uint64_t epoch, const LoaderOptions& options,
                 BatchifyFunction batchify);

  // Starts the workers on the io pool of the current engine.
  static void start(const std::shared_ptr<LoaderPipeline>& self);
  // Ends the workers. Blocks until the samples that other threads are decoding are done. Pending samples of an
  // asynchronous dataset end later and are dropped.
  void cancel() noexcept;

  int64_t size() const { return batches_.size(); }
  bool is_inline() const { return workers_ == 0; }

  // For the consumer: the next batch. Throws what its loading threw.
  class TakeAwaiter {
   public:
    explicit TakeAwaiter(LoaderPipeline& pipeline) : pipeline_(pipeline) {}
    bool await_ready() const noexcept { return false; }
    template <engine::HasExecutor P>
    bool await_suspend(std::coroutine_handle<P> caller) {
      return pipeline_.wait_as_consumer(caller, caller.promise().executor());
    }
    Batch await_resume() { return pipeline_.take_now(); }

   private:
    LoaderPipeline& pipeline_;
  };
  TakeAwaiter take() { return TakeAwaiter(*this); }
  // Without workers: loads the batch in the consumer's coroutine.
  Task<Batch> load_here(int64_t batch);

 private:
  static constexpr int64_t ended = -1, no_room = -2;
  struct Place {
    bool filled = false;
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  class RoomAwaiter {
   public:
    explicit RoomAwaiter(LoaderPipeline& pipeline) : pipeline_(pipeline) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> worker) { return pipeline_.wait_as_worker(worker); }
    void await_resume() const noexcept {}

   private:
    LoaderPipeline& pipeline_;
  };

  // In the frame of each worker: counts it as ended with the frame, also where it has never begun.
  class Worker {
   public:
    explicit Worker(std::shared_ptr<LoaderPipeline> pipeline) : pipeline_(std::move(pipeline)) {}
    Worker(Worker&&) noexcept = default;
    Worker& operator=(Worker&&) = delete;
    ~Worker() {
      if (pipeline_) pipeline_->worker_ended();
    }
    LoaderPipeline& operator*() const { return *pipeline_; }

   private:
    std::shared_ptr<LoaderPipeline> pipeline_;
  };

  static Task<void> work(Worker given);
  std::optional<Batch> load(int64_t batch);  // synchronous dataset; nothing when cancelled
  Task<std::optional<Batch>> load_async(int64_t batch);
  Batch finish(BatchBuilder& builder, int64_t batch) const;
  SampleRandom random_of(int64_t sample) const;  // throws IndexError for a sampler's bad index

  int64_t claim();  // a batch number, ended or no_room
  void deliver(int64_t batch, std::optional<Batch> result, std::exception_ptr error);
  void worker_ended() noexcept;
  bool wait_as_worker(std::coroutine_handle<> worker);
  bool wait_as_consumer(std::coroutine_handle<> consumer, Executor* executor);
  Batch take_now();
  bool has_room() const { return next_ < size() && next_ < delivered_ + int64_t(ring_.size()); }
  Place& place(int64_t batch) { return ring_[size_t(batch) % ring_.size()]; }

  const Dataset dataset_;
  const EpochBatches batches_;
  const uint64_t seed_, epoch_;
  const Device device_;
  const int workers_;
  const bool skips_corrupt_;
  const BatchifyFunction batchify_;
  engine::EngineRef engine_;
  std::atomic<bool> cancelled_{false};

  std::mutex mutex_;  // guards all below
  std::vector<Place> ring_;
  int64_t next_ = 0;          // first batch that no worker has claimed
  int64_t delivered_ = 0;     // batches that the consumer has taken
  int workers_left_ = 0;      // workers that have not ended
  bool is_stranded_ = false;  // all workers have ended before all batches were loaded
  int decoding_ = 0;          // threads inside a synchronous dataset
  std::condition_variable quiet_;
  std::vector<std::coroutine_handle<>> idle_;  // workers that wait for room
  std::coroutine_handle<> consumer_;           // waits for batch `delivered_`
  Executor* consumer_executor_ = nullptr;
};

}  // namespace kaon::gluon::data::detail
