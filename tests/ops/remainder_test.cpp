// Remainders of float32: the numbers of std::fmod, bit for bit, whichever way the kernels take.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kaon/ops/functions.h"
#include "kaon/tests/support/targets.h"

namespace remainder_test {

using namespace kaon;

namespace {

struct Pairs {
  std::vector<float> a, b;
  void add(float x, float y) { a.push_back(x), b.push_back(y); }
};

Pairs any_bits(int n) {
  std::mt19937 draw(7);
  Pairs p;
  for (int i = 0; i < n; ++i) p.add(std::bit_cast<float>(uint32_t(draw())), std::bit_cast<float>(uint32_t(draw())));
  return p;
}

// Dividends beside multiples of the divisor, up to beyond the quotients that vectors take.
Pairs near_multiples(int n) {
  std::mt19937 draw(8);
  Pairs p;
  for (int i = 0; i < n; ++i) {
    const float b = std::bit_cast<float>(uint32_t(0x3f000000u + draw() % 0x01000000u)) * (draw() % 2 ? -1.0f : 1.0f);
    const float k = float(draw() % (1u << (1 + draw() % 26)));
    float a = b * k;
    for (unsigned steps = draw() % 4; steps > 0; --steps) a = std::nextafter(a, draw() % 2 ? 1e30f : -1e30f);
    p.add(a, b);
  }
  return p;
}

Pairs special() {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan_ = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 2.5f, -7.0f, 1e-45f, -1e-40f, 3e38f, -3e38f, inf, -inf, nan_};
  Pairs p;
  for (float x : values) {
    for (float y : values) {
      for (int i = 0; i < 19; ++i) p.add(5.5f, 1.5f);
      p.a[p.a.size() - 7] = x, p.b[p.b.size() - 7] = y;
    }
  }
  return p;
}

bool same(float got, float want) {
  return std::isnan(want) ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want);
}

float modulo_of(float a, float b) {
  if (b == 0) return 0;
  const float r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

void check(const Pairs& p) {
  const NDArray a = nd.array(p.a), b = nd.array(p.b);
  const std::vector<float> rest = nd.fmod(a, b).asvector<float>(), modulo = nd.modulo(a, b).asvector<float>();
  for (size_t i = 0; i < p.a.size(); ++i) {
    if (same(rest[i], std::fmod(p.a[i], p.b[i])) && same(modulo[i], modulo_of(p.a[i], p.b[i]))) continue;
    INFO(p.a[i] << " and " << p.b[i] << ": fmod " << rest[i] << ", modulo " << modulo[i]);
    CHECK(false);
    return;
  }
}

}  // namespace

TEST_CASE("remainders: fmod and modulo are exact whatever the quotient is, with each set of instructions") {
  const int targets = test::for_each_target([] {
    check(any_bits(20000));
    check(near_multiples(20000));
    check(special());
    nd.waitall();
  });
  CHECK(targets > 0);
}

TEST_CASE("remainders: floor_divide of infinities, zeros and numbers beside multiples") {
  const NDArray a = nd.array({-0.0, 0.0, 7.0, -7.0, 7.0, -7.0, -1e-30, 1.0, -1.0, 0.0, 6.0, 3e38}),
                b = nd.array({2.0, -2.0, 2.0, 2.0, -2.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.1, 2.0});
  const std::vector<float> q = nd.floor_divide(a, b).asvector<float>();
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float expected[] = {0, 0, 3, -4, -4, 3, -1, inf, -inf, std::nanf(""), 59, 1.5e38f};
  for (size_t i = 0; i < q.size(); ++i) {
    INFO(i << ": got " << q[i] << ", expected " << expected[i]);
    CHECK((std::isnan(expected[i]) ? std::isnan(q[i]) : q[i] == expected[i]));
  }
}

}  // namespace remainder_test
