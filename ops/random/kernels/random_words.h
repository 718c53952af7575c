// The words of a draw, many at a time: philox.h on vectors.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::ops {

// Words 4 * first_block ... of the draw `key`: 4 * blocks words to `out`.
void random_words(RandomKey key, uint64_t first_block, int64_t blocks, uint32_t* out);

// Kernels draw buffer by buffer, so that an element depends on its index alone.
inline constexpr int64_t random_chunk = 1024;
inline int64_t random_chunks(int64_t elements) { return (elements + random_chunk - 1) / random_chunk; }

}  // namespace kaon::ops
