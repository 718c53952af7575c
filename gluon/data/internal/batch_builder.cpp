#include "kaon/gluon/data/internal/batch_builder.h"

#include <fmt/format.h>

#include <utility>

namespace kaon::gluon::data::detail {

void BatchBuilder::add(Sample sample) {
  if (!sample.data.defined()) throw ValueError("[DataLoader] a sample has no data");
  if (batchify_) {
    samples_.push_back(std::move(sample));
    ++added_;
    return;
  }
  if (added_ == 0) {
    EngineScope scope(*engine_);
    for (size_t i = 0; i < sample.num_arrays(); ++i) columns_.emplace_back(count_, sample[i]);
    names_ = sample.names;
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].add(i < sample.num_arrays() ? sample[i] : HostTensor(), name_of_array(i, names_.get()));
  }
  if (sample.num_arrays() > columns_.size()) {
    const size_t i = columns_.size();
    throw ShapeError(fmt::format("[DataLoader] the samples of a batch must agree in {}: expected none, got shape {}",
                                 sample.name_of(i), sample[i].shape().str()));
  }
  ++added_;
}

Batch BatchBuilder::assemble() {
  EngineScope scope(*engine_);
  if (added_ == 0) return Batch(NDArray(), NDArray(), 0);
  if (batchify_) return batchify_(std::move(samples_));
  std::vector<NDArray> arrays;
  for (StackedRows& column : columns_) arrays.push_back(column.finish());
  return Batch(std::move(arrays), added_, names_);
}

Batch BatchBuilder::finish() {
  Batch batch = assemble().as_in_context(device_);
  batch.skipped = std::move(skipped_);
  return batch;
}

}  // namespace kaon::gluon::data::detail
