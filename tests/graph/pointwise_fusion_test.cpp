// Fused pointwise operators: the same bits as the unfused plan, forward and backward.
#include <algorithm>
#include <cmath>

#include "kaon/graph/fused_pointwise.h"
#include "kaon/graph/gradient.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/registry.h"
#include "kaon/tests/graph/support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

Graph traced(const Symbol& program, const std::vector<std::string>& names, const std::vector<Shape>& shapes,
             const std::vector<bool>& wanted = {}) {
  Graph g = Graph::from_symbol(program, names);
  std::vector<TensorMeta> metas;
  for (const Shape& s : shapes) metas.push_back({s, DType::float32});
  infer_graph(g, metas);
  if (!wanted.empty()) g = with_gradient(std::move(g), wanted);
  return passes::own_outputs(passes::dead_code(std::move(g), false));
}

size_t count(const Graph& g, const OpDef& op = FusedPointwise::def) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == &op; }));
}
size_t operators(const Graph& g) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op != nullptr; }));
}

// Outputs and gradients of one run of the graph, on arrays that are the same every time.
std::vector<NDArray> run(const Graph& g, std::source_location site = std::source_location::current()) {
  IntrusivePtr<ExecutionPlan> plan(new ExecutionPlan(g, {}));
  plan->memory().check(plan->graph());
  std::vector<NDArray> arrays;
  for (uint32_t i = 0; i < g.inputs.size(); ++i) arrays.push_back(numbers(g.nodes[g.inputs[i]].outputs[0].shape, i + 1));
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const bool backward = g.outputs.size() > g.num_forward_outputs;
  const size_t inputs = g.inputs.size() - (backward ? g.num_forward_outputs : 0);
  std::vector<NDArray> outputs(g.num_forward_outputs), gradients(g.outputs.size() - g.num_forward_outputs);
  const OpLabel label{"test", site, nullptr};
  PlanRun& call = plan->forward(std::span(pointers).first(inputs), outputs, label, backward);
  if (backward) {
    plan->backward(call, pointers, outputs, gradients, label, false);
    plan->end_lease(call);
  }
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  return outputs;
}

// NaN equals NaN: which of two survives a sum is the processor's choice.
bool same_values(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto x = a.asvector<float>(), y = b.asvector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::bit_cast<uint32_t>(x[i]) != std::bit_cast<uint32_t>(y[i]) && !(std::isnan(x[i]) && std::isnan(y[i]))) {
      UNSCOPED_INFO("element " << i << " of " << x.size() << ": " << x[i] << " and " << y[i]);
      return false;
    }
  }
  return true;
}

// Both ways; the fused graph.
Graph check_fusion(const Graph& g) {
  const Graph fused = passes::fuse_pointwise(g);
  fused.validate();
  const auto expected = run(g), got = run(fused);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("output " << i << " of " << fused.num_forward_outputs << " and gradients\n" << g.str() << fused.str());
    REQUIRE(same_values(got[i], expected[i]));
  }
  return fused;
}

Symbol apply(const OpDef& def, const Attributes& attrs, const std::vector<Symbol>& inputs) {
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  Symbol out;
  Symbol::apply(def, attrs.get(), pointers, std::span<Symbol>(&out, 1), std::source_location::current(), {});
  return out;
}

// Every pointwise operator there is, whatever its family.
const std::vector<const OpDef*>& pointwise_operators() {
  static const auto* list = [] {
    auto* defs = new std::vector<const OpDef*>;
    for (const OpDef* d : all_op_defs()) {
      const Attributes attrs(*d);
      const OpTraits& t = d->traits_of(attrs.get());
      if (t.pointwise && !t.random) defs->push_back(d);
    }
    return defs;
  }();
  return *list;
}

Attributes random_attributes(const OpDef& def, std::mt19937& random, int inputs) {
  Attributes attrs(def);
  const char* numbers[] = {"0.5", "2", "-1.25", "0.75", "3"};
  const char* activations[] = {"relu", "sigmoid", "tanh", "softrelu", "softsign"};
  const char* leaky[] = {"leaky", "elu", "selu", "gelu"};
  const bool is_leaky = def.name().find("LeakyReLU") != def.name().npos;
  def.read(attrs.edit(), "scalar", def.name() == "smooth_l1" ? "1.5" : numbers[random() % 5]);
  def.read(attrs.edit(), "a_min", "-0.5");
  def.read(attrs.edit(), "a_max", numbers[random() % 2]);
  def.read(attrs.edit(), "act_type", is_leaky ? leaky[random() % 4] : activations[random() % 5]);
  def.read(attrs.edit(), "slope", "0.1");
  def.read(attrs.edit(), "num_args", std::to_string(inputs));
  return attrs;
}

// Some dimensions of `whole` kept, the others 1 or missing.
Shape part_of(const Shape& whole, std::mt19937& random) {
  Shape s;
  for (int i = int(random() % uint32_t(whole.ndim() + 1)); i < whole.ndim(); ++i) {
    s.push_back(random() % 2 ? whole[i] : 1);
  }
  return s;
}

struct RandomProgram {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  Symbol outputs;
};

RandomProgram random_pointwise(const Shape& whole, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  RandomProgram p;
  std::vector<Symbol> values, parts;  // of the whole shape, and smaller
  for (int i = 0; i < 6; ++i) {
    p.names.push_back("x" + std::to_string(i));
    p.shapes.push_back(i < 2 ? whole : part_of(whole, random));
    (p.shapes.back() == whole ? values : parts).push_back(sym.var(p.names.back(), p.shapes.back()));
  }
  const auto& defs = pointwise_operators();
  auto any = [&]() -> const Symbol& { return values[values.size() - 1 - std::min<size_t>(random() % 5 * (random() % 3), values.size() - 1)]; };
  for (int i = 0; i < steps; ++i) {
    switch (random() % 14) {
      case 0:
        if (whole.ndim() > 0) values.push_back(sym.softmax(any()));
        break;
      case 1:
        if (whole.ndim() > 0) values.push_back(sym.reshape(sym.reshape(any(), {-1}), whole));
        break;
      case 2: values.push_back(sym.cast(sym.cast(any(), DType::float16), DType::float32)); break;
      case 3:
        if (whole.ndim() == 0) break;
        parts.push_back(sym.mean(any(), {.axis = Shape(int64_t(random() % uint32_t(whole.ndim()))), .keepdims = true}));
        if (random() % 2) values.push_back(sym.broadcast_to(parts.back(), whole));
        break;
      case 4:
      case 5: {
        if (parts.empty()) break;
        const Symbol part = parts[random() % parts.size()];
        values.push_back(random() % 2 ? any() * part : part - any());
        if (random() % 3 == 0) parts.push_back(sym.tanh(part) + 0.5);
        break;
      }
      default: {
        const OpDef& def = *defs[random() % defs.size()];
        Attributes attrs(def);
        int n = def.num_inputs(attrs.get());
        if (n <= 0) n = 1 + int(random() % 5);
        std::vector<Symbol> in;
        for (int k = 0; k < n; ++k) in.push_back(any());
        values.push_back(apply(def, random_attributes(def, random, n), in));
      }
    }
  }
  std::vector<Symbol> outputs{values.back()};
  for (uint32_t n = random() % 4; n > 0; --n) outputs.push_back(any());
  p.outputs = Symbol::group(outputs);
  return p;
}

}  // namespace

TEST_CASE("pointwise fusion: random programs give the bits of the unfused plan, forward and backward") {
  const Shape shapes[] = {{5},      {1},       {128},         {129},        {1000},       {3, 5},       {1, 7}, {16, 64},
                          {7, 1, 9}, {2, 3, 4, 5}, {1, 1, 1, 1}, {2, 1, 33, 3}, {33, 70}, Shape()};
  size_t fused = 0, before = 0, after = 0;
  for (uint32_t seed = 0; seed < 420; ++seed) {
    INFO("seed " << seed);
    const RandomProgram p = random_pointwise(shapes[seed % std::size(shapes)], 4 + int(seed % 40), seed);
    std::vector<bool> wanted;
    if (seed % 3) {
      for (size_t i = 0; i < p.names.size(); ++i) wanted.push_back((seed >> i & 1) == 0 || i == 0);
    }
    const Graph g = traced(p.outputs, p.names, p.shapes, wanted), f = check_fusion(g);
    fused += count(f);
    before += operators(g), after += operators(f);
  }
  CHECK(fused > 1000);
  CHECK(after < before * 2 / 3);
}
