// GradientBuckets: the gradients of parameters side by side in a few large arrays, which ranks add up.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kaon/comm/communicator.h"
#include "kaon/gluon/internal/gradient_wire.h"
#include "kaon/gluon/parameter.h"

namespace kaon::gluon::detail {

struct BucketOptions {
  CompressionParams compression{};
  int shards = 0;             // of a batch, whose gradients a fixed tree adds up over all ranks; 0: no such tree
  bool gives_owners = false;  // each parameter has one rank that updates it
  bool by_priority = false;   // the first layers' sums before the others
  std::vector<std::string> settings{};  // of the trainer, which must be alike on all ranks
};

// Those of one trainer that have gradients and values, whenever they get them. All ranks call the same functions in the
// same order. Thread safety: one thread.
class GradientBuckets {
 public:
  // Throws ValueError for options that do not go together, or not with this number of ranks.
  GradientBuckets(comm::Communicator ranks, const BucketOptions& options, std::vector<Parameter> parameters);
  const comm::Communicator& ranks() const { return wire_.ranks(); }

  // Parameters that have got values since the last call get rank 0's. Where there are some, and at the first call,
  // blocks until the ranks have compared their settings and parameters. Throws ValueError on every rank, naming what
  // differs first and on which rank, where those differ.
  void share_values();
  // Moves gradients into buckets, unless they are there. Throws StateError for a row_sparse gradient.
  void prepare();
  // A number that prepare() changes when it moves gradients.
  uint64_t layout() const { return layout_; }
  size_t size() const { return buckets_.size(); }
  // The bucket of each parameter's gradient, after prepare(). The last layers' come first, as a backward computes them.
  std::vector<uint32_t> buckets_of(std::span<const Parameter> parameters) const;

  // Prepares, and gradients become their sum over the ranks. A bucket is added up as soon as its gradients are
  // computed. Does not block. everywhere: also those that another rank owns are then the sum; else of these nothing is
  // promised.
  void all_reduce(bool everywhere = true);
  // Whether any rank says so, by position. Blocks.
  std::vector<bool> on_any(const std::vector<bool>& mine) const;

  // --- a fixed tree over fixed shards
  int shards() const { return options_.shards; }                       // of all ranks; 0: no tree
  int own_shards() const { return options_.shards / ranks().size(); }  // of this rank
  // The gradients are those of shard `number` of this rank, from 0: takes them into the sum. After the last one the
  // gradients are the sum over this rank's shards.
  void end_shard(int number);

  // --- owners
  bool gives_owners() const { return options_.gives_owners; }
  bool owns(const Parameter& parameter) const { return owner_of(parameter) == ranks().rank(); }  // after prepare()
  int owner_of(const Parameter& parameter) const;
  // Each parameter gets the values that its owner has.
  void gather_values() const;

  // --- what 2bit has not sent yet of the gradients
  bool keeps_residuals() const { return wire_.keeps_residuals(); }
  // Of a gradient, a row for each rank: (ranks, elements). Undefined: nothing is left. All ranks call it.
  NDArray residuals_of(const Parameter& parameter) const;
  // What residuals_of() gave, in place of all that is left. Each of as many ranks gets its own row. Where there were
  // more or fewer, each gets an equal part of the sum, so that nothing is lost.
  void set_residuals(const std::vector<std::pair<Parameter, NDArray>>& of_ranks);

 private:
  struct Bucket {
    NDArray all;                         // (n,)
    std::vector<Parameter> parameters;   // in the order of their owners, if there are some
    std::vector<NDArray> values, views;  // of the parameters, and their gradients in `all`
    std::vector<int> owners;
    // Of `all` and of the values, by rank that owns them.
    std::vector<int64_t> elements, value_elements;
    NDArray residual;              // of a compression
    std::vector<NDArray> partial;  // sums of 1, 2, 4, ... shards

    NDArray residual_of(size_t k) const;  // of one gradient, (elements,)
  };
  const Bucket* find(const Parameter& parameter, size_t* place) const;
  bool is_complete() const;
  std::vector<std::string> compared() const;
  void compare() const;
  void put_restored();
  void build();
  void fill(Bucket& bucket, const std::vector<Bucket>& before);
  void give_owners(Bucket& bucket, std::vector<size_t>& bytes) const;

  const GradientWire wire_;
  const BucketOptions options_;
  const std::vector<Parameter> parameters_;
  bool has_compared_ = false;
  std::vector<bool> has_values_;  // by parameter: rank 0's
  std::vector<Bucket> buckets_;
  // Residuals (elements,) of gradients that are in no bucket yet: their parameters may get values later.
  std::vector<std::pair<Parameter, NDArray>> restored_;
  uint64_t layout_ = 0;
};

}  // namespace kaon::gluon::detail
