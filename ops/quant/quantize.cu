// From numbers to levels and back on CUDA.
#include <optional>

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/quant.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;
namespace {

// The range of an array: numbers that are known, or two in the device's memory.
struct DeviceRange {
  float min = 0, max = 0;
  const float *min_at = nullptr, *max_at = nullptr;

  __device__ float low() const { return min_at ? *min_at : min; }
  __device__ float high() const { return max_at ? *max_at : max; }
  __device__ float size() const { return magnitude(low(), high()); }
};

DeviceRange range_at(KernelContext& c, int input) {
  return {0, 0, c.in(input).as<const float>(), c.in(input + 1).as<const float>()};
}

// The smallest and largest element, in the workspace.
template <class T>
const T* reduced(KernelContext& c, const TensorView& data) {
  T* const both = static_cast<T*>(c.run.workspace(2 * sizeof(T)));
  for (int i = 0; i < 2; ++i) {
    const TensorView out{both + i, Shape(1), data.dtype};
    KernelContext inner{.inputs = std::span(&data, 1), .outputs = std::span(&out, 1), .run = c.run};
    run_reduce_cuda(i == 0 ? ReduceKind::min : ReduceKind::max, Shape(), false, inner);
  }
  return both;
}

DeviceRange range_of(KernelContext& c, const TensorView& data, const std::optional<float>& min,
                     const std::optional<float>& max) {
  if (min && max) return {*min, *max};
  if (data.size() == 0) return {};
  const float* const both = reduced<float>(c, data);
  return {0, 0, both, both + 1};
}

struct ScaledLevel {
  DeviceRange range;
  float levels;
  DType to;
  __device__ float operator()(float x) const { return x * levels_per_unit(levels, range.size()); }
};

// Levels of T, rounded: elementwise() converts what f gives, so that f gives levels.
template <class T>
struct ToLevel : ScaledLevel {
  __device__ T operator()(float x) const { return nearest_level<T>(ScaledLevel::operator()(x)); }
};

template <class T>
struct PutRange {
  DeviceRange range;
  bool symmetric;
  T *min, *max;
  __device__ void operator()(int64_t) const {
    const float r = range.size();
    if (min) *min = symmetric ? -r : range.low();
    if (max) *max = symmetric ? r : range.high();
  }
};

void put_range(KernelContext& c, const DeviceRange& range, bool symmetric) {
  cuda::for_each(c, 1, PutRange<float>{range, symmetric, c.out(1).as<float>(), c.out(2).as<float>()});
}

void to_levels(KernelContext& c, const DeviceRange& range, float levels) {
  by_level(c.out().dtype, [&]<class T>() {
    cuda::elementwise(c, c.out().size(), ToLevel<T>{{range, levels, c.out().dtype}}, c.out().as<T>(),
                      c.in(0).as<const float>());
  });
}

struct AsymmetricFn {
  DeviceRange range;
  __device__ float scale() const { return levels_per_unit(255.f, range.high() - range.low()); }
  __device__ float shift() const { return 255.f - range.high() * scale(); }
  __device__ uint8_t operator()(float x) const { return asymmetric_level(x, scale(), shift()); }
};

struct PutScale {
  AsymmetricFn f;
  float *scale, *shift;
  __device__ void operator()(int64_t) const {
    if (scale) *scale = f.scale();
    if (shift) *shift = f.shift();
  }
};

struct ToNumber {
  DeviceRange range;
  float levels;
  template <class T>
  __device__ float operator()(T x) const {
    return float(x) * (range.size() / levels);
  }
};

// Levels of int32 as others: the range of the result is given, or that of `levels`, two numbers.
struct RequantizeScale {
  DeviceRange in;
  float given;
  const int32_t* levels;
  float count;
  __device__ float out_range() const {
    return levels ? magnitude(float(levels[0]), float(levels[1])) * in.size() / 2147483647.f : given;
  }
  __device__ float factor() const { return in.size() / 2147483647.f * levels_per_unit(count, out_range()); }
};

template <class T>
struct RequantizeFn {
  RequantizeScale scale;
  __device__ T operator()(int32_t x) const { return nearest_level<T>(float(x) * scale.factor()); }
};

struct PutRequantized {
  RequantizeScale scale;
  bool is_signed;
  float *min, *max;
  __device__ void operator()(int64_t) const {
    const float r = scale.out_range();
    if (min) *min = is_signed ? -r : 0.f;
    if (max) *max = r;
  }
};

}  // namespace

void run_cuda(const op::Quantize& op, KernelContext& c) {
  const DeviceRange range = range_at(c, 1);
  to_levels(c, range, whole_level_count(c.out().dtype));
  put_range(c, range, op.out_type == QuantType::int8);
}

void run_cuda(const op::QuantizeV2& op, KernelContext& c) {
  const DType to = c.out().dtype;
  const float levels = level_count(to);
  if (c.in(0).dtype == to) {
    cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
    const bool is_calibrated = op.min_calib_range && op.max_calib_range;
    const DeviceRange all{to == DType::int8 ? -levels : 0.f, levels};
    return put_range(c, is_calibrated ? DeviceRange{*op.min_calib_range, *op.max_calib_range} : all, false);
  }
  const DeviceRange range = range_of(c, c.in(0), op.min_calib_range, op.max_calib_range);
  to_levels(c, range, levels);
  put_range(c, range, to == DType::int8);
}

void run_cuda(const op::QuantizeAsym& op, KernelContext& c) {
  const AsymmetricFn f{range_of(c, c.in(0), op.min_calib_range, op.max_calib_range)};
  cuda::elementwise(c, c.out().size(), f, c.out().as<uint8_t>(), c.in(0).as<const float>());
  cuda::for_each(c, 1, PutScale{f, c.out(1).as<float>(), c.out(2).as<float>()});
}

void run_cuda(const op::Dequantize&, KernelContext& c) {
  const ToNumber f{range_at(c, 1), level_count(c.in(0).dtype)};
  const auto run = [&]<class T>() {
    cuda::elementwise(c, c.out().size(), f, c.out().as<float>(), c.in(0).as<const T>());
  };
  if (c.in(0).dtype == DType::int32) return run.template operator()<int32_t>();
  by_level(c.in(0).dtype, run);
}

void run_cuda(const op::Requantize& op, KernelContext& c) {
  const DType to = c.out().dtype;
  const bool is_calibrated = op.min_calib_range && op.max_calib_range;
  const bool is_read = !is_calibrated && c.in(0).size() > 0;
  const RequantizeScale scale{range_at(c, 1), is_calibrated ? magnitude(*op.min_calib_range, *op.max_calib_range) : 0.f,
                              is_read ? reduced<int32_t>(c, c.in(0)) : nullptr, whole_level_count(to)};
  by_level(to, [&]<class T>() {
    cuda::elementwise(c, c.out().size(), RequantizeFn<T>{scale}, c.out().as<T>(), c.in(0).as<const int32_t>());
  });
  cuda::for_each(c, 1, PutRequantized{scale, to == DType::int8, c.out(1).as<float>(), c.out(2).as<float>()});
}

}  // namespace kaon
