#include "kaon/gluon/internal/gradient_buckets.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

void GradientBuckets::share_values(std::span<const Parameter> parameters) {
  std::vector<Parameter> with_values;
  for (const Parameter& p : parameters) {
    if (p.is_initialized()) with_values.push_back(p);
  }
  if (has_compared_ && with_values == with_values_) return;
  autograd::ModeScope mode(false, false);
  compare(parameters);
  has_compared_ = true;
  for (const Parameter& p : with_values) {
    if (std::find(with_values_.begin(), with_values_.end(), p) != with_values_.end()) continue;
    const std::vector<NDArray> values = p.list_data();
    ranks_.broadcast(values[0]);
    for (size_t i = 1; i < values.size(); ++i) NDArray(values[i]).assign(values[0]);
  }
  with_values_ = std::move(with_values);
}

bool GradientBuckets::has_these(std::span<const Parameter> parameters) const {
  size_t i = 0, k = 0;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (p->grad_req() == GradReq::null || !p->is_initialized()) continue;
    if (i < buckets_.size() && k == buckets_[i].views.size()) ++i, k = 0;
    if (i == buckets_.size() || p->list_grad()[0].ptr() != buckets_[i].views[k].ptr()) return false;
    ++k;
  }
  return buckets_.empty() ? i == 0 : i + 1 == buckets_.size() && k == buckets_[i].views.size();
}

void GradientBuckets::compare(std::span<const Parameter> parameters) const {
  std::vector<int64_t> mine;
  for (const Parameter& p : parameters) mine.push_back(int64_t(hash_of(p)));
  const auto exchanged = [&](const std::vector<int64_t>& values) {
    const auto array = NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64);
    return ranks_.all_gather(array).asvector<int64_t>();
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
          i, r, parameters[i].name(), parameters[i].shape().str(), name_of(parameters[i].dtype())));
    }
  }
}

void GradientBuckets::build(std::span<const Parameter> parameters) {
  std::vector<Parameter> reversed;  // a backward computes the last layers' gradients first
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (p->grad_req() == GradReq::null || !p->is_initialized()) continue;
    if (p->has_row_sparse_grad()) {
      throw StateError(fmt::format("[Trainer] the gradient of {} is row_sparse, which ranks do not add up", p->name()));
    }
    reversed.push_back(*p);
  }
  buckets_.clear();
  for (size_t i = 0; i < reversed.size();) {
    // What follows with the same dtype, as far as the bucket takes it.
    const DType dtype = reversed[i].dtype();
    const size_t limit = buckets_.empty() ? first_bytes : most_bytes;
    size_t bytes = 0, end = i;
    std::vector<size_t> offsets;
    for (; end < reversed.size() && reversed[end].dtype() == dtype; ++end) {
      const size_t size = size_t(reversed[end].shape().size()) * size_of(dtype);
      if (end > i && bytes + size > limit) break;
      offsets.push_back(bytes);
      bytes += (size + alignment - 1) / alignment * alignment;
    }
    Bucket& bucket = buckets_.emplace_back();
    const Device device = reversed[i].list_data()[0].device();
    bucket.all = nd.zeros({int64_t(bytes / size_of(dtype))}, {.dtype = dtype, .device = device});
    for (size_t k = i; k < end; ++k) {
      const Parameter& p = reversed[k];
      NDArray values = p.list_data()[0];
      const int64_t begin = int64_t(offsets[k - i] / size_of(dtype));
      const NDArray view = bucket.all.slice(begin, begin + p.shape().size()).reshape(p.shape());
      NDArray(view).assign(p.list_grad()[0]);
      const uint64_t stamp = autograd::gradient_stamp(values);
      values.attach_grad(p.grad_req(), view);
      if (stamp != 0) autograd::stamp_gradient(values);
      bucket.values.push_back(values);
      bucket.views.push_back(view);
    }
    i = end;
  }
}

void GradientBuckets::all_reduce(std::span<const Parameter> parameters) {
  autograd::ModeScope mode(false, false);
  if (!has_these(parameters)) build(parameters);
  for (const Bucket& b : buckets_) ranks_.all_reduce_in_place(b.all);
}

std::vector<bool> GradientBuckets::on_any(const std::vector<bool>& mine) const {
  const std::vector<uint8_t> flags(mine.begin(), mine.end());
  const auto array = NDArray::from(flags.data(), flags.size(), Shape(int64_t(flags.size())), DType::uint8);
  const std::vector<uint8_t> any = ranks_.all_reduce(array, comm::Reduce::max).asvector<uint8_t>();
  return {any.begin(), any.end()};
}

}  // namespace kaon::gluon::detail
