// What the tutorials list as impossible in hybrid_forward, each with its own example: here it works, traced bit for bit
// as on arrays; and what cannot work says where.
#include "kaon/gluon/block.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace restrictions_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

template <class Body>
struct Program : gluon::HybridBlock<Program<Body>> {
  Body body;
  explicit Program(Body b) : gluon::HybridBlock<Program<Body>>("program"), body(b) {}
  auto hybrid_forward(auto F, auto... x) { return body(F, x...); }
};

// Outputs and gradients are the same bits on arrays and traced, which runs the body once per mode.
template <class Body, class... X>
void check_works(Body body, const X&... x) {
  auto run = [&](auto& block) {
    std::vector<NDArray> all{block(x...)};  // prediction
    std::array<NDArray, sizeof...(X)> own{x.copy()...};
    for (NDArray& a : own) a.attach_grad();
    NDArray y = std::apply([&](auto&... a) { return autograd::record([&] { return block(a...); }); }, own);
    all.push_back(y);
    if (autograd::wants_gradient(y)) y.backward(numbers(y.shape(), 11));
    for (const NDArray& a : own) all.push_back(a.grad());
    return all;
  };
  Program block(body);
  const auto expected = run(block);
  block.hybridize({.static_alloc = true, .exact = true});
  for (int time = 0; time < 2; ++time) {
    const auto got = run(block);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("array " << i);
      REQUIRE(same_bits(got[i], expected[i]));
    }
  }
}

NDArray x23() { return numbers({2, 3}, 1); }
NDArray row3() { return numbers({1, 3}, 2); }

}  // namespace

TEST_CASE("restriction lifted: x + F.ones((1, 1)), every arithmetic and comparison operator broadcasts", "[gluon]") {
  check_works([](auto F, auto x) { return x + F.ones({1, 1}); }, x23());
  check_works([](auto F, auto x) { return F.broadcast_add(x, F.ones({1, 1})); }, x23());
  check_works([](auto, auto x, auto y) { return x + y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x - y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x * y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x / y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x % y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x < y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x <= y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x > y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x >= y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x == y; }, x23(), row3());
  check_works([](auto, auto x, auto y) { return x != y; }, x23(), row3());
  check_works([](auto F, auto x, auto y) { return F.add(x, y) * F.subtract(y, x) + F.lesser(x, y); }, x23(), row3());
}

TEST_CASE("restriction lifted: the shape of x in hybrid_forward", "[gluon][traces]") {
  check_works([](auto, auto x) { return x * double(x.shape()[1]) + double(x.ndim() + x.size()); }, x23());
  check_works([](auto F, auto x) { return F.reshape(x, Shape(x.shape()[1], x.shape()[0])); }, x23());
  std::string printed;
  Program block([&](auto, auto x) {
    printed += x.shape().str();
    return x + 1;
  });
  block.hybridize();
  block(x23());
  CHECK(printed == "(2, 3)");
}

TEST_CASE("restriction lifted: return x[0], and slices", "[gluon]") {
  check_works([](auto, auto x) { return x[0]; }, x23());
  check_works([](auto, auto x) { return x[-1] * x[0][1]; }, x23());
  check_works([](auto, auto x) { return x.slice(1, 2); }, x23());
  check_works([](auto F, auto x) { return F.slice(x, {0, 1}, {2, 3}) + F.slice_axis(x, 1, 0, 2); }, x23());
}

TEST_CASE("restriction lifted: arrays made in hybrid_forward", "[gluon]") {
  check_works([](auto F, auto x) { return x * F.array({1.0, 2.0, 3.0}, {1, 3}); }, x23());
  check_works([](auto F, auto x) { return x + F.array({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}); }, x23());
  check_works([](auto F, auto x) { return x + F.ones({2, 3}) + F.zeros({2, 3}) + F.full({1, 1}, 4); }, x23());
  check_works([](auto F, auto x) { return x + F.arange(3); }, x23());
}

TEST_CASE("restriction lifted: x += y and its sisters", "[gluon]") {
  auto in_place = [](auto change) {
    Program block([=](auto, auto x, auto y) {
      auto z = x * 1;
      change(z, y);
      return z * 2;
    });
    const NDArray expected = block(x23(), row3());
    block.hybridize({.exact = true});
    for (int time = 0; time < 2; ++time) CHECK(same_bits(block(x23(), row3()), expected));
    // and recorded, which an array in place refuses
    NDArray x = x23();
    x.attach_grad();
    autograd::record([&] { return block(x, row3()); }).backward();
    CHECK(x.grad().shape() == Shape(2, 3));
  };
  in_place([](auto& z, const auto& y) { z += y; });
  in_place([](auto& z, const auto& y) { z -= y; });
  in_place([](auto& z, const auto& y) { z *= y; });
  in_place([](auto& z, const auto& y) { z /= y; });
  in_place([](auto& z, const auto& y) { z %= y; });
  in_place([](auto& z, const auto& y) { z.assign(y); });                        // z[:] = y
  in_place([](auto& z, const auto& y) { z.assign(z + y); });                    // a[:] = a + b
  in_place([](auto& z, const auto&) { z.assign(3); });                          // z[:] = 3
  in_place([](auto& z, const auto& y) { z.slice_assign({1, 0}, {2, 3}, y); });  // z[1] = y
  in_place([](auto& z, const auto&) { z.slice_assign({0, 1}, {2, 2}, 7); });    // z[:, 1] = 7
  check_works([](auto, auto x, auto y) { return x = x + y; }, x23(), row3());   // the tutorials' way round it
}

TEST_CASE("restriction lifted: if and for in hybrid_forward, on what a trace knows", "[gluon]") {
  check_works(
      [](auto F, auto x) {
        for (int i = 0; i < 3; ++i) x = i % 2 ? F.tanh(x) : x * double(i + 1);
        return x.shape()[0] > 1 ? F.exp(x) : x;
      },
      x23());
}

namespace {
template <class A>
concept CanRead = requires(const A& a) {
  a.template asscalar<float>();
}
|| requires(const A& a) { a.template asvector<float>(); }
|| requires(const A& a) { a.template host<float>(); }
|| requires(const A& a) { a.wait_to_read(); };
template <class A>
concept IsCondition = requires(const A& a) {
  a ? 1 : 0;
};
}  // namespace

TEST_CASE("restriction kept: values are not read in a trace: it does not compile", "[gluon][traces]") {
  static_assert(CanRead<NDArray> && !CanRead<Symbol>);           // x.asnumpy()
  static_assert(!IsCondition<Symbol> && !IsCondition<NDArray>);  // if (x > 0)
  // print(x) prints a Symbol
  std::string printed;
  Program block([&](auto F, auto x) {
    printed += fmt::format("{}", x);
    return F.relu(x);
  });
  block.hybridize();
  block(x23());
  block(x23());
  CHECK(printed == "<Symbol data>");
}

TEST_CASE("restriction kept: a value of another array read in a trace is refused, with file and line", "[gluon]") {
  const NDArray flag = nd.array({1});
  uint32_t line = 0;
  Program block([&](auto F, auto x) {
    line = __LINE__ + 1;
    return flag.asscalar<float>() > 0 ? F.relu(x) : x;
  });
  block(x23());  // on arrays it is a read like any other
  block.hybridize();
  const std::string text = message_of([&] { block(x23()); });
  CHECK_THAT(text, Contains(fmt::format("restrictions_test.cpp:{}", line)) && Contains("is traced"));
  CHECK_THROWS_AS(block(x23()), TraceError);
  Program shapes([](auto, auto x) { return x * double(x.shape()[0]); });
  CHECK_THROWS_WITH(shapes(sym.var("data")), Contains("the shape of data is not known"));
}

}  // namespace restrictions_test
