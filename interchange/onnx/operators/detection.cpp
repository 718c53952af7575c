// Object detection.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr double kAll = 1e15;  // more than there are: int64's largest number, by which files ask for all, is no double

struct Suppression {
  int64_t most = 0;
  double overlap = 0, score = -std::numeric_limits<double>::infinity();
  bool by_center = false;
};

using Box = std::array<float, 4>;  // y1, x1, y2, x2, in whose precision other runtimes compute too

Box corners(const float* b, bool by_center) {
  if (by_center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

float overlap(const Box& a, const Box& b) {
  const float h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (h <= 0 || w <= 0) return 0;
  const float both = h * w, area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
  return area <= 0 ? 0 : both / area;
}

// boxes (batch, n, 4), scores (batch, classes, n): rows of sample, class and box
NDArray suppress(const NDArray& boxes, const NDArray& scores, const Suppression& s) {
  const std::vector<float> b = boxes.asvector<float>(), v = scores.asvector<float>();
  const int64_t batch = scores.shape()[0], classes = scores.shape()[1], n = scores.shape()[2];
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t k = 0; k < classes; ++k) {
      const float* score = v.data() + (i * classes + k) * n;
      std::vector<int64_t> order;
      for (int64_t j = 0; j < n; ++j) {
        if (double(score[j]) > s.score) order.push_back(j);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return score[x] > score[y]; });
      std::vector<Box> kept;
      for (int64_t j : order) {
        if (int64_t(kept.size()) >= s.most) break;
        const Box box = corners(b.data() + (i * n + j) * 4, s.by_center);
        if (std::any_of(kept.begin(), kept.end(),
                        [&](const Box& other) { return overlap(box, other) > float(s.overlap); }))
          continue;
        kept.push_back(box);
        rows.insert(rows.end(), {i, k, j});
      }
    }
  }
  return NDArray::from(rows.data(), rows.size(), Shape(int64_t(rows.size() / 3), 3), DType::int64);
}

void non_max_suppression(Call& c) {
  Suppression s;
  if (c.has(2)) s.most = int64_t(std::min(c.number(2), kAll));
  if (c.has(3)) s.overlap = c.number(3);
  if (c.has(4)) s.score = c.number(4);
  s.by_center = c.integer("center_point_box", 0) != 0;
  if (c.rank(0) != 3 || c.shape(0)[2] != 4 || c.rank(1) != 3 || c.shape(0)[0] != c.shape(1)[0] ||
      c.shape(0)[1] != c.shape(1)[2]) {
    c.fail(fmt::format("boxes {} and scores {}", c.shape(0).str(), c.shape(1).str()));
  }
  c.set(c.conversion().host({c.input(0), c.input(1)},
                            [s](const std::vector<NDArray>& in) { return std::vector{suppress(in[0], in[1], s)}; })[0]);
}

struct Regions {
  double scale = 1;
  int64_t height = 1, width = 1, samples = 0;  // 0: as many as pixels
  bool half_pixel = true;
};

constexpr double kMostSamples = 4096;  // of a side of a cell: beyond any image

// The two pixels around `at` on a side of n, with their shares; false: outside of the image.
struct Around {
  int64_t low = 0, high = 0;
  double low_share = 0, high_share = 0;
};
bool pixels_around(double at, int64_t n, Around& pair) {
  if (!(at >= -1 && at <= double(n))) return false;
  at = std::max(at, 0.0);
  pair.low = std::min(int64_t(at), n - 1);
  pair.high = std::min(pair.low + 1, n - 1);
  pair.high_share = pair.low == n - 1 ? 0 : at - double(pair.low);
  pair.low_share = 1 - pair.high_share;
  return true;
}

// The largest of the samples of each cell, of which each is the largest of four pixels times its share: so the standard
// has it. x (n, c, h, w), boxes (r, 4), the image of each.
NDArray largest_in_regions(const NDArray& x, const NDArray& boxes, const NDArray& images, const Regions& regions) {
  const std::vector<double> data = x.asvector<double>(), box = boxes.asvector<double>();
  const std::vector<int64_t> image = images.asvector<int64_t>();
  const int64_t channels = x.shape()[1], h = x.shape()[2], w = x.shape()[3], count = boxes.shape()[0];
  std::vector<double> y(size_t(count * channels * regions.height * regions.width));
  for (int64_t r = 0; r < count; ++r) {
    if (image[size_t(r)] < 0 || image[size_t(r)] >= x.shape()[0]) {
      throw IndexError(fmt::format("[onnx] RoiAlign: image {} of {}", image[size_t(r)], x.shape()[0]));
    }
    const double moved = regions.half_pixel ? 0.5 : 0;
    const auto corner = [&](size_t i) { return box[size_t(r) * 4 + i] * regions.scale - moved; };
    double wide = corner(2) - corner(0), high = corner(3) - corner(1);
    if (!regions.half_pixel) wide = std::max(wide, 1.0), high = std::max(high, 1.0);
    const double cell_h = high / double(regions.height), cell_w = wide / double(regions.width);
    const auto samples = [&](double cell) {
      return regions.samples > 0 ? regions.samples : int64_t(std::clamp(std::ceil(cell), 0.0, kMostSamples));
    };
    const int64_t rows = samples(cell_h), columns = samples(cell_w);
    for (int64_t k = 0; k < channels * regions.height * regions.width; ++k) {
      const int64_t channel = k / (regions.height * regions.width), i = k / regions.width % regions.height,
                    j = k % regions.width;
      const double* const plane = data.data() + (image[size_t(r)] * channels + channel) * h * w;
      double best = rows * columns > 0 ? -std::numeric_limits<double>::infinity() : 0;
      for (int64_t s = 0; s < rows * columns; ++s) {
        const double down = corner(1) + double(i) * cell_h + (double(s / columns) + 0.5) * cell_h / double(rows);
        const double right = corner(0) + double(j) * cell_w + (double(s % columns) + 0.5) * cell_w / double(columns);
        Around v, u;
        if (!pixels_around(down, h, v) || !pixels_around(right, w, u)) {
          best = std::max(best, 0.0);
          continue;
        }
        best = std::max({best, v.low_share * u.low_share * plane[v.low * w + u.low],
                         v.low_share * u.high_share * plane[v.low * w + u.high],
                         v.high_share * u.low_share * plane[v.high * w + u.low],
                         v.high_share * u.high_share * plane[v.high * w + u.high]});
      }
      y[size_t(r * channels * regions.height * regions.width + k)] = best;
    }
  }
  return NDArray::from(y.data(), y.size(), Shape(count, channels, regions.height, regions.width), x.dtype());
}

// x, rois (r, 4), the image of each
void roi_align(Call& c) {
  if (c.rank() != 4 || c.rank(1) != 2 || c.shape(1)[1] != 4 || c.shape(2) != Shape(c.shape(1)[0])) {
    c.fail(fmt::format("x {}, rois {} and batch_indices {}", c.shape().str(), c.shape(1).str(), c.shape(2).str()));
  }
  const std::string kind = c.text("mode", "avg");
  if (kind != "avg" && kind != "max") c.fail_supported("mode " + kind);
  const std::string mode =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (kind == "max") {
    const Regions regions{c.real("spatial_scale", 1), c.integer("output_height", 1), c.integer("output_width", 1),
                          c.integer("sampling_ratio", 0), mode == "half_pixel"};
    if (regions.height < 1 || regions.width < 1 || regions.samples < 0 || c.shape().size() == 0) {
      c.fail(fmt::format("an output of {} x {}, sampling_ratio {}, x {}", regions.height, regions.width,
                         regions.samples, c.shape().str()));
    }
    return c.set(c.conversion().host({c.input(0), c.input(1), c.input(2)}, [regions](const auto& in) {
      return std::vector{largest_in_regions(in[0], in[1], in[2], regions)};
    })[0]);
  }
  const Symbol images = reshaped(cast(c.x(2), c.dtype(1)), Shape(c.shape(1)[0], 1));
  const int64_t ratio = c.integer("sampling_ratio", 0);
  c.set(sym.ROIAlign(c.x(0), concatenated({images, c.x(1)}, 1),
                     {.pooled_size = Shape(c.integer("output_height", 1), c.integer("output_width", 1)),
                      .spatial_scale = float(c.real("spatial_scale", 1)),
                      .sample_ratio = ratio == 0 ? -1 : int(ratio),
                      .aligned = mode == "half_pixel"}));
}

// x, rois (r, 5): the image of each and its corners
void max_roi_pool(Call& c) {
  const std::vector<int64_t> size = c.integers("pooled_shape");
  if (size.size() != 2) c.fail(fmt::format("pooled_shape has {} numbers, expected 2", size.size()));
  c.set(sym.ROIPooling(c.x(0), c.x(1),
                       {.pooled_size = Shape(size[0], size[1]), .spatial_scale = float(c.real("spatial_scale", 1))}));
}

constexpr Row detection_table[] = {
    {"MaxRoiPool", max_roi_pool},
    {"NonMaxSuppression", non_max_suppression},
    {"RoiAlign", roi_align},
};

}  // namespace

std::span<const Row> detection_rows() { return detection_table; }

}  // namespace kaon::onnx::convert
