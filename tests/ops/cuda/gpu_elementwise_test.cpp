// Elementwise kernels, random numbers and updates on a GPU against the CPU: lengths around the vectors that kernels
// load, views that are not aligned, broadcasting, and more tensors than one launch takes. What the rows of the test
// table (check_devices) do not say. Runs on the emulator (tests/cuda_emulator) where there is no GPU.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kaon/engine/device/backend.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/support/skip.h"

namespace gpu_elementwise_test {

using namespace kaon;
using namespace kaon::engine;

namespace {

constexpr DType reals[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

// The same values in all dtypes: small integers.
NDArray numbers(const Shape& shape, DType t, int seed = 0) {
  std::vector<double> v(size_t(shape.size()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = double((i * 7 + size_t(seed) * 3) % 11 + 1);
  return nd.array(v, shape, {.dtype = t});
}

// The values in memory that begins `skipped` elements after the start of an array.
NDArray unaligned(const NDArray& x, int64_t skipped) {
  const int64_t n = x.shape().size();
  NDArray room = nd.zeros({n + skipped}, {.dtype = x.dtype(), .device = x.device()});
  NDArray part = room.slice(skipped, n + skipped);
  part.assign(x.reshape({n}));
  return part.reshape(x.shape());
}

// Equal, zeros with their signs; NaN equals NaN.
void check_equal(const std::string& what, const NDArray& got, const NDArray& want, double rtol = 0) {
  INFO(what);
  REQUIRE(got.shape() == want.shape());
  REQUIRE(got.dtype() == want.dtype());
  const std::vector<double> a = got.asvector<double>(), b = want.asvector<double>();
  for (size_t i = 0; i < b.size(); ++i) {
    const bool same = std::isnan(b[i]) ? std::isnan(a[i])
                      : a[i] == b[i]   ? rtol > 0 || std::signbit(a[i]) == std::signbit(b[i])
                                       : std::abs(a[i] - b[i]) <= rtol * std::max(1.0, std::abs(b[i]));
    if (!same) {
      INFO("element " << i << ": got " << a[i] << ", expected " << b[i]);
      CHECK(same);
      return;
    }
  }
}

NDArray on_gpu(const NDArray& x) { return x.as_in_context(gpu(0)); }

// Draws with the same numbers on both devices.
template <class F>
void check_draw(const std::string& what, F draw, double rtol = 0) {
  random::seed(7);
  const NDArray want = draw(cpu());
  random::seed(7);
  check_equal(what, draw(gpu(0)), want, rtol);
}

}  // namespace

TEST_CASE("gpu elementwise: every length and alignment", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::int8}) {
    for (int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 255, 1027, 4096}) {
      const NDArray x = numbers({n}, t), y = numbers({n}, t, 1);
      check_equal(fmt::format("{} {}", name_of(t), n), nd.square(on_gpu(x)) - on_gpu(y), nd.square(x) - y);
      for (int64_t skipped : {1, 2, 3}) {
        const NDArray a = unaligned(on_gpu(x), skipped), b = unaligned(on_gpu(y), skipped % 2);
        check_equal(fmt::format("{} {} unaligned {}", name_of(t), n, skipped), a * b, x * y);
      }
    }
  }
}

TEST_CASE("gpu elementwise: what stands beside a view stays", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float16, DType::int8}) {
    for (int64_t begin : {0, 1, 16}) {
      for (int64_t n : {1, 3, 15, 37}) {
        const auto add = [&](Device device) {
          NDArray all = numbers({80}, t).as_in_context(device), part = all.slice(begin, begin + n);
          part += numbers({n}, t, 1).as_in_context(device);
          part *= numbers({1}, t, 2).as_in_context(device);
          return all;
        };
        check_equal(fmt::format("{} {} from {} on", n, name_of(t), begin), add(gpu(0)), add(cpu()));
      }
    }
  }
}

TEST_CASE("gpu elementwise: broadcasting", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  std::mt19937 bits(3);
  for (int round = 0; round < 120; ++round) {
    Shape shapes[2];
    const int ndim = int(bits() % 9);
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) {
      const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 33};
      int64_t size = sizes[bits() % (round % 3 == 0 ? 8 : 4)];
      if (n * size > 4000) size = 1;
      n *= size;
      for (Shape& s : shapes) {
        if (bits() % 4 != 0 || !s.empty()) s.push_back(bits() % 3 ? size : 1);  // a shape may lack leading dimensions
      }
    }
    const DType t = ops::all_dtypes[size_t(round) % 12];
    const NDArray a = numbers(shapes[0], t), b = numbers(shapes[1], t, 1);
    INFO(name_of(t) << " " << shapes[0].str() << " " << shapes[1].str());
    check_equal("difference", on_gpu(a) - on_gpu(b), a - b);
    check_equal("comparison", unaligned(on_gpu(a), 1) > on_gpu(b), a > b);
    check_equal("quotient", on_gpu(a) / unaligned(on_gpu(b), 1), a / b);
  }
  const NDArray row = numbers({4}, DType::float32), none = nd.zeros({0, 4});
  check_equal("no elements", on_gpu(none) + on_gpu(row), none + row);
}

TEST_CASE("gpu elementwise: where chooses elements and rows", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const double nan_ = std::numeric_limits<double>::quiet_NaN();
  for (DType c : ops::all_dtypes) {
    for (DType t : {DType::float64, DType::int32, DType::bfloat16, DType::boolean}) {
      for (int64_t columns : {1, 5, 16}) {
        std::vector<double> v;
        for (int64_t i = 0; i < 6 * columns; ++i) v.push_back(double(i % 3) - (is_floating(c) ? 1 : 0));
        if (is_floating(c)) v[0] = -0.0, v[1] = nan_;
        const NDArray condition = nd.array(v, {6, columns}, {.dtype = c}), rows = condition.reshape({-1}).slice(0, 6);
        const NDArray x = numbers({6, columns}, t), y = numbers({6, columns}, t, 2);
        INFO(name_of(c) << " " << name_of(t) << " " << columns);
        check_equal("elements", nd.where(on_gpu(condition), on_gpu(x), on_gpu(y)), nd.where(condition, x, y));
        check_equal("rows", nd.where(on_gpu(rows), on_gpu(x), on_gpu(y)), nd.where(rows, x, y));
      }
    }
  }
}

TEST_CASE("gpu elementwise: cast to the same bits", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<double> v{0,
                        -0.0,
                        0.49,
                        0.5,
                        1.5,
                        -1.5,
                        2.5,
                        127,
                        128,
                        255,
                        256,
                        -1,
                        -129,
                        65504,
                        65519.9,
                        65520,
                        1e-8,
                        5.97e-8,
                        -3e-5,
                        3e38,
                        1e300,
                        -3e9,
                        3e9,
                        1e19,
                        inf,
                        -inf,
                        std::nan(""),
                        1.00048828125,
                        1.0009765626,
                        2147483647.5,
                        -2147483648.0,
                        1.0 / 3,
                        4503599627370497.0,
                        9007199254740993.0,
                        0x1.ffcp15,
                        0x1.001p0,
                        0x1.003p0};
  for (DType from : ops::all_dtypes) {
    const NDArray x = nd.array(v, {int64_t(v.size())}, {.dtype = DType::float64}).astype(from);
    for (DType to : ops::all_dtypes) {
      check_equal(fmt::format("{} to {}", name_of(from), name_of(to)), nd.cast(on_gpu(x), to), nd.cast(x, to));
    }
  }
}

TEST_CASE("gpu elementwise: functions of any dtype at special values", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> v{0, -0.0, 0.3, -0.3, 1, -1, 2.5, -7.5, 88, -90, 1e4, inf, -inf, std::nan("")};
  for (DType t : reals) {
    const NDArray x = nd.array(v, {int64_t(v.size())}, {.dtype = t}), there = on_gpu(x);
    const double rtol = t == DType::float64 ? 1e-12 : t == DType::float32 ? 4e-6 : t == DType::float16 ? 2e-3 : 1.6e-2;
    INFO(name_of(t));
#define SAME(f) check_equal(#f, nd.f(there), nd.f(x), rtol)
    SAME(relu), SAME(sigmoid), SAME(tanh), SAME(exp), SAME(log), SAME(sqrt), SAME(rsqrt), SAME(square), SAME(abs);
    SAME(sign), SAME(negative), SAME(reciprocal), SAME(erf), SAME(log1p), SAME(expm1), SAME(sin), SAME(cos);
    SAME(floor), SAME(ceil), SAME(round), SAME(rint), SAME(trunc), SAME(cbrt), SAME(softsign), SAME(softrelu);
    SAME(gelu), SAME(arctan), SAME(logical_not), SAME(zeros_like), SAME(ones_like);
#undef SAME
    const NDArray column = x.reshape({-1, 1});
    check_equal("logaddexp", nd.logaddexp(there, on_gpu(column)), nd.logaddexp(x, column), rtol);
    for (double s : {-2.5, 0.0, 0.5, 2.0, 3.0, inf, std::nan("")}) {
      INFO("number " << s);
      check_equal("power", nd.power(there, s), nd.power(x, s), rtol);
      check_equal("rpower", nd.power(s, there), nd.power(s, x), rtol);
      check_equal("mod", nd.modulo(there, s), nd.modulo(x, s), rtol);
      check_equal("maximum", nd.maximum(there, s), nd.maximum(x, s));
      check_equal("lesser", there < s, x < s);
      check_equal("clip", nd.clip(there, -2, 2), nd.clip(x, -2, 2));
    }
  }
  for (DType t : ops::all_dtypes) {
    if (is_floating(t) || t == DType::boolean) continue;
    const NDArray x = nd.array({0, 1, -1, 2, 100, 127, -128, 255, 77}, {9}, {.dtype = DType::int64}).astype(t);
    const NDArray y = nd.array({3, 0, -1, -2, 7, 5, -1, 2, 0}, {9}, {.dtype = DType::int64}).astype(t);
    const NDArray a = on_gpu(x), b = on_gpu(y);
    INFO(name_of(t));
    check_equal("sum", a + b, x + y), check_equal("product", a * b, x * y), check_equal("quotient", a / b, x / y);
    check_equal("mod", nd.modulo(a, b), nd.modulo(x, y)), check_equal("power", nd.power(a, b), nd.power(x, y));
    check_equal("negative", -a, -x), check_equal("abs", nd.abs(a), nd.abs(x)),
        check_equal("sign", nd.sign(a), nd.sign(x));
    check_equal("maximum", nd.maximum(a, 300), nd.maximum(x, 300));
    for (double s : {-1.0, 2.5, 300.0, 0x1p63, 1e30}) check_equal("greater", a > s, x > s);
  }
}

TEST_CASE("gpu elementwise: sums of more arrays than one launch takes", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float16, DType::bfloat16, DType::int8, DType::uint16}) {
    for (int count : {1, 2, 3, 64, 65, 131}) {
      std::vector<NDArray> here, there;
      for (int i = 0; i < count; ++i) {
        here.push_back(numbers({37}, t, i));
        there.push_back(i % 2 ? on_gpu(here.back()) : unaligned(on_gpu(here.back()), 1));
      }
      check_equal(fmt::format("{} of {}", count, name_of(t)), nd.add_n(std::span<const NDArray>(there)),
                  nd.add_n(std::span<const NDArray>(here)));
    }
  }
}

TEST_CASE("gpu creation: the values of the CPU", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::int32, DType::uint8, DType::uint64}) {
    INFO(name_of(t));
    const ArrayOptions there{.dtype = t, .device = gpu(0)}, here{.dtype = t};
    check_equal("full", nd.full({3, 7}, 5, there), nd.full({3, 7}, 5, here));
    const double first = is_floating(t) ? 0.1 : 1, step = is_floating(t) ? 0.3 : 3;
    check_equal("arange", nd.arange(first, 100, {.step = step, .repeat = 2, .dtype = t, .ctx = gpu(0)}),
                nd.arange(first, 100, {.step = step, .repeat = 2, .dtype = t}));
    for (bool end : {true, false}) {
      check_equal("linspace", nd.linspace(1, 2.3, 101, {.endpoint = end, .dtype = t, .ctx = gpu(0)}),
                  nd.linspace(1, 2.3, 101, {.endpoint = end, .dtype = t}));
    }
    for (int64_t k : {-3, 0, 2, 9}) {
      check_equal("eye", nd.eye(4, {.M = 5, .k = k, .dtype = t, .ctx = gpu(0)}),
                  nd.eye(4, {.M = 5, .k = k, .dtype = t}));
    }
  }
}

TEST_CASE("gpu random: the numbers of the CPU", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (int64_t n : {0, 1, 3, 5, 1000, 4097}) {
    for (DType t : reals) {
      INFO(n << " " << name_of(t));
      const double rtol = t == DType::float64   ? 1e-12
                          : t == DType::float32 ? 1e-5
                          : t == DType::float16 ? 2e-3
                                                : 1.6e-2;
      check_draw("uniform",
                 [&](Device d) { return nd.random_uniform({n}, {.low = -1, .high = 2.7, .dtype = t, .ctx = d}); });
      check_draw(
          "normal", [&](Device d) { return nd.random_normal({n}, {.loc = 1, .scale = 3, .dtype = t, .ctx = d}); },
          rtol);
      const NDArray x = numbers({n, 3}, t);
      for (Shape axes : {Shape(), Shape(0), Shape(1)}) {
        check_draw("dropout", [&](Device d) {
          return autograd::train_mode([&] { return nd.Dropout(x.as_in_context(d), {.p = 0.4, .axes = axes}); });
        });
      }
      check_draw("shuffle", [&](Device d) { return nd.shuffle(x.as_in_context(d)); });
    }
    const NDArray alpha = nd.random_uniform({n}, {.low = 0.2, .high = 3}), mean = alpha * 12;
    for (DType t : reals) {
      const double rtol = t == DType::float64 ? 1e-12 : t == DType::float32 ? 1e-5 : 1.6e-2;
      check_draw(
          "gamma", [&](Device d) { return nd.random_gamma({n}, {.alpha = 0.7, .dtype = t, .ctx = d}); }, rtol);
      check_draw(
          "exponential", [&](Device d) { return nd.random_exponential({n}, {.dtype = t, .ctx = d}); }, rtol);
      check_draw("poisson", [&](Device d) { return nd.random_poisson({n}, {.lam = 30, .dtype = t, .ctx = d}); });
      check_draw(
          "gamma of arrays",
          [&](Device d) {
            return nd.sample_gamma(alpha.as_in_context(d), mean.as_in_context(d), {.shape = {3}, .dtype = t});
          },
          rtol);
      check_draw(
          "normal of arrays",
          [&](Device d) {
            return nd.sample_normal(mean.as_in_context(d), alpha.as_in_context(d), {.shape = {3}, .dtype = t});
          },
          rtol);
    }
    check_draw("negative binomial",
               [&](Device d) { return nd.random_negative_binomial({n}, {.k = 3, .p = 0.2, .ctx = d}); });
    check_draw("poisson of arrays", [&](Device d) { return nd.sample_poisson(mean.as_in_context(d)); });
    check_draw("randint", [&](Device d) { return nd.random_randint(-5, 100, {n}, {.ctx = d}); });
  }
  for (int64_t n : {2, 2048, 2049, 70001}) {  // partners of a shuffle are sorted in tiles of 2048, by 8 bits at a time
    check_draw("shuffle",
               [&](Device d) { return nd.shuffle(nd.arange(double(n), {.dtype = DType::int32, .ctx = d})); });
  }
  const NDArray p = nd.random_uniform({5, 700});
  check_draw("multinomial", [&](Device d) { return nd.sample_multinomial(p.as_in_context(d), {.shape = Shape(50)}); });
  const NDArray wrong = nd.array({1, -1, 2, 0, 0, 0}, {2, 3}, {.device = gpu(0)});
  CHECK(nd.sample_multinomial(wrong).asvector<int>() == std::vector<int>{-1, -1});
}

TEST_CASE("gpu updates: more tensors than one launch takes, of any dtype and size", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  constexpr int tensors = 120;
  constexpr int64_t sizes[] = {0, 1, 5, 64, 4096, 4097, 9001};
  for (int kind = 0; kind < 3; ++kind) {
    const int arrays = kind + 2;
    std::vector<NDArray> here, there;
    for (int i = 0; i < tensors; ++i) {
      for (int k = 0; k < arrays; ++k) {
        here.push_back(numbers({sizes[i % 7]}, reals[i / 7 % 4], i + k) / 64);
        there.push_back(i % 3 ? on_gpu(here.back()) : unaligned(on_gpu(here.back()), 1));
      }
    }
    here.push_back(nd.arange(1, 4 * tensors + 1) / 512);
    there.push_back(on_gpu(here.back()));
    const auto update = [&](const std::vector<NDArray>& all) {
      std::vector<const NDArray*> pointers;
      for (const NDArray& a : all) pointers.push_back(&a);
      if (kind == 0) nd._kaon_multi_update2(pointers, {{.rescale_grad = 0.5}});
      if (kind == 1) {
        nd._kaon_multi_update3(
            pointers,
            {{.kind = ops::UpdateKind::sgd_momentum, .momentum = 0.9, .rescale_grad = 0.5, .clip_gradient = 0.04}});
      }
      if (kind == 2) nd._kaon_multi_update4(pointers, {{.kind = ops::UpdateKind::adam, .rescale_grad = 2}});
    };
    for (int step = 0; step < 2; ++step) update(here), update(there);
    for (size_t i = 0; i < here.size(); ++i) {
      const DType t = here[i].dtype();
      const double rtol = t == DType::float64   ? 1e-12
                          : t == DType::float32 ? 1e-6
                          : t == DType::float16 ? 2e-3
                                                : 1.6e-2;
      check_equal(fmt::format("kind {} array {}", kind, i), there[i], here[i], rtol);
    }
  }
}

TEST_CASE("gpu all_finite: the last element of many", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (double bad : {1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    std::vector<NDArray> arrays;
    for (int i = 0; i < 100; ++i) arrays.push_back(on_gpu(numbers({i == 60 ? 5000 : 3}, reals[i % 4])));
    arrays[60].slice(4999, 5000).assign(bad);
    CHECK(nd.multi_all_finite(arrays).asscalar<float>() == (bad == 1.0 ? 1.0f : 0.0f));
  }
}

}  // namespace gpu_elementwise_test
