// BatchBuilder: what becomes of the samples of a batch while they are loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kaon/engine/engine.h"
#include "kaon/gluon/data/batchify.h"
#include "kaon/gluon/data/internal/stacked_rows.h"

namespace kaon::gluon::data {

namespace detail {

// Copies each sample into the memory of the batch's arrays, or keeps it for a batchify function.
class BatchBuilder {
 public:
  BatchBuilder(int64_t count, engine::EngineRef engine, Device device, const BatchifyFunction& batchify)
      : count_(count), engine_(engine), device_(device), batchify_(batchify) {}
  // ValueError for no data. Without a batchify function all samples must have arrays like the first: else throws
  // ShapeError, TypeError.
  void add(Sample sample);
  void skip(int64_t index, std::string reason) { skipped_.push_back({index, std::move(reason)}); }
  Batch finish();  // once, after `count` samples; throws what the batchify function throws

 private:
  Batch assemble();
  const int64_t count_;
  int64_t added_ = 0;
  const engine::EngineRef engine_;
  const Device device_;
  const BatchifyFunction& batchify_;
  std::vector<Sample> samples_;  // for batchify_
  std::vector<StackedRows> columns_;
  Sample::Names names_;
  std::vector<SkippedSample> skipped_;
};

}  // namespace detail
}  // namespace kaon::gluon::data
