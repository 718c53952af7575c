// The kernels of int8 convolutions beside sums that are written out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <type_traits>
#include <vector>

#include "kaon/ops/quant/kernels/int8_amx.h"
#include "kaon/ops/quant/kernels/int8_direct.h"

namespace int8_sums_test {

using namespace kaon;
using namespace kaon::ops;

ConvGeometry geometry(std::mt19937& rng) {
  const auto from = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(rng);
  };
  ConvGeometry g;
  g.batch = 1, g.in_channels = from(0, 1) ? from(1, 9) : from(1, 9) * 16, g.out_channels = from(1, 150);
  for (size_t i = 0; i < 2; ++i) {
    g.kernel[i] = from(1, 4), g.stride[i] = from(1, 3), g.dilate[i] = from(1, 2), g.pad[i] = from(0, 2);
    const int64_t window = (g.kernel[i] - 1) * g.dilate[i] + 1;
    g.in[i] = window + from(0, 40);
    g.out[i] = (g.in[i] + 2 * g.pad[i] - window) / g.stride[i] + 1;
  }
  return g;
}

// How many of 200 geometries the kernel has, all of them with the right sums. T: of levels and packed weights.
template <class T = int8_t, class Kernel>
int agreeing(Kernel kernel, bool (*has)(const Int8Patch&), int64_t packed_by, int64_t block) {
  using Level = std::conditional_t<sizeof(T) == 1, uint8_t, T>;
  std::mt19937 rng(1);
  int taken = 0;
  for (int i = 0; i < 200; ++i) {
    const ConvGeometry g = geometry(rng);
    const Int8Patch patch(g, sizeof(T));
    if (!has(patch)) continue;
    ++taken;
    const int64_t height = g.in[0] + 2 * g.pad[0];
    std::vector<Level> image(size_t(height * patch.line + int8_overread) / sizeof(T));
    std::vector<int8_t> weights(size_t(g.weights()));
    std::vector<int32_t> start(size_t(g.out_channels));
    for (auto& x : image) x = sizeof(T) == 1 ? Level(rng() % 256) : Level(int(rng() % 384) - 128);  // int8 and uint8
    for (auto& w : weights) w = int8_t(rng());
    for (auto& s : start) s = int32_t(rng() % 1000);
    std::vector<std::byte> packed(int8_packed_bytes(patch, g.out_channels));
    int8_pack<T>(g, weights.data(), packed_by, packed.data());
    const bool with_start = i % 2 == 0;
    const int64_t width = g.out[1], positions = g.out_positions();
    int64_t first = int64_t(rng()) % positions, count = 1 + int64_t(rng()) % (positions - first);
    if (i % 4 < 2) {  // whole rows, which may share tiles
      first = first / width * width, count = (count + width - 1) / width * width;
    }
    for (int64_t f = 0; f < g.out_channels; f += block) {
      const int64_t filters = std::min(block, g.out_channels - f), stride = filters + 3;
      std::vector<int32_t> sums(size_t(count * stride), -7), expected = sums;
      for (int64_t p = 0; p < count; ++p) {
        const int64_t at = (first + p) / width * patch.step_y + (first + p) % width * patch.step_x;
        const Level* const x = image.data() + at / int64_t(sizeof(T));
        for (int64_t o = f; o < f + filters; ++o) {
          int32_t sum = with_start ? start[size_t(o)] : 0;
          for (int64_t t = 0; t < g.taps(); ++t) {
            const int64_t y = t / g.kernel[1] * g.dilate[0], column = t % g.kernel[1] * g.dilate[1];
            for (int64_t c = 0; c < g.in_channels; ++c) {
              sum += x[y * patch.line / int64_t(sizeof(T)) + column * g.in_channels + c] *
                     weights[size_t((o * g.in_channels + c) * g.taps() + t)];
            }
          }
          expected[size_t(p * stride + o - f)] = sum;
        }
      }
      kernel(patch, image.data(), packed.data(), width, first, count, f, filters, with_start ? start.data() : nullptr,
             sums.data(), stride);
      INFO("geometry " << i << ", filters from " << f);
      CHECK(sums == expected);
    }
  }
  return taken;
}

TEST_CASE("int8 sums: by instructions that sum four products") {
  if (has_int8_direct()) {
    CHECK(agreeing(
              int8_direct, [](const Int8Patch&) { return true; }, int8_filters, int8_filters) == 200);
  } else {
    WARN("this processor does not have them");
  }
}

TEST_CASE("int8 sums: by instructions that sum two products of int16") {
  const auto kernel = [](const Int8Patch& patch, const int16_t* image, const std::byte* packed, int64_t width,
                         int64_t first, int64_t count, int64_t f, int64_t filters, const int32_t* start, int32_t* sums,
                         int64_t stride) {
    int8_direct_pairs(patch, image, packed, width, first, count, f, filters, sums, stride);
    for (int64_t i = 0; start && i < count * filters; ++i)
      sums[i / filters * stride + i % filters] += start[f + i % filters];
  };
  const auto always = [](const Int8Patch&) { return true; };
  CHECK(agreeing<int16_t>(kernel, always, int8_lanes, int8_lanes) == 200);
}

TEST_CASE("int8 sums: by tiles") {
  const Int8Patch whole(ConvGeometry{.in_channels = 64, .kernel = {1, 1}, .stride = {1, 1}, .dilate = {1, 1}});
  if (has_int8_amx(whole)) {
    const auto kernel = [](const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width,
                           int64_t first, int64_t count, int64_t f, int64_t filters, const int32_t* start,
                           int32_t* sums, int64_t stride) {
      Int8Tiles tiles;
      const int64_t some = count / 2;  // in two calls, of which the second finds the tiles as the first left them
      int8_amx(tiles, patch, image, packed, width, first, some, f, filters, false, start, sums, stride);
      int8_amx(tiles, patch, image, packed, width, first + some, count - some, f, filters, true, start,
               sums + some * stride, stride);
      int8_amx(tiles, patch, image, packed, width, first, count, f, filters, true, start, sums, stride);
    };
    CHECK(agreeing(kernel, has_int8_amx, int8_lanes, int8_amx_filters) > 100);
  } else {
    WARN("this processor does not have them");
  }
}

}  // namespace int8_sums_test
