// Initializers: the rules for the first values of a parameter.
#pragma once

#include <string>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace init {

enum class Kind : uint8_t { unset, constant, uniform, normal, xavier, custom };
enum class FactorType : uint8_t { avg, in, out };
enum class RndType : uint8_t { uniform, gaussian };

// A value, made by the functions below. Unset: Parameter::initialize chooses. Thread safety: a value.
struct Initializer {
  Kind kind = Kind::unset;
  double value = 0;  // the constant, the half width, the standard deviation, the magnitude
  RndType rnd_type = RndType::uniform;
  FactorType factor_type = FactorType::avg;
  void (*fill)(NDArray&) = nullptr;  // custom

  bool is_set() const { return kind != Kind::unset; }
  // A new array with such values. Does not block. Throws ValueError for a negative scale, a shape that does not suit
  // (Xavier needs 2 dimensions) and a custom function that changes shape or dtype; StateError when unset; DeviceError.
  NDArray operator()(const Shape& shape, DType dtype = DType::float32, Device device = Device()) const;
  // The text in MXNet's files: zeros, ["xavier", {"rnd_type": "uniform", ...}]; empty for unset and custom, which they
  // cannot express.
  std::string str() const;
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
// `fill` is called with an array of zeros, and changes its values.
inline Initializer Custom(void (*fill)(NDArray&)) { return {.kind = Kind::custom, .fill = fill}; }

}  // namespace init
}  // namespace kaon
