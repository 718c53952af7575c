// Draws whose parameters are arrays, and those of distributions that reject.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random/kernels/draws.h"
#include "kaon/ops/random/kernels/random_kernel.h"
#include "kaon/ops/random/kernels/random_words.h"

namespace kaon {

using namespace ops;
namespace {

// Calls use(parameter, begin, end) for the elements [begin, end) of a chunk that have one parameter each.
template <class Use>
void for_parameters(const Draws& d, int64_t at, int64_t count, const Use& use) {
  int64_t parameter = at / d.repeats, left = d.repeats - at % d.repeats;
  for (int64_t begin = 0; begin < count; ++parameter, left = d.repeats) {
    const int64_t end = std::min(count, begin + left);
    use(parameter, begin, end);
    begin = end;
  }
}

template <class T>
void scale_noise(const Draws& d, RandomKey key, T* out, int64_t n, int64_t chunk) {
  alignas(64) accumulate_t<T> noise[random_chunk];
  const int64_t at = chunk * random_chunk, count = std::min(random_chunk, n - at);
  standard_numbers(d.distribution, key, dtype_of<T>, noise, count, chunk);
  for_parameters(d, at, count, [&](int64_t parameter, int64_t begin, int64_t end) {
    const ScaledNoise<T> scaled(d.distribution, d.first[parameter], d.second[parameter]);
    for (int64_t i = begin; i < end; ++i) out[at + i] = T(scaled(noise[i]));
  });
}

// Numbers that are rejected and drawn anew cost more, and each has words of its own: smaller pieces serve small draws.
constexpr int64_t rejecting_chunk = 256;

void reject(const Draws& d, RandomKey key, double* out, int64_t at, int64_t count) {
  alignas(64) uint32_t words[4 * rejecting_chunk];
  random_words(key, uint64_t(at), count, words);
  for_parameters(d, at, count, [&](int64_t parameter, int64_t begin, int64_t end) {
    with_rejecting_number(d.distribution, d.first[parameter], d.second[parameter], [&](const auto& number) {
      for (int64_t i = begin; i < end; ++i) {
        const uint32_t* w = words + 4 * i;
        WordStream stream(key, uint64_t(at + i), {{w[0], w[1], w[2], w[3]}});
        out[i] = number(stream);
      }
    });
  });
}

void draw(const Draws& d, KernelContext& c) {
  const TensorView out = c.out();
  const int64_t n = out.size();
  dispatch_float("_sample", out.dtype, [&]<class T>() {
    T* to = out.as<T>();
    if (is_scaled_noise(d.distribution)) {
      c.run.parallel_for(random_chunks(n), 8, [&](int64_t first, int64_t last) {
        for (int64_t chunk = first; chunk < last; ++chunk) scale_noise(d, c.random, to, n, chunk);
      });
      return;
    }
    c.run.parallel_for((n + rejecting_chunk - 1) / rejecting_chunk, 1, [&](int64_t first, int64_t last) {
      for (int64_t at = first * rejecting_chunk; at < std::min(n, last * rejecting_chunk); at += rejecting_chunk) {
        double numbers[rejecting_chunk];
        const int64_t count = std::min(rejecting_chunk, n - at);
        reject(d, c.random, numbers, at, count);
        for (int64_t i = 0; i < count; ++i) to[at + i] = convert<T>(numbers[i]);
      }
    });
  });
}

void draw(Distribution distribution, double first, double second, KernelContext& c) {
  const auto parameter = [](double v) { return DrawParameter{.number = v}; };
  draw(Draws{distribution, parameter(first), parameter(second), std::max<int64_t>(1, c.out().size())}, c);
}

// What the parameters of a distribution must be, in the words of its attributes.
constexpr std::string_view requirements[] = {
    "low must not exceed high",         "scale must not be negative",
    "alpha and beta must be positive",  "lam must be positive",
    "lam must not be negative",         "k must not be negative and p must lie in (0, 1]",
    "mu and alpha must not be negative"};

void expect_parameters(const InferContext& c, Distribution d, double first, double second) {
  const bool is_point = d == Distribution::gamma && (first == 0 || second == 0);  // which MXNet refuses as well
  if (is_valid(d, first, second) && !is_point) return;
  const bool two = !info(d).second.empty();
  c.fail_value(fmt::format("{}, got {}{}", requirements[size_t(d)], to_text(first),
                           two ? " and " + to_text(second) : std::string()));
}

void infer_drawn(InferContext& c, const Shape& shape, std::optional<DType> dtype) {
  if (!shape.is_known()) c.fail("shape must have no unknown dimension, got " + shape.str());
  const DType type = dtype.value_or(DType::float32);
  if (!is_floating(type)) c.fail_dtype("is not implemented for dtype " + to_text(type));
  c.set_output(shape, type);
}

void infer_like(InferContext& c, Distribution d, double first, double second) {
  expect_parameters(c, d, first, second);
  c.expect_floating();
  c.set_output(c.shape(0), c.dtype());
}

}  // namespace

// --- parameters that are arrays

template <Distribution D>
constinit const OpDef op::Sample<D>::def = make_op_def<op::Sample<D>>();

namespace ops {

void infer_sample(Distribution, const Shape& shape, std::optional<DType> dtype, InferContext& c) {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool");
  if (c.num_inputs() == 2) c.expect_shape(1, c.shape(0));
  Shape out = c.shape(0);
  if (out.ndim() + shape.ndim() > Shape::max_ndim) {
    c.fail(fmt::format("the result has more than {} dimensions; shape {}, inputs: {}", Shape::max_ndim, shape.str(),
                       c.describe_inputs()));
  }
  for (int64_t d : shape) out.push_back(d);
  infer_drawn(c, out, dtype);
}

void run_sample(Distribution distribution, KernelContext& c) {
  const auto parameter = [&](int i) { return DrawParameter{c.in(i).data, c.in(i).dtype}; };
  const int64_t elements = c.in(0).size();
  if (c.out().size() == 0) return;
  const int64_t repeats = c.out().size() / elements;
  draw(Draws{distribution, parameter(0), c.num_inputs() == 2 ? parameter(1) : DrawParameter{.number = 1}, repeats}, c);
}

}  // namespace ops

#define KAON_SAMPLE(distribution) template struct op::Sample<Distribution::distribution>;
// clang-format off
KAON_SAMPLE(uniform) KAON_SAMPLE(normal) KAON_SAMPLE(gamma) KAON_SAMPLE(exponential) KAON_SAMPLE(poisson)
KAON_SAMPLE(negative_binomial) KAON_SAMPLE(generalized_negative_binomial)
// clang-format on
#undef KAON_SAMPLE

    // --- parameters that are attributes

    constinit const OpDef op::RandomGamma::def = make_op_def<op::RandomGamma>();
constinit const OpDef op::RandomExponential::def = make_op_def<op::RandomExponential>();
constinit const OpDef op::RandomPoisson::def = make_op_def<op::RandomPoisson>();
constinit const OpDef op::RandomNegativeBinomial::def = make_op_def<op::RandomNegativeBinomial>();
constinit const OpDef op::RandomGeneralizedNegativeBinomial::def = make_op_def<op::RandomGeneralizedNegativeBinomial>();

void op::RandomGamma::infer(InferContext& c) const {
  expect_parameters(c, Distribution::gamma, alpha, beta);
  infer_drawn(c, shape, dtype);
}

void run_cpu(const op::RandomGamma& op, KernelContext& c) { draw(Distribution::gamma, op.alpha, op.beta, c); }

void op::RandomExponential::infer(InferContext& c) const {
  expect_parameters(c, Distribution::exponential, lam, 1);
  infer_drawn(c, shape, dtype);
}

void run_cpu(const op::RandomExponential& op, KernelContext& c) { draw(Distribution::exponential, op.lam, 1, c); }

void op::RandomPoisson::infer(InferContext& c) const {
  expect_parameters(c, Distribution::poisson, lam, 1);
  infer_drawn(c, shape, dtype);
}

void run_cpu(const op::RandomPoisson& op, KernelContext& c) { draw(Distribution::poisson, op.lam, 1, c); }

void op::RandomNegativeBinomial::infer(InferContext& c) const {
  expect_parameters(c, Distribution::negative_binomial, k, p);
  infer_drawn(c, shape, dtype);
}

void run_cpu(const op::RandomNegativeBinomial& op, KernelContext& c) {
  draw(Distribution::negative_binomial, op.k, op.p, c);
}

void op::RandomGeneralizedNegativeBinomial::infer(InferContext& c) const {
  expect_parameters(c, Distribution::generalized_negative_binomial, mu, alpha);
  infer_drawn(c, shape, dtype);
}

void run_cpu(const op::RandomGeneralizedNegativeBinomial& op, KernelContext& c) {
  draw(Distribution::generalized_negative_binomial, op.mu, op.alpha, c);
}

// --- in the shape of an array

constinit const OpDef op::RandomUniformLike::def = make_op_def<op::RandomUniformLike>();
constinit const OpDef op::RandomNormalLike::def = make_op_def<op::RandomNormalLike>();
constinit const OpDef op::RandomGammaLike::def = make_op_def<op::RandomGammaLike>();
constinit const OpDef op::RandomExponentialLike::def = make_op_def<op::RandomExponentialLike>();
constinit const OpDef op::RandomPoissonLike::def = make_op_def<op::RandomPoissonLike>();
constinit const OpDef op::RandomNegativeBinomialLike::def = make_op_def<op::RandomNegativeBinomialLike>();
constinit const OpDef op::RandomGeneralizedNegativeBinomialLike::def =
    make_op_def<op::RandomGeneralizedNegativeBinomialLike>();

void op::RandomUniformLike::infer(InferContext& c) const { infer_like(c, Distribution::uniform, low, high); }
void op::RandomUniformLike::compose(ComposeContext& c) const {
  c.set(nd.random_uniform(c.output().shape, {.low = low, .high = high, .dtype = c.output().dtype}));
}

void op::RandomNormalLike::infer(InferContext& c) const { infer_like(c, Distribution::normal, loc, scale); }
void op::RandomNormalLike::compose(ComposeContext& c) const {
  c.set(nd.random_normal(c.output().shape, {.loc = loc, .scale = scale, .dtype = c.output().dtype}));
}

void op::RandomGammaLike::infer(InferContext& c) const { infer_like(c, Distribution::gamma, alpha, beta); }
void op::RandomGammaLike::compose(ComposeContext& c) const {
  c.set(nd.random_gamma(c.output().shape, {.alpha = alpha, .beta = beta, .dtype = c.output().dtype}));
}

void op::RandomExponentialLike::infer(InferContext& c) const { infer_like(c, Distribution::exponential, lam, 1); }
void op::RandomExponentialLike::compose(ComposeContext& c) const {
  c.set(nd.random_exponential(c.output().shape, {.lam = lam, .dtype = c.output().dtype}));
}

void op::RandomPoissonLike::infer(InferContext& c) const { infer_like(c, Distribution::poisson, lam, 1); }
void op::RandomPoissonLike::compose(ComposeContext& c) const {
  c.set(nd.random_poisson(c.output().shape, {.lam = lam, .dtype = c.output().dtype}));
}

void op::RandomNegativeBinomialLike::infer(InferContext& c) const {
  infer_like(c, Distribution::negative_binomial, k, p);
}
void op::RandomNegativeBinomialLike::compose(ComposeContext& c) const {
  c.set(nd.random_negative_binomial(c.output().shape, {.k = k, .p = p, .dtype = c.output().dtype}));
}

void op::RandomGeneralizedNegativeBinomialLike::infer(InferContext& c) const {
  infer_like(c, Distribution::generalized_negative_binomial, mu, alpha);
}
void op::RandomGeneralizedNegativeBinomialLike::compose(ComposeContext& c) const {
  c.set(
      nd.random_generalized_negative_binomial(c.output().shape, {.mu = mu, .alpha = alpha, .dtype = c.output().dtype}));
}

}  // namespace kaon
