#include "kaon/ops/reduce/reduce_grad.cuh"

#include "kaon/ops/reduce/kernels/reduce.cuh"
#include "kaon/ops/reduce/kernels/reduce_grad.h"

namespace kaon {

using namespace ops;
namespace {

struct Same {
  template <class T>
  __device__ T operator()(T x) const {
    return x;
  }
};
struct Scaled {
  double scale;
  template <class A>
  __device__ A operator()(A x) const {
    return x * A(scale);
  }
};

// The factors of every result, in separate arrays whose elements fit into packs.
struct Factors {
  using Acc = ProdFactors;
  using Fold = Factors;
  double* product;
  uint8_t* counts;  // up to 2 zeros, infinities and NaN each

  __device__ Acc identity() const { return ProdFactors::none(); }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    return {a.product * b.product, a.zeros + b.zeros, a.infinities + b.infinities, a.not_numbers + b.not_numbers};
  }
  __device__ static int up_to_2(int64_t n) { return n < 2 ? int(n) : 2; }
  __device__ void store(int64_t k, const Acc& f) const {
    product[k] = f.product;
    counts[k] = uint8_t(up_to_2(f.zeros) + 4 * up_to_2(f.infinities) + 16 * up_to_2(f.not_numbers));
  }
};

template <class T>
struct FactorsOf : Factors {
  const T* data;
  bool skip_nan;
  __device__ Acc add(Acc acc, int64_t at, int64_t, int64_t) const {
    const double v = double(accumulate_t<T>(data[at]));
    if (!(skip_nan && v != v)) acc.multiply(v);
    return acc;
  }
};

struct ProdGradValue {
  bool skip_nan;
  template <class A>
  __device__ A operator()(A head, A x, double product, uint8_t counts) const {
    const double v = double(x);
    if (skip_nan && v != v) return A(double(head) * 0);
    const ProdFactors f{product, counts & 3, counts >> 2 & 3, counts >> 4};
    return A(double(head) * f.without(v));
  }
};

}  // namespace

void run_cuda(const op::SumGrad& op, KernelContext& c) {
  const Shape results = cuda::kept_shape(op.shape, op.axis);
  if (op.scale == 1) {
    dispatch_width(c.out().dtype, [&]<class T>() {
      cuda::broadcast(c, Same(), op.shape, c.out().as<T>(), {&results}, c.in(0).as<T>());
    });
  } else {
    dispatch_float("_backward_sum", c.out().dtype, [&]<class T>() {
      cuda::broadcast(c, Scaled{op.scale}, op.shape, c.out().as<T>(), {&results}, c.in(0).as<T>());
    });
  }
}

void run_cuda(const op::MaxGrad& op, KernelContext& c) { cuda::reduce_grad(op.axis, c, MaxGradValue()); }
void run_cuda(const op::NanSumGrad& op, KernelContext& c) { cuda::reduce_grad(op.axis, c, NanSumGradValue()); }

void run_cuda(const op::ProdGrad& op, KernelContext& c) {
  const TensorView& data = c.in(1);
  if (data.size() == 0) return;
  uint32_t mask = 0;
  for (int64_t a : op.axis) mask |= bit(int(a));
  const ReduceDims dims(data.shape, mask);
  const Shape results = cuda::kept_shape(data.shape, op.axis);
  const size_t n = size_t(c.in(0).size());
  double* const product = static_cast<double*>(c.run.workspace(n * sizeof(double)));
  uint8_t* const counts = static_cast<uint8_t*>(c.run.workspace(n));
  dispatch_float("_backward_prod", data.dtype, [&]<class T>() {
    const T* x = data.as<T>();
    cuda::reduce(c, FactorsOf<T>{{product, counts}, x, op.skip_nan}, dims.span());
    cuda::broadcast(c, ProdGradValue{op.skip_nan}, data.shape, c.out().as<T>(),
                    {&results, &data.shape, &results, &results}, c.in(0).as<T>(), x,
                    static_cast<const double*>(product), static_cast<const uint8_t*>(counts));
  });
}

}  // namespace kaon
