// NestedBody: a graph that a kernel runs as a part of its own operation.
#pragma once

#include <optional>

#include "kaon/graph/control_flow/control_flow_program.h"
#include "kaon/graph/plan/execution_plan.h"

namespace kaon::graph {

// The RunContext of its kernels: scratch memory is passed from one to the next instead of freed, so that freeing theirs
// does not free that of the kernel around them. One operation at a time.
class NestedContext final : public RunContext {
 public:
  void begin(RunContext& outer);  // forgets the memory of an earlier operation
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override {
    outer_->parallel_for(n, grain, body);
  }
  void* workspace(size_t bytes) override;
  void free_workspace() noexcept override;
  Stream* stream() override { return outer_->stream(); }
  void* keep(size_t bytes) { return outer_->workspace(bytes); }  // until the kernel around them ends

 private:
  struct Block {
    void* data;
    size_t bytes;
    bool is_taken;
  };
  RunContext* outer_ = nullptr;
  std::vector<Block> blocks_;
};

// Used by one operation at a time.
class NestedBody {
 public:
  // From a graph with shapes, which goes through the passes as a plan's graph does. Throws ValueError for an operator
  // that updates an array that the graph reads: the order of update and reads would not be defined.
  NestedBody(Graph graph, bool training, bool exact);
  void begin(NestedContext& context);  // in each operation, before the first run()
  void run(std::span<void* const> inputs, std::span<void* const> outputs, std::span<const Source> sources,
           const RandomKey& key) const {
    run_->run_nested(arena_, inputs, outputs, sources, key, *context_);
  }

 private:
  IntrusivePtr<ExecutionPlan> plan_;
  std::unique_ptr<PlanRun> run_;
  void* arena_ = nullptr;
  NestedContext* context_ = nullptr;
};

// Random numbers that one run of this graph takes.
uint64_t draws_of(const Graph& graph, bool training);

// The state of control flow's kernels, between calls and shared while they run.
struct ControlFlowState : KernelState {
  NestedContext context;
  std::optional<NestedBody> bodies[2];  // by graph of the program, made when first needed
  std::vector<void*> inputs, outputs;   // of the body in this iteration
  std::vector<Source> sources;          // of its inputs; empty in training
  std::vector<TensorMeta> metas;        // of the body's inputs
  std::vector<TensorMeta> results;      // of the body, or of either branch
  std::vector<void*> places;            // two for each state, written in turn
  DType predicate = DType::float32;     // of a while_loop
  uint64_t draws = 0;                   // of an iteration

  ControlFlowState(const ControlFlow& program, const KernelContext& c);
  // Begins a call: begins the bodies made so far, and puts captured values and first states into `inputs`.
  void begin(const ControlFlow& program, const KernelContext& c);
  NestedBody& body(const ControlFlow& program, size_t i, const KernelContext& c);
};

// The key at which the random numbers of this call begin.
RandomKey key_of(const ControlFlow& program, const KernelContext& c);
// Whether this value of one element is other than 0.
bool is_true(const void* value, DType dtype);
// Whether the condition of the cond in `c` is true.
inline bool takes_first(const KernelContext& c) { return is_true(c.in(0).data, c.in(0).dtype); }

// Runs the iterations of a loop: output_at(i, k) says where iteration k puts result i, state_at(j, k) where state j.
// Returns how many there were; s.inputs then holds the last states.
int64_t run_loop(const ControlFlow& program, ControlFlowState& s, const KernelContext& c,
                 FunctionRef<void*(int, int64_t)> output_at, FunctionRef<void*(int, int64_t)> state_at);

// Points the body's data at row k.
void point_at_row(const ControlFlow& program, ControlFlowState& s, const KernelContext& c, int64_t k);

inline size_t bytes_of(const TensorMeta& m) { return size_t(m.shape.size()) * size_of(m.dtype); }

// The state in the plan's slot, or in `local` where a kernel runs without a plan.
template <class State, class... Args>
State& state_of(const KernelContext& c, std::unique_ptr<KernelState>& local, const Args&... args) {
  std::unique_ptr<KernelState>& slot = c.state ? *c.state : local;
  if (!slot) slot = std::make_unique<State>(args..., c);
  return static_cast<State&>(*slot);
}

}  // namespace kaon::graph
