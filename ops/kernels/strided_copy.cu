#include "kaon/ops/kernels/strided_copy.cuh"

#include "kaon/ops/cuda/index.cuh"

namespace kaon::cuda {

namespace {

constexpr int tile = 32;      // side of the square that a transposition moves at a time
constexpr int tile_rows = 8;  // rows of threads
constexpr int64_t least_tiled = 8;

// Source and destination offsets of element i of a copy.
struct Strides {
  int count = 0;
  FastDivide size[2 * Shape::max_ndim];
  int64_t src[2 * Shape::max_ndim], dst[2 * Shape::max_ndim];

  explicit Strides(std::span<const CopyDim> dims) : count(int(dims.size())) {
    for (int k = 0; k < count; ++k) {
      const CopyDim& d = dims[size_t(k)];
      size[k] = FastDivide(d.size), src[k] = d.src, dst[k] = d.dst;
    }
  }
  __device__ void locate(int64_t i, int64_t& from, int64_t& to) const {
    for (int k = count - 1; k >= 0; --k) {
      int64_t at = i;
      i = k > 0 ? size[k].split(at) : 0;
      from += at * src[k], to += at * dst[k];
    }
  }
};

template <class T>
struct CopyElement {
  Strides strides;
  const T* src;
  T* dst;
  __device__ void operator()(int64_t i) const {
    int64_t from = 0, to = 0;
    strides.locate(i, from, to);
    dst[to] = src[from];
  }
};

template <class T>
struct FillElement {
  Strides strides;
  T value;
  T* dst;
  __device__ void operator()(int64_t i) const {
    int64_t from = 0, to = 0;
    strides.locate(i, from, to);
    dst[to] = value;
  }
};

// Planes of j by k elements: j steps by 1 in the source, k in the destination.
struct Planes {
  Strides outer;
  int64_t j, k, src_k, dst_j, count;
  FastDivide j_tiles, k_tiles;
};

template <class T>
__global__ void __launch_bounds__(tile* tile_rows) transpose_kernel(Planes p, const T* src, T* dst) {
  __shared__ T square[tile][tile + 1];
  for (int64_t item = blockIdx.x; item < p.count; item += gridDim.x) {
    int64_t k0 = item;
    int64_t j0 = p.k_tiles.split(k0);
    const int64_t plane = p.j_tiles.split(j0);
    k0 *= tile, j0 *= tile;
    int64_t from = 0, to = 0;
    p.outer.locate(plane, from, to);
    for (int y = int(threadIdx.y); y < tile; y += tile_rows) {
      const int64_t j = j0 + threadIdx.x, k = k0 + y;
      if (j < p.j && k < p.k) square[y][threadIdx.x] = src[from + j + k * p.src_k];
    }
    __syncthreads();
    for (int y = int(threadIdx.y); y < tile; y += tile_rows) {
      const int64_t j = j0 + y, k = k0 + threadIdx.x;
      if (j < p.j && k < p.k) dst[to + j * p.dst_j + k] = square[threadIdx.x][y];
    }
    __syncthreads();
  }
}

void transpose_planes(KernelContext& c, CopyDims dims, int across, const void* src, void* dst, size_t width) {
  const CopyDim j = dims[across], k = dims.back();
  const FastDivide j_tiles((j.size + tile - 1) / tile), k_tiles((k.size + tile - 1) / tile);
  const int64_t tiles = dims.elements() / (j.size * k.size) * j_tiles.divisor() * k_tiles.divisor();
  dims.erase(across);
  const Planes planes{
      Strides(dims.span().first(size_t(dims.count()) - 1)), j.size, k.size, k.src, j.dst, tiles, j_tiles, k_tiles};
  by_width(width, [&]<class T>() {
    if constexpr (sizeof(T) <= 8) {
      launch(c, transpose_kernel<T>, blocks_for(tiles, 1), dim3(tile, tile_rows), planes, static_cast<const T*>(src),
             static_cast<T*>(dst));
    }
  });
}

// The dimensions in elements of `wide` bytes instead of `width`.
void widen(CopyDims& dims, size_t width, size_t wide) {
  const int64_t factor = int64_t(wide / width);
  for (int i = 0; i + 1 < dims.count(); ++i) dims[i].src /= factor, dims[i].dst /= factor;
  dims[dims.count() - 1].size /= factor;
}

size_t widest_of(const CopyDims& dims, size_t width, const void* src, const void* dst) {
  size_t wide = widest(width, {dims.back().size}, {src, dst});
  for (int i = 0; i + 1 < dims.count(); ++i) wide = std::min(wide, widest(width, {dims[i].src, dims[i].dst}, {}));
  return wide;
}

}  // namespace

void strided_copy(KernelContext& c, const StridedCopy& copy, const void* src, void* dst, size_t width) {
  CopyDims dims = merge(copy.dims);
  if (dims.elements() == 0) return;
  const void* from = static_cast<const char*>(src) + copy.src * int64_t(width);
  void* to = static_cast<char*>(dst) + copy.dst * int64_t(width);
  const bool in_runs = dims.back().src == 1 && dims.back().dst == 1;
  if (in_runs && dims.count() == 1) return copy_bytes(c, from, to, size_t(dims.back().size) * width);
  if (const int across = transposed_with(dims, least_tiled); across >= 0) {
    return transpose_planes(c, dims, across, from, to, width);
  }
  if (in_runs) {
    const size_t wide = widest_of(dims, width, from, to);
    widen(dims, width, wide);
    width = wide;
  }
  by_width(width, [&]<class T>() {
    for_each(c, dims.elements(),
             CopyElement<T>{Strides(dims.span()), static_cast<const T*>(from), static_cast<T*>(to)});
  });
}

void strided_copy(KernelContext& c, const StridedCopy& copy) {
  strided_copy(c, copy, c.in(0).data, c.out().data, size_of(c.out().dtype));
}

void strided_fill(KernelContext& c, const StridedCopy& copy, uint64_t bits, void* dst, size_t width) {
  CopyDims dims = merge(copy.dims);
  if (dims.elements() == 0) return;
  void* to = static_cast<char*>(dst) + copy.dst * int64_t(width);
  const size_t wide = dims.back().dst == 1 ? widest_of(dims, width, to, to) : width;
  widen(dims, width, wide);
  by_width(wide, [&]<class T>() {
    for_each(c, dims.elements(), FillElement<T>{Strides(dims.span()), repeated<T>(bits, width), static_cast<T*>(to)});
  });
}

}  // namespace kaon::cuda
