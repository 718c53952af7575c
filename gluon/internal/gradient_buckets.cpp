#include "kaon/gluon/internal/gradient_buckets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <sstream>

#include "kaon/engine/block_pool.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon::detail {

namespace {

// The first bucket is complete while most of the backward still runs, so it is small; the others are large, because
// each call has a price. Each takes half of what is left at most, since nothing hides the sum of the last one.
constexpr size_t least_bytes = size_t(1) << 20, most_bytes = size_t(25) << 20;
constexpr size_t alignment = 64;

std::string_view request_name(GradReq request) {
  return request == GradReq::null ? "null" : request == GradReq::add ? "add" : "write";
}

size_t bytes_of(const Parameter& p) { return size_t(p.shape().size()) * size_of(p.dtype()); }
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

// A line for each thing that all ranks must have alike.
std::vector<std::string> GradientBuckets::compared() const {
  std::vector<std::string> lines = options_.settings;
  lines.push_back(fmt::format("{} parameters", parameters_.size()));
  for (const Parameter& p : parameters_) {
    lines.push_back(fmt::format("parameter {} {} {} with grad_req {}, lr_mult {} and wd_mult {}{}", p.name(),
                                p.shape().str(), name_of(p.dtype()), request_name(p.grad_req()), p.lr_mult(),
                                p.wd_mult(), p.is_initialized() ? "" : ", without values"));
  }
  return lines;
}

// Every rank gets the texts of all, and so throws the same.
void GradientBuckets::compare() const {
  const std::vector<std::string> lines = compared();
  const std::string mine = fmt::format("{}\n", fmt::join(lines, "\n"));
  const std::vector<int64_t> length{int64_t(mine.size())};
  const auto lengths = ranks().all_gather(NDArray::from(length.data(), 1, {1}, DType::int64)).asvector<int64_t>();
  const std::vector<uint8_t> bytes(mine.begin(), mine.end());
  const auto text = NDArray::from(bytes.data(), bytes.size(), {length[0]}, DType::uint8);
  const std::vector<uint8_t> all = ranks().all_gather(text, lengths).asvector<uint8_t>();
  std::vector<std::string> first;
  auto begin = all.begin();
  for (size_t r = 0; r < lengths.size(); ++r) {
    const auto end = begin + ptrdiff_t(lengths[r]);
    std::istringstream its(std::string(begin, end));
    begin = end;
    std::vector<std::string> other;
    for (std::string line; std::getline(its, line);) other.push_back(line);
    if (r == 0) first = other;
    if (other == first) continue;
    const size_t k = size_t(std::ranges::mismatch(first, other).in1 - first.begin());
    const auto line = [k](const std::vector<std::string>& of) { return k < of.size() ? of[k] : "nothing there"; };
    throw ValueError(
        fmt::format("[Trainer] the ranks' trainers differ: rank 0 has {}, rank {} {}", line(first), r, line(other)));
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
    bytes[least] += bytes_of(bucket.parameters[k]);
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
        part(bucket.residual, k).assign(b.residual_of(i).reshape(p.shape()));
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
  size_t left = std::accumulate(reversed.begin(), reversed.end(), size_t(0),
                                [](size_t sum, const Parameter& p) { return sum + bytes_of(p); });
  const std::vector<Bucket> before = std::exchange(buckets_, {});
  std::vector<size_t> owned(size_t(ranks().size()), 0);
  for (size_t i = 0; i < reversed.size();) {
    // What follows with the same dtype, as far as the bucket takes it.
    const DType dtype = reversed[i].dtype();
    const bool is_first = buckets_.empty();
    const size_t limit = is_first ? least_bytes : std::clamp(left / 2, least_bytes, most_bytes);
    size_t bytes = 0, end = i;
    for (; end < reversed.size() && reversed[end].dtype() == dtype; ++end) {
      const size_t size = bytes_of(reversed[end]);
      // One that is half full takes no more: it would wait for a gradient that is computed later. One with a bias alone
      // takes what follows, whatever its size, unless it is the first one.
      const bool has_much = is_first ? end > i : bytes >= limit / 8;
      if (bytes >= limit / 2 || (has_much && bytes + size > limit)) break;
      bytes += (size + alignment - 1) / alignment * alignment;
      left -= size;
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
  if (!restored_.empty()) put_restored();
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

NDArray GradientBuckets::Bucket::residual_of(size_t k) const {
  const int64_t begin = int64_t(views[k].node().offset / size_of(all.dtype()));
  return residual.slice(begin, begin + views[k].size());
}

NDArray GradientBuckets::residuals_of(const Parameter& parameter) const {
  autograd::ModeScope mode(false, false);
  NDArray own;
  size_t place = 0;
  if (const auto r = std::ranges::find(restored_, parameter, &decltype(restored_)::value_type::first);
      r != restored_.end()) {
    own = r->second;
  } else if (const Bucket* b = find(parameter, &place); b && b->residual.defined()) {
    own = b->residual_of(place);
  }
  return own.defined() ? ranks().all_gather(own.reshape({1, own.size()})) : own;
}

void GradientBuckets::set_residuals(const std::vector<std::pair<Parameter, NDArray>>& of_ranks) {
  autograd::ModeScope mode(false, false);
  const int64_t size = ranks().size(), rank = ranks().rank();
  for (Bucket& b : buckets_) b.residual = NDArray();
  restored_.clear();
  for (const auto& [parameter, all] : of_ranks) {
    const NDArray own = all.shape()[0] == size ? all.slice(rank, rank + 1) : nd.sum(all, Shape{0}) / double(size);
    restored_.emplace_back(parameter, own.reshape({all.shape()[1]}));
  }
}

void GradientBuckets::put_restored() {
  for (Bucket& b : buckets_) {
    for (size_t k = 0; k < b.parameters.size(); ++k) {
      const auto r = std::ranges::find(restored_, b.parameters[k], &decltype(restored_)::value_type::first);
      if (r == restored_.end()) continue;
      if (!b.residual.defined()) b.residual = nd.zeros(b.all.shape(), {.dtype = b.all.dtype(), .device = cpu()});
      b.residual_of(k).assign(r->second);
      restored_.erase(r);
    }
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
