// Index arrays of any dtype as checked positions, and the deterministic scatter-add that gradients of indexing share.
#pragma once

#include <array>
#include <string_view>

#include "kaon/ops/view.h"

namespace kaon {

// What becomes of an index outside [0, n): an IndexError, modulo n, or the nearest end.
enum class IndexMode : uint8_t { raise, wrap, clip };
constexpr std::array<std::string_view, 3> enum_names(IndexMode) { return {"raise", "wrap", "clip"}; }

// The indices as numbers in [0, n), in workspace. Floats are truncated; NaN counts as outside. In mode raise, indices
// from -n on count from the end and others throw IndexError naming `op`.
const int64_t* load_indices(KernelContext& c, const TensorView& indices, int64_t n, IndexMode mode, const char* op);

// dst[o, positions[j], :] += src[o, j, :] for o < outer, j < count, with dst (outer, rows, inner) zeroed first. Each
// row of dst adds its contributions in order of j, 16-bit floats in float32. Any dtype but bool.
void scatter_add(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, DType dtype);

// dst[o, j, :] = src[o, positions[j], :], the inverse; elements of `width` bytes.
void gather_rows(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, size_t width);

}  // namespace kaon
