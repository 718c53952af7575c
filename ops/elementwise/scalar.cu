// The functions of an array and a number on CUDA.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/elementwise/kernels/binary_value.cuh"

namespace kaon {

using namespace ops;
namespace {

template <ScalarKind K, class T>
struct ScalarFn {
  static constexpr int most = 4;
  T s;
  __device__ T operator()(T x) const {
    if constexpr (K == ScalarKind::smooth_l1) {
      return smooth_l1_value(x, s);
    } else {
      return info(K).reversed ? binary_value<info(K).kind, T>(s, x) : binary_value<info(K).kind, T>(x, s);
    }
  }
};

template <class T>
struct CheapScalarFn {
  BinaryKind kind;
  bool reversed;
  T s;
  __device__ T operator()(T x) const {
    return reversed ? cuda::cheap_value(kind, s, x) : cuda::cheap_value(kind, x, s);
  }
};

template <class T>
struct CompareFn {
  BinaryKind kind;
  T s;
  __device__ T operator()(T x) const { return T(cuda::logical_value(kind, x, s)); }
};

template <class T>
struct CompareIntegerFn {
  static constexpr int most = 4;
  using Integer = typename ComparedNumber<T>::Integer;
  BinaryKind kind;
  ComparedNumber<T> s;
  __device__ T operator()(T x) const {
    return T(s.is_integer ? cuda::logical_value(kind, Integer(x), s.integer)
                          : cuda::logical_value(kind, double(x), s.real));
  }
};

struct SquareFn {
  template <class T>
  __device__ T operator()(T x) const {
    return x * x;
  }
};

struct RootFn {
  template <class T>
  __device__ T operator()(T x) const {
    return root_value(x);
  }
};

template <class T, class F>
void run_scalar(KernelContext& c, const F& f) {
  cuda::elementwise(c, c.out().size(), f, c.out().as<T>(), c.in(0).as<const T>());
}

template <ScalarKind K>
void run_kind(double s, KernelContext& c) {
  const auto typed = [&]<class T>() {
    using A = accumulate_t<T>;
    run_scalar<T>(c, ScalarFn<K, A>{scalar_operand<A>(info(K).kind, s)});
  };
  if constexpr (K == ScalarKind::smooth_l1) {
    dispatch_float("smooth_l1", c.out().dtype, typed);
  } else {
    dispatch_number("scalar", c.out().dtype, typed);
  }
}

void run_logical(BinaryKind kind, double s, KernelContext& c) {
  dispatch_all("scalar", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    if constexpr (std::is_floating_point_v<A>) {
      run_scalar<T>(c, CompareFn<A>{kind, A(s)});
    } else {
      run_scalar<T>(c, CompareIntegerFn<T>{kind, ComparedNumber<T>(s)});
    }
  });
}

void run_cheap(ScalarKind kind, double s, KernelContext& c) {
  dispatch_number("scalar", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    run_scalar<T>(c, CheapScalarFn<A>{info(kind).kind, info(kind).reversed, scalar_operand<A>(info(kind).kind, s)});
  });
}

}  // namespace

void ops::run_scalar_cuda(ScalarKind kind, double s, KernelContext& c) {
  using K = ScalarKind;
  if (kind == K::power && is_floating(c.out().dtype)) {
    if (s == 2) return dispatch_float("scalar", c.out().dtype, [&]<class T>() { run_scalar<T>(c, SquareFn{}); });
    if (s == 0.5) return dispatch_float("scalar", c.out().dtype, [&]<class T>() { run_scalar<T>(c, RootFn{}); });
  }
  switch (kind) {
    case K::div: return run_kind<K::div>(s, c);
    case K::rdiv: return run_kind<K::rdiv>(s, c);
    case K::mod: return run_kind<K::mod>(s, c);
    case K::rmod: return run_kind<K::rmod>(s, c);
    case K::power: return run_kind<K::power>(s, c);
    case K::rpower: return run_kind<K::rpower>(s, c);
    case K::hypot: return run_kind<K::hypot>(s, c);
    case K::smooth_l1: return run_kind<K::smooth_l1>(s, c);
    default: return is_logical(info(kind).kind) ? run_logical(info(kind).kind, s, c) : run_cheap(kind, s, c);
  }
}

}  // namespace kaon
