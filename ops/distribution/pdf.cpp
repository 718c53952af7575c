// Probability densities, made of other operators.
#include <fmt/format.h>

#include <limits>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/distribution/distribution.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr double half_log_two_pi = 0.91893853320467274178;

NDArray broadcast(const NDArray& x, const NDArray& like) {
  return x.shape() == like.shape() ? x : nd.broadcast_like(x, like);
}

// factor log(x), which is 0 where the factor is 0; one of the two has the shape of the result. The logarithm is then
// kept finite, for 0 times infinity is NaN.
NDArray times_log(const NDArray& factor, const NDArray& x) {
  const NDArray& whole = factor.shape() == broadcast_shapes(factor.shape(), x.shape(), "_random_pdf") ? factor : x;
  const NDArray log = broadcast(nd.log(x), whole), is_zero = broadcast(factor == 0, whole);
  const double most = std::numeric_limits<float>::max();
  return nd.where(is_zero, nd.clip(log, -most, most), log) * factor;
}

// The logarithm of the density of x with parameters a and b, which broadcast. Counts have no gradient.
NDArray log_density(Distribution d, const NDArray& x, const NDArray& a, const NDArray& b) {
  switch (d) {
    case Distribution::uniform: return nd.zeros_like(x) - nd.log(b - a);
    case Distribution::normal: return nd.square((x - a) / b) * -0.5 - (nd.log(b) + half_log_two_pi);
    case Distribution::gamma: return times_log(a - 1, x) - b * x + (a * nd.log(b) - nd.gammaln(a));
    case Distribution::exponential: return nd.log(a) - a * x;
    case Distribution::poisson: {
      const NDArray count = nd.BlockGrad(x);
      return times_log(count, a) - a - nd.gammaln(count + 1);
    }
    case Distribution::negative_binomial: {
      const NDArray count = nd.BlockGrad(x);
      const NDArray ways = nd.gammaln(count + a) - nd.gammaln(count + 1);
      return ways + times_log(count, 1 - b) + (a * nd.log(b) - nd.gammaln(a));
    }
    case Distribution::generalized_negative_binomial: {
      const NDArray count = nd.BlockGrad(x), k = 1 / b, odds = a * b;
      const NDArray ways = nd.gammaln(count + k) - nd.gammaln(count + 1);
      return ways + times_log(count, odds / (1 + odds)) - (k * nd.log1p(odds) + nd.gammaln(k));
    }
    default: {  // dirichlet: classes along the last axis
      const Shape last(-1);
      const NDArray constant = nd.gammaln(nd.sum(a, {.axis = last})) - nd.sum(nd.gammaln(a), {.axis = last});
      return nd.sum(times_log(a - 1, x), {.axis = last}) + constant;
    }
  }
}

Shape front(const Shape& shape, int dimensions) {
  Shape out;
  for (int i = 0; i < dimensions; ++i) out.push_back(shape[i]);
  return out;
}

// A parameter with 1 for each dimension of the sample that it lacks; classes stay last.
Shape aligned(const Shape& parameter, const Shape& sample, bool classes) {
  Shape out = front(parameter, parameter.ndim() - classes);
  while (out.ndim() + classes < sample.ndim()) out.push_back(1);
  if (classes) out.push_back(parameter.back());
  return out;
}

}  // namespace

template <Distribution D>
constinit const OpDef op::Pdf<D>::def = make_op_def<op::Pdf<D>>();

namespace ops {

void infer_pdf(Distribution d, InferContext& c) {
  c.expect_same_dtype();
  c.expect_floating();
  const Shape& sample = c.shape(0);
  const int classes = d == Distribution::dirichlet;
  for (int i = 1; i < c.num_inputs(); ++i) {
    const Shape& parameter = c.shape(i);
    bool fits = parameter.ndim() >= classes && parameter.ndim() <= sample.ndim();
    for (int k = 0; fits && k < parameter.ndim() - classes; ++k) fits = parameter[k] == sample[k];
    if (fits && classes) fits = parameter.back() == sample.back();
    if (!fits) {
      c.fail(fmt::format("the shape of {} must be the beginning of that of sample{}; inputs: {}", info(d).first,
                         classes ? ", but for the classes along the last axis" : "", c.describe_inputs()));
    }
    if (i == 2) c.expect_shape(2, c.shape(1));
  }
  if (!classes) return c.set_output(sample, c.dtype());
  if (sample.back() == 0) c.fail(fmt::format("needs at least one class; inputs: {}", c.describe_inputs()));
  const Shape out = front(sample, sample.ndim() - 1);
  c.set_output(out.empty() ? Shape(1) : out, c.dtype());
}

void compose_pdf(Distribution d, bool is_log, ComposeContext& c) {
  const auto& [shape, dtype] = c.output();
  const DType computed = size_of(dtype) == 2 ? DType::float32 : dtype;
  const auto input = [&](int i) {
    const NDArray x = in_dtype(c.input(i), computed);
    const Shape to = i == 0 ? x.shape() : aligned(x.shape(), c.input(0).shape(), d == Distribution::dirichlet);
    return shaped(x, to);
  };
  NDArray y = log_density(d, input(0), input(1), c.num_inputs() > 2 ? input(2) : NDArray());
  if (!is_log) y = nd.exp(y);
  if (y.shape() != shape) y = nd._reshape_to(y, {.shape = shape});
  c.set(dtype == computed ? y : nd.cast(y, dtype));
}

}  // namespace ops

#define KAON_PDF(distribution) template struct op::Pdf<Distribution::distribution>;
// clang-format off
KAON_PDF(uniform) KAON_PDF(normal) KAON_PDF(gamma) KAON_PDF(exponential) KAON_PDF(poisson) KAON_PDF(negative_binomial)
KAON_PDF(generalized_negative_binomial) KAON_PDF(dirichlet)
// clang-format on
#undef KAON_PDF

}  // namespace kaon
