#include "kaon/tests/support/programs/program.h"

#include <cmath>

namespace kaon::test {

using namespace ops;
namespace {

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Attributes that name a dtype, made float64 where it is floating.
Attributes widened(const OpDef& def, const Attributes& attrs) {
  Attributes wide(def, attrs.get());
  def.write(attrs.get(), [&](std::string_view name, const std::string& text, bool) {
    DType t;
    const bool is_dtype = name == "dtype" || name == "out_dtype";
    if (is_dtype && from_text(text, t) && is_floating(t)) def.read(wide.edit(), name, "float64");
  });
  return wide;
}

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::predict: return "predicting";
    case Phase::train: return "training";
    case Phase::record: return "recording while predicting";
    case Phase::second: return "create_graph while predicting";
    case Phase::second_training: return "create_graph while training";
  }
  return "";
}

size_t Program::num_calls() const {
  size_t n = 0;
  each_call(*this, [&](const ProgramNode&) { ++n; });
  return n;
}

uint32_t unused_in(const Program& program, uint64_t call) {
  constexpr uint32_t heads = 6;
  const uint32_t turn = program.takes_turns ? uint32_t(call % heads) : 0;
  return (program.unused >> turn | program.unused << (heads - turn)) & ((1u << heads) - 1);
}

std::vector<uint32_t> variables(const Program& program, Role role) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& n = program.nodes[i];
    if (n.kind == Kind::variable && n.role == role) found.push_back(i);
  }
  return found;
}

std::vector<double> values_of(const ProgramNode& variable, const Shape& shape, uint64_t call) {
  const Range& range = variable.range;
  std::vector<double> values(size_t(shape.size()), 0.0);
  const uint64_t first = mixed(variable.seed * 1000003 + (variable.role == Role::data ? call : 0));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!range.values.empty()) {
      values[i] = range.values[i % range.values.size()];
      continue;
    }
    const double unit = double(mixed(first + i * 0x9e3779b97f4a7c15) >> 11) * 0x1p-53;
    const double x = range.low + (range.high - range.low) * unit;
    values[i] = range.step == 0 ? double(float(x)) : std::floor(x / range.step) * range.step;
  }
  return values;
}

Shape shape_in_call(const ProgramNode& variable, int64_t rows) {
  Shape shape = variable.outputs[0].shape;
  if (variable.batched && rows > 0) shape[0] = rows;
  return shape;
}

// By variable of a body, in order: does anything read it?
static std::vector<bool> is_read(const Program& body) {
  std::vector<bool> read(body.nodes.size(), false);
  for (Ref r : body.heads) read[r.node] = true;
  for (const ProgramNode& n : body.nodes) {
    for (Ref r : n.inputs) read[r.node] = true;
  }
  std::vector<bool> result;
  for (uint32_t i : variables(body, Role::data)) result.push_back(read[i]);
  return result;
}

// A trace contains what its results depend on; what no branch and no body reads is not part of that. Such an input
// becomes the first one, so that what it was computed from is pruned.
static void drop_unread_inputs(ProgramNode& n) {
  if (n.bodies.empty()) return;
  const size_t first = n.kind == Kind::cond ? 1 : 0, outer = first + n.num_data + n.num_states;
  std::vector<bool> read(n.inputs.size(), false);
  for (const auto& body : n.bodies) {
    const std::vector<bool> here = is_read(*body);
    for (size_t i = 0; i < here.size(); ++i) read[first + i] = read[first + i] || here[i];
  }
  for (size_t i = outer; i < n.inputs.size(); ++i) {
    if (!read[i]) n.inputs[i] = n.inputs[0];
  }
}

Program pruned(const Program& original, bool is_body) {
  Program program = original;
  for (ProgramNode& n : program.nodes) drop_unread_inputs(n);
  std::vector<bool> needed(program.nodes.size(), false);
  for (Ref r : program.heads) needed[r.node] = true;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (Ref r : program.nodes[i].inputs) needed[r.node] = true;
  }
  const std::vector<uint32_t> data = variables(program, Role::data);
  for (size_t i = 0; i < data.size() && (i == 0 || is_body); ++i) needed[data[i]] = true;
  Program out = program;
  out.nodes.clear();
  std::vector<uint32_t> moved(program.nodes.size());
  for (uint32_t i = 0; i < program.nodes.size(); ++i) {
    if (!needed[i]) continue;
    moved[i] = uint32_t(out.nodes.size());
    out.nodes.push_back(program.nodes[i]);
    for (Ref& r : out.nodes.back().inputs) r.node = moved[r.node];
  }
  for (Ref& r : out.heads) r.node = moved[r.node];
  return out;
}

Program widened(const Program& program) {
  Program wide = program;
  for (ProgramNode& n : wide.nodes) {
    for (TensorMeta& m : n.outputs) m.dtype = is_floating(m.dtype) ? DType::float64 : m.dtype;
    if (n.kind == Kind::call) n.attrs = widened(*n.def, n.attrs);
    for (auto& body : n.bodies) body = std::make_shared<const Program>(widened(*body));
  }
  return wide;
}

void each_call(const Program& program, FunctionRef<void(const ProgramNode&)> visit) {
  for (const ProgramNode& n : program.nodes) {
    if (n.kind == Kind::variable) continue;
    visit(n);
    for (const auto& body : n.bodies) each_call(*body, visit);
  }
}

}  // namespace kaon::test
