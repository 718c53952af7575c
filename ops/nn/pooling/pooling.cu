#include "kaon/ops/nn/pooling/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/cuda/pack.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"

namespace kaon {

using namespace ops;

namespace {

using cuda::FastDivide, cuda::Pack, cuda::warp;

constexpr int64_t long_rows = 32;  // windows with such rows are a warp's work, shorter ones a thread's

struct Pool {
  PoolSizes s;
  PoolType type = PoolType::max;
  bool count_pad = true;
  int p = 2;
  int64_t ins = 1, outs = 1;  // positions of a plane
  FastDivide inner;           // planes whose elements alternate: the channels with channels last, else 1
  FastDivide in_plane, in_y, in_x, out_plane, out_y, out_x, stride[3];

  Pool(const PoolSizes& sizes, int64_t alternating) : s(sizes), inner(alternating) {
    for (int a = 0; a < 3; ++a) ins *= s.in[a], outs *= s.out[a], stride[a] = FastDivide(s.stride[a]);
    in_plane = FastDivide(ins), in_y = FastDivide(s.in[1]), in_x = FastDivide(s.in[2]);
    out_plane = FastDivide(outs), out_y = FastDivide(s.out[1]), out_x = FastDivide(s.out[2]);
  }
};

// The planes that an element's is one of, `inner` of them alternating: the how-many-th such group, and where in it.
struct Plane {
  int64_t group, at, inner;

  // i becomes the position in the plane.
  __device__ Plane(const Pool& pool, const FastDivide& positions, int64_t& i) : inner(pool.inner.divisor()) {
    at = i;
    i = pool.inner.split(at);
    group = positions.split(i);
  }
  // The element at this position, in planes of `positions`.
  __device__ int64_t element(int64_t positions, int64_t position) const {
    return (group * positions + position) * inner + at;
  }
};

// Axes that one window covers whole become one with the innermost, so that global pooling is the sum of a row.
void merge_whole_axes(PoolSizes& s) {
  const auto whole = [&](int a) {
    return s.out[a] == 1 && s.pad[a] == 0 && s.dilation[a] == 1 && s.kernel[a] >= s.in[a];
  };
  if (!whole(2)) return;
  s.kernel[2] = s.in[2];
  for (int a = 1; a >= 0 && whole(a); --a) {
    s.in[2] *= s.in[a], s.kernel[2] *= s.in[a];
    s.in[a] = s.kernel[a] = 1;
  }
}

template <class Op>
Pool make_pool(const Op& op, const TensorView& given, const TensorView& given_output) {
  const TensorView data = as_images(given, op.layout), output = as_images(given_output, op.layout);
  const PoolWindows w = pool_windows(op, data.shape);
  PoolSizes s(make_geometry(data.shape, output.shape, w.kernel, w.stride, w.dilation, w.pad, 1));
  merge_whole_axes(s);
  Pool pool(s, data.layout == Layout::channels_last ? data.shape[1] : 1);
  pool.type = op.pool_type;
  pool.count_pad = op.count_include_pad.value_or(true);
  pool.p = op.p_value.value_or(2);
  return pool;
}

// The window of an output position.
__device__ PoolWindow window_at(const Pool& pool, int64_t z) {
  int64_t x = z;
  int64_t y = pool.out_x.split(x);
  z = pool.out_y.split(y);
  return pool.s.window(z, y, x);
}

// Calls visit(input position) for every step-th element of the window's rows, from the first-th, in row-major order,
// until it returns true.
template <class Visit>
__device__ void visit_window(const PoolSizes& s, const PoolWindow& w, int first, int step, const Visit& visit) {
  for (int64_t z = w.begin[0]; z < w.end[0]; z += s.dilation[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += s.dilation[1]) {
      const int64_t row = (z * s.in[1] + y) * s.in[2];
      for (int64_t x = w.begin[2] + first * s.dilation[2]; x < w.end[2]; x += step * s.dilation[2]) {
        if (visit(row + x)) return;
      }
    }
  }
}

// The larger one; NaN wins.
template <class Acc>
__device__ Acc larger(Acc x, Acc best) {
  return x > best || x != x ? x : best;
}

template <class Acc>
__device__ Acc power(Acc x, int p) {
  const Acc a = x < 0 ? -x : x;
  return p == 1 ? a : p == 2 ? x * x : a * (a * a);
}

template <class Acc>
__device__ Acc root(Acc x, int p) {
  return p == 1 ? x : p == 2 ? std::sqrt(x) : std::cbrt(x);
}

// Outputs, N neighbours of as many planes at a time, by `lanes` neighbouring threads: 1 or a warp.
template <int lanes, int N, class T>
__global__ void __launch_bounds__(cuda::block) pool_forward(int64_t n, Pool pool, const Pack<T, N>* x, Pack<T, N>* y) {
  using Acc = accumulate_t<T>;
  const int lane = int(threadIdx.x % lanes);
  for (int64_t i = cuda::first_item() / lanes; i < n; i += cuda::item_step() / lanes) {
    int64_t position = i;
    const Plane plane(pool, pool.out_plane, position);
    const PoolWindow w = window_at(pool, position);
    const Pack<T, N>* const from = x + plane.element(pool.ins, 0);
    const bool is_max = pool.type == PoolType::max;
    Acc total[N];
#pragma unroll
    for (Acc& t : total) t = is_max ? -std::numeric_limits<Acc>::infinity() : Acc(0);
    visit_window(pool.s, w, lane, lanes, [&](int64_t at) {
      const Pack<T, N> values = from[at * plane.inner];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Acc v = Acc(values.v[j]);
        total[j] = is_max ? larger(v, total[j]) : total[j] + (pool.type == PoolType::lp ? power(v, pool.p) : v);
      }
      return false;
    });
    if constexpr (lanes > 1) {
      for (int step = lanes / 2; step > 0; step /= 2) {
        const Acc other = __shfl_xor_sync(0xffffffffu, total[0], step);
        total[0] = is_max ? larger(other, total[0]) : total[0] + other;
      }
    }
    const int64_t by = pool_divisor(pool.type, pool.count_pad, w);
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (pool.type == PoolType::lp) total[j] = root(total[j], pool.p);
      if (by != 1) total[j] /= Acc(by);
      result.v[j] = T(total[j]);
    }
    if (lane == 0) y[i] = result;
  }
}

// For every window of max, the position of the first element that equals the maximum, or of the first NaN; -1 for none.
// With `tangent`, its element there instead, 0 for none.
template <int lanes, int N, class T>
__global__ void __launch_bounds__(cuda::block)
    find_tops(int64_t n, Pool pool, const Pack<T, N>* x, const Pack<T, N>* y, const Pack<T, N>* tangent,
              Pack<T, N>* along, Pack<int32_t, N>* tops) {
  using Acc = accumulate_t<T>;
  constexpr int none = std::numeric_limits<int>::max();
  const int lane = int(threadIdx.x % lanes);
  for (int64_t i = cuda::first_item() / lanes; i < n; i += cuda::item_step() / lanes) {
    int64_t position = i;
    const Plane plane(pool, pool.out_plane, position);
    const PoolWindow w = window_at(pool, position);
    const int64_t begin = plane.element(pool.ins, 0);
    const Pack<T, N> top = y[i];
    Pack<int32_t, N> first;
#pragma unroll
    for (int32_t& f : first.v) f = none;
    visit_window(pool.s, w, lane, lanes, [&](int64_t at) {
      const Pack<T, N> values = x[begin + at * plane.inner];
      bool is_last = true;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const Acc v = Acc(values.v[j]);
        if (first.v[j] == none && (v == Acc(top.v[j]) || v != v)) first.v[j] = int32_t(at);
        is_last = is_last && first.v[j] != none;
      }
      return is_last;
    });
    if constexpr (lanes > 1) {
      for (int step = lanes / 2; step > 0; step /= 2) {
        first.v[0] = std::min(first.v[0], __shfl_xor_sync(0xffffffffu, first.v[0], step));
      }
    }
    if (lane != 0) continue;
    Pack<T, N> there;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const bool found = first.v[j] != none;
      if (tangent) there.v[j] = found ? tangent[begin + first.v[j] * plane.inner].v[j] : T(Acc(0));
      if (!found) first.v[j] = -1;
    }
    if (tangent) {
      along[i] = there;
    } else {
      tops[i] = first;
    }
  }
}

// Input elements, N neighbours of as many planes at a time: each adds the gradients from the windows over it, in
// row-major order of the windows.
template <int N, class T>
struct PoolBackward {
  using Acc = accumulate_t<T>;
  Pool pool;
  const Pack<int32_t, N>* tops;  // of a maximum
  const Pack<T, N>* x;
  const Pack<T, N>* y;
  const Pack<T, N>* head;
  Pack<T, N>* dx;

  // Windows [first, end) of an axis reach over a position.
  __device__ void windows_over(int axis, int64_t position, int64_t& first, int64_t& end) const {
    const int64_t at = position + pool.s.pad[axis], extent = pool.s.extent(axis);
    first = at < extent ? 0 : pool.stride[axis].quotient(at - extent) + 1;
    end = std::min(pool.s.out[axis], pool.stride[axis].quotient(at) + 1);
  }
  // Whether one that does has the position as an element.
  __device__ bool has(int axis, int64_t window, int64_t position) const {
    const int64_t dilation = pool.s.dilation[axis];
    return dilation == 1 || (position + pool.s.pad[axis] - window * pool.s.stride[axis]) % dilation == 0;
  }
  // The gradient from a window to an element with this value; not for max.
  __device__ Acc part(Acc g, Acc norm, int64_t divisor, Acc value) const {
    if (pool.type != PoolType::lp) return g / Acc(divisor);
    if (norm == Acc(0)) return Acc(0);
    Acc slope = std::copysign(Acc(1), value);
    for (int i = 1; i < pool.p; ++i) slope *= std::abs(value) / norm;
    return g * slope;
  }
  __device__ void operator()(int64_t i) const {
    int64_t position = i;
    const Plane plane(pool, pool.in_plane, position);
    int64_t at[3], first[3], end[3];
    at[2] = position;
    at[1] = pool.in_x.split(at[2]);
    at[0] = pool.in_y.split(at[1]);
    for (int a = 0; a < 3; ++a) windows_over(a, at[a], first[a], end[a]);
    const bool is_max = pool.type == PoolType::max, is_lp = pool.type == PoolType::lp;
    Pack<T, N> values{}, norms{};
    if (is_lp) values = x[i];
    Acc sum[N] = {};
    for (int64_t z = first[0]; z < end[0]; ++z) {
      for (int64_t r = first[1]; r < end[1]; ++r) {
        for (int64_t c = first[2]; c < end[2]; ++c) {
          if (!has(0, z, at[0]) || !has(1, r, at[1]) || !has(2, c, at[2])) continue;
          const int64_t window = plane.element(pool.outs, (z * pool.s.out[1] + r) * pool.s.out[2] + c);
          const Pack<T, N> g = head[window];
          if (is_max) {
            const Pack<int32_t, N> top = tops[window];
#pragma unroll
            for (int j = 0; j < N; ++j) sum[j] += top.v[j] == position ? Acc(g.v[j]) : Acc(0);
            continue;
          }
          const int64_t divisor = pool_divisor(pool.type, pool.count_pad, pool.s.window(z, r, c));
          if (is_lp) norms = y[window];
#pragma unroll
          for (int j = 0; j < N; ++j) sum[j] += part(Acc(g.v[j]), Acc(norms.v[j]), divisor, Acc(values.v[j]));
        }
      }
    }
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = T(sum[j]);
    dx[i] = result;
  }
};

// Calls f.template operator()<lanes, N>() with the threads that work on an output together and the outputs that they
// make at a time: with channels last 16 bytes, where all of `arrays` allow that; the planes are then `pool.inner`
// packs.
template <class T, class F>
void by_lanes(Pool& pool, std::initializer_list<const void*> arrays, const F& f) {
  constexpr int N = 16 / sizeof(T);
  const int64_t inner = pool.inner.divisor();
  bool packs = inner % N == 0;
  for (const void* p : arrays) packs = packs && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  if (inner > 1 && packs) {
    pool.inner = FastDivide(inner / N);
    return f.template operator()<1, N>();
  }
  if (inner > 1 || std::min(pool.s.kernel[2], pool.s.in[2]) < long_rows) return f.template operator()<1, 1>();
  f.template operator()<int(warp), 1>();
}

template <int N, class T>
const Pack<T, N>* packs_of(const T* data) {
  return reinterpret_cast<const Pack<T, N>*>(data);
}
template <int N, class T>
Pack<T, N>* packs_of(T* data) {
  return reinterpret_cast<Pack<T, N>*>(data);
}

template <class T>
void forward(KernelContext& c, Pool pool, const TensorView& x, const TensorView& y) {
  by_lanes<T>(pool, {x.data, y.data}, [&]<int lanes, int N>() {
    const int64_t n = y.size() / N;
    cuda::launch(c, pool_forward<lanes, N, T>, cuda::blocks_for(n, cuda::block / lanes), unsigned(cuda::block), n, pool,
                 packs_of<N>(x.as<const T>()), packs_of<N>(y.as<T>()));
  });
}

template <class T>
void tops(KernelContext& c, Pool pool, const TensorView& x, const TensorView& y, const T* tangent, T* along,
          int32_t* found) {
  if (pool.ins > std::numeric_limits<int32_t>::max()) {
    throw ValueError("[Pooling] the gradient of a maximum on a GPU takes planes of less than 2^31 elements");
  }
  by_lanes<T>(pool, {x.data, y.data, tangent, along}, [&]<int lanes, int N>() {
    const int64_t n = y.size() / N;
    cuda::launch(c, find_tops<lanes, N, T>, cuda::blocks_for(n, cuda::block / lanes), unsigned(cuda::block), n, pool,
                 packs_of<N>(x.as<const T>()), packs_of<N>(y.as<const T>()), packs_of<N>(tangent), packs_of<N>(along),
                 packs_of<N>(found));
  });
}

template <class T>
void backward(KernelContext& c, Pool pool, const TensorView& head, const TensorView& x, const TensorView& y,
              const TensorView& dx) {
  const bool is_max = pool.type == PoolType::max;
  int32_t* const found = is_max ? static_cast<int32_t*>(c.run.workspace(size_t(y.size()) * sizeof(int32_t))) : nullptr;
  if (is_max) tops<T>(c, pool, x, y, nullptr, nullptr, found);
  by_lanes<T>(pool, {head.data, x.data, y.data, dx.data}, [&]<int, int N>() {
    cuda::for_each(
        c, dx.size() / N,
        PoolBackward<N, T>{pool, packs_of<N>(static_cast<const int32_t*>(found)), packs_of<N>(x.as<const T>()),
                           packs_of<N>(y.as<const T>()), packs_of<N>(head.as<const T>()), packs_of<N>(dx.as<T>())});
  });
}

}  // namespace

template <PoolPart P>
void run_cuda(const op::PoolingOp<P>& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float(op.traits.name.data(), c.out().dtype, [&]<class T>() {
    const TensorView &in = c.in(0), &out = c.out();
    if constexpr (P == PoolPart::forward) {
      forward<T>(c, make_pool(op, in, out), in, out);
    } else if constexpr (P == PoolPart::along) {
      const TensorView &x = c.in(1), &y = c.in(2);
      const Pool pool = make_pool(op, x, y);
      if (op.pool_type != PoolType::max) return forward<T>(c, pool, in, out);  // linear
      tops<T>(c, pool, x, y, in.as<T>(), out.as<T>(), nullptr);
    } else {
      backward<T>(c, make_pool(op, c.in(1), c.in(2)), in, c.in(1), c.in(2), out);
    }
  });
}

template void run_cuda(const op::Pooling&, KernelContext&);
template void run_cuda(const op::BackwardPooling&, KernelContext&);
template void run_cuda(const op::PoolingAlong&, KernelContext&);

}  // namespace kaon
