#include "kaon/ops/nn/norm/norm.h"

#include "kaon/ops/nn/norm/kernels/channel_affine.cuh"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

namespace kaon {

using namespace ops;
namespace {

using cuda::NumberArray;
using cuda::RealTarget;

__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }

// Computes the statistics in use, the new moving ones, and each channel's scale and shift.
template <class A>
struct UseStatistics {
  double eps, momentum;
  NumberArray moving_mean, moving_var;
  RealTarget new_mean, new_var;
  RealTarget mean_out, inverse_out, shown_inverse;
  A* mean;
  cuda::ScaleChannels<A> channels;

  // Sets the statistics of a batch.
  __device__ void set(int64_t i, A batch_mean, A variance) const {
    new_mean.set(i, moved(A(moving_mean.real(i)), batch_mean, momentum));
    new_var.set(i, moved(A(moving_var.real(i)), variance, momentum));
    use(i, batch_mean, inverse_deviation(variance, eps));
  }
  // The moving ones.
  __device__ void operator()(int64_t i) const {
    use(i, A(moving_mean.real(i)), -inverse_deviation(A(moving_var.real(i)), eps));
  }
  __device__ void use(int64_t i, A used_mean, A inverse) const {
    mean[i] = used_mean;
    mean_out.set(i, used_mean);
    inverse_out.set(i, inverse);
    shown_inverse.set(i, fabs(inverse));
    channels.set(i, inverse);
  }
};

template <class A>
struct ChannelMoments {
  using Acc = Moments<A>;
  using Fold = ChannelMoments;
  UseStatistics<A> use;
  __device__ Acc identity() const { return {0, 0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return ops::merge(a, b); }
  __device__ void store(int64_t k, const Acc& acc) const { use.set(k, acc.mean, acc.squares / acc.count); }
};
template <class T>
struct MomentsOf : ChannelMoments<accumulate_t<T>> {
  using A = accumulate_t<T>;
  static constexpr int pack = 16 / sizeof(T);
  const T* data;
  bool packs() const { return cuda::is_aligned<pack>(data); }
  __device__ cuda::Pack<T, pack> load(int64_t at) const {
    return *reinterpret_cast<const cuda::Pack<T, pack>*>(data + at);
  }
  __device__ Moments<A> add_pack(const Moments<A>& acc, int64_t at, int64_t) const {
    const auto x = load(at);
    A sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < pack; ++i) sum += A(x.v[i]);
    const A mean = sum * A(1.0 / pack);
#pragma unroll
    for (int i = 0; i < pack; ++i) squares += (A(x.v[i]) - mean) * (A(x.v[i]) - mean);
    return this->merge(acc, {A(pack), mean, squares});
  }
  __device__ void add_across(Moments<A> (&acc)[pack], int64_t at, int64_t) const {
    const auto x = load(at);
    const A count = acc[0].count + A(1), part = quotient(A(1), count);  // the same for all
#pragma unroll
    for (int i = 0; i < pack; ++i) {
      const A v = A(x.v[i]), delta = v - acc[i].mean, mean = acc[i].mean + delta * part;
      acc[i] = {count, mean, acc[i].squares + delta * (v - mean)};
    }
  }
  __device__ Moments<A> add(const Moments<A>& acc, int64_t at, int64_t, int64_t) const {
    const A v = A(data[at]), count = acc.count + A(1), delta = v - acc.mean;
    const A mean = acc.mean + quotient(delta, count);
    return {count, mean, acc.squares + delta * (v - mean)};
  }
};

// The gradients of a channel's parameters, and the coefficients for those of its elements.
template <class A>
struct UseProducts {
  int64_t count;  // elements of a channel
  bool fix_gamma;
  NumberArray gamma, inverse;
  RealTarget dgamma, dbeta;
  A *a, *b, *shift;

  __device__ void set(int64_t i, A head_sum, A product_sum) const {
    const auto g =
        channel_gradient(fix_gamma ? A(1) : A(gamma.real(i)), A(inverse.real(i)), head_sum, product_sum, count);
    a[i] = g.a, b[i] = g.b, shift[i] = g.shift;
    dgamma.set(i, fix_gamma ? A(0) : g.gamma);
    dbeta.set(i, head_sum);
  }
};

template <class A>
struct ChannelProducts {
  struct Acc {
    A heads, products;
  };
  using Fold = ChannelProducts;
  UseProducts<A> use;
  __device__ Acc identity() const { return {0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return {a.heads + b.heads, a.products + b.products}; }
  __device__ void store(int64_t k, const Acc& acc) const { use.set(k, acc.heads, acc.products); }
};
template <class T>
struct ProductsOf : ChannelProducts<accumulate_t<T>> {
  using A = accumulate_t<T>;
  using Acc = typename ChannelProducts<A>::Acc;
  static constexpr int pack = 16 / sizeof(T);
  const T *head, *x;
  const A* mean;
  bool packs() const { return cuda::is_aligned<pack>(head) && cuda::is_aligned<pack>(x); }
  // Calls f(i, head, x) for the elements of a pack.
  template <class F>
  __device__ void each(int64_t at, const F& f) const {
    const auto hs = *reinterpret_cast<const cuda::Pack<T, pack>*>(head + at);
    const auto xs = *reinterpret_cast<const cuda::Pack<T, pack>*>(x + at);
#pragma unroll
    for (int i = 0; i < pack; ++i) f(i, A(hs.v[i]), A(xs.v[i]));
  }
  __device__ Acc add_pack(Acc acc, int64_t at, int64_t k) const {
    const A m = mean[k];
    each(at, [&](int, A h, A v) { acc.heads += h, acc.products += h * (v - m); });
    return acc;
  }
  __device__ void add_across(Acc (&acc)[pack], int64_t at, int64_t k) const {
    each(at, [&](int i, A h, A v) { acc[i].heads += h, acc[i].products += h * (v - mean[k + i]); });
  }
  __device__ Acc add(const Acc& acc, int64_t at, int64_t k, int64_t) const {
    const A h = A(head[at]);
    return {acc.heads + h, acc.products + h * (A(x[at]) - mean[k])};
  }
};

template <class A>
struct Widen {
  NumberArray from;
  A* to;
  __device__ void operator()(int64_t i) const { to[i] = A(from.real(i)); }
};

template <class T>
void forward(const op::BatchNorm& op, KernelContext& c) {
  using A = accumulate_t<T>;
  const ChannelSizes s = channel_sizes(c.in(0), op.axis);
  const ReduceDim dims[] = {{s.outer, true}, {s.channels, false}, {s.inner, true}};
  const auto array = [&] { return cuda::per_channel<A>(c, s); };
  A *const mean = array(), *const scale = array(), *const shift = array();
  const T* const x = c.in(0).as<T>();
  const bool moves = !statistics_move_with_gradients();
  const NumberArray gamma(op.fix_gamma ? TensorView() : c.in(1));
  const UseStatistics<A> use{op.eps,
                             op.momentum,
                             NumberArray(c.in(3)),
                             NumberArray(c.in(4)),
                             RealTarget(moves ? c.in(3) : TensorView()),
                             RealTarget(moves ? c.in(4) : TensorView()),
                             RealTarget(c.out(1)),
                             RealTarget(c.out(op.signed_inverse())),
                             RealTarget(op.output_mean_var ? c.out(2) : TensorView()),
                             mean,
                             {gamma, NumberArray(c.in(2)), scale, shift}};
  if (c.training && !op.use_global_stats && s.per_channel() > 0) {
    cuda::reduce(c, MomentsOf<T>{{use}, x}, dims);
  } else {
    cuda::for_each(c, s.channels, use);
  }
  cuda::channel_affine<T>(c, s, nullptr, x, mean, nullptr, scale, shift, c.out(0).as<T>());
}

// Numbers per channel as A: in place if they have that type.
template <class A>
const A* widened(KernelContext& c, const ChannelSizes& s, const TensorView& from) {
  if (from.dtype == dtype_of<A>) return from.as<A>();
  A* const to = cuda::per_channel<A>(c, s);
  cuda::for_each(c, s.channels, Widen<A>{NumberArray(from), to});
  return to;
}

template <class T>
void backward(const op::BackwardBatchNorm& op, KernelContext& c) {
  using A = accumulate_t<T>;
  const ChannelSizes s = channel_sizes(c.in(1), op.axis);
  const ReduceDim dims[] = {{s.outer, true}, {s.channels, false}, {s.inner, true}};
  const auto array = [&] { return cuda::per_channel<A>(c, s); };
  A *const a = array(), *const b = array(), *const shift = array();
  const A* const mean = widened<A>(c, s, c.in(3));
  const T *const head = c.in(0).as<T>(), *const x = c.in(1).as<T>();
  const UseProducts<A> use{s.per_channel(),
                           op.fix_gamma,
                           NumberArray(c.in(2)),
                           NumberArray(c.in(4)),
                           RealTarget(c.out(1)),
                           RealTarget(c.out(2)),
                           a,
                           b,
                           shift};
  cuda::reduce(c, ProductsOf<T>{{use}, head, x, mean}, dims);
  if (c.out(0).data) cuda::channel_affine<T>(c, s, head, x, mean, a, b, shift, c.out(0).as<T>());
}

}  // namespace

void run_cuda(const op::BatchNorm& op, KernelContext& c) {
  dispatch_float("BatchNorm", c.in(0).dtype, [&]<class T>() { forward<T>(op, c); });
}

void run_cuda(const op::BackwardBatchNorm& op, KernelContext& c) {
  dispatch_float("_backward_BatchNorm", c.in(1).dtype, [&]<class T>() { backward<T>(op, c); });
}

}  // namespace kaon
