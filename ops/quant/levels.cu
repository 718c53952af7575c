// Concat, BatchNorm and pooling of levels on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/quant.h"

namespace kaon {

using namespace ops;
namespace {

__device__ float level_at(const void* data, DType t, int64_t i) {
  return t == DType::int8 ? float(static_cast<const int8_t*>(data)[i]) : float(static_cast<const uint8_t*>(data)[i]);
}
__device__ void put_level(void* data, DType t, int64_t i, float x) {
  if (t == DType::int8) {
    static_cast<int8_t*>(data)[i] = nearest_level<int8_t>(x);
  } else {
    static_cast<uint8_t*>(data)[i] = nearest_level<uint8_t>(x);
  }
}

// The range of all arrays, of which one is added at a time.
struct WidenRange {
  const float *min, *max;
  float* range;  // two numbers
  __device__ void operator()(int64_t) const {
    if (*min < range[0]) range[0] = *min;
    if (*max > range[1]) range[1] = *max;
  }
};

struct ConcatFn {
  const void* from;
  const float *min, *max, *range;
  DType own, to;
  int64_t width, all, begin;  // of a row here, of one of the result, and where it begins there
  void* out;
  __device__ void operator()(int64_t i) const {
    const int64_t at = i / width * all + begin + i % width;
    const float per_unit = levels_per_unit(level_count(to), magnitude(range[0], range[1]));
    const float own_per_unit = levels_per_unit(level_count(own), magnitude(*min, *max));
    const float x = level_at(from, own, i);
    const bool is_copy = own_per_unit == per_unit && own == to;
    put_level(out, to, at, is_copy ? x : own_per_unit == 0 ? 0.f : x * (per_unit / own_per_unit));
  }
};

struct NormFn {
  const void* from;
  DType own;
  int64_t channels, size;
  const float *gamma, *beta, *mean, *var, *min, *max;
  float out_range;
  double eps;
  int8_t* out;
  __device__ void operator()(int64_t i) const {
    const int64_t k = i / size % channels;
    const float levels = 127.5f, inverse_std = float(1 / ::sqrt(double(var[k]) + eps));
    const float norm = 1 / sqrtf(1 + float(eps)), data_range = magnitude(*min, *max);
    const float scale = out_range == 0 ? 0.f : gamma[k] * inverse_std * data_range / out_range * norm;
    const float mean_part = rounded_product(rounded_product(mean[k], gamma[k]), inverse_std);
    const float shift = out_range == 0 ? 0.f : (beta[k] - mean_part) * levels / out_range;
    float x = level_at(from, own, i);
    if (own == DType::uint8) x = float(nearest_level<int8_t>(x * (levels / 255.5f)));
    out[i] = nearest_level<int8_t>(fmaf(x, scale, shift));
  }
};

// The windows of two spatial axes.
struct PoolFn {
  const void* from;
  DType dtype;
  int64_t height, width, out_height, out_width, kernel[2], stride[2], pad[2];
  bool is_max, count_pad;
  void* out;

  __device__ static int64_t bounded(int64_t x, int64_t size) { return x < 0 ? 0 : x > size ? size : x; }
  __device__ void operator()(int64_t i) const {
    const int64_t y = i / out_width % out_height * stride[0] - pad[0], x = i % out_width * stride[1] - pad[1];
    const int64_t plane = i / (out_width * out_height) * height * width;
    const int64_t top = bounded(y, height), bottom = bounded(y + kernel[0], height);
    const int64_t left = bounded(x, width), right = bounded(x + kernel[1], width);
    const int64_t real = (bottom - top) * (right - left);
    int32_t sum = 0;
    float most = -128.f;
    for (int64_t r = top; r < bottom; ++r) {
      for (int64_t k = left; k < right; ++k) {
        const float v = level_at(from, dtype, plane + r * width + k);
        sum += int32_t(v);
        most = v > most ? v : most;
      }
    }
    const int64_t all = count_pad ? kernel[0] * kernel[1] : real > 0 ? real : 1;
    put_level(out, dtype, i, is_max ? (real > 0 ? most : 0.f) : float(sum) / float(all));
  }
};

struct PutTwo {
  float first, second;
  const float *first_at, *second_at;  // in place of the numbers
  float *to_first, *to_second;
  __device__ void operator()(int64_t) const {
    if (to_first) *to_first = first_at ? *first_at : first;
    if (to_second) *to_second = second_at ? *second_at : second;
  }
};

void put_two(KernelContext& c, float first, float second, const float* first_at = nullptr,
             const float* second_at = nullptr) {
  cuda::for_each(c, 1, PutTwo{first, second, first_at, second_at, c.out(1).as<float>(), c.out(2).as<float>()});
}

}  // namespace

void run_cuda(const op::QuantizedConcat& op, KernelContext& c) {
  const TensorView& out = c.out();
  const int n = op.num_args, axis = op.dim < 0 ? op.dim + out.shape.ndim() : op.dim;
  const auto number = [&](int i) { return c.in(i).as<const float>(); };
  float* const range = static_cast<float*>(c.run.workspace(2 * sizeof(float)));
  cuda::zero_bytes(c, range, 2 * sizeof(float));
  for (int i = 0; i < n; ++i) cuda::for_each(c, 1, WidenRange{number(n + 2 * i), number(n + 2 * i + 1), range});
  int64_t begin = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t own = c.in(i).shape.product(axis, out.shape.ndim());
    cuda::for_each(c, c.in(i).size(),
                   ConcatFn{c.in(i).data, number(n + 2 * i), number(n + 2 * i + 1), range, c.in(i).dtype, out.dtype,
                            own, out.shape.product(axis, out.shape.ndim()), begin, out.data});
    begin += own;
  }
  put_two(c, 0, 0, range, range + 1);
}

void run_cuda(const op::QuantizedBatchNorm& op, KernelContext& c) {
  const auto numbers = [&](int i) { return c.in(i).as<const float>(); };
  const Shape& shape = c.in(0).shape;
  const float min = *op.min_calib_range, max = *op.max_calib_range;
  cuda::for_each(
      c, c.out().size(),
      NormFn{c.in(0).data, c.in(0).dtype, shape[1], shape.product(2, shape.ndim()), numbers(1), numbers(2), numbers(3),
             numbers(4), numbers(5), numbers(6), magnitude(min, max), op.eps, c.out().as<int8_t>()});
  put_two(c, min, max);
}

void run_cuda(const op::QuantizedPooling& op, KernelContext& c) {
  const PoolWindows w = pool_windows(op, c.in(0).shape);
  const Shape& in = c.in(0).shape;
  cuda::for_each(c, c.out().size(),
                 PoolFn{c.in(0).data,
                        c.in(0).dtype,
                        in[2],
                        in[3],
                        w.out[2],
                        w.out[3],
                        {w.kernel[0], w.kernel[1]},
                        {w.stride[0], w.stride[1]},
                        {w.pad[0], w.pad[1]},
                        op.pool_type == PoolType::max,
                        op.count_include_pad.value_or(true),
                        c.out().data});
  put_two(c, 0, 0, c.in(1).as<const float>(), c.in(2).as<const float>());
}

}  // namespace kaon
