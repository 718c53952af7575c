// What a program makes of its sizes, computed in files for any size: at each size as the program itself has it.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/sizes/formula.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_any_numbers_test {

using namespace kaon;
using Catch::Contains;
using onnx::exporting::Fitting;
using onnx::exporting::Sizes;

namespace {

// x (2, l, 4), l named "l".
struct Half : gluon::HybridBlock<Half> {
  auto hybrid_forward(auto F, auto x) { return F.slice_axis(x, 1, 0, x.shape()[1] / 2); }
};
struct Rest : gluon::HybridBlock<Rest> {
  auto hybrid_forward(auto F, auto x) {
    const int64_t l = x.shape()[1];
    return F.slice_axis(x, 1, (l + 1) / 2, l) * 2.0;
  }
};
struct InTwo : gluon::HybridBlock<InTwo> {
  auto hybrid_forward(auto F, auto x) {
    const auto parts = F.split(x, 2, {.axis = 1});
    return parts[0] - parts[1];
  }
};
struct Mean : gluon::HybridBlock<Mean> {
  auto hybrid_forward(auto F, auto x) { return F.sum(x, {.axis = Shape(1)}) / double(x.shape()[1]); }
};
struct Scaled : gluon::HybridBlock<Scaled> {
  auto hybrid_forward(auto, auto x) { return x * double(x.shape()[1]) + x * (1.0 / double(x.shape()[1])); }
};
struct Eye : gluon::HybridBlock<Eye> {
  auto hybrid_forward(auto F, auto x) {
    const int64_t l = x.shape()[1];
    return F.dot(F.transpose(x, {0, 2, 1}), F.eye(l)) + F.sum(F.eye(l, {.M = l + 2, .k = 1}));
  }
};
struct Points : gluon::HybridBlock<Points> {
  auto hybrid_forward(auto F, auto x) {
    return F.broadcast_add(x, F.reshape(F.linspace(-1, 2, x.shape()[1]), {1, -1, 1}));
  }
};
struct OpenPoints : gluon::HybridBlock<OpenPoints> {
  auto hybrid_forward(auto F, auto x) {
    return F.broadcast_add(x, F.reshape(F.linspace(-1, 2.3, x.shape()[1], {.endpoint = false}), {1, -1, 1}));
  }
};
struct Rooted : gluon::HybridBlock<Rooted> {
  auto hybrid_forward(auto, auto x) {
    const auto l = double(x.shape()[1]);
    return x * (1 / std::sqrt(l)) + x * std::sqrt(l);
  }
};
struct Full : gluon::HybridBlock<Full> {
  auto hybrid_forward(auto F, auto x) {
    const int64_t n = x.shape()[0], l = x.shape()[1];
    return F.concat({.dim = 2}, x, F.full({n, l, 3}, 1.5), F.full({n, l, 1}, double(l)));
  }
};
struct Ceiled : gluon::HybridBlock<Ceiled> {
  auto hybrid_forward(auto F, auto x) {
    const auto image = F.expand_dims(x, 1);
    const auto pool = [&](PoolType type) {
      return F.Pooling(image, {.kernel = {3, 2},
                               .pool_type = type,
                               .pooling_convention = PoolingConvention::full,
                               .stride = {2, 1},
                               .pad = {1, 0},
                               .count_include_pad = false});
    };
    return F.concat({.dim = 1}, pool(PoolType::max), pool(PoolType::avg));
  }
};
struct CeiledMean : gluon::HybridBlock<CeiledMean> {
  auto hybrid_forward(auto F, auto x) {
    return F.Pooling(F.expand_dims(x, 1), {.kernel = {2, 2},
                                           .pool_type = PoolType::avg,
                                           .pooling_convention = PoolingConvention::full,
                                           .stride = {2, 1}});
  }
};

template <PoolType Type>
struct CeiledSum : gluon::HybridBlock<CeiledSum<Type>> {
  auto hybrid_forward(auto F, auto x) {
    const auto image = F.expand_dims(x, 1);
    const auto pool = [&](const Shape& kernel, const Shape& stride, const Shape& pad) {
      return F.Pooling(image, {.kernel = kernel,
                               .pool_type = Type,
                               .pooling_convention = PoolingConvention::full,
                               .stride = stride,
                               .pad = pad,
                               .p_value = 2});
    };
    return F.concat({.dim = 3}, pool({3, 2}, {2, 1}, {1, 0}), pool({3, 4}, {2, 3}, {1, 1}));
  }
};

void check_close(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  if (a.size() == 0) return;
  CHECK(nd.max(nd.abs(a.astype(DType::float64) - b.astype(DType::float64))).asscalar<double>() < 1e-5);
}

template <class Net>
void check(Net net, const std::vector<int64_t>& lengths) {
  const test::ScratchFolder folder;
  net.hybridize();
  net(nd.random_normal({2, 4, 4}));
  onnx::save(net, folder / "net.onnx", {.named = {{"data", 1, "l"}}});
  const onnx::Block back = onnx::load(folder / "net.onnx");
  for (const int64_t l : lengths) {
    CAPTURE(l);
    const NDArray x = nd.random_normal({2, l, 4});
    check_close(back(x), net(x));
  }
}

const std::vector<int64_t> all{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 30, 31, 49, 63, 200, 1023};
const std::vector<int64_t> even{2, 4, 6, 8, 10, 30, 202};
const std::vector<int64_t> some{3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 30, 49, 200};

}  // namespace

TEST_CASE("onnx any numbers: halves of an axis") {
  check(Half(), {all.begin() + 1, all.end()});
  check(Rest(), {all.begin() + 1, all.end()});
  check(InTwo(), even);
}

TEST_CASE("onnx any numbers: a mean by the number of elements, and multiples of it") {
  check(Mean(), all);
  check(Scaled(), all);
  check(Rooted(), all);
}

TEST_CASE("onnx any numbers: identities, points and full arrays") {
  check(Eye(), some);
  check(Points(), all);
  check(OpenPoints(), all);
  check(Full(), all);
}

TEST_CASE("onnx any numbers: poolings whose last window reaches beyond the image") {
  check(Ceiled(), some);
  check(CeiledMean(), some);
  check(CeiledSum<PoolType::sum>(), some);
  check(CeiledSum<PoolType::lp>(), some);
}

TEST_CASE("onnx any numbers: attention that looks back from the end, of two lengths") {
  const test::ScratchFolder folder;
  const auto program = [](const Symbol& q, const Symbol& k) {
    return sym.scaled_dot_product_attention(q, k, k, {.causal = CausalMask::lower_right});
  };
  const std::vector<std::pair<std::string, TensorMeta>> inputs{{"q", {Shape(2, 3, 4, 5), DType::float32}},
                                                               {"k", {Shape(2, 3, 6, 5), DType::float32}}};
  onnx::save(program(sym.var("q", inputs[0].second.shape), sym.var("k", inputs[1].second.shape)), inputs, {},
             folder / "net.onnx", {.named = {{"q", 2, "lq"}, {"k", 2, "lk"}}});
  const onnx::Block back = onnx::load(folder / "net.onnx");
  const gluon::SymbolBlock own(program(sym.var("q"), sym.var("k")), {"q", "k"});
  for (const auto& [n, m] : {std::pair(4, 6), std::pair(1, 7), std::pair(5, 5), std::pair(9, 3), std::pair(2, 1)}) {
    CAPTURE(n, m);
    const NDArray q = nd.random_normal({2, 3, n, 5}), k = nd.random_normal({2, 3, m, 5});
    check_close(back.forward({q, k})[0], own.forward({q, k})[0]);
  }
}

TEST_CASE("onnx any numbers: formulas are found where the values leave one alone") {
  const std::vector<Sizes> sizes{{2}, {3}, {5}, {19}, {69}, {1011}, {8}, {48}, {128}};
  const Fitting fit(sizes, 1);
  const auto found = [&](const std::function<int64_t(int64_t)>& of) {
    std::vector<int64_t> values;
    for (const Sizes& s : sizes) values.push_back(of(s[0]));
    const auto formula = fit(values);
    if (!formula) return false;
    for (int64_t l = 0; l < 300; ++l) {
      CAPTURE(l);
      CHECK((*formula)({l}) == of(l));
    }
    return true;
  };
  CHECK(found([](int64_t) { return 7; }));
  CHECK(found([](int64_t l) { return 3 * l - 5; }));
  CHECK(found([](int64_t l) { return l / 2; }));
  CHECK(found([](int64_t l) { return (l + 1) / 2 * 2 + 3; }));
  CHECK(found([](int64_t l) { return 5 - l / 2; }));
  CHECK(found([](int64_t l) { return l / 3; }));
  CHECK_FALSE(found([](int64_t l) { return (l + 3) / 8; }));  // no size shows where it grows
  CHECK_FALSE(found([](int64_t l) { return l * l; }));
  CHECK_FALSE(found([](int64_t l) { return l < 8 ? 1 : 2; }));
  CHECK_FALSE(found([](int64_t l) { return std::min<int64_t>(l, 10); }));

  const std::vector<Sizes> twos{{2, 4}, {4, 4}, {2, 6}, {4, 6}, {8, 14}};  // even ones, of two names
  const Fitting fit_even(twos, 2);
  std::vector<int64_t> values;
  for (const Sizes& s : twos) values.push_back(s[0] / 2 * s[1] + 1);
  const auto product = fit_even(values);
  REQUIRE(product);
  CHECK((*product)({10, 20}) == 101);
  values.back() += 1;
  CHECK_FALSE(fit_even(values));
}

}  // namespace onnx_any_numbers_test
