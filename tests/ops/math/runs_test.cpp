// Runs, ranges of indices and conversions of bytes in vectors, against plain loops: every length around that of a
// vector, at every distance from a whole one, by each instruction set.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/convert_values.h"
#include "kaon/ops/math/index_range.h"
#include "kaon/ops/math/runs.h"
#include "kaon/tests/support/targets.h"

namespace runs_test {

using namespace kaon;
using namespace kaon::ops;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(size_t n) {
  std::mt19937 random(7);
  Bytes bytes(n);
  for (uint8_t& b : bytes) b = uint8_t(random());
  return bytes;
}

constexpr size_t kRoom = 1600;

// Calls `write` with room at each distance from a whole vector, and compares it, with what is around, to `expected`.
template <class Write, class Expected>
bool writes(size_t n, size_t width, const Write& write, const Expected& expected) {
  const Bytes before = random_bytes(kRoom);
  for (size_t offset = 64; offset < 128; offset += width) {
    Bytes got = before, want = before;
    write(got.data() + offset);
    for (size_t i = 0; i < n * width; ++i) want[offset + i] = expected(i);
    if (got != want) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("runs: copied bytes and no others, however both are aligned") {
  const int targets = test::for_each_target([&] {
    const Bytes from = random_bytes(kRoom);
    for (size_t n = 0; n < 1300; n += n < 600 ? 1 : 37) {
      for (size_t shift : {0, 1, 28, 63}) {
        INFO(n << " bytes from " << shift);
        CHECK(writes(
            n, 1, [&](uint8_t* to) { copy_run(to, from.data() + shift, n); },
            [&](size_t i) { return from[shift + i]; }));
      }
    }
  });
  CHECK(targets > 0);
}

TEST_CASE("runs: reversed and filled elements of each width", "[unsanitized]") {
  const int targets = test::for_each_target([&] {
    const Bytes from = random_bytes(kRoom);
    for (size_t width : {1, 2, 4, 8}) {
      for (size_t n = 0; n < 1300 / width; ++n) {
        INFO(n << " elements of " << width);
        const uint8_t* const last = from.data() + (n == 0 ? 0 : (n - 1) * width);
        CHECK(writes(
            n, width, [&](uint8_t* to) { reverse_run(to, last, n, width); },
            [&](size_t i) { return from[(n - 1 - i / width) * width + i % width]; }));
        const uint64_t element = 0xf1e2d3c4b5a69788;
        CHECK(writes(
            n, width, [&](uint8_t* to) { fill_run(to, element, n, width); },
            [&](size_t i) { return uint8_t(element >> 8 * (i % width)); }));
      }
    }
  });
  CHECK(targets > 0);
}

TEST_CASE("runs: triples of each width apart and together") {
  const int targets = test::for_each_target([&] {
    const Bytes from = random_bytes(kRoom);
    for (size_t width : {1, 2, 4, 8}) {
      for (size_t n = 0; n < 500 / width; ++n) {
        Bytes parts[3] = {Bytes(n * width + 1, 7), Bytes(n * width + 1, 7), Bytes(n * width + 1, 7)},
              back(3 * n * width);
        split_triples({parts[0].data(), parts[1].data(), parts[2].data()}, from.data() + width, n, width);
        Bytes want[3];
        for (size_t i = 0; i < 3 * n * width; ++i) want[i / width % 3].push_back(from[i + width]);
        for (Bytes& part : want) part.push_back(7);
        INFO(n << " of " << width);
        CHECK((parts[0] == want[0] && parts[1] == want[1] && parts[2] == want[2]));
        join_triples(back.data(), {parts[0].data(), parts[1].data(), parts[2].data()}, n, width);
        CHECK(back == Bytes(from.begin() + ptrdiff_t(width), from.begin() + ptrdiff_t((1 + 3 * n) * width)));
      }
    }
  });
  CHECK(targets > 0);
}

TEMPLATE_TEST_CASE("index ranges: one outside at any place is found", "", int32_t, int64_t) {
  const int targets = test::for_each_target([&] {
    constexpr TestType least = std::numeric_limits<TestType>::min(), most = std::numeric_limits<TestType>::max();
    for (size_t count = 0; count < 70; ++count) {
      std::vector<TestType> x(count, 4);
      CHECK(all_within(x.data(), count, 5));
      CHECK(all_within(x.data(), count, int64_t(most)));
      for (size_t i = 0; i < count; ++i) {
        for (TestType wrong : {TestType(5), TestType(-1), least, most}) {
          x[i] = wrong;
          if (all_within(x.data(), count, 5)) FAIL(wrong << " at " << i << " of " << count);
        }
        x[i] = 0;
      }
    }
    const TestType ends[] = {0, most - 1};
    CHECK(all_within(ends, 2, int64_t(most)));
    CHECK_FALSE(all_within(ends, 1, 0));
  });
  CHECK(targets > 0);
}

TEST_CASE("conversions: float32 to bytes and back in vectors as one by one") {
  const int targets = test::for_each_target([&] {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const float special[] = {-inf,   inf,     std::nanf(""), -0.0f,  -0.5f,         -1,     -256.5f, 255.99f,
                             256.5f, 65535.f, 2147483520.f,  0x1p31, -0x1p31 - 256, 0x1p62, 0x1p63,  -0x1p63};
    for (size_t n = 0; n < 100; ++n) {
      for (float value : special) {
        std::vector<float> x(n);
        for (size_t i = 0; i < n; ++i) x[i] = float(i) * 1.7f;
        if (n > 0) x[n / 2] = value;
        Bytes bytes(n), want(n);
        convert_values(DType::float32, x.data(), DType::uint8, bytes.data(), n);
        for (size_t i = 0; i < n; ++i) want[i] = convert<uint8_t>(x[i]);
        CHECK(bytes == want);
      }
      const Bytes bytes = random_bytes(n);
      std::vector<float> x(n);
      convert_values(DType::uint8, bytes.data(), DType::float32, x.data(), n);
      CHECK(x == std::vector<float>(bytes.begin(), bytes.end()));
    }
  });
  CHECK(targets > 0);
}

}  // namespace runs_test
