// Operators without a gradient on the way of one: refused, unless their derivative is zero; planned as imperatively.
#include <algorithm>
#include <functional>

#include "kaon/tests/graph/support.h"

namespace no_gradient_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// A program of one input, imperatively and planned.
template <class Program>
void in_both_modes(Program program,
                   FunctionRef<void(const std::function<std::vector<NDArray>(const NDArray&)>&)> check) {
  const auto outputs = [&](auto F, const auto& x) {
    auto y = program(F, x);
    if constexpr (requires {
                    y.size() + y[0].ndim();
                    y.begin();
                  })
      return y;
    else return std::vector{y};
  };
  SECTION("imperative") {
    check([&](const NDArray& x) { return outputs(nd, x); });
  }
  SECTION("planned") {
    CachedGraph graph(Symbol::group(outputs(sym, sym.var("x"))), {"x"}, {.exact = true}, "program");
    check([&](const NDArray& x) { return call(graph, {x}); });
  }
}

NDArray with_grad(NDArray a) {
  a.attach_grad();
  return a;
}

}  // namespace

TEST_CASE("no gradient: an operator without a rule is refused, by name, when a gradient comes to it") {
  in_both_modes([](auto F, const auto& x) { return F.shuffle(x) + x; },
                [](const auto& program) {
                  NDArray x = with_grad(numbers({4, 2}));
                  NDArray y = autograd::record([&] { return program(x)[0]; });
                  CHECK(y.shape() == Shape(4, 2));  // which is no error yet
                  CHECK_THAT(message_of([&] { y.backward(); }), Contains("[_shuffle] has no gradient"));
                });
}

TEST_CASE("no gradient: outputs that do not go through such an operator have theirs") {
  in_both_modes(
      [](auto F, const auto& x) {
        return std::vector{F.square(x), F.shuffle(x), F.stop_gradient(F.shuffle(x)) * x};
      },
      [](const auto& program) {
        NDArray x = with_grad(nd.array({3, 4}));
        std::vector<NDArray> y = autograd::record([&] { return program(x); });
        y[0].backward();
        CHECK(floats(x.grad()) == std::vector<float>{6, 8});
        y = autograd::record([&] { return program(x); });
        y[2].backward();
        CHECK(floats(x.grad()) == floats(y[2] / x));
        y = autograd::record([&] { return program(x); });
        CHECK_THROWS_AS(y[1].backward(), StateError);
        NDArray slope = autograd::record([&] { return autograd::grad(program(x)[0], x, true); });
        slope.backward();
        CHECK(floats(x.grad()) == std::vector<float>{2, 2});
      });
}

TEST_CASE("no gradient: only what is computed from a wanted input is recorded") {
  const auto check = [](const std::function<std::vector<NDArray>(const NDArray&, const NDArray&)>& program) {
    NDArray x = with_grad(nd.array({3, 4})), c = nd.array({5, 6});
    const auto run = [&] { return autograd::record([&] { return program(x, c); }); };
    std::vector<NDArray> y = run();
    CHECK(autograd::wants_gradient(y[0]));
    CHECK(autograd::wants_gradient(y[1]));
    y[1].backward();
    CHECK(floats(x.grad()) == std::vector<float>{0, 0});
    for (size_t i : {2, 3, 4, 5, 6}) {
      INFO(i);
      y = run();
      CHECK(!autograd::wants_gradient(y[i]));
      CHECK_THAT(message_of([&] { y[i].backward(); }), Contains("not part of a recorded computation"));
    }
    y = run();
    y[0].backward();
    CHECK(floats(x.grad()) == std::vector<float>{6, 8});
    y = run();
    y[7].backward();
    CHECK(floats(x.grad()) == std::vector<float>{9, 16});
    y = {};
    c.attach_grad();  // another plan
    run()[2].backward();
    CHECK(floats(c.grad()) == std::vector<float>{3, 3});
  };
  const auto program = [](auto F, const auto& x, const auto& c) {
    const auto count = F.cast(x, DType::int32);
    const auto constant = F.square(x).detach();
    return std::vector{F.square(x), F.sign(x),        c * 3,       F.ones({2}), F.cast(count, DType::float32),
                       constant,    constant * 3 + c, constant * x};
  };
  SECTION("imperative") {
    check([&](const NDArray& x, const NDArray& c) { return program(nd, x, c); });
  }
  for (bool exact : {true, false}) {
    DYNAMIC_SECTION("planned, exact " << exact) {
      CachedGraph graph(Symbol::group(program(sym, sym.var("x"), sym.var("c"))), {"x", "c"}, {.exact = exact},
                        "program");
      check([&](const NDArray& x, const NDArray& c) { return call(graph, {x, c}); });
    }
  }
}

TEST_CASE("no gradient: where the derivative is zero everywhere, backward gives zeros") {
  const auto check = [](const auto& program) {
    NDArray x = with_grad(numbers({4, 3}));
    x.grad().assign(7);
    NDArray y = autograd::record([&] { return program(x)[0]; });
    y.backward();
    CHECK(floats(x.grad()) == std::vector<float>(12, 0));
  };
  SECTION("argmax") {
    in_both_modes([](auto F, const auto& x) { return F.argmax(x, {.axis = 1}); }, check);
  }
  SECTION("sign") {
    in_both_modes([](auto F, const auto& x) { return F.sign(x); }, check);
  }
  SECTION("comparison") {
    in_both_modes([](auto, const auto& x) { return x > 0.25; }, check);
  }
  SECTION("one_hot") {
    in_both_modes([](auto F, const auto& x) { return F.one_hot(x, 3); }, check);
  }
}

TEST_CASE("no gradient: what is behind a zero derivative is not refused, what is beside it has its gradient") {
  in_both_modes(
      [](auto F, const auto& x) {
        return F.argmax(F.shuffle(x), {.axis = 1, .keepdims = true}) * F.sum(x, {.axis = {1}, .keepdims = true});
      },
      [](const auto& program) {
        NDArray x = with_grad(numbers({4, 3}));
        NDArray y = autograd::record([&] { return program(x)[0]; });
        y.backward();
        const std::vector<float> got = floats(x.grad());
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == got[i / 3 * 3]);
        CHECK(*std::max_element(got.begin(), got.end()) <= 2);
      });
}

}  // namespace no_gradient_test
