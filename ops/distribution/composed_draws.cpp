// Draws of bounded normal numbers, of probabilities, of choices and of counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/distribution/distribution.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::RandomTruncatedNormal::def = make_op_def<op::RandomTruncatedNormal>();
constinit const OpDef op::RandomDirichlet::def = make_op_def<op::RandomDirichlet>();
constinit const OpDef op::RandomChoice::def = make_op_def<op::RandomChoice>();
constinit const OpDef op::RandomMultinomial::def = make_op_def<op::RandomMultinomial>();

namespace {

Shape joined(const InferContext& c, Shape front, const Shape& back) {
  if (!front.is_known()) c.fail("size must have no unknown dimension, got " + front.str());
  if (front.ndim() + back.ndim() > Shape::max_ndim) {
    c.fail(fmt::format("the result has more than {} dimensions: size {} and {}", Shape::max_ndim, front.str(),
                       back.str()));
  }
  for (const int64_t n : back) front.push_back(n);
  return front;
}

}  // namespace

// --- truncated normal

void op::RandomTruncatedNormal::infer(InferContext& c) const {
  if (dtype != DType::float32 && dtype != DType::float64) {
    c.fail_dtype("is not implemented for dtype " + to_text(dtype));
  }
  if (!(scale >= 0)) c.fail_value("scale must not be negative, got " + to_text(scale));
  if (!(low <= high)) {
    c.fail_value(fmt::format("low must not exceed high, got {} and {}", to_text(low), to_text(high)));
  }
  c.set_output(joined(c, size, {}), dtype);
}

// From a uniform number between the probabilities of the bounds, on the side of 0 where those are small.
void op::RandomTruncatedNormal::compose(ComposeContext& c) const {
  const bool is_mirrored = low > 0;
  const double root = std::sqrt(2.0), a = is_mirrored ? -high : low, b = is_mirrored ? -low : high;
  const double first = -std::erf(-a / root), last = -std::erf(-b / root);
  const NDArray u =
      nd.random_uniform(c.output().shape, {.low = first, .high = last, .dtype = DType::float64, .ctx = ctx});
  const NDArray z = nd.clip(nd.erfinv(u) * (is_mirrored ? -root : root), low, high);
  const NDArray y = z * scale + loc;
  c.set(dtype == DType::float64 ? y : nd.cast(y, dtype));
}

// --- Dirichlet

void op::RandomDirichlet::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  if (c.shape(0).back() == 0) c.fail(fmt::format("needs at least one class; inputs: {}", c.describe_inputs()));
  c.set_output(joined(c, size, c.shape(0)), c.dtype());
}

// Gamma numbers divided by their sum. Those of a small alpha may all be too small for a float, so that they are drawn
// as logarithms: with an exponential e, the logarithm of one of alpha + 1 minus e / alpha.
void op::RandomDirichlet::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  if (shape.size() == 0) return c.set(nd.zeros(shape, {.dtype = dtype}));
  const DType computed = size_of(dtype) == 2 ? DType::float32 : dtype;
  NDArray alpha = nd.BlockGrad(c.input());
  if (dtype != computed) alpha = nd.cast(alpha, computed);
  const NDArray nan = nd.full(alpha.shape(), std::numeric_limits<double>::quiet_NaN(), {.dtype = computed});
  alpha = nd.broadcast_to(nd.where(alpha > 0, alpha, nan), shape);
  const NDArray e = nd.random_exponential_like(alpha);
  const NDArray logarithm = nd.log(nd.sample_gamma(alpha + 1, nd.ones_like(alpha), {.dtype = computed})) - e / alpha;
  const NDArray y = nd.softmax(logarithm);
  c.set(dtype == computed ? y : nd.cast(y, dtype));
}

// --- choice

void op::RandomChoice::infer(InferContext& c) const {
  if (a && *a < 1) c.fail_value(fmt::format("a must be at least 1, got {}", *a));
  int64_t n = a.value_or(0);
  if (!a) {
    c.expect_ndim(0, 1);
    n = c.shape(0)[0];
  }
  if (weighted) {
    const int last = c.num_inputs() - 1;
    c.expect_shape(last, Shape(n));
    c.expect_floating(last);
  }
  const Shape out = joined(c, size.value_or(Shape()), {});
  if (n == 0 && out.size() > 0) c.fail("there is nothing to choose from: " + c.describe_inputs());
  if (!replace && out.size() > n) {
    c.fail(fmt::format("without replace at most {} numbers can be drawn, got size {}", n, out.str()));
  }
  c.set_output(out, DType::int64);
}

// Without replace: the places of the largest keys, which are random, plus the logarithms of the probabilities where
// there are any (Gumbel's noise then draws as one after the other does).
void op::RandomChoice::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const std::optional<Device> device = c.num_inputs() == 0 ? ctx : std::nullopt;
  if (out.size() == 0) return c.set(nd.zeros(out, {.dtype = DType::int64, .device = device}));
  const int64_t n = a ? *a : c.input(0).shape()[0], count = out.size();
  if (replace && !weighted) {
    return c.set(nd.random_randint(0, n, out, {.dtype = DType::int64, .ctx = device}));
  }
  const NDArray weights = weighted ? nd.BlockGrad(c.input(c.num_inputs() - 1)) : NDArray();
  if (replace) {
    return c.set(shaped(nd.sample_multinomial(weights, {.shape = Shape(count), .dtype = DType::int64}), out));
  }
  NDArray keys = -nd.log(nd.random_exponential(Shape(n), {.ctx = device}));
  if (weighted) keys = keys + nd.log(in_dtype(weights, DType::float32));
  const NDArray order = nd.argsort(keys, {.is_ascend = false, .dtype = DType::int64});
  c.set(shaped(nd.slice_axis(order, 0, 0, count), out));
}

// --- multinomial

void op::RandomMultinomial::infer(InferContext& c) const {
  if (n < 0) c.fail_value(fmt::format("n must not be negative, got {}", n));
  int64_t k = 0;
  if (pvals) {
    k = pvals->size();
    double sum = 0;
    for (int i = 0; i < k; ++i) {
      const double p = (*pvals)[i];
      if (!(p >= 0 && p <= 1)) c.fail_value("pvals must lie in [0, 1], got " + to_text(p));
      if (i + 1 < k) sum += p;
    }
    if (sum > 1 + 1e-6) c.fail_value("the sum of pvals but the last must not exceed 1, got " + to_text(sum));
  } else {
    c.expect_ndim(0, 1);
    c.expect_floating();
    k = c.shape(0)[0];
  }
  if (k < 1) c.fail("needs at least one probability");
  c.set_output(joined(c, size.value_or(Shape()), Shape(k)), DType::int64);
}

// n classes for each, and how often each of these is there.
void op::RandomMultinomial::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  const int64_t k = out.back(), draws = k == 0 ? 0 : out.size() / k;
  const ArrayOptions counts{.dtype = DType::int64};
  if (n == 0 || draws == 0) return c.set(nd.zeros(out, counts));
  std::vector<NDArray> probabilities;
  if (pvals) {
    double rest = 1;
    for (int i = 0; i < k; ++i) {
      const double p = i + 1 < k ? double((*pvals)[i]) : std::max(0.0, rest);
      probabilities.push_back(nd.full(Shape(1), p));
      rest -= p;
    }
  } else {
    NDArray p = nd.BlockGrad(c.input());
    if (size_of(p.dtype()) == 2) p = nd.cast(p, DType::float32);
    if (k > 1) probabilities.push_back(nd.slice_axis(p, 0, 0, k - 1));
    probabilities.push_back(k > 1 ? shaped(1 - nd.sum(probabilities[0]), Shape(1)) : nd.ones_like(p));
  }
  const NDArray all = nd.concat(probabilities, {.dim = 0});
  const NDArray classes = nd.sample_multinomial(all, {.shape = Shape(draws * n), .dtype = DType::int64});
  const NDArray start = nd.arange(double(draws), {.dtype = DType::int64}) * double(k);
  const NDArray places = shaped(shaped(classes, {draws, n}) + nd.expand_dims(start, 1), Shape(draws * n));
  const NDArray ones = nd.ones(Shape(draws * n), counts);
  c.set(shaped(nd.index_add(nd.zeros(Shape(draws * k), counts), places, ones), out));
}

}  // namespace kaon
