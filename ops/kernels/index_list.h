// Index arrays of any dtype as checked positions, and the deterministic scatter-add that gradients of indexing share.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op.h"

namespace kaon::ops {

// Truncated, without undefined behaviour: a number that is no position in any array, NaN too, becomes -2^62 or 2^62.
template <class T>
KAON_HOST_DEVICE int64_t to_index(T value) {
  if constexpr (is_floating(dtype_of<T>)) {
    constexpr double limit = 0x1p62;
    const double v = double(accumulate_t<T>(value));
    return v > limit ? int64_t(limit) : v >= -limit ? int64_t(v) : -int64_t(limit);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    constexpr uint64_t limit = uint64_t(1) << 62;
    return int64_t(value < limit ? value : limit);
  } else {
    return int64_t(value);
  }
}
// The position in [0, n) that index i names; -1 for none, which there is in mode raise alone. There, indices from -n on
// count from the end.
KAON_HOST_DEVICE inline int64_t position_of(int64_t i, int64_t n, IndexMode mode) {
  if (i >= 0 && i < n) return i;
  if (mode == IndexMode::clip) return i < 0 ? 0 : n - 1;
  if (mode == IndexMode::wrap) return i % n < 0 ? i % n + n : i % n;
  return i < 0 && i >= -n ? i + n : -1;
}

// The positions of the indices, in workspace unless the indices are these. Throws IndexError naming `op` for an index
// that names none.
const int64_t* load_indices(KernelContext& c, const TensorView& indices, int64_t n, IndexMode mode, const char* op);

// dst[o, positions[j], :] += src[o, j, :] for o < outer, j < count, with dst (outer, rows, inner) zeroed first. Each
// row of dst adds its contributions in order of j, 16-bit floats in float32; then that of `data`, if there is one,
// which does not overlap dst. Any dtype but bool.
void scatter_add(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, DType dtype, const void* data = nullptr);

// dst[o, j, :] = src[o, positions[j], :], the inverse; elements of `width` bytes.
void gather_rows(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, size_t width);

}  // namespace kaon::ops
