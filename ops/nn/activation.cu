// Activation and LeakyReLU with their gradients on CUDA.
#include "kaon/ops/nn/activation.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/cuda/random.cuh"
#include "kaon/ops/elementwise/scalar_math.h"
#include "kaon/ops/elementwise/unary.h"
#include "kaon/ops/nn/activation_kernel.h"

namespace kaon {
namespace {

struct BackwardSoftrelu {
  static constexpr int most = 4;
  template <class T>
  __device__ T operator()(T head, T y) const {
    return head * -::expm1(-y);
  }
};

struct BackwardSoftsign {
  template <class T>
  __device__ T operator()(T head, T y) const {
    const T s = T(1) - ::fabs(y);
    return head * (s * s);
  }
};

// The value at x <= 0, and by what a head is multiplied there.
template <class T>
struct LeftOfZero {
  LeakyType type;
  T slope;
  __device__ T value(T x) const { return slope * (type == LeakyType::leaky ? x : ::expm1(x)); }
  __device__ T derivative(T x) const { return type == LeakyType::leaky ? slope : slope * ::exp(x); }
};

template <class T>
struct LeakyFn {
  static constexpr int most = 4;
  LeftOfZero<T> left;
  T scale;
  __device__ T operator()(T x) const { return scale * (x <= T(0) ? left.value(x) : x); }
};

template <class T>
struct BackwardLeakyFn {
  static constexpr int most = 4;
  LeftOfZero<T> left;
  T scale;
  __device__ T operator()(T head, T x) const {
    return scale * (x > T(0) ? head : x != x ? x : head * left.derivative(x));
  }
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
  if (gamma_per_channel(gamma.shape)) shape[1] = gamma.size();
  return shape;
}

// Calls f(LeftOfZero, scale) for leaky, elu and selu.
template <class A, class F>
void with_left(LeakyType type, double slope, const F& f) {
  const bool selu = type == LeakyType::selu;
  f(LeftOfZero<A>{type, A(selu ? selu_alpha : slope)}, A(selu ? selu_scale : 1));
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

void run_rrelu(const LeakyReLU& op, KernelContext& c) {
  const TensorView &x = c.in(0), &y = c.out(), &slopes = c.out(1);
  const double mean = (op.lower_bound + op.upper_bound) / 2;
  const double low = c.training ? op.lower_bound : mean, high = c.training ? op.upper_bound : mean;
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    const bool aligned = cuda::is_aligned<4>(x.as<T>()) && cuda::is_aligned<4>(y.as<T>()) &&
                         cuda::is_aligned<4>(slopes.as<T>());
    cuda::for_random_blocks(
        c, x.size(), 4, RReLUFn<T>{low, high, x.as<T>(), y.as<T>(), slopes.as<T>(), x.size(), aligned});
  });
}

// Data seen as (outer, channels, inner): sums over outer and inner. A block adds up a part of them for one channel, or
// where a channel's elements do not lie together for 32 channels.
template <class T>
__global__ void gamma_kernel(ChannelView s, int64_t part, const T* head, const T* x, accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  constexpr int warps = int(cuda::block / cuda::warp);
  __shared__ A sums[warps][32];
  const int lane = int(threadIdx.x) % 32, row = int(threadIdx.x) / 32;
  const bool scattered = s.inner == 1;
  const int64_t channel = scattered ? int64_t(blockIdx.x) * 32 + lane : int64_t(blockIdx.x);
  const int64_t begin = int64_t(blockIdx.y) * part, count = s.outer * s.inner;
  const int64_t end = begin + part < count ? begin + part : count;
  A sum = 0;
  if (channel < s.channels) {
    for (int64_t i = begin + (scattered ? row : int(threadIdx.x)); i < end; i += scattered ? warps : cuda::block) {
      const int64_t outer = i / s.inner, at = (outer * s.channels + channel) * s.inner + (i - outer * s.inner);
      const A v = A(x[at]);
      sum += v > A(0) ? A(0) : A(head[at]) * v;
    }
  }
  sums[row][lane] = sum;
  __syncthreads();
  if (row != 0) return;
  for (int k = 1; k < warps; ++k) sum += sums[k][lane];
  if (!scattered) {
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, unsigned(step));
  }
  if (channel < s.channels && (scattered || lane == 0)) partial[int64_t(blockIdx.y) * s.channels + channel] = sum;
}

template <class T>
struct AddParts {
  const accumulate_t<T>* partial;
  int64_t parts, channels;
  T* out;
  __device__ void operator()(int64_t channel) const {
    accumulate_t<T> sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += partial[p * channels + channel];
    out[channel] = T(sum);
  }
};

}  // namespace

void run_cuda(const Activation& op, KernelContext& c) {
  static constexpr UnaryKind kinds[] = {UnaryKind::relu, UnaryKind::sigmoid, UnaryKind::tanh, UnaryKind::softrelu,
                                        UnaryKind::softsign};
  run_unary_cuda(kinds[size_t(op.act_type)], c);
}

void run_cuda(const BackwardActivation& op, KernelContext& c) {
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

void run_cuda(const LeakyReLU& op, KernelContext& c) {
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
    with_left<A>(op.act_type, op.slope, [&](const LeftOfZero<A>& left, A scale) {
      cuda::elementwise(c, y.size(), LeakyFn<A>{left, scale}, y.as<T>(), x.as<const T>());
    });
  });
}

void run_cuda(const BackwardLeakyReLU& op, KernelContext& c) {
  if (op.act_type == LeakyType::gelu) return run_unary_backward_cuda(UnaryBackwardKind::gelu, c);
  const TensorView &head = c.in(0), &x = c.in(1), &dx = c.out();
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    if (op.act_type == LeakyType::prelu) {
      const Shape gamma = gamma_shape(x, c.in(2));
      return cuda::broadcast(c, BackwardPReLUFn{}, x.shape, dx.as<T>(), {&head.shape, &x.shape, &gamma},
                             head.as<const T>(), x.as<const T>(), c.in(2).as<const T>());
    }
    using A = accumulate_t<T>;
    with_left<A>(op.act_type, op.slope, [&](const LeftOfZero<A>& left, A scale) {
      cuda::elementwise(c, dx.size(), BackwardLeakyFn<A>{left, scale}, dx.as<T>(), head.as<const T>(),
                        x.as<const T>());
    });
  });
}

void run_cuda(const BackwardPReLUGamma&, KernelContext& c) {
  const TensorView &head = c.in(0), &x = c.in(1), &out = c.out();
  const ChannelView s = channel_view(x, out.shape);
  if (s.channels == 0) return;
  const int64_t groups = s.inner == 1 ? (s.channels + 31) / 32 : s.channels;
  // as many blocks as keep a large GPU busy, of 8 elements a thread at least
  const int64_t least = s.inner == 1 ? 64 : 8 * cuda::block, count = s.outer * s.inner;
  const int64_t parts = std::clamp<int64_t>(count / least, 1, std::max<int64_t>(1, 528 / groups));
  const int64_t part = (count + parts - 1) / parts;
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    A* partial = static_cast<A*>(c.run.workspace(sizeof(A) * size_t(parts * s.channels)));
    cuda::launch(c, gamma_kernel<T>, dim3(unsigned(groups), unsigned(parts)), unsigned(cuda::block), s, part,
                 head.as<const T>(), x.as<const T>(), partial);
    cuda::for_each(c, s.channels, AddParts<T>{partial, parts, s.channels, out.as<T>()});
  });
}

}  // namespace kaon
