// Vector loops of the output operators: each works on elements [begin, end). `out` may be an input.
#pragma once

#include "kaon/ops/dtype.h"

namespace kaon::ops {

// out = (a - b) * scale, times head when that is not null.
void scaled_difference(DType dtype, double scale, const void* a, const void* b, const void* head, void* out,
                       int64_t begin, int64_t end);

// out = (a - shift) * scale, times head when that is not null.
void scaled_shift(DType dtype, double scale, double shift, const void* a, const void* head, void* out, int64_t begin,
                  int64_t end);

// out = sign(a - b) * scale.
void scaled_sign(DType dtype, double scale, const void* a, const void* b, void* out, int64_t begin, int64_t end);

// How many elements exceed the threshold.
int64_t count_above(DType dtype, double threshold, const void* a, int64_t begin, int64_t end);

}  // namespace kaon::ops
