// The kernels of Winograd's algorithm beside sums in double, with the vectors of every processor that this one can be.
#include "kaon/ops/nn/conv/kernels/winograd.h"

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kaon/ops/nn/conv/kernels/winograd_gradient.h"
#include "kaon/tests/support/targets.h"

namespace winograd_test {

using namespace kaon;
using namespace kaon::ops;

namespace {

struct Case {
  int64_t batch, height, width, in_channels, out_channels, pad_y, pad_x;
  bool fills_blocks() const { return in_channels % 16 == 0 && out_channels % 16 == 0; }
};

// Tiles that fit and that do not, narrower than one tile, half a panel of filters, more channels than are summed at
// once, and channels that do not fill blocks.
constexpr Case cases[] = {{1, 8, 12, 32, 32, 1, 1}, {2, 7, 9, 16, 48, 1, 0},   {1, 3, 5, 144, 32, 2, 1},
                          {3, 6, 2, 32, 64, 0, 2},  {1, 4, 4, 144, 128, 1, 1}, {2, 9, 8, 20, 50, 1, 1},
                          {1, 7, 6, 17, 3, 0, 2},   {1, 5, 5, 131, 33, 1, 0}};
constexpr winograd::Filtering filterings[] = {{2, 3}, {4, 3}, {2, 5}};

enum class Lie { channels_last, in_blocks };

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) seed = seed * 1664525 + 1013904223, x = float(seed >> 8) * 0x1p-23f - 1;
  return v;
}

struct Lying {
  int64_t height, width, channels;
  Lie lie;
  int64_t floats() const { return height * width * channels; }
  winograd::Images images(float* data) const {
    return lie == Lie::channels_last ? winograd::Images{data, height, width, floats(), channels, 16}
                                     : winograd::Images{data, height, width, floats(), 16, 16 * height * width};
  }
  size_t at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    const int64_t position = y * width + x;
    return size_t(n * floats() + (lie == Lie::channels_last ? position * channels + c
                                                            : (c / 16 * height * width + position) * 16 + c % 16));
  }
};

// Results of all tiles, in blocks of `most` tiles.
void run(const Case& k, const winograd::Filtering& f, int64_t most, const winograd::Images& in,
         const winograd::Images& out, const std::vector<float>& w, const Epilogue<float>& epilogue) {
  const int64_t panels = winograd::panels(k.out_channels), points = f.points(), taps = f.taps * f.taps;
  const size_t floats = size_t(panels * points * k.in_channels * winograd::panel);
  const auto weights = hwy::AllocateAligned<float>(floats + 64);
  std::fill_n(weights.get(), floats + 64, NAN);
  for (int64_t p = 0; p < panels; ++p) {
    winograd::transform_filters({w.data(), taps * k.in_channels, taps, 1}, f, k.in_channels, k.out_channels, p,
                                weights.get() + p * points * k.in_channels * winograd::panel);
  }
  const int64_t tiles = k.batch * ((out.height + f.size - 1) / f.size) * ((out.width + f.size - 1) / f.size);
  for (int64_t first = 0; first < tiles; first += most) {
    const winograd::Tiles some{f, first, std::min(most, tiles - first), k.pad_y, k.pad_x};
    std::vector<float> input(size_t(points * winograd::input_stride(some.count, k.in_channels)), NAN);
    std::vector<float> products(size_t(points * winograd::product_stride(some.count)), NAN);
    winograd::transform_input(in, out, some, k.in_channels, input.data());
    for (int64_t p = 0; p < panels; ++p) {
      const float* const panel = weights.get() + p * points * k.in_channels * winograd::panel;
      winograd::multiply(input.data(), panel, some, k.in_channels, products.data());
      winograd::transform_output(products.data(), out, some, p * winograd::panel, k.out_channels, epilogue);
    }
  }
}

Lying results_of(const Case& k, const winograd::Filtering& f, Lie lie) {
  return {k.height + 2 * k.pad_y - f.taps + 1, k.width + 2 * k.pad_x - f.taps + 1, k.out_channels, lie};
}

void check(const Case& k, const winograd::Filtering& f, int64_t most, Lie lie) {
  const Lying in{k.height, k.width, k.in_channels, lie}, out = results_of(k, f, lie);
  const int64_t taps = f.taps * f.taps;
  std::vector<float> x = numbers(k.batch * in.floats(), 1), old = numbers(k.batch * out.floats(), 2);
  const auto w = numbers(k.in_channels * k.out_channels * taps, 3), scale = numbers(k.out_channels, 4),
             shift = numbers(k.out_channels, 5);
  for (int kind = 0; kind < 4; ++kind) {
    INFO("epilogue " << kind);
    std::vector<float> y = old;
    Epilogue<float> e;
    if (kind == 1) e.shift = shift.data();
    if (kind == 2) e = {scale.data(), shift.data(), old.data(), FusedActivation::relu};
    if (kind == 3) e.addend = y.data();  // which is overwritten
    run(k, f, most, in.images(x.data()), out.images(y.data()), w, e);
    double worst = 0;
    for (int64_t n = 0; n < k.batch; ++n) {
      for (int64_t o = 0; o < k.out_channels; ++o) {
        for (int64_t i = 0; i < out.height; ++i) {
          for (int64_t j = 0; j < out.width; ++j) {
            double sum = 0;
            for (int64_t c = 0; c < k.in_channels; ++c) {
              for (int64_t tap = 0; tap < taps; ++tap) {
                const int64_t row = i + tap / f.taps - k.pad_y, column = j + tap % f.taps - k.pad_x;
                if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
                sum += double(x[in.at(n, c, row, column)]) * double(w[size_t((o * k.in_channels + c) * taps + tap)]);
              }
            }
            const size_t at = out.at(n, o, i, j);
            if (kind == 2) sum *= double(scale[size_t(o)]);
            if (kind == 1 || kind == 2) sum += double(shift[size_t(o)]);
            if (kind >= 2) sum += double(old[at]);
            if (kind == 2) sum = std::max(sum, 0.);
            worst = std::max(worst, std::abs(double(y[at]) - sum));
          }
        }
      }
    }
    // 64 units of 2^-24 max|x| sum|w|, as HybridizeOptions::winograd has it; numbers are up to 1, filters half of that
    CHECK(worst <= 64 * 0x1p-24 * double(k.in_channels * taps) / 2 + 1e-6);
  }
}

// The gradients of the weights, of a block of tiles after another; `apart` with the taps first.
void check_gradient(const Case& k, const winograd::Filtering& f, int64_t most, Lie lie, bool apart) {
  const Lying in{k.height, k.width, k.in_channels, lie}, out = results_of(k, f, lie);
  std::vector<float> x = numbers(k.batch * in.floats(), 1), dy = numbers(k.batch * out.floats(), 2);
  const winograd::Images images = in.images(x.data()), heads = out.images(dy.data());
  const int64_t points = f.points(), taps = f.taps * f.taps;
  const int64_t tiles = k.batch * ((out.height + f.size - 1) / f.size) * ((out.width + f.size - 1) / f.size);
  std::vector<float> sums(size_t(points * winograd::sum_stride(k.in_channels, k.out_channels)), NAN);
  for (int64_t first = 0; first < tiles; first += most) {
    const winograd::Tiles some{f, first, std::min(most, tiles - first), k.pad_y, k.pad_x};
    std::vector<float> input(size_t(points * winograd::input_stride(some.count, k.in_channels)), NAN);
    std::vector<float> head(size_t(points * winograd::head_stride(some.count, k.out_channels)), NAN);
    winograd::transform_input(images, heads, some, k.in_channels, input.data());
    winograd::transform_heads(heads, some, k.out_channels, head.data());
    winograd::multiply_heads(input.data(), head.data(), some, k.in_channels, k.out_channels, first > 0, sums.data());
  }
  const int64_t in_stride = apart ? 1 : taps, tap_stride = apart ? k.in_channels : 1;
  std::vector<float> dw(size_t(k.in_channels * k.out_channels * taps), NAN);
  winograd::transform_sums(sums.data(), f, k.in_channels, k.out_channels, taps * k.in_channels, in_stride, tap_stride,
                           dw.data());
  double worst = 0;
  for (int64_t o = 0; o < k.out_channels; ++o) {
    for (int64_t c = 0; c < k.in_channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        double sum = 0;
        for (int64_t n = 0; n < k.batch; ++n) {
          for (int64_t i = 0; i < out.height; ++i) {
            for (int64_t j = 0; j < out.width; ++j) {
              const int64_t row = i + tap / f.taps - k.pad_y, column = j + tap % f.taps - k.pad_x;
              if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
              sum += double(x[in.at(n, c, row, column)]) * double(dy[out.at(n, o, i, j)]);
            }
          }
        }
        const auto at = size_t(o * taps * k.in_channels + c * in_stride + tap * tap_stride);
        worst = std::max(worst, std::abs(double(dw[at]) - sum));
      }
    }
  }
  CHECK(worst <= 64 * 0x1p-24 * double(k.batch * out.height * out.width) / 2 + 1e-6);
}

}  // namespace

TEST_CASE("winograd: the kernels of every target beside sums in double", "[nn][unsanitized]") {
  const int targets = test::for_each_target([] {
    for (const Case& k : cases) {
      INFO("channels " << k.in_channels << " to " << k.out_channels << ", " << k.height << " x " << k.width);
      for (const winograd::Filtering& f : filterings) {
        INFO("F(" << f.size << ", " << f.taps << ")");
        const Lying out = results_of(k, f, Lie::channels_last);
        if (out.height < 1 || out.width < 1) continue;
        for (int64_t most : {1, 17, 1000}) check(k, f, most, Lie::channels_last);
        for (int64_t most : {1, 3, 1000}) check_gradient(k, f, most, Lie::channels_last, most == 3);
        if (!k.fills_blocks()) continue;
        check(k, f, 5, Lie::in_blocks);
        check_gradient(k, f, 5, Lie::in_blocks, false);
      }
    }
  });
  CHECK(targets >= 1);
}

TEST_CASE("winograd: NaN reaches the results that read it, and relu keeps it", "[nn]") {
  constexpr int64_t channels = 37;
  const Lying images{16, 16, channels, Lie::channels_last};
  std::vector<float> x = numbers(images.floats(), 1), y(x.size());
  x[images.at(0, 3, 9, 9)] = NAN;
  for (const winograd::Filtering& f : filterings) {
    const int64_t pad = f.taps / 2;
    const Case k{1, 16, 16, channels, channels, pad, pad};
    run(k, f, 100, images.images(x.data()), images.images(y.data()), numbers(channels * channels * f.taps * f.taps, 2),
        {.activation = FusedActivation::relu});
    for (int64_t o = 0; o < channels; ++o) {
      for (int64_t i = 9 - pad; i <= 9 + pad; ++i) {
        for (int64_t j = 9 - pad; j <= 9 + pad; ++j) REQUIRE(std::isnan(y[images.at(0, o, i, j)]));
      }
      REQUIRE(std::isfinite(y[images.at(0, o, 0, 0)]));
    }
  }
}

}  // namespace winograd_test
