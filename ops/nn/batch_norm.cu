#include "kaon/ops/nn/batch_norm.h"

#include "kaon/ops/nn/channel_affine.cuh"

namespace kaon {
namespace {

using cuda::NumberArray;
using cuda::RealTarget;

__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }

template <class A>
struct ChannelMoments {
  using Acc = Moments<A>;
  using Fold = ChannelMoments;
  A *mean, *variance;
  __device__ Acc identity() const { return {0, 0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return kaon::merge(a, b); }
  __device__ void store(int64_t k, const Acc& acc) const {
    mean[k] = acc.mean;
    variance[k] = acc.squares / acc.count;
  }
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

// After the moments of a batch, or (`of_batch` false) from the moving ones: the statistics that are used, what stays of
// them, and what they make of each channel.
template <class A>
struct UseStatistics {
  bool of_batch;
  double eps, momentum;
  A *mean, *variance;
  NumberArray moving_mean, moving_var;
  RealTarget new_mean, new_var;
  RealTarget mean_out, inverse_out;
  cuda::ScaleChannels<A> channels;

  __device__ void operator()(int64_t i) const {
    const A old_mean = A(moving_mean.real(i)), old_var = A(moving_var.real(i));
    A inverse;
    if (of_batch) {
      new_mean.set(i, moved(old_mean, mean[i], momentum));
      new_var.set(i, moved(old_var, variance[i], momentum));
      inverse = inverse_deviation(variance[i], eps);
    } else {
      mean[i] = old_mean;
      inverse = -inverse_deviation(old_var, eps);
    }
    mean_out.set(i, mean[i]);
    inverse_out.set(i, inverse);
    channels.set(i, inverse);
  }
};

template <class A>
struct ChannelProducts {
  struct Acc {
    A heads, products;
  };
  using Fold = ChannelProducts;
  A *head_sum, *product_sum;
  __device__ Acc identity() const { return {0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return {a.heads + b.heads, a.products + b.products}; }
  __device__ void store(int64_t k, const Acc& acc) const { head_sum[k] = acc.heads, product_sum[k] = acc.products; }
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

template <class A>
struct UseProducts {
  int64_t count;  // elements of a channel
  bool fix_gamma;
  const A *head_sum, *product_sum;
  NumberArray gamma, inverse;
  RealTarget dgamma, dbeta;
  A *a, *b, *shift;

  __device__ void operator()(int64_t i) const {
    const auto g = channel_gradient(fix_gamma ? A(1) : A(gamma.real(i)), A(inverse.real(i)), head_sum[i],
                                    product_sum[i], count);
    a[i] = g.a, b[i] = g.b, shift[i] = g.shift;
    dgamma.set(i, fix_gamma ? A(0) : g.gamma);
    dbeta.set(i, head_sum[i]);
  }
};

template <class T>
void forward(const BatchNorm& op, KernelContext& c) {
  using A = accumulate_t<T>;
  const ChannelSizes s = channel_sizes(c.in(0), op.axis);
  const ReduceDim dims[] = {{s.outer, true}, {s.channels, false}, {s.inner, true}};
  const auto array = [&] { return cuda::per_channel<A>(c, s); };
  A *const mean = array(), *const variance = array(), *const scale = array(), *const shift = array();
  const T* const x = c.in(0).as<T>();
  const NumberArray gamma(op.fix_gamma ? TensorView() : c.in(1));
  const bool of_batch = c.training && !op.use_global_stats && s.per_channel() > 0;
  if (of_batch) cuda::reduce(c, MomentsOf<T>{{mean, variance}, x}, dims);
  cuda::for_each(c, s.channels,
                 UseStatistics<A>{of_batch, op.eps, op.momentum, mean, variance, NumberArray(c.in(3)),
                                  NumberArray(c.in(4)), RealTarget(c.in(3)), RealTarget(c.in(4)), RealTarget(c.out(1)),
                                  RealTarget(c.out(2)),
                                  {gamma, NumberArray(c.in(2)), scale, shift}});
  cuda::channel_affine<T>(c, s, nullptr, x, mean, nullptr, scale, shift, c.out(0).as<T>());
}

template <class T>
void backward(const BackwardBatchNorm& op, KernelContext& c) {
  using A = accumulate_t<T>;
  const ChannelSizes s = channel_sizes(c.in(1), op.axis);
  const ReduceDim dims[] = {{s.outer, true}, {s.channels, false}, {s.inner, true}};
  const auto array = [&] { return cuda::per_channel<A>(c, s); };
  A *const mean = array(), *const heads = array(), *const products = array();
  A *const a = array(), *const b = array(), *const shift = array();
  const T *const head = c.in(0).as<T>(), *const x = c.in(1).as<T>();
  cuda::for_each(c, s.channels, Widen<A>{NumberArray(c.in(3)), mean});
  cuda::reduce(c, ProductsOf<T>{{heads, products}, head, x, mean}, dims);
  cuda::for_each(c, s.channels,
                 UseProducts<A>{s.per_channel(), op.fix_gamma, heads, products, NumberArray(c.in(2)),
                                NumberArray(c.in(4)), RealTarget(c.out(1)), RealTarget(c.out(2)), a, b, shift});
  if (c.out(0).data) cuda::channel_affine<T>(c, s, head, x, mean, a, b, shift, c.out(0).as<T>());
}

}  // namespace

void run_cuda(const BatchNorm& op, KernelContext& c) {
  dispatch_float("BatchNorm", c.in(0).dtype, [&]<class T>() { forward<T>(op, c); });
}

void run_cuda(const BackwardBatchNorm& op, KernelContext& c) {
  dispatch_float("_backward_BatchNorm", c.in(1).dtype, [&]<class T>() { backward<T>(op, c); });
}

}  // namespace kaon
