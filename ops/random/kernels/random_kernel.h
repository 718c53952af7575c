// The vector loops of random.cpp and dropout.cpp. Chunks are those of random_words.h.
#pragma once

#include "kaon/ops/random/random.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Chunks [begin, end) of an array of n elements: uniform in [low, high), normal.
void uniform_chunks(RandomKey key, double low, double high, DType dtype, void* out, int64_t n, int64_t begin,
                    int64_t end);
void normal_chunks(RandomKey key, double loc, double scale, DType dtype, void* out, int64_t n, int64_t begin,
                   int64_t end);

// The first `count` numbers of a chunk, of the standard distribution: uniform, normal or exponential. In float32, in
// float64 for results of that dtype; `out` is 64-byte aligned and has room for a whole chunk.
void standard_numbers(Distribution distribution, RandomKey key, DType dtype, void* out, int64_t count, int64_t chunk);

// mask = 0 with probability p, else 1 / (1 - p); y = x * mask. Either of mask and (x, y) may be null.
void dropout_chunks(RandomKey key, double p, DType dtype, const void* x, void* y, void* mask, int64_t n, int64_t begin,
                    int64_t end);

// y = x * mask for n elements; `one` says that mask is a single element.
void multiply_row(DType dtype, const void* x, const void* mask, bool one, void* y, int64_t n);

}  // namespace kaon::ops
