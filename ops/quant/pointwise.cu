// Sums and products of levels on CUDA.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/quant.h"

namespace kaon {

using namespace ops;
namespace {

// The ranges of two arrays, in the device's memory.
struct TwoRanges {
  const float* at[4];
  explicit TwoRanges(KernelContext& c) {
    for (int i = 0; i < 4; ++i) at[i] = c.in(2 + i).as<const float>();
  }
  __device__ float lhs() const { return magnitude(*at[0], *at[1]); }
  __device__ float rhs() const { return magnitude(*at[2], *at[3]); }
};

template <class Op>
float calibrated(const Op& op, bool min) {
  return min ? op.min_calib_range.value_or(0.f) : op.max_calib_range.value_or(0.f);
}

struct SumFn {
  TwoRanges ranges;
  float min, max;
  DType lhs, rhs, out;

  __device__ SumScales scales() const {
    const float range = magnitude(min, max);
    return SumScales::of(lhs, rhs, out, ranges.lhs(), ranges.rhs(), out == DType::int32 ? nullptr : &range);
  }
  // The uint8 one of two dtypes becomes int8 first.
  __device__ float widened(float x, DType own, float scale) const {
    const float y = rounded_product(x, scale);
    return lhs != rhs && own == DType::uint8 ? float(nearest_level<int8_t>(y)) : y;
  }
  __device__ float sum(float a, float b) const {
    const SumScales s = scales();
    return widened(a, lhs, s.lhs) + widened(b, rhs, s.rhs);
  }
};

template <class T>
struct ToSum : SumFn {
  explicit ToSum(const SumFn& f) : SumFn(f) {}
  template <class A, class B>
  __device__ T operator()(A a, B b) const {
    return nearest_level<T>(sum(float(a), float(b)));
  }
};

struct PutSumRange {
  SumFn f;
  float *min, *max;
  __device__ void operator()(int64_t) const {
    const float sum = f.ranges.lhs() + f.ranges.rhs();
    if (min) *min = f.out == DType::int32 ? -sum : f.min;
    if (max) *max = f.out == DType::int32 ? sum : f.max;
  }
};

struct MulFn {
  TwoRanges ranges;
  float min, max;
  DType out;
  __device__ MulScale scale() const { return MulScale::of(out, ranges.lhs(), ranges.rhs(), min, max); }
};

struct MulLevel : MulFn {
  explicit MulLevel(const MulFn& f) : MulFn(f) {}
  __device__ int8_t operator()(int8_t a, int8_t b) const { return scale().level(int(a) * int(b)); }
};
struct MulExact {
  __device__ int32_t operator()(int8_t a, int8_t b) const { return int(a) * int(b); }
};
struct MulNumber : MulFn {
  explicit MulNumber(const MulFn& f) : MulFn(f) {}
  __device__ float operator()(int8_t a, int8_t b) const { return float(int(a) * int(b)) * scale().factor; }
};

struct PutMulRange {
  MulFn f;
  float *min, *max;
  __device__ void operator()(int64_t) const {
    const MulScale s = f.scale();
    if (min) *min = s.min;
    if (max) *max = s.max;
  }
};

}  // namespace

void run_cuda(const op::QuantizedElemwiseAdd& op, KernelContext& c) {
  const TensorView& out = c.out();
  const SumFn f{TwoRanges(c), calibrated(op, true), calibrated(op, false), c.in(0).dtype, c.in(1).dtype, out.dtype};
  by_level(c.in(0).dtype, [&]<class A>() {
    by_level(c.in(1).dtype, [&]<class B>() {
      const auto run = [&]<class T>() {
        cuda::elementwise(c, out.size(), ToSum<T>(f), out.as<T>(), c.in(0).as<const A>(), c.in(1).as<const B>());
      };
      out.dtype == DType::int32 ? run.template operator()<int32_t>() : by_level(out.dtype, run);
    });
  });
  cuda::for_each(c, 1, PutSumRange{f, c.out(1).as<float>(), c.out(2).as<float>()});
}

void run_cuda(const op::QuantizedElemwiseMul& op, KernelContext& c) {
  const TensorView& out = c.out();
  const MulFn f{TwoRanges(c), calibrated(op, true), calibrated(op, false), out.dtype};
  const int8_t *const a = c.in(0).as<const int8_t>(), *const b = c.in(1).as<const int8_t>();
  switch (out.dtype) {
    case DType::int32: cuda::elementwise(c, out.size(), MulExact{}, out.as<int32_t>(), a, b); break;
    case DType::int8: cuda::elementwise(c, out.size(), MulLevel(f), out.as<int8_t>(), a, b); break;
    default: cuda::elementwise(c, out.size(), MulNumber(f), out.as<float>(), a, b);
  }
  if (!op.enable_float_output) cuda::for_each(c, 1, PutMulRange{f, c.out(1).as<float>(), c.out(2).as<float>()});
}

}  // namespace kaon
