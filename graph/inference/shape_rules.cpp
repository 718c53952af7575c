#include "kaon/graph/inference/shape_rules.h"

#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/inference/control_flow_rules.h"

namespace kaon::graph {

namespace {

template <class Op>
ShapeRule shape_rule_of() {
  if constexpr (requires(const Op& o, ShapeFacts& f) { learn(o, f); }) {
    static_assert(!is_in<Op>(OneShape{}) && !is_in<Op>(KeepsShape{}) && !is_in<Op>(CopiesDimensions{}) &&
                      !is_in<Op>(FollowsInputs{}),
                  "an operator has one rule");
    return [](const void* attrs, ShapeFacts& f) { learn(*static_cast<const Op*>(attrs), f); };
  } else if constexpr (is_in<Op>(OneShape{})) {
    return [](const void*, ShapeFacts& f) { f.all_same(); };
  } else if constexpr (is_in<Op>(KeepsShape{})) {
    return [](const void*, ShapeFacts& f) {
      f.all_same(1, 1);
      f.probe();
      f.all_same(1, 1);
    };
  } else if constexpr (is_in<Op>(CopiesDimensions{})) {
    return [](const void*, ShapeFacts& f) { f.copies_dimensions(); };
  } else if constexpr (is_in<Op>(FollowsInputs{})) {
    return [](const void*, ShapeFacts& f) { f.probe(); };
  } else {
    return nullptr;
  }
}

// The attribute `shape` of an operator in the list.
template <class... Ops>
Shape* shape_attribute(const OpDef& def, void* attrs, ops::OpList<Ops...>) {
  Shape* found = nullptr;
  (void)((found = &def == &ops::def_of<Ops>() ? &static_cast<Ops*>(attrs)->shape : nullptr) || ...);
  return found;
}

using MadeArrays = ops::OpList<op::Zeros, op::Ones, op::Full, op::RandomUniform, op::RandomNormal, op::RandomRandint,
                               op::RandomGamma, op::RandomExponential, op::RandomPoisson, op::RandomNegativeBinomial,
                               op::RandomGeneralizedNegativeBinomial>;

}  // namespace

ShapeRule shape_rule(const OpDef& def) {
  using Rules = std::unordered_map<const OpDef*, ShapeRule>;
  static constinit MadeOnce<const Rules> made;
  const Rules& rules = made.get([] {
    auto* all = new Rules;
    ops::for_each_op([&]<class Op>() { (*all)[&ops::def_of<Op>()] = shape_rule_of<Op>(); });
    return all;
  });
  if (is_control_flow(def)) return [](const void*, ShapeFacts& f) { learn_control_flow(f); };
  // the program's own function is not asked about sizes that nobody has named
  if (&def == &op::Custom::def) return nullptr;
  const auto found = rules.find(&def);
  return found == rules.end() ? nullptr : found->second;
}

std::optional<Shape> open_shape(const SymbolNode& node, bool zeros_are_open) {
  if (!node.op || !node.inputs.empty()) return std::nullopt;
  if (node.op == &ops::def_of<op::Arange>()) {
    const auto& o = *static_cast<const op::Arange*>(node.attrs.get());
    return o.infer_range && !o.stop ? std::optional(Shape(-1)) : std::nullopt;
  }
  const Shape* given = shape_attribute(*node.op, const_cast<void*>(node.attrs.get()), MadeArrays{});
  if (!given) return std::nullopt;
  Shape open = *given;
  bool is_open = false;
  for (int i = 0; i < open.ndim(); ++i) {
    if (open[i] < 0 || (open[i] == 0 && zeros_are_open)) open[i] = -1, is_open = true;
  }
  return is_open ? std::optional(open) : std::nullopt;
}

void close_shape(const OpDef& def, void* attrs, const Shape& shape) {
  if (&def == &ops::def_of<op::Arange>()) {
    auto& o = *static_cast<op::Arange*>(attrs);
    o.stop = o.start + double(shape[0] / o.repeat) * o.step;
    o.infer_range = false;
  } else if (Shape* own = shape_attribute(def, attrs, MadeArrays{})) {
    *own = shape;
  }
}

}  // namespace kaon::graph
