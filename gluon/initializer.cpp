#include "kaon/gluon/initializer.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/engine/base/keep.h"
#include "kaon/ops/functions.h"

namespace kaon::init {
namespace {

void check_not_negative(const char* init, const char* what, double value) {
  if (!(value >= 0)) throw ValueError(fmt::format("[{}] {} must not be negative, got {}", init, what, value));
}

// The scale of Xavier: from the numbers of values that flow into and out of one element.
double xavier_scale(const char* name, FactorType type, double magnitude, const Shape& shape) {
  check_not_negative(name, "magnitude", magnitude);
  if (shape.ndim() < 2) {
    throw ValueError(
        fmt::format("[{}] a shape of at least 2 dimensions is needed, got {}; give such parameters an initializer "
                    "of their own",
                    name, shape.str()));
  }
  double kernel = double(shape.product(2, shape.ndim()));
  double fan_in = double(shape[1]) * kernel, fan_out = double(shape[0]) * kernel;
  double factor = type == FactorType::in ? fan_in : type == FactorType::out ? fan_out : (fan_in + fan_out) / 2;
  return factor > 0 ? std::sqrt(magnitude / factor) : 0;
}

NDArray draw(RndType type, double scale, const Shape& shape, DType dtype, Device device) {
  if (type == RndType::gaussian) return nd.random_normal(shape, {.scale = scale, .dtype = dtype, .ctx = device});
  return nd.random_uniform(shape, {.low = -scale, .high = scale, .dtype = dtype, .ctx = device});
}

NDArray orthogonal(const Initializer& init, const Shape& shape, DType dtype, Device device) {
  const int64_t rows = shape.ndim() > 0 ? shape[0] : 1, columns = shape.ndim() > 0 ? shape.product(1, shape.ndim()) : 1;
  if (shape.size() == 0) return nd.zeros(shape, {.dtype = dtype, .device = device});
  const DType wide = dtype == DType::float64 ? dtype : DType::float32;
  const bool is_tall = rows > columns;
  const NDArray random = draw(init.rnd_type, 1, is_tall ? Shape(columns, rows) : Shape(rows, columns), wide, device);
  const std::vector<NDArray> q_and_l = nd.linalg_gelqf(random);
  // with a positive diagonal of L the decomposition is the only one, and Q of normal values is uniformly distributed
  const NDArray signs = nd.sign(nd.linalg_extractdiag(q_and_l[1])).reshape({-1, 1});
  NDArray q = q_and_l[0] * nd.where(signs == 0, 1.0, signs) * init.value;
  if (is_tall) q = q.transpose();
  q = q.reshape(shape);
  return q.dtype() == dtype ? q : q.astype(dtype);
}

// Element (y, x) of each plane: (1 - |x / f - c|) (1 - |y / f - c|), f = ceil(width / 2), c = (2 f - 1 - f mod 2) / 2
// f.
NDArray bilinear(const Shape& shape, DType dtype, Device device) {
  if (shape.ndim() < 4) {
    throw ValueError(
        fmt::format("[Bilinear] a shape of 4 dimensions is needed, (..., kernel, kernel), got {}", shape.str()));
  }
  const int64_t height = shape[2], width = shape[3], planes = shape[0] * shape[1];
  if (shape.ndim() > 4)
    throw ValueError(fmt::format("[Bilinear] a shape of 4 dimensions is needed, got {}", shape.str()));
  const double f = std::ceil(double(width) / 2), c = (2 * f - 1 - std::fmod(f, 2)) / (2 * f);
  std::vector<float> values;
  values.reserve(size_t(shape.size()));
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        values.push_back(float((1 - std::abs(double(x) / f - c)) * (1 - std::abs(double(y) / f - c))));
      }
    }
  }
  return nd.array(values, shape, {.dtype = dtype, .device = device});
}

NDArray lstm_bias(double forget_bias, const Shape& shape, DType dtype, Device device) {
  if (shape.ndim() < 1) throw ValueError("[LSTMBias] a shape (4 hidden,) is needed, got ()");
  NDArray bias = nd.zeros(shape, {.dtype = dtype, .device = device});
  const int64_t hidden = shape[0] / 4;
  if (hidden > 0) bias.slice_assign({hidden}, {2 * hidden}, forget_bias);
  return bias;
}

NDArray truncated_normal(const Initializer& init, const Shape& shape, DType dtype, Device device) {
  check_not_negative("TruncatedNormal", "sigma", init.value);
  if (!(init.low < init.high)) {
    throw ValueError(fmt::format("[TruncatedNormal] low must be below high, got {} and {}", init.low, init.high));
  }
  const DType wide = dtype == DType::float64 ? dtype : DType::float32;
  const NDArray drawn = nd.random_truncated_normal(
      shape, {.loc = init.mean, .scale = init.value, .low = init.low, .high = init.high, .ctx = device, .dtype = wide});
  return drawn.dtype() == dtype ? drawn : drawn.astype(dtype);
}

// As Python writes a float.
std::string float_text(double v) {
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

constexpr const char* factor_names[] = {"avg", "in", "out"};
const char* name_of_random(RndType t, const char* gaussian) { return t == RndType::uniform ? "uniform" : gaussian; }

}  // namespace

const FillFunction* detail::keep(FillFunction fill) { return fill ? engine::keep_forever(std::move(fill)) : nullptr; }

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
    case Kind::xavier: return draw(rnd_type, xavier_scale("Xavier", factor_type, value, shape), shape, dtype, device);
    case Kind::msra_prelu: {
      const double scale = xavier_scale("MSRAPrelu", factor_type, 2 / (1 + value * value), shape);
      return draw(RndType::gaussian, scale, shape, dtype, device);
    }
    case Kind::orthogonal: return orthogonal(*this, shape, dtype, device);
    case Kind::bilinear: return bilinear(shape, dtype, device);
    case Kind::lstm_bias: return lstm_bias(value, shape, dtype, device);
    case Kind::truncated_normal: return truncated_normal(*this, shape, dtype, device);
    case Kind::custom: {
      if (!fill) throw ValueError("[Custom] the function must not be null");
      NDArray array = nd.zeros(shape, {.dtype = dtype, .device = device});
      (*fill)(array);
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
    case Kind::custom:
    case Kind::truncated_normal: return "";
    case Kind::constant:
      if (value == 0) return "zeros";
      if (value == 1) return "ones";
      return fmt::format(R"(["constant", {{"value": {}}}])", value);
    case Kind::uniform: return fmt::format(R"(["uniform", {{"scale": {}}}])", value);
    case Kind::normal: return fmt::format(R"(["normal", {{"sigma": {}}}])", value);
    case Kind::xavier:
      return fmt::format(R"(["xavier", {{"rnd_type": "{}", "factor_type": "{}", "magnitude": {}}}])",
                         name_of_random(rnd_type, "gaussian"), factor_names[int(factor_type)], value);
    case Kind::msra_prelu:
      return fmt::format(R"(["msraprelu", {{"factor_type": "{}", "slope": {}}}])", factor_names[int(factor_type)],
                         float_text(value));
    case Kind::orthogonal:
      return fmt::format(R"(["orthogonal", {{"scale": {}, "rand_type": "{}"}}])", float_text(value),
                         name_of_random(rnd_type, "normal"));
    case Kind::bilinear: return R"(["bilinear", {}])";
    case Kind::lstm_bias: return fmt::format(R"(["lstmbias", {{"forget_bias": {}}}])", float_text(value));
  }
  return "";
}

}  // namespace kaon::init
