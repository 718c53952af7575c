// Fused pointwise operators: the same bits as the unfused plan, forward and backward.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan_ops/fused_pointwise.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/graph/support.h"

namespace pointwise_fusion_test {

using namespace kaon;
using namespace kaon::graph;
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

size_t count(const Graph& g, const OpDef& op = op::FusedPointwise::def) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == &op; }));
}
size_t operators(const Graph& g) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op != nullptr; }));
}

// Numbers that depend on `seed` alone, some of them special.
NDArray values(const Shape& shape, uint32_t seed) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float special[] = {0, -0.0f, inf, -inf, NAN, 1e-40f, -1e-40f, 3e38f, -3e38f, 1, -1, 0.5f};
  std::vector<float> v = floats(numbers(shape, seed));
  if (seed % 4 == 1) {
    for (size_t i = seed; i < v.size(); i += 5) v[i] = special[(i + seed) % std::size(special)];
  }
  return nd.array(v, shape);
}

// Outputs and gradients of one run of the graph, on arrays that are the same every time.
std::vector<NDArray> run(const Graph& g, uint32_t seed) {
  IntrusivePtr<ExecutionPlan> plan(new ExecutionPlan(g, {}));
  plan->memory().check(plan->graph());
  std::vector<NDArray> arrays;
  for (uint32_t i : g.inputs) arrays.push_back(values(g.nodes[i].outputs[0].shape, seed++));
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const bool backward = g.outputs.size() > g.num_forward_outputs;
  const size_t inputs = g.inputs.size() - (backward ? g.num_forward_outputs : 0);
  std::vector<NDArray> outputs(g.num_forward_outputs), gradients(g.outputs.size() - g.num_forward_outputs);
  const OpLabel label{"test", std::source_location::current(), nullptr};
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
Graph check_fusion(const Graph& g, uint32_t seed = 2) {
  const Graph fused = passes::fuse_pointwise(g);
  fused.validate();
  const auto expected = run(g, seed), got = run(fused, seed);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("output " << i << " of " << fused.num_forward_outputs << " and gradients\n" << g.str() << fused.str());
    REQUIRE(same_values(got[i], expected[i]));
  }
  return fused;
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
  auto any = [&]() -> const Symbol& {  // rather a recent one
    return values[values.size() - 1 - std::min<size_t>(random() % 5 * (random() % 3), values.size() - 1)];
  };
  for (int i = 0; i < steps; ++i) {
    switch (whole.ndim() > 0 ? random() % 15 : 5 + random() % 10) {
      case 0: values.push_back(sym.softmax(any())); break;
      case 1: values.push_back(sym.reshape(sym.reshape(any(), {-1}), whole)); break;
      case 2: values.push_back(sym.cast(sym.cast(any(), DType::float16), DType::float32)); break;
      case 3:
        parts.push_back(sym.mean(any(), {.axis = Shape(int64_t(random() % uint32_t(whole.ndim()))), .keepdims = true}));
        if (random() % 2) values.push_back(sym.broadcast_to(parts.back(), whole));
        break;
      case 4:
        switch (random() % 4) {
          case 0: parts.push_back(sym.sum(any())); break;
          case 1: parts.push_back(sym.max(any())); break;
          case 2: parts.push_back(sym.mean(any(), {.axis = Shape(-1), .keepdims = true})); break;
          default: parts.push_back(sym.min(any(), {.axis = Shape(-1), .keepdims = true})); break;
        }
        break;
      case 5:
      case 6: {
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
  if (!parts.empty() && random() % 2) outputs.push_back(parts.back());
  p.outputs = Symbol::group(outputs);
  return p;
}

}  // namespace

TEST_CASE("pointwise fusion: random programs give the bits of the unfused plan, forward and backward") {
  const Shape shapes[] = {{5},       {1},          {128},        {129},         {1000},   {3, 5},   {1, 7},
                          {7, 1, 9}, {2, 3, 4, 5}, {1, 1, 1, 1}, {2, 1, 33, 3}, {33, 70}, {16, 64}, Shape()};
  size_t fused = 0, before = 0, after = 0, grown = 0;
  for (uint32_t seed = 0; seed < 420; ++seed) {
    INFO("seed " << seed);
    const RandomProgram p = random_pointwise(shapes[seed % std::size(shapes)], 4 + int(seed % 40), seed);
    std::vector<bool> wanted;
    if (seed % 3) {
      for (size_t i = 0; i < p.names.size(); ++i) wanted.push_back((seed >> i & 1) == 0 || i == 0);
    }
    const Graph g = traced(p.outputs, p.names, p.shapes, wanted), f = check_fusion(g, seed);
    grown += plan_memory(f).arena_bytes > plan_memory(g).arena_bytes;
    fused += count(f);
    before += operators(g), after += operators(f);
  }
  CHECK(fused > 1000);
  CHECK(after < before * 2 / 3);
  CHECK(grown < 10);  // where values of several sizes fit together differently
}

TEST_CASE("pointwise fusion: arrays of many pieces, long rows and arrays beyond the caches",
          "[arithmetic][unsanitized]") {
  const Shape shapes[] = {{2, 300000}, {3, 5000}, {70001}, {400, 33, 7}, {50, 2048}, {2, 2049}, {1500000}, {2100000}};
  size_t fused = 0;
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (uint32_t seed = 0; seed < 16; ++seed) {
      INFO("seed " << seed << ", " << threads << " threads");
      const RandomProgram p = random_pointwise(shapes[seed % std::size(shapes)], 10, 1000 + seed);
      std::vector<bool> wanted;
      if (seed >= 8) wanted.assign(p.names.size(), true);
      fused += count(check_fusion(traced(p.outputs, p.names, p.shapes, wanted)));
    }
  }
  CHECK(fused > 30);
}

TEST_CASE("pointwise fusion: every pointwise operator, between others, for special values") {
  std::mt19937 random(1);
  for (const OpDef* def : pointwise_operators()) {
    for (int time = 0; time < (def->attrs_size ? 12 : 2); ++time) {
      const Attributes defaults(*def);
      const int n = std::max(1, def->num_inputs(defaults.get()));
      const Attributes attrs = random_attributes(*def, random, n);
      INFO(def->name());
      std::vector<std::string> names;
      std::vector<Symbol> in;
      for (int k = 0; k < n; ++k) {
        names.push_back("x" + std::to_string(k));
        in.push_back(sym.abs(sym.var(names.back())));  // so that logarithms and roots have numbers too
        if (time % 2) in.back() = sym.negative(in.back());
      }
      const Symbol y = apply(*def, attrs, in);
      const Graph f = check_fusion(traced(Symbol::group({y * 2, y}), names, std::vector<Shape>(size_t(n), {301})), 1);
      CHECK(operators(f) == 1);
    }
  }
}

TEST_CASE("pointwise fusion: reductions over the last axes keep their order of summing") {
  for (const Shape& whole : {Shape(5), Shape(100), Shape(3, 7), Shape(40, 33), Shape(2, 2048), Shape(3, 2049),
                             Shape(2, 3, 5000), Shape(1, 200000), Shape(2, 262145), Shape(500001)}) {
    INFO(whole.str());
    const Symbol a = sym.var("a"), b = sym.var("b"), y = a * b + 1.5;
    const Symbol squares = sym.sum(y * y, {.axis = Shape(-1), .keepdims = true});
    const Symbol mean = sym.mean(y, {.axis = Shape(-1)}), max = sym.max(y, {.axis = Shape(-1)});
    for (const Symbol& output : {sym.sum(y), squares, mean}) {
      const Graph f = check_fusion(traced(output, {"a", "b"}, {whole, whole}, {true, true}));
      CHECK(operators(f) == 2);  // forward and backward
    }
    const Symbol min = sym.min(y, {.axis = Shape(-1)});
    CHECK(operators(check_fusion(traced(Symbol::group({squares, mean, max, min, y}), {"a", "b"}, {whole, whole}), 5)) ==
          1);
  }
  // What depends on the sum, and other axes, stay outside.
  const Symbol x = sym.var("x"), e = sym.exp(x);
  Graph f = check_fusion(traced(e / sym.sum(e, {.axis = Shape(-1), .keepdims = true}), {"x"}, {{4, 9}}));
  CHECK(count(f) == 1);
  CHECK(operators(f) == 2);
  f = check_fusion(traced(sym.sum(e * 2, {.axis = Shape(int64_t(0))}), {"x"}, {{4, 9}}));
  CHECK(count(f, op::Sum::def) == 1);
}

TEST_CASE("pointwise fusion: long chains, wide sums and many live values are cut into several nodes") {
  const Symbol x = sym.var("x");
  Symbol chain = x;
  for (int i = 0; i < 200; ++i) chain = i % 2 ? sym.relu(chain) : chain * 1.01 + 0.001;
  Graph f = check_fusion(traced(chain, {"x"}, {{77}}, {true}));
  CHECK(operators(f) <= 16);

  std::vector<Symbol> live;
  for (int i = 0; i < 60; ++i) live.push_back(sym.abs(x * double(i)));
  Symbol sum = live[0];
  for (int i = 59; i > 0; --i) sum = sum * live[size_t(i)] + 0.5;
  f = check_fusion(traced(sum, {"x"}, {{77}}));
  CHECK(operators(f) <= 80);
  f = check_fusion(traced(Symbol::group(live), {"x"}, {{77}}));
  CHECK(f.num_forward_outputs == 60);

  std::vector<std::string> names;
  std::vector<Symbol> inputs;
  for (int i = 0; i < 50; ++i) names.push_back("x" + std::to_string(i)), inputs.push_back(sym.var(names.back()));
  check_fusion(traced(sym.add_n(inputs) + 1, names, std::vector<Shape>(50, {77})));
  Symbol each = inputs[0];
  for (int i = 1; i < 50; ++i) each = each * inputs[size_t(i)];
  f = check_fusion(traced(each, names, std::vector<Shape>(50, {77})));
  CHECK(operators(f) == 2);
}

TEST_CASE("pointwise fusion: the output takes the memory of an input that dies") {
  const Symbol x = sym.var("x"), y = sym.softmax(x);
  const Graph f = check_fusion(traced(sym.softmax(sym.tanh(y) * y + 0.5), {"x"}, {{5, 300}}));
  CHECK(operators(f) == 3);
  const MemoryPlan plan = plan_memory(f);
  for (uint32_t i = 0; i < f.nodes.size(); ++i) {
    if (f.nodes[i].op == &op::FusedPointwise::def) CHECK(plan.slot({i, 0}).root == f.nodes[i].inputs[0]);
  }
  CHECK(plan.arena_bytes == 6016);
}

TEST_CASE("pointwise fusion: values do not wait where that would take more memory") {
  const Symbol x = sym.var("x");
  Symbol sum = sym.softmax(x);
  for (int i = 2; i < 12; ++i) sum = sum + sym.softmax(x * double(i));  // all at once: ten arrays
  const Graph g = traced(sum, {"x"}, {{5, 300}}), f = check_fusion(g);
  CHECK(plan_memory(f).arena_bytes <= plan_memory(g).arena_bytes);
}

TEST_CASE("pointwise fusion: nothing moves across updates and draws") {
  const auto program = [](auto F, const auto& x, const auto& g, const auto& b, const auto& m, const auto& v) {
    auto early = m * 2 + 1;
    auto a = F.Dropout(x * 2 + 1, {.p = 0.3});
    auto y = F.BatchNorm(a, g, b, m, v, {});
    auto d = F.Dropout(F.tanh(y) * early, {.p = 0.3});
    return std::vector{d + y, early + m * 2};
  };
  std::vector<Symbol> s;
  const std::vector<std::string> names{"x", "g", "b", "m", "v"};
  for (const std::string& n : names) s.push_back(sym.var(n));
  const auto inputs = [] {
    return std::vector<NDArray>{numbers({64, 2}), nd.ones({2}), nd.zeros({2}), nd.ones({2}), nd.ones({2})};
  };
  CachedGraph graph(Symbol::group(program(sym, s[0], s[1], s[2], s[3], s[4])), names, {.exact = true}, "net");
  auto a = inputs(), b = inputs();
  autograd::train_mode([&] {
    random::seed(3);
    const auto planned = call(graph, a);
    random::seed(3);
    const auto imperative = program(nd, b[0], b[1], b[2], b[3], b[4]);
    for (size_t i = 0; i < 2; ++i) CHECK(same_bits(planned[i], imperative[i]));
  });
  CHECK(same_bits(a[3], b[3]));
  CHECK(count(graph.plan()->graph()) > 0);
}

TEST_CASE("pointwise fusion: images keep their layout") {
  const Symbol x = sym.var("x"), w = sym.var("w"), s = sym.var("s");
  const auto conv = [&](const Symbol& in) {
    return sym.Convolution(in, w, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16, .no_bias = true});
  };
  const Symbol c = conv(x), y = conv(sym.tanh(c * 0.5) + c) * s;
  const std::vector<std::string> names{"x", "w", "s"};
  CachedGraph graph(y, names, {}, "net"), exact(y, names, {.exact = true}, "net");
  const std::vector<NDArray> in{numbers({2, 16, 9, 9}, 1), numbers({16, 16, 3, 3}, 2), numbers({16, 1, 1}, 3)};
  require_near(call(graph, in)[0], call(exact, in)[0].asvector<double>(), 1e-4);
  const Graph& g = graph.plan()->graph();
  const auto fused =
      std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op == &op::FusedPointwise::def; });
  REQUIRE(fused != g.nodes.end());
  CHECK(fused->layouts[0] == Layout::channels_last);
}

}  // namespace pointwise_fusion_test
