// The operators of control flow in a graph. Their formulae: contrib::foreach, while_loop, cond.
#pragma once

#include "kaon/graph/control_flow/control_flow_program.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

}  // namespace kaon

namespace kaon::graph {

constexpr std::string_view control_flow_op(ControlKind kind) {
  constexpr std::string_view names[] = {"_foreach", "_while_loop", "_cond"};
  return names[size_t(kind)];
}

// By output of the node: may it be computed from an input with from[i], through some branch or iteration?
std::vector<bool> results_from(const ControlFlow& program, std::span<const TensorMeta> inputs, std::vector<bool> from);

}  // namespace kaon::graph

namespace kaon {

namespace op {
// One node: its iterations are part of the operation that runs the plan.
template <graph::ControlKind K>
struct ControlFlowOp {
  const graph::ControlFlow* program = nullptr;
  static constexpr OpTraits traits{.name = graph::control_flow_op(K), .variadic = true};
  static constexpr OpTraits own_traits{.name = graph::control_flow_op(K), .variadic = true, .ignores_head = true};
  static constexpr void fields(auto) {}  // in files it is a node with subgraphs: control_flow_file.h
  static const OpDef def;
  const OpTraits& traits_of() const { return program && program->is_own ? own_traits : traits; }
  int num_inputs() const { return program->num_inputs(); }
  int num_outputs() const { return program->num_results(); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  std::vector<bool> computed_from(std::span<const TensorMeta> inputs, std::vector<bool> from) const {
    return graph::results_from(*program, inputs, std::move(from));
  }
};
}  // namespace op
template <>
const OpDef op::ControlFlowOp<graph::ControlKind::foreach>::def;
template <>
const OpDef op::ControlFlowOp<graph::ControlKind::while_loop>::def;
template <>
const OpDef op::ControlFlowOp<graph::ControlKind::cond>::def;
template <graph::ControlKind K>
void run_cpu(const op::ControlFlowOp<K>& op, KernelContext& c);

namespace op {
// Inputs: those of the forward node, the heads that arrive, then for each head that arrives sometimes whether it does.
// Last the kept results. Outputs: the gradients that arrive at its inputs, then for each that arrives sometimes whether
// it does: a uint8 (1). Without kept results it runs the forward again, keeping the states; then the iterations from
// the last to the first.
struct ControlFlowGrad {
  const graph::ControlFlowGradient* request = nullptr;
  static constexpr OpTraits traits{.name = "_backward_control_flow", .variadic = true, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  int num_inputs() const;
  int num_gradients() const;
  int num_outputs() const;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::ControlFlowGrad& op, KernelContext& c);

}  // namespace kaon

namespace kaon::graph {

// By input of the node, of those with wanted[i]: does a gradient arrive there when these heads arrive? As on arrays,
// some branch or iteration must send one. `own`: as ControlFlowGradient's. `inputs`: shapes and dtypes of the node's.
std::vector<Arrives> find_arrivals(const ControlFlow& program, const std::vector<Arrives>& heads,
                                   const std::vector<bool>& wanted, const std::vector<bool>& own,
                                   std::span<const TensorMeta> inputs);

}  // namespace kaon::graph

namespace kaon {

namespace op {
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
}  // namespace op
void run_cpu(const op::ControlFlowKey& op, KernelContext& c);

}  // namespace kaon

namespace kaon::graph {

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

}  // namespace kaon::graph
