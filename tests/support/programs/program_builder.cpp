#include "kaon/tests/support/programs/program_builder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kaon/ops/movement/movement.h"
#include "kaon/tests/support/programs/program_evaluate.h"

namespace kaon::test {

using namespace engine;
namespace {

// Gradients that are another thing by definition.
bool is_no_derivative(const OpDef& def) {
  static const OpDef* const defs[] = {&op::BlockGrad::def,
                                      &op::SoftmaxOutput::def,
                                      &op::BackwardSoftmaxOutput::def,
                                      &op::LinearRegressionOutput::def,
                                      &op::MAERegressionOutput::def,
                                      &op::LogisticRegressionOutput::def,
                                      &op::BackwardRegressionOutput::def,
                                      &op::MakeLoss::def,
                                      &op::SVMOutput::def,
                                      &op::IdentityAttachKLSparseReg::def,
                                      &op::UnitLoss::def,
                                      &op::GradientMultiplier::def,
                                      &op::RoundSte::def,
                                      &op::SignSte::def,
                                      &op::BackwardMakeLoss::def};
  return std::find(std::begin(defs), std::end(defs), &def) != std::end(defs);
}

}  // namespace

uint64_t Dice::next() {
  uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Facts::Facts(const Rows& rows) {
  std::map<const OpDef*, size_t> index;
  for (const Row& row : rows) {
    if (row.options.refused || row.def->visible_outputs(row.attrs.get()) == 0 || row.def->traits.mutates_period > 0) {
      continue;
    }
    const auto [at, is_new] = index.emplace(row.def, by_operator.size());
    if (is_new) by_operator.emplace_back();
    by_operator[at->second].push_back(&row);
    const bool alike = std::all_of(row.inputs.begin(), row.inputs.end(), [&](const Input& i) {
      return i.shape == row.inputs[0].shape && !i.dtype && i.differentiable;
    });
    if (row.def->traits.pointwise && !row.inputs.empty() && alike && row.accepts(DType::float32)) {
      pointwise.push_back(&row);
    }
  }
}

ProgramBuilder::ProgramBuilder(uint64_t seed, const Facts& facts, bool is_body)
    : dice(seed), facts(facts), is_body(is_body) {
  program_.seed = seed;
}

Ref ProgramBuilder::variable(Role role, const Shape& shape, const Range& range, DType dtype, bool batched) {
  ProgramNode n;
  n.role = is_body ? Role::constant : role;
  n.range = range;
  n.seed = dice.next() >> 40;
  n.batched = batched;
  n.outputs = {{shape, dtype}};
  values_.push_back({make_variable(n, 0, 0)});
  largest_.push_back({std::max(std::abs(range.low), std::abs(range.high))});
  program_.nodes.push_back(std::move(n));
  return {uint32_t(program_.nodes.size() - 1), 0};
}

Ref ProgramBuilder::input(const NDArray& value) {
  ProgramNode n;
  n.outputs = {{value.shape(), value.dtype()}};
  values_.push_back({value});
  double most = 0;
  for (double x : value.asvector<double>()) most = std::max(most, std::abs(x));
  largest_.push_back({most});
  program_.nodes.push_back(std::move(n));
  return {uint32_t(program_.nodes.size() - 1), 0};
}

std::vector<Ref> ProgramBuilder::add(ProgramNode node) {
  std::vector<NDArray> in;
  for (Ref r : node.inputs) in.push_back(value(r));
  std::vector<NDArray> out;
  std::vector<double> largest;
  try {
    out = Evaluation<NDArray>(program_).call(node, in);
    for (const NDArray& a : out) {
      double most = 0;
      for (double x : a.asvector<double>()) most = std::isfinite(x) ? std::max(most, std::abs(x)) : INFINITY;
      largest.push_back(most);
      if (most > 1e4 || a.size() > most_elements) throw Refused();
    }
  } catch (const Error&) {
    throw Refused();
  }
  for (const NDArray& a : out) node.outputs.push_back({a.shape(), a.dtype()});
  std::vector<Ref> refs;
  for (uint32_t k = 0; k < out.size(); ++k) refs.push_back({uint32_t(program_.nodes.size()), k});
  program_.nodes.push_back(std::move(node));
  values_.push_back(std::move(out));
  largest_.push_back(std::move(largest));
  return refs;
}

Ref ProgramBuilder::call(const OpDef& def, const Attributes& attrs, std::vector<Ref> inputs, bool is_derivative) {
  if (is_body && (def.traits.mutates != 0 || def.traits.random)) throw Refused();
  ProgramNode n;
  n.kind = Kind::call;
  n.def = &def;
  n.attrs = attrs;
  n.inputs = std::move(inputs);
  n.is_derivative = is_derivative && !is_no_derivative(def);
  return add(std::move(n))[0];
}

Ref ProgramBuilder::pick(FunctionRef<bool(const TensorMeta&)> suits) {
  std::vector<Ref> found;
  for (Ref r : pool_) {
    if (suits(meta(r))) found.push_back(r);
  }
  if (found.empty()) throw Refused();
  const int64_t n = int64_t(found.size());
  const int64_t recent = dice.chance(0.4) ? 1 : dice.chance(0.6) ? std::min<int64_t>(n, 5) : n;
  return found[size_t(n - 1 - dice.below(recent))];
}

Ref ProgramBuilder::pick() {
  return pick([](const TensorMeta& m) { return m.dtype == DType::float32 && m.shape.size() > 0; });
}

Ref ProgramBuilder::calm(Ref r) {
  const double most = largest_[r.node][r.output];
  if (most < 20 || !is_floating(meta(r).dtype)) return r;
  if (dice.chance(0.5)) return call(op::MulScalar{.scalar = std::exp2(std::floor(-std::log2(most)))}, {r});
  return dice.chance(0.5) ? call(op::Tanh{}, {r}) : call(op::Arctan{}, {r});
}

Ref ProgramBuilder::to_dtype(Ref r, DType dtype) {
  if (meta(r).dtype == dtype) return r;
  if (!is_floating(dtype) && is_floating(meta(r).dtype)) r = call(op::Square{}, {calm(r)});  // natural numbers fit all
  return call(op::Cast{.dtype = dtype}, {r});
}

Ref ProgramBuilder::to_shape(Ref r, const Shape& to) {
  if (shape(r) == to) return r;
  const int64_t have = shape(r).size(), want = to.size();
  if (have == 0 && want > 0) throw Refused();
  if (have != want) {
    r = call(op::Reshape{.shape = {-1}}, {r});
    if (have < want) r = call(op::Tile{.reps = {(want + have - 1) / have}}, {r});
    if (shape(r).size() > want) r = call(op::SliceAxis{.axis = 0, .begin = 0, .end = want}, {r});
  }
  return shape(r) == to ? r : call(op::ReshapeTo{.shape = to}, {r});
}

Ref ProgramBuilder::to_fill(Ref r, Fill fill) {
  if (!is_floating(meta(r).dtype)) return r;
  r = calm(r);
  switch (fill) {
    case Fill::positive:
    case Fill::nonzero: {
      r = call(op::PlusScalar{.scalar = 0.375}, {dice.chance(0.5) ? call(op::Sigmoid{}, {r}) : call(op::Abs{}, {r})});
      return fill == Fill::nonzero && dice.chance(0.3) ? call(op::Negative{}, {r}) : r;
    }
    case Fill::unit: return call(op::MulScalar{.scalar = 0.875}, {call(op::Tanh{}, {r})});
    case Fill::above_one: return call(op::PlusScalar{.scalar = 1.25}, {call(op::Sigmoid{}, {r})});
    default: return r;
  }
}

Range ProgramBuilder::range_of(const Input& input, DType dtype) {
  Range range;
  switch (input.fill) {
    case Fill::positive: range = {0.3, 2.5}; break;
    case Fill::unit: range = {-0.9, 0.9}; break;
    case Fill::above_one: range = {1.3, 3}; break;
    case Fill::nonzero: range = {0.3, 2}; break;
    case Fill::integers: range = {input.low, input.high, 1}; break;
    case Fill::given: range = {-5, 5, 0, input.values}; break;
    default: break;
  }
  if (is_floating(dtype) || input.fill == Fill::integers || input.fill == Fill::given) return range;
  return dtype == DType::boolean ? Range{0, 2, 1} : Range{1, 6, 1};
}

bool ProgramBuilder::attempt(void (*step)(ProgramBuilder&)) {
  const size_t nodes = program_.nodes.size(), offered = pool_.size();
  try {
    step(*this);
    return true;
  } catch (const Refused&) {
    program_.nodes.resize(nodes);
    values_.resize(nodes);
    largest_.resize(nodes);
    pool_.resize(offered);
    return false;
  }
}

Program ProgramBuilder::finish(std::vector<Ref> heads) {
  program_.heads = std::move(heads);
  return pruned(program_, is_body);
}

}  // namespace kaon::test
