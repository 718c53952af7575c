// Rows of the test table: regions of images (RoI).
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/detection_inputs.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

// Regions of images of these sizes; every fifth is of an image that does not exist, others reach over the border.
Input regions(int64_t count, int64_t images, double height, double width, uint32_t seed) {
  Numbers rois = fractions(5 * count, seed);
  for (size_t i = 0; i < rois.size(); i += 5) {
    double* const r = &rois[i];
    r[0] = i / 5 % 5 == 4 ? -1 : std::floor(r[0] * double(images));
    r[1] = std::floor(r[1] * width * 8) / 8 - 1, r[2] = std::floor(r[2] * height * 8) / 8 - 1;
    r[3] = r[1] + std::floor(r[3] * width * 8) / 8 + 0.375, r[4] = r[2] + std::floor(r[4] * height * 8) / 8 + 0.375;
  }
  return constant(in({count, 5}, rois));
}

bool is_image(double number, const Shape& data) { return number >= 0 && number < double(data[0]); }

// One axis: the weight of each pixel in each part, and the number of samples.
struct AxisWeights {
  std::vector<Numbers> parts;
  double samples;
  template <class Op>
  AxisWeights(const Op& op, double from, double to, int64_t count, int64_t size)
      : parts(size_t(count), Numbers(size_t(size))) {
    const double begin = from * op.spatial_scale - (op.aligned ? 0.5 : 0);
    double length = (to - from) * op.spatial_scale;
    if (!op.aligned) length = std::max(length, 1.0);
    samples = op.sample_ratio > 0 ? op.sample_ratio : std::min(std::ceil(length / double(count)), 4096.0);
    for (int64_t i = 0; i < count; ++i) {
      for (double s = 0; s < samples; ++s) {
        double at = begin + (double(i) + (s + 0.5) / samples) * length / double(count);
        if (!(at >= -1 && at <= double(size))) continue;
        at = std::clamp(at, 0.0, double(size - 1));
        const auto low = std::min(size_t(at), size_t(size - 1));
        parts[size_t(i)][low] += 1 - (at - double(low));
        if (at > double(low)) parts[size_t(i)][low + 1] += at - double(low);
      }
    }
  }
};

// Calls visit(position in the result, position in data, weight).
template <class Op, class Visit>
void each_weight(const Op& op, const Shape& data, const Shape& out, const Host& rois, Visit&& visit) {
  each(out, [&](const Shape& p) {
    const auto roi = [&](int k) { return rois.at({p[0], k}); };
    if (!is_image(roi(0), data)) return;
    const AxisWeights down(op, roi(2), roi(4), out[2], data[2]), across(op, roi(1), roi(3), out[3], data[3]);
    const int64_t channel = op.position_sensitive ? (p[1] * out[2] + p[2]) * out[3] + p[3] : p[1];
    for (int64_t y = 0; y < data[2]; ++y) {
      for (int64_t x = 0; x < data[3]; ++x) {
        const double weight = down.parts[size_t(p[2])][size_t(y)] * across.parts[size_t(p[3])][size_t(x)];
        if (weight != 0) visit(p, Shape(int64_t(roi(0)), channel, y, x), weight / (down.samples * across.samples));
      }
    }
  });
}

void align(Rows& rows, const op::ROIAlign& op, const Shape& data, int64_t count, uint32_t seed) {
  const Shape& pooled = op.pooled_size;
  const int64_t channels = op.position_sensitive ? data[1] / (pooled[0] * pooled[1]) : data[1];
  const Shape out(count, channels, pooled[0], pooled[1]);
  const Input rois =
      regions(count, data[0], double(data[2]) / op.spatial_scale, double(data[3]) / op.spatial_scale, seed);
  rows.emplace_back(
      op, std::vector{in(data), rois},
      [=](const Hosts& in) {
        Host y = zeros(out);
        each_weight(op, data, out, in[1],
                    [&](const Shape& to, const Shape& from, double weight) { y.at(to) += weight * in[0].at(from); });
        return y;
      },
      RowOptions{.loosen = 8, .loosen_gradient = 8});
  rows.emplace_back(
      op::BackwardROIAlign{.shape = data,
                           .spatial_scale = op.spatial_scale,
                           .sample_ratio = op.sample_ratio,
                           .position_sensitive = op.position_sensitive,
                           .aligned = op.aligned},
      std::vector{in(out), rois},
      [=](const Hosts& in) {
        Host y = zeros(data);
        each_weight(op, data, out, in[1],
                    [&](const Shape& to, const Shape& from, double weight) { y.at(from) += weight * in[0].at(to); });
        return y;
      },
      RowOptions{.loosen = 16, .loosen_gradient = 8});
}

void pool(Rows& rows, const op::ROIPooling& op, const Shape& data, int64_t count, uint32_t seed) {
  const Shape out(count, data[1], op.pooled_size[0], op.pooled_size[1]);
  const Input rois =
      regions(count, data[0], double(data[2]) / op.spatial_scale, double(data[3]) / op.spatial_scale, seed);
  const auto part = [=](double from, double to, int64_t i, int64_t count, int64_t size) {
    const auto whole = [&](double x) {  // no image has more
      return std::isnan(x) ? 0 : std::clamp(std::round(x * op.spatial_scale), -0x1p28, 0x1p28);
    };
    const double begin = whole(from), each = std::max(whole(to) - begin + 1, 1.0) / double(count);
    const auto within = [&](double at) { return int64_t(std::clamp(at + begin, 0.0, double(size))); };
    return std::pair(within(std::floor(double(i) * each)), within(std::ceil(double(i + 1) * each)));
  };
  rows.emplace_back(op, std::vector{in(data, Fill::distinct), rois}, [=](const Hosts& in) {
    Host y = zeros(out), pixels = zeros(out, -1);
    pixels.dtype = DType::int64;
    each(out, [&](const Shape& p) {
      const auto roi = [&](int k) { return in[1].at({p[0], k}); };
      if (!is_image(roi(0), data)) return;
      const auto down = part(roi(2), roi(4), p[2], out[2], data[2]),
                 across = part(roi(1), roi(3), p[3], out[3], data[3]);
      for (int64_t h = down.first; h < down.second; ++h) {
        for (int64_t w = across.first; w < across.second; ++w) {
          const double here = in[0].at({int64_t(roi(0)), p[1], h, w});
          if (pixels.at(p) < 0 || here > y.at(p) || (std::isnan(here) && !std::isnan(y.at(p))))
            y.at(p) = here, pixels.at(p) = double(h * data[3] + w);
        }
      }
    });
    return Hosts{y, pixels};
  });
}

void give_back(Rows& rows, const Shape& data, const Shape& out, uint32_t seed) {
  Numbers pixels = fractions(out.size(), seed + 1);
  for (double& v : pixels) v = v < 0.125 ? -1 : std::floor(v * double(data[2] * data[3]));
  rows.emplace_back(
      op::BackwardROIPooling{.shape = data},
      std::vector{constant(in(out)), regions(out[0], data[0], 8, 8, seed), index(out, pixels, DType::int64)},
      [=](const Hosts& in) {
        Host y = zeros(data);
        each(out, [&](const Shape& p) {
          const double image = in[1].at({p[0], 0});
          const auto pixel = int64_t(in[2].at(p));
          if (is_image(image, data) && pixel >= 0)
            y.at({int64_t(image), p[1], pixel / data[3], pixel % data[3]}) += in[0].at(p);
        });
        return y;
      },
      RowOptions{.loosen = 4, .differentiate = false});
}

}  // namespace

Rows region_rows() {
  Rows rows;
  align(rows, {.pooled_size = {2, 3}, .spatial_scale = 1}, {2, 3, 7, 5}, 7, 1);
  align(rows, {.pooled_size = {3, 2}, .spatial_scale = 0.5f, .sample_ratio = 2}, {1, 2, 5, 6}, 6, 2);
  align(rows, {.pooled_size = {2, 2}, .spatial_scale = 0.25f, .aligned = true}, {3, 1, 4, 9}, 9, 3);
  align(rows, {.pooled_size = {1, 2}, .spatial_scale = 1, .sample_ratio = 3, .position_sensitive = true}, {2, 6, 5, 5},
        5, 4);
  align(rows, {.pooled_size = {1, 1}, .spatial_scale = 1, .sample_ratio = 1}, {1, 1, 1, 1}, 1, 5);
  align(rows, {.pooled_size = {2, 2}, .spatial_scale = 1}, {2, 0, 3, 3}, 3, 6);
  align(rows, {.pooled_size = {2, 2}, .spatial_scale = 1}, {2, 2, 3, 3}, 0, 7);
  pool(rows, {.pooled_size = {2, 3}, .spatial_scale = 1}, {2, 3, 7, 5}, 7, 1);
  pool(rows, {.pooled_size = {3, 1}, .spatial_scale = 0.5f}, {1, 2, 5, 6}, 9, 2);
  pool(rows, {.pooled_size = {1, 1}, .spatial_scale = 1}, {1, 1, 1, 1}, 1, 3);
  pool(rows, {.pooled_size = {2, 2}, .spatial_scale = 1}, {2, 0, 3, 3}, 3, 4);
  pool(rows, {.pooled_size = {2, 2}, .spatial_scale = 1}, {2, 2, 3, 3}, 0, 5);
  give_back(rows, {2, 3, 4, 5}, {7, 3, 2, 1}, 1);
  give_back(rows, {1, 1, 3, 3}, {1, 1, 1, 2}, 2);
  give_back(rows, {1, 1, 3, 3}, {5, 1, 1, 2}, 4);
  give_back(rows, {2, 2, 3, 3}, {0, 2, 1, 2}, 3);
  return rows;
}

}  // namespace kaon::test
