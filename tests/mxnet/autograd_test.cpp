#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "calls.h"

namespace autograd_test {

using namespace symbols;
using Catch::Matchers::Contains;
using Floats = std::vector<float>;

namespace {

void mark(const Array& variable, const Array& gradient, uint32_t req = 1) {
  NDArrayHandle v = variable.get(), g = gradient.get();
  ok(MXAutogradMarkVariables(1, &v, &req, &g));
}
int backward(const Array& head, const Array* head_gradient = nullptr, bool retain = false) {
  NDArrayHandle h = head.get(), g = head_gradient ? head_gradient->get() : nullptr;
  return MXAutogradBackwardEx(1, &h, &g, 0, nullptr, retain, 0, 1, nullptr, nullptr);
}

}  // namespace

TEST_CASE("Backward writes to the program's gradient array, or adds to it", "[mxnet]") {
  const Array x({2}, {1, 2}), gradient({2}, {100, 100});
  mark(x, gradient);
  const auto square = [&] {
    const Recording recording;
    return one("square", {&x});
  };
  ok(backward(square()));
  REQUIRE(gradient.values() == Floats{2, 4});
  NDArrayHandle h = nullptr;
  ok(MXNDArrayGetGrad(x.get(), &h));
  REQUIRE(Array(h).values() == Floats{2, 4});
  mark(x, gradient, 3);  // add
  const Array head({2}, {10, 1});
  ok(backward(square(), &head));
  REQUIRE(gradient.values() == Floats{22, 8});
  mark(x, gradient, 0);
  ok(MXNDArrayGetGrad(x.get(), &h));
  REQUIRE(h == nullptr);
  REQUIRE(backward(square()) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("not part of a recorded computation"));
}

TEST_CASE("A head gradient counts with as many elements as the head has", "[mxnet]") {
  const Array x({2, 1}, {1, 2}), gradient({2, 1}, {0, 0});
  mark(x, gradient);
  const auto square = [&] {
    const Recording recording;
    return one("square", {&x});
  };
  const Array larger({3, 1}, {10, 1, 7}), flat({2}, {1, 10}), smaller({1, 1}, {1});
  ok(backward(square(), &larger));
  REQUIRE(gradient.values() == Floats{20, 4});
  ok(backward(square(), &flat));
  REQUIRE(gradient.values() == Floats{2, 40});
  REQUIRE(backward(square(), &smaller) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("(2, 1)"));
}

TEST_CASE("The flag of a gradient says whether a backward has stored one", "[mxnet]") {
  const Array x({1}, {3}), gradient({1}, {0});
  mark(x, gradient);
  const auto state = [&] {
    int now = -1;
    ok(MXNDArrayGetGradState(x.get(), &now));
    return now;
  };
  REQUIRE(state() == 0);
  {
    const Recording recording;
    ok(backward(one("square", {&x})));
  }
  REQUIRE(state() == 1);
  ok(MXNDArraySetGradState(x.get(), 0));
  REQUIRE(state() == 0);
  ok(MXNDArraySetGradState(x.get(), 1));
  REQUIRE(state() == 1);
}

TEST_CASE("Results written to arrays while recording have their history", "[mxnet]") {
  const Array x({2}, {1, 2}), gradient({2}, {0, 0}), y({2}, {0, 0});
  mark(x, gradient);
  {
    const Recording recording;
    ok(invoke_into("square", {&x}, {}, {&y}));
    REQUIRE(invoke_into("square", {&x}, {}, {&y}) == -1);  // part of a computation by now
    REQUIRE_THAT(MXGetLastError(), Contains("Inplace operations"));
    const Array z({2}, {0, 0});
    REQUIRE(invoke_into("broadcast_add", {&z, &x}, {}, {&z}) == -1);
  }
  ok(backward(y));
  REQUIRE(gradient.values() == Floats{2, 4});
}

TEST_CASE("Integers have gradients", "[mxnet]") {
  const uint32_t shape[] = {2};
  NDArrayHandle h[2] = {};
  for (NDArrayHandle& x : h) ok(MXNDArrayCreateEx(shape, 1, 1, 0, 0, 4, &x));  // int32
  const Array x(h[0]), gradient(h[1]);
  ok(invoke_into("_set_value", {}, {{"src", "3"}}, {&x}));
  mark(x, gradient);
  {
    const Recording recording;
    const Array y = one("_mul_scalar", {&x}, {{"scalar", "2"}});
    ok(backward(one("Cast", {&y}, {{"dtype", "float32"}})));
  }
  REQUIRE(one("Cast", {&gradient}, {{"dtype", "float32"}}).values() == Floats{2, 2});
}

TEST_CASE("Gradients are new arrays, and recorded where a second one is to come", "[mxnet]") {
  const Array x({1}, {2}), gradient({1}, {0});
  mark(x, gradient);
  NDArrayHandle v = x.get();
  {
    const Recording recording;
    const Array y = one("square", {&x}), cube = one("broadcast_mul", {&y, &x});
    NDArrayHandle h = cube.get();
    NDArrayHandle* results = nullptr;
    int* storage = nullptr;
    ok(MXAutogradBackwardEx(1, &h, nullptr, 1, &v, 1, 1, 1, &results, &storage));
    const Array first(results[0]);
    REQUIRE(first.values() == Floats{12});
    ok(backward(first));
    REQUIRE(gradient.values() == Floats{12});  // 6 x
    // of a linear function: zero
    const Array line = one("_mul_scalar", {&x}, {{"scalar", "5"}});
    h = line.get();
    ok(MXAutogradBackwardEx(1, &h, nullptr, 1, &v, 1, 1, 1, &results, &storage));
    const Array slope(results[0]);
    REQUIRE(slope.values() == Floats{5});
    ok(backward(slope));
    REQUIRE(gradient.values() == Floats{0});
  }
}

// MXNet's own numbers: its backward reads the array as it is by then.
TEST_CASE("A gradient takes the values that an array has at backward", "[mxnet]") {
  const Array x({2}, {1, 2}), gradient({2}, {0, 0}), factor({2}, {1, 1}), ten({2}, {10, 10});
  mark(x, gradient);
  const auto product = [&] {
    const Recording recording;
    return one("broadcast_mul", {&x, &factor});
  };
  const Array y = product();
  ok(invoke_into("_copyto", {&ten}, {}, {&factor}));
  ok(backward(y));
  REQUIRE(gradient.values() == Floats{10, 10});
  // A gradient that is recorded itself takes the arrays of the recorded calls.
  const Array again = product();
  ok(invoke_into("_copyto", {&x}, {}, {&factor}));
  NDArrayHandle v = x.get(), h = again.get();
  NDArrayHandle* results = nullptr;
  int* storage = nullptr;
  const Recording recording;
  REQUIRE(MXAutogradBackwardEx(1, &h, nullptr, 1, &v, 1, 1, 1, &results, &storage) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("was changed in place") && !Contains(":0"));
}

TEST_CASE("A recorded computation is a symbol", "[mxnet]") {
  const Array x({1}, {2}), gradient({1}, {0}), other({1}, {7});
  mark(x, gradient);
  const Recording recording;
  const auto symbol_of = [](const Array& array) {
    SymbolHandle h = nullptr;
    ok(MXAutogradGetSymbol(array.get(), &h));
    return Sym(h);
  };
  const Array y = one("square", {&x}), sum = one("broadcast_add", {&y, &other});
  const Sym symbol = symbol_of(sum);
  REQUIRE(symbol.arguments().size() == 2);
  REQUIRE_THAT(symbol.tojson(), Contains("square"));
  SymbolHandle h = nullptr;
  REQUIRE(MXAutogradGetSymbol(other.get(), &h) == -1);
  // A variable is one, and has the same name in all.
  const std::vector<std::string> name = symbol_of(x).arguments();
  REQUIRE(name.size() == 1);
  CHECK(symbol_of(one("exp", {&x})).arguments() == name);
  CHECK(std::ranges::count(symbol.arguments(), name[0]) == 1);
}

TEST_CASE("Recording and training are two switches", "[mxnet]") {
  bool recording = true, training = true;
  int before = -1;
  ok(MXAutogradSetIsTraining(1, &before));
  REQUIRE(before == 0);
  ok(MXAutogradIsRecording(&recording));
  ok(MXAutogradIsTraining(&training));
  REQUIRE((!recording && training));
  ok(MXAutogradSetIsTraining(0, &before));
  REQUIRE(before == 1);
}

}  // namespace autograd_test
