#include "kaon/gluon/data/internal/loader_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "kaon/engine/profiler.h"
#include "kaon/gluon/data/internal/batch_builder.h"

namespace kaon::gluon::data::detail {

using namespace graph;
namespace {

constexpr const char* span_name = "load_batch";
constexpr const char* span_category = "loader";

// The current exception, with the sample that caused it when it is of Kaon's kinds.
std::exception_ptr error_at(int64_t sample, int64_t batch) {
  std::exception_ptr error = std::current_exception();
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.with_context(fmt::format(" while loading sample {} for batch {}", sample, batch));
  } catch (...) {
    return error;
  }
}

// Whether the current exception is one that a loader may pass over.
bool skipped(int64_t sample, BatchBuilder& builder) {
  try {
    throw;
  } catch (const IoError& e) {
    builder.skip(sample, e.what());
    return true;
  } catch (...) {
    return false;
  }
}

// co_await: resumes on the coroutine's own executor, on whichever thread the last await has left it.
class ReturnAwaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  void await_suspend(std::coroutine_handle<P> caller) {
    caller.promise().executor()->post(caller);
  }
  void await_resume() const noexcept {}
};

}  // namespace

LoaderPipeline::LoaderPipeline(Dataset dataset, EpochBatches batches, uint64_t epoch, const LoaderOptions& options,
                               BatchifyFunction batchify)
    : dataset_(std::move(dataset)),
      batches_(std::move(batches)),
      seed_(options.seed),
      epoch_(epoch),
      device_(options.device),
      workers_(options.workers),
      skips_corrupt_(options.skip_corrupt),
      batchify_(std::move(batchify)),
      engine_(Engine::current().ref()),
      ring_(size_t(std::clamp<int64_t>(options.prefetch > 0 ? options.prefetch : 2 * options.workers, 1,
                                       std::max<int64_t>(1, batches_.size())))) {
  idle_.reserve(size_t(workers_));  // a worker that finds no room waits without fail
}

void LoaderPipeline::start(const std::shared_ptr<LoaderPipeline>& self) {
  const int64_t count = std::min<int64_t>(self->workers_, self->size());
  self->workers_left_ = int(count);
  for (int64_t i = 0; i < count; ++i) spawn(work(Worker(self)), self->engine_->io_executor());
}

Task<void> LoaderPipeline::work(Worker given) {
  LoaderPipeline* const self = &*given;
  for (;;) {
    const int64_t batch = self->claim();
    if (batch == ended) co_return;
    if (batch == no_room) {
      try {
        co_await RoomAwaiter(*self);
      } catch (const std::bad_alloc&) {  // no memory to give way to other coroutines first: claims again at once
      } catch (const MemoryError&) {
      }
      continue;
    }
    std::optional<Batch> result;
    std::exception_ptr error;
    try {
      TraceSpan span(self->engine_->profiler(), span_name, span_category);
      if (self->dataset_.is_async()) {
        result = co_await self->load_async(batch);
      } else {
        result = self->load(batch);
      }
    } catch (...) {
      error = std::current_exception();
    }
    self->deliver(batch, std::move(result), std::move(error));
  }
}

SampleRandom LoaderPipeline::random_of(int64_t sample) const {
  if (sample < 0 || sample >= dataset_.size()) {
    throw IndexError(fmt::format("[DataLoader] the sampler gave index {} for {} samples", sample, dataset_.size()));
  }
  return SampleRandom(seed_, epoch_, sample);
}

Batch LoaderPipeline::finish(BatchBuilder& builder, int64_t batch) const {
  try {
    return builder.finish();
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(fmt::format(" while making batch {}", batch)));
  }
}

std::optional<Batch> LoaderPipeline::load(int64_t batch) {
  const auto samples = batches_[batch];
  BatchBuilder builder(int64_t(samples.size()), engine_, device_, batchify_);
  for (int64_t sample : samples) {
    if (cancelled_.load(std::memory_order_relaxed)) return std::nullopt;  // only a hint: cancel() waits for us
    try {
      SampleRandom random = random_of(sample);
      builder.add(dataset_.node().get(sample, random));
    } catch (...) {
      if (!skips_corrupt_ || !skipped(sample, builder)) std::rethrow_exception(error_at(sample, batch));
    }
  }
  return finish(builder, batch);
}

Task<std::optional<Batch>> LoaderPipeline::load_async(int64_t batch) {
  const auto samples = batches_[batch];
  BatchBuilder builder(int64_t(samples.size()), engine_, device_, batchify_);
  for (int64_t sample : samples) {
    if (cancelled_.load(std::memory_order_relaxed)) co_return std::nullopt;
    try {
      SampleRandom random = random_of(sample);
      Sample loaded = co_await dataset_.node().load(sample, random);
      builder.add(std::move(loaded));
    } catch (...) {
      if (!skips_corrupt_ || !skipped(sample, builder)) std::rethrow_exception(error_at(sample, batch));
    }
  }
  co_return finish(builder, batch);
}

Task<Batch> LoaderPipeline::load_here(int64_t batch) {
  engine_->check_not_gone("DataLoader");
  std::optional<Batch> result;
  {
    TraceSpan span(engine_->profiler(), span_name, span_category);
    if (dataset_.is_async()) {
      result = co_await load_async(batch);
    } else {
      result = load(batch);
    }
  }
  if (dataset_.is_async()) co_await ReturnAwaiter();
  co_return std::move(*result);
}

int64_t LoaderPipeline::claim() {
  std::vector<std::coroutine_handle<>> unneeded;
  int64_t batch = ended;
  {
    std::lock_guard lock(mutex_);
    if (!cancelled_ && next_ < size()) {
      if (!has_room()) return no_room;
      batch = next_++;
      if (!dataset_.is_async()) ++decoding_;
      if (next_ == size()) unneeded.swap(idle_);  // nothing will be left for them
    }
  }
  for (auto worker : unneeded) post_surely(engine_->io_executor(), worker);
  return batch;
}

void LoaderPipeline::deliver(int64_t batch, std::optional<Batch> result, std::exception_ptr error) {
  std::coroutine_handle<> resumed;
  Executor* executor = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!dataset_.is_async() && --decoding_ == 0) quiet_.notify_all();
    if (cancelled_) return;
    Place& p = place(batch);
    p.batch = std::move(result);
    p.error = std::move(error);
    p.filled = true;
    if (batch == delivered_ && consumer_) {
      resumed = std::exchange(consumer_, {});
      executor = consumer_executor_;
    }
  }
  if (resumed) post_surely(*executor, resumed);
}

void LoaderPipeline::worker_ended() noexcept {
  std::coroutine_handle<> resumed;
  {
    std::lock_guard lock(mutex_);
    if (--workers_left_ > 0 || cancelled_ || next_ >= size()) return;
    is_stranded_ = true;
    resumed = std::exchange(consumer_, {});
  }
  if (resumed) post_surely(*consumer_executor_, resumed);
}

bool LoaderPipeline::wait_as_worker(std::coroutine_handle<> worker) {
  std::lock_guard lock(mutex_);
  if (cancelled_ || next_ >= size() || has_room()) return false;
  idle_.push_back(worker);
  return true;
}

bool LoaderPipeline::wait_as_consumer(std::coroutine_handle<> consumer, Executor* executor) {
  std::lock_guard lock(mutex_);
  if (place(delivered_).filled || is_stranded_) return false;
  consumer_ = consumer;
  consumer_executor_ = executor;
  return true;
}

Batch LoaderPipeline::take_now() {
  engine_->check_not_gone("DataLoader");
  Place taken;
  std::coroutine_handle<> worker;
  {
    std::lock_guard lock(mutex_);
    if (!place(delivered_).filled) {
      throw MemoryError(fmt::format("[DataLoader] no worker got the memory to load batch {}", delivered_));
    }
    std::swap(taken, place(delivered_));
    ++delivered_;
    if (!taken.error && !idle_.empty() && has_room()) {
      worker = idle_.back();
      idle_.pop_back();
    }
  }
  if (worker) post_surely(engine_->io_executor(), worker);
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(*taken.batch);
}

void LoaderPipeline::cancel() noexcept {
  Engine& engine = *engine_;
  const bool has_ended = &engine == &Engine::ended();
  // A forked child does not have the workers, one of which may have held the lock.
  if (engine.is_gone() && !has_ended) return;
  std::vector<std::coroutine_handle<>> idle;
  {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    consumer_ = {};
    idle.swap(idle_);
  }
  for (auto worker : idle) {
    if (has_ended) {
      resume_coroutine(worker);  // it ends
    } else {
      post_surely(engine.io_executor(), worker);
    }
  }
  std::unique_lock lock(mutex_);
  quiet_.wait(lock, [this] { return decoding_ == 0; });
}

}  // namespace kaon::gluon::data::detail
