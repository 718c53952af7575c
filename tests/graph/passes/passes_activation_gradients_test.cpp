// Gradients of activations that go before those of the max pooling behind them.
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_activation_gradients_test {

using namespace kaon;
using namespace kaon::test;

namespace {

Graph pooled(Graph g) { return passes::pool_activation_gradients(std::move(g), true); }

// Is the gradient of the activation, of which there is one, that of pooled values? Checks values and gradients.
bool is_pooled(const Symbol& y, const NDArray& x, bool exact = false) {
  const Graph before = with_gradient(traced(y, {"x"}, {x}), {true});
  const Graph after = check_pass(pooled, before, {x}, exact, {.training = true});
  REQUIRE(count(after, "_backward_Activation") == 1);
  REQUIRE(operators(after) == operators(before));
  for (const Node& n : after.nodes) {
    if (n.op == &op::BackwardActivation::def) return n.outputs[0].shape.size() < x.size();
  }
  return false;
}

Symbol act(const Symbol& x, ActivationType type) { return sym.Activation(x, {.act_type = type}); }

}  // namespace

TEST_CASE("pool_activation_gradients: each activation, windows that overlap, that leave gaps, with borders",
          "[graph]") {
  for (Shape sizes : {Shape(2, 3, 8, 8), Shape(1, 1, 7, 9), Shape(4, 20, 12, 5)}) {
    const NDArray x = numbers(sizes);
    for (ActivationType type : {ActivationType::relu, ActivationType::sigmoid, ActivationType::tanh,
                                ActivationType::softrelu, ActivationType::softsign}) {
      INFO(sizes.str() << " activation " << int(type));
      const Symbol a = act(sym.var("x"), type);
      const bool relu = type == ActivationType::relu;
      CHECK(is_pooled(sym.Pooling(a, {.kernel = {2, 2}, .stride = {2, 2}}), x, relu));
      CHECK(is_pooled(sym.Pooling(a, {.kernel = {3, 2}, .stride = {2, 2}, .pad = {1, 1}}), x));
      CHECK(is_pooled(sym.Pooling(a, {.kernel = {2, 2}, .stride = {3, 3}}), x, relu));
      CHECK(is_pooled(sym.Pooling(a, {.kernel = {1, 1}, .global_pool = true}), x, relu));
    }
  }
}

TEST_CASE("pool_activation_gradients: other poolings stay, and so does a gradient that others read", "[graph]") {
  const NDArray x = numbers({2, 3, 8, 8});
  const Symbol a = act(sym.var("x"), ActivationType::relu);
  const auto pool = [&](const Symbol& of, PoolType type) {
    return sym.Pooling(of, {.kernel = {2, 2}, .pool_type = type, .stride = {2, 2}});
  };
  CHECK_FALSE(is_pooled(pool(a, PoolType::avg), x));
  CHECK_FALSE(is_pooled(pool(a, PoolType::sum), x));
  CHECK_FALSE(is_pooled(sym.mean(pool(a, PoolType::max)) + sym.mean(a), x));
  CHECK_FALSE(is_pooled(pool(a * a, PoolType::max), x));
}

TEST_CASE("pool_activation_gradients: NaN and infinities come out where they did", "[graph]") {
  std::vector<double> values = numbers({1, 2, 6, 6}).asvector<double>();
  values[3] = NAN, values[20] = INFINITY, values[21] = -INFINITY, values[40] = -0.;
  const NDArray x = nd.array(values, {1, 2, 6, 6});
  for (ActivationType type : {ActivationType::relu, ActivationType::tanh}) {
    const Symbol y = sym.Pooling(act(sym.var("x"), type), {.kernel = {2, 2}, .stride = {2, 2}});
    const Graph before = with_gradient(traced(y, {"x"}, {x}), {true});
    const auto want = evaluate(before, {x}, {.training = true}),
               got = evaluate(pooled(before), {x}, {.training = true});
    for (size_t k = 0; k < want.size(); ++k) {
      const auto a = floats(got[k]), b = floats(want[k]);
      for (size_t i = 0; i < a.size(); ++i) CHECK((a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))));
    }
  }
}

TEST_CASE("pool_activation_gradients: a plan that is not exact has it", "[graph]") {
  const NDArray x = numbers({2, 3, 8, 8});
  const Symbol y = sym.Pooling(act(sym.var("x"), ActivationType::relu), {.kernel = {2, 2}, .stride = {2, 2}});
  for (bool exact : {false, true}) {
    CachedGraph graph(y, {"x"}, {.exact = exact}, "net");
    std::vector<NDArray> in{x}, out;
    in[0].attach_grad();
    autograd::record([&] { out = call(graph, in); });
    out[0].backward();
    CHECK((graph.report()->dump().find("--- pool_activation_gradients: 4") != std::string::npos) != exact);
  }
}

}  // namespace passes_activation_gradients_test
