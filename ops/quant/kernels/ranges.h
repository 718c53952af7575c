// Ranges as kernels of the CPU read and write them.
#pragma once

#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The smallest and the largest number of an array.
struct Bounds {
  float min = 0, max = 0;
};

// Of the elements, float32 or int32, as floats; 0 of none. A NaN makes both NaN.
Bounds range_of(KernelContext& c, const TensorView& data);

// Input i, (1,) of float32; and the magnitude of the range in inputs i and i + 1.
inline float number_at(KernelContext& c, int i) { return *c.in(i).as<const float>(); }
inline float range_at(KernelContext& c, int i) { return magnitude(number_at(c, i), number_at(c, i + 1)); }

// Writes output i, (1,) of float32, if it is wanted.
inline void put_number(KernelContext& c, int i, float value) {
  if (c.out(i).data) *c.out(i).as<float>() = value;
}

}  // namespace kaon::ops
