// Gradients that arrive in some runs and not in others: where none arrives, none goes on, as in the imperative run.
// What shows it: sqrt, whose infinite derivative at 0 makes NaN of a gradient of zeros, and an output layer, which
// gives its own gradient whatever arrives.
#include <cmath>

#include "kaon/tests/graph/control_flow_support.h"

namespace arrivals_test {

using namespace kaon;
using namespace kaon::test;

namespace {

template <class A>
using List = std::vector<A>;
template <class L>
using array_of = typename L::value_type;

constexpr auto output_layer = [](auto F, auto a) { return F.LogisticRegressionOutput(a, F.zeros_like(a)); };

// At 0 only where its gradient must not arrive: an infinite one has no bounds.
NDArray roots(bool are_read) { return are_read ? nd.array({1, 4, 9}) : nd.array({0, 4, 0}); }

bool all_finite(const Both& both) {
  for (const NDArray& g : both.gradients) {
    for (double x : g.asvector<double>()) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("arrivals: what the branch taken does not read gets no gradient") {
  for (bool first : {true, false}) {
    const Both both = check_both(
        [](auto F, auto x) {
          using A = array_of<decltype(x)>;
          const A root = F.sqrt(x[1]), layer = output_layer(F, x[2]);
          A y = contrib::cond(
              x[0], [&] { return F.sin(root * 2); }, [&] { return layer * 3; });
          return List<A>{y};
        },
        {nd.array({first}), roots(first), numbers({3}, 1)});
    CHECK(all_finite(both));
    CHECK((floats(both.gradients[2]) == std::vector<float>(3, 0)) == first);
  }
}

TEST_CASE("arrivals: values that are read by a branch and elsewhere, and by two branches") {
  for (bool first : {true, false}) {
    for (bool second : {true, false}) {
      const Both both = check_both(
          [](auto F, auto x) {
            using A = array_of<decltype(x)>;
            const A root = F.sqrt(x[2]), layer = output_layer(F, x[3]), both_read = F.sqrt(x[4]);
            A y = contrib::cond(
                x[0], [&] { return root * both_read; }, [&] { return layer * 3; });
            A z = contrib::cond(
                x[1], [&] { return F.tanh(both_read); }, [&] { return layer + layer; });
            A last = contrib::cond(
                x[1], [&] { return y * 2; }, [&] { return z; });  // y's own head may be missing
            return List<A>{F.square(last), z + x[2]};
          },
          {nd.array({first}), nd.array({second}), roots(first && second), numbers({3}, 1), roots(first || second)},
          Sums::in_another_order);
      CHECK(all_finite(both));
    }
  }
}

TEST_CASE("arrivals: a while loop that makes no iteration reads nothing") {
  for (int n : {0, 1, 2, 3}) {
    const Both both = check_both(
        [](auto F, auto x) {
          using A = array_of<decltype(x)>;
          const A root = F.sqrt(x[1]), layer = output_layer(F, x[2]), first = output_layer(F, x[3]);
          auto [out, s] = contrib::while_loop(
              [&](const List<A>& s) { return F.lesser(s[0], x[0]); },
              [&](const List<A>& s) {
                return std::pair(List<A>{root * s[1]}, List<A>{s[0] + 1, F.floor(s[2]), s[1] + layer});
              },
              List<A>{F.zeros_like(x[0]), first, x[3]}, 4);
          return List<A>{out[0], s[1], s[2]};
        },
        {nd.array({n}), roots(n > 0), numbers({3}, 1), numbers({3}, 2)}, Sums::in_another_order);
    CHECK(all_finite(both));
  }
}

TEST_CASE("arrivals: branches in loops, loops in branches") {
  for (double limit : {-10.0, 0.0, 10.0}) {
    const Both both = check_both(
        [](auto F, auto x) {
          using A = array_of<decltype(x)>;
          const A root = F.sqrt(x[2]), layer = output_layer(F, x[3]), state = output_layer(F, x[4]);
          auto [out, s] = contrib::foreach (
              [&](const A& row, const A& s) {
                A y = contrib::cond(
                    F.lesser(row, x[1]), [&] { return F.sin(root) * s; }, [&] { return F.floor(s) + x[4]; });
                return std::pair(y, y * 2);
              },
              x[0], state);
          A z = contrib::cond(
              F.lesser(x[1], F.zeros_like(x[1])),
              [&] {
                auto [outs, last] = contrib::foreach (
                    [&](const A& row, const A& s) { return std::pair(row * layer, s + row); }, out, s);
                return F.sum(outs) + F.sum(last);
              },
              [&] { return F.sum(s); });
          return List<A>{out, z};
        },
        {nd.array({-1, 1, -2, 2}), nd.array({limit}), roots(limit > -10), numbers({3}, 1), numbers({3}, 2)},
        Sums::in_another_order);
    CHECK(all_finite(both));
  }
}

TEST_CASE("arrivals: results that no wanted value goes into are not on the way of a gradient") {
  const auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, s] = contrib::while_loop([&](const List<A>& s) { return F.lesser(s[1], x[1]); },
                                        [&](const List<A>& s) {
                                          return std::pair(List<A>{s[1] * 2}, List<A>{s[0] * 3, s[1] + 1});
                                        },
                                        List<A>{x[0], F.zeros_like(x[1])}, 3);
    return List<A>{F.digamma(out[0] + 1), s[0]};  // digamma has no gradient
  };
  NDArray n = nd.array({2});
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();
  CachedGraph graph = traced(body, {x, n});
  for (int time = 0; time < 2; ++time) {
    autograd::record([&] { return call(graph, {x, n}); })[1].backward();
    CHECK(floats(x.grad()) == std::vector<float>(3, 9));
    const std::vector<NDArray> y = autograd::record([&] { return call(graph, {x, n}); });
    CHECK_FALSE(autograd::wants_gradient(y[0]));
    CHECK(autograd::wants_gradient(y[1]));
  }
}

TEST_CASE("arrivals: what is recorded before a hybridized call gets no gradient where it sends none") {
  const auto flat = [](auto F, auto x) { return List<array_of<decltype(x)>>{F.floor(x[1] * 3) + F.floor(x[2])}; };
  const auto branches = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    return List<A>{contrib::cond(
        x[0], [&] { return F.floor(x[1] * 3) + x[2]; }, [&] { return x[1] + F.floor(x[2]); })};
  };
  const auto check = [](auto body, double p, bool first, bool second) {
    NDArray predicate = nd.array({p}), a = roots(first), b = numbers({3}, 5);
    CachedGraph graph = traced(body, {predicate, a, b});
    const auto gradients = [&](auto&& net, bool create_graph) {
      a.attach_grad();
      b.attach_grad();
      const NDArray y = autograd::record([&] {
        return net(List<NDArray>{predicate, nd.sqrt(a), output_layer(nd, b)});
      })[0];
      if (create_graph) {
        const List<NDArray> both = {a, b};
        const List<NDArray> g = autograd::grad(std::span(&y, 1), both, {}, true, true);
        return std::pair(floats(g[0]), floats(g[1]));
      }
      y.backward();
      return std::pair(floats(a.grad()), floats(b.grad()));
    };
    for (bool create_graph : {false, true}) {
      const auto expected = gradients([&](const List<NDArray>& x) { return body(nd, x); }, create_graph);
      for (int time = 0; time < 3; ++time) {
        const auto got = gradients([&](const List<NDArray>& x) { return call(graph, x); }, create_graph);
        CHECK(got == expected);
      }
      CHECK((expected.first != std::vector<float>(3, 0)) == first);
      CHECK((expected.second != std::vector<float>(3, 0)) == second);
    }
  };
  check(flat, 1, false, true);
  check(branches, 1, false, true);
  check(branches, 0, true, true);
}

// As in MXNet, whose programs keep a loss out of the gradient of what they print.
TEST_CASE("arrivals: an output layer gives its gradient behind what has a derivative of zero") {
  const auto check = [](auto reader, const std::vector<NDArray>& inputs) {
    const Both own =
        check_both([](auto F, auto x) { return List<array_of<decltype(x)>>{output_layer(F, x[0])}; }, {inputs[0]});
    const Both both = check_both(reader, inputs, Sums::in_another_order);
    CHECK(floats(both.gradients[0]) == floats(own.gradients[0]));
    for (size_t i = 1; i < inputs.size(); ++i) {
      CHECK(floats(both.gradients[i]) == std::vector<float>(size_t(inputs[i].size()), 0));
    }
  };
  const NDArray x = numbers({3}, 1), zeros = nd.zeros(Shape(3));
  using Arrays = List<NDArray>;
  check([](auto F, auto x) { return decltype(x){F.BlockGrad(output_layer(F, x[0]))}; }, Arrays{x});
  check([](auto F, auto x) { return decltype(x){F.sum(F.log(F.BlockGrad(output_layer(F, x[0]))))}; }, Arrays{x});
  check([](auto F, auto x) { return decltype(x){F.floor(F.sin(output_layer(F, x[0])) * 3) + 1}; }, Arrays{x});
  check([](auto F, auto x) { return decltype(x){F.argmax(output_layer(F, x[0]), {.axis = 0})}; }, Arrays{x});
  check([](auto F, auto x) { return decltype(x){output_layer(F, x[0]) > 0.5}; }, Arrays{x});
  // the root's infinite derivative is not multiplied by zeros
  check([](auto F, auto x) { return decltype(x){F.BlockGrad(output_layer(F, x[0]) + F.sqrt(x[1]))}; },
        Arrays{x, zeros});
  check(
      [](auto F, auto x) {
        const auto layer = output_layer(F, x[0]);
        return decltype(x){contrib::cond(
            x[1], [&] { return F.BlockGrad(layer); }, [&] { return F.sqrt(x[2]); })};
      },
      Arrays{x, nd.array({1}), zeros});
  check(
      [](auto F, auto x) {
        return decltype(x){contrib::cond(
            x[1], [&] { return F.BlockGrad(output_layer(F, x[0])); }, [&] { return F.sin(x[0]); })};
      },
      Arrays{x, nd.array({1})});
  check(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, s] = contrib::foreach (
            [&](const A& row, const A& s) { return std::pair(F.BlockGrad(row * output_layer(F, s)), F.floor(s)); },
            x[1], x[0]);
        return decltype(x){F.sum(out) + F.sum(F.BlockGrad(s))};
      },
      Arrays{x, nd.ones(Shape(1))});
}

}  // namespace arrivals_test
