#include "kaon/gluon/internal/shards.h"

#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon::detail {

namespace {
constexpr uint64_t draws_of_shard = uint64_t(1) << 32;  // more than one can draw
thread_local int t_computed = 0;
}  // namespace

Shards::Shards(std::span<const NDArray* const> inputs, const GradientBuckets* ranks, const char* caller)
    : inputs_(inputs), ranks_(ranks) {
  if (!ranks) return;
  for (const NDArray* a : inputs) {
    if (a->ndim() > 0 && a->shape()[0] == (*inputs[0]).shape()[0] && a->shape()[0] % count() == 0) continue;
    throw ValueError(
        fmt::format("[{}] deterministic: expected inputs of as many samples, which divide by the {} shards of a rank, "
                    "got shape {}",
                    caller, count(), a->shape().str()));
  }
  random_ = random::get_state();
  ++t_computed;
}

Shards::~Shards() {
  if (!ranks_) return;
  --t_computed;
  random::set_state({.seed = random_.seed, .offset = random_.offset + draws_of_shard * uint64_t(ranks_->shards())});
}

engine::PooledVector<NDArray> Shards::begin(int number) const {
  engine::PooledVector<NDArray> parts;
  parts.reserve(inputs_.size());
  if (!ranks_) {
    for (const NDArray* a : inputs_) parts.push_back(*a);
    return parts;
  }
  const uint64_t of_all = uint64_t(ranks_->ranks().rank() * count() + number);
  random::set_state({.seed = random_.seed, .offset = random_.offset + draws_of_shard * of_all});
  autograd::ModeScope mode(false, false);
  for (const NDArray* a : inputs_) {
    const int64_t n = a->shape()[0] / count();
    parts.push_back(a->slice(number * n, (number + 1) * n));
  }
  return parts;
}

bool Shards::are_computed() { return t_computed > 0; }

NDArray Shards::joined(std::span<const NDArray> parts) {
  if (parts.size() == 1) return parts[0];
  autograd::ModeScope mode(false, false);
  engine::PooledVector<NDArray> all;
  all.reserve(parts.size());
  for (const NDArray& a : parts) all.push_back(a.ndim() == 0 ? a.reshape({1}) : a);
  return nd.concat(all, {.dim = 0});
}

}  // namespace kaon::gluon::detail
