// What the gradient of a foreach keeps of the forward, and what it computes again.
#include <atomic>

#include "kaon/tests/graph/control_flow_support.h"

namespace loop_gradient_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

template <class A>
using array_of = typename std::remove_cvref_t<A>::value_type;

std::atomic<int> squares{0};  // computed so far

// y = x^2, whose gradient reads x; counts how often it runs.
struct CountedSquare {
  static constexpr OpTraits traits{.name = "_test_counted_square", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const { g.set(0, nd.multiply(nd.multiply(g.head(), g.input(0)), nd.full({1}, 2))); }
};
void run_cpu(const CountedSquare&, KernelContext& c) {
  ++squares;
  const float* x = c.in(0).as<const float>();
  for (int64_t i = 0; i < c.in(0).shape.size(); ++i) c.out().as<float>()[i] = x[i] * x[i];
}
const OpDef CountedSquare::def = make_op_def<CountedSquare>();

template <class A>
A counted_square(const A& x) {
  const CountedSquare op{};
  const A* inputs[] = {&x};
  A out;
  A::apply(CountedSquare::def, &op, inputs, std::span<A>(&out, 1), std::source_location::current(), "square");
  return out;
}

// A state that grows by what is squared before and after it; the squares are read by the gradient alone.
auto two_squares = [](auto F, auto x) {
  using A = array_of<decltype(x)>;
  auto [out, last] = contrib::foreach (
      [&](const A& row, const A& s) {
        const A next = F.tanh(counted_square(counted_square(row + s) * s));
        return std::pair(next * x[2], next);
      },
      x[0], x[1]);
  return std::vector<A>{out, last};
};

// How often the squares run in a recorded call, and in its backward.
std::vector<int> count_squares(const std::vector<NDArray>& inputs, HybridizeOptions options) {
  CachedGraph graph = traced(two_squares, inputs, options);
  std::vector<NDArray> x;
  for (const NDArray& a : inputs) x.push_back(a.copy()), x.back().attach_grad();
  const int before = squares;
  const std::vector<NDArray> y = autograd::record([&] { return call(graph, x); });
  nd.waitall();
  const int forward = squares - before;
  const std::vector<NDArray> heads{nd.ones(y[0].shape()), nd.ones(y[1].shape())};
  autograd::backward(y, heads);
  nd.waitall();
  return {forward, squares - before - forward};
}

}  // namespace

TEST_CASE("loop gradients: a foreach computes nothing of the forward again") {
  const std::vector<NDArray> inputs{numbers({6, 3}, 1), numbers({3}, 2), numbers({3}, 3)};
  for (bool exact : {true, false}) {
    CHECK(count_squares(inputs, {.exact = exact}) == std::vector{12, 0});
    // less memory: the loop runs for its states, then each body again for what the gradient reads
    CHECK(count_squares(inputs, {.exact = exact, .mirror = true}) == std::vector{12, 24});
  }
  check_both(two_squares, inputs);
}

TEST_CASE("loop gradients: kept values that are states, views, several outputs of a node, numbers drawn") {
  const std::vector<NDArray> inputs{numbers({5, 4, 6}, 1), numbers({4, 6}, 2), numbers({6, 6}, 3)};
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, states] = contrib::foreach (
            [&](const A& row, const std::vector<A>& s) {
              const std::vector<A> parts = F.split(F.dot(row * s[0], x[2]), 2, {.axis = 1});
              const A joined = F.concat(op::Concat{.dim = 1}, F.sigmoid(parts[1]), F.tanh(parts[0]));
              const A turned = F.transpose(F.reshape(joined, {6, 4}));
              return std::pair(turned, std::vector<A>{s[1], turned.reshape({4, 6}) * s[0]});
            },
            x[0], std::vector<A>{x[1], x[1] * 2});
        return std::vector<A>{out, states[0], states[1]};
      },
      inputs, Sums::in_another_order);
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, last] = contrib::foreach (
            [&](const A& row, const A& s) {
              const A next = F.tanh(F.dot(F.Dropout(row + s, {.p = 0.5}), x[2]));
              return std::pair(F.Dropout(next, {.p = 0.25}), next);
            },
            x[0], x[1]);
        return std::vector<A>{out, last};
      },
      inputs);
}

TEST_CASE("loop gradients: loops in loops keep what the outer one reads") {
  const std::vector<NDArray> inputs{numbers({3, 4, 5}, 1), numbers({5}, 2), numbers({5}, 3)};
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, last] = contrib::foreach (
            [&](const A& rows, const A& s) {
              auto [inner, end] = contrib::foreach (
                  [&](const A& row, const A& t) { return std::pair(F.tanh(row * t), F.sigmoid(t * x[2] + row)); }, rows,
                  s);
              return std::pair(inner * s, end);
            },
            x[0], x[1]);
        return std::vector<A>{out, last};
      },
      inputs, Sums::in_another_order);
}

TEST_CASE("loop gradients: recorded in prediction, without Dropout") {
  const std::vector<NDArray> inputs{numbers({5, 4, 6}, 1), numbers({4, 6}, 2)};
  const auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) {
          const A next = F.tanh(F.Dropout(row, {.p = 0.5}) * s);
          return std::pair(next, next);
        },
        x[0], x[1]);
    return std::vector<A>{out, last};
  };
  const auto gradients = [&](auto&& run) {
    std::vector<NDArray> x;
    for (const NDArray& a : inputs) x.push_back(a.copy()), x.back().attach_grad();
    autograd::record([&] { return run(x)[0]; }, false).backward(numbers({5, 4, 6}, 7));
    return std::vector{x[0].grad(), x[1].grad()};
  };
  CachedGraph graph = traced(body, inputs);
  require_same(gradients([&](const auto& x) { return call(graph, x); }),
               gradients([&](const auto& x) { return body(nd, x); }), "gradient");
}

TEST_CASE("loop gradients: mirror computes again what the forward computed, with packed weights too") {
  const std::vector<NDArray> inputs{numbers({3, 4, 16}, 1), numbers({4, 16}, 2), numbers({16}, 3)};
  const auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    const A weight = A::from_values(numbers({16, 16}, 4), ""), bias = A::from_values(numbers({16}, 5), "");
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) {
          const A next = F.tanh(F.FullyConnected(row * s, weight, bias, {.num_hidden = 16}));
          return std::pair(next, next);
        },
        x[0], x[1]);
    const A chosen = contrib::cond(
        F.sum(x[2]) > 0, [&] { return F.tanh(F.FullyConnected(last, weight, bias, {.num_hidden = 16})); },
        [&] { return last; });
    return std::vector<A>{out, chosen};
  };
  const auto run = [&](HybridizeOptions options) {
    CachedGraph graph = traced(body, inputs, options);
    std::vector<NDArray> x;
    for (const NDArray& a : inputs) x.push_back(a.copy()), x.back().attach_grad();
    std::vector<NDArray> all = autograd::record([&] { return call(graph, x); }, false);
    autograd::backward(all, std::vector{numbers({3, 4, 16}, 7), numbers({4, 16}, 8)});
    all.push_back(x[0].grad()), all.push_back(x[1].grad());
    return all;
  };
  require_same(run({.mirror = true}), run({}), "mirror");
}

}  // namespace loop_gradient_test
