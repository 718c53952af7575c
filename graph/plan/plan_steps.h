// PlanSteps: a graph with its memory, flattened into the steps of two phases, forward and backward.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/plan/plan_options.h"
#include "kaon/graph/plan/verify.h"

namespace kaon::graph {

// How it works. Each node that is not a view becomes a step: a kernel with its attributes, and a range of the list of
// views, which has a view for each input and output of each step. A view's memory is at an offset in the arena, at a
// constant's address, or comes with the call (External). Owns the graph, its memory plan, its constants and the data
// for verification. Thread safety: immutable once it is built.
class PlanSteps {
 public:
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
    uint32_t first_saved = 0, num_saved = 0;  // of `saved`: the arrays that it updates
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
    bool has_rows;  // of the call's number: its shape is that of the array
  };
  struct PhasePlan {
    std::vector<Step> steps;
    std::vector<External> externals;             // parameters last
    size_t num_others = 0;                       // of these, that are not
    std::vector<std::vector<uint32_t>> regions;  // as Graph::parallel_regions, of steps
  };

  // A part of the forward that is an operation of its own: what it writes can be used while the rest runs.
  struct Stretch {
    uint32_t first_step = 0, end_step = 0, first_external = 0, end_external = 0;
    std::vector<bool> reads{}, updates{};               // by input
    std::vector<bool> writes_output{}, reads_output{};  // by output; an output is read where another stretch writes it
    bool is_last = false;
  };

  // All shapes of the graph must be known. Without `memory`: plan_memory() of the graph. Copies constants to the
  // plan's device, waits for them, and compiles kernels that are not compiled yet. Throws ValueError for a program with
  // more arrays than an operation may have, and the failure of a constant.
  PlanSteps(Graph graph, const PlanOptions& options, std::optional<MemoryPlan> memory);
  PlanSteps(const PlanSteps&) = delete;
  PlanSteps& operator=(const PlanSteps&) = delete;

  const PhasePlan& phase(Phase phase) const { return phases[size_t(phase)]; }
  bool is_read(Phase phase, size_t input) const { return read_in[size_t(phase)][input]; }
  bool is_updated(Phase phase, size_t input) const { return updated_in[size_t(phase)][input]; }
  uint32_t number(const Step& step) const { return uint32_t(step.node - graph.nodes.data()); }  // of its node

  Graph graph;
  MemoryPlan memory;
  PhasePlan phases[2];
  std::vector<TensorView> views;      // as in a run, without addresses
  std::vector<Source> sources;        // of constants, by view; empty in training
  std::vector<size_t> arena_offsets;  // by view; unused for externals
  std::vector<bool> in_arena;         // by view
  std::vector<bool> read_in[2];       // by phase and input
  std::vector<bool> updated_in[2];    // the same
  std::vector<bool> output_read;      // by forward output: does the backward need it?
  std::vector<Saved> saved;           // in the order of steps
  size_t saved_bytes = 0;
  uint64_t random_numbers = 0;
  uint32_t num_states = 0;
  bool mutates = false;
  PlanOptions options;
  std::vector<uint32_t> parameters;                  // inputs that a forward reads and does not update
  std::vector<Stretch> stretches;                    // of the forward; empty: it is one operation
  std::unique_ptr<const Verification> verification;  // null: calls are not verified

 private:
  void add_step(uint32_t number);
  void add_view(PhasePlan& half, ValueId v, bool has_rows);
  bool note_read(const Node& node, uint32_t input);  // true: it is updated in place
  void add_regions();
  void find_saved();
  void prepare_verification();
  std::vector<uint32_t> first_reads() const;
  void add_stretches();
  void find_parameters();
};

}  // namespace kaon::graph
