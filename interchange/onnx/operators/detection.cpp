// Object detection.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

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

using Box = std::array<double, 4>;  // y1, x1, y2, x2

Box corners(const float* b, bool by_center) {
  if (by_center) return {b[1] - b[3] / 2.0, b[0] - b[2] / 2.0, b[1] + b[3] / 2.0, b[0] + b[2] / 2.0};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

double overlap(const Box& a, const Box& b) {
  const double h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (h <= 0 || w <= 0) return 0;
  const double both = h * w, area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
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
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(box, other) > s.overlap; }))
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

// x, rois (r, 4), the image of each
void roi_align(Call& c) {
  if (c.text("mode", "avg") != "avg") c.fail_supported("mode " + c.text("mode", "avg"));
  const std::string mode =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
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
