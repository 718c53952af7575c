// Verified plans: what is wrong is found, at its operator; what is right goes through and leaves no trace.
#include "kaon/graph/plan/verify.h"

#include <cmath>
#include <limits>
#include <thread>

#include "kaon/graph/hybrid/trace_check.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/plan_ops/batch_norm_affine.h"
#include "kaon/graph/plan_ops/fused_pointwise.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/graph/passes/passes_support.h"

namespace verify_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A program, what the passes make of it, and a plan of that, in which a test may have planted something.
struct Planned {
  Planned(const Symbol& s, const std::vector<std::string>& names, std::vector<NDArray> inputs, passes::Options options)
      : arrays(std::move(inputs)), options(std::move(options)) {
    Graph g = traced(s, names, arrays);
    number_draws(g, this->options.training);
    program = std::make_shared<const Graph>(passes::program(g, this->options));
    graph = passes::run(g, this->options);
  }

  uint32_t number(std::string_view name) const {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].name == name) return i;
    }
    FAIL("no node " << name << " in\n" << graph.str());
    return 0;
  }
  Node& node(std::string_view name) { return graph.nodes[number(name)]; }

  IntrusivePtr<ExecutionPlan> plan(std::optional<MemoryPlan> memory = {}, int verify = 1) const {
    const PlanOptions o{.training = options.training, .exact = options.exact, .verify = verify, .program = program};
    return IntrusivePtr<ExecutionPlan>(new ExecutionPlan(graph, o, std::move(memory)));
  }

  // Forward, and backward where gradients are wanted: the outputs and the gradients.
  std::vector<NDArray> run(ExecutionPlan& p, bool retain = false) const {
    std::vector<const NDArray*> pointers;
    for (const NDArray& a : arrays) pointers.push_back(&a);
    std::vector<NDArray> outputs(graph.num_forward_outputs), results(graph.outputs.size() - outputs.size()), heads;
    const bool recorded = !options.wanted.empty();
    PlanRun& run = p.forward(pointers, outputs, {"net"}, recorded, p.next_shadow());
    if (recorded) {
      for (size_t i = 0; i < outputs.size(); ++i) heads.push_back(numbers(outputs[i].shape(), 77 + uint32_t(i)));
      for (const NDArray& h : heads) pointers.push_back(&h);
      for (int time = 0; time < (retain ? 3 : 1); ++time) {
        std::fill(results.begin(), results.end(), NDArray());
        p.backward(run, pointers, outputs, results, {"net"}, retain);
      }
      p.end_lease(run);
    }
    outputs.insert(outputs.end(), results.begin(), results.end());
    return outputs;
  }
  // What a run throws, at the wait.
  std::string failure(ExecutionPlan& p) const {
    return message_of([&] {
      for (const NDArray& a : run(p)) a.wait_to_read();
    });
  }
  std::string failure() const { return failure(*plan()); }

  std::vector<NDArray> arrays;
  passes::Options options;
  std::shared_ptr<const Graph> program;
  Graph graph;
};

constexpr const char* passed = "nothing was thrown";

// softmax and log_softmax of x live until both are multiplied.
Symbol two_and_their_product() {
  Symbol x = sym.var("x");
  Symbol a = sym.as("a").softmax(x), b = sym.as("b").log_softmax(a);
  return sym.as("c").dot(a, b, {.transpose_b = true});
}

// A convolution with all that it can take in, a pooling, and a dense layer with a chain behind it.
Symbol small_net() {
  Symbol x = sym.var("x");
  Symbol y =
      sym.as("conv").Convolution(x, sym.var("w"), sym.var("bias"), {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16});
  y = sym.as("bn").BatchNorm(y, sym.var("gamma"), sym.var("beta"), sym.var("mean"), sym.var("var"),
                             {.fix_gamma = false});
  y = sym.as("pool").Pooling(sym.as("relu").relu(y), {.kernel = {2, 2}, .stride = {2, 2}});
  y = sym.as("conv2").Convolution(y, sym.var("w2"), {.kernel = {3, 3}, .num_filter = 16, .no_bias = true});
  y = sym.as("fc").FullyConnected(sym.as("tanh").tanh(y), sym.var("fc_w"), sym.var("fc_b"), {.num_hidden = 5});
  y = sym.as("drop").Dropout(sym.as("gelu").LeakyReLU(y, {.act_type = LeakyType::gelu}), {.p = 0.3});
  return sym.as("out").softmax(sym.as("scaled")._mul_scalar(y, {.scalar = 3}));
}
const std::vector<std::string> small_net_names{"x", "w", "bias", "gamma", "beta", "mean", "var", "w2", "fc_w", "fc_b"};
std::vector<NDArray> small_net_arrays(int64_t batch = 2) {
  return {numbers({batch, 16, 6, 6}, 1),
          numbers({16, 16, 3, 3}, 2),
          numbers({16}, 3),
          numbers({16}, 4) + 2,
          numbers({16}, 5),
          numbers({16}, 6),
          numbers({16}, 7) + 2,
          numbers({16, 16, 3, 3}, 8),
          numbers({5, 16}, 9),
          numbers({5}, 10)};
}
const std::vector<bool> small_net_wanted{true, true, true, true, true, false, false, true, true, true};

// The operator of a node with a kernel that computes something else at its end. One at a time.
struct Broken {
  Broken(Node& node, void (*spoil)(KernelContext&)) : def(*node.op) {
    real = node.op;
    how = spoil;
    def.cpu = [](const void* attrs, KernelContext& c) {
      real->cpu(attrs, c);
      how(c);
    };
    node.op = &def;
  }
  static inline const OpDef* real;
  static inline void (*how)(KernelContext&);
  OpDef def;
};
// Sign and exponent of the last element of each floating output.
void spoil_outputs(KernelContext& c) {
  for (const TensorView& v : c.outputs) {
    if (v.data && v.size() > 0 && v.dtype == DType::float32) v.as<float>()[v.size() - 1] -= 1.5f;
  }
}

}  // namespace

TEST_CASE("verify: planted bug: two values that are alive together in the same place") {
  Symbol x = sym.var("x");
  Symbol a = sym.as("a").softmax(x), b = sym.as("b").log_softmax(x);
  Planned p(sym.as("c").dot(a, b, {.transpose_b = true}), {"x"}, {numbers({4, 6})}, {.exact = true});
  CHECK(p.failure() == passed);
  MemoryPlan memory = plan_memory(p.graph);
  ValueSlot &first = memory.slots[p.number("a")][0], &second = memory.slots[p.number("b")][0];
  REQUIRE(first.offset != second.offset);
  first.last = first.first;  // as if nobody read it
  second.offset = first.offset;
  CHECK_THAT(
      p.failure(*p.plan(memory)),
      Contains("[verify] a (softmax) was overwritten by b (log_softmax) before c (") && Contains("[net], pushed at"));
}

TEST_CASE("verify: planted bug: in place where the input is still to be read") {
  Planned p(two_and_their_product(), {"x"}, {numbers({4, 6})}, {.exact = true});
  CHECK(p.failure() == passed);
  MemoryPlan memory = plan_memory(p.graph);
  ValueSlot &first = memory.slots[p.number("a")][0], &second = memory.slots[p.number("b")][0];
  REQUIRE(second.root == ValueId{p.number("b"), 0});
  second.root = {p.number("a"), 0};
  second.offset = first.offset;
  CHECK_THAT(p.failure(*p.plan(memory)),
             Contains("[verify] a (softmax) was overwritten by b (log_softmax) before c ("));
}

TEST_CASE("verify: planted bug: two random nodes, or two operators, are merged") {
  const auto merge = [](Graph& g, uint32_t from, uint32_t into) {
    passes::Rewriter out(g);
    for (uint32_t i = 0; i < g.nodes.size(); ++i) {
      if (i == from) {
        out.replace(i, out.now({into, 0}));
      } else {
        out.keep(i);
      }
    }
    g = out.finish();
  };
  SECTION("random") {
    Symbol r = sym.as("r").random_uniform({3, 4}), s = sym.as("s").random_uniform({3, 4});
    Planned p(sym.as("c").dot(r, s, {.transpose_b = true}) + sym.var("x"), {"x"}, {numbers({3, 3})}, {.exact = true});
    CHECK(p.failure() == passed);
    merge(p.graph, p.number("s"), p.number("r"));
    CHECK_THAT(p.failure(),
               Contains("[verify] s (_random_uniform) is not as in the imperative run, at element 0 (0, 0)") &&
                   Contains("from node r (_random_uniform)"));
  }
  SECTION("operators") {
    Symbol x = sym.var("x");
    Symbol a = sym.as("a").softmax(x), b = sym.as("b").log_softmax(x);
    Planned p(sym.as("c").dot(a, b, {.transpose_b = true}), {"x"}, {numbers({4, 6})}, {});
    CHECK(p.failure() == passed);
    merge(p.graph, p.number("b"), p.number("a"));
    CHECK_THAT(p.failure(), Contains("[verify] b (log_softmax) is not as in the imperative run, at element 0 (0, 0)") &&
                                Contains("from node a (softmax)"));
  }
}

TEST_CASE("verify: planted bug: wrong numbers and dropped steps in fused operators") {
  SECTION("a constant in a pointwise chain") {
    const auto chain = [](double scalar) {
      Symbol y = sym.as("a")._mul_scalar(sym.var("x"), {.scalar = scalar});
      return sym.as("c").softmax(sym.as("b").tanh(y));
    };
    for (bool exact : {false, true}) {
      Planned p(chain(2), {"x"}, {numbers({4, 6})}, {.exact = exact}),
          other(chain(2.25), {"x"}, p.arrays, {.exact = exact});
      REQUIRE(count(p.graph, "_fused_pointwise") == 1);
      CHECK(p.failure() == passed);
      p.graph = other.graph;
      CHECK_THAT(p.failure(), Contains("[verify] b (tanh) is not as in the imperative run, at element 0 (0, 0)") &&
                                  Contains("from node a..b (_fused_pointwise)"));
    }
  }
  SECTION("a folded batch norm") {
    Planned p(small_net(), small_net_names, small_net_arrays(), {});
    CHECK(p.failure() == passed);
    passes::set_operator(p.node("bn_affine"), op::BatchNormAffine{.eps = 0.5, .fix_gamma = false});
    CHECK_THAT(p.failure(), Contains("[verify] relu (relu) is not as in the imperative run, at element") &&
                                Contains("from node conv (Convolution)"));
  }
  SECTION("a dropped activation") {
    Planned p(small_net(), small_net_names, small_net_arrays(), {});
    Node& conv = p.node("conv2");
    op::Convolution op = passes::attributes<op::Convolution>(conv);
    REQUIRE(op.post_ops.activation == FusedActivation::tanh);
    op.post_ops.activation = FusedActivation::none;
    passes::set_operator(conv, op);
    CHECK_THAT(p.failure(), Contains("[verify] tanh (tanh) is not as in the imperative run, at element"));
  }
  SECTION("a folded constant") {
    Symbol c = sym.as("c").softmax(sym.array(std::vector<float>{1, 2, 3, 4}, {1, 4}, {}));
    Planned p(sym.as("d").dot(sym.var("x"), c), {"x"}, {numbers({3, 1})}, {});
    CHECK(p.failure() == passed);
    REQUIRE(p.node("c").constant.defined());
    p.node("c").constant = nd.array(std::vector<float>{1, 2, 3, 4}, {1, 4});
    CHECK_THAT(p.failure(), Contains("[verify] c (softmax) is not as in the imperative run, at element 0 (0, 0)"));
  }
}

TEST_CASE("verify: whichever operator of a plan is wrong, it is found, and nothing before it") {
  struct Mode {
    bool exact, training, recorded;
  };
  for (Mode m :
       {Mode{false, false, false}, Mode{true, false, false}, Mode{false, true, true}, Mode{true, true, true}}) {
    const Planned right(
        small_net(), small_net_names, small_net_arrays(),
        {.training = m.training, .exact = m.exact, .wanted = m.recorded ? small_net_wanted : std::vector<bool>()});
    REQUIRE(right.failure() == passed);
    size_t named = 0, steps = 0;
    for (size_t i = 0; i < right.graph.nodes.size(); ++i) {
      Planned p = right;
      Node& n = p.graph.nodes[i];
      if (!n.op || n.op->traits.view || n.outputs[0].dtype != DType::float32) continue;
      ++steps;
      const Broken broken(n, spoil_outputs);
      const std::string message = p.failure();
      INFO("exact " << m.exact << ", training " << m.training << ", node " << n.name << ": " << message);
      CHECK_THAT(message, Contains("[verify] ") && Contains("is not as in the imperative run"));
      const bool is_named = message.find("; the plan has it from node " + n.name + " (") != message.npos;
      named += is_named;
      // else the first that reads it: reorders and what passes have made up are no values of the program
      CHECK((is_named || n.provenance.empty()));
    }
    CHECK(steps >= (m.recorded ? 20 : 6));
    CHECK(named * 10 >= steps * 6);
  }
}

TEST_CASE("verify: what is updated in place stays as it was when the plan is wrong") {
  const auto spoil_mean = [](KernelContext& c) { c.in(3).as<float>()[3] += 1; };
  for (const bool of_outputs : {false, true}) {
    Planned p(small_net(), small_net_names, small_net_arrays(), {.training = true, .exact = true});
    const NDArray mean = p.arrays[5].copy(), var = p.arrays[6].copy();
    const Broken broken(p.node("bn"), of_outputs ? spoil_outputs : +spoil_mean);
    IntrusivePtr<ExecutionPlan> plan = p.plan();
    CHECK_THAT(p.failure(*plan), Contains(of_outputs ? "[verify] bn (BatchNorm) is not as in the imperative run"
                                                     : "[verify] bn (BatchNorm) does not update mean as in the "
                                                       "imperative run, at element 3 (3,): expected "));
    CHECK(same_bits(p.arrays[5], mean));  // and it has not failed
    CHECK(same_bits(p.arrays[6], var));
    CHECK_THAT(p.failure(*plan), Contains("[verify] bn (BatchNorm)"));  // though one call was to be verified
  }
}

TEST_CASE("verify: random programs pass in both modes, predicted and recorded") {
  const std::vector<NDArray> values{numbers({4, 6}, 1), numbers({4, 6}, 2)};
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    for (bool exact : {false, true}) {
      for (const std::vector<bool>& wanted : {std::vector<bool>{}, std::vector{true, true}}) {
        const Planned p(random_symbol(3 + int(seed % 25), seed), data_names(2), values,
                        {.exact = exact, .wanted = wanted});
        REQUIRE(p.failure() == passed);
      }
    }
  }
}

TEST_CASE("verify: backwards that keep the recorded computation, none, batches of one and of none") {
  for (bool exact : {false, true}) {
    for (int64_t batch : {0, 1, 3}) {
      INFO("exact " << exact << ", batch " << batch);
      const Planned p(small_net(), small_net_names, small_net_arrays(batch),
                      {.training = true, .exact = exact, .wanted = small_net_wanted});
      const auto plan = p.plan({}, 100);
      for (bool retain : {false, true}) {
        for (const NDArray& a : p.run(*plan, retain)) a.wait_to_read();
      }
      CHECK(plan->is_verifying());
    }
  }
}

TEST_CASE("verify: gives the results, the statistics and the random numbers of a call that is not verified") {
  for (bool exact : {false, true}) {
    std::vector<std::vector<NDArray>> results;
    for (int verify : {0, 2}) {
      random::seed(3);
      const std::vector<NDArray> arrays = small_net_arrays();
      for (size_t i = 0; i < arrays.size(); ++i) {
        NDArray a = arrays[i];
        if (small_net_wanted[i]) a.attach_grad();
      }
      CachedGraph graph(small_net(), small_net_names, {.exact = exact, .verify = verify}, "net");
      std::vector<NDArray> all;
      for (int i = 0; i < 3; ++i) {
        all.push_back(autograd::record([&] { return call(graph, arrays)[0]; }));
        all.back().backward();
        for (const NDArray& a : arrays) all.push_back(a.grad().defined() ? a.grad().copy() : a.copy());
        all.push_back(call(graph, arrays)[0]);
      }
      all.push_back(nd.random_uniform({8}));
      results.push_back(all);
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      INFO("exact " << exact << ", array " << i);
      CHECK(same_bits(results[0][i], results[1][i]));
    }
  }
}

TEST_CASE("verify: the first calls of each plan, from any thread") {
  const Symbol x = sym.var("data0");
  CachedGraph graph(sym.softmax(sym.tanh(x) * 2), {"data0"}, {.verify = 3}, "net");
  std::vector<IntrusivePtr<ExecutionPlan>> plans;
  for (int64_t rows : {4, 5}) {
    for (int i = 0; i < 3; ++i) {
      CHECK((i == 0 || graph.plan()->is_verifying()));
      call(graph, {numbers({rows, 6})})[0].wait_to_read();
    }
    CHECK_FALSE(graph.plan()->is_verifying());
    plans.push_back(graph.plan());
  }
  CHECK(plans[0].get() != plans[1].get());
  CHECK_FALSE(plans[0]->next_shadow());

  CachedGraph shared(sym.softmax(sym.tanh(x) * 2), {"data0"}, {.verify = 50}, "net");
  std::vector<std::thread> callers;
  std::vector<int> near(4, 0);
  for (uint32_t t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      const NDArray input = numbers({4, 6}, t + 1), want = nd.softmax(nd.tanh(input) * 2);
      for (int i = 0; i < 20; ++i)
        near[t] += (nd.abs(call(shared, {input})[0] - want) < 1e-5).sum().asscalar<int>() == 24;
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(near == std::vector<int>(4, 20));
  CHECK_FALSE(shared.plan()->is_verifying());
  CHECK_THAT(message_of([&] { CachedGraph(x, {"data0"}, {.verify = -1}, "net"); }),
             Contains("verify is a number of calls, got -1"));
}

TEST_CASE("verify: an operator that fails fails as without") {
  Symbol x = sym.var("data0");
  CachedGraph graph(sym.softmax(fails_on_nan(x)), {"data0"}, {.verify = 2}, "net");
  const NDArray good = numbers({2, 3}), bad = good * std::numeric_limits<float>::quiet_NaN();
  call(graph, {good})[0].wait_to_read();
  const NDArray y = call(graph, {bad})[0];
  CHECK_THROWS_AS(y.wait_to_read(), ValueError);
  CHECK_THAT(message_of([&] { y.wait_to_read(); }), Contains("[_test_fails_on_nan] NaN") && Contains("in node check"));

  // where only the imperative run fails, the plan has dropped something
  Planned p(sym.softmax(fails_on_nan(x)), {"data0"}, {bad}, {});
  passes::set_operator(p.node("check"), op::Copy{});
  CHECK_THAT(p.failure(),
             Contains("[verify] the imperative run fails where the plan does not: [_test_fails_on_nan] NaN"));
}

TEST_CASE("verify: differences between values") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto differ = [](std::vector<float> expected, std::vector<float> got, DType t, const Bounds& b) {
    const Shape shape(int64_t(expected.size()));
    NDArray x = nd.array(expected, shape).astype(t), y = nd.array(got, shape).astype(t);
    x.wait_to_read(), y.wait_to_read();
    return find_difference({shape, t}, x.node().data(), y.node().data(), b).value_or("none");
  };
  const Bounds exact, near = bounds_for(DType::float32, false), gradient = bounds_for(DType::float32, true);
  for (const Bounds& b : {exact, near}) {
    CHECK(differ({nan, inf, -inf, 1}, {-nan, inf, -inf, 1}, DType::float32, b) == "none");
    CHECK_THAT(differ({0, inf}, {0, -inf}, DType::float32, b), Contains("element 1 (1,): expected inf, got -inf"));
    CHECK_THAT(differ({0, inf}, {0, 3e38f}, DType::float32, b), Contains("element 1"));
    CHECK_THAT(differ({0, 1}, {0, nan}, DType::float32, b), Contains("expected 1, got nan"));
    CHECK_THAT(differ({nan}, {0}, DType::float32, b), Contains("expected nan, got 0"));
    for (DType t : {DType::int8, DType::uint8, DType::int32, DType::int64, DType::boolean}) {
      CHECK(differ({1, 0, 1}, {1, 0, 1}, t, b) == "none");
      CHECK_THAT(differ({1, 0, 1}, {1, 1, 1}, t, b), Contains("element 1 (1,): expected 0, got 1 (bit for bit)"));
    }
  }
  CHECK_THAT(differ({1, 2, 1}, {1, 2, 1 + 6e-8f * 2}, DType::float32, exact),
             Contains("element 2 (2,): expected 1, got 1.0000001 (bit for bit)"));
  CHECK_THAT(differ({0}, {-0.0f}, DType::float32, exact), Contains("expected 0, got -0"));
  CHECK(differ({0}, {-0.0f}, DType::float32, near) == "none");
  CHECK(differ({1, 0}, {1.0001f, 9e-6f}, DType::float32, near) == "none");
  CHECK_THAT(differ({1, 0}, {1.0002f, 0}, DType::float32, near), Contains("expected 1, got 1.000"));
  CHECK_THAT(differ({1, 0}, {1, 2e-5f}, DType::float32, near), Contains("element 1 (1,): expected 0, got "));
  CHECK(differ({1}, {1.0009f}, DType::float32, gradient) == "none");
  CHECK_THAT(differ({1}, {1.002f}, DType::float32, gradient), Contains("expected 1, got 1.00"));
  CHECK(differ({1000, 0}, {1000, 5e-3f}, DType::float32, near) == "none");  // what large terms leave
  CHECK_THAT(differ({1000, 0}, {1000, 5e-2f}, DType::float32, near), Contains("element 1 (1,): expected 0, got "));
  CHECK_THAT(differ({1}, {1 + 1e-6f}, DType::float64, bounds_for(DType::float64, false)), Contains("element 0"));
  CHECK(differ({1}, {1.008f}, DType::float16, bounds_for(DType::float16, false)) == "none");
  CHECK_THAT(differ({1}, {1.03f}, DType::float16, bounds_for(DType::float16, false)), Contains("element 0"));
  CHECK(differ({1}, {1.06f}, DType::bfloat16, bounds_for(DType::bfloat16, false)) == "none");
  CHECK_THAT(differ({1}, {1.3f}, DType::bfloat16, bounds_for(DType::bfloat16, false)), Contains("element 0"));
  CHECK(differ({}, {}, DType::float32, exact) == "none");
}

TEST_CASE("verify: programs are compared operator by operator") {
  const auto chain = [](double scalar, bool more, std::vector<float> constant, const char* input = "x") {
    Symbol x = sym.var(input);
    Symbol y = sym.as("scaled")._mul_scalar(sym.relu(x), {.scalar = scalar});
    y = sym.as("shifted").broadcast_add(y, sym.array(constant, {2}, {}));
    return more ? sym.as("more").tanh(y) : y;
  };
  const Symbol traced = chain(2, false, {1, 2});
  const auto difference = [&](const Symbol& now) { return message_of([&] { check_trace(traced, now, "net"); }); };
  CHECK(difference(chain(2, false, {1, 2})) == passed);
  CHECK_THAT(
      difference(chain(3, false, {1, 2})),
      Contains(
          "[verify] net was traced and computes something else now: scaled (_mul_scalar): scalar was 2.0, is 3.0."));
  CHECK_THAT(difference(chain(2, true, {1, 2})), Contains("more (tanh) is new"));
  CHECK_THAT(difference(chain(2, false, {1, 3})),
             Contains("input 1 of shifted (broadcast_add)") && Contains("other values"));
  CHECK_THAT(difference(chain(2, false, {1, 2}, "z")), Contains("was x (variable), is z (variable)"));
  CHECK_THAT(difference(sym.as("scaled").tanh(sym.relu(sym.var("x")))),
             Contains("scaled (_mul_scalar) is now scaled (tanh)"));
  CHECK_THAT(difference(Symbol::group({traced, traced})), Contains("there were 1 outputs, now 2"));
  CHECK_THAT(difference(sym.as("scaled")._mul_scalar(sym.relu(sym.var("x")), {.scalar = 2})),
             Contains("shifted (broadcast_add) is gone"));
}

}  // namespace verify_test
