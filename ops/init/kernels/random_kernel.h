// The vector loops of random.cpp and dropout.cpp. Chunks are those of random_words.h.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::ops {

// Chunks [begin, end) of an array of n elements: uniform in [low, high), normal.
void uniform_chunks(RandomKey key, double low, double high, DType dtype, void* out, int64_t n, int64_t begin,
                    int64_t end);
void normal_chunks(RandomKey key, double loc, double scale, DType dtype, void* out, int64_t n, int64_t begin,
                   int64_t end);

// mask = 0 with probability p, else 1 / (1 - p); y = x * mask. Either of mask and (x, y) may be null.
void dropout_chunks(RandomKey key, double p, DType dtype, const void* x, void* y, void* mask, int64_t n, int64_t begin,
                    int64_t end);

// y = x * mask for n elements; `one` says that mask is a single element.
void multiply_row(DType dtype, const void* x, const void* mask, bool one, void* y, int64_t n);

}  // namespace kaon::ops
