// Initializers: the rules for the first values of a parameter.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace init {

enum class Kind : uint8_t {
  unset,
  constant,
  uniform,
  normal,
  xavier,
  custom,
  msra_prelu,
  orthogonal,
  bilinear,
  lstm_bias,
  truncated_normal
};
enum class FactorType : uint8_t { avg, in, out };
enum class RndType : uint8_t { uniform, gaussian };

using FillFunction = std::function<void(NDArray&)>;

// A value, made by the functions below. Unset: Parameter::initialize chooses. Thread safety: a value.
struct Initializer {
  Kind kind = Kind::unset;
  double value = 0;  // the constant, the half width, the standard deviation, the magnitude, the slope, the scale
  double mean = 0, low = 0, high = 0;  // of a truncated normal distribution
  RndType rnd_type = RndType::uniform;
  FactorType factor_type = FactorType::avg;
  const FillFunction* fill = nullptr;  // custom; lives as long as the process

  bool is_set() const { return kind != Kind::unset; }
  // A new array with such values. Does not block. Throws ValueError for a negative scale, a shape that does not suit
  // (Xavier needs 2 dimensions) and a custom function that changes shape or dtype; StateError when unset; DeviceError.
  NDArray operator()(const Shape& shape, DType dtype = DType::float32, Device device = Device()) const;
  // The text in MXNet's files: zeros, ["xavier", {"rnd_type": "uniform", ...}]; empty for unset, custom and truncated
  // normal, which they cannot express.
  std::string str() const;
  // The initializer of such a text, or of a name alone, in any case. Throws ValueError, saying what is wrong, for other
  // texts, for one that is not there and for FusedRNN: its parameters, all of a layer in one vector, are separate ones
  // here, each with its own initializer.
  static Initializer parse(std::string_view text);
};

struct XavierOptions {
  RndType rnd_type = RndType::uniform;
  FactorType factor_type = FactorType::avg;
  double magnitude = 3;
};

inline Initializer Constant(double value) { return {.kind = Kind::constant, .value = value}; }
inline Initializer Zero() { return Constant(0); }
inline Initializer One() { return Constant(1); }
// Uniform in [-scale, scale).
inline Initializer Uniform(double scale = 0.07) { return {.kind = Kind::uniform, .value = scale}; }
// Normal with mean 0 and standard deviation sigma.
inline Initializer Normal(double sigma = 0.01) { return {.kind = Kind::normal, .value = sigma}; }
// Glorot and Bengio 2010: uniform or normal of scale sqrt(magnitude / factor), factor being the mean or one of fan-in
// shape[1] * kernel and fan-out shape[0] * kernel.
inline Initializer Xavier(const XavierOptions& o = {}) {
  return {.kind = Kind::xavier, .value = o.magnitude, .rnd_type = o.rnd_type, .factor_type = o.factor_type};
}
struct MSRAPreluOptions {
  FactorType factor_type = FactorType::avg;
  double slope = 0.25;
};
// He et al. 2015: Xavier with normal values and magnitude 2 / (1 + slope^2), slope being that of the PReLU behind.
inline Initializer MSRAPrelu(const MSRAPreluOptions& o = {}) {
  return {.kind = Kind::msra_prelu, .value = o.slope, .factor_type = o.factor_type};
}

struct OrthogonalOptions {
  double scale = 1.414;
  RndType rand_type = RndType::uniform;
};
// Saxe et al. 2014: the shape as a matrix (shape[0], rest) whose rows, or columns where these are fewer, are orthogonal
// and of length scale. A scalar and a vector have one row for each element.
inline Initializer Orthogonal(const OrthogonalOptions& o = {}) {
  return {.kind = Kind::orthogonal, .value = o.scale, .rnd_type = o.rand_type};
}
// The kernel of a Deconvolution that enlarges images, bilinearly: shape (..., kernel, kernel).
inline Initializer Bilinear() { return {.kind = Kind::bilinear}; }
// The bias of an LSTM, of 4 gates one after the other: forget_bias for the second, else 0.
inline Initializer LSTMBias(double forget_bias = 1) { return {.kind = Kind::lstm_bias, .value = forget_bias}; }

struct TruncatedNormalOptions {
  double mean = 0;
  double sigma = 0.01;
  double low = -2, high = 2;  // in standard deviations from the mean
};
// Normal, without what is outside of the bounds.
inline Initializer TruncatedNormal(const TruncatedNormalOptions& o = {}) {
  return {.kind = Kind::truncated_normal, .value = o.sigma, .mean = o.mean, .low = o.low, .high = o.high};
}

namespace detail {
KAON_API const FillFunction* keep(FillFunction fill);
}
// `fill(array)` is called with an array of zeros, and changes its values. It is kept as long as the process lives: make
// such an initializer once. Threads may initialize by it at once.
template <class F>
  requires std::invocable<F&, NDArray&> Initializer Custom(F fill) {
    return {.kind = Kind::custom, .fill = detail::keep(FillFunction(std::move(fill)))};
  }
inline Initializer Custom(std::nullptr_t) { return {.kind = Kind::custom}; }

}  // namespace init
}  // namespace kaon
