// Batch: arrays of a loader; BatchBuilder: copies samples into them.
#pragma once

#include <cstdint>

#include "kaon/gluon/data/host_tensor.h"
#include "kaon/ops/ndarray.h"

namespace kaon::gluon::data {

// Samples stacked along a new first axis. The arrays are ready: nothing is pending on them, except copies to a GPU.
// `label` is undefined when the dataset has no labels. Thread safety: as NDArray.
class Batch {
 public:
  Batch(NDArray data, NDArray label, int64_t size) : data(std::move(data)), label(std::move(label)), size_(size) {}
  int64_t size() const { return size_; }  // of the last batch of an epoch perhaps fewer than batch_size

  NDArray data;
  NDArray label;

 private:
  int64_t size_;
};

namespace detail {

// Copies each sample into the memory of the batch's arrays, which no other thread knows yet.
class BatchBuilder {
 public:
  BatchBuilder(int64_t count, EngineRef engine, Device device) : count_(count), engine_(engine), device_(device) {}
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
  const EngineRef engine_;
  const Device device_;
  Column data_, label_;
};

}  // namespace detail
}  // namespace kaon::gluon::data
