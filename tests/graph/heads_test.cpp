// Backwards of planned programs of which some outputs are used and others are not.
#include <cmath>

#include "kaon/tests/graph/support.h"

namespace heads_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

NDArray with_grad(NDArray a) {
  a.attach_grad();
  return a;
}

// Derivatives at 0: 2, infinite, NaN where it is multiplied by a head of zero, and one that all of them share.
template <class A>
std::vector<A> four_outputs(const Functions<A>& F, const A& x) {
  const A shared = F.tanh(x);
  return {x * 2 + shared, F.sqrt(x), F.log(x) * shared, F.square(shared) + F.sin(x)};
}

// The gradient of x where the outputs in `used` get heads of 1, 2, 3 ...
std::vector<double> gradient(const std::vector<NDArray>& y, NDArray& x, unsigned used) {
  std::vector<NDArray> heads, head_grads;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!(used >> i & 1)) continue;
    heads.push_back(y[i]);
    head_grads.push_back(nd.full(y[i].shape(), double(i + 1)));
  }
  x.grad().assign(77);
  autograd::backward(heads, head_grads);
  return x.grad().asvector<double>();
}

bool same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!equal && !(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("heads: no gradient goes through an output that nothing reads, be its derivative infinite") {
  for (bool exact : {true, false}) {
    DYNAMIC_SECTION("exact " << exact) {
      CachedGraph graph(Symbol::group({sym.var("x") * 2, sym.sqrt(sym.var("x"))}), {"x"}, {.exact = exact}, "program");
      NDArray x = with_grad(nd.zeros({3}));
      for (int time = 0; time < 3; ++time) {  // the first one is not planned for, the others are
        autograd::record([&] { return call(graph, {x}); })[0].backward();
        CHECK(floats(x.grad()) == std::vector<float>{2, 2, 2});
      }
    }
  }
}

TEST_CASE("heads: any outputs may be used, others from call to call: the imperative gradient") {
  const HybridizeOptions options[] = {
      {.exact = true}, {}, {.static_alloc = true}, {.mirror = true}, {.policy = PlanPolicy::error}, {.verify = 1000}};
  for (const HybridizeOptions& o : options) {
    for (bool training : {false, true}) {
      DYNAMIC_SECTION("options " << &o - options << ", training " << training) {
        CachedGraph graph(Symbol::group(four_outputs<Symbol>(sym, sym.var("x"))), {"x"}, o, "program");
        NDArray x = with_grad(nd.array({0, 0.5, 2, 0}));
        std::vector<unsigned> masks;
        for (unsigned used = 1; used < 16; ++used) masks.insert(masks.end(), {used, used, 15 - used % 15});
        for (unsigned used : masks) {
          const auto run = [&](auto program) { return autograd::record(program, training); };
          const std::vector<double> expected = gradient(run([&] { return four_outputs<NDArray>(nd, x); }), x, used);
          const std::vector<double> got = gradient(run([&] { return call(graph, {x}); }), x, used);
          INFO("outputs " << used << ": got " << got[0] << " " << got[1] << ", expected " << expected[0] << " "
                          << expected[1]);
          CHECK(same(got, expected, o.exact ? 0 : 1e-6));
        }
      }
    }
  }
}

TEST_CASE("heads: once it is known which outputs are used, a forward and a backward are one operation each") {
  Engine engine;
  EngineScope scope(engine);
  int planned = 0;
  static int* misses;
  misses = &planned;
  CachedGraph graph(Symbol::group(four_outputs<Symbol>(sym, sym.var("x"))), {"x"},
                    {.on_miss = [](std::string_view) { ++*misses; }}, "program");
  NDArray x = with_grad(numbers({64}));
  std::string why;
  for (int time = 0; time < 4; ++time) {
    std::vector<NDArray> y = autograd::record([&] { return call(graph, {x}); });
    const uint64_t before = engine.stats().ops;
    y[3].backward();
    CHECK(engine.stats().ops == before + 1);
    if (time == 1) why = graph.last_miss();
  }
  CHECK(planned == 3);  // for all outputs; the gradient of one, which computes the forward again; then for that one
  CHECK(why == "gradients arrive at other outputs");
}

TEST_CASE("heads: several backwards from one call, from other outputs each") {
  CachedGraph graph(Symbol::group(four_outputs<Symbol>(sym, sym.var("x"))), {"x"}, {}, "program");
  NDArray x = with_grad(nd.array({0.5, 2}));
  const auto gradients = [&](const std::vector<NDArray>& y) {
    std::vector<std::vector<float>> result;
    for (const NDArray& output : y) {
      autograd::backward(std::span(&output, 1), {}, true);
      result.push_back(floats(x.grad()));
    }
    return result;
  };
  const auto expected = gradients(autograd::record([&] { return four_outputs<NDArray>(nd, x); }));
  for (int time = 0; time < 2; ++time) {
    const auto got = gradients(autograd::record([&] { return call(graph, {x}); }));
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 2; ++k) CHECK(got[i][k] == Approx(expected[i][k]).epsilon(1e-6));
    }
  }
}

TEST_CASE("heads: gradients of gradients do not go through unused outputs either") {
  for (bool exact : {true, false}) {
    CachedGraph graph(Symbol::group(four_outputs<Symbol>(sym, sym.var("x"))), {"x"}, {.exact = exact}, "program");
    NDArray x = with_grad(nd.array({0, 0.25}));
    const auto second = [&](auto program) {
      NDArray slope = autograd::record([&] { return autograd::grad(program()[0], x, true); });
      slope.backward();
      return x.grad().asvector<double>();
    };
    const auto expected = second([&] { return four_outputs<NDArray>(nd, x); });
    for (int time = 0; time < 3; ++time) {
      CHECK(same(second([&] { return call(graph, {x}); }), expected, exact ? 0 : 1e-6));
    }
  }
}

TEST_CASE("heads: a Dropout whose mask only the unplanned backward reads again draws the forward's numbers") {
  const Symbol s = sym.var("x"), dropped = sym.Dropout(s * 1, {.p = 0.5});
  CachedGraph graph(Symbol::group({sym.sqrt(s), dropped}), {"x"}, {}, "program");
  NDArray x = with_grad(nd.ones({256}));
  for (int time = 0; time < 3; ++time) {
    std::vector<NDArray> y = autograd::record([&] { return call(graph, {x}); });
    y[1].backward();
    CHECK(floats(x.grad()) == floats(y[1]));
  }
}

TEST_CASE("heads: what an unplanned backward reads must not have been changed") {
  CachedGraph graph(Symbol::group({sym.var("x") * 2, sym.var("x") * sym.var("c")}), {"x", "c"}, {}, "program");
  NDArray x = with_grad(nd.ones({3})), c = nd.ones({3});
  std::vector<NDArray> y = autograd::record([&] { return call(graph, {x, c}); });
  c.assign(2);
  CHECK_THAT(message_of([&] { y[1].backward(); }), Contains("was changed in place"));
}

}  // namespace heads_test
