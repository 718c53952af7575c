#include "kaon/graph/inference/control_flow_rules.h"

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/graph/inference/infer.h"

namespace kaon::graph {

namespace {

ByNode<Shape> infer(const Subgraph& body, const Shapes& known) {
  return infer_shapes(body.heads, known, {.closes = false});
}
ByNode<std::optional<DType>> infer(const Subgraph& body, const DTypes& known) {
  return infer_types(body.heads, known, {.closes = false});
}
bool says_nothing(const Shape& s) { return s.ndim() < 0; }
bool says_nothing(const std::optional<DType>& t) { return !t; }
void know(Shapes& all, const std::string& name, const Shape& s) { all[name] = s; }
void know(DTypes& all, const std::string& name, const std::optional<DType>& t) { all[name] = *t; }

// Infers a body from the values of its node. Gives what is found for them to learn(value, known), and returns what is
// found for the body's heads.
template <class KnownByName, class Known, class Learn>
std::vector<Known> through(const Subgraph& body, const std::vector<Known>& values, Learn&& learn) {
  std::vector<const SymbolNode*> variables;
  for (const SymbolNode* n : topological_order(body.heads)) {
    if (n->is_variable() && !n->constant.defined()) variables.push_back(n);
  }
  KnownByName known;
  for (size_t k = 0; k < variables.size(); ++k) {
    const Known& value = values[body.values[k]];
    if (!says_nothing(value)) know(known, variables[k]->name, value);
  }
  const auto found = infer(body, known);
  for (size_t k = 0; k < variables.size(); ++k) learn(body.values[k], found.at(variables[k])[0]);
  std::vector<Known> heads;
  for (const SymbolEntry& e : body.heads) heads.push_back(found.at(e.node.get())[e.output]);
  return heads;
}

std::vector<Subgraph> subgraphs_of(const SymbolNode& node) {
  try {
    return write_control_flow(node).subgraphs;
  } catch (const ValueError&) {
    return {};
  }
}

// Of one iteration, from all.
Shape row(const Shape& data) {
  if (data.ndim() < 1) return Shape::unknown();
  if (data.ndim() == 1) return Shape(1);
  Shape s;
  for (int i = 1; i < data.ndim(); ++i) s.push_back(data[i]);
  return s;
}
Shape rows(int64_t count, const Shape& row) {
  if (row.ndim() < 0) return row;
  Shape s(count);
  for (const int64_t d : row) s.push_back(d);
  return s;
}

}  // namespace

void learn_control_flow(ShapeFacts& f) {
  const ControlFlow& p = program_of(*f.node().op, f.node().attrs.get());
  const std::vector<Subgraph> bodies = subgraphs_of(f.node());
  if (bodies.empty()) return;
  std::vector<Shape> values;
  for (int i = 0; i < f.num_inputs(); ++i) values.push_back(i < p.num_data ? row(f.in(i)) : f.in(i));
  const auto learn = [&](size_t value, const Shape& found) {
    Shape& in = f.in(int(value));
    if (int(value) >= p.num_data) {
      f.is(in, found);
    } else if (in.ndim() > 1) {
      f.is(in, rows(in[0], found));
    }
  };
  if (p.kind == ControlKind::cond) {
    through<Shapes>(bodies[0], values, learn);
    for (size_t branch : {1, 2}) {
      const auto heads = through<Shapes>(bodies[branch], values, learn);
      for (size_t i = 0; i < heads.size(); ++i) f.is(f.out(int(i)), heads[i]);
    }
    return;
  }
  for (int i = 0; i < p.num_states; ++i) f.same(f.in(p.num_data + i), f.out(p.num_outputs + i));
  for (int i = 1; i < p.num_data; ++i) {
    if (f.in(0).ndim() > 0 && f.in(i).ndim() > 0) f.same(f.in(0), 0, f.in(i), 0);
  }
  const bool is_while = p.kind == ControlKind::while_loop;
  if (is_while) through<Shapes>(bodies[0], values, learn);
  const auto heads = through<Shapes>(bodies.back(), values, learn);
  const int64_t count = is_while ? p.max_iterations : p.num_data > 0 && f.in(0).ndim() > 0 ? f.in(0)[0] : -1;
  for (int i = 0; i < p.num_outputs; ++i) f.is(f.out(i), rows(count, heads[size_t(i)]));
  for (int i = 0; i < p.num_states; ++i) f.is(f.out(p.num_outputs + i), heads[size_t(p.num_outputs + i)]);
}

void learn_control_flow(TypeFacts& f) {
  const ControlFlow& p = program_of(*f.node().op, f.node().attrs.get());
  const std::vector<Subgraph> bodies = subgraphs_of(f.node());
  if (bodies.empty()) return;
  std::vector<std::optional<DType>> values;
  for (int i = 0; i < f.num_inputs(); ++i) values.push_back(f.in(i));
  const auto learn = [&](size_t value, const std::optional<DType>& found) { f.is(f.in(int(value)), found); };
  for (int i = 0; i < p.num_states && p.is_loop(); ++i) f.same(f.in(p.num_data + i), f.out(p.num_outputs + i));
  for (size_t b = 0; b < bodies.size(); ++b) {
    const auto heads = through<DTypes>(bodies[b], values, learn);
    const bool is_test = p.kind != ControlKind::foreach && b == 0;
    for (size_t i = 0; i < heads.size() && !is_test; ++i) f.is(f.out(int(i)), heads[i]);
  }
}

}  // namespace kaon::graph
