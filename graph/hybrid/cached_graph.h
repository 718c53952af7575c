// CachedGraph: a traced program and its plans: what a hybridized block calls.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/graph/hybridize.h"
#include "kaon/graph/ir/update.h"
#include "kaon/graph/plan/execution_plan.h"
#include "kaon/graph/plan_report.h"

namespace kaon::graph {

// "data dim 0: 32 -> 31": the first difference; empty when there is none.
std::string describe_change(std::span<const std::string> names, std::span<const TensorMeta> old,
                            std::span<const TensorMeta> now);

// The outputs of a program at which the backward of its next recorded call is taken to find gradients: those where the
// last one did. Imperatively no gradient goes through an output that nothing reads; a plan that took zeros for it would
// multiply them by derivatives that may be infinite.
// Thread safety: any thread.
class ExpectedHeads {
 public:
  // By output; empty: each.
  std::vector<bool> get() const {
    std::lock_guard lock(lock_);
    return heads_;
  }
  void set(std::vector<bool> heads) {
    std::lock_guard lock(lock_);
    heads_.swap(heads);
  }
  bool operator==(const std::vector<bool>& heads) const {
    std::lock_guard lock(lock_);
    return heads_ == heads;
  }

 private:
  mutable SpinLock lock_;
  std::vector<bool> heads_;
};

// Thread safety: call() from any thread.
class CachedGraph {
 public:
  // `input_names`: the variables of `program` in the order in which arrays are given; data first, `num_data` of them.
  // Its plans share arenas, with those of other graphs that are given the same. With an update each call is a training
  // step: forward, gradients of the outputs' sum, update. The gradients that it returns follow the program's outputs.
  CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options, std::string name,
              std::shared_ptr<const Update> update = nullptr, IntrusivePtr<PlanArenas> arenas = nullptr,
              size_t num_data = 1);
  // From the inputs' shapes and the mode, the program with all shapes and numbered draws.
  using Trace = std::function<Graph(std::span<const TensorMeta> inputs, bool training)>;
  CachedGraph(Trace trace, size_t num_outputs, std::vector<std::string> input_names, HybridizeOptions options,
              std::string name, IntrusivePtr<PlanArenas> arenas);

  // One submission to the engine. Fills `outputs`, num_outputs() of them. Recorded when autograd records and an input
  // has a gradient attached. Its backward is one submission more where gradients arrive at the outputs that they
  // arrived at in the backward before it; where they do not, it computes the forward again. Shape errors are thrown
  // here, naming the node. `retrace` makes the program anew, for a call that is verified. Draws the random numbers at
  // `numbers`; null: the engine's next.
  void call(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
            std::optional<FunctionRef<Symbol()>> retrace = {}, const RandomKey* numbers = nullptr);
  // The same outside of record(), into the outputs that are defined, whose memory no input shares.
  void call_into(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
                 const RandomKey* numbers, std::optional<FunctionRef<Symbol()>> retrace = {}) {
    submit(inputs, outputs, site, retrace, numbers);
  }
  std::vector<NDArray> call(std::span<const NDArray* const> inputs, const std::source_location& site);
  size_t num_outputs() const { return num_outputs_; }

  const Symbol& program() const { return program_; }  // undefined when it was made from a Trace
  const std::vector<std::string>& input_names() const { return input_names_; }
  // Its plans keep parameters no longer than calls last, until some more calls have found the same ones.
  void forget_parameters();
  PlanStats stats() const;
  std::string last_miss() const;  // why the last plan was made: "data dim 0: 32 -> 31"
  // Of the plan used last; throws StateError before the first call.
  IntrusivePtr<ExecutionPlan> plan() const;
  IntrusivePtr<PlanReport> report() const { return IntrusivePtr<PlanReport>(new PlanReport(plan())); }

 private:
  struct Key {
    std::vector<TensorMeta> inputs;
    Device device{};
    bool training = false;
    bool checking = false;     // ops/checks.h: every call is verified
    std::vector<bool> wanted;  // gradients; empty when nothing is recorded
    std::vector<bool> rows;    // of these: end in arrays that keep rows of them; empty: none does
    std::vector<bool> heads;   // outputs at which they arrive; empty: at each
  };
  struct Entry {
    Key key;
    IntrusivePtr<ExecutionPlan> plan;
    uint64_t used = 0;
  };
  bool matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded,
               int64_t bucket) const;
  void submit(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
              std::optional<FunctionRef<Symbol()>> retrace, const RandomKey* numbers);
  IntrusivePtr<ExecutionPlan> find(std::span<const NDArray* const> inputs, bool training, bool recorded);
  Entry* look_up(std::span<const NDArray* const> inputs, bool training, bool recorded, int64_t bucket);
  IntrusivePtr<ExecutionPlan> build(const Key& key) const;
  bool is_bucketed(bool training, bool recorded) const {
    return options_.policy == PlanPolicy::bucket && !training && !recorded;
  }
  std::string explain(const Key& key) const;
  void refuse_new_shapes(const Key& key) const;  // under PlanPolicy::error

  Trace trace_;
  size_t num_outputs_;
  Symbol program_;
  std::shared_ptr<const Update> update_;
  std::vector<std::string> input_names_;
  HybridizeOptions options_;
  const char* name_;
  IntrusivePtr<PlanArenas> arenas_;
  std::shared_ptr<ExpectedHeads> expected_heads_ = std::make_shared<ExpectedHeads>();
  size_t num_data_ = 0;
  mutable SpinLock lock_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  PlanStats stats_;
  std::string last_miss_;
};

}  // namespace kaon::graph
