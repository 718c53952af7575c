// The functions of one array and their backward operators on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/scalar_math.h"

namespace kaon {

using namespace ops;
namespace {

template <UnaryKind K>
struct UnaryFn {
  static constexpr int most = 4;
  template <class T>
  __device__ T operator()(T x) const {
    return unary_value<K, T>(x);
  }
};

// The functions that take integers cost a few instructions and share a kernel, which is bound by memory anyway.
struct CheapFn {
  UnaryKind kind;
  template <class T>
  __device__ T operator()(T x) const {
    using U = UnaryKind;
    switch (kind) {
      case U::square: return unary_value<U::square, T>(x);
      case U::abs: return unary_value<U::abs, T>(x);
      case U::sign: return unary_value<U::sign, T>(x);
      case U::negative: return unary_value<U::negative, T>(x);
      case U::floor: return unary_value<U::floor, T>(x);
      case U::ceil: return unary_value<U::ceil, T>(x);
      case U::round: return unary_value<U::round, T>(x);
      case U::rint: return unary_value<U::rint, T>(x);
      case U::trunc:
      case U::fix: return unary_value<U::trunc, T>(x);
      default: return unary_value<U::relu, T>(x);
    }
  }
};

template <UnaryBackwardKind K>
struct UnaryBackwardFn {
  static constexpr int most = 4;
  template <class T>
  __device__ T operator()(T head, T saved) const {
    return unary_backward_value<K, T>(head, saved);
  }
};

template <class T, class F>
void run_unary(KernelContext& c, const F& f) {
  cuda::elementwise(c, c.out().size(), f, c.out().as<T>(), c.in(0).as<const T>());
}

template <UnaryKind K>
void run_kind(KernelContext& c) {
  using U = UnaryKind;
  const TensorView &x = c.in(0), &y = c.out();
  const char* name = info(K).name.data();
  if constexpr (K == U::identity || K == U::stop_gradient) {
    cuda::copy_bytes(c, x.data, y.data, y.bytes());
  } else if constexpr (info(K).domain == Domain::any) {
    dispatch_all(name, y.dtype, [&]<class T>() { run_unary<T>(c, UnaryFn<K>{}); });
  } else if constexpr (info(K).domain == Domain::number) {
    dispatch_number(name, y.dtype, [&]<class T>() { run_unary<T>(c, CheapFn{K}); });
  } else {
    dispatch_float(name, y.dtype, [&]<class T>() { run_unary<T>(c, UnaryFn<K>{}); });
  }
}

template <UnaryBackwardKind K>
void run_backward(KernelContext& c) {
  dispatch_float("unary backward", c.out().dtype, [&]<class T>() {
    cuda::elementwise(c, c.out().size(), UnaryBackwardFn<K>{}, c.out().as<T>(), c.in(0).as<const T>(),
                      c.in(1).as<const T>());
  });
}

}  // namespace

void ops::run_unary_cuda(UnaryKind kind, KernelContext& c) {
  static constexpr auto kernels = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{&run_kind<UnaryKind(I)>...};
  }
  (std::make_index_sequence<size_t(unary_kinds)>());
  kernels[size_t(kind)](c);
}

void ops::run_unary_backward_cuda(UnaryBackwardKind kind, KernelContext& c) {
  static constexpr auto kernels = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{&run_backward<UnaryBackwardKind(I)>...};
  }
  (std::make_index_sequence<size_t(unary_backward_kinds)>());
  kernels[size_t(kind)](c);
}

}  // namespace kaon
