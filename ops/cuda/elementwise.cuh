// Elementwise kernels: out[i] = f(in0[i], in1[i], ...) for arrays of one shape, and for arrays that broadcast.
// f is a struct with `__device__ R operator()(x0, x1, ...) const`; it gets 16-bit floats as float, and R converts to
// the output's type. `static constexpr int most = 4;` in f: no more elements than these per thread, where its code is
// long. The output may be one of the inputs of the same shape and width.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/cuda/pack.cuh"
#include "kaon/ops/math/dispatch.h"

namespace kaon::cuda {

// The number of elements that are 16 bytes in the widest type.
template <class F, class... T>
constexpr int pack_size() {
  int n = 16;
  for (size_t width : {sizeof(T)...}) n = std::min(n, int(16 / width));
  if constexpr (requires { F::most; }) n = std::min(n, int(F::most));
  return n;
}

// Host code: whether packs of N may be loaded from this address.
template <int N, class T>
bool is_aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N) == 0;
}

template <class Out, int N, class F, class... In>
__device__ Pack<Out, N> map_packs(const F& f, const Pack<In, N>&... x) {
  Pack<Out, N> y;
#pragma unroll
  for (int j = 0; j < N; ++j) y.v[j] = Out(f(accumulate_t<In>(x.v[j])...));
  return y;
}

template <int N, class F, class Out, class... In>
__global__ void elementwise_kernel(int64_t n, bool aligned, F f, Out* out, const In*... in) {
  for (int64_t at = first_item() * N; at < n; at += item_step() * N) {
    const bool whole = aligned && at + N <= n;
    store_pack(out, at, n, whole, map_packs<Out, N>(f, load_pack<N>(in, at, n, whole)...));
  }
}

// out[i] = f(in[i]...) for i in [0, n).
template <class F, class Out, class... In>
void elementwise(KernelContext& c, int64_t n, const F& f, Out* out, const In*... in) {
  if (n <= 0) return;
  constexpr int N = pack_size<F, Out, In...>();
  const bool aligned = is_aligned<N>(out) && (is_aligned<N>(in) && ...);
  launch(c, elementwise_kernel<N, F, Out, In...>, blocks_for(n, block, N), unsigned(block), n, aligned, f, out, in...);
}

// How K arrays repeat over the elements of an output: its dimensions from the last to the first, merged where all
// arrays step evenly through them and without those of size 1.
template <int K>
struct Repeats {
  int ndim = 0;
  int64_t size[Shape::max_ndim] = {};
  int64_t stride[K][Shape::max_ndim] = {};  // in elements; 0: repeated. 0 or 1 in the last dimension

  // Host code: arrays of these shapes, matched from the right, for an output of `shape`.
  Repeats(const Shape& shape, const Shape* const (&arrays)[K]) {
    int64_t step[K], here[K];
    for (int64_t& s : step) s = 1;
    for (int axis = shape.ndim(); axis-- > 0;) {
      if (shape[axis] == 1) continue;
      bool merges = ndim > 0;
      for (int k = 0; k < K; ++k) {
        const int own = axis - shape.ndim() + arrays[k]->ndim();
        const int64_t extent = own < 0 ? 1 : (*arrays[k])[own];
        here[k] = extent == 1 ? 0 : step[k];
        step[k] *= extent;
        merges = merges && here[k] == stride[k][ndim - 1] * size[ndim - 1];
      }
      if (merges) {
        size[ndim - 1] *= shape[axis];
        continue;
      }
      size[ndim] = shape[axis];
      for (int k = 0; k < K; ++k) stride[k][ndim] = here[k];
      ++ndim;
    }
  }

  int64_t elements() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= size[d];
    return n;
  }
  bool is_dense() const {  // nothing repeats
    for (int k = 0; k < K; ++k) {
      if (ndim > 1 || (ndim == 1 && stride[k][0] == 0)) return false;
    }
    return true;
  }
};

// The same for kernels, with 32-bit indices: fewer than 2^31 elements.
template <int K>
struct Walk {
  int ndim;
  uint32_t n;
  Divider size[Shape::max_ndim];
  uint32_t stride[K][Shape::max_ndim];

  explicit Walk(const Repeats<K>& r) : ndim(r.ndim), n(uint32_t(r.elements())) {
    for (int d = 0; d < Shape::max_ndim; ++d) {
      size[d] = Divider(d < ndim ? r.size[d] : 1);
      for (int k = 0; k < K; ++k) stride[k][d] = uint32_t(r.stride[k][d]);
    }
  }

  // Offsets of element i of the output.
  __device__ void locate(uint32_t i, uint32_t (&offset)[K]) const {
#pragma unroll
    for (int k = 0; k < K; ++k) offset[k] = 0;
#pragma unroll 1
    for (int d = 0; d < ndim; ++d) {
      const uint32_t next = d + 1 < ndim ? size[d](i) : 0, at = i - next * size[d].divisor;
#pragma unroll
      for (int k = 0; k < K; ++k) offset[k] += at * stride[k][d];
      i = next;
    }
  }
};

// The elements at these offsets, or (`row`) those of a row from the first on: consecutive ones, or one repeated.
template <int N, class T>
__device__ Pack<T, N> gather_pack(const T* from, const uint32_t (&offset)[N], bool row, bool repeated) {
  if (row && !repeated) return *reinterpret_cast<const Pack<T, N>*>(from + offset[0]);
  Pack<T, N> x;
  x.v[0] = from[offset[0]];
#pragma unroll
  for (int j = 1; j < N; ++j) x.v[j] = row ? x.v[0] : from[offset[j]];
  return x;
}

// `rows`: all arrays are aligned, and N divides the last dimension.
template <int N, size_t... k, class F, class Out, class... In>
__device__ void broadcast_packs(std::index_sequence<k...>, const Walk<int(sizeof...(In))>& walk, bool rows,
                                bool aligned, const F& f, Out* out, const In*... in) {
  constexpr int K = int(sizeof...(In));
  for (int64_t at = first_item() * N; at < walk.n; at += item_step() * N) {
    uint32_t first[K], offset[K][N];
    walk.locate(uint32_t(at), first);
    ((offset[k][0] = first[k]), ...);
    if (!rows) {
      const uint32_t length = walk.size[0].divisor;
      uint32_t column = uint32_t(at) - walk.size[0](uint32_t(at)) * length;
#pragma unroll
      for (int j = 1; j < N; ++j) {
        if (at + j >= walk.n) {  // not stored
        } else if (++column < length) {
          ((first[k] += walk.stride[k][0]), ...);
        } else {
          column = 0;
          walk.locate(uint32_t(at + j), first);
        }
        ((offset[k][j] = first[k]), ...);
      }
    }
    store_pack(out, at, walk.n, aligned && at + N <= walk.n,
               map_packs<Out, N>(f, gather_pack<N>(in, offset[k], rows, walk.stride[k][0] == 0)...));
  }
}

template <int N, class F, class Out, class... In>
__global__ void broadcast_kernel(Walk<int(sizeof...(In))> walk, bool rows, bool aligned, F f, Out* out,
                                 const In*... in) {
  broadcast_packs<N>(std::index_sequence_for<In...>(), walk, rows, aligned, f, out, in...);
}

template <size_t... k, class F, class Out, class... In>
void broadcast_part(KernelContext& c, std::index_sequence<k...> inputs, const Repeats<int(sizeof...(In))>& r,
                    const F& f, Out* out, const In*... in) {
  const int last = r.ndim - 1;
  if (r.elements() >= int64_t(1) << 31) {  // in two halves of the outermost dimension
    const int64_t half = r.size[last] / 2, inner = r.elements() / r.size[last];
    auto part = r;
    part.size[last] = half;
    part.ndim = half == 1 ? last : r.ndim;
    broadcast_part(c, inputs, part, f, out, in...);
    part.size[last] = r.size[last] - half;
    part.ndim = r.size[last] - half == 1 ? last : r.ndim;
    return broadcast_part(c, inputs, part, f, out + half * inner, in + half * r.stride[k][last]...);
  }
  constexpr int N = std::min(8, pack_size<F, Out, In...>());
  const bool aligned = is_aligned<N>(out);
  const bool rows = aligned && r.size[0] % N == 0 && ((is_aligned<N>(in) || r.stride[k][0] == 0) && ...);
  launch(c, broadcast_kernel<N, F, Out, In...>, blocks_for(r.elements(), block, N), unsigned(block),
         Walk<int(sizeof...(In))>(r), rows, aligned, f, out, in...);
}

// out = f(in...), where inputs of these shapes broadcast to the output's.
template <class F, class Out, class... In>
void broadcast(KernelContext& c, const F& f, const Shape& shape, Out* out, const Shape* const (&shapes)[sizeof...(In)],
               const In*... in) {
  if (shape.size() == 0) return;
  const Repeats<int(sizeof...(In))> r(shape, shapes);
  if (r.is_dense()) return elementwise(c, shape.size(), f, out, in...);
  broadcast_part(c, std::index_sequence_for<In...>(), r, f, out, in...);
}

}  // namespace kaon::cuda
