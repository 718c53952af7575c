// where, clip and its backward operator on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/scalar_math.h"

namespace kaon {

using namespace ops;
namespace {

// Conditions and values are moved as bits; `truth` masks the bits of a condition that make it nonzero: not a real's
// sign.
struct WhereFn {
  uint64_t truth;
  template <class C, class T>
  __device__ T operator()(C condition, T x, T y) const {
    return (condition & C(truth)) != 0 ? x : y;
  }
};

template <class T>
struct ClipFn {
  T low, high;
  __device__ T operator()(T x) const { return clip_value(x, low, high); }
};

template <class T>
struct ClipBackwardFn {
  T low, high;
  __device__ T operator()(T head, T x) const { return clip_backward_value(head, x, low, high); }
};

}  // namespace

void run_cuda(const op::Where&, KernelContext& c) {
  const TensorView &condition = c.in(0), &x = c.in(1), &y = c.in(2), &out = c.out();
  Shape rows = condition.shape;
  if (rows != out.shape) {  // one condition a row
    rows = Shape::filled(out.shape.ndim(), 1);
    rows[0] = condition.size();
  }
  dispatch_width(condition.dtype, [&]<class C>() {
    const WhereFn f{is_floating(condition.dtype) ? uint64_t(C(~C(0)) >> 1) : ~uint64_t(0)};
    dispatch_width(out.dtype, [&]<class T>() {
      cuda::broadcast(c, f, out.shape, out.as<T>(), {&rows, &x.shape, &y.shape}, condition.as<const C>(),
                      x.as<const T>(), y.as<const T>());
    });
  });
}

void run_cuda(const op::Clip& op, KernelContext& c) {
  dispatch_number("clip", c.out().dtype, [&]<class T>() {
    ClipFn<accumulate_t<T>> f;
    clip_bounds(op.a_min, op.a_max, f.low, f.high);
    cuda::elementwise(c, c.out().size(), f, c.out().as<T>(), c.in(0).as<const T>());
  });
}

void run_cuda(const op::ClipBackward& op, KernelContext& c) {
  dispatch_float("_backward_clip", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const ClipBackwardFn<A> f{A(op.a_min), A(op.a_max)};
    cuda::elementwise(c, c.out().size(), f, c.out().as<T>(), c.in(0).as<const T>(), c.in(1).as<const T>());
  });
}

}  // namespace kaon
