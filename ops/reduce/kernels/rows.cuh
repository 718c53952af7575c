// Kernels in which a team of threads works on each row of an array seen as (outer, n, inner), the row running over n.
#pragma once

#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon::cuda {

struct RowPlan {
  static constexpr int held = 8;  // elements that each thread keeps in registers; the rest is read again

  int64_t rows, n, inner;
  Team team;

  RowPlan(int64_t outer, int64_t length, int64_t step)
      : rows(outer * step),
        n(length),
        inner(step),
        team(step == 1 ? Team::along(length) : Team::across(length, rows)) {}
  int64_t groups() const { return (rows + team.results() - 1) / team.results(); }

  __device__ int64_t first(int64_t row) const {  // where it begins; its elements are `inner` apart
    return inner == 1 ? row * n : row / inner * n * inner + row % inner;
  }
  // body(j, h) for the elements j < count of this thread. h: which of the held ones it is, or -1.
  template <class F>
  __device__ void for_lane(int64_t count, const F& body) const {
    int64_t j = team.lane(threadIdx.x);
#pragma unroll
    for (int h = 0; h < held; ++h, j += team.lanes()) {
      if (j < count) body(j, h);
    }
    for (; j < count; j += team.lanes()) body(j, -1);
  }
};

// body(plan, row) with each row's team; rows from p.rows on have no elements, but their threads take the same branches.
template <class F>
__global__ void __launch_bounds__(block, 3) rows_kernel(RowPlan p, int64_t groups, F body) {
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    body(p, group * p.team.results() + p.team.result(threadIdx.x));
  }
}

template <class F>
void for_rows(KernelContext& c, const RowPlan& p, const F& body) {
  if (p.rows > 0) launch(c, rows_kernel<F>, blocks_for(p.groups(), 1), unsigned(block), p, p.groups(), body);
}

// Numbers of a dtype that is known at run time, for arrays that are read once per row or channel.
struct NumberArray {
  const void* data;
  DType dtype;

  explicit NumberArray(const TensorView& t) : data(t.data), dtype(t.dtype) {}
  template <class T>
  __device__ T at(int64_t i) const {
    return static_cast<const T*>(data)[i];
  }
  __device__ double real(int64_t i) const {
    switch (dtype) {
      case DType::float64: return at<double>(i);
      case DType::float16: return double(float(at<float16>(i)));
      case DType::bfloat16: return double(float(at<bfloat16>(i)));
      default: return double(at<float>(i));
    }
  }
  // As convert<int64_t>, except for NaN.
  __device__ int64_t integer(int64_t i, int64_t of_nan) const {
    switch (dtype) {
      case DType::uint8:
      case DType::boolean: return at<uint8_t>(i);
      case DType::int8: return at<int8_t>(i);
      case DType::uint16: return at<uint16_t>(i);
      case DType::int16: return at<int16_t>(i);
      case DType::uint32: return at<uint32_t>(i);
      case DType::int32: return at<int32_t>(i);
      case DType::uint64:
      case DType::int64: return at<int64_t>(i);
      default: {
        const double v = real(i);
        return v == v ? from_number<int64_t>(v) : of_nan;
      }
    }
  }
};

// A place for floats of a dtype that is known at run time; nothing is stored where data is null.
struct RealTarget {
  void* data;
  DType dtype;

  explicit RealTarget(const TensorView& t) : data(t.data), dtype(t.dtype) {}
  template <class A>
  __device__ void set(int64_t i, A value) const {
    if (!data) return;
    switch (dtype) {
      case DType::float64: static_cast<double*>(data)[i] = double(value); return;
      case DType::float16: static_cast<float16*>(data)[i] = float16(float(value)); return;
      case DType::bfloat16: static_cast<bfloat16*>(data)[i] = bfloat16(float(value)); return;
      default: static_cast<float*>(data)[i] = float(value);
    }
  }
};

}  // namespace kaon::cuda
