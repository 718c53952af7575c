// The kernels of direct convolutions beside sums in double, with the vectors of every processor that this one can be.
#include "kaon/ops/nn/conv/kernels/conv_direct.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kaon/tests/support/targets.h"

namespace conv_direct_test {

using namespace kaon;
using namespace kaon::ops;

namespace {

struct Case {
  int64_t batch, channels, height, width, filters;
  std::array<int64_t, 2> kernel, stride{1, 1}, dilate{1, 1}, pad{0, 0};

  ConvGeometry geometry() const {
    ConvGeometry g;
    g.batch = batch, g.in_channels = channels, g.out_channels = filters;
    g.in = {height, width};
    for (size_t i : {0, 1}) {
      g.kernel[i] = kernel[i], g.stride[i] = stride[i], g.dilate[i] = dilate[i], g.pad[i] = pad[i];
      g.out[i] = (g.in[i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    }
    return g;
  }
};

// One vector of filters and more, the last one whole and not; rows of positions that fill the registers and not; runs
// of taps longer than them; channels by blocks, or too many of them without a divisor; steps, gaps and borders that
// differ by axis; gradients whose vectors run over the taps.
const Case cases[] = {{3, 1, 12, 40, 20, {5, 5}},
                      {1, 3, 9, 7, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                      {2, 2, 11, 13, 37, {3, 2}, {2, 3}, {1, 1}, {0, 1}},
                      {1, 4, 14, 17, 33, {2, 3}, {1, 2}, {3, 2}, {2, 1}},
                      {2, 20, 6, 8, 50, {5, 5}},
                      {1, 5, 30, 1, 1, {4, 1}, {1, 1}, {1, 1}, {3, 0}},
                      {1, 160, 7, 7, 48, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                      {2, 288, 9, 3, 32, {3, 3}, {2, 1}, {1, 2}, {2, 2}},
                      {1, 163, 5, 5, 16, {3, 3}, {1, 1}, {2, 1}, {1, 0}},
                      {1, 2600, 1, 3, 80, {1, 1}},
                      {1, 1, 1, 100, 7, {1, 1}}};

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) seed = seed * 1664525 + 1013904223, x = float(seed >> 8) * 0x1p-23f - 1;
  return v;
}

size_t weight_at(const ConvGeometry& g, int64_t filter, int64_t tap, int64_t channel) {
  return size_t((filter * g.taps() + tap) * g.in_channels + channel);
}

// Calls f(image, position, tap, where the image's pixel lies) for every pixel that a result reads.
template <class F>
void for_each_read(const ConvGeometry& g, F f) {
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t at = 0; at < g.out_positions(); ++at) {
      for (int64_t tap = 0; tap < g.taps(); ++tap) {
        const int64_t y = at / g.out[1] * g.stride[0] + tap / g.kernel[1] * g.dilate[0] - g.pad[0];
        const int64_t x = at % g.out[1] * g.stride[1] + tap % g.kernel[1] * g.dilate[1] - g.pad[1];
        if (y < 0 || x < 0 || y >= g.in[0] || x >= g.in[1]) continue;
        f(n, at, tap, ((n * g.in[0] + y) * g.in[1] + x) * g.in_channels);
      }
    }
  }
}

// As direct_forward reads them.
std::vector<float> in_blocks(const ConvGeometry& g, const std::vector<float>& w) {
  const int64_t groups = (g.out_channels + direct_block - 1) / direct_block, channels = direct_channels(g);
  REQUIRE(g.in_channels % channels == 0);
  std::vector<float> to(size_t(groups * g.taps() * g.in_channels * direct_block), 0.f);
  for (int64_t o = 0; o < g.out_channels; ++o) {
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      for (int64_t c = 0; c < g.in_channels; ++c) {
        const int64_t block = o / direct_block * (g.in_channels / channels) + c / channels,
                      row = (block * g.taps() + tap) * channels + c % channels;
        to[size_t(row * direct_block + o % direct_block)] = w[weight_at(g, o, tap, c)];
      }
    }
  }
  return to;
}

void check_forward(const ConvGeometry& g, bool with_bias, bool relu) {
  const int64_t results = g.batch * g.out_positions() * g.out_channels;
  const auto x = numbers(g.batch * g.in_positions() * g.in_channels, 1), w = numbers(g.weights(), 2),
             bias = numbers(g.out_channels, 3);
  std::vector<double> want(size_t(results), 0.);
  for (int64_t i = 0; with_bias && i < results; ++i) want[size_t(i)] = double(bias[size_t(i % g.out_channels)]);
  for_each_read(g, [&](int64_t n, int64_t at, int64_t tap, int64_t pixel) {
    for (int64_t o = 0; o < g.out_channels; ++o) {
      double& sum = want[size_t((n * g.out_positions() + at) * g.out_channels + o)];
      for (int64_t c = 0; c < g.in_channels; ++c) {
        sum += double(x[size_t(pixel + c)]) * double(w[weight_at(g, o, tap, c)]);
      }
    }
  });
  std::vector<float> y(size_t(results) + 1, NAN);
  const auto blocks = in_blocks(g, w);
  for (int64_t n = 0; n < g.batch; ++n) {
    const int64_t image = n * g.in_positions() * g.in_channels, result = n * g.out_positions() * g.out_channels;
    for (const ConvRows& rows : n == 0 ? rows_of_parts(g, 1 + g.out[0] / 3) : std::vector{all_rows(g)}) {
      direct_forward(g, rows, x.data() + image + rows.in * g.in[1] * g.in_channels, blocks.data(),
                     with_bias ? bias.data() : nullptr, relu, y.data() + result + rows.out * g.out[1] * g.out_channels);
    }
  }
  double worst = 0;
  for (size_t i = 0; i < size_t(results); ++i) {
    worst = std::max(worst, std::abs(double(y[i]) - (relu ? std::max(want[i], 0.) : want[i])));
  }
  CHECK(worst < 1e-6 * double(g.taps() * g.in_channels));
  CHECK(std::isnan(y.back()));  // nothing is written behind the results
}

void check_backward_weight(const ConvGeometry& g) {
  const auto x = numbers(g.batch * g.in_positions() * g.in_channels, 1),
             dy = numbers(g.batch * g.out_positions() * g.out_channels, 2);
  std::vector<double> want(size_t(g.weights()), 0.);
  for_each_read(g, [&](int64_t n, int64_t at, int64_t tap, int64_t pixel) {
    for (int64_t o = 0; o < g.out_channels; ++o) {
      const double head = double(dy[size_t((n * g.out_positions() + at) * g.out_channels + o)]);
      for (int64_t c = 0; c < g.in_channels; ++c) want[weight_at(g, o, tap, c)] += head * double(x[size_t(pixel + c)]);
    }
  });
  std::vector<float> dw(want.size() + 1, NAN);
  direct_backward_weight(g, g.batch, dy.data(), x.data(), dw.data());
  double worst = 0;
  const int64_t patch = g.taps() * g.in_channels;
  for (int64_t o = 0; o < g.out_channels; ++o) {
    for (int64_t i = 0; i < patch; ++i) {
      const int64_t at = direct_filters_last(g) ? i * g.out_channels + o : o * patch + i;
      worst = std::max(worst, std::abs(double(dw[size_t(at)]) - want[size_t(o * patch + i)]));
    }
  }
  CHECK(worst < 1e-6 * double(g.batch * g.out_positions()));
  CHECK(std::isnan(dw.back()));
}

}  // namespace

TEST_CASE("direct convolution: the kernels of every target beside sums in double", "[nn]") {
  bool filters_last = false, taps_last = false;
  const int targets = test::for_each_target([&] {
    for (const Case& k : cases) {
      const ConvGeometry g = k.geometry();
      INFO("channels " << k.channels << " to " << k.filters << ", " << k.height << " x " << k.width);
      REQUIRE(direct_fits(g));
      for (bool bias : {false, true}) {
        for (bool relu : {false, true}) check_forward(g, bias, relu);
      }
      check_backward_weight(g);
      (direct_filters_last(g) ? filters_last : taps_last) = true;
    }
  });
  CHECK(targets >= 1);
  CHECK((filters_last && taps_last));
}

TEST_CASE("direct convolution: NaN reaches the results that read it, and relu keeps it", "[nn]") {
  const ConvGeometry g = cases[1].geometry();
  auto x = numbers(g.in_positions() * g.in_channels, 1);
  x[size_t((4 * g.in[1] + 3) * g.in_channels + 1)] = NAN;
  std::vector<float> y(size_t(g.out_positions() * g.out_channels));
  direct_forward(g, all_rows(g), x.data(), in_blocks(g, numbers(g.weights(), 2)).data(), nullptr, true, y.data());
  for (int64_t i = 0; i < g.out_positions(); ++i) {
    const bool reads = std::abs(i / g.out[1] - 4) <= 1 && std::abs(i % g.out[1] - 3) <= 1;
    for (int64_t o = 0; o < g.out_channels; ++o) REQUIRE(std::isnan(y[size_t(i * g.out_channels + o)]) == reads);
  }
}

TEST_CASE("direct convolution: three axes and groups are left to others", "[nn]") {
  ConvGeometry g = cases[0].geometry();
  g.groups = 2;
  CHECK_FALSE(direct_fits(g));
  g.groups = 1, g.axes = 3;
  CHECK_FALSE(direct_fits(g));
}

}  // namespace conv_direct_test
