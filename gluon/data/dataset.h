// Dataset: samples by index, and transformed, filtered or sharded datasets; the random numbers of one sample.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/host_tensor.h"
#include "kaon/gluon/data/sampler.h"

namespace KAON_API kaon {
namespace gluon::data {

// A stream of numbers that depends on (seed, epoch, index of the sample) only: not on the thread that draws, nor on the
// draws for other samples. Thread safety: unsafe; each sample has its own.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, int64_t index);

  uint32_t word();                                               // 32 random bits
  float uniform();                                               // in [0, 1)
  float normal();                                                // of mean 0 and variance 1
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

  // The samples that the sampler gives in its epoch 0, in its order. Throws IndexError.
  Dataset sample(const Sampler& sampler) const { return subset(sampler.indices(0)); }
  // The same samples, with these names of their arrays: batch["length"]. ValueError for one that is empty or comes
  // twice.
  Dataset named(std::vector<std::string> names) const;

  const detail::DatasetNode& node() const { return *node_; }

 protected:
  explicit Dataset(std::shared_ptr<const detail::DatasetNode> node) : node_(std::move(node)) {}

 private:
  Dataset transform_sample(detail::SampleFn fn) const;
  std::shared_ptr<const detail::DatasetNode> node_;
};

// The samples of a dataset that satisfy `fn`, in order. Blocks: loads every sample once at the call.
class FilterSampler : public Sampler {
 public:
  FilterSampler(const std::function<bool(const Sample&)>& fn, const Dataset& dataset);
};

// Sample i is row i of each array, NDArray or HostTensor. Arrays are copied, which blocks and throws their failures.
// Throws ShapeError when lengths differ or an array has no dimensions.
class ArrayDataset : public Dataset {
 public:
  explicit ArrayDataset(const NDArray& data);
  ArrayDataset(const NDArray& data, const NDArray& label);
  explicit ArrayDataset(HostTensor data, HostTensor label = HostTensor());
  explicit ArrayDataset(std::vector<HostTensor> arrays);
  template <class A, class B, class... More>
    requires(sizeof...(More) > 0)
  ArrayDataset(A&& first, B&& second, More&&... more)
      : ArrayDataset(listed(std::forward<A>(first), std::forward<B>(second), std::forward<More>(more)...)) {}

 private:
  static HostTensor on_host(HostTensor t) { return t; }
  static HostTensor on_host(const NDArray& array) { return HostTensor::copy_of(array); }
  template <class... T>
  static std::vector<HostTensor> listed(T&&... arrays) {
    std::vector<HostTensor> list;
    (list.push_back(on_host(std::forward<T>(arrays))), ...);
    return list;
  }
};

// The records of a file of MXNet's RecordIO, in the order of its index, <file without .rec>.idx; where there is none,
// in the order of the file. Samples: the bytes, uint8 (n,). Read when they are loaded. Blocks at the call. Throws
// IoError.
class RecordFileDataset : public Dataset {
 public:
  explicit RecordFileDataset(const std::filesystem::path& file);
};

// Sample i is element i of a list: a number, a tensor, a tuple of these, a Sample; or anything else, of which `fn`
// makes one: SimpleDataset(file_names, [](const std::string& name) { return Sample(...); }). fn is called whenever a
// sample is loaded, from several threads at once, and may have a second parameter SampleRandom&.
template <class T>
class SimpleDataset : public Dataset {
 public:
  explicit SimpleDataset(std::vector<T> items) requires(std::is_constructible_v<Sample, const T&>)
      : SimpleDataset(std::move(items), [](const T& item) { return Sample(item); }) {}
  template <class F>
    requires(std::is_invocable_v<F&, const T&> || std::is_invocable_v<F&, const T&, SampleRandom&>)
  SimpleDataset(std::vector<T> items, F fn) : Dataset(made(std::move(items), std::move(fn))) {}

 private:
  template <class F>
  static Dataset made(std::vector<T> given, F fn) {
    const int64_t size = int64_t(given.size());
    auto items = std::make_shared<const std::vector<T>>(std::move(given));
    if constexpr (std::is_invocable_v<F&, const T&>) {
      return Dataset(size, detail::IndexFn([items, fn = std::move(fn)](int64_t i) mutable {
                       return Sample(fn((*items)[size_t(i)]));
                     }));
    } else {
      Dataset indices(size, detail::IndexFn([](int64_t i) { return Sample(HostTensor(i)); }));
      return indices.transform([items, fn = std::move(fn)](Sample s, SampleRandom& random) mutable {
        return Sample(fn((*items)[size_t(*s.data.as<int64_t>())], random));
      });
    }
  }
};

}  // namespace gluon::data
}  // namespace kaon
