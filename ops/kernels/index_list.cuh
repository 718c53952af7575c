// Index arrays on a device, and the scatter-add that gradients of indexing share.
#pragma once

#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/kernels/index_list.h"

namespace kaon::cuda {

// f(element j of an array of this dtype). Bool counts as uint8.
template <class F>
__device__ auto with_element(const void* data, DType dtype, int64_t j, const F& f) {
  switch (dtype) {
    case DType::float64: return f(static_cast<const double*>(data)[j]);
    case DType::float16: return f(static_cast<const float16*>(data)[j]);
    case DType::bfloat16: return f(static_cast<const bfloat16*>(data)[j]);
    case DType::int8: return f(static_cast<const int8_t*>(data)[j]);
    case DType::uint16: return f(static_cast<const uint16_t*>(data)[j]);
    case DType::int16: return f(static_cast<const int16_t*>(data)[j]);
    case DType::uint32: return f(static_cast<const uint32_t*>(data)[j]);
    case DType::int32: return f(static_cast<const int32_t*>(data)[j]);
    case DType::uint64: return f(static_cast<const uint64_t*>(data)[j]);
    case DType::int64: return f(static_cast<const int64_t*>(data)[j]);
    case DType::float32: return f(static_cast<const float*>(data)[j]);
    default: return f(static_cast<const uint8_t*>(data)[j]);
  }
}

struct ToIndex {
  template <class T>
  __device__ int64_t operator()(T value) const {
    return to_index(value);
  }
};

struct ToNumber {
  template <class T>
  __device__ double operator()(T value) const {
    return double(accumulate_t<T>(value));
  }
};

// Element j of an array as a number.
struct Numbers {
  const void* data;
  DType dtype;
  explicit Numbers(const TensorView& view) : data(view.data), dtype(view.dtype) {}
  __device__ double operator()(int64_t j) const { return with_element(data, dtype, j, ToNumber()); }
};

// A kernel cannot throw: an index that names no position stops it, and with it the GPU, which is better than a wrong
// value.
__device__ inline int64_t or_stop(int64_t position) {
  if (position < 0) __trap();
  return position;
}

// Index j of an array as a position among n.
struct Positions {
  const void* data;
  DType dtype;
  IndexMode mode;
  int64_t n;
  Positions(const TensorView& indices, int64_t n, IndexMode mode)
      : data(indices.data), dtype(indices.dtype), mode(mode), n(n) {}
  __device__ int64_t operator()(int64_t j) const {
    return or_stop(position_of(with_element(data, dtype, j, ToIndex()), n, mode));
  }
};

// The offset of element i of `count` rows of `inner` elements, which are taken by position from rows of that size.
template <class P>
struct TakenRows {
  FastDivide inner, count;
  int64_t rows;
  P positions;
  __device__ int64_t operator()(int64_t i) const {
    int64_t j = inner.split(i);
    const int64_t o = count.split(j), row = positions(j);
    return (o * rows + row) * inner.divisor() + i;
  }
};

// dst[o, j, :] = src[o, positions(j), :] for o < outer, j < count; elements of `width` bytes.
// P: `__device__ int64_t operator()(int64_t) const`, a position in [0, rows).
template <class P>
void gather_rows(KernelContext& c, const P& positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, size_t width) {
  const int64_t n = outer * count * inner;
  if (n == 0) return;
  const size_t wide = widest(width, {inner}, {src, dst});
  const int64_t factor = int64_t(wide / width);
  index_copy(c, wide, n / factor, src, dst,
             TakenRows<P>{FastDivide(inner / factor), FastDivide(count), rows, positions});
}

// The contributions to every row: those of row r are order[start[r]] to order[start[r + 1]], ascending; rows[i] is the
// row of contribution order[i].
struct Contributions {
  const int64_t* start;
  const int64_t* order;
  const int64_t* rows;
};

// The contributions of count > 0 keys below `rows`. Destroys the keys.
Contributions sort_contributions(KernelContext& c, int64_t* keys, int64_t count, int64_t rows);
// scatter_add with these contributions.
void add_contributions(KernelContext& c, const Contributions& contributions, int64_t count, int64_t rows, int64_t outer,
                       int64_t inner, const void* src, void* dst, DType dtype, const void* data);

template <class P>
struct WriteKey {
  P positions;
  int64_t* keys;
  __device__ void operator()(int64_t j) const { keys[j] = positions(j); }
};

// dst[o, positions(j), :] += src[o, j, :] as on the CPU: dst (outer, rows, inner) is zeroed first, and each of its rows
// adds its contributions in order of j, 16-bit floats in float32; a row with very many adds sums of pieces of them,
// always the same ones; then that of `data`, if there is one. Any dtype but bool.
template <class P>
void scatter_add(KernelContext& c, const P& positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, DType dtype, const void* data = nullptr) {
  const size_t bytes = size_t(outer * rows * inner) * size_of(dtype);
  if (bytes == 0) return;
  if (count == 0) return data ? copy_bytes(c, data, dst, bytes) : zero_bytes(c, dst, bytes);
  int64_t* keys = static_cast<int64_t*>(c.run.workspace(size_t(count) * sizeof(int64_t)));
  for_each(c, count, WriteKey<P>{positions, keys});
  add_contributions(c, sort_contributions(c, keys, count, rows), count, rows, outer, inner, src, dst, dtype, data);
}

}  // namespace kaon::cuda
