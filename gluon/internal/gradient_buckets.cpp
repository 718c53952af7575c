#include "kaon/gluon/internal/gradient_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "kaon/engine/block_pool.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon::detail {

namespace {

// The first bucket is complete while most of the backward still runs, so it is small; the others are large, because
// each call has a price.
constexpr size_t first_bytes = size_t(1) << 20, most_bytes = size_t(25) << 20;
constexpr size_t alignment = 64;

uint64_t hash_of(const Parameter& p) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : fmt::format("{} {} {}", p.name(), p.shape().str(), name_of(p.dtype()))) {
    h = (h ^ uint8_t(c)) * 0x100000001b3;
  }
  return h >> 1;  // as int64
}

bool has_gradient(const Parameter& p) { return p.grad_req() != GradReq::null && p.is_initialized(); }

}  // namespace

GradientBuckets::GradientBuckets(comm::Communicator ranks, const BucketOptions& options,
                                 std::vector<Parameter> parameters)
    : wire_(std::move(ranks), options.compression),
      options_(options),
      parameters_(std::move(parameters)),
      has_values_(parameters_.size()) {
  if (options.shards == 0) return;
  if (wire_.compresses()) {
    throw ValueError(
        "[Trainer] deterministic and compression_params exclude each other: a rank would round its own sum");
  }
  const int size = this->ranks().size();
  if (options.shards < 0 || !std::has_single_bit(unsigned(options.shards)) || !std::has_single_bit(unsigned(size)) ||
      size > options.shards) {
    throw ValueError(fmt::format(
        "[Trainer] deterministic adds up by a binary tree: expected powers of two, no more ranks than shards; got {} "
        "shards and {} ranks",
        options.shards, size));
  }
}

void GradientBuckets::share_values() {
  bool is_same = has_compared_;
  for (size_t k = 0; is_same && k < parameters_.size(); ++k)
    is_same = has_values_[k] == parameters_[k].is_initialized();
  if (is_same) return;
  autograd::ModeScope mode(false, false);
  compare();
  has_compared_ = true;
  for (size_t k = 0; k < parameters_.size(); ++k) {
    const bool has_values = parameters_[k].is_initialized();
    if (has_values && !has_values_[k]) {
      const ParameterValues values(parameters_[k]);
      ranks().broadcast(values[0]);
      for (size_t i = 1; i < values.size(); ++i) NDArray(values[i]).assign(values[0]);
    }
    has_values_[k] = has_values;
  }
}

void GradientBuckets::compare() const {
  std::vector<int64_t> mine;
  for (const Parameter& p : parameters_) mine.push_back(int64_t(hash_of(p)));
  const auto exchanged = [&](const std::vector<int64_t>& values) {
    const auto array = NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64);
    return ranks().all_gather(array).asvector<int64_t>();
  };
  const std::vector<int64_t> counts = exchanged({int64_t(mine.size())});
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] == counts[0]) continue;
    throw ValueError(
        fmt::format("[Trainer] the ranks' nets differ: rank 0 has {} parameters, rank {} {}", counts[0], r, counts[r]));
  }
  const std::vector<int64_t> all = exchanged(mine);
  for (size_t r = 0; r < counts.size(); ++r) {
    for (size_t i = 0; i < mine.size(); ++i) {
      if (all[r * mine.size() + i] == all[i]) continue;
      throw ValueError(fmt::format(
          "[Trainer] the ranks' nets differ: parameter {} has another name, shape or dtype on rank {} than on "
          "rank 0; on this rank it is {} {} {}",
          i, r, parameters_[i].name(), parameters_[i].shape().str(), name_of(parameters_[i].dtype())));
    }
  }
}

const GradientBuckets::Bucket* GradientBuckets::find(const Parameter& parameter, size_t* place) const {
  for (const Bucket& b : buckets_) {
    for (size_t k = 0; k < b.parameters.size(); ++k) {
      if (!(b.parameters[k] == parameter)) continue;
      *place = k;
      return &b;
    }
  }
  return nullptr;
}

// Whether all gradients are in buckets, and those of buckets have not gone elsewhere.
bool GradientBuckets::is_complete() const {
  size_t found = 0, all = 0;
  for (const Parameter& p : parameters_) found += has_gradient(p);
  for (const Bucket& b : buckets_) {
    all += b.parameters.size();
    for (size_t k = 0; k < b.parameters.size(); ++k) {
      const Parameter& p = b.parameters[k];
      if (!has_gradient(p) || p.has_row_sparse_grad()) return false;
      if (ParameterValues(p).grad(0).ptr() != b.views[k].ptr()) return false;
    }
  }
  return found == all;
}

// The largest first, each to the rank that has least so far; then in the order of ranks.
void GradientBuckets::give_owners(Bucket& bucket, std::vector<size_t>& bytes) const {
  std::vector<size_t> order(bucket.parameters.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size = [&](size_t k) { return bucket.parameters[k].shape().size(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size(a) > size(b); });
  std::vector<int> owners(order.size());
  for (const size_t k : order) {
    const size_t least = size_t(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
    owners[k] = int(least);
    bytes[least] += size_t(size(k)) * size_of(bucket.parameters[k].dtype());
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return owners[a] < owners[b]; });
  std::vector<Parameter> sorted;
  for (const size_t k : order) {
    sorted.push_back(bucket.parameters[k]);
    bucket.owners.push_back(owners[k]);
  }
  bucket.parameters = std::move(sorted);
}

// Its memory. What a compression has left of a gradient comes along.
void GradientBuckets::fill(Bucket& bucket, const std::vector<Bucket>& before) {
  const DType dtype = bucket.parameters[0].dtype();
  const Device device = ParameterValues(bucket.parameters[0])[0].device();
  const int64_t step = int64_t(alignment / size_of(dtype));
  std::vector<int64_t> begins{0};
  bucket.elements.assign(size_t(ranks().size()), 0);
  bucket.value_elements = bucket.elements;
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    const int64_t values = bucket.parameters[k].shape().size(), n = (values + step - 1) / step * step;
    begins.push_back(begins.back() + n);
    if (bucket.owners.empty()) continue;
    bucket.elements[size_t(bucket.owners[k])] += n;
    bucket.value_elements[size_t(bucket.owners[k])] += values;
  }
  bucket.all = nd.zeros({begins.back()}, {.dtype = dtype, .device = device});
  const auto part = [&](const NDArray& all, size_t k) {
    const Shape& shape = bucket.parameters[k].shape();
    return all.slice(begins[k], begins[k] + shape.size()).reshape(shape);
  };
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    const Parameter& p = bucket.parameters[k];
    NDArray values = ParameterValues(p)[0];
    const NDArray view = part(bucket.all, k);
    const NDArray old = ParameterValues(p).grad(0);
    NDArray(view).assign(old);
    for (const Bucket& b : before) {
      for (size_t i = 0; b.residual.defined() && i < b.views.size(); ++i) {
        if (b.views[i].ptr() != old.ptr()) continue;
        if (!bucket.residual.defined()) {
          bucket.residual = nd.zeros(bucket.all.shape(), {.dtype = dtype, .device = b.residual.device()});
        }
        const int64_t begin = int64_t(b.views[i].node().offset / size_of(dtype));
        part(bucket.residual, k).assign(b.residual.slice(begin, begin + p.shape().size()).reshape(p.shape()));
      }
    }
    const uint64_t stamp = autograd::gradient_stamp(values);
    values.attach_grad(p.grad_req(), view);
    if (stamp != 0) autograd::stamp_gradient(values);
    bucket.values.push_back(values);
    bucket.views.push_back(view);
  }
}

void GradientBuckets::build() {
  std::vector<Parameter> reversed;  // a backward computes the last layers' gradients first
  for (auto p = parameters_.rbegin(); p != parameters_.rend(); ++p) {
    if (!has_gradient(*p)) continue;
    if (p->has_row_sparse_grad()) {
      throw StateError(fmt::format("[Trainer] the gradient of {} is row_sparse, which ranks do not add up", p->name()));
    }
    reversed.push_back(*p);
  }
  const std::vector<Bucket> before = std::exchange(buckets_, {});
  std::vector<size_t> owned(size_t(ranks().size()), 0);
  for (size_t i = 0; i < reversed.size();) {
    // What follows with the same dtype, as far as the bucket takes it.
    const DType dtype = reversed[i].dtype();
    const size_t limit = buckets_.empty() ? first_bytes : most_bytes;
    size_t bytes = 0, end = i;
    for (; end < reversed.size() && reversed[end].dtype() == dtype; ++end) {
      const size_t size = size_t(reversed[end].shape().size()) * size_of(dtype);
      // One that is half full takes no more: it would wait for a gradient that is computed later.
      if (end > i && (bytes + size > limit || bytes >= limit / 2)) break;
      bytes += (size + alignment - 1) / alignment * alignment;
    }
    Bucket& bucket = buckets_.emplace_back();
    bucket.parameters.assign(reversed.begin() + ptrdiff_t(i), reversed.begin() + ptrdiff_t(end));
    if (options_.gives_owners) give_owners(bucket, owned);
    fill(bucket, before);
    i = end;
  }
  ++layout_;
}

void GradientBuckets::prepare() {
  autograd::ModeScope mode(false, false);
  if (!is_complete()) build();
}

std::vector<uint32_t> GradientBuckets::buckets_of(std::span<const Parameter> parameters) const {
  std::vector<uint32_t> all;
  for (const Parameter& p : parameters) {
    size_t place = 0;
    all.push_back(uint32_t(find(p, &place) - buckets_.data()));
  }
  return all;
}

void GradientBuckets::all_reduce(bool everywhere) {
  autograd::ModeScope mode(false, false);
  prepare();
  for (Bucket& b : buckets_) {
    if (options_.shards) {
      wire_.add_up_by_tree(b.all);
    } else if (everywhere || !options_.gives_owners || wire_.compresses()) {
      // The next forward reads the first layers' weights first, which are in the last bucket.
      wire_.add_up(b.all, b.residual, options_.by_priority ? std::optional(int(&b - buckets_.data())) : std::nullopt);
    } else {
      const NDArray own = ranks().reduce_scatter(b.all, b.elements);
      const auto here = b.elements.begin() + ranks().rank();
      const int64_t begin = std::accumulate(b.elements.begin(), here, int64_t(0));
      if (*here) b.all.slice(begin, begin + *here).assign(own);
    }
  }
}

// As counting in binary: a sum of n shards waits for the next one of n.
void GradientBuckets::end_shard(int number) {
  autograd::ModeScope mode(false, false);
  prepare();
  for (Bucket& b : buckets_) {
    size_t level = 0;
    for (; number >> level & 1; ++level) NDArray(b.all) += b.partial[level];
    if (number + 1 == own_shards()) continue;
    if (b.partial.size() <= level) b.partial.resize(level + 1);
    if (!b.partial[level].defined()) b.partial[level] = NDArray::empty(b.all.shape(), b.all.dtype(), b.all.device());
    b.partial[level].assign(b.all);
  }
}

int GradientBuckets::owner_of(const Parameter& parameter) const {
  size_t place = 0;
  const Bucket* bucket = find(parameter, &place);
  return bucket && !bucket->owners.empty() ? bucket->owners[place] : 0;
}

// The first layers', which the next forward reads first, at once.
void GradientBuckets::gather_values() const {
  autograd::ModeScope mode(false, false);
  const int rank = ranks().rank();
  for (auto b = buckets_.rbegin(); b != buckets_.rend(); ++b) {
    engine::PooledVector<NDArray> own;
    own.reserve(b->values.size());
    for (size_t k = 0; k < b->values.size(); ++k) {
      if (b->owners[k] == rank) own.push_back(b->values[k].reshape({-1}));
    }
    const NDArray mine =
        own.empty() ? NDArray::empty({0}, b->all.dtype(), b->all.device()) : nd.concat(own, {.dim = 0});
    const NDArray all = ranks().all_gather(mine, b->value_elements);
    int64_t begin = 0;
    for (size_t k = 0; k < b->values.size(); ++k) {
      const NDArray& values = b->values[k];
      const int64_t end = begin + values.size();
      if (b->owners[k] != rank) NDArray(values).assign(all.slice(begin, end).reshape(values.shape()));
      begin = end;
    }
  }
}

std::vector<bool> GradientBuckets::on_any(const std::vector<bool>& mine) const {
  const std::vector<uint8_t> flags(mine.begin(), mine.end());
  const auto array = NDArray::from(flags.data(), flags.size(), Shape(int64_t(flags.size())), DType::uint8);
  const std::vector<uint8_t> any = ranks().all_reduce(array, comm::Reduce::max).asvector<uint8_t>();
  return {any.begin(), any.end()};
}

}  // namespace kaon::gluon::detail
