// Gradients of reductions on CUDA.
#pragma once

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/reduce/reduce.h"

namespace kaon::cuda {

// The shape of the results of `shape` that broadcasts to it. Axes are counted from the front, or from the end.
inline Shape kept_shape(const Shape& shape, const Shape& axis) {
  Shape kept = shape;
  for (int64_t a : axis) kept[int(a < 0 ? a + shape.ndim() : a)] = 1;
  return kept;
}

template <class F>
struct WithResult {
  F f;
  template <class A>
  __device__ A operator()(A head, A x, A result) const {
    return f(head, x, result);
  }
  template <class A>
  __device__ A operator()(A head, A x) const {
    return f(head, x, A(0));
  }
};

// out[i] = f(head[o], data[i], result[o]) for every element i and its result o. A missing third input reads as 0.
template <class F>
void reduce_grad(const Shape& axis, KernelContext& c, const F& f) {
  const Shape& full = c.in(1).shape;
  const Shape results = kept_shape(full, axis);
  dispatch_float("reduce gradient", c.in(1).dtype, [&]<class T>() {
    const T *head = c.in(0).as<T>(), *x = c.in(1).as<T>();
    if (c.num_inputs() > 2) {
      broadcast(c, WithResult<F>{f}, full, c.out().as<T>(), {&results, &full, &results}, head, x, c.in(2).as<T>());
    } else {
      broadcast(c, WithResult<F>{f}, full, c.out().as<T>(), {&results, &full}, head, x);
    }
  });
}

}  // namespace kaon::cuda
