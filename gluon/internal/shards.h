// Shards: a rank's part of a batch in the parts whose gradients a fixed tree adds up.
#pragma once

#include <span>

#include "kaon/engine/block_pool.h"
#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/ops/random_state.h"

namespace kaon::gluon::detail {

// Shard i of rank r is the same samples, with the same random numbers, as shard 0 of rank r n + i among n times as many
// ranks. Thread safety: one thread.
class Shards {
 public:
  // Null ranks: one shard. Throws ValueError, naming the caller, for inputs whose samples do not divide by the shards.
  Shards(std::span<const NDArray* const> inputs, const GradientBuckets* ranks, const char* caller);
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  int count() const { return ranks_ ? ranks_->own_shards() : 1; }
  // The inputs of a shard; what is drawn from now on are its numbers.
  engine::PooledVector<NDArray> begin(int number) const;
  // Whether this thread computes shards that a tree adds up: between the constructor and the destructor of one.
  static bool are_computed();
  // Results of the shards as one array.
  static NDArray joined(std::span<const NDArray> parts);

 private:
  std::span<const NDArray* const> inputs_;
  const GradientBuckets* ranks_;
  ops::RandomKey random_{};
};

}  // namespace kaon::gluon::detail
