// Activation and LeakyReLU with their gradients on CUDA.
#include "kaon/ops/nn/activation/activation.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/cuda/random.cuh"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/activation/kernels/activation_kernel.h"
#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon {

using namespace ops;
namespace {

struct BackwardSoftrelu {
  static constexpr int most = 4;
  template <class T>
  __device__ T operator()(T head, T y) const {
    return softrelu_backward_value(head, y);
  }
};

struct BackwardSoftsign {
  template <class T>
  __device__ T operator()(T head, T y) const {
    return softsign_backward_value(head, y);
  }
};

template <class T>
struct LeakyFn {
  static constexpr int most = 4;
  T slope, scale;
  bool linear;
  __device__ T operator()(T x) const { return leaky_value(x, slope, scale, linear); }
};

template <class T>
struct BackwardLeakyFn {
  static constexpr int most = 4;
  T slope, scale;
  bool linear;
  __device__ T operator()(T head, T x) const { return leaky_backward_value(head, x, slope, scale, linear); }
};

struct PReLUFn {
  template <class T>
  __device__ T operator()(T x, T gamma) const {
    return x <= T(0) ? x * gamma : x;
  }
};

struct BackwardPReLUFn {
  template <class T>
  __device__ T operator()(T head, T x, T gamma) const {
    return x != x ? x : x > T(0) ? head : head * gamma;
  }
};

// gamma's shape against the data's.
Shape gamma_shape(const TensorView& data, const TensorView& gamma) {
  Shape shape = Shape::filled(data.shape.ndim(), 1);
  const Shape own = gamma_of_axes(gamma.shape);
  for (int i = 0; i < 2; ++i) {
    if (own[i] != 1) shape[i] = own[i];
  }
  return shape;
}

// Calls a kernel with the parameters of leaky, elu or selu.
template <template <class> class Fn, class A>
Fn<A> leaky_fn(LeakyType type, double slope) {
  const bool selu = type == LeakyType::selu;
  return {A(selu ? selu_alpha : slope), A(selu ? selu_scale : 1), type == LeakyType::leaky};
}

template <class T>
struct RReLUFn {
  using A = accumulate_t<T>;
  double low, high;
  const T* x;
  T *y, *slopes;
  int64_t n;
  bool aligned;
  __device__ void operator()(int64_t block, const Philox4& words) const {
    const bool whole = aligned && (block + 1) * 4 <= n;
    const cuda::Pack<T, 4> from = cuda::load_pack<4>(x, block * 4, n, whole);
    cuda::Pack<T, 4> value, slope;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const A v = A(from.v[j]), s = v > A(0) ? A(1) : A(drawn_slope(low, high, words.v[j]));
      value.v[j] = T(v * s);
      slope.v[j] = T(s);
    }
    cuda::store_pack(y, block * 4, n, whole, value);
    if (slopes) cuda::store_pack(slopes, block * 4, n, whole, slope);
  }
};

void run_rrelu(const op::LeakyReLU& op, KernelContext& c) {
  const TensorView &x = c.in(0), &y = c.out(), &slopes = c.out(1);
  const double mean = (op.lower_bound + op.upper_bound) / 2;
  const double low = c.training ? op.lower_bound : mean, high = c.training ? op.upper_bound : mean;
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    const bool aligned =
        cuda::is_aligned<4>(x.as<T>()) && cuda::is_aligned<4>(y.as<T>()) && cuda::is_aligned<4>(slopes.as<T>());
    cuda::for_random_blocks(c, x.size(), 4,
                            RReLUFn<T>{low, high, x.as<T>(), y.as<T>(), slopes.as<T>(), x.size(), aligned});
  });
}

// The gradient of prelu's gamma: sums of one channel.
template <class T>
struct GammaSum {
  using Acc = accumulate_t<T>;
  using Fold = GammaSum;
  T* out;
  __device__ Acc identity() const { return 0; }
  __device__ Acc merge(Acc a, Acc b) const { return a + b; }
  __device__ void store(int64_t channel, Acc sum) const { out[channel] = T(sum); }
};

template <class T>
struct GammaTerms : GammaSum<T> {
  using Acc = accumulate_t<T>;
  const T *head, *x;
  __device__ Acc add(Acc sum, int64_t at, int64_t, int64_t) const {
    const Acc v = Acc(x[at]);
    return sum + (v > Acc(0) ? Acc(0) : Acc(head[at]) * v);
  }
};

}  // namespace

void run_cuda(const op::Activation& op, KernelContext& c) {
  static constexpr UnaryKind kinds[] = {UnaryKind::relu, UnaryKind::sigmoid, UnaryKind::tanh, UnaryKind::softrelu,
                                        UnaryKind::softsign};
  run_unary_cuda(kinds[size_t(op.act_type)], c);
}

void run_cuda(const op::BackwardActivation& op, KernelContext& c) {
  const auto run = [&](const auto& f) {
    dispatch_float("_backward_Activation", c.out().dtype, [&]<class T>() {
      cuda::elementwise(c, c.out().size(), f, c.out().as<T>(), c.in(0).as<const T>(), c.in(1).as<const T>());
    });
  };
  switch (op.act_type) {
    case ActivationType::relu: return run_unary_backward_cuda(UnaryBackwardKind::relu, c);
    case ActivationType::sigmoid: return run_unary_backward_cuda(UnaryBackwardKind::sigmoid, c);
    case ActivationType::tanh: return run_unary_backward_cuda(UnaryBackwardKind::tanh, c);
    case ActivationType::softrelu: return run(BackwardSoftrelu{});
    case ActivationType::softsign: return run(BackwardSoftsign{});
  }
}

void run_cuda(const op::LeakyReLU& op, KernelContext& c) {
  if (op.act_type == LeakyType::gelu) return run_unary_cuda(UnaryKind::gelu, c);
  if (op.act_type == LeakyType::rrelu) return run_rrelu(op, c);
  const TensorView &x = c.in(0), &y = c.out();
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    if (op.act_type == LeakyType::prelu) {
      const Shape gamma = gamma_shape(x, c.in(1));
      return cuda::broadcast(c, PReLUFn{}, x.shape, y.as<T>(), {&x.shape, &gamma}, x.as<const T>(),
                             c.in(1).as<const T>());
    }
    using A = accumulate_t<T>;
    cuda::elementwise(c, y.size(), leaky_fn<LeakyFn, A>(op.act_type, op.slope), y.as<T>(), x.as<const T>());
  });
}

void run_cuda(const op::BackwardLeakyReLU& op, KernelContext& c) {
  if (op.act_type == LeakyType::gelu) return run_unary_backward_cuda(UnaryBackwardKind::gelu, c);
  const TensorView &head = c.in(0), &x = c.in(1), &dx = c.out();
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    if (op.act_type == LeakyType::prelu) {
      const Shape gamma = gamma_shape(x, c.in(2));
      return cuda::broadcast(c, BackwardPReLUFn{}, x.shape, dx.as<T>(), {&head.shape, &x.shape, &gamma},
                             head.as<const T>(), x.as<const T>(), c.in(2).as<const T>());
    }
    using A = accumulate_t<T>;
    cuda::elementwise(c, dx.size(), leaky_fn<BackwardLeakyFn, A>(op.act_type, op.slope), dx.as<T>(), head.as<const T>(),
                      x.as<const T>());
  });
}

void run_cuda(const op::BackwardPReLUGamma&, KernelContext& c) {
  const TensorView &head = c.in(0), &x = c.in(1), &out = c.out();
  const ChannelView s = channel_view(x, out.shape);
  const ReduceDim dims[] = {{s.samples, false}, {s.outer, true}, {s.channels, false}, {s.inner, true}};
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    cuda::reduce(c, GammaTerms<T>{{out.as<T>()}, head.as<const T>(), x.as<const T>()}, dims);
  });
}

}  // namespace kaon
