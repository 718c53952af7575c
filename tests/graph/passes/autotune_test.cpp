// Layouts and kernels chosen by time: the cheapest of all, and right whatever is chosen.
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "kaon/engine/storage.h"
#include "kaon/graph/passes/kernel_costs.h"
#include "kaon/graph/plan_ops/reorder.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/tests/graph/passes/passes_support.h"

namespace autotune_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// The first parameter is the data. Convolutions of few and many channels, a residual sum, poolings, a BatchNorm.
template <class F, class A>
std::vector<A> net(F f, const std::vector<A>& in) {
  const auto conv = [&](const A& x, const A& w, int filters) {
    return f.Convolution(x, w, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = filters, .no_bias = true});
  };
  A x = f.relu(conv(in[0], in[1], 16));
  x = f.Pooling(x, {.kernel = {2, 2}, .stride = {2, 2}});
  A y = f.BatchNorm(conv(x, in[2], 16), in[4], in[5], in[6], in[7], {.fix_gamma = false});
  x = f.relu(f.elemwise_add(y, x));
  return {f.Pooling(conv(x, in[3], 32), {.pool_type = PoolType::avg, .global_pool = true}), x};
}

std::vector<NDArray> net_inputs(int64_t batch) {
  return {numbers({batch, 3, 12, 10}),
          numbers({16, 3, 3, 3}, 2) * 0.1,
          numbers({16, 16, 3, 3}, 3) * 0.1,
          numbers({32, 16, 3, 3}, 4) * 0.1,
          numbers({16}, 5),
          numbers({16}, 6),
          numbers({16}, 7) * 0.1,
          numbers({16}, 8) * 0.1 + 1};
}

Symbol net_symbol() {
  std::vector<Symbol> data;
  for (const std::string& name : data_names(8)) data.push_back(sym.var(name));
  return Symbol::group(net(sym, data));
}

// Costs that depend on the operator, its size and its layouts, by chance.
class Planted : public KernelCosts {
 public:
  explicit Planted(uint32_t seed) : seed_(seed) {}
  KernelCost of(const Node& node, std::span<const KernelInput> inputs) override {
    std::string key = std::to_string(seed_) + std::string(node.op->name()) + node.outputs[0].shape.str();
    for (const KernelInput& i : inputs) key += std::to_string(int(i.layout));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      key += std::to_string(int(k < node.layouts.size() ? node.layouts[k] : Layout::row_major));
    }
    const size_t hash = std::hash<std::string>()(key);
    return {double(hash % 1000), 0};
  }

 private:
  const uint32_t seed_;
};

bool has_cost(const Node& n) {
  static const std::set<std::string_view> names{"Convolution",
                                                "_backward_Convolution_data",
                                                "_backward_Convolution_weight",
                                                "Pooling",
                                                "_backward_Pooling",
                                                "BatchNorm",
                                                "_backward_BatchNorm",
                                                "_reorder"};
  return n.op && names.contains(n.op->name());
}

double total(const Graph& g, KernelCosts& costs) {
  double sum = 0;
  for (const Node& n : g.nodes) {
    if (!has_cost(n)) continue;
    std::vector<KernelInput> inputs;
    for (ValueId v : n.inputs) inputs.push_back({g.meta(v), g.layout(v)});
    sum += costs.of(n, inputs).seconds;
  }
  return sum;
}

// Lets the costed nodes lie only as `forced` says, in the order in which they are first asked for.
class Forced : public KernelCosts {
 public:
  Forced(Planted& planted, std::vector<Layout> forced) : planted_(planted), forced_(std::move(forced)) {}
  KernelCost of(const Node& node, std::span<const KernelInput> inputs) override {
    if (node.op == &op::Reorder::def) return planted_.of(node, inputs);
    const auto [it, is_new] = order_.try_emplace(node.name, order_.size());
    Layout l = node.layouts.empty() ? Layout::row_major : node.layouts[0];
    if (node.op->name() == "_backward_Convolution_weight") l = inputs[0].layout;
    KernelCost cost = planted_.of(node, inputs);
    if (l != forced_[it->second]) cost.seconds += 1e9;
    return cost;
  }
  size_t nodes() const { return order_.size(); }

 private:
  Planted& planted_;
  std::vector<Layout> forced_;
  std::map<std::string, size_t> order_;
};

}  // namespace

TEST_CASE("autotune: layouts are the cheapest of all that there are", "[graph][unsanitized]") {
  const std::vector<NDArray> inputs = net_inputs(2);
  const Graph before = traced(net_symbol(), data_names(8), inputs);
  Planted counting(0);
  Forced probe(counting, std::vector<Layout>(32, Layout::row_major));
  passes::layouts(before, {}, &probe);
  REQUIRE(probe.nodes() == 6);  // three convolutions, two poolings, a BatchNorm
  std::set<std::string> found;
  int exact = 0;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    Planted planted(seed);
    const Graph after = passes::layouts(before, {}, &planted);
    found.insert(after.str());
    const double got = total(after, planted);
    double least = 1e9;
    for (int all = 0; all < 3 * 3 * 3 * 3 * 3 * 3; ++all) {
      std::vector<Layout> forced;
      for (int rest = all, i = 0; i < 6; ++i, rest /= 3) forced.push_back(Layout(rest % 3));
      Forced costs(planted, forced);
      const double sum = total(passes::layouts(before, {}, &costs), planted);
      least = std::min(least, sum);
    }
    CHECK((got == least || got == total(passes::layouts(before, {}), planted)));
    CHECK(0.97 * got <= least);  // the rules' layouts stay where they are about as good
    exact += got == least;
    check_pass([&](Graph g) { return passes::layouts(std::move(g), {}, &planted); }, before, inputs);
  }
  CHECK(found.size() > 6);
  CHECK(exact > 6);
}

TEST_CASE("autotune: gradients in layouts of any costs are right", "[graph]") {
  const std::vector<NDArray> inputs = net_inputs(3);
  std::vector<bool> wanted(8, false);
  for (size_t i : {0, 1, 2, 3, 4}) wanted[i] = true;
  for (bool training : {false, true}) {
    const Graph before = with_gradient(traced(net_symbol(), data_names(8), inputs), wanted);
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      Planted planted(seed);
      check_pass([&](Graph g) { return passes::layouts(std::move(g), {}, &planted); }, before, inputs, false,
                 {.training = training});
    }
  }
}

namespace {

struct Sizes {
  Shape x;
  int filters, groups = 1;
  Shape kernel{3, 3}, stride{1, 1}, dilate{1, 1}, pad{1, 1};
};

const Sizes all_sizes[] = {
    {{5, 3, 9, 11}, 16},
    {{1, 3, 21, 14}, 16, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3}},
    {{2, 1, 9, 9}, 32},
    {{3, 2, 70, 66}, 128},
    {{7, 16, 8, 6}, 32},
    {{2, 64, 14, 14}, 64, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {{1, 32, 28, 28}, 128},
    {{4, 32, 10, 9}, 64},
    {{5, 20, 9, 11}, 18, 1, {3, 2}, {2, 1}, {1, 1}, {0, 0}},
    {{3, 10, 9, 9}, 6, 2, {3, 2}, {2, 1}, {1, 2}, {2, 1}},
    {{4, 5, 12}, 7, 1, {3}, {1}, {1}, {1}},
    {{2, 4, 5, 6, 7}, 16, 1, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
};

// With blocks of channels where channels were last.
Graph in_blocks(Graph g) {
  for (Node& n : g.nodes) std::replace(n.layouts.begin(), n.layouts.end(), Layout::channels_last, Layout::blocked16);
  return g;
}

}  // namespace

TEST_CASE("autotune: every variant of a convolution and its gradients computes the same", "[arithmetic][unsanitized]") {
  size_t ran = 0, with_winograd = 0, with_direct = 0, with_gemm_col2im = 0;
  for (const Sizes& s : all_sizes) {
    INFO(s.x.str());
    Shape weight{s.filters, s.x[1] / s.groups};
    for (int64_t k : s.kernel) weight.push_back(k);
    const std::vector<NDArray> inputs{numbers(s.x), numbers(weight, 2) * 0.1, numbers({s.filters}, 3)};
    const Symbol y = sym.Convolution(sym.var("x"), sym.var("w"), sym.var("b"),
                                     {.kernel = s.kernel,
                                      .stride = s.stride,
                                      .dilate = s.dilate,
                                      .pad = s.pad,
                                      .num_filter = s.filters,
                                      .num_group = s.groups});
    const Graph rows = with_gradient(traced(y, {"x", "w", "b"}, inputs), {true, true, true});
    const std::vector<NDArray> want = evaluate(rows, inputs, {.training = true});
    std::vector<Graph> lying{rows, passes::layouts(rows, {})};
    if (s.x[1] % 16 == 0 && s.filters % 16 == 0) lying.push_back(in_blocks(lying[1]));
    for (Graph& g : lying) {
      for (Node& n : g.nodes) {
        if (!n.op || !n.op->variants) continue;
        std::vector<TensorMeta> metas;
        for (ValueId v : n.inputs) metas.push_back(g.meta(v));
        const Variants variants = n.op->variants(n.attrs.get(), metas, n.outputs, true);
        REQUIRE(variants.algorithms >= 4);  // then the direct one or GEMM with col2im, then Winograd's
        (n.op == &op::ConvolutionBackwardData::def ? with_gemm_col2im : with_direct) += variants.algorithms >= 5;
        with_winograd += variants.algorithms == 6;
        REQUIRE(variants.partitions >= 1);
        for (int a = 0; a < variants.algorithms; ++a) {
          for (int c = 0; c < variants.partitions; ++c) {
            n.variant = variants.number(a, c);
            REQUIRE(variants.algorithm(n.variant) == a);
            REQUIRE(variants.partition(n.variant) == c);
            INFO(n.op->name() << " algorithm " << a << " cut " << c);
            std::vector<NDArray> got;
            try {
              got = evaluate(g, inputs, {.training = true});
              for (const NDArray& out : got) out.wait_to_read();
            } catch (const Error& e) {
              REQUIRE_THAT(e.what(), Contains("[Convolution] oneDNN has no") ||
                                         Contains("[Convolution] there is no implementation of this variant"));
              continue;
            }
            ++ran;
            require_within_bounds(got, want, 1);
          }
        }
        n.variant = 0;
      }
    }
  }
  CHECK(ran > 100);
  CHECK(with_winograd > 1);
  CHECK(with_direct > 1);
  CHECK(with_gemm_col2im > 1);
}

TEST_CASE("autotune: a tuned net predicts and learns as the imperative one", "[graph]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (int64_t batch : {0, 1, 4}) {
      INFO(threads << " threads, batch " << batch);
      std::vector<NDArray> inputs = net_inputs(batch);
      for (size_t i : {0, 1, 3, 4}) inputs[i].attach_grad();
      CachedGraph graph(net_symbol(), data_names(8), {.static_alloc = true, .autotune = true}, "net");
      std::vector<std::string> dumps;
      for (int time = 0; time < 3; ++time) {
        require_within_bounds(call(graph, inputs), net(nd, inputs), 2);
        dumps.push_back(graph.report()->dump());
      }
      CHECK(dumps[0] == dumps[2]);  // what was measured is known from then on
      if (batch > 0) CHECK_THAT(dumps[0], Contains("--- layouts"));
      std::vector<std::vector<NDArray>> gradients;
      for (bool planned : {true, false}) {
        std::vector<NDArray> own;
        for (const NDArray& a : inputs) own.push_back(a.copy());
        for (size_t i : {0, 1, 3, 4}) own[i].attach_grad();
        std::vector<NDArray> got;
        autograd::record([&] { got = planned ? call(graph, own) : net(nd, own); });
        autograd::backward(got);
        for (size_t i : {0, 1, 3, 4}) got.push_back(own[i].grad());
        gradients.push_back(got);
      }
      require_within_bounds(gradients[0], gradients[1], 2);
    }
  }
}

TEST_CASE("autotune: one question has one answer, whoever asks", "[graph]") {
  const std::vector<NDArray> inputs = net_inputs(2);
  const Graph g = traced(net_symbol(), data_names(8), inputs);
  const auto node =
      std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op == &op::Convolution::def; });
  std::vector<KernelInput> in;
  for (ValueId v : node->inputs) in.push_back({g.meta(v), Layout::row_major, in.empty()});
  std::vector<KernelCost> costs(4);
  std::vector<std::thread> threads;
  for (KernelCost& c : costs) threads.emplace_back([&] { c = measured_costs(false, false, 1 << 20)->of(*node, in); });
  for (std::thread& t : threads) t.join();
  for (const KernelCost& c : costs) {
    CHECK(c.seconds == costs[0].seconds);
    CHECK(c.variant == costs[0].variant);
  }
  CHECK(costs[0].seconds > 0);
  CHECK(costs[0].seconds < std::numeric_limits<double>::infinity());
  nd.waitall();
}

TEST_CASE("autotune: what there is no memory to try is not chosen, and tried again later", "[graph]") {
  const std::vector<NDArray> inputs{numbers({2, 16, 40, 40}), numbers({16, 16, 3, 3}, 2)};
  const Symbol y = sym.Convolution(sym.var("x"), sym.var("w"), {.kernel = {3, 3}, .num_filter = 16, .no_bias = true});
  const Graph g = traced(y, {"x", "w"}, inputs);
  const Node& n = g.nodes.back();
  const KernelInput in[] = {{g.meta(n.inputs[0]), Layout::row_major, true}, {g.meta(n.inputs[1])}};
  nd.waitall();
  Storage& storage = Storage::cpu();
  storage.set_limit(storage.stats().live + 1000);
  const double without = measured_costs(false, false, 1 << 20)->of(n, in).seconds;
  storage.set_limit(0);
  CHECK(without == std::numeric_limits<double>::infinity());
  CHECK(measured_costs(false, false, 1 << 20)->of(n, in).seconds < std::numeric_limits<double>::infinity());
}

TEST_CASE("autotune: refused together with exact", "[graph]") {
  CHECK_THROWS_WITH(CachedGraph(net_symbol(), data_names(8), {.exact = true, .autotune = true}, "net"),
                    Contains("autotune and exact exclude each other"));
}

}  // namespace autotune_test
