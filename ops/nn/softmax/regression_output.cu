#include "kaon/ops/nn/softmax/softmax.h"

#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/softmax/kernels/moved_average.h"
#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon {

using namespace ops;
namespace {

struct SigmoidOf {
  template <class A>
  __device__ A operator()(A x) const {
    return unary_value<UnaryKind::sigmoid>(x);
  }
};

struct RegressionGradient {
  bool sign;  // of the error alone
  double scale;
  template <class A>
  __device__ A operator()(A y, A label) const {
    const A e = y - label;
    if (!sign) return e * A(scale);
    return e > A(0) ? A(scale) : e < A(0) ? -A(scale) : e;
  }
};

struct Divided {
  double value;
  const double* divisor;  // null: 1
  __device__ float operator()() const { return float(divisor ? value / *divisor : value); }
};
struct DividedWide : Divided {
  __device__ double operator()() const { return divisor ? value / *divisor : value; }
};

// How many elements exceed the threshold, at least 1.
struct Count {
  using Acc = int64_t;
  using Fold = Count;
  double* out;
  __device__ int64_t identity() const { return 0; }
  __device__ int64_t merge(int64_t a, int64_t b) const { return a + b; }
  __device__ void store(int64_t, int64_t acc) const { *out = double(acc > 0 ? acc : 1); }
};
template <class T>
struct CountAbove : Count {
  const T* data;
  accumulate_t<T> threshold;
  __device__ int64_t add(int64_t acc, int64_t at, int64_t, int64_t) const {
    return acc + (accumulate_t<T>(data[at]) > threshold);
  }
};

// A column of IdentityAttachKLSparseReg.
template <class T>
struct MoveAverage {
  int64_t rows, columns;
  double momentum;
  bool training;
  const T* x;
  T *average, *used;
  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    A value = A(average[i]);
    if (training) average[i] = T(value = moved_average(x + i, rows, columns, value, momentum));
    if (used) used[i] = T(value);
  }
};

}  // namespace

template <RegressionKind kind>
void run_cuda(const op::RegressionOutput<kind>&, KernelContext& c) {
  if constexpr (kind == RegressionKind::logistic) {
    dispatch_float("LogisticRegressionOutput", c.out().dtype, [&]<class T>() {
      cuda::elementwise(c, c.out().size(), SigmoidOf(), c.out().as<T>(), c.in(0).as<T>());
    });
  } else {
    cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
  }
}

template void run_cuda(const op::LinearRegressionOutput&, KernelContext&);
template void run_cuda(const op::MAERegressionOutput&, KernelContext&);
template void run_cuda(const op::LogisticRegressionOutput&, KernelContext&);

void run_cuda(const op::BackwardRegressionOutput& op, KernelContext& c) {
  const TensorView &y = c.in(0), &dx = c.out();
  if (dx.size() == 0) return;
  const RegressionGradient f{op.kind == RegressionKind::mae, op.grad_scale * double(y.shape[0]) / double(y.size())};
  dispatch_float("_backward_RegressionOutput", y.dtype,
                 [&]<class T>() { cuda::elementwise(c, dx.size(), f, dx.as<T>(), y.as<T>(), c.in(1).as<T>()); });
}

void run_cuda(const op::MakeLoss&, KernelContext& c) {
  cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
}

void run_cuda(const op::BackwardMakeLoss& op, KernelContext& c) {
  const TensorView& x = c.in(0);
  if (x.size() == 0) return;
  Divided f{op.grad_scale, nullptr};
  if (op.normalization == Normalization::batch) f.value /= double(x.shape[0]);
  dispatch_float("_backward_MakeLoss", x.dtype, [&]<class T>() {
    if (op.normalization == Normalization::valid) {
      double* const count = static_cast<double*>(c.run.workspace(sizeof(double)));
      const ReduceDim all[] = {{x.size(), true}};
      cuda::reduce(c, CountAbove<T>{{count}, x.as<T>(), accumulate_t<T>(op.valid_thresh)}, all);
      f.divisor = count;
    }
    if constexpr (std::is_same_v<T, double>) {
      cuda::elementwise(c, x.size(), DividedWide{f}, c.out().as<T>());
    } else {
      cuda::elementwise(c, x.size(), f, c.out().as<T>());
    }
  });
}

void run_cuda(const op::SVMOutput&, KernelContext& c) {
  cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
}

void run_cuda(const op::IdentityAttachKLSparseReg& op, KernelContext& c) {
  const int64_t rows = c.in(0).shape[0], columns = c.in(0).shape[1];
  dispatch_float("IdentityAttachKLSparseReg", c.in(0).dtype, [&]<class T>() {
    cuda::for_each(c, columns,
                   MoveAverage<T>{rows, columns, op.momentum, c.training, c.in(0).as<T>(), c.in(1).as<T>(),
                                  c.out(1).data ? c.out(1).as<T>() : nullptr});
  });
  cuda::copy_bytes(c, c.in(0).data, c.out(0).data, c.out(0).bytes());
}

}  // namespace kaon
