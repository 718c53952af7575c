// Steps that take any operator of the registry as the test table has it, and control flow around others.
#include "kaon/tests/support/programs/program_evaluate.h"
#include "kaon/tests/support/programs/program_steps.h"

namespace kaon::test::steps {
namespace {

// The dtype for the inputs that follow the row.
DType dtype_of(ProgramBuilder& b, const Row& row) {
  if (row.accepts(DType::float32) && b.dice.chance(0.85)) return DType::float32;
  std::vector<DType> accepted;
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::uint8,
                  DType::boolean, DType::int64}) {
    if (row.accepts(t) && (row.options.tried & dtype_bit(t))) accepted.push_back(t);
  }
  return b.dice.pick(accepted);
}

Ref input_of(ProgramBuilder& b, const Row& row, size_t i, DType t) {
  const Input& in = row.inputs[i];
  const DType dtype = in.dtype.value_or(t);
  const Range range = ProgramBuilder::range_of(in, dtype);
  if (is_mutated(row.def->traits, int(i), int(row.inputs.size()))) {
    return b.variable(Role::state, in.shape, range, dtype);
  }
  const bool listed = in.fill == Fill::integers || in.fill == Fill::given || !in.differentiable;
  const Role role = b.dice.pick({Role::data, Role::constant});
  // gradients are not compared with respect to what none flows to
  if (listed) return b.variable(in.differentiable ? role : Role::constant, in.shape, range, dtype);
  if (i > 0 && is_floating(dtype) && b.dice.chance(0.4)) return b.variable(Role::parameter, in.shape, range, dtype);
  return b.to_dtype(b.to_fill(b.to_shape(b.pick(), in.shape), in.fill), dtype);
}

// Values that a body uses of the program around it, and the steps in it.
void grow_body(ProgramBuilder& body) {
  for (int64_t n = body.dice.between(2, 5); n > 0; --n) {
    const double u = double(body.dice.below(100));
    body.attempt(u < 45 ? pointwise : u < 60 ? motif : u < 75 ? reduction : u < 85 ? movement : u < 95 ? layer : again);
  }
}

// A state's next value, or a branch's result: of a given shape and bounded.
Ref shaped(ProgramBuilder& body, const Shape& shape) {
  return body.call(op::Tanh{}, {body.to_shape(body.calm(body.pick()), shape)});
}

std::shared_ptr<const Program> shared(Program p) { return std::make_shared<const Program>(std::move(p)); }

Ref small(ProgramBuilder& b) {
  const Ref r = b.pick();
  if (b.shape(r).size() > 600) throw Refused();
  return b.calm(r);
}

ProgramNode foreach (ProgramBuilder& b) {
  ProgramNode n;
  n.kind = Kind::foreach;
  Ref data = b.pick([](const TensorMeta& m) { return m.dtype == DType::float32 && m.shape.ndim() > 1; });
  if (b.shape(data).size() == 0) throw Refused();
  if (b.shape(data)[0] > 5) data = b.call(op::SliceAxis{.axis = 0, .begin = 0, .end = b.dice.between(1, 4)}, {data});
  const Ref state = small(b);
  n.inputs = {data, state};
  for (int64_t k = b.dice.below(3); k > 0; --k) n.inputs.push_back(small(b));
  n.num_data = n.num_states = 1;
  ProgramBuilder body(b.dice.next(), b.facts, true);
  const Ref row = body.input(b.value(data)[0].copy());
  body.offer(row);
  for (size_t i = 1; i < n.inputs.size(); ++i) body.offer(body.input(b.value(n.inputs[i])));
  grow_body(body);
  const Ref out = body.calm(body.pick());
  n.bodies = {shared(body.finish({out, shaped(body, b.shape(state))}))};
  return n;
}

ProgramNode while_loop(ProgramBuilder& b) {
  ProgramNode n;
  n.kind = Kind::while_loop;
  const Ref counter = b.variable(Role::constant, {1}, {0, 0, 1}), state = small(b);
  n.inputs = {counter, state};
  if (b.dice.chance(0.5)) n.inputs.push_back(small(b));
  n.num_states = 2;
  n.iterations = b.dice.between(1, 4);
  ProgramBuilder body(b.dice.next(), b.facts, true), condition(b.dice.next(), b.facts, true);
  std::vector<Ref> in;
  for (Ref r : n.inputs) in.push_back(body.input(b.value(r))), condition.input(b.value(r));
  for (size_t i = 1; i < in.size(); ++i) body.offer(in[i]);
  grow_body(body);
  const Ref next = body.call(op::PlusScalar{.scalar = 1}, {in[0]}), out = body.calm(body.pick());
  n.bodies = {shared(body.finish({out, next, shaped(body, b.shape(state))}))};
  Ref goes_on = condition.call(op::LesserScalar{.scalar = double(b.dice.between(0, n.iterations + 1))}, {Ref{0, 0}});
  if (b.dice.chance(0.4)) {
    const Ref sum = condition.call(op::Mean{}, {Ref{1, 0}});
    goes_on = condition.call(op::BroadcastMul{}, {goes_on, condition.call(op::LesserScalar{.scalar = 0.4}, {sum})});
  }
  n.bodies.push_back(shared(condition.finish({goes_on})));
  return n;
}

ProgramNode cond(ProgramBuilder& b) {
  ProgramNode n;
  n.kind = Kind::cond;
  const Ref a = small(b), level = b.call(op::Mean{}, {a});
  n.inputs = {b.call(op::GreaterScalar{.scalar = b.dice.pick({0.1, -0.3, 0.5})}, {level}), a};
  for (int64_t k = b.dice.below(2); k > 0; --k) n.inputs.push_back(small(b));
  for (int branch = 0; branch < 2; ++branch) {
    ProgramBuilder body(b.dice.next(), b.facts, true);
    for (size_t i = 1; i < n.inputs.size(); ++i) body.offer(body.input(b.value(n.inputs[i])));
    grow_body(body);
    n.bodies.push_back(shared(body.finish({shaped(body, b.shape(a))})));
  }
  return n;
}

}  // namespace

void any_row(ProgramBuilder& b) {
  const Row& row = *b.dice.pick(b.dice.pick(b.facts.by_operator));
  // plans refuse gradients of gradients through results that depend on what their operator updates
  if (row.def->traits.mutates != 0 && row.def->cpu && row.def != &op::BatchNorm::def) throw Refused();
  const DType t = dtype_of(b, row);
  ProgramNode n;
  n.kind = Kind::call;
  n.def = row.def;
  n.attrs = row.attrs;
  for (size_t i = 0; i < row.inputs.size(); ++i) n.inputs.push_back(input_of(b, row, i, t));
  if (b.is_body && (row.def->traits.mutates != 0 || row.def->traits_of(row.attrs.get()).random)) throw Refused();
  // regions are chosen, and no gradient says how a choice changes
  const OpDef* const choices[] = {&op::Proposal::def, &op::MultiProposal::def, &op::ProposalRows::def,
                                  &op::ProposalRois::def};
  const bool chooses = std::ranges::find(choices, row.def) != std::end(choices);
  const bool draws = row.def->traits.random && row.def->traits.flat;  // by parameters to which no gradient flows
  n.is_derivative = row.options.differentiate && !row.options.gradient && !chooses && !draws;
  for (Ref r : b.add(std::move(n))) b.offer(r);
}

void control_flow(ProgramBuilder& b) {
  if (b.is_body || b.keeps_rows) throw Refused();
  const int64_t kind = b.dice.below(3);
  for (Ref r : b.add(kind == 0 ? foreach (b) : kind == 1 ? while_loop(b) : cond(b))) b.offer(r);
}

}  // namespace kaon::test::steps
