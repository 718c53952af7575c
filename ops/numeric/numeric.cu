// What kind of number, bits, and functions of two reals on CUDA.
#include "kaon/ops/numeric/numeric.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/numeric/kernels/bits_value.h"
#include "kaon/ops/numeric/kernels/real_value.h"

namespace kaon {

using namespace ops;
namespace {

struct WriteConstant {
  bool value;
  bool* out;
  __device__ void operator()(int64_t i) const { out[i] = value; }
};

template <BitsKind K>
struct BitsFn {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return bits_value<K>(a, b);
  }
};

template <RealKind K>
struct RealFn {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return real_value<K>(a, b);
  }
};

template <class T>
struct NanToNumFn {
  NanReplacement<T> r;
  __device__ T operator()(T x) const { return r(x); }
};

template <class T, class F>
void broadcast_two(KernelContext& c, const F& f) {
  const TensorView &a = c.in(0), &b = c.in(1), &out = c.out();
  cuda::broadcast(c, f, out.shape, out.as<T>(), {&a.shape, &b.shape}, a.as<const T>(), b.as<const T>());
}

template <BitsKind K>
void run_bits_of(KernelContext& c) {
  if constexpr (K == BitsKind::left_shift || K == BitsKind::right_shift) {
    dispatch_number("bits", c.out().dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) broadcast_two<T>(c, BitsFn<K>());
    });
  } else if (K == BitsKind::lcm && c.out().dtype != DType::boolean) {
    dispatch_number("lcm", c.out().dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) broadcast_two<T>(c, BitsFn<K>());
    });
  } else {
    dispatch_width(c.out().dtype, [&]<class T>() { broadcast_two<T>(c, BitsFn<K>()); });
  }
}

template <RealKind K>
void run_real_of(KernelContext& c) {
  const auto run = [&]<class T>() { broadcast_two<T>(c, RealFn<K>()); };
  if constexpr (takes_integers(K)) {
    dispatch_number("real", c.out().dtype, run);
  } else {
    dispatch_float("real", c.out().dtype, run);
  }
}

}  // namespace

void ops::run_number_kind_cuda(NumberKind kind, KernelContext& c) {
  const TensorView& x = c.in(0);
  const int64_t n = x.size();
  if (!is_floating(x.dtype)) {
    return cuda::for_each(c, n, WriteConstant{kind == NumberKind::finite, c.out().as<bool>()});
  }
  dispatch_width(x.dtype, [&]<class T>() {
    cuda::elementwise(c, n, bit_range(kind, T(infinity_bits(x.dtype))), c.out().as<bool>(), x.as<const T>());
  });
}

void ops::run_bits_cuda(BitsKind kind, KernelContext& c) {
  switch (kind) {
    case BitsKind::bit_and: return run_bits_of<BitsKind::bit_and>(c);
    case BitsKind::bit_or: return run_bits_of<BitsKind::bit_or>(c);
    case BitsKind::bit_xor: return run_bits_of<BitsKind::bit_xor>(c);
    case BitsKind::left_shift: return run_bits_of<BitsKind::left_shift>(c);
    case BitsKind::right_shift: return run_bits_of<BitsKind::right_shift>(c);
    case BitsKind::lcm: return run_bits_of<BitsKind::lcm>(c);
  }
}

void ops::run_real_cuda(RealKind kind, KernelContext& c) {
  switch (kind) {
    case RealKind::arctan2: return run_real_of<RealKind::arctan2>(c);
    case RealKind::copysign: return run_real_of<RealKind::copysign>(c);
    case RealKind::fmod: return run_real_of<RealKind::fmod>(c);
    case RealKind::fmax: return run_real_of<RealKind::fmax>(c);
    case RealKind::fmin: return run_real_of<RealKind::fmin>(c);
    case RealKind::ldexp: return run_real_of<RealKind::ldexp>(c);
  }
}

void run_cuda(const op::NanToNum& op, KernelContext& c) {
  const TensorView &x = c.in(0), &out = c.out();
  if (!is_floating(x.dtype)) return cuda::copy_bytes(c, x.data, out.data, out.bytes());
  dispatch_float("_npi_nan_to_num", x.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    cuda::elementwise(c, out.size(), NanToNumFn<A>{nan_replacement<A>(op, x.dtype)}, out.as<T>(), x.as<const T>());
  });
}

}  // namespace kaon
