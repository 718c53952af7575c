// 16-bit floats through float32 kernels.
#pragma once

#include <array>
#include <cstdint>

#include "kaon/ops/view.h"

namespace kaon::ops {

// Element conversions between float16 or bfloat16 and float32, split over the engine's threads.
void widen(RunContext& run, const TensorView& from, float* to);
void narrow(RunContext& run, const float* from, const TensorView& to);

// Calls kernel(context) with every 16-bit tensor replaced by a float32 copy, then writes the outputs (and the inputs
// whose bit is set in `mutated`) back. Without 16-bit tensors it is a plain call.
template <class Kernel>
void as_float32(KernelContext& c, Kernel&& kernel, uint32_t mutated = 0) {
  bool any = false;
  for (const TensorView& t : c.inputs) any |= is_half(t.dtype);
  for (const TensorView& t : c.outputs) any |= is_half(t.dtype);
  if (!any) return kernel(c);
  std::array<TensorView, 8> in{}, out{};
  const auto copy = [&](const TensorView& t, bool read) {
    if (!is_half(t.dtype) || !t.data) return t;
    TensorView wide = t;
    wide.dtype = DType::float32;
    wide.data = c.run.workspace(size_t(t.size()) * sizeof(float));
    if (read) widen(c.run, t, wide.as<float>());
    return wide;
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) in[i] = copy(c.inputs[i], true);
  for (size_t i = 0; i < c.outputs.size(); ++i) out[i] = copy(c.outputs[i], false);
  KernelContext wide{.inputs = std::span(in.data(), c.inputs.size()),
                     .outputs = std::span(out.data(), c.outputs.size()),
                     .run = c.run,
                     .random = c.random,
                     .training = c.training,
                     .exact = c.exact,
                     .winograd = c.winograd,
                     .variant = c.variant,
                     .state = c.state};
  kernel(wide);
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (c.outputs[i].data && is_half(c.outputs[i].dtype)) narrow(c.run, out[i].as<float>(), c.outputs[i]);
  }
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if ((mutated >> i & 1) && is_half(c.inputs[i].dtype)) narrow(c.run, in[i].as<float>(), c.inputs[i]);
  }
}

// The same for kernels in float and double: calls kernel.template operator()<T>(context) with the type of output 0.
template <class Kernel>
void in_float_or_double(KernelContext& c, Kernel&& kernel, uint32_t mutated = 0) {
  as_float32(
      c,
      [&](KernelContext& wide) {
        if (wide.out().dtype == DType::float64) {
          kernel.template operator()<double>(wide);
        } else {
          kernel.template operator()<float>(wide);
        }
      },
      mutated);
}

}  // namespace kaon::ops
