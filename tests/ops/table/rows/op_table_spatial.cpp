// Rows of the test table: samples of images, grids, correlation, deformable convolutions, maxima with their places.
#include <algorithm>
#include <cmath>

#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/pooling/pooling.h"
#include "kaon/ops/nn/spatial/spatial.h"
#include "kaon/tests/ops/table/detection_inputs.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

int64_t get(const Shape& s, int i, int64_t none) { return s.empty() ? none : s[i]; }

// Odd multiples of 1/16 from -range to range, which never lead to the middle of a pixel.
Input between(const Shape& shape, double range, uint32_t seed) {
  Numbers values = fractions(shape.size(), seed);
  for (double& v : values) v = (std::floor(v * range * 16) * 2 + 1 - range * 16) / 16;
  return in(shape, values);
}

// --- samples

// Two pixels of an axis with their weights and the derivatives of these.
struct Pair {
  int64_t pixel[2] = {0, 0};
  double weight[2] = {0, 0}, slope[2] = {0, 0};
  Pair(double at, int64_t size, bool edge) {
    if (std::isnan(at) || at < -1 || at >= double(size) || (edge && at < 0)) return;
    const double low = std::floor(at);
    if (edge && low >= double(size - 1)) {
      pixel[0] = size - 1, weight[0] = 1;
      return;
    }
    for (int k : {0, 1}) {
      const auto i = int64_t(low) + k;
      if (i < 0 || i >= size) continue;
      pixel[k] = i, weight[k] = k == 0 ? 1 - (at - low) : at - low, slope[k] = k == 0 ? -1 : 1;
    }
  }
};

// A pixel that a sample reads: where both are, and where the position and the mask of the sample are.
struct Corner {
  Shape sample, pixel, down, right, mask;
  double weight, by_down, by_right;  // the derivatives by the position's numbers
};

// Calls visit(corner) for those that have a weight or a derivative of it.
template <class Op>
void each_corner(const Op& op, const Shape& data, const Host& where, engine::FunctionRef<void(const Corner&)> visit) {
  const bool grid = op.kind == SampleKind::grid;
  const int64_t groups = grid ? 1 : op.num_deformable_group, taps = grid ? 1 : op.kernel.size();
  each({data[0], data[1], taps, where.shape[2], where.shape[3]}, [&](const Shape& p) {
    const int64_t n = p[0], c = p[1], tap = p[2], group = c / (data[1] / groups), row = (group * taps + tap) * 2;
    Corner corner;
    corner.down = Shape(n, grid ? 1 : row, p[3], p[4]), corner.right = Shape(n, grid ? 0 : row + 1, p[3], p[4]);
    corner.mask = Shape(n, group * taps + tap, p[3], p[4]);
    corner.sample = grid ? Shape(n, c, p[3], p[4]) : Shape(c * taps + tap, n, p[3] * where.shape[3] + p[4]);
    double at[2] = {where.at(corner.down), where.at(corner.right)}, step[2] = {1, 1};
    for (int a : {0, 1}) {
      if (grid) {
        step[a] = double(data[a + 2] - 1) / 2, at[a] = (at[a] + 1) * step[a];
      } else {
        const int64_t element = a == 0 ? tap / op.kernel[1] : tap % op.kernel[1];
        at[a] += double(p[a + 3] * get(op.stride, a, 1) - get(op.pad, a, 0) + element * get(op.dilate, a, 1));
      }
    }
    const bool edge = op.kind == SampleKind::deformed;
    const Pair y(at[0], data[2], edge), x(at[1], data[3], edge);
    for (int k = 0; k < 4; ++k) {
      corner.pixel = Shape(n, c, y.pixel[k / 2], x.pixel[k % 2]);
      corner.weight = y.weight[k / 2] * x.weight[k % 2];
      corner.by_down = y.slope[k / 2] * x.weight[k % 2] * step[0];
      corner.by_right = y.weight[k / 2] * x.slope[k % 2] * step[1];
      if (corner.weight != 0 || corner.by_down != 0 || corner.by_right != 0) visit(corner);
    }
  });
}

// The samples of data: inputs are data, positions and mask.
template <class Op>
Host samples(const Op& op, const Hosts& in, const Shape& out) {
  Host y = zeros(out);
  each_corner(op, in[0].shape, in[1], [&](const Corner& c) {
    const double mask = op.kind == SampleKind::modulated ? in[2].at(c.mask) : 1;
    if (c.weight * mask != 0) y.at(c.sample) += c.weight * mask * in[0].at(c.pixel);
  });
  return y;
}

void sample(Rows& rows, const op::SampleImages& op, const Shape& data, const Shape& where, uint32_t seed) {
  const bool grid = op.kind == SampleKind::grid, masked = op.kind == SampleKind::modulated;
  const int64_t taps = grid ? 1 : op.kernel.size();
  const Shape out =
      grid ? Shape(data[0], data[1], where[2], where[3]) : Shape(data[1] * taps, data[0], where[2] * where[3]);
  std::vector<Input> inputs{in(data), between(where, grid ? 1.5 : 2, seed)};
  if (masked) inputs.push_back(in({data[0], op.num_deformable_group * taps, where[2], where[3]}));
  rows.emplace_back(
      op, inputs, [=](const Hosts& in) { return samples(op, in, out); }, RowOptions{.loosen = 4, .loosen_gradient = 8});
  inputs[0] = in(out);
  for (Input& i : inputs) i = constant(i);
  rows.emplace_back(
      op.part<SamplePart::backward_data>(data), inputs,
      [=](const Hosts& in) {
        Host y = zeros(data);
        each_corner(op, data, in[1], [&](const Corner& c) {
          const double weight = c.weight * (masked ? in[2].at(c.mask) : 1);
          if (weight != 0) y.at(c.pixel) += weight * in[0].at(c.sample);
        });
        return y;
      },
      RowOptions{.loosen = 8, .differentiate = false});
  inputs.insert(inputs.begin() + 1, constant(in(data)));
  rows.emplace_back(
      op.part<SamplePart::backward_positions>(), inputs,
      [=](const Hosts& in) {
        Hosts y{zeros(where)};
        if (masked) y.push_back(zeros(in[3].shape));
        each_corner(op, data, in[2], [&](const Corner& c) {
          const double pixel = in[1].at(c.pixel), head = in[0].at(c.sample), mask = masked ? in[3].at(c.mask) : 1;
          if (c.by_down * mask != 0) y[0].at(c.down) += head * mask * c.by_down * pixel;
          if (c.by_right * mask != 0) y[0].at(c.right) += head * mask * c.by_right * pixel;
          if (masked && c.weight != 0) y[1].at(c.mask) += head * c.weight * pixel;
        });
        return y;
      },
      RowOptions{.loosen = 16, .differentiate = false});
}

void sampler(Rows& rows, const Shape& data, const Shape& grid, uint32_t seed) {
  rows.emplace_back(
      op::BilinearSampler{.cudnn_off = seed % 2 == 0}, std::vector{in(data), between(grid, 1.5, seed)},
      [=](const Hosts& in) {
        return samples(op::SampleImages{}, in, {data[0], data[1], grid[2], grid[3]});
      },
      RowOptions{.loosen = 4, .loosen_gradient = 8});
}

// --- grids

Host affine_grid(const Host& loc, const Shape& size) {
  const auto line = [](int64_t i, int64_t n) { return n == 1 ? 0 : 2 * double(i) / double(n - 1) - 1; };
  return generate(Shape(loc.shape[0], 2, size[0], size[1]), [&](const Shape& p) {
    const auto number = [&](int64_t i) { return loc.at({p[0], p[1] * 3 + i}); };
    return number(0) * line(p[3], size[1]) + number(1) * line(p[2], size[0]) + number(2);
  });
}

void grids(Rows& rows) {
  const auto affine = [&](int64_t n, const Shape& size) {
    rows.emplace_back(
        op::GridGenerator{.target_shape = size}, std::vector{in({n, 6})},
        [=](const Hosts& in) { return affine_grid(in[0], size); }, RowOptions{.loosen = 4, .loosen_gradient = 8});
  };
  affine(2, {3, 4}), affine(1, {1, 5}), affine(3, {2, 1}), affine(0, {2, 2});
  const auto warp = [&](const Shape& data) {
    rows.emplace_back(
        op::GridGenerator{.transform_type = GridTransform::warp}, std::vector{in(data)},
        [=](const Hosts& in) {
          return generate(data, [&](const Shape& p) {
            const int axis = p[1] == 0 ? 3 : 2;
            return 2 * (double(p[axis]) + in[0].at(p)) / double(data[axis] - 1) - 1;
          });
        },
        RowOptions{.loosen = 4, .loosen_gradient = 4});
  };
  warp({2, 2, 3, 5}), warp({1, 2, 2, 2}), warp({0, 2, 2, 2});
  const auto transformer = [&](const Shape& data, const Shape& size) {
    Numbers loc;
    for (int64_t i = 0; i < data[0]; ++i) {
      for (double v : {0.8125, -0.4375, 0.1875, 0.375, 0.9375, -0.0625}) loc.push_back(v * (1 - double(i) / 4));
    }
    rows.emplace_back(
        op::SpatialTransformer{.target_shape = size, .cudnn_off = true}, std::vector{in(data), in({data[0], 6}, loc)},
        [=](const Hosts& in) {
          return samples(op::SampleImages{}, {in[0], affine_grid(in[1], size)}, {data[0], data[1], size[0], size[1]});
        },
        RowOptions{.loosen = 8, .loosen_gradient = 8});
  };
  transformer({2, 3, 5, 4}, {3, 4}), transformer({1, 1, 6, 3}, {2, 5}), transformer({0, 2, 3, 3}, {2, 2});
}

// --- correlation

// Calls visit(result, place in data1, place in data2, both without the pads) for all terms; a place may be outside.
template <class Op>
void each_term(const Op& op, const Shape& data, const Shape& out,
               engine::FunctionRef<void(const Shape&, const Shape&, const Shape&)> visit) {
  const int64_t radius = op.max_displacement / op.stride2, across = 2 * radius + 1;
  each(out, [&](const Shape& p) {
    each({data[1], op.kernel_size, op.kernel_size}, [&](const Shape& k) {
      const int64_t y = p[2] * op.stride1 + op.max_displacement + k[1] - op.pad_size;
      const int64_t x = p[3] * op.stride1 + op.max_displacement + k[2] - op.pad_size;
      visit(p, {p[0], k[0], y, x},
            {p[0], k[0], y + (p[1] / across - radius) * op.stride2, x + (p[1] % across - radius) * op.stride2});
    });
  });
}

double pixel(const Host& image, const Shape& p) {
  return p[2] >= 0 && p[2] < image.shape[2] && p[3] >= 0 && p[3] < image.shape[3] ? image.at(p) : 0;
}

void correlation(Rows& rows, const op::Correlation& op, const Shape& data, const Shape& out) {
  const double terms = std::max(1.0, double(data[1]) * op.kernel_size * op.kernel_size);
  rows.emplace_back(
      op, std::vector{in(data), in(data)},
      [=](const Hosts& in) {
        Host y = zeros(out);
        each_term(op, data, out, [&](const Shape& to, const Shape& p, const Shape& q) {
          const double a = pixel(in[0], p), b = pixel(in[1], q);
          y.at(to) += (op.is_multiply ? a * b : std::abs(a - b)) / terms;
        });
        return y;
      },
      RowOptions{.loosen = 8, .loosen_gradient = 8});
  rows.emplace_back(
      op::BackwardCorrelation{op.kernel_size, op.max_displacement, op.stride1, op.stride2, op.pad_size, op.is_multiply},
      std::vector{constant(in(out)), constant(in(data)), constant(in(data))},
      [=](const Hosts& in) {
        Hosts y{zeros(data), zeros(data)};
        const auto slope = [&](double a, double b) { return op.is_multiply ? b : a >= b ? 1 : a < b ? -1 : a - b; };
        each_term(op, data, out, [&](const Shape& from, const Shape& p, const Shape& q) {
          const double a = pixel(in[1], p), b = pixel(in[2], q), head = in[0].at(from) / terms;
          const auto add = [&](Host& to, const Shape& at, double v) {
            if (at[2] >= 0 && at[2] < data[2] && at[3] >= 0 && at[3] < data[3]) to.at(at) += head * v;
          };
          add(y[0], p, slope(a, b)), add(y[1], q, op.is_multiply ? a : -slope(a, b));
        });
        return y;
      },
      RowOptions{.loosen = 16, .differentiate = false});
}

void correlations(Rows& rows) {
  correlation(rows, {}, {2, 3, 4, 5}, {2, 9, 2, 3});
  correlation(rows, {.max_displacement = 2, .stride1 = 2, .pad_size = 3}, {1, 2, 4, 3}, {1, 25, 3, 3});
  correlation(rows, {.kernel_size = 3, .max_displacement = 3, .stride2 = 2, .pad_size = 4, .is_multiply = false},
              {1, 2, 3, 2}, {1, 9, 3, 2});
  correlation(rows, {.max_displacement = 0}, {1, 1, 1, 1}, {1, 1, 1, 1});
  correlation(rows, {.pad_size = 1}, {0, 2, 2, 2}, {0, 9, 2, 2});
}

// --- deformable convolutions

template <class Op>
void deformable(Rows& rows, const Op& op, const Shape& data, const Shape& out, uint32_t seed) {
  constexpr bool masked = std::is_same_v<Op, op::ModulatedDeformableConvolution>;
  const int64_t taps = op.kernel.size(), groups = op.num_deformable_group, per_group = data[1] / op.num_group;
  std::vector<Input> inputs{in(data), between({data[0], groups * taps * 2, out[2], out[3]}, 2, seed)};
  if (masked) inputs.push_back(in({data[0], groups * taps, out[2], out[3]}, Fill::unit));
  inputs.push_back(in({int64_t(op.num_filter), per_group, op.kernel[0], op.kernel[1]}, Fill::unit));
  if (!op.no_bias) inputs.push_back(in({int64_t(op.num_filter)}));
  const op::SampleImages columns{.kind = masked ? SampleKind::modulated : SampleKind::deformed,
                                 .kernel = op.kernel,
                                 .stride = op.stride,
                                 .dilate = op.dilate,
                                 .pad = op.pad,
                                 .num_deformable_group = op.num_deformable_group};
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        const Host x = samples(columns, in, {data[1] * taps, data[0], out[2] * out[3]});
        const Host &weight = in[masked ? 3 : 2], *bias = op.no_bias ? nullptr : &in.back();
        return generate(out, [&](const Shape& p) {
          double sum = bias ? (*bias)[size_t(p[1])] : 0;
          const int64_t first = p[1] / (op.num_filter / op.num_group) * per_group;
          each({per_group, op.kernel[0], op.kernel[1]}, [&](const Shape& k) {
            const int64_t row = ((first + k[0]) * op.kernel[0] + k[1]) * op.kernel[1] + k[2];
            sum += weight.at({p[1], k[0], k[1], k[2]}) * x.at({row, p[0], p[2] * out[3] + p[3]});
          });
          return sum;
        });
      },
      RowOptions{.loosen = 16, .loosen_gradient = 32});
}

template <class Op>
void deformables(Rows& rows) {
  deformable(rows, Op{.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 3}, {2, 2, 4, 3}, {2, 3, 4, 3}, 1);
  deformable(rows,
             Op{.kernel = {2, 3},
                .stride = {2, 1},
                .dilate = {1, 2},
                .pad = {0, 2},
                .num_filter = 4,
                .num_group = 2,
                .num_deformable_group = 2,
                .no_bias = true},
             {1, 4, 5, 3}, {1, 4, 2, 3}, 2);
  deformable(rows, Op{.kernel = {1, 1}, .num_filter = 1, .layout = ConvLayout::NCHW}, {1, 1, 1, 1}, {1, 1, 1, 1}, 3);
  deformable(rows, Op{.kernel = {2, 2}, .num_filter = 2}, {0, 2, 3, 3}, {0, 2, 2, 2}, 4);
}

// --- maxima with their places

void places(Rows& rows, const op::MaxPoolIndices& op, const Shape& data, const Shape& out) {
  const int axes = data.ndim() - 2;
  rows.emplace_back(op, std::vector{in(data, Fill::distinct)}, [=](const Hosts& in) {
    Host best = zeros(out, -INFINITY), found = zeros(out, -1);
    found.dtype = DType::int64;
    Shape kernel = op.kernel;
    if (op.global_pool) kernel = axes == 1 ? Shape(data[2]) : Shape(data[2], data[3]);
    each(out, [&](const Shape& p) {
      each(kernel, [&](const Shape& k) {
        Shape at = p;
        int64_t place = 0;
        for (int a = 0; a < axes; ++a) {
          at[a + 2] = p[a + 2] * get(op.stride, a, 1) - get(op.pad, a, 0) + k[a] * get(op.dilation, a, 1);
          if (at[a + 2] < 0 || at[a + 2] >= data[a + 2]) return;
          place = place * data[a + 2] + at[a + 2];
        }
        const double v = in[0].at(at);
        if (found.at(p) >= 0 && !(v > best.at(p)) && !(std::isnan(v) && !std::isnan(best.at(p)))) return;
        best.at(p) = v, found.at(p) = double(place);
      });
    });
    return Hosts{best, found};
  });
}

// The image and the place in it of an element.
Shape at_place(const Shape& p, int64_t place, const Shape& sizes) {
  Shape at(p[0], p[1]);
  for (int64_t s : sizes) at.push_back(s);
  for (int a = sizes.ndim() - 1; a >= 0; --a) at[a + 2] = place % sizes[a], place /= sizes[a];
  return at;
}

void by_places(Rows& rows, const Shape& data, const Shape& sizes, const Numbers& places) {
  const Input indices = index(data, places, DType::int64);
  Shape images(data[0], data[1]);
  for (int64_t s : sizes) images.push_back(s);
  const auto fill = [=](const Hosts& in, bool add) {
    Host y = zeros(images);
    each(data, [&](const Shape& p) {
      const auto place = int64_t(in[1].at(p));
      if (place < 0) return;
      double& to = y.at(at_place(p, place, sizes));
      to = (add ? to : 0) + in[0].at(p);
    });
    return y;
  };
  rows.emplace_back(
      op::MaxUnpool{.output_size = sizes}, std::vector{in(data), indices},
      [=](const Hosts& in) { return fill(in, false); }, RowOptions{.dtypes = every_dtype});
  rows.emplace_back(
      op::BackwardMaxPoolIndices{.output_size = sizes}, std::vector{in(data), indices},
      [=](const Hosts& in) { return fill(in, true); }, RowOptions{.loosen = 4});
  rows.emplace_back(
      op::PlaneTake{}, std::vector{in(images), indices},
      [=](const Hosts& in) {
        return generate(data, [&](const Shape& p) {
          const auto place = int64_t(in[1].at(p));
          return place < 0 ? 0 : in[0].at(at_place(p, place, sizes));
        });
      },
      RowOptions{.dtypes = every_dtype});
}

}  // namespace

Rows spatial_rows() {
  Rows rows;
  sample(rows, {}, {2, 3, 5, 4}, {2, 2, 3, 4}, 1);
  sample(rows, {}, {1, 1, 1, 1}, {1, 2, 2, 1}, 2), sample(rows, {}, {0, 2, 3, 3}, {0, 2, 2, 2}, 3);
  sample(rows, {}, {1, 17, 3, 6}, {1, 2, 1, 19}, 4), sample(rows, {}, {1, 2, 3, 6}, {1, 2, 0, 3}, 5);
  for (SampleKind kind : {SampleKind::deformed, SampleKind::modulated}) {
    sample(rows, {.kind = kind, .kernel = {2, 3}, .pad = {1, 1}}, {2, 2, 3, 4}, {2, 12, 4, 4}, 6);
    sample(
        rows,
        {.kind = kind, .kernel = {2, 2}, .stride = {2, 1}, .dilate = {1, 2}, .pad = {0, 1}, .num_deformable_group = 2},
        {1, 4, 5, 3}, {1, 16, 2, 3}, 7);
    sample(rows, {.kind = kind, .kernel = {1, 1}}, {1, 1, 1, 1}, {1, 2, 1, 1}, 8);
    sample(rows, {.kind = kind, .kernel = {1, 1}}, {0, 1, 2, 2}, {0, 2, 2, 2}, 9);
  }
  sampler(rows, {2, 3, 5, 4}, {2, 2, 3, 4}, 10), sampler(rows, {1, 2, 3, 7}, {1, 2, 1, 5}, 11);
  sampler(rows, {0, 2, 3, 3}, {0, 2, 2, 2}, 12);
  grids(rows), correlations(rows);
  deformables<op::DeformableConvolution>(rows), deformables<op::ModulatedDeformableConvolution>(rows);
  places(rows, {.kernel = {2, 2}}, {2, 3, 4, 5}, {2, 3, 3, 4});
  places(rows, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1}, .dilation = {1, 2}}, {1, 2, 5, 4}, {1, 2, 3, 4});
  places(rows, {.kernel = {2}, .pooling_convention = PoolingConvention::full, .stride = {2}}, {1, 1, 5}, {1, 1, 3});
  places(rows, {.global_pool = true}, {1, 3, 3, 2}, {1, 3, 1, 1});
  places(rows, {.kernel = {2, 1, 2}}, {1, 1, 2, 2, 3}, {1, 1, 1, 2, 2}),
      places(rows, {.kernel = {1}}, {0, 2, 3}, {0, 2, 3});
  by_places(rows, {2, 1, 2, 2}, {3, 3}, {0, 4, 8, -1, 3, 2, 1, 7}), by_places(rows, {1, 1, 1}, {1}, {0});
  by_places(rows, {0, 2, 1}, {3}, {});
  return rows;
}

}  // namespace kaon::test
