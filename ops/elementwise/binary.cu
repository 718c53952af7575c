// The functions of two arrays on CUDA.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/elementwise/kernels/binary_value.cuh"

namespace kaon {

using namespace ops;
namespace {

template <BinaryKind K>
struct BinaryFn {
  static constexpr int most = 4;
  template <class T>
  __device__ T operator()(T a, T b) const {
    return binary_value<K, T>(a, b);
  }
};

struct CheapFn {
  BinaryKind kind;
  template <class T>
  __device__ T operator()(T a, T b) const {
    return cuda::cheap_value(kind, a, b);
  }
};

struct LogicalFn {
  BinaryKind kind;
  template <class T>
  __device__ T operator()(T a, T b) const {
    return T(cuda::logical_value(kind, a, b));
  }
};

template <class F>
void run_all(KernelContext& c, const F& f) {
  const TensorView &a = c.in(0), &b = c.in(1), &out = c.out();
  const auto typed = [&]<class T>() {
    cuda::broadcast(c, f, out.shape, out.as<T>(), {&a.shape, &b.shape}, a.as<const T>(), b.as<const T>());
  };
  if constexpr (std::is_same_v<F, LogicalFn>) {
    dispatch_all("broadcast", out.dtype, typed);
  } else if constexpr (std::is_same_v<F, BinaryFn<BinaryKind::logaddexp>>) {
    dispatch_float("broadcast", out.dtype, typed);
  } else {
    dispatch_number("broadcast", out.dtype, typed);
  }
}

}  // namespace

void ops::run_binary_cuda(BinaryKind kind, KernelContext& c) {
  using B = BinaryKind;
  switch (kind) {
    case B::div: return run_all(c, BinaryFn<B::div>{});
    case B::mod: return run_all(c, BinaryFn<B::mod>{});
    case B::power: return run_all(c, BinaryFn<B::power>{});
    case B::hypot: return run_all(c, BinaryFn<B::hypot>{});
    case B::logaddexp: return run_all(c, BinaryFn<B::logaddexp>{});
    default: return is_logical(kind) ? run_all(c, LogicalFn{kind}) : run_all(c, CheapFn{kind});
  }
}

}  // namespace kaon
