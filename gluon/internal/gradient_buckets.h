// GradientBuckets: the gradients of parameters side by side in a few large arrays, which ranks add up.
#pragma once

#include <span>
#include <vector>

#include "kaon/comm/communicator.h"
#include "kaon/gluon/parameter.h"

namespace kaon::gluon::detail {

// All ranks call the same functions for the same parameters, in the same order. Thread safety: one thread.
class GradientBuckets {
 public:
  explicit GradientBuckets(comm::Communicator ranks) : ranks_(std::move(ranks)) {}
  const comm::Communicator& ranks() const { return ranks_; }

  // Parameters that have got values since the last call get rank 0's. Where there are some, and at the first call,
  // blocks until the ranks have compared their parameters. Throws ValueError where those differ.
  void share_values(std::span<const Parameter> parameters);
  // Gradients become their sum over the ranks. A bucket is added up as soon as its gradients are computed; the last
  // layers' come first, as a backward computes them. The first call, and one that finds other gradients than the last,
  // moves them into buckets. Does not block. Throws StateError for a row_sparse gradient.
  void all_reduce(std::span<const Parameter> parameters);
  // Whether any rank says so, by position. Blocks.
  std::vector<bool> on_any(const std::vector<bool>& mine) const;

 private:
  struct Bucket {
    NDArray all;                         // (n,)
    std::vector<NDArray> values, views;  // of the parameters, and their gradients in `all`
  };
  bool has_these(std::span<const Parameter> parameters) const;
  void compare(std::span<const Parameter> parameters) const;
  void build(std::span<const Parameter> parameters);

  comm::Communicator ranks_;
  bool has_compared_ = false;
  std::vector<Parameter> with_values_;  // rank 0's
  std::vector<Bucket> buckets_;
};

}  // namespace kaon::gluon::detail
