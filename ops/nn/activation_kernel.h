// The vector loops of activation.cpp: each works on elements [begin, end) of its arrays.
#pragma once

#include <cstdint>

#include "kaon/ops/nn/activation.h"

namespace kaon {

void activation_forward(ActivationType type, DType dtype, const void* x, void* y, int64_t begin, int64_t end);
void activation_backward(ActivationType type, DType dtype, const void* head, const void* y, void* dx, int64_t begin,
                         int64_t end);

// Every LeakyType but prelu with a gamma per channel, and rrelu in training: those are below.
void leaky_forward(LeakyType type, double slope, DType dtype, const void* x, void* y, int64_t begin, int64_t end);
void leaky_backward(LeakyType type, double slope, DType dtype, const void* head, const void* x, void* dx, int64_t begin,
                    int64_t end);

// y = x > 0 ? x : slopes * x, where slope is drawn from [low, high) for element i of the draw; slopes gets
// what x was multiplied with (1 where x > 0). begin must be a multiple of 4.
void rrelu_forward(RandomKey key, double low, double high, DType dtype, const void* x, void* y, void* slopes,
                   int64_t begin, int64_t end);

// prelu: data seen as (outer, channels, inner); rows [begin, end) of `outer`. With head == nullptr out is the
// output, else the gradient of the data.
struct ChannelView {
  int64_t outer, channels, inner;
};
void prelu(const ChannelView& view, DType dtype, const void* head, const void* x, const void* gamma, void* out,
           int64_t begin, int64_t end);
// sums[c] += head * min(x, 0) over rows [begin, end) of `outer`. sums are float, for float64 double.
void prelu_gamma_sums(const ChannelView& view, DType dtype, const void* head, const void* x, void* sums, int64_t begin,
                      int64_t end);

}  // namespace kaon
