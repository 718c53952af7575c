// Rows of the test table: quantised arrays.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Numbers = std::vector<double>;

constexpr DType i8 = DType::int8, u8 = DType::uint8, i32 = DType::int32, f32 = DType::float32;

// --- Levels

double count_of(DType t) { return t == i8 ? 127.5 : t == u8 ? 255.5 : 2147483647.0; }
double whole_count_of(DType t) { return t == i8 ? 127 : t == u8 ? 255 : 2147483647.0; }

double bounded(double x, DType t) {
  const double least = t == u8   ? 0
                       : t == i8 ? -128
                                 : -2147483648.0,
               most = t == u8   ? 255
                      : t == i8 ? 127
                                : 2147483647.0;
  return std::isnan(x) ? 0 : std::clamp(x, least, most);
}
double nearest(double x, DType t) { return std::nearbyint(bounded(x, t)); }

double size_of_range(double min, double max) { return std::max(std::fabs(min), std::fabs(max)); }

Host levels(const Host& x, DType t, double per_unit) {
  Host out{x.shape, x.values, t};
  for (double& v : out.values) v = nearest(double(float(v) * float(per_unit)), t);  // ties fall as in float32
  return out;
}

Host number(double x) { return {Shape(1), {x}, f32}; }

// --- Inputs, whose dtypes do not follow the row

Input any_levels(const Shape& shape, DType t) { return index(shape, t == u8 ? 0 : -128, t == u8 ? 256 : 128, t); }
Input one(double x) { return index({1}, {x}, f32); }
Input numbers_of(const Shape& shape, double step = 1.0 / 64) {
  Numbers values;
  for (int64_t i = 0; i < shape.size(); ++i) values.push_back(double(i * 37 % 401 - 200) * step);
  return index(shape, values, f32);
}
// No number is within rounding of the middle of two levels.
Input without_ties(const Shape& shape) {
  Input out = numbers_of(shape);
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += 0.000137 * double(i % 11);
  return out;
}
Input positive_numbers(const Shape& shape) {
  Numbers values;
  for (int64_t i = 0; i < shape.size(); ++i) values.push_back(0.5 + double(i * 13 % 17) / 16);
  return index(shape, values, f32);
}

const RowOptions fixed{.differentiate = false};
const RowOptions refused{.differentiate = false, .refused = true};

// The range of a list of numbers.
std::pair<double, double> range_of(const Numbers& x) {
  if (x.empty()) return {0, 0};
  return {*std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end())};
}

void conversions(Rows& rows) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7, 2), Shape(0, 3), Shape(1)}) {
    for (QuantType type : {QuantType::int8, QuantType::uint8}) {
      const DType t = type == QuantType::int8 ? i8 : u8;
      rows.emplace_back(
          op::Quantize{.out_type = type}, std::vector{numbers_of(shape), one(-1.5), one(2)},
          [=](const Hosts& in) {
            const double r = size_of_range(in[1][0], in[2][0]);
            return Hosts{levels(in[0], t, whole_count_of(t) / r), number(t == i8 ? -r : in[1][0]),
                         number(t == i8 ? r : in[2][0])};
          },
          fixed);
    }
    for (QuantType type : {QuantType::int8, QuantType::uint8, QuantType::automatic}) {
      for (bool calibrated : {false, true}) {
        op::QuantizeV2 op{.out_type = type};
        if (calibrated) op.min_calib_range = 0.5f, op.max_calib_range = 1.75f;
        const DType t = type == QuantType::uint8 || (type == QuantType::automatic && calibrated) ? u8 : i8;
        rows.emplace_back(
            op, std::vector{numbers_of(shape)},
            [=](const Hosts& in) {
              auto [min, max] = calibrated ? std::pair(0.5, 1.75) : range_of(in[0].values);
              const double r = size_of_range(min, max);
              if (t == i8) min = -r, max = r;
              return Hosts{levels(in[0], t, r == 0 ? 0 : count_of(t) / r), number(min), number(max)};
            },
            fixed);
      }
    }
    for (bool calibrated : {false, true}) {
      op::QuantizeAsym op;
      if (calibrated) op.min_calib_range = -1.f, op.max_calib_range = 1.5f;
      rows.emplace_back(
          op, std::vector{without_ties(shape)},
          [=](const Hosts& in) {
            const auto [min, max] = calibrated ? std::pair(-1.0, 1.5) : range_of(in[0].values);
            const float scale = min == max ? 0.f : 255.f / float(max - min), shift = 255.f - float(max) * scale;
            Host out{in[0].shape, in[0].values, u8};
            for (double& x : out.values) x = bounded(std::floor(double(float(x) * scale + shift + 0.5f)), u8);
            return Hosts{out, number(scale), number(shift)};
          },
          fixed);
    }
    for (DType t : {i8, u8, i32}) {
      const Input data = t == i32 ? index(shape, -1000000, 1000000, t) : any_levels(shape, t);
      rows.emplace_back(
          op::Dequantize{}, std::vector{data, one(-1.5), one(0.75)},
          [=](const Hosts& in) {
            Host out{in[0].shape, in[0].values, f32};
            for (double& x : out.values) x *= 1.5 / count_of(t);
            return out;
          },
          RowOptions{.loosen = 4, .differentiate = false});
    }
    for (QuantType type : {QuantType::int8, QuantType::uint8, QuantType::automatic}) {
      for (bool calibrated : {false, true}) {
        op::Requantize op{.out_type = type};
        if (calibrated) op.min_calib_range = 0.f, op.max_calib_range = 0.37f;
        const DType t = type == QuantType::uint8 || (type == QuantType::automatic && calibrated) ? u8 : i8;
        rows.emplace_back(
            op, std::vector{index(shape, -999, 1000, i32), one(-1000000), one(700000)},
            [=](const Hosts& in) {
              const double level = 1000000 / 2147483647.0;
              const auto [min, max] = range_of(in[0].values);
              const double r = calibrated ? double(0.37f) : size_of_range(min, max) * level;
              return Hosts{levels(in[0], t, r == 0 ? 0 : level * whole_count_of(t) / r), number(t == i8 ? -r : 0),
                           number(r)};
            },
            fixed);
      }
    }
  }
  rows.emplace_back(op::Dequantize{.out_type = DType::float64}, std::vector{any_levels({2}, i8), one(-1), one(1)},
                    Reference(), refused);
  for (DType t : {i8, u8}) {  // levels pass
    const double all = count_of(t);
    rows.emplace_back(
        op::QuantizeV2{.out_type = t == i8 ? QuantType::int8 : QuantType::uint8}, std::vector{any_levels({2, 5}, t)},
        [=](const Hosts& in) {
          Host out = in[0];
          out.dtype = t;
          return Hosts{out, number(t == i8 ? -all : 0), number(all)};
        },
        fixed);
  }
}

// --- calibrate_entropy

// False where every bin is empty.
bool smooth(Numbers& p) {
  const double empty = double(std::count(p.begin(), p.end(), 0.0)), all = double(p.size());
  if (empty == all) return false;
  for (double& x : p) x += x == 0 ? 1e-4 : -1e-4 * empty / (all - empty);
  double sum = 0;
  for (double x : p) sum += x;
  for (double& x : p) x /= sum;
  return true;
}

void calibrate(Rows& rows, int64_t bins, int quantized) {
  Numbers hist, edges;
  for (int64_t i = 0; i < bins; ++i)
    hist.push_back(std::round(100 * std::exp(-0.002 * double((i - bins / 2) * (i - bins / 2)))) + double(i % 3));
  for (int64_t i = 0; i <= bins; ++i) edges.push_back(double(2 * i - bins) / 64);
  rows.emplace_back(
      op::CalibrateEntropy{.num_quantized_bins = quantized},
      std::vector{index({bins}, hist, f32), index({bins + 1}, edges, f32)},
      [=](const Hosts& in) {
        double best = std::numeric_limits<float>::max(), bound = in[1][size_t(bins / 2 + quantized / 2 + 1)];
        for (int64_t reach = quantized / 2; reach <= bins / 2; ++reach) {
          const int64_t begin = bins / 2 - reach, n = 2 * reach + 1, merged = n / quantized;
          Numbers p(size_t(n), 0), counted(size_t(n), 0), q(size_t(n), 0);
          for (int64_t i = 0; i < bins; ++i) {
            const int64_t at = std::clamp<int64_t>(i - begin, 0, n - 1);
            p[size_t(at)] += in[0][size_t(i)];
            if (i > begin && i < begin + n) counted[size_t(at)] = in[0][size_t(i)];
          }
          for (int64_t k = 0; k < quantized; ++k) {
            const int64_t from = k * merged, to = k == quantized - 1 ? n : from + merged;
            double sum = 0, filled = 0;
            for (int64_t i = from; i < to; ++i) sum += counted[size_t(i)], filled += counted[size_t(i)] != 0;
            for (int64_t i = from; i < to; ++i) {
              if (filled > 0 && p[size_t(i)] != 0) q[size_t(i)] = sum / filled;
            }
          }
          smooth(p);
          if (!smooth(q)) continue;
          double divergence = 0;
          for (size_t i = 0; i < p.size(); ++i) divergence += p[i] * std::log(p[i] / q[i]);
          if (divergence < best) best = divergence, bound = in[1][size_t(bins / 2 + reach + 1)];
        }
        return Hosts{number(bound), number(best)};
      },
      RowOptions{.loosen = 2000, .differentiate = false, .on_gpu = false});
}

// --- Operators of levels

Hosts with_range(Host data, const Hosts& in, size_t at) {
  return {std::move(data), number(in[at][0]), number(in[at + 1][0])};
}

void level_operators(Rows& rows) {
  for (DType t : {i8, u8}) {
    for (const Shape& shape : {Shape(3, 5), Shape(1, 3, 2), Shape(0, 3), Shape(7)}) {
      rows.emplace_back(
          op::QuantizedAct{}, std::vector{any_levels(shape, t), one(-1), one(2)},
          [=](const Hosts& in) {
            Host out{in[0].shape, in[0].values, t};
            for (double& x : out.values) x = std::max(x, 0.0);
            return with_range(out, in, 1);
          },
          fixed);
      rows.emplace_back(
          op::QuantizedFlatten{}, std::vector{any_levels(shape, t), one(-1), one(2)},
          [=](const Hosts& in) {
            Host out = in[0];
            out.shape = Shape(shape[0], shape.product(1, shape.ndim())), out.dtype = t;
            return with_range(out, in, 1);
          },
          fixed);
    }
  }
  rows.emplace_back(op::QuantizedAct{.act_type = ActivationType::tanh},
                    std::vector{any_levels({2}, i8), one(-1), one(2)}, Reference(), refused);
  for (const Shape& shape : {Shape(3, 5), Shape(1), Shape(0, 2)}) {
    rows.emplace_back(
        op::QuantizedEmbedding{.input_dim = 7, .output_dim = 3, .dtype = i8, .sparse_grad = true},
        std::vector{index(shape, 0, 7), any_levels({7, 3}, i8), one(-1), one(2)},
        [=](const Hosts& in) {
          Shape out = shape;
          out.push_back(3);
          Host y = generate(out, [&](const Shape& p) {
            return in[1].at({int64_t(in[0].at(without(p, -1))), p[p.ndim() - 1]});
          });
          y.dtype = i8;
          return with_range(y, in, 2);
        },
        fixed);
  }
}

void concat(Rows& rows, int dim, const std::vector<Shape>& shapes, const std::vector<DType>& dtypes) {
  std::vector<Input> inputs;
  const size_t n = shapes.size();
  for (size_t i = 0; i < n; ++i) inputs.push_back(any_levels(shapes[i], dtypes[i]));
  for (size_t i = 0; i < n; ++i)
    inputs.push_back(one(dtypes[i] == u8 ? 0 : -1.37)), inputs.push_back(one(1.5 + double(i)));
  const bool is_unsigned = std::count(dtypes.begin(), dtypes.end(), u8) == int64_t(n);
  rows.emplace_back(
      op::QuantizedConcat{.num_args = int(n), .dim = dim}, inputs,
      [=](const Hosts& in) {
        double min = 0, max = 0;
        for (size_t i = 0; i < n; ++i) min = std::min(min, in[n + 2 * i][0]), max = std::max(max, in[n + 2 * i + 1][0]);
        const DType t = is_unsigned ? u8 : i8;
        Shape shape = shapes[0];
        const int axis = dim < 0 ? dim + shape.ndim() : dim;
        shape[axis] = 0;
        for (const Shape& s : shapes) shape[axis] += s[axis];
        Host out = generate(shape, [&](const Shape& p) {
          int64_t at = p[axis];
          size_t i = 0;
          while (at >= shapes[i][axis]) at -= shapes[i++][axis];
          const double own = count_of(dtypes[i]) / size_of_range(in[n + 2 * i][0], in[n + 2 * i + 1][0]);
          const double all = count_of(t) / size_of_range(min, max), x = in[i].at(with(p, axis, at));
          return nearest(x * (all / own), t);
        });
        out.dtype = t;
        return Hosts{out, number(min), number(max)};
      },
      fixed);
}

void two_arrays(Rows& rows, const Shape& shape) {
  const std::vector<Input> ranges{one(-1), one(2), one(-3.3), one(1)};
  for (DType a : {i8, u8}) {
    for (DType b : {i8, u8}) {
      for (bool calibrated : {false, true}) {
        op::QuantizedElemwiseAdd op;
        if (calibrated) op.min_calib_range = -2.7f, op.max_calib_range = 3.1f;
        std::vector<Input> inputs{any_levels(shape, a), any_levels(shape, b)};
        inputs.insert(inputs.end(), ranges.begin(), ranges.end());
        rows.emplace_back(
            op, inputs,
            [=](const Hosts& in) {
              const double ra = 2, rb = double(3.3f), out_range = calibrated ? double(3.1f) : ra + rb;
              const DType t = !calibrated ? i32 : a == u8 && b == u8 ? u8 : i8;
              const float per_unit = float(count_of(t)) / float(out_range);
              // in float32, as sums in int32 have more digits
              const float sa = calibrated ? per_unit / (float(count_of(a)) / 2.f)
                                          : 2.f * 2147483648.f / (float(out_range) * float(count_of(a)));
              const float sb = calibrated ? per_unit / (float(count_of(b)) / 3.3f)
                                          : 3.3f * 2147483648.f / (float(out_range) * float(count_of(b)));
              Host out{shape, {}, t};
              for (size_t i = 0; i < in[0].values.size(); ++i) {
                float x = float(in[0][i]) * sa, y = float(in[1][i]) * sb;
                if (a != b && a == u8) x = float(nearest(x, i8));
                if (a != b && b == u8) y = float(nearest(y, i8));
                out.values.push_back(nearest(double(x + y), t));
              }
              return Hosts{out, number(calibrated ? double(-2.7f) : -out_range), number(out_range)};
            },
            fixed);
      }
    }
  }
  for (int form : {0, 1, 2}) {
    op::QuantizedElemwiseMul op{.enable_float_output = form == 2};
    if (form == 1) op.min_calib_range = -2.7f, op.max_calib_range = 3.1f;
    std::vector<Input> inputs{any_levels(shape, i8), any_levels(shape, i8)};
    inputs.insert(inputs.end(), ranges.begin(), ranges.end());
    rows.emplace_back(
        op, inputs,
        [=](const Hosts& in) {
          const double ra = 2, rb = double(3.3f), both = ra * rb / (127.5 * 127.5);
          const DType t = form == 0 ? i32 : form == 1 ? i8 : f32;
          Host out{shape, {}, t};
          for (size_t i = 0; i < in[0].values.size(); ++i) {
            const double product = in[0][i] * in[1][i];
            out.values.push_back(form == 0   ? product
                                 : form == 1 ? bounded(std::trunc(product * both * (127.5 / double(3.1f))), i8)
                                             : product * both);
          }
          if (form == 2) return Hosts{out};
          const double level = ra / 127 * (rb / 127);
          return Hosts{out, number(form == 1 ? double(-2.7f) : level * -2147483648.0),
                       number(form == 1 ? double(3.1f) : level * 2147483647.0)};
        },
        RowOptions{.loosen = 8, .differentiate = false});
  }
}

void batch_norm(Rows& rows, const op::QuantizedBatchNorm& given, const Shape& shape, DType t) {
  op::QuantizedBatchNorm op = given;
  op.min_calib_range = -2.5f, op.max_calib_range = 3.f;
  const int64_t k = shape[1];
  rows.emplace_back(
      op,
      std::vector{any_levels(shape, t), numbers_of({k}, 1.0 / 128), numbers_of({k}, 1.0 / 200),
                  numbers_of({k}, 1.0 / 300), positive_numbers({k}), one(-1.7), one(1.1)},
      [=](const Hosts& in) {
        Host out = generate(shape, [&](const Shape& p) {
          const auto at = [&](size_t i) { return in[i][size_t(p[1])]; };
          double x = in[0].at(p);
          if (t == u8) x = nearest(x * (127.5 / 255.5), i8);
          const double std = std::sqrt(at(4) + op.eps), range = double(1.7f);
          const double slope = at(1) / std * range / 3 / std::sqrt(1 + op.eps);
          return nearest(x * slope + (at(2) - at(3) * at(1) / std) * 127.5 / 3, i8);
        });
        out.dtype = i8;
        return Hosts{out, number(-2.5), number(3)};
      },
      fixed);
}

void pooling(Rows& rows, const op::QuantizedPooling& op, const Shape& shape, DType t) {
  rows.emplace_back(
      op, std::vector{any_levels(shape, t), one(-1), one(2)},
      [=](const Hosts& in) {
        int64_t kernel[2], stride[2] = {1, 1}, pad[2] = {0, 0}, size[2];
        for (int a : {0, 1}) {
          kernel[a] = op.global_pool ? shape[a + 2] : op.kernel[a];
          if (!op.global_pool && !op.stride.empty()) stride[a] = op.stride[a];
          if (!op.global_pool && !op.pad.empty()) pad[a] = op.pad[a];
          const double room = double(shape[a + 2] + 2 * pad[a] - kernel[a]) / double(stride[a]);
          size[a] = int64_t(op.pooling_convention == PoolingConvention::full ? std::ceil(room) : std::floor(room)) + 1;
          if (op.pooling_convention == PoolingConvention::same) size[a] = (shape[a + 2] + stride[a] - 1) / stride[a];
        }
        Host out = generate({shape[0], shape[1], size[0], size[1]}, [&](const Shape& p) {
          Numbers window;
          for (int64_t i = 0; i < kernel[0]; ++i) {
            for (int64_t j = 0; j < kernel[1]; ++j) {
              const int64_t y = p[2] * stride[0] - pad[0] + i, x = p[3] * stride[1] - pad[1] + j;
              if (y >= 0 && x >= 0 && y < shape[2] && x < shape[3]) window.push_back(in[0].at({p[0], p[1], y, x}));
            }
          }
          if (op.pool_type == PoolType::max)
            return window.empty() ? 0.0 : *std::max_element(window.begin(), window.end());
          double sum = 0;
          for (double x : window) sum += x;
          return std::nearbyint(
              sum / (op.count_include_pad.value_or(true) ? double(kernel[0] * kernel[1]) : double(window.size())));
        });
        out.dtype = t;
        return with_range(out, in, 1);
      },
      fixed);
}

// --- Layers

// Sums of products over the windows of one or two axes.
template <class Op>
Host convolution(const Op& op, const Host& x, const Host& w) {
  const int axes = op.kernel.ndim();
  const auto or_else = [&](const Shape& s, int a, int64_t d) { return s.empty() ? d : s[a]; };
  Shape out(x.shape[0], int64_t(op.num_filter));
  for (int a = 0; a < axes; ++a) {
    const int64_t room = x.shape[a + 2] + 2 * or_else(op.pad, a, 0) - or_else(op.dilate, a, 1) * (op.kernel[a] - 1) - 1;
    out.push_back(room / or_else(op.stride, a, 1) + 1);
  }
  const int64_t per_group = x.shape[1] / op.num_group;
  return generate(out, [&](const Shape& p) {
    double sum = 0;
    each(op.kernel, [&](const Shape& tap) {
      Shape at(p[0], int64_t(0));
      bool inside = true;
      for (int a = 0; a < axes; ++a) {
        at.push_back(p[a + 2] * or_else(op.stride, a, 1) - or_else(op.pad, a, 0) + tap[a] * or_else(op.dilate, a, 1));
        inside = inside && at.back() >= 0 && at.back() < x.shape[a + 2];
      }
      for (int64_t c = 0; inside && c < per_group; ++c) {
        at[1] = p[1] / (op.num_filter / op.num_group) * per_group + c;
        Shape weight(p[1], c);
        for (int64_t t : tap) weight.push_back(t);
        sum += x.at(at) * w.at(weight);
      }
    });
    return sum;
  });
}

Host dense(const Host& x, const Host& w, bool flatten) {
  const int64_t n = w.shape[0], k = w.shape[1];
  Shape out = flatten ? Shape(x.shape[0], n) : with(x.shape, -1, n);
  Host y = zeros(out);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t row = i / size_t(n), o = i % size_t(n);
    for (size_t j = 0; j < size_t(k); ++j) y.values[i] += x[row * size_t(k) + j] * w[o * size_t(k) + j];
  }
  return y;
}

int channel_axis(const Host& y, bool is_dense) { return is_dense ? y.shape.ndim() - 1 : 1; }

template <class F>
void per_channel(Host& y, bool is_dense, F f) {
  const int axis = channel_axis(y, is_dense);
  each(y.shape, [&](const Shape& p) { y.at(p) = f(y.at(p), size_t(p[axis])); });
}

// Both sums: data, weight and bias, then the range of each.
template <class Op, class Layer>
void sums(Rows& rows, const Op& op, const Shape& data, const Shape& weight, DType t, bool is_dense, Layer layer) {
  std::vector<Input> inputs{any_levels(data, t), any_levels(weight, i8)};
  if (!op.no_bias) inputs.push_back(any_levels({weight[0]}, i8));
  const Numbers ranges{-1, 2, -0.6, 0.3, -1.3, 1};
  for (size_t i = 0; i < (op.no_bias ? 4u : 6u); ++i) inputs.push_back(one(ranges[i]));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Host y = layer(in[0], in[1]);
        y.dtype = i32;
        const float scale = float(count_of(t)) / 2.f * (127.5f / 0.6f) * 1.3f / 127.5f;
        if (!op.no_bias)
          per_channel(y, is_dense, [&](double x, size_t o) { return x + std::trunc(double(float(in[2][o]) * scale)); });
        const double level = 2 / whole_count_of(t) * (double(0.6f) / 127);
        return Hosts{y, number(level * -2147483648.0), number(level * 2147483647.0)};
      },
      fixed);
}

double activated(FusedKind kind, double alpha, double x) {
  switch (kind) {
    case FusedKind::none: return x;
    case FusedKind::relu: return std::max(x, 0.0);
    case FusedKind::sigmoid: return 1 / (1 + std::exp(-x));
    case FusedKind::softrelu: return std::log1p(std::exp(x));
    case FusedKind::tanh: return std::tanh(x);
    case FusedKind::clip: return std::clamp(x, 0.0, alpha);
    case FusedKind::leaky: return x < 0 ? alpha * x : x;
    case FusedKind::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case FusedKind::abs: return std::fabs(x);
    case FusedKind::square: return x * x;
    case FusedKind::sqrt: return std::sqrt(x);
    case FusedKind::exp: return std::exp(x);
  }
  return x;
}

bool never_negative(FusedKind kind) {
  return kind != FusedKind::none && kind != FusedKind::tanh && kind != FusedKind::leaky && kind != FusedKind::gelu;
}

// Weights as levels, filter by filter or all alike; `per_unit` gets the levels per unit of each.
Host weight_levels(const Host& w, bool by_filter, Numbers& per_unit) {
  const size_t filters = size_t(w.shape[0]), size = w.values.size() / std::max<size_t>(filters, 1);
  const auto [least, most] = range_of(w.values);
  Host out = w;
  for (size_t o = 0; o < filters; ++o) {
    const Numbers own(w.values.begin() + int64_t(o * size), w.values.begin() + int64_t((o + 1) * size));
    const auto [a, b] = by_filter ? range_of(own) : std::pair(least, most);
    per_unit.push_back(double(127.5f / float(size_of_range(a, b))));
    for (size_t i = o * size; i < (o + 1) * size; ++i)
      out.values[i] = nearest(double(float(w[i]) * float(per_unit[o])), i8);
  }
  return out;
}

constexpr double data_range = 2, sum_range = 1.3;

template <class Op>
void fused_conv(Rows& rows, Op op, const Shape& data, DType t, bool calibrated = true, DType sum_dtype = i8) {
  Shape weight(int64_t(op.num_filter), data[1] / op.num_group);
  for (int64_t k : op.kernel) weight.push_back(k);
  const Shape out = convolution(op, zeros(data), zeros(weight)).shape;
  if (op.quantized && calibrated) op.min_calib_range = -7.3f, op.max_calib_range = 6.1f;
  std::vector<Input> inputs{op.quantized ? any_levels(data, t) : numbers_of(data), numbers_of(weight, 1.0 / 301)};
  if (!op.no_bias) inputs.push_back(numbers_of({op.num_filter}, 1.0 / 97));
  if (op.with_bn) {
    for (double step : {1.0 / 150, 1.0 / 170, 1.0 / 190}) inputs.push_back(numbers_of({op.num_filter}, step));
    inputs.push_back(positive_numbers({op.num_filter}));
  }
  if (op.with_sum) inputs.push_back(op.quantized ? any_levels(out, sum_dtype) : numbers_of(out));
  for (int i = 0; op.quantized && i < (op.with_sum ? 2 : 1); ++i) {
    inputs.push_back(one(-1)), inputs.push_back(one(i == 0 ? data_range : sum_range));
  }
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Host w = in[1];
        Numbers bias(size_t(op.num_filter), 0), per_unit;
        if (!op.no_bias) bias = in[2].values;
        if (op.with_bn) {
          const size_t at = op.no_bias ? 2 : 3, size = w.values.size() / size_t(op.num_filter);
          for (size_t o = 0; o < bias.size(); ++o) {
            const float alpha = float((op.fix_gamma ? 1 : in[at][o]) / std::sqrt(in[at + 3][o] + op.eps));
            bias[o] = double(float(in[at + 1][o]) + alpha * (float(bias[o]) - float(in[at + 2][o])));
            for (size_t i = o * size; i < (o + 1) * size; ++i) w.values[i] = double(float(w[i]) * alpha);
          }
        }
        const size_t sum_at = size_t(2 + !op.no_bias + (op.with_bn ? 4 : 0));
        if (!op.quantized) {
          Host y = convolution(op, in[0], w);
          per_channel(y, false, [&](double x, size_t o) { return activated(op.act, op.act_alpha, x + bias[o]); });
          for (size_t i = 0; op.with_sum && i < y.values.size(); ++i) {
            y.values[i] = activated(op.postsum_act, op.postsum_alpha, y[i] + in[sum_at][i]);
          }
          return Hosts{y};
        }
        const auto [least, most] = range_of(w.values);
        const double data_scale = count_of(t) / data_range;
        const Host levels = weight_levels(w, calibrated, per_unit);
        Host y = convolution(op, in[0], levels);
        const FusedKind last = op.with_sum ? op.postsum_act : op.act;
        y.dtype = !calibrated ? i32 : never_negative(last) ? u8 : i8;
        const double unit = calibrated ? count_of(*y.dtype) / double(7.3f) : data_scale * per_unit[0];
        const bool is_bias = !op.no_bias || op.with_bn;
        per_channel(y, false, [&](double x, size_t o) {
          const double scale = data_scale * per_unit[o];
          const double real = (x + (is_bias ? nearest(bias[o] * scale, i32) : 0)) / scale;
          return unit * activated(op.act, op.act_alpha, real);
        });
        for (size_t i = 0; i < y.values.size(); ++i) {
          if (op.with_sum) {
            const double other = in[sum_at][i] * double(1.3f) / count_of(sum_dtype);
            y.values[i] = unit * activated(op.postsum_act, op.postsum_alpha, y[i] / unit + other);
          }
          if (op.with_sum && y.dtype == u8 && sum_dtype == i8) y.values[i] = std::min(y[i], 127.0);
          y.values[i] = nearest(y[i], *y.dtype);
        }
        const double level = data_range / whole_count_of(t) * (size_of_range(least, most) / 127);
        return Hosts{y, number(calibrated ? double(-7.3f) : level * -2147483648.0),
                     number(calibrated ? double(6.1f) : level * 2147483647.0)};
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

template <class Op>
void fused_dense(Rows& rows, Op op, const Shape& data, DType t, bool calibrated = true) {
  const int64_t k = op.flatten ? data.product(1, data.ndim()) : data.back();
  const Shape weight(int64_t(op.num_hidden), k);
  const bool levels_given = op.quantized && !op.channel_wise_quantize;
  calibrated = calibrated && op.quantized && !op.enable_float_output;
  if (calibrated) op.min_calib_range = -7.3f, op.max_calib_range = 6.1f;
  std::vector<Input> inputs{op.quantized ? any_levels(data, t) : numbers_of(data),
                            levels_given ? any_levels(weight, i8) : numbers_of(weight, 1.0 / 301)};
  if (!op.no_bias)
    inputs.push_back(levels_given ? any_levels({op.num_hidden}, i8) : numbers_of({op.num_hidden}, 1.0 / 97));
  if (op.quantized) inputs.push_back(one(-1)), inputs.push_back(one(data_range));
  const Numbers ranges{-0.6, 0.3, -1.3, 1};
  for (size_t i = 0; levels_given && i < (op.no_bias ? 2u : 4u); ++i) inputs.push_back(one(ranges[i]));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Numbers bias(size_t(op.num_hidden), 0), per_unit;
        if (!op.no_bias) bias = in[2].values;
        if (!op.quantized) {
          Host y = dense(in[0], in[1], op.flatten);
          per_channel(y, true, [&](double x, size_t o) { return activated(op.act, op.act_alpha, x + bias[o]); });
          return Hosts{y};
        }
        const auto [least, most] = range_of(in[1].values);
        const bool by_filter = calibrated || op.enable_float_output;
        Host w = in[1];
        const double weight_range = levels_given ? double(0.6f) : size_of_range(least, most);
        if (levels_given) {
          per_unit.assign(bias.size(), double(127.5f / 0.6f));
          for (double& b : bias) b *= double(1.3f) / 127.5;
        } else {
          w = weight_levels(in[1], by_filter, per_unit);
        }
        Host y = dense(in[0], w, op.flatten);
        const double data_scale = count_of(t) / data_range;
        y.dtype = op.enable_float_output ? f32 : !calibrated ? i32 : never_negative(op.act) ? u8 : i8;
        const double unit = op.enable_float_output ? 1
                            : calibrated           ? count_of(*y.dtype) / double(7.3f)
                                                   : data_scale * per_unit[0];
        per_channel(y, true, [&](double x, size_t o) {
          const double scale = data_scale * per_unit[o];
          const double real = (x + (op.no_bias ? 0 : nearest(bias[o] * scale, i32))) / scale;
          const double result = unit * activated(op.act, op.act_alpha, real);
          return y.dtype == f32 ? result : nearest(result, *y.dtype);
        });
        if (op.enable_float_output) return Hosts{y};
        const double level = data_range / whole_count_of(t) * (weight_range / 127);
        return Hosts{y, number(calibrated ? double(-7.3f) : level * -2147483648.0),
                     number(calibrated ? double(6.1f) : level * 2147483647.0)};
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

// Both forms of a layer; the one for kernels takes quantised arrays only.
template <template <ops::FusedPart> class Op, class F>
void both_forms(Op<ops::FusedPart::file> op, const F& add) {
  add(op);
  if (!op.quantized) return;
  Op<ops::FusedPart::kernel> other;
  static_assert(sizeof(other) == sizeof(op));
  Op<ops::FusedPart::file>::fields(
      [&]<class M>(std::string_view name, M Op<ops::FusedPart::file>::*from, bool = false) {
        Op<ops::FusedPart::kernel>::fields(
            [&]<class N>(std::string_view same, N Op<ops::FusedPart::kernel>::*to, bool = false) {
              if constexpr (std::is_same_v<M, N>) {
                if (name == same) other.*to = op.*from;
              }
            });
      });
  add(other);
}

void conv_layers(Rows& rows) {
  const auto sum = [&](const op::QuantizedConv& op, const Shape& data, const Shape& weight, DType t) {
    sums(rows, op, data, weight, t, false, [=](const Host& x, const Host& w) { return convolution(op, x, w); });
  };
  for (DType t : {i8, u8}) {
    sum({.kernel = {3, 2}, .num_filter = 5}, {2, 3, 5, 4}, {5, 3, 3, 2}, t);
    sum({.kernel = {3, 3},
         .stride = {2, 1},
         .dilate = {1, 2},
         .pad = {1, 2},
         .num_filter = 4,
         .num_group = 2,
         .no_bias = true,
         .layout = ConvLayout::NCHW},
        {1, 6, 7, 5}, {4, 3, 3, 3}, t);
    sum({.kernel = {3}, .pad = {1}, .num_filter = 3}, {3, 2, 7}, {3, 2, 3}, t);
    sum({.kernel = {1, 1}, .num_filter = 33}, {1, 35, 6, 3}, {33, 35, 1, 1}, t);
    sum({.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16, .num_group = 16}, {1, 16, 5, 5}, {16, 1, 3, 3}, t);
    sum({.kernel = {1, 1}, .num_filter = 3}, {0, 2, 3, 3}, {3, 2, 1, 1}, t);
  }
  sum({.kernel = {2, 2, 2}, .num_filter = 3}, {1, 2, 3, 4, 3}, {3, 2, 2, 2, 2}, i8);
  const auto fused = [&](const op::SgConv& op, const Shape& data, DType t, bool calibrated = true, DType sum = i8) {
    both_forms<op::FusedConvOp>(op, [&](const auto& form) { fused_conv(rows, form, data, t, calibrated, sum); });
  };
  const op::SgConv plain{.quantized = true, .kernel = {3, 3}, .pad = {1, 1}, .num_filter = 5};
  auto with_norm = plain;
  with_norm.with_bn = true, with_norm.eps = 1e-2, with_norm.act = FusedKind::relu;
  auto residual = with_norm;
  residual.act = FusedKind::none, residual.with_sum = true, residual.fix_gamma = false;
  residual.postsum_act = FusedKind::relu, residual.no_bias = true;
  auto grouped = plain;
  grouped.num_filter = 6, grouped.num_group = 3, grouped.stride = {2, 1}, grouped.dilate = {1, 2},
  grouped.layout = ConvLayout::NCHW;
  grouped.with_sum = true;
  auto clipped = plain;
  clipped.act = FusedKind::clip, clipped.act_alpha = 3;
  auto leaky_sum = plain;
  leaky_sum.with_sum = true, leaky_sum.postsum_act = FusedKind::leaky, leaky_sum.postsum_alpha = 0.25;
  leaky_sum.act = FusedKind::tanh;
  for (DType t : {i8, u8}) {
    for (bool calibrated : {true, false}) {
      fused(plain, {2, 3, 5, 4}, t, calibrated);
      fused(with_norm, {1, 3, 7, 3}, t, calibrated);
      fused(residual, {2, 2, 4, 5}, t, calibrated);
      fused(grouped, {1, 6, 5, 7}, t, calibrated, u8);
      fused(clipped, {1, 2, 3, 5}, t, calibrated);
    }
    fused(leaky_sum, {1, 2, 3, 5}, t);
    fused(residual, {1, 2, 3, 3}, t, true, u8);
    for (FusedKind kind : {FusedKind::sigmoid, FusedKind::softrelu, FusedKind::gelu, FusedKind::abs}) {
      auto op = plain;
      op.act = kind;
      fused(op, {1, 2, 3, 3}, t);
    }
  }
  fused(plain, {0, 3, 5, 4}, i8);
  for (op::SgConv op : {plain, with_norm, residual, clipped}) {
    op.quantized = false;
    fused(op, {2, 3, 5, 4}, i8);
    fused(op, {0, 3, 5, 4}, i8);
  }
}

void dense_layers(Rows& rows) {
  for (DType t : {i8, u8}) {
    for (const bool no_bias : {true, false}) {
      const op::QuantizedFullyConnected op{.num_hidden = 5, .no_bias = no_bias};
      const auto layer = [](const Host& x, const Host& w) { return dense(x, w, true); };
      sums(rows, op, {3, 7, 2}, {5, 14}, t, true, layer);
      sums(rows, op, {1, 33}, {5, 33}, t, true, layer);
      sums(rows, op, {0, 3}, {5, 3}, t, true, layer);
    }
    sums(rows, op::QuantizedFullyConnected{.num_hidden = 3, .flatten = false}, {2, 3, 5}, {3, 5}, t, true,
         [](const Host& x, const Host& w) { return dense(x, w, false); });
  }
  const auto fused = [&](const op::SgFullyConnected& op, const Shape& data, DType t, bool calibrated = true) {
    both_forms<op::FusedFullyConnectedOp>(op, [&](const auto& form) { fused_dense(rows, form, data, t, calibrated); });
  };
  for (DType t : {i8, u8}) {
    for (bool channel_wise : {false, true}) {
      for (bool floats : {false, true}) {
        op::SgFullyConnected op{
            .quantized = true, .enable_float_output = floats, .channel_wise_quantize = channel_wise, .num_hidden = 7};
        for (bool calibrated : {true, false}) {
          op.act = FusedKind::none, op.no_bias = false, op.flatten = true;
          fused(op, {3, 5, 2}, t, calibrated);
          op.act = FusedKind::relu, op.no_bias = true, op.flatten = false;
          fused(op, {1, 3, 5}, t, calibrated);
        }
        op.act = FusedKind::clip, op.act_alpha = 2.4;
        fused(op, {1, 9}, t);
        op.act_alpha = 0;
        for (FusedKind kind :
             {FusedKind::sigmoid, FusedKind::tanh, FusedKind::gelu, FusedKind::square, FusedKind::exp}) {
          op.act = kind;
          fused(op, {2, 3}, t);
        }
      }
    }
  }
  fused({.quantized = true, .num_hidden = 7}, {0, 3}, i8);
  for (FusedKind kind : {FusedKind::none, FusedKind::relu, FusedKind::leaky, FusedKind::abs}) {
    fused({.num_hidden = 7, .act = kind, .act_alpha = kind == FusedKind::leaky ? 0.25 : 0}, {2, 3}, i8);
  }
  fused({.num_hidden = 7, .no_bias = true}, {0, 3}, i8);
}

}  // namespace

Rows quant_rows() {
  Rows rows;
  conversions(rows);
  calibrate(rows, 101, 31), calibrate(rows, 45, 16), calibrate(rows, 1, 1);
  level_operators(rows);
  concat(rows, 1, {{2, 3, 2}, {2, 1, 2}}, {i8, i8});
  concat(rows, -1, {{3, 2}, {3, 5}, {3, 1}}, {u8, i8, u8});
  concat(rows, 0, {{1, 3}, {0, 3}, {2, 3}}, {u8, u8, u8});
  for (const Shape& shape : {Shape(3, 5), Shape(1, 2, 7), Shape(0, 3)}) two_arrays(rows, shape);
  for (DType t : {i8, u8}) {
    batch_norm(rows, {}, {2, 3, 5}, t);
    batch_norm(rows, {.eps = 0.03, .momentum = 0.5f, .fix_gamma = false, .use_global_stats = true}, {1, 4, 3, 3}, t);
    batch_norm(rows, {}, {0, 3}, t);
    pooling(rows, {.kernel = {3, 2}}, {2, 3, 5, 4}, t);
    pooling(rows,
            {.kernel = {3, 3},
             .pool_type = PoolType::avg,
             .pooling_convention = PoolingConvention::full,
             .stride = {2, 2},
             .pad = {1, 1},
             .p_value = 2,
             .layout = ConvLayout::NCHW},
            {1, 2, 7, 6}, t);
    pooling(rows,
            {.kernel = {3, 3}, .pool_type = PoolType::avg, .stride = {2, 1}, .pad = {1, 0}, .count_include_pad = false},
            {1, 2, 7, 5}, t);
    pooling(rows, {.kernel = {3, 3}, .pooling_convention = PoolingConvention::same, .stride = {2, 2}}, {1, 3, 7, 6}, t);
    pooling(rows, {.pool_type = PoolType::avg, .global_pool = true}, {3, 2, 3, 5}, t);
    pooling(rows, {.kernel = {1, 1}}, {0, 2, 3, 3}, t);
  }
  rows.emplace_back(
      op::QuantizedBatchNorm{.output_mean_var = true, .axis = 2, .min_calib_range = -1.f, .max_calib_range = 1.f},
      std::vector{any_levels({2, 3}, i8), numbers_of({3}), numbers_of({3}), numbers_of({3}), positive_numbers({3}),
                  one(-1), one(1)},
      Reference(), refused);
  conv_layers(rows);
  dense_layers(rows);
  return rows;
}

}  // namespace kaon::test
