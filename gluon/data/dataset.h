// Dataset: samples by index, and transformed, filtered or sharded datasets; the random numbers of one sample.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/host_tensor.h"

namespace KAON_API kaon {
namespace gluon::data {

// A stream of numbers that depends on (seed, epoch, index of the sample) only: not on the thread that draws, nor on the
// draws for other samples. Thread safety: unsafe; each sample has its own.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, int64_t index);

  uint32_t word();                                               // 32 random bits
  float uniform();                                               // in [0, 1)
  bool chance(double p) { return double(word()) < p * 0x1p32; }  // true with probability p
  int64_t below(int64_t range);                                  // uniform in [0, range)

 private:
  uint64_t key_ = 0;
  uint64_t index_;
  uint64_t used_ = 0;
  uint32_t block_[4]{};
};

// Derive from one of these two for a new kind of dataset. A loader calls get() on several threads of the engine's io
// pool at once. It works on plain memory: nothing is pushed to the engine.
class DatasetSource {
 public:
  virtual ~DatasetSource() = default;
  virtual int64_t size() const = 0;
  virtual Sample get(int64_t index) const = 0;
};

// For samples whose loading waits: a coroutine suspended on a timer or a socket holds no thread.
class AsyncDatasetSource {
 public:
  virtual ~AsyncDatasetSource() = default;
  virtual int64_t size() const = 0;
  virtual Task<Sample> get(int64_t index) const = 0;
};

namespace detail {

// The object behind a Dataset. A node overrides get() or, when it is asynchronous, load().
class DatasetNode {
 public:
  virtual ~DatasetNode() = default;
  virtual int64_t size() const = 0;
  virtual bool is_async() const { return false; }
  virtual Sample get(int64_t index, SampleRandom& random) const;
  virtual Task<Sample> load(int64_t index, SampleRandom& random) const;
};

using SampleFn = std::function<Sample(Sample, SampleRandom&)>;
using IndexFn = std::function<Sample(int64_t)>;
using AsyncIndexFn = std::function<Task<Sample>(int64_t)>;

template <class F>
concept SampleTransform =
    std::is_invocable_r_v<Sample, F&, Sample, SampleRandom&> || std::is_invocable_r_v<Sample, F&, Sample>;
template <class F>
concept TensorTransform = std::is_invocable_r_v<HostTensor, F&, HostTensor, SampleRandom&> ||
    std::is_invocable_r_v<HostTensor, F&, HostTensor>;

}  // namespace detail

// A handle: a copy is the same dataset. Only get() of an asynchronous one and filter() block. Thread safety: immutable;
// any thread.
class Dataset {
 public:
  // Throw ValueError for a negative size and for a source or callable that is empty.
  explicit Dataset(std::shared_ptr<const DatasetSource> source);
  explicit Dataset(std::shared_ptr<const AsyncDatasetSource> source);
  template <class S>
    requires(std::derived_from<S, DatasetSource>)
  Dataset(S source) : Dataset(std::shared_ptr<const DatasetSource>(std::make_shared<S>(std::move(source)))) {}
  template <class S>
    requires(std::derived_from<S, AsyncDatasetSource>)
  Dataset(S source) : Dataset(std::shared_ptr<const AsyncDatasetSource>(std::make_shared<S>(std::move(source)))) {}
  // A callable int64_t -> Sample, or a coroutine int64_t -> Task<Sample>; kept as long as the dataset.
  template <class F>
    requires(std::is_invocable_r_v<Sample, F&, int64_t>)
  Dataset(int64_t size, F get) : Dataset(size, detail::IndexFn(std::move(get))) {}
  template <class F>
    requires(std::is_invocable_r_v<Task<Sample>, F&, int64_t>)
  Dataset(int64_t size, F get) : Dataset(size, detail::AsyncIndexFn(std::move(get))) {}
  Dataset(int64_t size, detail::IndexFn get);
  Dataset(int64_t size, detail::AsyncIndexFn get);

  int64_t size() const { return node_->size(); }
  bool is_async() const { return node_->is_async(); }
  // Sample `index`. Blocks when the dataset is asynchronous. Throws IndexError, and what source and transforms throw.
  // Random transforms draw as in epoch 0 of seed 0.
  Sample get(int64_t index) const;

  // A dataset whose samples go through fn, Sample -> Sample, whenever they are loaded. A second parameter SampleRandom&
  // of fn gets the sample's own random numbers. fn is called from several threads at once.
  template <detail::SampleTransform F>
  Dataset transform(F fn) const {
    if constexpr (std::is_invocable_r_v<Sample, F&, Sample, SampleRandom&>) {
      return transform_sample(std::move(fn));
    } else {
      return transform_sample([fn = std::move(fn)](Sample s, SampleRandom&) mutable { return fn(std::move(s)); });
    }
  }
  // The same for the data alone: HostTensor -> HostTensor.
  template <detail::TensorTransform F>
  Dataset transform_first(F fn) const {
    return transform_sample([fn = std::move(fn)](Sample s, SampleRandom& random) mutable {
      if constexpr (std::is_invocable_r_v<HostTensor, F&, HostTensor, SampleRandom&>) {
        s.data = fn(std::move(s.data), random);
      } else {
        s.data = fn(std::move(s.data));
      }
      return s;
    });
  }

  // The samples that satisfy `keep`. Blocks: loads every sample once at the call.
  Dataset filter(const std::function<bool(const Sample&)>& keep) const;
  // Part `index` of `num_shards` consecutive parts; the first size() % num_shards parts are longer by one. Throws
  // ValueError.
  Dataset shard(int64_t num_shards, int64_t index) const;
  Dataset take(int64_t count) const;                   // the first `count`, or all; ValueError for a negative count
  Dataset subset(std::vector<int64_t> indices) const;  // samples in this order; throws IndexError

  const detail::DatasetNode& node() const { return *node_; }

 protected:
  explicit Dataset(std::shared_ptr<const detail::DatasetNode> node) : node_(std::move(node)) {}

 private:
  Dataset transform_sample(detail::SampleFn fn) const;
  std::shared_ptr<const detail::DatasetNode> node_;
};

// Sample i is row i of each array. Arrays are copied, which blocks and throws their failures. Throws ShapeError when
// lengths differ or an array has no dimensions.
class ArrayDataset : public Dataset {
 public:
  explicit ArrayDataset(const NDArray& data);
  ArrayDataset(const NDArray& data, const NDArray& label);
  explicit ArrayDataset(HostTensor data, HostTensor label = HostTensor());
};

}  // namespace gluon::data
}  // namespace kaon
