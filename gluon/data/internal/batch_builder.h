// BatchBuilder: copies samples into the arrays of a batch.
#pragma once

#include <cstdint>

#include "kaon/engine/engine.h"
#include "kaon/gluon/data/data_loader.h"

namespace kaon::gluon::data {

namespace detail {

// Copies each sample into the memory of the batch's arrays, which no other thread knows yet.
class BatchBuilder {
 public:
  BatchBuilder(int64_t count, engine::EngineRef engine, Device device)
      : count_(count), engine_(engine), device_(device) {}
  // All samples must have the shape and dtype of the first: else throws ShapeError, TypeError. ValueError for no data.
  void add(const Sample& sample);
  Batch finish();  // after `count` samples

 private:
  struct Column {
    NDArray array;
    std::byte* memory = nullptr;
    Shape shape;
  };
  void add(Column& column, const HostTensor& value, const char* what);
  int64_t count_;
  int64_t added_ = 0;
  const engine::EngineRef engine_;
  const Device device_;
  Column data_, label_;
};

}  // namespace detail
}  // namespace kaon::gluon::data
