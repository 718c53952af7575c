// Levels of other tools' quantised nets outside layers, on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"
#include "kaon/ops/quant/kernels/integer_values.h"
#include "kaon/ops/quant/kernels/quant_values.h"

namespace kaon {

using namespace ops;
namespace {

// Levels in memory that stand for scale (q - zero).
struct Meant {
  void* data;
  DType dtype;
  float scale, zero;
  Meant(const TensorView& view, double scale, int zero)
      : data(view.data), dtype(view.dtype), scale(float(scale)), zero(float(zero)) {}
  __device__ float number(int64_t i) const {
    const float q =
        dtype == DType::int8 ? float(static_cast<const int8_t*>(data)[i]) : float(static_cast<const uint8_t*>(data)[i]);
    return rounded_product(q - zero, scale);
  }
  __device__ void put(int64_t i, float x) const {
    const float y = rintf(x / scale) + zero;
    if (dtype == DType::int8) {
      static_cast<int8_t*>(data)[i] = nearest_level<int8_t>(y);
    } else {
      static_cast<uint8_t*>(data)[i] = nearest_level<uint8_t>(y);
    }
  }
};

struct ToLevels {
  const float* from;
  Meant to;
  __device__ void operator()(int64_t i) const { to.put(i, from[i]); }
};

struct ToNumbers {
  Meant from;
  float* to;
  __device__ void operator()(int64_t i) const { to[i] = from.number(i); }
};

struct AddNumbers {
  Meant lhs, rhs, to;
  bool relu;
  __device__ void operator()(int64_t i) const {
    const float y = lhs.number(i) + rhs.number(i);
    to.put(i, relu && y < 0 ? 0.f : y);
  }
};

template <class T>
struct Largest {
  const T* from;
  T* to;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
  __device__ void operator()(int64_t i) const {
    const T* const plane = from + i / (out[0] * out[1]) * in[0] * in[1];
    const int64_t y = i / out[1] % out[0] * stride[0] - pad[0], x = i % out[1] * stride[1] - pad[1];
    T most = std::numeric_limits<T>::min();
    for (int64_t r = y < 0 ? 0 : y; r < y + kernel[0] && r < in[0]; ++r) {
      for (int64_t k = x < 0 ? 0 : x; k < x + kernel[1] && k < in[1]; ++k) {
        const T level = plane[r * in[1] + k];
        if (level > most) most = level;
      }
    }
    to[i] = most;
  }
};

}  // namespace

void run_cuda(const op::IntegerQuantize& op, KernelContext& c) {
  cuda::for_each(c, c.out().size(), ToLevels{c.in(0).as<const float>(), Meant(c.out(), op.scale, op.zero)});
}

void run_cuda(const op::IntegerDequantize& op, KernelContext& c) {
  cuda::for_each(c, c.out().size(), ToNumbers{Meant(c.in(0), op.scale, op.zero), c.out().as<float>()});
}

void run_cuda(const op::IntegerAdd& op, KernelContext& c) {
  cuda::for_each(c, c.out().size(),
                 AddNumbers{Meant(c.in(0), op.lhs_scale, op.lhs_zero), Meant(c.in(1), op.rhs_scale, op.rhs_zero),
                            Meant(c.out(), op.scale, op.zero), op.relu});
}

void run_cuda(const op::IntegerMaxPool& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  const PoolWindows w = pool_windows(op::Pooling{.kernel = op.kernel, .stride = op.stride, .pad = op.pad}, in.shape);
  by_level(in.dtype, [&]<class T>() {
    Largest<T> f{in.as<const T>(), out.as<T>(), {}, {}, {}, {}, {}};
    for (int a = 0; a < 2; ++a) {
      f.in[a] = in.shape[a + 2], f.out[a] = out.shape[a + 2];
      f.kernel[a] = w.kernel[a], f.stride[a] = w.stride[a], f.pad[a] = w.pad[a];
    }
    cuda::for_each(c, out.size(), f);
  });
}

}  // namespace kaon
