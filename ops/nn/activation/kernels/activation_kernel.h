// The vector loops of activation.cpp, each for elements [begin, end) of its arrays, and the parts that CUDA kernels
// share.
#pragma once

#include <cstdint>

#include "kaon/ops/math/philox.h"
#include "kaon/ops/nn/activation/activation.h"

namespace kaon::ops {

inline constexpr double selu_alpha = 1.6732632423543772848170429916717;
inline constexpr double selu_scale = 1.0507009873554804934193349852946;

// rrelu's slope, uniform in [low, high).
KAON_HOST_DEVICE inline double drawn_slope(double low, double high, uint32_t word) {
#ifdef __CUDA_ARCH__  // rounded twice: the compiler would fuse it
  return low + __dmul_rn(high - low, double(uniform_float(word)));
#else
  return low + (high - low) * double(uniform_float(word));
#endif
}

void activation_forward(ActivationType type, DType dtype, const void* x, void* y, int64_t begin, int64_t end);
void activation_backward(ActivationType type, DType dtype, const void* head, const void* y, void* dx, int64_t begin,
                         int64_t end);

// Every LeakyType, except prelu with a gamma per channel and rrelu in training, which are below.
void leaky_forward(LeakyType type, double slope, DType dtype, const void* x, void* y, int64_t begin, int64_t end);
void leaky_backward(LeakyType type, double slope, DType dtype, const void* head, const void* x, void* dx, int64_t begin,
                    int64_t end);

// y = x > 0 ? x : slope * x, where slope is drawn from [low, high) for element i of the draw; slopes gets the factors
// of x (1 where x > 0). begin must be a multiple of 4.
void rrelu_forward(RandomKey key, double low, double high, DType dtype, const void* x, void* y, void* slopes,
                   int64_t begin, int64_t end);

// prelu: data seen as (samples, outer, channels, inner), gamma as (samples, channels). A row is one of samples x outer.
struct ChannelView {
  int64_t samples, outer, channels, inner;
  int64_t rows() const { return samples * outer; }
};

// gamma's shape as that of axes 0 and 1: a vector belongs to axis 1, one number to no axis.
inline Shape gamma_of_axes(const Shape& gamma) {
  if (gamma.size() == 1) return {1, 1};
  return gamma.ndim() == 2 ? gamma : Shape(1, gamma[0]);
}

inline ChannelView channel_view(const TensorView& data, const Shape& gamma) {
  const Shape &s = data.shape, g = gamma_of_axes(gamma);
  const int64_t batch = s.empty() ? 1 : s[0], of_sample = s.empty() ? 1 : s.product(1, s.ndim());
  const int64_t samples = g[0] == 1 ? 1 : batch, outer = g[0] == 1 ? batch : 1;
  if (g[1] == 1) return {samples, outer, 1, of_sample};
  const int64_t inner = s.product(2, s.ndim());
  if (data.layout == Layout::channels_last) return {samples, outer * inner, s[1], 1};
  return {samples, outer, s[1], inner};
}

// Rows [begin, end). With head == nullptr out is the output, else the gradient of the data.
void prelu(const ChannelView& view, DType dtype, const void* head, const void* x, const void* gamma, void* out,
           int64_t begin, int64_t end);
// sums[c] += head * min(x, 0) over rows [begin, end). sums are float, for float64 double.
void prelu_gamma_sums(const ChannelView& view, DType dtype, const void* head, const void* x, void* sums, int64_t begin,
                      int64_t end);

}  // namespace kaon::ops
