// Runs of neighbouring elements, copied, reversed, filled and added with the vectors of each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaon::ops {

// memcpy for runs that are aligned differently. glibc copies them with `rep movsb`, which Zen 4 does at a tenth of the
// speed where the destination lies less than a cache line behind the source in a page.
void copy_run(void* to, const void* from, size_t bytes);

// to[i] = last[-i] for i < n, elements of `width` bytes (1, 2, 4, 8). The two do not overlap.
void reverse_run(void* to, const void* last, size_t n, size_t width);

// n elements of `width` bytes (1, 2, 4, 8), each the first bytes of `element`, lowest first.
void fill_run(void* to, uint64_t element, size_t n, size_t width);

// to[i] = a[i] + b[i]; `to` may be a or b.
void add_runs(float* to, const float* a, const float* b, size_t n);

// n triples of elements of `width` bytes (1, 2, 4, 8), as pixels have them, to three runs and back.
void split_triples(void* const (&to)[3], const void* from, size_t n, size_t width);
void join_triples(void* to, const void* const (&from)[3], size_t n, size_t width);

}  // namespace kaon::ops
