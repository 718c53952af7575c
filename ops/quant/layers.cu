// Convolutions and dense layers of levels on CUDA: a thread for each result.
#include <array>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/layer_values.h"
#include "kaon/ops/quant/quant.h"

namespace kaon {

using namespace ops;
namespace {

// A range in the device's memory, of levels of `dtype`.
struct LevelRange {
  const float *min, *max;
  DType dtype;
  LevelRange(KernelContext& c, int input, DType t)
      : min(c.in(input).as<const float>()), max(c.in(input + 1).as<const float>()), dtype(t) {}
  __device__ float size() const { return usable_range(*min, *max, dtype); }
  __device__ float per_unit() const { return level_count(dtype) / size(); }
};

// Sums of products over windows; of a dense layer the rows are images of one position.
struct SumWindow {
  int64_t channels = 0, filters = 0, groups = 1, positions = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1},
          pad[3] = {0, 0, 0};
  const void* data = nullptr;
  bool is_signed = false;
  const int8_t* weights = nullptr;

  static SumWindow of_convolution(const ConvGeometry& g) {
    SumWindow w;
    w.channels = g.in_channels, w.filters = g.out_channels, w.groups = g.groups, w.positions = g.out_positions();
    for (int a = 0; a < g.axes; ++a) {
      const int to = a + 3 - g.axes;
      const size_t from = size_t(a);
      w.in[to] = g.in[from], w.out[to] = g.out[from], w.kernel[to] = g.kernel[from];
      w.stride[to] = g.stride[from], w.dilate[to] = g.dilate[from], w.pad[to] = g.pad[from];
    }
    return w;
  }
  static SumWindow of_dense(const Shape& weight) {
    SumWindow w;
    w.channels = weight[1], w.filters = weight[0];
    return w;
  }

  __device__ int64_t filter(int64_t i) const { return i / positions % filters; }
  __device__ int at(int64_t k) const {
    return is_signed ? int(static_cast<const int8_t*>(data)[k]) : int(static_cast<const uint8_t*>(data)[k]);
  }
  // Of result i of (image, filter, position).
  __device__ int32_t sum(int64_t i) const {
    const int64_t position = i % positions, o = filter(i), image = i / positions / filters;
    const int64_t own = channels / groups, size = in[0] * in[1] * in[2], taps = kernel[0] * kernel[1] * kernel[2];
    const int64_t begin[3] = {position / (out[1] * out[2]) * stride[0] - pad[0],
                              position / out[2] % out[1] * stride[1] - pad[1], position % out[2] * stride[2] - pad[2]};
    int32_t total = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t z = begin[0] + tap / (kernel[1] * kernel[2]) * dilate[0];
      const int64_t y = begin[1] + tap / kernel[2] % kernel[1] * dilate[1];
      const int64_t x = begin[2] + tap % kernel[2] * dilate[2];
      if (z < 0 || y < 0 || x < 0 || z >= in[0] || y >= in[1] || x >= in[2]) continue;
      const int64_t pixel = (z * in[1] + y) * in[2] + x, first = image * channels + o / (filters / groups) * own;
      for (int64_t c = 0; c < own; ++c) {
        total += at((first + c) * size + pixel) * int(weights[(o * own + c) * taps + tap]);
      }
    }
    return total;
  }
};

SumWindow with_data(SumWindow w, KernelContext& c) {
  w.data = c.in(0).data, w.is_signed = c.in(0).dtype == DType::int8;
  return w;
}

template <class Op>
SumWindow convolution_window(const Op& op, KernelContext& c) {
  if (c.out().size() == 0) return {};
  const Shape& data = c.in(0).shape;
  return with_data(SumWindow::of_convolution(
                       make_geometry(data, c.out().shape, op.kernel, op.stride, op.dilate, op.pad, op.num_group)),
                   c);
}

struct PutLayerRange {
  LevelRange data, weight;
  float *min, *max;
  __device__ void operator()(int64_t) const {
    const float level = sum_level(data.dtype, data.size(), weight.size());
    if (min) *min = level * -2147483648.f;
    if (max) *max = level * 2147483647.f;
  }
};

// --- quantized_conv, quantized_fully_connected

struct LayerSum {
  SumWindow window;
  LevelRange data, weight, bias_range;  // the last is not read without a bias
  const int8_t* bias;
  int32_t* out;
  __device__ void operator()(int64_t i) const {
    int32_t y = window.sum(i);
    if (bias) {
      const float scale = data.per_unit() * weight.per_unit() * magnitude(*bias_range.min, *bias_range.max) / 127.5f;
      y += nearest_level<int32_t>(truncf(float(bias[window.filter(i)]) * scale));
    }
    out[i] = y;
  }
};

void run_sums(KernelContext& c, SumWindow window, bool no_bias) {
  const int ranges = no_bias ? 2 : 3;
  const LevelRange data(c, ranges, c.in(0).dtype), weight(c, ranges + 2, DType::int8);
  window.weights = c.in(1).as<const int8_t>();
  cuda::for_each(c, 1, PutLayerRange{data, weight, c.out(1).as<float>(), c.out(2).as<float>()});
  cuda::for_each(c, c.out().size(),
                 LayerSum{window, data, weight, no_bias ? weight : LevelRange(c, ranges + 4, DType::int8),
                          no_bias ? nullptr : c.in(2).as<const int8_t>(), c.out().as<int32_t>()});
}

// --- Layers of levels with a zero point

struct IntegerFn {
  SumWindow window;
  const int32_t* bias;
  const float* scale;
  DType to;
  float zero;
  bool relu;
  void* out;
  __device__ void operator()(int64_t i) const {
    const int64_t o = window.filter(i);
    const int32_t sum = window.sum(i) + bias[o];
    if (to == DType::int32) {
      static_cast<int32_t*>(out)[i] = relu && sum < 0 ? 0 : sum;
      return;
    }
    float y = rounded_product(float(sum), scale[o]);
    if (relu && y < 0) y = 0;
    if (to == DType::float32) static_cast<float*>(out)[i] = y;
    if (to == DType::int8) static_cast<int8_t*>(out)[i] = nearest_level<int8_t>(rintf(y) + zero);
    if (to == DType::uint8) static_cast<uint8_t*>(out)[i] = nearest_level<uint8_t>(rintf(y) + zero);
  }
};

template <class Op>
void run_integers(const Op& op, KernelContext& c, SumWindow window) {
  window.weights = c.in(1).as<const int8_t>();
  cuda::for_each(c, c.out().size(),
                 IntegerFn{window, c.in(2).as<const int32_t>(), c.in(3).as<const float>(), op.out_type, float(op.zero),
                           op.relu, c.out().data});
}

// --- Weights

// The weights of a layer as levels, with what belongs to each filter.
struct LayerParts {
  int64_t size = 0;  // of a filter
  const float *weights = nullptr, *bias = nullptr, *gamma = nullptr, *beta = nullptr, *mean = nullptr, *var = nullptr;
  double eps = 0;
  bool is_channelwise = false, has_bias = false;
  int64_t filters = 0;
  // results, in the workspace
  int8_t* levels = nullptr;
  float *ranges = nullptr, *biases = nullptr, *scales = nullptr, *range = nullptr;
  int32_t* level_bias = nullptr;

  __device__ float alpha(int64_t o) const {
    return var ? float((gamma ? gamma[o] : 1.f) / ::sqrt(double(var[o]) + eps)) : 1.f;
  }
};

// The range and the bias of a filter, once BatchNorm is taken into it.
struct FoldFn {
  LayerParts p;
  __device__ void operator()(int64_t o) const {
    const float alpha = p.alpha(o);
    float most = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      const float x = fabsf(p.weights[o * p.size + i] * alpha);
      if (x > most) most = x;
    }
    p.ranges[o] = most;
    if (!p.var) {
      p.biases[o] = p.bias ? p.bias[o] : 0.f;
    } else if (p.bias) {
      p.biases[o] = p.beta[o] + rounded_product(alpha, p.bias[o] - p.mean[o]);
    } else {
      p.biases[o] = p.beta[o] - rounded_product(alpha, p.mean[o]);
    }
  }
};

struct LargestFn {
  LayerParts p;
  __device__ void operator()(int64_t) const {
    float most = 0;
    for (int64_t o = 0; o < p.filters; ++o) most = p.ranges[o] > most ? p.ranges[o] : most;
    *p.range = most;
  }
};

struct QuantizeFn {
  LayerParts p;
  LevelRange data;
  __device__ void operator()(int64_t o) const {
    const float data_scale = data.per_unit(), alpha = p.alpha(o);
    const float scale =
        p.is_channelwise ? filter_scale(p.ranges[o], p.biases[o], data_scale) : filter_scale(*p.range, 0, data_scale);
    p.scales[o] = scale;
    if (p.has_bias) p.level_bias[o] = nearest_level<int32_t>(p.biases[o] * (scale * data_scale));
    for (int64_t i = o * p.size; i < (o + 1) * p.size; ++i) {
      p.levels[i] = nearest_level<int8_t>(rounded_product(p.weights[i], alpha) * scale);
    }
  }
};

void quantize_weights(KernelContext& c, LayerParts& p, const LevelRange& data) {
  const Shape& shape = c.in(1).shape;
  p.filters = shape[0], p.size = shape.product(1, shape.ndim());
  p.weights = c.in(1).as<const float>();
  const auto floats = [&](int64_t n) { return static_cast<float*>(c.run.workspace(size_t(n) * 4)); };
  p.ranges = floats(p.filters), p.biases = floats(p.filters), p.scales = floats(p.filters), p.range = floats(1);
  p.level_bias = reinterpret_cast<int32_t*>(floats(p.filters));
  p.levels = static_cast<int8_t*>(c.run.workspace(size_t(p.filters * p.size) + 1));
  cuda::for_each(c, p.filters, FoldFn{p});
  cuda::for_each(c, 1, LargestFn{p});
  cuda::for_each(c, p.filters, QuantizeFn{p, data});
}

// Levels that are given: one scale, and a bias with a range of its own.
struct GivenFn {
  LayerParts p;
  LevelRange data, weight, bias_range;
  const int8_t* bias;
  __device__ void operator()(int64_t o) const {
    const float scale = weight.per_unit();
    p.scales[o] = scale;
    if (o == 0) *p.range = weight.size();
    if (!bias) return;
    const float rescale = data.per_unit() * scale * magnitude(*bias_range.min, *bias_range.max) / 127.5f;
    p.level_bias[o] = nearest_level<int32_t>(float(bias[o]) * rescale);
  }
};

// --- Fused layers

struct FusedFn {
  SumWindow window;
  LayerParts p;
  LevelRange data;
  bool is_calibrated;
  float calib_min, calib_max;
  DType to;
  FusedKind act, postsum;
  float act_alpha, postsum_alpha;
  const void* addend;
  DType addend_dtype;
  const float *addend_min, *addend_max;
  void* out;

  // Levels of the result per unit.
  __device__ float unit() const {
    if (to == DType::float32) return 1;
    if (!is_calibrated) return data.per_unit() * p.scales[0];
    return levels_per_unit(level_count(to), magnitude(calib_min, calib_max));
  }
  __device__ static float in_levels(FusedKind kind, float alpha, float unit, bool in_units, float y) {
    if (is_homogeneous(kind)) return fused_value(kind, kind == FusedKind::clip ? alpha * unit : alpha, y);
    return fused_value(kind, alpha, in_units ? y : y / unit) * unit;
  }

  __device__ void operator()(int64_t i) const {
    const int64_t o = window.filter(i);
    const int32_t sum = window.sum(i), bias = p.has_bias ? p.level_bias[o] : 0;
    const float unit = this->unit();
    if (to == DType::int32 && !addend && (act == FusedKind::none || act == FusedKind::relu)) {
      const int32_t y = sum + bias;
      static_cast<int32_t*>(out)[i] = act == FusedKind::relu && y < 0 ? 0 : y;
      return;
    }
    const bool in_units = !is_homogeneous(act);
    float y = float(sum) + float(bias);
    if (to != DType::int32) {
      y *= (in_units ? 1.f : unit) / data.per_unit() / p.scales[o];
    } else if (in_units) {
      y *= 1 / unit;
    }
    y = in_levels(act, act_alpha, unit, in_units, y);
    if (addend) {
      const float level = addend_dtype == DType::int8 ? float(static_cast<const int8_t*>(addend)[i])
                                                      : float(static_cast<const uint8_t*>(addend)[i]);
      const float scale = unit / (level_count(addend_dtype) / usable_range(*addend_min, *addend_max, addend_dtype));
      y = in_levels(postsum, postsum_alpha, unit, false, fmaf(level, scale, y));
      if (to == DType::uint8 && addend_dtype == DType::int8 && y > 127.f) y = 127.f;
    }
    switch (to) {
      case DType::float32: static_cast<float*>(out)[i] = y; break;
      case DType::int32: static_cast<int32_t*>(out)[i] = nearest_level<int32_t>(y); break;
      case DType::int8: static_cast<int8_t*>(out)[i] = nearest_level<int8_t>(y); break;
      default: static_cast<uint8_t*>(out)[i] = nearest_level<uint8_t>(y);
    }
  }
};

struct PutFusedRange {
  FusedFn f;
  float *min, *max;
  __device__ void operator()(int64_t) const {
    const float level = sum_level(f.data.dtype, f.data.size(), *f.p.range);
    if (min) *min = f.is_calibrated ? f.calib_min : level * -2147483648.f;
    if (max) *max = f.is_calibrated ? f.calib_max : level * 2147483647.f;
  }
};

void run_fused(KernelContext& c, const FusedFn& f) {
  cuda::for_each(c, c.out().size(), f);
  if (f.to != DType::float32) cuda::for_each(c, 1, PutFusedRange{f, c.out(1).as<float>(), c.out(2).as<float>()});
}

template <class Op>
FusedFn fused(const Op& op, KernelContext& c, SumWindow window, const LayerParts& p, const LevelRange& data) {
  window.weights = p.levels;
  return {window,
          p,
          data,
          c.out().dtype == DType::int8 || c.out().dtype == DType::uint8,
          op.min_calib_range.value_or(0.f),
          op.max_calib_range.value_or(0.f),
          c.out().dtype,
          op.act,
          FusedKind::none,
          float(op.act_alpha),
          0,
          nullptr,
          DType::int8,
          nullptr,
          nullptr,
          c.out().data};
}

}  // namespace

void run_cuda(const op::QuantizedConv& op, KernelContext& c) { run_sums(c, convolution_window(op, c), op.no_bias); }

void run_cuda(const op::QuantizedFullyConnected& op, KernelContext& c) {
  run_sums(c, with_data(SumWindow::of_dense(c.in(1).shape), c), op.no_bias);
}

void run_cuda(const op::IntegerConv& op, KernelContext& c) { run_integers(op, c, convolution_window(op, c)); }

void run_cuda(const op::IntegerDense& op, KernelContext& c) {
  run_integers(op, c, with_data(SumWindow::of_dense(c.in(1).shape), c));
}

void run_cuda(const op::FusedQuantizedConv& op, KernelContext& c) {
  const LevelRange data(c, op.ranges_at(), c.in(0).dtype);
  const auto floats = [&](int i) { return c.in(i).as<const float>(); };
  LayerParts p;
  p.is_channelwise = c.out().dtype != DType::int32, p.has_bias = !op.no_bias || op.with_bn, p.eps = op.eps;
  if (!op.no_bias) p.bias = floats(op.bias_at());
  if (op.with_bn) {
    const int at = op.norm_at();
    p.gamma = op.fix_gamma ? nullptr : floats(at);
    p.beta = floats(at + 1), p.mean = floats(at + 2), p.var = floats(at + 3);
  }
  quantize_weights(c, p, data);
  FusedFn f = fused(op, c, convolution_window(op, c), p, data);
  f.postsum = op.postsum_act, f.postsum_alpha = float(op.postsum_alpha);
  if (op.with_sum) {
    f.addend = c.in(op.sum_at()).data, f.addend_dtype = c.in(op.sum_at()).dtype;
    f.addend_min = floats(op.ranges_at() + 2), f.addend_max = floats(op.ranges_at() + 3);
  }
  run_fused(c, f);
}

void run_cuda(const op::FusedQuantizedFullyConnected& op, KernelContext& c) {
  const int ranges = op.ranges_at();
  const LevelRange data(c, ranges, c.in(0).dtype);
  LayerParts p;
  p.is_channelwise = c.out().dtype != DType::int32, p.has_bias = !op.no_bias;
  if (op.channel_wise_quantize) {
    if (!op.no_bias) p.bias = c.in(2).as<const float>();
    quantize_weights(c, p, data);
  } else {
    p.filters = c.in(1).shape[0];
    p.levels = const_cast<int8_t*>(c.in(1).as<const int8_t>());
    const auto floats = [&](int64_t n) { return static_cast<float*>(c.run.workspace(size_t(n) * 4)); };
    p.scales = floats(p.filters), p.range = floats(1), p.level_bias = reinterpret_cast<int32_t*>(floats(p.filters));
    const LevelRange weight(c, ranges + 2, DType::int8);
    cuda::for_each(c, p.filters,
                   GivenFn{p, data, weight, op.no_bias ? weight : LevelRange(c, ranges + 4, DType::int8),
                           op.no_bias ? nullptr : c.in(2).as<const int8_t>()});
  }
  run_fused(c, fused(op, c, with_data(SumWindow::of_dense(c.in(1).shape), c), p, data));
}

}  // namespace kaon
