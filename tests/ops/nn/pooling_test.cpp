// Means and maxima over windows against loops in double: edges, padding and windows as large as the image.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/ops/functions.h"

namespace pooling_test {

using namespace kaon;

namespace {

// Output (y, x) of one plane.
double pooled(const std::vector<double>& plane, int64_t height, int64_t width, const op::Pooling& op, int64_t y,
              int64_t x) {
  double sum = 0, most = -INFINITY;
  int64_t real = 0, padded = 0;
  for (int64_t i = 0; i < op.kernel[0]; ++i) {
    for (int64_t j = 0; j < op.kernel[1]; ++j) {
      const int64_t r = y * op.stride[0] - op.pad[0] + i, c = x * op.stride[1] - op.pad[1] + j;
      padded += r < height + op.pad[0] && c < width + op.pad[1];
      if (r < 0 || c < 0 || r >= height || c >= width) continue;
      const double v = plane[size_t(r * width + c)];
      sum += v, most = std::max(most, v), ++real;
    }
  }
  if (op.pool_type == PoolType::max) return most;
  return sum / double(std::max<int64_t>(1, op.count_include_pad.value_or(true) ? padded : real));
}

void check(const Shape& shape, const op::Pooling& op) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const NDArray x = nd.random_uniform(shape, {.low = -1, .high = 1, .dtype = dtype}), y = nd.Pooling(x, op);
    const std::vector<double> from = x.asvector<double>(), got = y.asvector<double>();
    const int64_t height = shape[2], width = shape[3], rows = y.shape()[2], columns = y.shape()[3];
    double most = 0;
    for (int64_t i = 0; i < y.shape().size(); ++i) {
      const int64_t p = i / (rows * columns);
      const std::vector<double> plane(from.begin() + p * height * width, from.begin() + (p + 1) * height * width);
      const double want = pooled(plane, height, width, op, i / columns % rows, i % columns);
      most = std::max(most, std::abs(got[size_t(i)] - want));
    }
    INFO(fmt::format("{} kernel {} stride {} pad {}: {}", shape.str(), op.kernel.str(), op.stride.str(), op.pad.str(),
                     most));
    CHECK(most < 1e-5);
  }
}

}  // namespace

TEST_CASE("pooling: edges and padding of rows of any length") {
  for (PoolType type : {PoolType::avg, PoolType::max}) {
    for (PoolingConvention convention : {PoolingConvention::valid, PoolingConvention::full}) {
      for (int64_t width : {5, 16, 40, 67}) {
        for (int64_t size : {2, 3, 5}) {
          for (int64_t stride : {1, 2, 3}) {
            for (bool counted : {true, false}) {
              check({1, 2, 6, width}, {.kernel = {2, size},
                                       .pool_type = type,
                                       .pooling_convention = convention,
                                       .stride = {2, stride},
                                       .pad = {0, size / 2},
                                       .count_include_pad = counted});
            }
          }
        }
      }
    }
  }
}

TEST_CASE("pooling: tiles of 2 x 2, and windows as large as the image or as wide") {
  for (PoolType type : {PoolType::avg, PoolType::max}) {
    for (int64_t channels : {1, 3, 8}) {
      for (int64_t width : {2, 6, 34, 70}) {
        check({2, channels, 4, width}, {.kernel = {2, 2}, .pool_type = type, .stride = {2, 2}, .pad = {0, 0}});
        check({2, channels, 9, width}, {.kernel = {9, width}, .pool_type = type, .stride = {1, 1}, .pad = {0, 0}});
        check({2, channels, 9, width}, {.kernel = {2, width}, .pool_type = type, .stride = {3, 1}, .pad = {0, 0}});
      }
    }
  }
}

}  // namespace pooling_test
