#include "kaon/gluon/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "kaon/ops/math/philox.h"

namespace kaon::gluon::data {

SampleRandom::SampleRandom(uint64_t seed, uint64_t epoch, int64_t index) : index_(uint64_t(index)) {
  // a key per epoch, so that sample and block number fill Philox's counter
  const ops::Philox4 k = ops::random_block(seed, epoch, ~uint64_t(0));
  key_ = uint64_t(k.v[1]) << 32 | k.v[0];
}

uint32_t SampleRandom::word() {
  const int place = int(used_ % 4);
  if (place == 0) std::ranges::copy(ops::random_block(key_, index_, used_ / 4).v, std::begin(block_));
  ++used_;
  return block_[place];
}

float SampleRandom::uniform() { return ops::uniform_float(word()); }

float SampleRandom::normal() {  // Box and Muller 1958
  const double radius = std::sqrt(-2 * std::log((double(word()) + 0.5) * 0x1p-32));
  return float(radius * std::cos(2 * std::numbers::pi * double(uniform())));
}

int64_t SampleRandom::below(int64_t range) {
  const uint32_t high = word(), low = word();
  return int64_t(ops::uniform_below(high, low, uint64_t(range)));
}

namespace detail {

Sample DatasetNode::get(int64_t index, SampleRandom& random) const { return sync_wait(load(index, random)); }

Task<Sample> DatasetNode::load(int64_t index, SampleRandom& random) const { co_return get(index, random); }

namespace {

using NodePtr = std::shared_ptr<const DatasetNode>;

class SourceNode : public DatasetNode {
 public:
  explicit SourceNode(std::shared_ptr<const DatasetSource> source) : source_(std::move(source)) {}
  int64_t size() const override { return source_->size(); }
  Sample get(int64_t index, SampleRandom&) const override { return source_->get(index); }

 private:
  std::shared_ptr<const DatasetSource> source_;
};

class AsyncSourceNode : public DatasetNode {
 public:
  explicit AsyncSourceNode(std::shared_ptr<const AsyncDatasetSource> source) : source_(std::move(source)) {}
  int64_t size() const override { return source_->size(); }
  bool is_async() const override { return true; }
  Task<Sample> load(int64_t index, SampleRandom&) const override { return source_->get(index); }

 private:
  std::shared_ptr<const AsyncDatasetSource> source_;
};

class CallableNode : public DatasetNode {
 public:
  CallableNode(int64_t size, IndexFn get) : size_(size), get_(std::move(get)) {}
  int64_t size() const override { return size_; }
  Sample get(int64_t index, SampleRandom&) const override { return get_(index); }

 private:
  int64_t size_;
  IndexFn get_;
};

class AsyncCallableNode : public DatasetNode {
 public:
  AsyncCallableNode(int64_t size, AsyncIndexFn get) : size_(size), get_(std::move(get)) {}
  int64_t size() const override { return size_; }
  bool is_async() const override { return true; }
  Task<Sample> load(int64_t index, SampleRandom&) const override { return get_(index); }

 private:
  int64_t size_;
  AsyncIndexFn get_;
};

class TransformNode : public DatasetNode {
 public:
  TransformNode(NodePtr inner, SampleFn fn) : inner_(std::move(inner)), fn_(std::move(fn)) {}
  int64_t size() const override { return inner_->size(); }
  bool is_async() const override { return inner_->is_async(); }
  Sample get(int64_t index, SampleRandom& random) const override { return fn_(inner_->get(index, random), random); }
  Task<Sample> load(int64_t index, SampleRandom& random) const override {
    Sample sample = co_await inner_->load(index, random);
    co_return fn_(std::move(sample), random);
  }

 private:
  NodePtr inner_;
  SampleFn fn_;
};

class SubsetNode : public DatasetNode {
 public:
  SubsetNode(NodePtr inner, std::vector<int64_t> indices) : inner_(std::move(inner)), indices_(std::move(indices)) {}
  int64_t size() const override { return int64_t(indices_.size()); }
  bool is_async() const override { return inner_->is_async(); }
  Sample get(int64_t index, SampleRandom& random) const override {
    return inner_->get(indices_[size_t(index)], random);
  }
  Task<Sample> load(int64_t index, SampleRandom& random) const override {
    return inner_->load(indices_[size_t(index)], random);
  }

 private:
  NodePtr inner_;
  std::vector<int64_t> indices_;
};

class RangeNode : public DatasetNode {
 public:
  RangeNode(NodePtr inner, int64_t begin, int64_t size) : inner_(std::move(inner)), begin_(begin), size_(size) {}
  int64_t size() const override { return size_; }
  bool is_async() const override { return inner_->is_async(); }
  Sample get(int64_t index, SampleRandom& random) const override { return inner_->get(begin_ + index, random); }
  Task<Sample> load(int64_t index, SampleRandom& random) const override { return inner_->load(begin_ + index, random); }

 private:
  NodePtr inner_;
  int64_t begin_, size_;
};

class Chosen : public SamplerSource {
 public:
  Chosen(const std::function<bool(const Sample&)>& fn, const Dataset& dataset) {
    for (int64_t i = 0; i < dataset.size(); ++i) {
      if (fn(dataset.get(i))) indices_.push_back(i);
    }
  }
  int64_t size() const override { return int64_t(indices_.size()); }
  std::vector<int64_t> indices(uint64_t) const override { return indices_; }

 private:
  std::vector<int64_t> indices_;
};

template <class T>
T given(T source) {
  if (!source) throw ValueError("[Dataset] expected a source of samples, got none");
  return source;
}

int64_t checked_size(int64_t size) {
  if (size < 0) throw ValueError(fmt::format("[Dataset] size: expected at least 0, got {}", size));
  return size;
}

// Samples are views of the rows, so nothing is copied but into the batch.
class RowsNode : public DatasetNode {
 public:
  explicit RowsNode(std::vector<HostTensor> arrays) {
    if (arrays.empty()) throw ValueError("[ArrayDataset] expected at least one array, got none");
    for (HostTensor& t : arrays) {
      const std::string name = name_of_array(arrays_.size(), nullptr);
      if (!t.defined() || t.shape().empty()) {
        throw ShapeError(fmt::format("[ArrayDataset] {} must have at least one dimension", name));
      }
      arrays_.push_back(std::make_shared<const HostTensor>(std::move(t)));
      if (arrays_.back()->shape()[0] != size()) {
        throw ShapeError(fmt::format("[ArrayDataset] data and {} must have as many rows, got {} and {}", name,
                                     arrays_[0]->shape().str(), arrays_.back()->shape().str()));
      }
    }
  }
  int64_t size() const override { return arrays_[0]->shape()[0]; }
  Sample get(int64_t index, SampleRandom&) const override {
    Sample sample(row(arrays_[0], index), arrays_.size() > 1 ? row(arrays_[1], index) : HostTensor());
    for (size_t i = 2; i < arrays_.size(); ++i) sample.others.push_back(row(arrays_[i], index));
    return sample;
  }

 private:
  static HostTensor row(const std::shared_ptr<const HostTensor>& t, int64_t index) {
    Shape shape;
    for (int d = 1; d < t->shape().ndim(); ++d) shape.push_back(t->shape()[d]);
    const size_t bytes = size_t(shape.size()) * size_of(t->dtype());
    return HostTensor::view(t, t->data() + size_t(index) * bytes, shape, t->dtype());
  }
  std::vector<std::shared_ptr<const HostTensor>> arrays_;
};

std::vector<HostTensor> one_or_two(HostTensor data, HostTensor label) {
  std::vector<HostTensor> arrays;
  arrays.push_back(std::move(data));
  if (label.defined()) arrays.push_back(std::move(label));
  return arrays;
}

}  // namespace
}  // namespace detail

Dataset::Dataset(std::shared_ptr<const DatasetSource> source)
    : node_(std::make_shared<detail::SourceNode>(detail::given(std::move(source)))) {}
Dataset::Dataset(std::shared_ptr<const AsyncDatasetSource> source)
    : node_(std::make_shared<detail::AsyncSourceNode>(detail::given(std::move(source)))) {}
Dataset::Dataset(int64_t size, detail::IndexFn get)
    : node_(std::make_shared<detail::CallableNode>(detail::checked_size(size), detail::given(std::move(get)))) {}
Dataset::Dataset(int64_t size, detail::AsyncIndexFn get)
    : node_(std::make_shared<detail::AsyncCallableNode>(detail::checked_size(size), detail::given(std::move(get)))) {}

Sample Dataset::get(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw IndexError(fmt::format("[Dataset] index {} is out of range for {} samples", index, size()));
  }
  SampleRandom random(0, 0, index);
  return node_->get(index, random);
}

Dataset Dataset::transform_sample(detail::SampleFn fn) const {
  return Dataset(std::make_shared<detail::TransformNode>(node_, std::move(fn)));
}

Dataset Dataset::filter(const std::function<bool(const Sample&)>& keep) const {
  return sample(FilterSampler(keep, *this));
}

Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  if (num_shards < 1 || index < 0 || index >= num_shards) {
    throw ValueError(
        fmt::format("[Dataset] shard: expected an index in [0, num_shards), got {} of {}", index, num_shards));
  }
  const int64_t each = size() / num_shards, longer = size() % num_shards;
  const int64_t begin = each * index + std::min(index, longer);
  return Dataset(std::make_shared<detail::RangeNode>(node_, begin, each + (index < longer ? 1 : 0)));
}

Dataset Dataset::take(int64_t count) const {
  if (count < 0) throw ValueError(fmt::format("[Dataset] take: expected a count of at least 0, got {}", count));
  return Dataset(std::make_shared<detail::RangeNode>(node_, 0, std::min(count, size())));
}

Dataset Dataset::subset(std::vector<int64_t> indices) const {
  for (int64_t i : indices) {
    if (i < 0 || i >= size()) {
      throw IndexError(fmt::format("[Dataset] subset: index {} is out of range for {} samples", i, size()));
    }
  }
  return Dataset(std::make_shared<detail::SubsetNode>(node_, std::move(indices)));
}

Dataset Dataset::named(std::vector<std::string> names) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || std::ranges::count(names, names[i]) > 1) {
      throw ValueError(
          fmt::format("[Dataset] named: expected names that differ, got \"{}\" for array {}", names[i], i));
    }
  }
  auto shared = std::make_shared<const std::vector<std::string>>(std::move(names));
  return transform_sample([shared](Sample s, SampleRandom&) {
    if (s.num_arrays() != shared->size()) {
      throw ValueError(fmt::format("[Dataset] named: expected a sample of {} arrays, one for each name, got {}",
                                   shared->size(), s.num_arrays()));
    }
    s.names = shared;
    return s;
  });
}

FilterSampler::FilterSampler(const std::function<bool(const Sample&)>& fn, const Dataset& dataset)
    : Sampler(std::make_shared<detail::Chosen>(detail::given(fn), dataset)) {}

ArrayDataset::ArrayDataset(std::vector<HostTensor> arrays)
    : Dataset(std::shared_ptr<const detail::DatasetNode>(std::make_shared<detail::RowsNode>(std::move(arrays)))) {}
ArrayDataset::ArrayDataset(HostTensor data, HostTensor label)
    : ArrayDataset(detail::one_or_two(std::move(data), std::move(label))) {}
ArrayDataset::ArrayDataset(const NDArray& data) : ArrayDataset(HostTensor::copy_of(data)) {}
ArrayDataset::ArrayDataset(const NDArray& data, const NDArray& label)
    : ArrayDataset(HostTensor::copy_of(data), HostTensor::copy_of(label)) {}

}  // namespace kaon::gluon::data
