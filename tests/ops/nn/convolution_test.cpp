// Convolutions whose kernels of oneDNN are known to be wrong, beside sums in double.
#include <catch2/catch.hpp>
#include <vector>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace convolution_test {

using namespace kaon;

namespace {

// Small whole numbers: sums are exact.
std::vector<float> numbers(int64_t n, int seed) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(float((i * 7 + seed * 3 + i / 5) % 9 - 4));
  return v;
}

}  // namespace

// oneDNN's kernels for these gradients write behind their scratchpad where channels come last (its issue 6035), which a
// primitive's execution notices.
TEST_CASE("convolution: gradients of 1 x 1 weights with strides, of few channels", "[nn]") {
  constexpr int64_t batch = 3, filters = 5, height = 12, width = 6;
  for (const auto& [down, right] : {std::pair<int64_t, int64_t>(2, 2), {2, 1}, {3, 3}}) {
    const int64_t rows = (height - 1) / down + 1, columns = (width - 1) / right + 1;
    for (int64_t channels = 1; channels <= 17; ++channels) {
      for (const bool has_channels_last : {false, true}) {
        CAPTURE(down, right, channels, has_channels_last);
        const auto place = [&](int64_t n, int64_t c, int64_t y, int64_t x, int64_t all, int64_t h, int64_t w) {
          return size_t(has_channels_last ? ((n * h + y) * w + x) * all + c : ((n * all + c) * h + y) * w + x);
        };
        const std::vector<float> image = numbers(batch * channels * height * width, 1),
                                 head = numbers(batch * filters * rows * columns, 2);
        const NDArray x = nd.array(
            image, has_channels_last ? Shape(batch, height, width, channels) : Shape(batch, channels, height, width));
        NDArray w = nd.array(numbers(filters * channels, 3),
                             has_channels_last ? Shape(filters, 1, 1, channels) : Shape(filters, channels, 1, 1));
        w.attach_grad();
        op::Convolution op{.kernel = {1, 1}, .stride = {down, right}, .num_filter = filters};
        if (has_channels_last) op.layout = ConvLayout::NHWC;
        const NDArray y = autograd::record([&] { return nd.Convolution(x, w, op); }, true);
        y.backward(nd.array(head, y.shape()));
        std::vector<float> expected;
        for (int64_t f = 0; f < filters; ++f) {
          for (int64_t c = 0; c < channels; ++c) {
            double sum = 0;
            for (int64_t n = 0; n < batch; ++n) {
              for (int64_t i = 0; i < rows * columns; ++i) {
                const int64_t r = i / columns, s = i % columns;
                sum += double(head[place(n, f, r, s, filters, rows, columns)]) *
                       double(image[place(n, c, r * down, s * right, channels, height, width)]);
              }
            }
            expected.push_back(float(sum));
          }
        }
        CHECK(w.grad().asvector<float>() == expected);
      }
    }
  }
}

}  // namespace convolution_test
