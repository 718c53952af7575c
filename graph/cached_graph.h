// CachedGraph: a traced program and its plans: what a hybridized block calls.
#pragma once

#include <functional>
#include <memory>

#include "kaon/graph/execution_plan.h"
#include "kaon/graph/update.h"

namespace kaon {

struct HybridizeOptions {
  bool static_alloc =
      false;  // keep the arena between calls (Kaon always plans memory; without it arenas are given back)
  bool static_shape = false;  // as MXNet's; requires static_alloc
  bool exact = false;         // imperative kernels and layouts only: bit-equal to the imperative run
  int max_plans = 8;          // least recently used goes
};

struct PlanStats {
  uint64_t hits = 0, misses = 0, evictions = 0;
};

// Thread safety: call() from any thread.
class CachedGraph {
 public:
  // `input_names`: the variables of `program` in the order in which arrays are given; data first.
  // Its plans share arenas, with those of other graphs that are given the same. With an update each call is a training step: forward, gradients of the outputs' sum, update.
  CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options, std::string name,
              std::shared_ptr<const Update> update = nullptr, IntrusivePtr<PlanArenas> arenas = nullptr);
  // From the inputs' shapes and the mode, the program with all shapes and numbered draws.
  using Trace = std::function<Graph(std::span<const TensorMeta> inputs, bool training)>;
  CachedGraph(Trace trace, size_t num_outputs, std::vector<std::string> input_names, HybridizeOptions options,
              std::string name, IntrusivePtr<PlanArenas> arenas);

  // One submission to the engine. Fills `outputs`, num_outputs() of them. Recorded when autograd records and an input
  // has a gradient attached. Shape errors are thrown here, naming the node.
  // Draws the random numbers at `numbers`; null: the engine's next.
  void call(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
            const RandomKey* numbers = nullptr);
  std::vector<NDArray> call(std::span<const NDArray* const> inputs, const std::source_location& site);
  size_t num_outputs() const { return num_outputs_; }

  const Symbol& program() const { return program_; }  // undefined when it was made from a Trace
  const std::vector<std::string>& input_names() const { return input_names_; }
  PlanStats stats() const;
  std::string last_miss() const;  // why the last plan was made: "data dim 0: 32 -> 31"
  // Of the plan used last; throws StateError before the first call.
  IntrusivePtr<ExecutionPlan> plan() const;

 private:
  struct Key {
    std::vector<TensorMeta> inputs;
    Device device{};
    bool training = false;
    std::vector<bool> wanted;  // gradients; empty when nothing is recorded
  };
  struct Entry {
    Key key;
    IntrusivePtr<ExecutionPlan> plan;
    uint64_t used = 0;
  };
  bool matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded) const;
  IntrusivePtr<ExecutionPlan> find(std::span<const NDArray* const> inputs, bool training, bool recorded);
  Entry* look_up(std::span<const NDArray* const> inputs, bool training, bool recorded);
  IntrusivePtr<ExecutionPlan> build(const Key& key) const;
  std::string explain(const Key& key) const;

  Trace trace_;
  size_t num_outputs_;
  Symbol program_;
  std::shared_ptr<const Update> update_;
  std::vector<std::string> input_names_;
  HybridizeOptions options_;
  const char* name_;
  IntrusivePtr<PlanArenas> arenas_;
  mutable SpinLock lock_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  PlanStats stats_;
  std::string last_miss_;
};

}  // namespace kaon
