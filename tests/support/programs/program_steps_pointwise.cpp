// Steps that plans fuse: elementwise operators, reductions, and what is made of both.
#include <algorithm>

#include "kaon/tests/support/programs/program_steps.h"

namespace kaon::test::steps {

using namespace ops;
namespace {

// A scalar that operators treat in a way of their own, or any other.
double scalar(ProgramBuilder& b) { return b.dice.pick({0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -1.25, 0.3}); }

Attributes with(const Attributes& attrs, const OpDef& def, std::string_view name, const std::string& text) {
  Attributes changed(def, attrs.get());
  def.read(changed.edit(), name, text);
  return changed;
}

bool has_attribute(const OpDef& def, const Attributes& attrs, std::string_view name) {
  bool found = false;
  def.write(attrs.get(), [&](std::string_view n, const std::string&, bool) { found = found || n == name; });
  return found;
}

Attributes attributes_of(ProgramBuilder& b, const Row& row) {
  // what is left of x by 0 is 0 by definition, and its gradient that of any other divisor
  if (!has_attribute(*row.def, row.attrs, "scalar") || row.def == &op::ModScalar::def || b.dice.chance(0.3))
    return row.attrs;
  return with(row.attrs, *row.def, "scalar", to_text(scalar(b)));
}

// Another array that broadcasts with this one: of its shape, a row or column of it, or a number.
Ref partner(ProgramBuilder& b, Ref a) {
  const Shape& shape = b.shape(a);
  if (b.dice.chance(0.15)) return a;
  if (b.dice.chance(0.6)) {
    return b.pick([&](const TensorMeta& m) { return m.dtype == DType::float32 && m.shape == shape; });
  }
  if (b.dice.chance(0.5)) {
    return b.pick([&](const TensorMeta& m) {
      if (m.dtype != DType::float32 || m.shape.ndim() > shape.ndim() || m.shape.size() == 0) return false;
      for (int i = 1; i <= m.shape.ndim(); ++i) {
        if (m.shape[m.shape.ndim() - i] != 1 && m.shape[m.shape.ndim() - i] != shape[shape.ndim() - i]) return false;
      }
      return true;
    });
  }
  Shape part;
  for (int i = int(b.dice.below(shape.ndim() + 1)); i < shape.ndim(); ++i) {
    part.push_back((b.keeps_rows && i == 0) || b.dice.chance(0.4) ? 1 : shape[i]);
  }
  const Role role = b.dice.pick({Role::parameter, Role::constant});
  return b.variable(role, part.empty() ? Shape(1) : part);
}

const Row& any_pointwise(ProgramBuilder& b) { return *b.dice.pick(b.facts.pointwise); }

// The axes of a reduction: the last ones, or any.
Shape axes_of(ProgramBuilder& b, const Shape& shape) {
  const int first = b.keeps_rows ? 1 : 0;
  if (shape.ndim() <= first) throw Refused();
  Shape axes;
  if (b.dice.chance(0.65)) {
    for (int i = int(b.dice.between(first, shape.ndim() - 1)); i < shape.ndim(); ++i) axes.push_back(i);
  } else {
    for (int i = first; i < shape.ndim(); ++i) {
      if (b.dice.chance(0.5)) axes.push_back(i);
    }
    if (axes.empty()) axes.push_back(first);
  }
  if (b.dice.chance(0.3)) {
    for (int i = 0; i < axes.ndim(); ++i) axes[i] -= shape.ndim();
  }
  return axes;
}

}  // namespace

Ref pointwise_of(ProgramBuilder& b, Ref a) {
  a = b.calm(a);
  switch (b.dice.below(14)) {
    case 0: return b.call(op::Relu{}, {a});
    case 1: return b.call(op::Sigmoid{}, {a});
    case 2: return b.call(op::Tanh{}, {a});
    case 3: return b.call(op::Exp{}, {b.to_fill(a, Fill::unit)});
    case 4: return b.call(op::Square{}, {a});
    case 5: return b.call(op::Abs{}, {a});
    case 6: return b.call(op::SoftRelu{}, {a});
    case 7: return b.call(op::Log{}, {b.to_fill(a, Fill::positive)});
    case 8: return b.call(op::PlusScalar{.scalar = scalar(b)}, {a});
    case 9: return b.call(op::MulScalar{.scalar = scalar(b)}, {a});
    case 10: return b.call(op::RMinusScalar{.scalar = scalar(b)}, {a});
    case 11: return b.call(op::MaximumScalar{.scalar = scalar(b)}, {a});
    case 12: return b.call(op::Negative{}, {a});
    default: return b.call(op::Activation{.act_type = ActivationType(b.dice.below(5))}, {a});
  }
}

Ref pointwise_of(ProgramBuilder& b, Ref a, Ref c) {
  a = b.calm(a), c = b.calm(c);
  switch (b.dice.below(9)) {
    case 0:
    case 1: return b.call(op::BroadcastAdd{}, {a, c});
    case 2: return b.call(op::BroadcastSub{}, {a, c});
    case 3:
    case 4: return b.call(op::BroadcastMul{}, {a, c});
    case 5: return b.call(op::BroadcastDiv{}, {a, b.to_fill(c, Fill::positive)});
    case 6: return b.call(op::BroadcastMaximum{}, {a, c});
    case 7: return b.call(op::BroadcastHypot{}, {a, b.to_fill(c, Fill::nonzero)});
    default: return b.call(op::BroadcastMinimum{}, {a, c});
  }
}

void pointwise(ProgramBuilder& b) {
  const Ref a = b.pick();
  if (b.dice.chance(0.6)) {
    b.offer(b.dice.chance(0.5) ? pointwise_of(b, a) : pointwise_of(b, a, partner(b, a)));
    return;
  }
  const Row& row = any_pointwise(b);
  std::vector<Ref> inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    Ref x =
        i == 0 ? a : b.pick([&](const TensorMeta& m) { return m.dtype == DType::float32 && m.shape == b.shape(a); });
    const bool exponent = row.def == &op::BroadcastPower::def && i == 1;
    if (exponent && b.dice.chance(0.4)) x = b.variable(Role::parameter, b.shape(a), {-1, 2, 0.5});
    inputs.push_back(b.to_fill(x, row.inputs[i].fill));
  }
  b.offer(b.call(*row.def, attributes_of(b, row), inputs, row.options.differentiate));
}

Ref reduction_of(ProgramBuilder& b, Ref a, const Shape& axes, bool keepdims) {
  switch (b.dice.below(10)) {
    case 0:
    case 1:
    case 2: return b.call(op::Sum{.axis = axes, .keepdims = keepdims}, {b.calm(a)});
    case 3:
    case 4:
    case 5: return b.call(op::Mean{.axis = axes, .keepdims = keepdims}, {a});
    case 6: return b.call(op::Max{.axis = axes, .keepdims = keepdims}, {a});
    case 7: return b.call(op::Min{.axis = axes, .keepdims = keepdims}, {a});
    case 8: return b.call(op::Norm{.axis = axes, .keepdims = keepdims}, {b.calm(a)});
    default: return b.call(op::NanSum{.axis = axes, .keepdims = keepdims}, {b.calm(a)});
  }
}

void reduction(ProgramBuilder& b) {
  const Ref a = b.pick();
  Ref r = reduction_of(b, a, axes_of(b, b.shape(a)), b.dice.chance(0.6));
  b.offer(r);
  if (b.dice.chance(0.3) && b.shape(r).ndim() > (b.keeps_rows ? 1 : 0)) {
    b.offer(reduction_of(b, r, axes_of(b, b.shape(r)), b.dice.chance(0.5)));
  }
}

void motif(ProgramBuilder& b) { motif_of(b, b.calm(b.pick())); }

void motif_of(ProgramBuilder& b, Ref h) {
  const Shape axes = axes_of(b, b.shape(h));
  const Ref u = pointwise_of(b, h);
  const Ref w = b.dice.chance(0.8) ? pointwise_of(b, b.dice.pick({h, u}), b.dice.pick({h, u})) : u;
  const Ref reduced = reduction_of(b, w, axes, true);
  for (Ref r : {u, w, reduced}) {
    if (b.dice.chance(0.5)) b.offer(r);
  }
  if (b.dice.chance(0.3)) {
    b.offer(reduction_of(b, b.dice.pick({u, w}), axes, b.dice.chance(0.5)));  // two of one value
  }
  b.offer(b.dice.chance(0.7) ? pointwise_of(b, b.dice.pick({h, u, w}), reduced) : reduced);
}

void again(ProgramBuilder& b) {
  const auto& nodes = b.program().nodes;
  std::vector<uint32_t> calls;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == Kind::call && nodes[i].outputs.size() == 1 && nodes[i].def->traits.mutates == 0) {
      calls.push_back(i);
    }
  }
  if (calls.empty()) throw Refused();
  const ProgramNode n = nodes[b.dice.pick(calls)];  // a copy: the list grows
  if (has_attribute(*n.def, n.attrs, "scalar") && n.def != &op::ModScalar::def && b.dice.chance(0.7)) {
    for (const char* zero : {"0.0", "-0.0"}) {
      b.offer(b.call(*n.def, with(n.attrs, *n.def, "scalar", zero), n.inputs, n.is_derivative));
    }
    return;
  }
  Attributes attrs = n.attrs;
  if (b.dice.chance(0.5)) {
    for (const auto& rows : b.facts.by_operator) {
      if (rows[0]->def == n.def) attrs = b.dice.pick(rows)->attrs;
    }
  }
  b.offer(b.call(*n.def, attrs, n.inputs, n.is_derivative));
}

}  // namespace kaon::test::steps
