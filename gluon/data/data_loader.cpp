#include "kaon/gluon/data/data_loader.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "kaon/engine/device/backend.h"
#include "kaon/gluon/data/internal/loader_pipeline.h"

namespace kaon::gluon::data {

using namespace graph;

struct DataLoader::State {
  State(Dataset d, BatchSampler s, const LoaderOptions& o, BatchifyFunction b)
      : dataset(std::move(d)), sampler(std::move(s)), options(o), batchify(std::move(b)) {
    if (o.workers < 0) throw ValueError(fmt::format("[DataLoader] workers: expected at least 0, got {}", o.workers));
    if (o.prefetch < 0) throw ValueError(fmt::format("[DataLoader] prefetch: expected at least 0, got {}", o.prefetch));
    if (o.workers > 1024)
      throw ValueError(fmt::format("[DataLoader] workers: expected at most 1024, got {}", o.workers));
    check_device(o.device, "DataLoader");
  }
  Dataset dataset;
  BatchSampler sampler;
  LoaderOptions options;
  BatchifyFunction batchify;
  std::atomic<uint64_t> epoch{0};
};

namespace {

BatchSampler default_sampler(const Dataset& dataset, const LoaderOptions& o) {
  if (o.batch_size < 1) {
    throw ValueError(fmt::format("[DataLoader] batch_size: expected at least 1, got {}", o.batch_size));
  }
  Sampler order =
      o.shuffle ? Sampler(RandomSampler(dataset.size(), o.seed)) : Sampler(SequentialSampler(dataset.size()));
  return BatchSampler(std::move(order), o.batch_size, o.last_batch);
}

// Cancels the pipeline when the generator is destroyed, started or not.
class PipelineOwner {
 public:
  explicit PipelineOwner(std::shared_ptr<detail::LoaderPipeline> pipeline) : pipeline_(std::move(pipeline)) {}
  PipelineOwner(PipelineOwner&&) noexcept = default;
  PipelineOwner& operator=(PipelineOwner&&) = delete;
  ~PipelineOwner() {
    if (pipeline_) pipeline_->cancel();
  }
  detail::LoaderPipeline& operator*() const { return *pipeline_; }

 private:
  std::shared_ptr<detail::LoaderPipeline> pipeline_;
};

// Batches without samples are left out, and what they skipped is told with the next one.
AsyncGenerator<Batch> deliver(PipelineOwner given) {
  PipelineOwner owner = std::move(given);  // a local: destroyed, and the workers ended, as soon as a batch throws
  detail::LoaderPipeline& pipeline = *owner;
  std::vector<SkippedSample> skipped;
  bool is_empty = true;
  for (int64_t i = 0; i < pipeline.size(); ++i) {
    std::optional<Batch> batch;
    if (pipeline.is_inline()) {
      Batch loaded = co_await pipeline.load_here(i);
      batch = std::move(loaded);
    } else {
      Batch loaded = co_await pipeline.take();
      batch = std::move(loaded);
    }
    skipped.insert(skipped.end(), batch->skipped.begin(), batch->skipped.end());
    if (batch->size() == 0) continue;
    is_empty = false;
    batch->skipped = std::exchange(skipped, {});
    co_yield std::move(*batch);
  }
  if (is_empty && !skipped.empty()) {
    throw IoError(fmt::format("[DataLoader] all {} samples of the epoch were skipped; the first: {}", skipped.size(),
                              skipped[0].reason));
  }
}

Task<std::optional<Batch>> next_of(AsyncGenerator<Batch>& batches) {
  std::optional<Batch> batch = co_await batches.next();
  co_return std::move(batch);
}

}  // namespace

void SyncBatches::advance() {
  batch_.reset();  // its memory may serve the next one
  batch_ = sync_wait(next_of(batches_));
}

DataLoader::DataLoader(Dataset dataset, const LoaderOptions& options, BatchifyFunction batchify_fn) {
  BatchSampler sampler = default_sampler(dataset, options);
  state_ = std::make_shared<State>(std::move(dataset), std::move(sampler), options, std::move(batchify_fn));
}

DataLoader::DataLoader(Dataset dataset, BatchSampler batches, const LoaderOptions& options,
                       BatchifyFunction batchify_fn) {
  if (options.batch_size != 0 || options.shuffle || options.last_batch != LastBatch::keep) {
    throw ValueError(
        "[DataLoader] batch_size, shuffle and last_batch must not be given with a BatchSampler, which decides them");
  }
  state_ = std::make_shared<State>(std::move(dataset), std::move(batches), options, std::move(batchify_fn));
}

AsyncGenerator<Batch> DataLoader::batches() const { return batches(state_->epoch.fetch_add(1)); }

AsyncGenerator<Batch> DataLoader::batches(uint64_t epoch) const {
  auto pipeline = std::make_shared<detail::LoaderPipeline>(state_->dataset, state_->sampler.batches(epoch), epoch,
                                                           state_->options, state_->batchify);
  PipelineOwner owner(pipeline);
  detail::LoaderPipeline::start(pipeline);
  return deliver(std::move(owner));
}

int64_t DataLoader::size() const { return state_->sampler.size(next_epoch()); }
uint64_t DataLoader::next_epoch() const { return state_->epoch.load(); }
void DataLoader::set_next_epoch(uint64_t epoch) const { state_->epoch.store(epoch); }
const LoaderOptions& DataLoader::options() const { return state_->options; }
const Dataset& DataLoader::dataset() const { return state_->dataset; }

}  // namespace kaon::gluon::data
