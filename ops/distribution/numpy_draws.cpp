// The draws of NumPy's front end: noise of a standard distribution, and what parameters make of it.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/distribution/distribution.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// --- shapes, dtypes and parameters that are numbers

void infer_draw(const NumpyDraw& d, InferContext& c) {
  Shape base;
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.expect_floating(i);
    base = i == 0 ? c.shape(i) : broadcast_shapes(base, c.shape(i), c.op());
  }
  Shape out = d.size.value_or(base);
  if (!out.is_known()) c.fail("size must have no unknown dimension, got " + out.str());
  if (d.batch && d.size) {
    if (out.ndim() + base.ndim() > Shape::max_ndim) {
      c.fail(fmt::format("the result has more than {} dimensions: size {} and {}", Shape::max_ndim, out.str(),
                         base.str()));
    }
    for (int64_t n : base) out.push_back(n);
  }
  if (broadcast_shapes(base, out, c.op()) != out) {
    c.fail(fmt::format("the parameters do not broadcast to size {}; inputs: {}", out.str(), c.describe_inputs()));
  }
  c.set_output(out, d.dtype);
}

void expect_not_negative(const InferContext& c, const char* name, const std::optional<double>& value) {
  if (value && !(*value >= 0)) c.fail_value(fmt::format("{} must not be negative, got {}", name, to_text(*value)));
}

// --- what they are made of

// The parameters of a call in their order: a number, or the next input.
class Parameters {
 public:
  Parameters(const NumpyDraw& d, const ComposeContext& c, DType computed) : numbers_{d.first, d.second} {
    int next = 0;
    for (int i : {0, 1}) {
      if (numbers_[i] || next == c.num_inputs()) continue;
      arrays_[i] = in_dtype(c.input(next++), computed);
    }
  }
  bool is_number(int i) const { return !arrays_[i].defined(); }
  double number(int i) const { return *numbers_[i]; }
  NDArray& array(int i) { return arrays_[i]; }
  Arg<NDArray> operator[](int i) const { return is_number(i) ? Arg<NDArray>(number(i)) : Arg<NDArray>(arrays_[i]); }
  bool equals(int i, double value) const { return is_number(i) && number(i) == value; }

 private:
  std::optional<double> numbers_[2];
  NDArray arrays_[2];
};

// x, with NaN for what is not in the range of a parameter.
NDArray or_nan(const NDArray& is_in_range, const NDArray& x) {
  const NDArray nan = nd.full(x.shape(), std::numeric_limits<double>::quiet_NaN(), {.dtype = x.dtype()});
  return nd.where(is_in_range, x, nan);
}

NDArray standard(Noise noise, const Shape& shape, const std::optional<Device>& device) {
  const NDArray e = nd.random_exponential(shape, {.ctx = device});
  switch (noise) {
    case Noise::gumbel: return -nd.log(e);
    case Noise::logistic: return nd.log(nd.expm1(e));
    case Noise::laplace: return e - nd.random_exponential(shape, {.ctx = device});
    case Noise::rayleigh: return nd.sqrt(e * 2);
    default: return e;
  }
}

}  // namespace

namespace ops {

void infer_noise(Noise noise, const NumpyDraw& d, InferContext& c) {
  if (noise <= Noise::laplace) {
    expect_not_negative(c, "scale", d.second);
  } else if (noise <= Noise::rayleigh) {
    expect_not_negative(c, "scale", d.first);
  } else if (d.first && !(*d.first > 0)) {
    c.fail_value("a must be positive, got " + to_text(*d.first));
  }
  infer_draw(d, c);
}

void compose_noise(Noise noise, const NumpyDraw& d, ComposeContext& c) {
  Parameters p(d, c, DType::float32);
  NDArray y = standard(noise, c.output().shape, c.num_inputs() == 0 ? d.ctx : std::nullopt);
  if (noise >= Noise::pareto) {
    if (!p.is_number(0)) p.array(0) = or_nan(p.array(0) > 0, p.array(0));
    if (noise == Noise::pareto) return c.set(nd.expm1(y / p[0]));
    if (noise == Noise::power) return c.set(nd.exp(-(y / p[0])));
    return c.set(p.is_number(0) ? nd.power(y, 1 / p.number(0)) : nd.power(y, 1 / p.array(0)));
  }
  const bool shifts = noise <= Noise::laplace;
  const int scale = shifts ? 1 : 0;
  if (!p.is_number(scale)) p.array(scale) = or_nan(p.array(scale) >= 0, p.array(scale));
  if (!p.equals(scale, 1)) y = y * p[scale];
  c.set(shifts && !p.equals(0, 0) ? y + p[0] : y);
}

void infer_numpy(Distribution distribution, const NumpyDraw& d, InferContext& c) {
  if (!is_floating(d.dtype)) c.fail_dtype("is not implemented for dtype " + to_text(d.dtype));
  switch (distribution) {
    case Distribution::normal: expect_not_negative(c, "scale", d.second); break;
    case Distribution::uniform:
      if (d.first && d.second && !(*d.first <= *d.second)) {
        c.fail_value(fmt::format("low must not exceed high, got {} and {}", to_text(*d.first), to_text(*d.second)));
      }
      break;
    default:
      if ((d.first && !(*d.first > 0)) || (d.second && !(*d.second > 0))) {
        c.fail_value(
            fmt::format("shape and scale must be positive, got {} and {}", to_text(d.first), to_text(d.second)));
      }
  }
  infer_draw(d, c);
}

void compose_numpy(Distribution distribution, const NumpyDraw& d, ComposeContext& c) {
  const auto& [shape, dtype] = c.output();
  const DType computed = size_of(dtype) == 2 ? DType::float32 : dtype;
  Parameters p(d, c, computed);
  const std::optional<Device> device = c.num_inputs() == 0 ? d.ctx : std::nullopt;
  if (c.num_inputs() == 0) {
    const double a = p.number(0), b = p.number(1);
    return c.set(distribution == Distribution::normal
                     ? nd.random_normal(shape, {.loc = a, .scale = b, .dtype = dtype, .ctx = device})
                 : distribution == Distribution::uniform
                     ? nd.random_uniform(shape, {.low = a, .high = b, .dtype = dtype, .ctx = device})
                     : nd.random_gamma(shape, {.alpha = a, .beta = b, .dtype = dtype, .ctx = device}));
  }
  if (distribution == Distribution::gamma) {
    if (shape.size() == 0) return c.set(nd.zeros(shape, {.dtype = dtype}));
    const auto parameter = [&](int i) {
      return p.is_number(i) ? nd.full(c.output().shape, p.number(i), {.dtype = computed})
                            : nd.broadcast_to(p.array(i), c.output().shape);
    };
    return c.set(nd.sample_gamma(parameter(0), parameter(1), {.dtype = dtype}));
  }
  if (distribution == Distribution::normal) {
    if (!p.is_number(1)) p.array(1) = or_nan(p.array(1) >= 0, p.array(1));
    const NDArray noise = nd.random_normal(shape, {.dtype = computed});
    return c.set(in_dtype(noise * p[1] + p[0], dtype));
  }
  const NDArray width = p.is_number(0) ? p.array(1) - p.number(0) : p[1] - p[0];
  const NDArray noise = nd.random_uniform(shape, {.dtype = computed});
  c.set(in_dtype(noise * or_nan(width >= 0, width) + p[0], dtype));
}

}  // namespace ops

template <Noise N>
constinit const OpDef op::LocationScale<N>::def = make_op_def<op::LocationScale<N>>();
template <Noise N>
constinit const OpDef op::Scaled<N>::def = make_op_def<op::Scaled<N>>();
template <Noise N>
constinit const OpDef op::ByExponent<N>::def = make_op_def<op::ByExponent<N>>();
template <bool Batch>
constinit const OpDef op::NumpyNormal<Batch>::def = make_op_def<op::NumpyNormal<Batch>>();
template <bool Batch>
constinit const OpDef op::NumpyUniform<Batch>::def = make_op_def<op::NumpyUniform<Batch>>();
constinit const OpDef op::RandomGammaOf::def = make_op_def<op::RandomGammaOf>();
constinit const OpDef op::RandomBernoulli::def = make_op_def<op::RandomBernoulli>();

template struct op::LocationScale<Noise::gumbel>;
template struct op::LocationScale<Noise::logistic>;
template struct op::LocationScale<Noise::laplace>;
template struct op::Scaled<Noise::exponential>;
template struct op::Scaled<Noise::rayleigh>;
template struct op::ByExponent<Noise::pareto>;
template struct op::ByExponent<Noise::weibull>;
template struct op::ByExponent<Noise::power>;
template struct op::NumpyNormal<false>;
template struct op::NumpyNormal<true>;
template struct op::NumpyUniform<false>;
template struct op::NumpyUniform<true>;

void op::RandomBernoulli::infer(InferContext& c) const {
  if (prob && logit) c.fail_value("takes prob or logit, got both");
  if (is_logit ? prob.has_value() : logit.has_value()) {
    c.fail_value(fmt::format("is_logit = {} needs {}, got {}", is_logit, is_logit ? "logit" : "prob",
                             is_logit ? "prob" : "logit"));
  }
  if (prob && !(*prob >= 0 && *prob <= 1)) c.fail_value("prob must lie in [0, 1], got " + to_text(*prob));
  if (logit && *logit != *logit) c.fail_value("logit must be a number, got " + to_text(*logit));
  infer_draw({parameter(), {}, size, dtype, ctx}, c);
}

void op::RandomBernoulli::compose(ComposeContext& c) const {
  const NDArray u = nd.random_uniform(c.output().shape, {.ctx = c.num_inputs() == 0 ? ctx : std::nullopt});
  NDArray y;
  if (parameter()) {
    y = u < (is_logit ? 1 / (1 + std::exp(-*logit)) : *prob);
  } else {
    const NDArray p = in_dtype(c.input(), DType::float32);
    y = u < (is_logit ? nd.sigmoid(p) : p);
  }
  c.set(in_dtype(y, dtype));
}

}  // namespace kaon
