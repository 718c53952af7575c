// ControlFlow: the graphs inside a node that is a loop or a condition.
#pragma once

#include "kaon/graph/ir/gradient.h"

namespace kaon::graph {

enum class ControlKind : uint8_t { foreach, while_loop, cond };

// Inputs of the node: data, states (a cond has one, its predicate), captured values, then the key of its random numbers
// if it draws any. Inputs of each graph: the rows of one iteration, states, captured values.
struct ControlFlow {
  ControlKind kind = ControlKind::foreach;
  // foreach: the body. while_loop: the body, the condition. cond: the two branches, then and else.
  // A body returns outputs, then states, then what its gradient reads.
  std::vector<Graph> graphs{};
  int num_data = 0, num_states = 0, num_captured = 0;
  int num_outputs = 0;         // of an iteration, without the states
  int num_kept = 0;            // of an iteration of a foreach, for its gradient
  int64_t max_iterations = 0;  // of a while_loop
  bool is_random = false;      // draws numbers, at least in training
  bool is_own = false;         // has an output layer, whose gradient is its own

  const char* name() const;  // "foreach"
  bool is_loop() const { return kind != ControlKind::cond; }
  int num_values() const { return num_data + num_states + num_captured; }
  int num_inputs() const { return num_values() + is_random; }
  int num_results() const { return num_outputs + (is_loop() ? num_states : 0) + num_kept; }
  // Is this result a row for each iteration, or of a cond its value, rather than the last state?
  bool is_stacked(int result) const { return result < num_outputs || result >= num_outputs + num_states; }

  // Shapes and dtypes of the graphs' inputs, from those of the node.
  std::vector<TensorMeta> iteration(std::span<const TensorMeta> inputs) const;
  // graphs[i] with shapes. Checks that states keep theirs, that a condition is a scalar, that branches agree.
  Graph inferred(size_t i, std::span<const TensorMeta> iteration) const;
  // Shapes and dtypes of the node's outputs.
  std::vector<TensorMeta> infer(std::span<const TensorMeta> inputs) const;
};

// The gradient requested of a control flow node.
struct ControlFlowGradient {
  const ControlFlow* program = nullptr;
  std::vector<Arrives> gradients;  // by input of the node; never: not wanted, or none arrives
  std::vector<Arrives> heads;      // by output of the node
  std::vector<bool> own;           // by input of the node, as in GradientForm
  // Of a foreach, results whose rows are given, so that nothing of the forward is computed again. Empty: all of it is.
  std::optional<std::vector<int>> kept{};

  bool draws_again() const { return program->is_random && !kept; }
};

// Operators' attributes are plain values, so these are shared and kept as long as the process, one for each structure:
// equal pointers are equal programs. They hold no arrays: constants are captured values. From any thread.
const ControlFlow* intern_program(ControlFlow program);
const ControlFlowGradient* intern_gradient(ControlFlowGradient gradient);

// Shape and dtype of a row of an array: without its first axis, (1) of a 1-D one.
TensorMeta row_of(const TensorMeta& array);
// Shape and dtype of n such rows.
TensorMeta rows_of(const TensorMeta& row, int64_t n);

// The checks that arrays and traces share. Each throws an error that begins with "[name]".
namespace control_flow {
int64_t common_length(const char* name, std::span<const TensorMeta> data);
void check_counts(const char* name, const char* what, size_t expected, size_t got);
void check_state(const char* name, size_t i, const TensorMeta& before, const TensorMeta& after);
void check_output(const char* name, size_t i, const TensorMeta& first, const TensorMeta& now);
void check_scalar(const char* name, const TensorMeta& predicate);
void check_branch_counts(size_t then, size_t otherwise);
void check_branches(const std::vector<TensorMeta>& then, const std::vector<TensorMeta>& otherwise);
void check_limit(const char* name, int64_t max_iterations);
[[noreturn]] void refuse_update(const OpDef& op);
}  // namespace control_flow

}  // namespace kaon::graph
