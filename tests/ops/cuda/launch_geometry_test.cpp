// What the host decides before a kernel starts on a device: here without one.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "kaon/ops/cuda/geometry.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/movement/kernels/pad_axis.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"

namespace launch_geometry_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::cuda;

TEST_CASE("launch geometry: blocks cover the items and no grid is too large", "[cuda]") {
  CHECK(blocks_for(0) == 1);
  CHECK(blocks_for(1) == 1);
  CHECK(blocks_for(block) == 1);
  CHECK(blocks_for(block + 1) == 2);
  CHECK(blocks_for(1000, 100, 3) == 4);
  CHECK(blocks_for(int64_t(1) << 40) == most_blocks);
  for (int64_t n = 1; n < 5000; n += 7) {
    const int64_t blocks = blocks_for(n, 128, 4);
    CHECK((blocks * 512 >= n && (blocks - 1) * 512 < n));
  }
}

TEST_CASE("launch geometry: Divider and FastDivide are division", "[cuda]") {
  constexpr int64_t most = 0x7fffffff;
  std::vector<int64_t> numbers{
      0, 1, 2, most - 1, most, most + 1, most + 2, int64_t(1) << 32, (int64_t(1) << 40) + 12345};
  for (int k = 0; k < 31; ++k) {
    for (int64_t d : {-1, 0, 1}) numbers.push_back((int64_t(1) << k) + d);
  }
  uint64_t state = 1;  // and numbers of every length
  for (int k = 0; k < 2000; ++k) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers.push_back(int64_t(state >> 32) >> (k % 31));
  }
  auto wrong = [&](int64_t d) {
    const FastDivide by(d);
    const Divider small(std::min(d, most + 1));
    auto differs = [&](int64_t n) {
      int64_t rest = n;
      if (n <= most && d <= most + 1 && small(uint32_t(n)) != n / d) return true;
      return by.quotient(n) != n / d || by.split(rest) != n / d || rest != n % d;
    };
    for (int64_t n : numbers) {
      if (differs(n)) return n;
    }
    for (int64_t q : {int64_t(1), most / d / 2, most / d - 1, most / d, most / d + 1}) {  // around multiples
      for (int64_t n : {q * d - 1, q * d, q * d + 1}) {
        if (n >= 0 && differs(n)) return n;
      }
    }
    return int64_t(-1);
  };
  int64_t failed = -1;
  for (int64_t d = 1; d < 3000 && failed < 0; ++d) failed = wrong(d) < 0 ? -1 : d;
  for (int64_t d : numbers) {
    if (d > 0 && failed < 0 && wrong(d) >= 0) failed = d;
  }
  CHECK(failed == -1);
  CHECK(FastDivide(0).quotient(5) == 5);  // a size of an empty array
}

TEST_CASE("launch geometry: elements are moved in the widest units that sizes and addresses allow", "[cuda]") {
  alignas(32) static std::array<char, 64> memory;
  const char* p = memory.data();
  CHECK(widest(4, {8}, {p, p + 16}) == 16);
  CHECK(widest(4, {6}, {p}) == 8);
  CHECK(widest(4, {7, 8}, {p}) == 4);
  CHECK(widest(2, {8}, {p + 4}) == 4);
  CHECK(widest(1, {16}, {p + 1}) == 1);
  CHECK(widest(8, {0}, {nullptr}) == 16);  // nothing there is nothing in the way
  CHECK(widest(4, {-2, 4}, {p}) == 8);     // strides may be negative
}

TEST_CASE("launch geometry: copies merge the dimensions that step alike", "[cuda]") {
  auto sizes = [](const CopyDims& dims) {
    std::vector<std::array<int64_t, 3>> out;
    for (const CopyDim& d : dims.span()) out.push_back({d.size, d.src, d.dst});
    return out;
  };
  using Expected = std::vector<std::array<int64_t, 3>>;
  CopyDims whole;  // (2, 3, 4) as it lies
  whole.push(2, 12, 12), whole.push(3, 4, 4), whole.push(4, 1, 1);
  CHECK(sizes(merge(whole)) == Expected{{24, 1, 1}});
  CopyDims swapped;  // (2, 1, 3, 4) with the last axes exchanged
  swapped.push(2, 12, 12), swapped.push(1, 99, 7), swapped.push(4, 1, 3), swapped.push(3, 4, 1);
  CHECK(sizes(merge(swapped)) == Expected{{2, 12, 12}, {4, 1, 3}, {3, 4, 1}});
  CopyDims repeated;  // rows repeated: both axes stand still in the source
  repeated.push(5, 0, 24), repeated.push(2, 0, 12), repeated.push(12, 1, 1);
  CHECK(sizes(merge(repeated)) == Expected{{10, 0, 12}, {12, 1, 1}});
  CopyDims one;
  one.push(1, 3, 4);
  CHECK(sizes(merge(one)) == Expected{{1, 1, 1}});
  CHECK(sizes(merge(CopyDims())) == Expected{{1, 1, 1}});
  CopyDims none;
  none.push(0, 4, 4), none.push(4, 1, 1);
  CHECK(merge(none).elements() == 0);

  CHECK(transposed_with(merge(swapped), 3) == 1);
  CHECK(transposed_with(merge(swapped), 4) == -1);  // three columns
  CHECK(transposed_with(merge(whole), 1) == -1);
  CHECK(transposed_with(merge(repeated), 1) == -1);
}

TEST_CASE("launch geometry: a padded axis names the copies of each element", "[cuda]") {
  for (PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect}) {
    for (int64_t n = 1; n < 6; ++n) {
      for (int64_t before = 0; before < (mode == PadMode::reflect ? n : 4); ++before) {
        for (int64_t after = 0; after < (mode == PadMode::reflect ? n : 4); ++after) {
          const PadAxis axis{before, n, after, mode};
          std::vector<std::vector<int64_t>> expected{size_t(n), std::vector<int64_t>{}}, got = expected;
          for (int64_t at = 0; at < axis.padded(); ++at) {
            const int64_t i = axis.source(at);
            REQUIRE((i >= 0) == (mode != PadMode::constant || (at >= before && at < before + n)));
            REQUIRE(i < n);
            if (i >= 0) expected[size_t(i)].push_back(at);
          }
          for (int64_t i = 0; i < n; ++i) axis.for_each_copy(i, [&](int64_t at) { got[size_t(i)].push_back(at); });
          CHECK(got == expected);
        }
      }
    }
  }
}

}  // namespace launch_geometry_test
