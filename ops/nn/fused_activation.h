// What FullyConnected and Convolution may apply to their result while it is in cache.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kaon {

// Set by the fusion pass on nodes of plans only; never in a file and never in an imperative call.
enum class FusedActivation { none, relu, sigmoid, tanh };
constexpr std::array<std::string_view, 4> enum_names(FusedActivation) { return {"none", "relu", "sigmoid", "tanh"}; }

// y[i * stride + j] = activation(y[i * stride + j] + bias[j]) for i < rows, j < columns. `bias` may be null. NaN stays
// NaN.
void add_bias_and_activate(float* y, int64_t rows, int64_t columns, int64_t stride, const float* bias,
                           FusedActivation activation);

// y[i] = activation(y[i]).
void activate(double* y, int64_t n, FusedActivation activation);
inline void activate(float* y, int64_t n, FusedActivation activation) {
  if (activation != FusedActivation::none) add_bias_and_activate(y, 1, n, n, nullptr, activation);
}

}  // namespace kaon
