#include "kaon/gluon/initializer.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"

namespace kaon::init {
namespace {

void check_not_negative(const char* init, const char* what, double value) {
  if (!(value >= 0)) throw ValueError(fmt::format("[{}] {} must not be negative, got {}", init, what, value));
}

// The scale of Xavier: from the numbers of values that flow into and out of one element.
double xavier_scale(const Initializer& init, const Shape& shape) {
  check_not_negative("Xavier", "magnitude", init.value);
  if (shape.ndim() < 2) {
    throw ValueError(
        fmt::format("[Xavier] a shape of at least 2 dimensions is needed, got {}; give such parameters an initializer "
                    "of their own",
                    shape.str()));
  }
  double kernel = double(shape.product(2, shape.ndim()));
  double fan_in = double(shape[1]) * kernel, fan_out = double(shape[0]) * kernel;
  double factor = init.factor_type == FactorType::in    ? fan_in
                  : init.factor_type == FactorType::out ? fan_out
                                                        : (fan_in + fan_out) / 2;
  return factor > 0 ? std::sqrt(init.value / factor) : 0;
}

NDArray draw(RndType type, double scale, const Shape& shape, DType dtype, Device device) {
  if (type == RndType::gaussian) return nd.random_normal(shape, {.scale = scale, .dtype = dtype, .ctx = device});
  return nd.random_uniform(shape, {.low = -scale, .high = scale, .dtype = dtype, .ctx = device});
}

}  // namespace

NDArray Initializer::operator()(const Shape& shape, DType dtype, Device device) const {
  switch (kind) {
    case Kind::unset: break;
    case Kind::constant: return nd.full(shape, value, {.dtype = dtype, .device = device});
    case Kind::uniform:
      check_not_negative("Uniform", "scale", value);
      return draw(RndType::uniform, value, shape, dtype, device);
    case Kind::normal:
      check_not_negative("Normal", "sigma", value);
      return draw(RndType::gaussian, value, shape, dtype, device);
    case Kind::xavier: return draw(rnd_type, xavier_scale(*this, shape), shape, dtype, device);
    case Kind::custom: {
      if (!fill) throw ValueError("[Custom] the function must not be null");
      NDArray array = nd.zeros(shape, {.dtype = dtype, .device = device});
      fill(array);
      if (array.shape() != shape || array.dtype() != dtype) {
        throw ValueError(fmt::format("[Custom] the function must keep shape {} and dtype {}, it made {} and {}",
                                     shape.str(), name_of(dtype), array.shape().str(), name_of(array.dtype())));
      }
      return array;
    }
  }
  throw StateError("[Initializer] it is not set: choose one, for instance init::Xavier()");
}

std::string Initializer::str() const {
  switch (kind) {
    case Kind::unset:
    case Kind::custom: return "";
    case Kind::constant:
      if (value == 0) return "zeros";
      if (value == 1) return "ones";
      return fmt::format(R"(["constant", {{"value": {}}}])", value);
    case Kind::uniform: return fmt::format(R"(["uniform", {{"scale": {}}}])", value);
    case Kind::normal: return fmt::format(R"(["normal", {{"sigma": {}}}])", value);
    case Kind::xavier: {
      const char* factors[] = {"avg", "in", "out"};
      return fmt::format(R"(["xavier", {{"rnd_type": "{}", "factor_type": "{}", "magnitude": {}}}])",
                         rnd_type == RndType::uniform ? "uniform" : "gaussian", factors[int(factor_type)], value);
    }
  }
  return "";
}

}  // namespace kaon::init
