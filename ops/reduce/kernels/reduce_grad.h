// Gradients of the reductions: a value per result spreads over the elements that were reduced into it.
#pragma once

#include <math.h>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon::ops {

// Per element, from the head, the element and the norm; T: float, double.
struct NormGradValue {
  int ord;
  template <class T>
  KAON_HOST_DEVICE T operator()(T head, T x, T norm) const {
    if (ord == 1) return x > 0 ? head : x < 0 ? -head : x == 0 ? T(0) : x;
    return norm == 0 ? T(0) : head * (x / norm);
  }
};

// The gradient of an element from the head, the element and the result; T: float, double.
struct MaxGradValue {
  template <class T>
  KAON_HOST_DEVICE T operator()(T head, T x, T result) const {
    return x == result ? head : T(0);
  }
};
struct NanSumGradValue {
  template <class T>
  KAON_HOST_DEVICE T operator()(T head, T x, T) const {
    return x == x ? head : T(0);
  }
};

// The factors of a product: the product with 1 or -1 in place of 0, infinities and NaN, and the counts of these.
struct ProdFactors {
  double product;
  int64_t zeros, infinities, not_numbers;

  KAON_HOST_DEVICE static ProdFactors none() { return {1, 0, 0, 0}; }
  KAON_HOST_DEVICE static bool is_ordinary(double v) { return v != 0 && v - v == 0; }
  KAON_HOST_DEVICE static double ordinary(double v) { return is_ordinary(v) ? v : ::copysign(1.0, v); }
  KAON_HOST_DEVICE void count(double v, int by) {
    if (v == 0) zeros += by;
    else if (v != v) not_numbers += by;
    else if (v - v != 0) infinities += by;
  }
  KAON_HOST_DEVICE void multiply(double v) {
    product *= ordinary(v);
    count(v, 1);
  }
  // The product without v.
  KAON_HOST_DEVICE double without(double v) const {
    ProdFactors f = *this;
    f.count(v, -1);
    if (f.not_numbers > 0) return NAN;
    double others = product / ordinary(v);
    if (f.zeros > 0) others *= 0;
    if (f.infinities > 0) others *= INFINITY;
    return others;
  }
};

// Checks head (and out) against the data at input 1; the output has its shape and dtype.
void infer_reduce_grad(InferContext& c, const Shape& axis);

// Calls body(i, o, n, step): elements i .. i + n of the full array belong to results o, o + step, ... (step 0 or 1).
void for_each_spread(RunContext& run, std::span<const ReduceDim> dims,
                     FunctionRef<void(int64_t i, int64_t o, int64_t n, int64_t step)> body);

// out[i] = f(head[o], data[i], result[o]) for every element i and its result o. A missing third input reads as 0.
template <class F>
void run_reduce_grad(const Shape& axis, KernelContext& c, F f) {
  const TensorView& data = c.in(1);
  uint32_t mask = 0;
  for (int64_t a : axis) mask |= bit(int(a));
  const ReduceDims dims(data.shape, mask);
  dispatch_float("reduce gradient", data.dtype, [&]<class T>() {
    using Acc = accumulate_t<T>;
    const T *head = c.in(0).as<T>(), *x = data.as<T>(), *result = c.num_inputs() > 2 ? c.in(2).as<T>() : nullptr;
    T* out = c.out().as<T>();
    for_each_spread(c.run, dims.span(), [&](int64_t i, int64_t o, int64_t n, int64_t step) {
      for (int64_t k = 0; k < n; ++k) {
        const Acc y = result ? Acc(result[o + k * step]) : Acc(0);
        out[i + k] = T(f(Acc(head[o + k * step]), Acc(x[i + k]), y));
      }
    });
  });
}

}  // namespace kaon::ops
