// The words of a draw, many at a time: philox.h on vectors.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::ops {

// Words 4 * first_block ... of the draw `key`: 4 * blocks words to `out`.
void random_words(RandomKey key, uint64_t first_block, int64_t blocks, uint32_t* out);

// out[i] = uniform_below(words[2 i], words[2 i + 1], range) for i < n.
void words_below(const uint32_t* words, int64_t n, uint32_t range, uint32_t* out);

// Kernels draw buffer by buffer, so that an element depends on its index alone.
inline constexpr int64_t random_chunk = 1024;
inline int64_t random_chunks(int64_t elements) { return (elements + random_chunk - 1) / random_chunk; }

}  // namespace kaon::ops
