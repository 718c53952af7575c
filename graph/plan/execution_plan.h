// ExecutionPlan: a graph with its memory, flattened so that one engine operation runs all of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/memory/plan_arenas.h"
#include "kaon/graph/plan/plan_capture.h"
#include "kaon/graph/plan/verify.h"

namespace kaon {

// The state of one run at a time: an arena, the tensors that point into it, the kernels' states. Runs that share it are
// ordered by the arena's var.
struct PlanRun {
  size_t number;  // of the arena
  IntrusivePtr<Buffer> arena;
  const void* base = nullptr;  // of the arena when `views` were last pointed into it
  std::vector<TensorView> views;
  std::vector<Source> sources;  // by view, when predicting
  uint64_t parameters = 0;      // the number of the shared read lease whose arrays `views` show; 0: of none
  std::vector<std::unique_ptr<KernelState>> states;
  std::vector<std::byte> saved;        // earlier values of arrays that steps have updated in place
  uint32_t num_saved = 0;              // entries of the plan's list saved in this run
  RandomKey key{};                     // of the numbers that the last forward drew
  IntrusivePtr<Shadow> shadow;         // of a leased forward that is verified, for its backward
  PlanCapture captures[2];             // by phase, on a GPU
  std::vector<CallArray> call_arrays;  // arrays of the present launch, for `captures`
};

class GradientProgram;

struct PlanOptions {
  Device device{};
  bool training = false;
  bool exact = false;                      // the imperative kernels
  bool winograd = false;                   // convolutions by Winograd's algorithm where it pays
  IntrusivePtr<PlanArenas> arenas{};       // null: the plan makes its own
  bool keep_arenas = false;                // else their memory is given back to the storage after each use
  bool branches = true;                    // independent branches run in parallel, if the engine has threads for them
  bool padded = false;                     // made by pad_rows(): the first input is the number of rows of a call
  std::function<std::string()> history{};  // the graph after each pass, for dump(); null: not known
  std::shared_ptr<GradientProgram> gradients{};  // the backward as a program, for gradients that are recorded
  std::vector<bool> heads{};                     // by output: does the backward take a gradient there? Empty: each
  std::vector<bool> copied{};                    // by input: inputs_updated_in_copies(); empty: none
  std::vector<std::string> refusals{};           // by output: why it has no gradient; empty: each has one
  std::vector<bool> recorded{};                  // by output: recorded_outputs(); empty: each is, or none
  int verify = 0;  // the number of calls, with their backwards, that are compared with the imperative run of `program`
  std::shared_ptr<const Graph> program{};  // passes::program(), before the passes
  std::optional<size_t> num_data{};        // the inputs after these are parameters; unset: not known
};

// The parameters of a plan, read by call after call.
struct ParameterLease final : SharedReadLease {
  using SharedReadLease::SharedReadLease;
  std::vector<NDArray> arrays;
  const uint64_t number = ++last_number;  // from 1

 private:
  static inline std::atomic<uint64_t> last_number{0};
};

struct PlanCall;

// Immutable once built; runs are submitted from any thread. Holds the arrays of its constants.
class ExecutionPlan : public RefCounted<ExecutionPlan> {
 public:
  // All shapes of the graph must be known. Without `memory`: plan_memory() of the graph.
  ExecutionPlan(Graph graph, const PlanOptions& options, std::optional<MemoryPlan> memory = {});
  ~ExecutionPlan();

  // Pushes the forward nodes as one operation and makes the forward outputs. With `lease` the run is kept for the
  // backward, until end_lease. With a shadow the values of both are compared; the first difference fails the operation
  // with a VerifyError, and the arrays that it updates stay as they were. Draws the random numbers at `numbers`; null:
  // the engine's next.
  PlanRun& forward(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const OpLabel& label, bool lease,
                   IntrusivePtr<Shadow> shadow = {}, const RandomKey* numbers = nullptr);
  // A shadow for the forwards to be verified, else null. A plan that was found wrong is verified from then on.
  IntrusivePtr<Shadow> next_shadow();
  bool is_verifying() const { return to_verify_ > 0; }
  // Pushes the backward nodes as one operation. `arrays`: the forward inputs, then options().heads; `outputs`: the
  // forward outputs; those that the backward does not read may be undefined. `results`: the gradients: written into the
  // given arrays, made where undefined. With `retain` the saved values stay for another backward.
  void backward(PlanRun& run, std::span<const NDArray* const> arrays, std::span<const NDArray> outputs,
                std::span<NDArray> results, const OpLabel& label, bool retain);
  void end_lease(PlanRun& run);

  // For an operator whose kernel runs a graph: the forward as a part of the calling operation. A run is for one call at
  // a time. `arena`: memory().arena_bytes of memory. Inputs and outputs by number; `sources` as in KernelContext, or
  // empty. Random numbers are those from `key` on.
  std::unique_ptr<PlanRun> make_nested_run() const;
  void run_nested(PlanRun& run, void* arena, std::span<void* const> inputs, std::span<void* const> outputs,
                  std::span<const Source> sources, const RandomKey& key, RunContext& context) const;

  // Ends the shared read lease of the parameters, until some more calls have found the same ones.
  void forget_parameters();

  bool backward_reads_input(size_t i) const { return read_in_[1][i]; }
  bool updates_input(size_t i) const { return mutated_[i]; }
  bool backward_reads_output(size_t i) const { return output_read_[i]; }

  const Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }
  const MemoryPlan& memory() const { return memory_; }
  std::string report() const { return memory_.report(graph_); }
  std::string svg() const { return memory_.svg(graph_); }
  // A line for each operator: the kernel that it runs and the layout in which that works, known after the first run.
  // Then how many images are copied from one layout into another in a run.
  std::string implementations() const;
  // The graph before and after each pass, then implementations() and report().
  std::string dump() const {
    return (options_.history ? options_.history() : graph_.str()) + implementations() + report();
  }
  // Arenas made so far, by this plan and those that share them.
  size_t num_arenas() const { return options_.arenas->count(); }
  // Runs of a half that were launched on a GPU as one captured graph.
  uint64_t graph_launches() const { return graph_launches_.load(std::memory_order_relaxed); }

 private:
  friend struct PlanCall;
  struct Step {
    void (*kernel)(const void*, KernelContext&);
    const void* attrs;
    const Node* node;
    uint32_t first_view;  // inputs, then outputs
    uint32_t num_inputs, num_outputs;
    uint32_t state;
    uint64_t random_offset;
    bool random;
    bool updates = false;                     // writes an input in place
    uint32_t first_saved = 0, num_saved = 0;  // of saved_: the arrays that it updates
  };
  // An array that a step updates in place although a later one may still fail: it is saved before.
  struct Saved {
    uint32_t view;
    size_t bytes, offset;
  };
  // A view of an array of the call.
  struct External {
    uint32_t view;
    Place place;
    uint32_t index;
    bool has_rows;       // of the call's number: its shape is that of the array
    uint32_t array = 0;  // of the half, where it is captured
  };
  // An array of the call, whatever the number of its views.
  struct PhaseArray {
    Place place;
    uint32_t index;
    uint32_t view;  // one of them
    bool is_read, is_written;
  };
  // The submission of one half.
  struct Submission {
    PlanRun& run;
    Phase phase;
    std::span<const NDArray* const> inputs;
    std::span<const NDArray> forward_outputs{};
    std::span<const NDArray> results;
    IntrusivePtr<Buffer> saved{};  // initial contents of the arena; undefined: its present ones
    RandomKey key{};
    IntrusivePtr<Shadow> shadow{};
    bool is_last;                               // nothing reads the arena after this
    IntrusivePtr<ParameterLease> parameters{};  // defined: the shared read lease of the parameters
  };
  struct PhasePlan {
    std::vector<Step> steps;
    std::vector<External> externals;              // parameters last
    size_t num_others = 0;                        // of these, that are not
    std::vector<std::vector<uint32_t>> branches;  // as Graph::branches, of steps
    bool is_captured = false;                     // on a GPU, as one graph
    std::vector<PhaseArray> arrays;               // then
  };
  // The choices of a half's kernels when it first ran.
  struct Choices {
    std::atomic<bool> are_known{false};
    std::vector<std::string> implementations;  // by step; guarded by the plan's lock
    int reorders = 0;                          // inside kernels
  };

  void add_step(uint32_t number);
  void add_view(PhasePlan& half, ValueId v, bool has_rows);
  bool note_read(const Node& node, uint32_t input);  // true: it is updated in place
  PlanRun& acquire();                                // until end_lease()
  // rows: of the call, where the plan is padded.
  void make_arrays(size_t first, Device device, std::span<NDArray> arrays, int64_t rows = 0) const;
  void find_parameters();
  IntrusivePtr<ParameterLease> read_parameters(std::span<const NDArray* const> inputs);
  void push(const Submission& s, const OpLabel& label);
  void push_leased(const Submission& s, const OpLabel& label) {  // ends the lease of its run if the push fails
    try {
      push(s, label);
    } catch (...) {
      end_lease(s.run);
      throw;
    }
  }
  void spare_finished(OpNode& op, const PlanCall& call, const Node& failing) const;
  void execute(OpNode& op, PlanCall& call, RunContext& context) const;
  void launch(OpNode& op, PlanCall& call, RunContext& context) const;  // the same on a GPU
  void run(OpNode& op, PlanCall& call, RunContext& context) const;
  void prepare_capture();
  // False: to be launched step by step.
  bool launch_captured(PlanRun& run, Phase phase, RunContext& context, FunctionRef<void(RunContext&)> run_steps) const;
  void place(PlanRun& run, void* base) const;  // points the views into the arena
  void run_all(const PlanCall& call, RunContext& context, Shadow* shadow) const;
  void find_saved();
  void save(const Step& step, PlanRun& run) const noexcept;
  void restore(PlanRun& run) const noexcept;
  void run_steps(std::span<const Step> steps, const PlanCall& call, RunContext& context, Shadow* shadow) const;
  void run_step(const Step& step, PlanRun& run, const RandomKey& key, RunContext& context, Profiler& profiler) const;
  std::exception_ptr failure_of(const Step& step, const PlanRun& run, const std::exception_ptr& why) const noexcept;
  void note_choices(Phase phase, const PlanRun& run) const noexcept;
  void give_back_unused(const PlanRun& run);  // frees its arena's memory, unless that is used, leased or kept

  // Members that calls only read are on other cache lines than those that they write: the reference count before them,
  // and the members after the lock.
  alignas(64) Graph graph_;
  MemoryPlan memory_;
  PhasePlan phases_[2];
  std::vector<TensorView> views_;      // as in a run, without addresses
  std::vector<Source> sources_;        // of constants
  std::vector<size_t> arena_offsets_;  // by view; unused for externals
  std::vector<bool> in_arena_;
  std::vector<bool> mutated_;      // by input
  std::vector<bool> read_in_[2];   // by phase and input
  std::vector<bool> output_read_;  // by forward output: does the backward need it?
  uint64_t random_numbers_ = 0;
  uint32_t num_states_ = 0;
  std::vector<Saved> saved_;  // in the order of steps
  size_t saved_bytes_ = 0;
  bool mutates_ = false;
  PlanOptions options_;
  std::unique_ptr<const Verification> verification_;  // null: calls are not verified
  std::atomic<int> to_verify_{0};                     // calls still to be verified
  std::vector<uint32_t> parameters_;                  // inputs that a forward reads and does not update
  mutable Choices choices_[2];
  alignas(64) mutable SpinLock lock_;
  mutable std::atomic<uint64_t> graph_launches_{0};
  std::vector<std::unique_ptr<PlanRun>> runs_;     // by arena; null: not used yet
  std::vector<const ArrayNode*> last_parameters_;  // of the last call, only compared
  int calls_alike_ = 0;                            // with these, since the last write that was noticed
  IntrusivePtr<ParameterLease> parameter_lease_;   // null, or begun
};

}  // namespace kaon
