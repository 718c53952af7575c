// autograd::Function: gradients that the program gives, beside operators; second derivatives; errors.
#include <catch2/catch.hpp>

#include "kaon/gluon/nn/basic.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/functions.h"

namespace function_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {

// sigmoid by its own formulae
const autograd::Function own_sigmoid([](const NDArray& x) { return 1 / (1 + nd.exp(-x)); },
                                     [](const autograd::FunctionCall& call) {
                                       const NDArray& y = call.outputs[0];
                                       return call.heads[0] * y * (1 - y);
                                     });

NDArray leaf(std::initializer_list<float> values) {
  NDArray x = nd.array(std::span(values.begin(), values.size()));
  x.attach_grad();
  return x;
}

}  // namespace

TEST_CASE("Function: gradient as the operator's, inside a larger computation") {
  const NDArray x = leaf({-2, 0, 0.5, 3}), z = leaf({-2, 0, 0.5, 3});
  autograd::record([&] { return own_sigmoid(x * 2) * x; }).backward();
  autograd::record([&] { return nd.sigmoid(z * 2) * z; }).backward();
  const std::vector<float> ours = x.grad().asvector<float>(), theirs = z.grad().asvector<float>();
  for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == Approx(theirs[i]).epsilon(1e-5));
}

TEST_CASE("Function: second derivatives") {
  const NDArray x = leaf({-2, 0, 0.5, 3}), z = leaf({-2, 0, 0.5, 3});
  const auto second = [](const NDArray& x, auto&& f) {
    autograd::record([&] {
      const NDArray y = f(x);
      return autograd::grad(y, x, true) * x;
    }).backward();
    return x.grad().asvector<float>();
  };
  const auto ours = second(x, own_sigmoid), theirs = second(z, [](const NDArray&x) { return nd.sigmoid(x); });
  for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == Approx(theirs[i]).epsilon(1e-4).margin(1e-6));
}

TEST_CASE("Function: several inputs and outputs; what gets no gradient") {
  int calls = 0;
  const autograd::Function sum_and_product(
      [](const NDArray& a, const NDArray& b) {
        return std::vector<NDArray>{a + b, a * b};
      },
      [&calls](const autograd::FunctionCall& call) {
        ++calls;
        return std::vector<NDArray>{call.heads[0] + call.heads[1] * call.inputs[1], NDArray()};
      });
  const NDArray a = leaf({1, 2}), b = leaf({3, 4});
  const std::vector<NDArray> both = autograd::record([&] { return sum_and_product(a, b); });
  CHECK(both[0].asvector<float>() == std::vector<float>{4, 6});
  CHECK(both[1].asvector<float>() == std::vector<float>{3, 8});
  both[1].backward();  // the other's head is zero
  CHECK(a.grad().asvector<float>() == std::vector<float>{3, 4});
  CHECK(b.grad().asvector<float>() == std::vector<float>{0, 0});
  CHECK(calls == 1);
  const NDArray plain = nd.array({1, 2});
  CHECK_THROWS_AS(autograd::record([&] { return sum_and_product(plain, plain)[0]; }).backward(), StateError);
  CHECK(sum_and_product(a, b)[0].asvector<float>() == std::vector<float>{4, 6});  // not recorded
  CHECK(calls == 1);
}

TEST_CASE("Function: a forward that returns its input") {
  const autograd::Function reversal([](const NDArray& x) { return x; },
                                    [](const autograd::FunctionCall& call) { return -call.heads[0]; });
  const NDArray x = leaf({1, 2});
  autograd::record([&] { return reversal(x) * 3; }).backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{-3, -3});
}

TEST_CASE("Function: refusals") {
  const NDArray x = leaf({1, 2});
  const auto backward_of = [&](auto backward) {
    const autograd::Function f([](const NDArray& x) { return x * 2; }, backward);
    autograd::record([&] { return f(x); }).backward();
  };
  using Call = autograd::FunctionCall;
  CHECK_THROWS_WITH(
      backward_of([](const Call&) { return std::vector<NDArray>{}; }),
      Contains("[Function] backward gave 0 gradients for 1 inputs; recorded at") && Contains("function_test.cpp"));
  CHECK_THROWS_WITH(backward_of([](const Call&) { return nd.zeros({3}); }),
                    Contains("the gradient of input 0 has shape (3,), the input (2,)"));
  CHECK_THROWS_WITH(backward_of([](const Call& c) { return c.heads[0].astype(DType::float64); }),
                    Contains("has dtype float64, the input float32"));
  const autograd::Function square([](const NDArray& x) { return x * x; },
                                  [](const Call& c) { return c.heads[0] * c.inputs[0] * 2; });
  NDArray w = leaf({1, 2});
  const NDArray y = autograd::record([&] { return square(w); });
  w += 1;
  CHECK_THROWS_AS(y.backward(), StateError);
  CHECK_THROWS_AS(square(NDArray()), StateError);

  gluon::nn::HybridLambda net([&](auto, auto x) { return square(x); });
  CHECK(net(x).template asvector<float>() == std::vector<float>{1, 4});
  net.hybridize();
  CHECK_THROWS_WITH(net(x), Contains("[Function] a trace cannot hold functions of the program"));
}

}  // namespace function_test
