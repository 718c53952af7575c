// Verification: the values of a plan, compared with the imperative run of its program.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kaon/graph/hybridize.h"
#include "kaon/graph/ir/graph.h"
#include "kaon/graph/plan/difference.h"

namespace kaon::graph {

// The map from a plan's values to those of its program, and the data for the program's imperative run. Immutable.
class Verification {
 public:
  // `program`: passes::program(); `planned`: the graph after the passes, which must live as long as this.
  Verification(Graph program, const Graph& planned, bool training, bool exact);
  // So that operations of the plan declare it.
  bool reads_input(Phase phase, size_t i) const { return reads_[size_t(phase)][i]; }

 private:
  friend class Shadow;
  static constexpr uint32_t none = UINT32_MAX;

  void find_same_values();
  void note_inputs();

  const Graph program_;
  const Graph& planned_;
  const bool training_, exact_;
  bool has_update_ = false;
  std::vector<std::vector<std::vector<ValueId>>> same_;  // by planned node and output
  std::vector<uint32_t> input_of_;                       // by node of the program: which input it is
  std::vector<uint32_t> updated_by_;                     // by input: the last node of the program that updates it
  std::vector<bool> reads_[2];                           // by phase and input
  std::vector<uint64_t> random_offsets_;                 // by node of the program
  std::vector<const void*> constants_;                   // by node of the program
  size_t gradient_begins_;                               // node of the program
};

// The imperative run of one verified call: the program node by node with the imperative kernels, the random numbers of
// the call, and copies of the arrays that it updates, so that it has no effect. Each value that the plan has too is
// compared as soon as the plan has computed it. The run then continues with the plan's value (under exact the same
// bits), so a difference is found at its operator, and rounding errors neither add up nor decide the sign at a relu's
// gradient. Used by one operation at a time; copies share the values of the forward.
class Shadow : public RefCounted<Shadow> {
 public:
  explicit Shadow(const Verification& verification);

  // `arrays`: by input of the program; null where this phase reads none. `key`: the plan's draw.
  void begin(Phase phase, std::span<ArrayNode* const> arrays, RandomKey key);
  // To be called before and after a node of the plan runs. Throw VerifyError.
  void check_inputs(uint32_t node, const TensorView* inputs, RunContext& run);
  void check_outputs(uint32_t node, const TensorView* outputs, RunContext& run);
  // After all nodes: compares the arrays that are updated in place. Throws VerifyError.
  void finish(RunContext& run);
  // Restores the arrays that the call has updated in place.
  void undo() const;

 private:
  using Buffer = std::shared_ptr<std::byte>;
  struct Write {
    const std::byte *begin, *end;
    uint32_t node;
  };

  static Buffer make_buffer(const TensorMeta& meta);
  const Graph& program() const { return verification_->program_; }
  ValueId root(ValueId v) const;
  void* data(ValueId v) const;
  void advance(size_t end, RunContext& run);
  void evaluate(uint32_t node, RunContext& run);
  void check(ValueId planned, const TensorView& got, RunContext& run);
  void check_kept(const Node& reader, ValueId source, const TensorView& is) const;
  void compare(uint32_t planned, ValueId v, const TensorView& got);
  std::string name_of(ValueId v) const;

  const Verification* verification_;
  std::vector<std::vector<Buffer>> values_;  // by node of the program and output
  std::vector<std::vector<bool>> is_plans_;  // likewise: holds the plan's value
  std::vector<Buffer> updated_, before_;     // by input: this run's updated copy, and the values before the call
  std::vector<void*> inputs_;                // by input
  std::vector<Write> writes_;                // of the plan, in order
  std::exception_ptr failure_;               // of an operator; the run ends there
  RandomKey key_{};
  Phase phase_ = Phase::forward;
  size_t next_ = 0;
};

}  // namespace kaon::graph
