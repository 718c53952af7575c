#include "kaon/ops/kernels/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kaon/ops/math/runs.h"

namespace kaon::ops {

namespace {

constexpr int64_t kPieceBytes = 1 << 18;  // bytes that one task writes
constexpr int64_t kTile = 32;             // side of the square that a transposition moves at a time

// Counts through the outer dimensions, keeping both offsets.
class Odometer {
 public:
  Odometer(std::span<const CopyDim> dims, int64_t index) : dims_(dims) {
    for (size_t i = dims_.size(); i-- > 0;) {
      at_[i] = index % dims_[i].size;
      index /= dims_[i].size;
      src += at_[i] * dims_[i].src, dst += at_[i] * dims_[i].dst;
    }
  }
  void next() {
    for (size_t i = dims_.size(); i-- > 0;) {
      src += dims_[i].src, dst += dims_[i].dst;
      if (++at_[i] < dims_[i].size) return;
      src -= at_[i] * dims_[i].src, dst -= at_[i] * dims_[i].dst;
      at_[i] = 0;
    }
  }
  int64_t src = 0, dst = 0;

 private:
  std::span<const CopyDim> dims_;
  std::array<int64_t, 2 * Shape::max_ndim> at_{};
};

template <class T>
void copy_row(const T* src, T* dst, int64_t n, int64_t src_stride, int64_t dst_stride) {
  if (dst_stride == 1 && n >= 16 && src_stride >= -1 && src_stride <= 1) {
    switch (src_stride) {
      case 1: return copy_run(dst, src, size_t(n) * sizeof(T));
      case 0: return fill_run(dst, *src, size_t(n), sizeof(T));
      default: return reverse_run(dst, src, size_t(n), sizeof(T));
    }
  }
  if (src_stride == 1 && dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  } else if (src_stride == 0 && dst_stride == 1) {
    std::fill_n(dst, n, *src);
  } else if (src_stride == -1 && dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
  } else if (dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// Runs shorter than this are copied a plane at a time: counting through the dimensions costs more than such a run.
constexpr int64_t kShortRun = 16;

// `count` runs along j, of n elements; n = 0: of k.size.
template <int64_t n, class T>
void copy_plane(const T* src, T* dst, CopyDim j, CopyDim k, int64_t count) {
  const int64_t length = n > 0 ? n : k.size;
  for (int64_t a = 0; a < count; ++a) {
    const T* const from = src + a * j.src;
    T* const to = dst + a * j.dst;
    for (int64_t i = 0; i < length; ++i) to[i * k.dst] = from[i * k.src];
  }
}

template <class T>
void copy_planes(RunContext& run, std::span<const CopyDim> dims, const T* src, T* dst) {
  const CopyDim k = dims.back(), j = dims[dims.size() - 2];
  const auto outer = dims.first(dims.size() - 2);
  int64_t planes = 1;
  for (const CopyDim& d : outer) planes *= d.size;
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / int64_t(sizeof(T)) / k.size);
  const int64_t blocks = (j.size + piece - 1) / piece;
  run.parallel_for(planes * blocks, std::max<int64_t>(1, piece / j.size), [&](int64_t item, int64_t end) {
    Odometer at(outer, item / blocks);
    for (; item < end; ++item) {
      const int64_t block = item % blocks, begin = block * piece, count = std::min(piece, j.size - begin);
      const T* const from = src + at.src + begin * j.src;
      T* const to = dst + at.dst + begin * j.dst;
      switch (k.size) {
        case 2: copy_plane<2>(from, to, j, k, count); break;
        case 3: copy_plane<3>(from, to, j, k, count); break;
        case 4: copy_plane<4>(from, to, j, k, count); break;
        default: copy_plane<0>(from, to, j, k, count);
      }
      if (block == blocks - 1) at.next();
    }
  });
}

template <class T>
void copy_rows(RunContext& run, std::span<const CopyDim> dims, const T* src, T* dst) {
  const CopyDim inner = dims.back();
  const auto outer = dims.first(dims.size() - 1);
  int64_t rows = 1;
  for (const CopyDim& d : outer) rows *= d.size;
  const int64_t piece = kPieceBytes / int64_t(sizeof(T)), blocks = (inner.size + piece - 1) / piece;
  run.parallel_for(rows * blocks, std::max<int64_t>(1, piece / inner.size), [&](int64_t item, int64_t end) {
    Odometer at(outer, item / blocks);
    for (; item < end; ++item) {
      const int64_t block = item % blocks, begin = block * piece;
      copy_row(src + at.src + begin * inner.src, dst + at.dst + begin * inner.dst, std::min(piece, inner.size - begin),
               inner.src, inner.dst);
      if (block == blocks - 1) at.next();
    }
  });
}

// out[r stride + c] = tile[r + c kTile] for the whole tile.
template <class T>
void turn_tile(const T* tile, T* out, int64_t stride) {
  for (int64_t r = 0; r < kTile; ++r) {
    for (int64_t c = 0; c < kTile; ++c) out[r * stride + c] = tile[r + c * kTile];
  }
}

// The same by squares of four.
void turn_tile(const uint32_t* tile, uint32_t* out, int64_t stride) {
  using Four = uint32_t __attribute__((vector_size(16)));
  for (int64_t c = 0; c < kTile; c += 4) {
    for (int64_t r = 0; r < kTile; r += 4) {
      Four column[4];
      for (int64_t i = 0; i < 4; ++i) std::memcpy(&column[i], tile + (c + i) * kTile + r, sizeof(Four));
      const Four a = __builtin_shufflevector(column[0], column[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(column[2], column[3], 0, 4, 1, 5),
                 e = __builtin_shufflevector(column[0], column[1], 2, 6, 3, 7),
                 f = __builtin_shufflevector(column[2], column[3], 2, 6, 3, 7);
      const Four row[] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                          __builtin_shufflevector(e, f, 0, 1, 4, 5), __builtin_shufflevector(e, f, 2, 3, 6, 7)};
      for (int64_t i = 0; i < 4; ++i) std::memcpy(out + (r + i) * stride + c, &row[i], sizeof(Four));
    }
  }
}

// A plane whose columns are contiguous in the source and whose rows are contiguous in the destination.
template <class T>
void transpose_planes(RunContext& run, std::span<const CopyDim> outer, CopyDim j, CopyDim k, const T* src, T* dst) {
  int64_t planes = 1;
  for (const CopyDim& d : outer) planes *= d.size;
  const int64_t strips = (j.size + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kPieceBytes / int64_t(sizeof(T)) / (kTile * k.size));
  run.parallel_for(planes * strips, grain, [&](int64_t item, int64_t end) {
    for (; item < end; ++item) {
      const Odometer at(outer, item / strips);
      const int64_t j0 = item % strips * kTile, rows = std::min(kTile, j.size - j0);
      for (int64_t k0 = 0; k0 < k.size; k0 += kTile) {
        const int64_t columns = std::min(kTile, k.size - k0);
        const T* from = src + at.src + j0 + k0 * k.src;
        T* to = dst + at.dst + j0 * j.dst + k0;
        // Through a buffer: whole lines are read and written once, also when strides of 2^n share cache sets.
        T tile[kTile * kTile];
        if (rows == kTile && columns == kTile) {
          for (int64_t c = 0; c < kTile; ++c) std::memcpy(tile + c * kTile, from + c * k.src, kTile * sizeof(T));
          turn_tile(tile, to, j.dst);
          continue;
        }
        for (int64_t c = 0; c < columns; ++c) std::copy_n(from + c * k.src, rows, tile + c * kTile);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) to[r * j.dst + c] = tile[r + c * kTile];
        }
      }
    }
  });
}

// The dimension of three that becomes, or was, the innermost one; -1: there is none. Each of its elements is then a run
// of `runs`.
int triples_of(const CopyDims& dims, bool split) {
  const int last = dims.count() - 1;
  if (last < 1) return -1;
  if (!split) {
    const CopyDim &runs = dims[last - 1], &three = dims[last];
    return three.size == 3 && three.dst == 1 && runs.dst == 3 && runs.src == 1 ? last : -1;
  }
  const CopyDim& runs = dims[last];
  if (runs.src != 3 || runs.dst != 1) return -1;
  for (int i = 0; i < last; ++i) {
    if (dims[i].size == 3 && dims[i].src == 1) return i;
  }
  return -1;
}

// Triples of neighbours to three runs, or back.
template <class T>
void copy_triples(RunContext& run, CopyDims dims, int three_at, bool split, const T* src, T* dst) {
  const CopyDim three = dims[three_at];
  dims.erase(three_at);
  const CopyDim runs = dims.back();
  const auto outer = dims.span().first(size_t(dims.count()) - 1);
  int64_t rows = 1;
  for (const CopyDim& d : outer) rows *= d.size;
  const int64_t piece = kPieceBytes / int64_t(sizeof(T)) / 3, blocks = (runs.size + piece - 1) / piece;
  run.parallel_for(rows * blocks, std::max<int64_t>(1, piece / runs.size), [&](int64_t item, int64_t end) {
    for (; item < end; ++item) {
      const Odometer at(outer, item / blocks);
      const int64_t begin = item % blocks * piece;
      const size_t n = size_t(std::min(piece, runs.size - begin));
      const T* const from = src + at.src + begin * runs.src;
      T* const to = dst + at.dst + begin * runs.dst;
      if (split) {
        split_triples({to, to + three.dst, to + 2 * three.dst}, from, n, sizeof(T));
      } else {
        join_triples(to, {from, from + three.src, from + 2 * three.src}, n, sizeof(T));
      }
    }
  });
}

template <class T>
void copy_elements(RunContext& run, CopyDims dims, const T* src, T* dst) {
  for (bool split : {true, false}) {
    if (const int three = triples_of(dims, split); three >= 0) return copy_triples(run, dims, three, split, src, dst);
  }
  const int across = transposed_with(dims, 4);
  if (across < 0) {
    const bool short_runs = dims.count() > 1 && dims.back().size < kShortRun && dims[dims.count() - 2].size >= 4;
    return short_runs ? copy_planes<T>(run, dims.span(), src, dst) : copy_rows<T>(run, dims.span(), src, dst);
  }
  const CopyDim j = dims[across], k = dims.back();
  dims.erase(across);
  transpose_planes(run, dims.span().first(size_t(dims.count()) - 1), j, k, src, dst);
}

}  // namespace

CopyDims merge(const CopyDims& dims) {
  CopyDims merged;
  for (const CopyDim& d : dims.span()) {
    if (d.size == 1) continue;
    const int last = merged.count() - 1;
    if (last >= 0 && merged[last].src == d.src * d.size && merged[last].dst == d.dst * d.size) {
      merged[last] = {merged[last].size * d.size, d.src, d.dst};
    } else {
      merged.push(d.size, d.src, d.dst);
    }
  }
  if (merged.count() == 0) merged.push(1, 1, 1);
  return merged;
}

int transposed_with(const CopyDims& dims, int64_t least) {
  const CopyDim inner = dims.back();
  if (inner.dst != 1 || inner.src == 1 || inner.src == 0 || inner.size < least) return -1;
  for (int i = 0; i + 1 < dims.count(); ++i) {
    if (dims[i].src == 1 && dims[i].size >= least) return i;
  }
  return -1;
}

void strided_copy(RunContext& run, const StridedCopy& copy, const void* src, void* dst, size_t width) {
  const CopyDims dims = merge(copy.dims);
  if (dims.elements() == 0) return;
  auto elements = [&]<class T>(T) {
    copy_elements<T>(run, dims, static_cast<const T*>(src) + copy.src, static_cast<T*>(dst) + copy.dst);
  };
  switch (width) {
    case 8: return elements(uint64_t());
    case 4: return elements(uint32_t());
    case 2: return elements(uint16_t());
    default: return elements(uint8_t());
  }
}

void strided_copy(KernelContext& c, const StridedCopy& copy) {
  strided_copy(c.run, copy, c.in(0).data, c.out().data, size_of(c.out().dtype));
}

void copy_bytes(RunContext& run, const void* src, void* dst, size_t bytes) {
  if (src == dst || bytes == 0) return;
  run.parallel_for(int64_t(bytes), kPieceBytes, [&](int64_t begin, int64_t end) {
    copy_run(static_cast<char*>(dst) + begin, static_cast<const char*>(src) + begin, size_t(end - begin));
  });
}

void zero_bytes(RunContext& run, void* dst, size_t bytes) {
  if (bytes == 0) return;
  run.parallel_for(int64_t(bytes), kPieceBytes, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(dst) + begin, 0, size_t(end - begin));
  });
}

Shape strides_of(const Shape& shape) {
  Shape strides = shape;
  int64_t stride = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) strides[i] = stride, stride *= shape[i];
  return strides;
}

}  // namespace kaon::ops
