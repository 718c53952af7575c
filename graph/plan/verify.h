// Verification: what a plan computes, compared with the imperative run of its program.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kaon/engine/error.h"
#include "kaon/graph/ir/graph.h"
#include "kaon/graph/plan/difference.h"

namespace kaon {

// A hybridized call that does not compute what the net computes imperatively: a plan that is wrong (an error of Kaon),
// or a trace that hybrid_forward has left behind.
class VerifyError : public Error {
 public:
  using Error::Error;
  std::exception_ptr with_context(const std::string& text) const override {
    return std::make_exception_ptr(VerifyError(what() + text));
  }
};

// Which values of a program the values of its plan are, and what the imperative run of the program needs. Immutable.
class Verification {
 public:
  // `program`: passes::program(); `planned`: what the passes have made of it, which lives as long as this.
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

// The imperative run beside one verified call: the program node by node with the imperative kernels, with the random
// numbers of the call and copies of what it updates, so that it leaves no trace. Each value that the plan has as well
// is compared as soon as the plan has computed it. From then on the run goes on with the plan's, which under exact are
// the same bits: a difference is found at the operator where it arises, and rounding neither adds up nor decides which
// way a relu's gradient falls. Used by one operation at a time; copies share the values of the forward.
class Shadow : public RefCounted<Shadow> {
 public:
  explicit Shadow(const Verification& verification);

  // `arrays`: by input of the program; null where this phase reads none. `key`: the plan's draw.
  void begin(Phase phase, std::span<ArrayNode* const> arrays, RandomKey key);
  // Before and after a node of the plan runs. Throw VerifyError.
  void check_inputs(uint32_t node, const TensorView* inputs, RunContext& run);
  void check_outputs(uint32_t node, const TensorView* outputs, RunContext& run);
  // When all have run: what is updated in place. Throws VerifyError.
  void finish(RunContext& run);
  // What the call has updated in place is as before.
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
  std::vector<std::vector<bool>> is_plans_;  // likewise: holds what the plan has computed
  std::vector<Buffer> updated_, before_;     // by input: the run's own, and what was there
  std::vector<void*> inputs_;                // by input
  std::vector<Write> writes_;                // of the plan, in order
  std::exception_ptr failure_;               // of an operator; the run ends there
  RandomKey key_{};
  Phase phase_ = Phase::forward;
  size_t next_ = 0;
};

}  // namespace kaon
