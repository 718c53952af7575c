// Rows of convolution, pooling and the normalisations.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

// An attribute of a window that may be missing.
int64_t get(const Shape& s, int i, int64_t otherwise) { return s.empty() ? otherwise : s[i]; }

// Where tap k of the window at position p lies in the data, per spatial axis; false when outside.
template <class Op>
bool tap(const Op& op, const Shape& data, const Shape& p, const Shape& k, Shape& at) {
  for (int i = 0; i < op.kernel.ndim(); ++i) {
    const int64_t x = p[i + 2] * get(op.stride, i, 1) - get(op.pad, i, 0) + k[i] * get(op.dilate, i, 1);
    if (x < 0 || x >= data[i + 2]) return false;
    at[i + 2] = x;
  }
  return true;
}

Shape join(int64_t a, int64_t b, const Shape& rest) {
  Shape s(a, b);
  for (int64_t d : rest) s.push_back(d);
  return s;
}

// Calls f(position in the data, position in the weight, position in the output) for each product of a convolution.
template <class Op, class F>
void each_product(const Op& op, const Shape& data, const Shape& out, F f) {
  const int64_t inputs = data[1] / op.num_group, outputs = op.num_filter / op.num_group;
  each(out, [&](const Shape& p) {
    each(op.kernel, [&](const Shape& k) {
      Shape at = data;
      if (!tap(op, data, p, k, at)) return;
      for (int64_t c = 0; c < inputs; ++c) {
        at[0] = p[0], at[1] = p[1] / outputs * inputs + c;
        f(at, join(p[1], c, k), p);
      }
    });
  });
}

template <class Op>
Shape convolved(const Op& op, const Shape& data) {
  Shape out(data[0], int64_t(op.num_filter));
  for (int i = 0; i < op.kernel.ndim(); ++i) {
    out.push_back((data[i + 2] + 2 * get(op.pad, i, 0) - get(op.dilate, i, 1) * (op.kernel[i] - 1) - 1) /
                      get(op.stride, i, 1) +
                  1);
  }
  return out;
}

// x with its second axis moved to the end, or its last axis moved to the second place.
Host moved(const Host& x, bool to_the_end) {
  if (x.shape.ndim() < 3) return x;
  const auto last = [](const Shape& first) {
    Shape s(first[0]);
    for (int i = 2; i < first.ndim(); ++i) s.push_back(first[i]);
    s.push_back(first[1]);
    return s;
  };
  const int n = x.shape.ndim();
  Shape first(x.shape[0], x.shape[n - 1]);
  for (int i = 1; i + 1 < n; ++i) first.push_back(x.shape[i]);
  if (to_the_end)
    return generate(last(x.shape), [&](const Shape& p) {
      Shape from(p[0], p[n - 1]);
      for (int i = 1; i + 1 < n; ++i) from.push_back(p[i]);
      return x.at(from);
    });
  return generate(first, [&](const Shape& p) { return x.at(last(p)); });
}

Hosts moved(Hosts all, bool to_the_end) {
  for (Host& x : all) x = moved(x, to_the_end);
  return all;
}

// The rows from `first` on have a layout with the channels last, but shapes and references of channels first.
void move_channels_last(Rows& rows, size_t first) {
  for (size_t i = first; i < rows.size(); ++i) {
    for (Input& in : rows[i].inputs) {
      Host host{.shape = in.shape, .values = in.values};
      if (in.values.empty()) host.values.resize(size_t(in.shape.size()));
      host = moved(host, true);
      in.shape = host.shape;
      if (!in.values.empty()) in.values = host.values;
    }
    if (!rows[i].reference) continue;
    rows[i].reference = [reference = rows[i].reference](const Hosts& given) {
      return moved(reference(moved(given, false)), true);
    };
  }
}

Host channel_sums(const Host& x) {
  Host sums = zeros({x.shape[1]});
  each(x.shape, [&](const Shape& p) { sums.values[size_t(p[1])] += x.at(p); });
  return sums;
}

void convolution(Rows& rows, const op::Convolution& op, const Shape& data) {
  const Shape out = convolved(op, data), weight = join(op.num_filter, data[1] / op.num_group, op.kernel);
  std::vector<Input> inputs{in(data), in(weight)};
  if (!op.no_bias) inputs.push_back(in({int64_t(op.num_filter)}));
  const RowOptions loose{.loosen = 2, .loosen_gradient = 2};
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Host y = zeros(out);
        if (!op.no_bias) each(out, [&](const Shape& p) { y.at(p) = in[2][size_t(p[1])]; });
        each_product(op, data, out,
                     [&](const Shape& x, const Shape& w, const Shape& p) { y.at(p) += in[0].at(x) * in[1].at(w); });
        return y;
      },
      loose);
  rows.emplace_back(
      op.part<ConvPart::backward_data>(true), std::vector{in(out), in(weight), constant(in(data))},
      [=](const Hosts& in) {
        Host dx = zeros(data);
        each_product(op, data, out,
                     [&](const Shape& x, const Shape& w, const Shape& p) { dx.at(x) += in[0].at(p) * in[1].at(w); });
        return dx;
      },
      loose);
  auto back = op.part<ConvPart::backward_weight>(op.no_bias);
  rows.emplace_back(
      back, std::vector{in(out), in(data)},
      [=](const Hosts& in) {
        Host dw = zeros(weight);
        each_product(op, data, out,
                     [&](const Shape& x, const Shape& w, const Shape& p) { dw.at(w) += in[0].at(p) * in[1].at(x); });
        return op.no_bias ? Hosts{dw} : Hosts{dw, channel_sums(in[0])};
      },
      loose);
}

void add_convolutions(Rows& rows) {
  convolution(rows, {.kernel = {3, 3}, .num_filter = 4}, {2, 3, 5, 6});
  convolution(rows, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .num_filter = 5}, {1, 3, 7, 5});
  convolution(rows, {.kernel = {3, 3}, .dilate = {2, 1}, .pad = {2, 1}, .num_filter = 2, .no_bias = true},
              {2, 2, 5, 4});
  convolution(rows, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 4, .num_group = 2}, {1, 4, 4, 3});
  convolution(rows, {.kernel = {3, 3}, .num_filter = 3, .num_group = 3, .layout = ConvLayout::NCHW}, {2, 3, 4, 4});
  convolution(rows, {.kernel = {1, 1}, .num_filter = 7}, {3, 5, 2, 3});
  convolution(rows, {.kernel = {3}, .stride = {2}, .num_filter = 3}, {2, 3, 7});
  convolution(rows, {.kernel = {3}, .num_filter = 3, .layout = ConvLayout::NCW}, {1, 1, 7});
  convolution(rows, {.kernel = {2, 1, 3}, .pad = {0, 1, 1}, .num_filter = 2}, {1, 2, 3, 2, 3});
  convolution(rows, {.kernel = {3, 3}, .num_filter = 4}, {0, 3, 5, 6});
  rows.emplace_back(op::Convolution{.kernel = {3, 3}, .num_filter = 4, .layout = ConvLayout::NDHWC},
                    std::vector{in({1, 5, 5, 3}), in({4, 3, 3, 3}), in({4})}, Reference(), RowOptions{.refused = true});
  const size_t first = rows.size();
  constexpr auto nwc = ConvLayout::NWC, nhwc = ConvLayout::NHWC, ndhwc = ConvLayout::NDHWC;
  convolution(rows, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .num_filter = 5, .layout = nhwc}, {1, 3, 7, 5});
  convolution(rows,
              {.kernel = {3, 3}, .dilate = {2, 1}, .pad = {2, 1}, .num_filter = 2, .no_bias = true, .layout = nhwc},
              {2, 2, 5, 4});
  convolution(rows, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 4, .num_group = 2, .layout = nhwc}, {1, 4, 4, 3});
  convolution(rows, {.kernel = {3, 3}, .num_filter = 3, .num_group = 3, .layout = nhwc}, {2, 3, 4, 4});
  convolution(rows, {.kernel = {1, 1}, .num_filter = 7, .layout = nhwc}, {3, 5, 2, 3});
  convolution(rows, {.kernel = {1, 1}, .stride = {2, 2}, .num_filter = 16, .layout = nhwc}, {2, 16, 3, 3});
  convolution(rows, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 17, .layout = nhwc}, {1, 19, 3, 2});
  convolution(rows, {.kernel = {3}, .stride = {2}, .num_filter = 3, .layout = nwc}, {2, 3, 7});
  convolution(rows, {.kernel = {3}, .num_filter = 3, .layout = nwc}, {1, 1, 7});
  convolution(rows, {.kernel = {2, 1, 3}, .pad = {0, 1, 1}, .num_filter = 2, .layout = ndhwc}, {1, 2, 3, 2, 3});
  convolution(rows, {.kernel = {3, 3}, .num_filter = 4, .layout = nhwc}, {0, 3, 5, 6});
  move_channels_last(rows, first);
}

void deconvolution(Rows& rows, const op::Deconvolution& op, const Shape& data, const Shape& out, const Shape& pad) {
  // the convolution that leads from the result back to the data
  op::Deconvolution mirror = op;
  mirror.pad = pad, mirror.num_filter = int(data[1]);
  const Shape weight = join(data[1], op.num_filter / op.num_group, op.kernel);
  std::vector<Input> inputs{in(data), in(weight)};
  if (!op.no_bias) inputs.push_back(in({int64_t(op.num_filter)}));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Host y = zeros(out);
        if (!op.no_bias) each(out, [&](const Shape& p) { y.at(p) = in[2][size_t(p[1])]; });
        each_product(mirror, out, data,
                     [&](const Shape& at, const Shape& w, const Shape& p) { y.at(at) += in[0].at(p) * in[1].at(w); });
        return y;
      },
      RowOptions{.loosen = 2, .loosen_gradient = 2});
}

void add_deconvolutions(Rows& rows) {
  deconvolution(rows, {.kernel = {3, 3}, .num_filter = 4}, {2, 3, 3, 2}, {2, 4, 5, 4}, {0, 0});
  deconvolution(rows,
                {.kernel = {3, 2}, .stride = {2, 3}, .pad = {1, 0}, .adj = {1, 2}, .num_filter = 2, .no_bias = false},
                {1, 3, 3, 2}, {1, 2, 6, 7}, {1, 0});
  deconvolution(rows, {.kernel = {3, 3}, .dilate = {1, 2}, .num_filter = 4, .num_group = 2, .layout = ConvLayout::NCHW},
                {1, 2, 2, 3}, {1, 4, 4, 7}, {0, 0});
  deconvolution(rows, {.kernel = {4, 4}, .stride = {2, 2}, .target_shape = {6, 6}, .num_filter = 1}, {1, 2, 3, 3},
                {1, 1, 6, 6}, {1, 1});
  deconvolution(rows, {.kernel = {3}, .stride = {2}, .num_filter = 3}, {1, 1, 7}, {1, 3, 15}, {0});
  deconvolution(rows, {.kernel = {3}, .stride = {2}, .target_shape = {6}, .num_filter = 1}, {1, 1, 3}, {1, 1, 6}, {1});
  // adj is not read then
  deconvolution(rows, {.kernel = {3}, .stride = {2}, .adj = {9}, .target_shape = {6}, .num_filter = 1}, {1, 1, 3},
                {1, 1, 6}, {1});
  deconvolution(rows, {.kernel = {3, 3}, .num_filter = 2}, {0, 3, 3, 2}, {0, 2, 5, 4}, {0, 0});
  rows.emplace_back(op::Deconvolution{.kernel = {3}, .target_shape = {4}, .num_filter = 1},
                    std::vector{in({1, 1, 3}), in({1, 1, 3})}, Reference(), RowOptions{.refused = true});
  const size_t first = rows.size();
  constexpr auto nwc = ConvLayout::NWC, nhwc = ConvLayout::NHWC, ndhwc = ConvLayout::NDHWC;
  deconvolution(rows,
                {.kernel = {3, 2},
                 .stride = {2, 3},
                 .pad = {1, 0},
                 .adj = {1, 2},
                 .num_filter = 2,
                 .no_bias = false,
                 .layout = nhwc},
                {1, 3, 3, 2}, {1, 2, 6, 7}, {1, 0});
  deconvolution(rows, {.kernel = {3, 3}, .dilate = {1, 2}, .num_filter = 4, .num_group = 2, .layout = nhwc},
                {1, 2, 2, 3}, {1, 4, 4, 7}, {0, 0});
  deconvolution(rows, {.kernel = {4, 4}, .stride = {2, 2}, .target_shape = {6, 6}, .num_filter = 1, .layout = nhwc},
                {1, 2, 3, 3}, {1, 1, 6, 6}, {1, 1});
  deconvolution(rows, {.kernel = {3}, .stride = {2}, .num_filter = 3, .no_bias = false, .layout = nwc}, {1, 1, 7},
                {1, 3, 15}, {0});
  deconvolution(rows, {.kernel = {2, 1, 2}, .num_filter = 3, .layout = ndhwc}, {2, 2, 2, 1, 3}, {2, 3, 3, 1, 4},
                {0, 0, 0});
  deconvolution(rows, {.kernel = {3, 3}, .num_filter = 2, .layout = nhwc}, {0, 3, 3, 2}, {0, 2, 5, 4}, {0, 0});
  move_channels_last(rows, first);
}

void pooling(Rows& rows, op::Pooling op, const Shape& data, const Shape& out) {
  const int axes = data.ndim() - 2;
  op::Pooling w = op;  // the windows
  if (op.global_pool) {
    w.kernel = Shape(), w.stride = Shape(), w.pad = Shape();
    for (int i = 0; i < axes; ++i) w.kernel.push_back(data[i + 2]);
  }
  // the elements of a window, and what a mean divides by
  auto window = [=](const Host& x, const Shape& p, std::vector<Shape>& where) {
    double padded = 1;
    for (int i = 0; i < axes; ++i) {
      const int64_t begin = p[i + 2] * get(w.stride, i, 1) - get(w.pad, i, 0);
      double elements = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        elements += begin + k * get(w.dilation, i, 1) < data[i + 2] + get(w.pad, i, 0);
      }
      padded *= elements;
    }
    each(w.kernel, [&](const Shape& k) {
      Shape at = p;
      for (int i = 0; i < axes; ++i) {
        at[i + 2] = p[i + 2] * get(w.stride, i, 1) - get(w.pad, i, 0) + k[i] * get(w.dilation, i, 1);
        if (at[i + 2] < 0 || at[i + 2] >= x.shape[i + 2]) return;
      }
      where.push_back(at);
    });
    return op.count_include_pad.value_or(true) ? padded : double(where.size());
  };
  const double power = op.p_value.value_or(2);
  auto forward = [=](const Host& x) {
    return generate(out, [&](const Shape& p) {
      std::vector<Shape> where;
      const double count = window(x, p, where);
      double sum = 0, top = -INFINITY;
      for (const Shape& at : where) {
        const double v = x.at(at);
        sum += op.pool_type == PoolType::lp ? std::pow(std::abs(v), power) : v;
        top = larger(top, v);
      }
      switch (op.pool_type) {
        case PoolType::max: return top;
        case PoolType::avg: return sum / count;
        case PoolType::lp: return std::pow(sum, 1 / power);
        default: return sum;
      }
    });
  };
  const Fill fill = op.pool_type == PoolType::max  ? Fill::distinct
                    : op.pool_type == PoolType::lp ? Fill::nonzero
                                                   : Fill::normal;
  rows.emplace_back(
      op, std::vector{in(data, fill)}, [=](const Hosts& in) { return forward(in[0]); },
      RowOptions{.loosen = 2, .loosen_gradient = 4});

  op::BackwardPooling back;
  back.kernel = op.kernel, back.pool_type = op.pool_type, back.global_pool = op.global_pool,
  back.pooling_convention = op.pooling_convention;
  back.stride = op.stride, back.pad = op.pad, back.p_value = op.p_value, back.count_include_pad = op.count_include_pad,
  back.layout = op.layout, back.dilation = op.dilation;
  op::PoolingAlong along;
  along.kernel = op.kernel, along.pool_type = op.pool_type, along.global_pool = op.global_pool,
  along.pooling_convention = op.pooling_convention;
  along.stride = op.stride, along.pad = op.pad, along.p_value = op.p_value;
  along.count_include_pad = op.count_include_pad, along.layout = op.layout;
  along.dilation = op.dilation;
  // the output follows from the data: a row whose third input is no output would mean nothing for max and lp
  if (op.pool_type == PoolType::max || op.pool_type == PoolType::lp) {
    const double level = op.pool_type == PoolType::max ? 2 : std::pow(1, 1 / power);
    const auto levels = [=](const Shape& s) {
      return constant(in(s, std::vector<double>(size_t(s.size()), level)));  // another choice of maxima: no derivative
    };
    if (op.pool_type == PoolType::lp) {
      rows.emplace_back(along, std::vector{in(data), levels(data), levels(out)}, Reference(),
                        RowOptions{.refused = true});
      // of head, data and output as if they were independent: what the chain rule asks for
      rows.emplace_back(
          back, std::vector{in(out), in(data, Fill::nonzero), in(out, Fill::positive)},
          [=](const Hosts& in) {
            Host dx = zeros(data);
            each(out, [&](const Shape& p) {
              std::vector<Shape> where;
              window(in[1], p, where);
              for (const Shape& at : where) {
                const double x = in[1].at(at), slope = std::pow(std::abs(x) / in[2].at(p), power - 1);
                dx.at(at) += in[0].at(p) * std::copysign(slope, x);
              }
            });
            return dx;
          },
          RowOptions{.loosen = 4, .loosen_gradient = 4});
      return;
    }
    const auto first_top = [=](const Hosts& in, const Shape& p) -> std::optional<Shape> {
      std::vector<Shape> where;
      window(in[1], p, where);
      const auto first = std::find_if(where.begin(), where.end(), [&](const Shape& at) {
        return in[1].at(at) == in[2].at(p) || std::isnan(in[1].at(at));
      });
      return first == where.end() ? std::nullopt : std::optional(*first);
    };
    rows.emplace_back(
        along, std::vector{in(data), levels(data), levels(out)},
        [=](const Hosts& in) {
          return generate(out, [&](const Shape& p) {
            const auto at = first_top(in, p);
            return at ? in[0].at(*at) : 0;
          });
        },
        RowOptions{.loosen = 2});
    rows.emplace_back(
        back, std::vector{in(out), levels(data), levels(out)},
        [=](const Hosts& in) {
          Host dx = zeros(data);
          each(out, [&](const Shape& p) {
            if (const auto at = first_top(in, p)) dx.at(*at) += in[0].at(p);
          });
          return dx;
        },
        RowOptions{.loosen = 2});
    return;
  }
  rows.emplace_back(
      along, std::vector{in(data), in(data), in(out)}, [=](const Hosts& in) { return forward(in[0]); },
      RowOptions{.loosen = 2});
  rows.emplace_back(
      back, std::vector{in(out), in(data), in(out)},
      [=](const Hosts& in) {
        Host dx = zeros(data);
        each(out, [&](const Shape& p) {
          std::vector<Shape> where;
          const double count = window(in[1], p, where);
          for (const Shape& at : where) dx.at(at) += in[0].at(p) / (op.pool_type == PoolType::avg ? count : 1);
        });
        return dx;
      },
      RowOptions{.loosen = 2});
}

void add_channels_last_poolings(Rows& rows) {
  const size_t first = rows.size();
  constexpr auto nwc = ConvLayout::NWC, nhwc = ConvLayout::NHWC, ndhwc = ConvLayout::NDHWC;
  for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum, PoolType::lp}) {
    pooling(rows, {.kernel = {2, 2}, .pool_type = type, .stride = {2, 2}, .layout = nhwc}, {1, 17, 2, 5},
            {1, 17, 1, 2});
    pooling(rows, {.kernel = {3, 2}, .pool_type = type, .stride = {2, 2}, .pad = {1, 0}, .layout = nhwc}, {1, 3, 7, 5},
            {1, 3, 4, 2});
    pooling(rows,
            {.kernel = {3, 3},
             .pool_type = type,
             .pooling_convention = PoolingConvention::full,
             .stride = {2, 2},
             .layout = nhwc},
            {1, 1, 6, 6}, {1, 1, 3, 3});
    pooling(rows,
            {.kernel = {3, 2}, .pool_type = type, .stride = {1, 2}, .pad = {1, 1}, .layout = nhwc, .dilation = {2, 3}},
            {1, 5, 6, 7}, {1, 5, 4, 3});
    pooling(rows, {.pool_type = type, .global_pool = true, .layout = nhwc}, {2, 3, 4, 5}, {2, 3, 1, 1});
    pooling(rows, {.pool_type = type, .global_pool = true, .layout = ndhwc}, {2, 3, 2, 1, 3}, {2, 3, 1, 1, 1});
    pooling(rows, {.kernel = {3}, .pool_type = type, .stride = {2}, .layout = nwc}, {1, 3, 7}, {1, 3, 3});
    pooling(rows, {.kernel = {2, 1, 2}, .pool_type = type, .layout = ndhwc}, {1, 2, 3, 2, 3}, {1, 2, 2, 2, 2});
    pooling(rows, {.kernel = {2, 2}, .pool_type = type, .layout = nhwc}, {0, 3, 4, 5}, {0, 3, 3, 4});
  }
  pooling(rows,
          {.kernel = {3, 3},
           .pool_type = PoolType::avg,
           .stride = {2, 2},
           .pad = {1, 1},
           .count_include_pad = false,
           .layout = nhwc},
          {1, 2, 5, 5}, {1, 2, 3, 3});
  move_channels_last(rows, first);
  rows.emplace_back(op::Pooling{.kernel = {2, 2}, .layout = nwc}, std::vector{in({1, 5, 5, 3})}, Reference(),
                    RowOptions{.refused = true});
}

void add_poolings(Rows& rows) {
  for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum, PoolType::lp}) {
    pooling(rows, {.kernel = {2, 2}, .pool_type = type}, {2, 3, 4, 5}, {2, 3, 3, 4});
    pooling(rows, {.kernel = {3, 2}, .pool_type = type, .stride = {2, 2}, .pad = {1, 0}}, {1, 3, 7, 5}, {1, 3, 4, 2});
    pooling(rows,
            {.kernel = {3, 3}, .pool_type = type, .pooling_convention = PoolingConvention::full, .stride = {2, 2}},
            {1, 1, 6, 6}, {1, 1, 3, 3});
    pooling(rows,
            {.kernel = {3, 3}, .pool_type = type, .pooling_convention = PoolingConvention::same, .stride = {2, 2}},
            {1, 2, 5, 5}, {1, 2, 3, 3});
    pooling(rows, {.pool_type = type, .global_pool = true, .layout = ConvLayout::NCHW}, {2, 3, 4, 5}, {2, 3, 1, 1});
    pooling(rows, {.kernel = {3}, .pool_type = type, .stride = {2}}, {1, 3, 7}, {1, 3, 3});
    pooling(rows, {.kernel = {2, 1, 2}, .pool_type = type}, {1, 2, 3, 2, 3}, {1, 2, 2, 2, 2});
    pooling(rows, {.kernel = {2, 2}, .pool_type = type}, {0, 3, 4, 5}, {0, 3, 3, 4});
    pooling(rows, {.kernel = {3, 2}, .pool_type = type, .stride = {1, 2}, .pad = {1, 1}, .dilation = {2, 3}},
            {1, 5, 6, 7}, {1, 5, 4, 3});
    pooling(rows, {.kernel = {2}, .pool_type = type, .stride = {2}, .dilation = {2}}, {2, 1, 7}, {2, 1, 3});
  }
  for (bool include : {true, false}) {
    pooling(
        rows,
        {.kernel = {3, 3}, .pool_type = PoolType::avg, .stride = {2, 2}, .pad = {1, 1}, .count_include_pad = include},
        {1, 2, 5, 5}, {1, 2, 3, 3});
    pooling(rows,
            {.kernel = {3, 3},
             .pool_type = PoolType::avg,
             .pooling_convention = PoolingConvention::full,
             .stride = {2, 2},
             .pad = {1, 1},
             .count_include_pad = include},
            {1, 2, 6, 6}, {1, 2, 4, 4});
  }
  for (int p : {1, 2, 3})
    pooling(rows, {.kernel = {2, 3}, .pool_type = PoolType::lp, .p_value = p}, {1, 2, 4, 5}, {1, 2, 3, 3});
}

struct Moments {
  double mean = 0, var = 0;
};

Moments moments(const std::vector<double>& v) {
  Moments m;
  for (double x : v) m.mean += x / double(v.size());
  for (double x : v) m.var += (x - m.mean) * (x - m.mean) / double(v.size());
  return m;
}

void batch_norm(Rows& rows, const op::BatchNorm& op, const Shape& data, bool training) {
  const int axis = op.axis < 0 ? op.axis + data.ndim() : op.axis;
  const Shape c(data[axis]);
  auto statistics = [=](const Host& x, size_t k) {
    std::vector<double> v;
    each(data, [&](const Shape& p) {
      if (size_t(p[axis]) == k) v.push_back(x.at(p));
    });
    return moments(v);
  };
  RowOptions options{.loosen = 4, .loosen_gradient = 20, .training = training};
  rows.emplace_back(
      op, std::vector{in(data), in(c), in(c), constant(in(c)), constant(in(c, Fill::positive))},
      [=](const Hosts& in) {
        const bool batch = training && !op.use_global_stats;
        Host y = zeros(data), mean = in[3], var = in[4], used_mean = zeros(c), inverse = zeros(c);
        for (size_t k = 0; k < size_t(c[0]); ++k) {
          const Moments m = batch ? statistics(in[0], k) : Moments{in[3][k], in[4][k]};
          used_mean.values[k] = m.mean, inverse.values[k] = (batch ? 1 : -1) / std::sqrt(m.var + op.eps);
          if (batch) {
            mean.values[k] = op.momentum * mean[k] + (1 - op.momentum) * m.mean;
            var.values[k] = op.momentum * var[k] + (1 - op.momentum) * m.var;
          }
        }
        each(data, [&](const Shape& p) {
          const size_t k = size_t(p[axis]);
          y.at(p) = (op.fix_gamma ? 1 : in[1][k]) * (in[0].at(p) - used_mean[k]) * std::abs(inverse[k]) + in[2][k];
        });
        Hosts all{y, used_mean, inverse, mean, var};
        if (op.output_mean_var) {
          for (double& v : inverse.values) v = std::abs(v);
          all.insert(all.begin() + 2, inverse);
        }
        return all;
      },
      options);
  RowOptions loose{.loosen = 20};
  rows.emplace_back(
      op::BackwardBatchNorm{.fix_gamma = op.fix_gamma, .axis = op.axis},
      std::vector{in(data), in(data), in(c), in(c), in(c, Fill::positive)},
      [=](const Hosts& in) {
        // positive inverse_std: the statistics were the batch's
        Host dx = zeros(data), dgamma = zeros(c), dbeta = zeros(c);
        const double n = double(data.size()) / double(c[0]);
        auto centred = [&](const Shape& p) { return (in[1].at(p) - in[3][size_t(p[axis])]) * in[4][size_t(p[axis])]; };
        each(data, [&](const Shape& p) {
          dgamma.values[size_t(p[axis])] += in[0].at(p) * centred(p);
          dbeta.values[size_t(p[axis])] += in[0].at(p);
        });
        each(data, [&](const Shape& p) {
          const size_t k = size_t(p[axis]);
          dx.at(p) =
              (op.fix_gamma ? 1 : in[2][k]) * in[4][k] * (in[0].at(p) - dbeta[k] / n - centred(p) * dgamma[k] / n);
        });
        if (op.fix_gamma) dgamma = zeros(c);
        return Hosts{dx, dgamma, dbeta};
      },
      loose);
}

// per_row: gamma and beta have a number for each row along the axis.
void layer_norm(Rows& rows, const op::LayerNorm& op, const Shape& data, bool per_row = false) {
  const int axis = op.axis < 0 ? op.axis + data.ndim() : op.axis;
  const Shape kept = with(data, axis, 1), c = per_row ? kept : Shape(data[axis]);
  const double n = double(data[axis]);
  const auto of = [=](const Shape& p) { return per_row ? with(p, axis, 0) : Shape(p[axis]); };
  rows.emplace_back(
      op, std::vector{in(data), in(c), in(c)},
      [=](const Hosts& in) {
        const Host normal = along(in[0], axis, [&](std::vector<double>& v) {
          const Moments m = moments(v);
          for (double& x : v) x = (x - m.mean) / std::sqrt(m.var + op.eps);
        });
        Hosts all{generate(data, [&](const Shape& p) { return normal.at(p) * in[1].at(of(p)) + in[2].at(of(p)); })};
        if (!op.output_mean_var) return all;
        Host mean = zeros(kept), std = zeros(kept);
        each(kept, [&](const Shape& row) {
          std::vector<double> v;
          for (int64_t i = 0; i < data[axis]; ++i) v.push_back(in[0].at(with(row, axis, i)));
          mean.at(row) = moments(v).mean, std.at(row) = std::sqrt(moments(v).var + op.eps);
        });
        for (Host* h : {&mean, &std}) {
          if (in[0].dtype && size_of(*in[0].dtype) == 2) h->dtype = DType::float32;
          all.push_back(*h);
        }
        return all;
      },
      RowOptions{.loosen = 4, .loosen_gradient = 20, .infers = !per_row});
  Shape statistics = without(data, axis);
  if (statistics.empty()) statistics = Shape(1);
  auto fixed = [&](Input i) {
    i.dtype = DType::float32;
    return i;
  };
  rows.emplace_back(
      op::BackwardLayerNorm{.axis = op.axis},
      std::vector{fixed(in(data)), fixed(in(data)), fixed(in(c)), fixed(in(statistics)),
                  fixed(in(statistics, Fill::positive))},
      [=](const Hosts& in) {
        const Host mean = reshaped(in[3], kept), std = reshaped(in[4], kept);
        auto first = [&](const Shape& p) { return with(p, axis, 0); };
        Host dgamma = zeros(c), dbeta = zeros(c), sum = zeros(kept), product = zeros(kept);
        auto normal = [&](const Shape& p) { return (in[1].at(p) - mean.at(first(p))) / std.at(first(p)); };
        each(data, [&](const Shape& p) {
          const double slope = in[0].at(p) * in[2].at(of(p));
          dgamma.at(of(p)) += in[0].at(p) * normal(p), dbeta.at(of(p)) += in[0].at(p);
          sum.at(first(p)) += slope / n;
          product.at(first(p)) += slope * normal(p) / n;
        });
        const Host dx = generate(data, [&](const Shape& p) {
          return (in[0].at(p) * in[2].at(of(p)) - sum.at(first(p)) - normal(p) * product.at(first(p))) /
                 std.at(first(p));
        });
        return Hosts{dx, dgamma, dbeta};
      },
      RowOptions{.loosen = 20});
}

void add_norms(Rows& rows) {
  for (bool training : {false, true}) {
    batch_norm(rows, {}, {4, 3, 2, 3}, training), batch_norm(rows, {.fix_gamma = false}, {3, 5, 2}, training),
        batch_norm(rows, {.eps = 1e-2, .momentum = 0.5, .fix_gamma = false}, {7, 3}, training);
    batch_norm(rows, {.fix_gamma = false, .use_global_stats = true}, {3, 5, 2, 2}, training),
        batch_norm(rows, {.fix_gamma = false, .axis = -1}, {2, 3, 5}, training);
    batch_norm(rows, {.fix_gamma = false}, {1, 3, 5, 7}, training);
  }
  batch_norm(rows, {.fix_gamma = false}, {0, 3, 2, 2}, false);
  for (bool training : {false, true}) {
    batch_norm(rows, {.fix_gamma = false, .output_mean_var = true}, {4, 3, 2}, training);
  }
  layer_norm(rows, {}, {3, 5}), layer_norm(rows, {.eps = 1e-2}, {2, 3, 7}), layer_norm(rows, {.axis = 1}, {2, 5, 3}),
      layer_norm(rows, {.axis = 0}, {5, 1}), layer_norm(rows, {}, {1, 7}), layer_norm(rows, {}, {0, 4});
  layer_norm(rows, {.output_mean_var = true}, {3, 5}),
      layer_norm(rows, {.axis = 1, .output_mean_var = true}, {2, 3, 4});
  layer_norm(rows, {}, {3, 5}, true), layer_norm(rows, {.axis = 1, .eps = 1e-2}, {2, 5, 3}, true),
      layer_norm(rows, {.output_mean_var = true}, {1, 2, 37}, true), layer_norm(rows, {}, {0, 4}, true);
}

Rows rows_of(void (*add)(Rows&)) {
  Rows rows;
  add(rows);
  return rows;
}

}  // namespace

// Families of their own, so that each stays within a test's time under AddressSanitizer.
Rows convolution_rows() { return rows_of(add_convolutions); }
Rows deconvolution_rows() { return rows_of(add_deconvolutions); }
Rows pooling_rows() { return rows_of(add_poolings); }
Rows channels_last_pooling_rows() { return rows_of(add_channels_last_poolings); }
Rows norm_rows() { return rows_of(add_norms); }

}  // namespace kaon::test
