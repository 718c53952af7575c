// The operators of control flow in a graph. Their formulae: contrib::foreach, while_loop, cond.
#pragma once

#include "kaon/graph/control_flow/control_flow_program.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

constexpr std::string_view control_flow_op(ControlKind kind) {
  constexpr std::string_view names[] = {"_foreach", "_while_loop", "_cond"};
  return names[size_t(kind)];
}

// One node: its iterations are part of the operation that runs the plan.
template <ControlKind K>
struct ControlFlowOp {
  const ControlFlow* program = nullptr;
  static constexpr OpTraits traits{.name = control_flow_op(K), .variadic = true};
  static constexpr void fields(auto) {}  // in files it is a node with subgraphs: control_flow_file.h
  static const OpDef def;
  int num_inputs() const { return program->num_inputs(); }
  int num_outputs() const { return program->num_results(); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
template <>
const OpDef ControlFlowOp<ControlKind::foreach>::def;
template <>
const OpDef ControlFlowOp<ControlKind::while_loop>::def;
template <>
const OpDef ControlFlowOp<ControlKind::cond>::def;
template <ControlKind K>
void run_cpu(const ControlFlowOp<K>& op, KernelContext& c);

// Inputs: those of the forward node, then the gradients at its outputs with heads[i]. Outputs: the gradients of its
// inputs with wanted[i]. Runs the forward again, keeping the states, then the iterations from the last to the first.
struct ControlFlowGrad {
  const ControlFlowGradient* request = nullptr;
  static constexpr OpTraits traits{.name = "_backward_control_flow", .variadic = true, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  int num_inputs() const;
  int num_outputs() const;
  void infer(InferContext& c) const;
};
void run_cpu(const ControlFlowGrad& op, KernelContext& c);

// The key of the random numbers of a loop or a branch: {seed, offset}, an int64 (2). A value of the graph, so that the
// backward draws the numbers of the forward.
struct ControlFlowKey {
  bool training_only = false;  // the body draws in training alone
  static constexpr OpTraits traits{.name = "_control_flow_key", .inputs = Names(), .random = true};
  static constexpr OpTraits training_traits{
      .name = "_control_flow_key", .inputs = Names(), .random = true, .mode_dependent = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  const OpTraits& traits_of() const { return training_only ? training_traits : traits; }
  void infer(InferContext& c) const;
};
void run_cpu(const ControlFlowKey& op, KernelContext& c);

// Whether the operator is one of the three, whose nodes contain programs.
bool is_control_flow(const OpDef& op);
const OpDef* find_control_flow(std::string_view name);  // nullptr: none of them
ControlKind control_kind(const OpDef& op);
const ControlFlow& program_of(const OpDef& op, const void* attrs);

// Do these graphs draw random numbers, at least in training; in prediction too?
struct Draws {
  bool any = false, always = false;
};
Draws find_draws(std::span<const Graph> graphs);

}  // namespace kaon
