// Rows of the test table: images at another size.
#include <cmath>

#include "kaon/ops/nn/resize/resize.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Matrix = std::vector<std::vector<double>>;  // by result and pixel; NaN: the result does not read the pixel

Matrix axis_map(ResampleKind kind, bool align_corners, int64_t in, int64_t out) {
  Matrix m(size_t(out), std::vector<double>(size_t(in), std::nan("")));
  for (int64_t o = 0; o < out; ++o) {
    std::vector<double>& row = m[size_t(o)];
    if (kind == ResampleKind::nearest) {
      row[size_t(std::floor((double(o) + 1e-9) * double(in) / double(out)))] = 1;
    } else if (kind == ResampleKind::average) {
      const auto begin = int64_t(std::floor(double(o) * double(in) / double(out) + 1e-9));
      const auto end = int64_t(std::ceil(double(o + 1) * double(in) / double(out) - 1e-9));
      for (int64_t i = begin; i < end; ++i) row[size_t(i)] = 1 / double(end - begin);
    } else {
      double at = align_corners ? double(o) * double(in - 1) / std::max(1.0, double(out - 1))
                                : std::max(0.0, (double(o) + 0.5) * double(in) / double(out) - 0.5);
      at = out == 1 ? 0 : std::min(at, double(in - 1));
      const auto i = int64_t(at);
      row[size_t(i)] = 1 - (at - double(i));
      if (i + 1 < in && in != out) row[size_t(i + 1)] = at - double(i);
    }
  }
  return m;
}

// Each image x becomes rows x columns^T, or rows^T x columns.
Host mapped(const Host& x, const Matrix& rows, const Matrix& columns, bool transposed) {
  const auto weight = [&](const Matrix& m, int64_t target, int64_t source) {
    return transposed ? m[size_t(source)][size_t(target)] : m[size_t(target)][size_t(source)];
  };
  const auto targets = [&](const Matrix& m) { return int64_t(transposed ? m[0].size() : m.size()); };
  return generate(Shape(x.shape[0], x.shape[1], targets(rows), targets(columns)), [&](const Shape& p) {
    double sum = 0;
    for (int64_t h = 0; h < x.shape[2]; ++h) {
      for (int64_t w = 0; w < x.shape[3]; ++w) {
        const double product = weight(rows, p[2], h) * weight(columns, p[3], w);
        if (std::isnan(product) || (transposed && product == 0)) continue;
        sum += product * x.at({p[0], p[1], h, w});
      }
    }
    return sum;
  });
}

Host resized(const Host& x, ResampleKind kind, bool align_corners, int64_t height, int64_t width) {
  return mapped(x, axis_map(kind, align_corners, x.shape[2], height), axis_map(kind, align_corners, x.shape[3], width),
                false);
}

void resample(Rows& rows, op::Resample op, const Shape& data) {
  rows.emplace_back(op, std::vector{in(data)},
                    [=](const Hosts& in) { return resized(in[0], op.kind, op.align_corners, op.height, op.width); });
  op::Resample back = op;
  back.height = data[2], back.width = data[3], back.transposed = true;
  rows.emplace_back(
      back, std::vector{in({data[0], data[1], op.height, op.width})},
      [=](const Hosts& in) {
        return mapped(in[0], axis_map(op.kind, op.align_corners, data[2], op.height),
                      axis_map(op.kind, op.align_corners, data[3], op.width), true);
      },
      RowOptions{.loosen = 2});
}

void bilinear(Rows& rows, const op::BilinearResize2D& op, const Shape& data, int64_t height, int64_t width) {
  std::vector<Input> inputs{in(data)};
  if (op.mode == ResizeMode::like) inputs.push_back(in({1, 2, height, width}));
  rows.emplace_back(op, inputs, [=](const Hosts& in) {
    return resized(in[0], ResampleKind::bilinear, op.align_corners, height, width);
  });
}

void adaptive(Rows& rows, const Shape& output_size, const Shape& data) {
  const int64_t height = output_size.empty() ? 1 : output_size[0], width = output_size.empty() ? 1 : output_size.back();
  rows.emplace_back(
      op::AdaptiveAvgPooling2D{.output_size = output_size}, std::vector{in(data)},
      [=](const Hosts& in) { return resized(in[0], ResampleKind::average, true, height, width); },
      RowOptions{.loosen = 2});
}

// The inputs side by side along the channels, or added.
void nearest(Rows& rows, const op::UpSampling& op, const std::vector<Shape>& data) {
  std::vector<Input> inputs;
  for (const Shape& s : data) inputs.push_back(in(s));
  const int64_t height = data[0][2] * op.scale, width = data[0][3] * op.scale;
  rows.emplace_back(op, inputs, [=](const Hosts& in) {
    Host out = resized(in[0], ResampleKind::nearest, true, height, width);
    for (size_t i = 1; i < in.size(); ++i) {
      const Host next = resized(in[i], ResampleKind::nearest, true, height, width);
      const Host before = out;
      if (op.multi_input_mode == MultiInputMode::sum) {
        out = generate(before.shape, [&](const Shape& p) { return before.at(p) + next.at(p); });
        continue;
      }
      const int64_t c = before.shape[1];
      out = generate(Shape(before.shape[0], c + next.shape[1], height, width), [&](const Shape& p) {
        return p[1] < c ? before.at(p) : next.at({p[0], p[1] - c, p[2], p[3]});
      });
    }
    return out;
  });
}

void by_weights(Rows& rows, const op::UpSampling& op, const Shape& data) {
  const int64_t scale = op.scale, kernel = 2 * scale - scale % 2, pad = scale / 2;
  rows.emplace_back(
      op, std::vector{in(data), in({data[1], 1, kernel, kernel})},
      [=](const Hosts& in) {
        Host out = zeros({data[0], data[1], data[2] * scale, data[3] * scale});
        each(in[0].shape, [&](const Shape& p) {
          for (int64_t y = 0; y < kernel; ++y) {
            for (int64_t x = 0; x < kernel; ++x) {
              const int64_t h = p[2] * scale + y - pad, w = p[3] * scale + x - pad;
              if (h < 0 || w < 0 || h >= out.shape[2] || w >= out.shape[3]) continue;
              out.at({p[0], p[1], h, w}) += in[0].at(p) * in[1].at({p[1], 0, y, x});
            }
          }
        });
        return out;
      },
      RowOptions{.loosen = 4, .loosen_gradient = 4});
}

void crop(Rows& rows, op::Crop op, const Shape& data, const Shape& part, const Shape& begin) {
  std::vector<Input> inputs{in(data)};
  if (op.num_args == 2) inputs.push_back(in({1, 1, part[0], part[1]}));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        return generate(Shape(data[0], data[1], part[0], part[1]), [&](const Shape& p) {
          return in[0].at({p[0], p[1], p[2] + begin[0], p[3] + begin[1]});
        });
      },
      RowOptions{.dtypes = every_dtype});
}

}  // namespace

Rows resize_rows() {
  Rows rows;
  for (ResampleKind kind : {ResampleKind::nearest, ResampleKind::bilinear, ResampleKind::average}) {
    for (bool align_corners : {true, false}) {
      if (!align_corners && kind != ResampleKind::bilinear) continue;
      const auto to = [&](int64_t height, int64_t width) {
        return op::Resample{.kind = kind, .height = height, .width = width, .align_corners = align_corners};
      };
      resample(rows, to(7, 11), {2, 3, 4, 5});
      resample(rows, to(3, 2), {1, 2, 7, 9});
      resample(rows, to(1, 1), {1, 2, 5, 3});
      resample(rows, to(4, 3), {2, 1, 1, 1});
      resample(rows, to(5, 8), {1, 17, 5, 3});
      resample(rows, to(2, 3), {0, 2, 4, 4});
      resample(rows, to(2, 3), {2, 0, 4, 4});
    }
  }
  for (bool align_corners : {true, false}) {
    const auto by = [&](op::BilinearResize2D op) { return op.align_corners = align_corners, op; };
    bilinear(rows, by({.height = 6, .width = 9}), {2, 3, 4, 5}, 6, 9);
    bilinear(rows, by({.height = 1, .width = 2}), {1, 2, 3, 3}, 1, 2);
    bilinear(rows, by({.height = 4, .width = 5}), {1, 2, 4, 5}, 4, 5);
    bilinear(rows, by({.scale_height = 2.3, .scale_width = 0.5}), {1, 1, 4, 6}, 9, 3);
    bilinear(rows, by({.mode = ResizeMode::like}), {2, 2, 4, 6}, 7, 3);
  }
  bilinear(rows, {.height = 6, .width = 9}, {0, 3, 4, 5}, 6, 9);
  bilinear(rows, {.scale_height = 2.0, .scale_width = 1.5, .mode = ResizeMode::odd_scale}, {1, 2, 5, 4}, 9, 6);
  bilinear(rows, {.mode = ResizeMode::to_even_down}, {1, 2, 5, 4}, 4, 4);
  bilinear(rows, {.mode = ResizeMode::to_even_up}, {1, 2, 5, 4}, 6, 4);
  bilinear(rows, {.mode = ResizeMode::to_odd_down}, {1, 2, 5, 4}, 5, 3);
  bilinear(rows, {.mode = ResizeMode::to_odd_up}, {1, 2, 5, 4}, 5, 5);

  adaptive(rows, {}, {2, 3, 5, 4});
  adaptive(rows, {1}, {2, 3, 5, 4});
  adaptive(rows, {2}, {2, 3, 6, 4});
  adaptive(rows, {3, 2}, {1, 2, 7, 5});
  adaptive(rows, {9, 4}, {1, 3, 4, 4});
  adaptive(rows, {3, 2}, {0, 2, 7, 5});

  nearest(rows, {.scale = 2}, {{2, 3, 4, 5}});
  nearest(rows, {.scale = 3}, {{1, 1, 1, 2}});
  nearest(rows, {.scale = 1}, {{1, 2, 3, 3}});
  nearest(rows, {.scale = 2}, {{0, 3, 4, 5}});
  nearest(rows, {.scale = 2, .num_args = 3}, {{2, 3, 4, 5}, {2, 1, 2, 10}, {2, 2, 8, 1}});
  nearest(rows, {.scale = 2, .multi_input_mode = MultiInputMode::sum, .num_args = 2, .workspace = 1},
          {{1, 3, 4, 2}, {1, 3, 2, 2}});
  by_weights(rows, {.scale = 2, .num_filter = 3, .sample_type = UpSamplingType::bilinear, .num_args = 2}, {2, 3, 3, 4});
  by_weights(rows, {.scale = 3, .sample_type = UpSamplingType::bilinear, .num_args = 2}, {1, 2, 2, 3});
  by_weights(rows, {.scale = 1, .sample_type = UpSamplingType::bilinear, .num_args = 2}, {1, 2, 2, 3});

  crop(rows, {.h_w = {2, 3}}, {2, 3, 4, 5}, {2, 3}, {0, 0});
  crop(rows, {.offset = {1, 2}, .h_w = {2, 3}}, {1, 1, 3, 5}, {2, 3}, {1, 2});
  crop(rows, {.h_w = {2, 4}, .center_crop = true}, {1, 2, 5, 7}, {2, 4}, {1, 1});
  crop(rows, {.num_args = 2}, {2, 3, 4, 5}, {3, 2}, {0, 0});
  crop(rows, {.num_args = 2, .center_crop = true}, {0, 3, 4, 5}, {2, 3}, {1, 1});
  return rows;
}

}  // namespace kaon::test
