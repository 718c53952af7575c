#include "kaon/ops/nn/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/dispatch.h"
#include "kaon/ops/nn/pooling_window.h"

namespace kaon {

namespace {

using cuda::FastDivide, cuda::warp;

constexpr int64_t long_rows = 32;  // windows with such rows are a warp's work, shorter ones a thread's

struct Pool {
  PoolSizes s;
  PoolType type = PoolType::max;
  bool count_pad = true;
  int p = 2;
  int64_t ins = 1, outs = 1;  // positions of a plane
  FastDivide in_plane, in_y, in_x, out_plane, out_y, out_x, stride[3];

  explicit Pool(const PoolSizes& sizes) : s(sizes) {
    for (int a = 0; a < 3; ++a) ins *= s.in[a], outs *= s.out[a], stride[a] = FastDivide(s.stride[a]);
    in_plane = FastDivide(ins), in_y = FastDivide(s.in[1]), in_x = FastDivide(s.in[2]);
    out_plane = FastDivide(outs), out_y = FastDivide(s.out[1]), out_x = FastDivide(s.out[2]);
  }
};

// Axes that one window covers whole become one with the innermost, so that global pooling is the sum of a row.
void merge_whole_axes(PoolSizes& s) {
  const auto whole = [&](int a) { return s.out[a] == 1 && s.pad[a] == 0 && s.kernel[a] >= s.in[a]; };
  if (!whole(2)) return;
  s.kernel[2] = s.in[2];
  for (int a = 1; a >= 0 && whole(a); --a) {
    s.in[2] *= s.in[a], s.kernel[2] *= s.in[a];
    s.in[a] = s.kernel[a] = 1;
  }
}

template <class Op>
Pool make_pool(const Op& op, const TensorView& data, const TensorView& output) {
  const PoolWindows w = pool_windows(op, data.shape);
  PoolSizes s(make_geometry(data.shape, output.shape, w.kernel, w.stride, Shape(), w.pad, 1));
  merge_whole_axes(s);
  Pool pool(s);
  pool.type = op.pool_type;
  pool.count_pad = op.count_include_pad.value_or(true);
  pool.p = op.p_value.value_or(2);
  return pool;
}

// The window of output element i; i becomes its plane.
__device__ PoolWindow window_of(const Pool& pool, int64_t& i) {
  int64_t z = i;
  i = pool.out_plane.split(z);
  int64_t x = z;
  int64_t y = pool.out_x.split(x);
  z = pool.out_y.split(y);
  return pool.s.window(z, y, x);
}

// Calls visit(input position) for every step-th element of the window's rows, from the first-th, in row-major order,
// until it returns true.
template <class Visit>
__device__ void visit_window(const PoolSizes& s, const PoolWindow& w, int first, int step, const Visit& visit) {
  for (int64_t z = w.begin[0]; z < w.end[0]; ++z) {
    for (int64_t y = w.begin[1]; y < w.end[1]; ++y) {
      const int64_t row = (z * s.in[1] + y) * s.in[2];
      for (int64_t x = w.begin[2] + first; x < w.end[2]; x += step) {
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

// Outputs, each by `lanes` neighbouring threads: 1 or a warp.
template <int lanes, class T>
__global__ void __launch_bounds__(cuda::block) pool_forward(int64_t n, Pool pool, const T* x, T* y) {
  using Acc = accumulate_t<T>;
  const int lane = int(threadIdx.x % lanes);
  for (int64_t i = cuda::first_item() / lanes; i < n; i += cuda::item_step() / lanes) {
    int64_t plane = i;
    const PoolWindow w = window_of(pool, plane);
    const T* from = x + plane * pool.ins;
    const bool is_max = pool.type == PoolType::max;
    Acc total = is_max ? -std::numeric_limits<Acc>::infinity() : Acc(0);
    visit_window(pool.s, w, lane, lanes, [&](int64_t at) {
      const Acc value = Acc(from[at]);
      total = is_max ? larger(value, total) : total + (pool.type == PoolType::lp ? power(value, pool.p) : value);
      return false;
    });
    if constexpr (lanes > 1) {
      for (int step = lanes / 2; step > 0; step /= 2) {
        const Acc other = __shfl_xor_sync(0xffffffffu, total, step);
        total = is_max ? larger(other, total) : total + other;
      }
    }
    if (pool.type == PoolType::lp) total = root(total, pool.p);
    if (const int64_t by = pool_divisor(pool.type, pool.count_pad, w); by != 1) total /= Acc(by);
    if (lane == 0) y[i] = T(total);
  }
}

// Of every window of a maximum the position of its first element that equals it, or of the first NaN; -1 for none.
// With `tangent`, its element there instead, 0 for none.
template <int lanes, class T>
__global__ void __launch_bounds__(cuda::block)
    find_tops(int64_t n, Pool pool, const T* x, const T* y, const T* tangent, T* along, int32_t* tops) {
  using Acc = accumulate_t<T>;
  constexpr int none = std::numeric_limits<int>::max();
  const int lane = int(threadIdx.x % lanes);
  for (int64_t i = cuda::first_item() / lanes; i < n; i += cuda::item_step() / lanes) {
    int64_t plane = i;
    const PoolWindow w = window_of(pool, plane);
    const T* from = x + plane * pool.ins;
    const Acc top = Acc(y[i]);
    int first = none;
    visit_window(pool.s, w, lane, lanes, [&](int64_t at) {
      const Acc value = Acc(from[at]);
      if (value == top || value != value) first = int(at);
      return first != none;
    });
    if constexpr (lanes > 1) {
      for (int step = lanes / 2; step > 0; step /= 2) {
        first = std::min(first, __shfl_xor_sync(0xffffffffu, first, step));
      }
    }
    if (lane != 0) continue;
    if (tangent) {
      along[i] = first == none ? T(Acc(0)) : tangent[plane * pool.ins + first];
    } else {
      tops[i] = first == none ? -1 : first;
    }
  }
}

// Input elements: each adds what the windows over it send back, in row-major order of the windows.
template <class T>
struct PoolBackward {
  using Acc = accumulate_t<T>;
  Pool pool;
  const int32_t* tops;  // of a maximum
  const T* x;
  const T* y;
  const T* head;
  T* dx;

  // Windows [first, end) of an axis lie over a position.
  __device__ void windows_over(int axis, int64_t position, int64_t& first, int64_t& end) const {
    const int64_t at = position + pool.s.pad[axis], kernel = pool.s.kernel[axis];
    first = at < kernel ? 0 : pool.stride[axis].quotient(at - kernel) + 1;
    end = std::min(pool.s.out[axis], pool.stride[axis].quotient(at) + 1);
  }
  __device__ Acc part(const PoolWindow& w, int64_t window, Acc value, int64_t position) const {
    const Acc g = Acc(head[window]);
    if (pool.type == PoolType::max) return tops[window] == position ? g : Acc(0);
    if (pool.type != PoolType::lp) return g / Acc(pool_divisor(pool.type, pool.count_pad, w));
    const Acc norm = Acc(y[window]);
    if (norm == Acc(0)) return Acc(0);
    Acc slope = std::copysign(Acc(1), value);
    for (int i = 1; i < pool.p; ++i) slope *= std::abs(value) / norm;
    return g * slope;
  }
  __device__ void operator()(int64_t i) const {
    int64_t position = i;
    const int64_t plane = pool.in_plane.split(position);
    int64_t at[3], first[3], end[3];
    at[2] = position;
    at[1] = pool.in_x.split(at[2]);
    at[0] = pool.in_y.split(at[1]);
    for (int a = 0; a < 3; ++a) windows_over(a, at[a], first[a], end[a]);
    const Acc value = pool.type == PoolType::lp ? Acc(x[i]) : Acc(0);
    Acc sum = Acc(0);
    for (int64_t z = first[0]; z < end[0]; ++z) {
      for (int64_t r = first[1]; r < end[1]; ++r) {
        for (int64_t c = first[2]; c < end[2]; ++c) {
          const int64_t window = plane * pool.outs + (z * pool.s.out[1] + r) * pool.s.out[2] + c;
          sum += part(pool.s.window(z, r, c), window, value, position);
        }
      }
    }
    dx[i] = T(sum);
  }
};

// Calls f.template operator()<lanes>(blocks) with the threads that work on an output together.
template <class F>
void by_lanes(const Pool& pool, int64_t n, const F& f) {
  if (n == 0) return;
  if (std::min(pool.s.kernel[2], pool.s.in[2]) < long_rows) {
    f.template operator()<1>(cuda::blocks_for(n));
  } else {
    f.template operator()<int(warp)>(cuda::blocks_for(n, cuda::block / warp));
  }
}

template <class T>
void forward(KernelContext& c, const Pool& pool, const TensorView& x, const TensorView& y) {
  by_lanes(pool, y.size(), [&]<int lanes>(unsigned blocks) {
    cuda::launch(c, pool_forward<lanes, T>, blocks, unsigned(cuda::block), y.size(), pool, x.as<T>(), y.as<T>());
  });
}

template <class T>
void tops(KernelContext& c, const Pool& pool, const TensorView& x, const TensorView& y, const T* tangent, T* along,
          int32_t* found) {
  if (pool.ins > std::numeric_limits<int32_t>::max()) {
    throw ValueError("[Pooling] the gradient of a maximum on a GPU takes planes of less than 2^31 elements");
  }
  by_lanes(pool, y.size(), [&]<int lanes>(unsigned blocks) {
    cuda::launch(c, find_tops<lanes, T>, blocks, unsigned(cuda::block), y.size(), pool, x.as<T>(), y.as<T>(), tangent,
                 along, found);
  });
}

}  // namespace

template <PoolPart P>
void run_cuda(const PoolingOp<P>& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float(op.traits.name.data(), c.out().dtype, [&]<class T>() {
    [[maybe_unused]] const bool is_max = op.pool_type == PoolType::max;
    const TensorView &in = c.in(0), &out = c.out();
    if constexpr (P == PoolPart::forward) {
      forward<T>(c, make_pool(op, in, out), in, out);
    } else if constexpr (P == PoolPart::along) {
      const TensorView &x = c.in(1), &y = c.in(2);
      const Pool pool = make_pool(op, x, y);
      if (!is_max) return forward<T>(c, pool, in, out);  // linear
      tops<T>(c, pool, x, y, in.as<T>(), out.as<T>(), nullptr);
    } else {
      const TensorView &x = c.in(1), &y = c.in(2);
      const Pool pool = make_pool(op, x, y);
      int32_t* found = is_max ? static_cast<int32_t*>(c.run.workspace(size_t(y.size()) * sizeof(int32_t))) : nullptr;
      if (is_max) tops<T>(c, pool, x, y, nullptr, nullptr, found);
      cuda::for_each(c, out.size(), PoolBackward<T>{pool, found, x.as<T>(), y.as<T>(), in.as<T>(), out.as<T>()});
    }
  });
}

template void run_cuda(const Pooling&, KernelContext&);
template void run_cuda(const BackwardPooling&, KernelContext&);
template void run_cuda(const PoolingAlong&, KernelContext&);

}  // namespace kaon
