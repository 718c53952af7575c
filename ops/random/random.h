// Random numbers.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// Element i of a draw depends on (seed, offset, i) alone: see philox.h. A parameter that has no meaning is refused with
// a ValueError where it is an attribute, and gives NaN where it is an element of an array.

// --- Draws whose parameters are attributes.

namespace op {
// Uniform in [low, high); float32 unless dtype says otherwise. 16-bit floats are rounded from numbers of 24 bits, but
// never up to high; in [0, 1) they are never 0.
struct RandomUniform {
  double low = 0;
  double high = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_random_uniform", .inputs = {}, .random = true, .aliases = {"uniform"}};
  static constexpr void fields(auto field) {
    field("low", &RandomUniform::low);
    field("high", &RandomUniform::high);
    field("shape", &RandomUniform::shape);
    field("ctx", &RandomUniform::ctx);
    field("dtype", &RandomUniform::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Normal with mean loc and standard deviation scale (Box and Muller 1958). A negative scale is an error of the
// running operator, not of the call, as in MXNet.
struct RandomNormal {
  double loc = 0;
  double scale = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_random_normal", .inputs = {}, .random = true, .aliases = {"normal"}};
  static constexpr void fields(auto field) {
    field("loc", &RandomNormal::loc);
    field("scale", &RandomNormal::scale);
    field("shape", &RandomNormal::shape);
    field("ctx", &RandomNormal::ctx);
    field("dtype", &RandomNormal::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Integers uniform in [low, high); int32 unless dtype names other integers.
struct RandomRandint {
  int64_t low = 0;
  int64_t high = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_random_randint", .inputs = {}, .random = true};
  static constexpr void fields(auto field) {
    field("low", &RandomRandint::low, true);
    field("high", &RandomRandint::high, true);
    field("shape", &RandomRandint::shape);
    field("ctx", &RandomRandint::ctx);
    field("dtype", &RandomRandint::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Gamma with shape alpha and scale beta, both positive: the mean is alpha beta (Marsaglia and Tsang 2000). As are all
// draws below but randint: float32 unless dtype says otherwise, computed in double and rounded once.
struct RandomGamma {
  double alpha = 1;
  double beta = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{
      .name = "_random_gamma", .inputs = {}, .random = true, .aliases = Names("random_gamma")};
  static constexpr void fields(auto field) {
    field("alpha", &RandomGamma::alpha);
    field("beta", &RandomGamma::beta);
    field("shape", &RandomGamma::shape);
    field("ctx", &RandomGamma::ctx);
    field("dtype", &RandomGamma::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Exponential with rate lam > 0: the mean is 1 / lam.
struct RandomExponential {
  double lam = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{
      .name = "_random_exponential", .inputs = {}, .random = true, .aliases = Names("random_exponential")};
  static constexpr void fields(auto field) {
    field("lam", &RandomExponential::lam);
    field("shape", &RandomExponential::shape);
    field("ctx", &RandomExponential::ctx);
    field("dtype", &RandomExponential::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Poisson with mean lam >= 0, as floats: inversion below a mean of 10, else the transformed rejection of Hörmann 1993.
// Counts past 2^24 (float16: 2^11, bfloat16: 2^8) are rounded to numbers of the dtype; the draw itself is exact to
// 2^53.
struct RandomPoisson {
  double lam = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{
      .name = "_random_poisson", .inputs = {}, .random = true, .aliases = Names("random_poisson")};
  static constexpr void fields(auto field) {
    field("lam", &RandomPoisson::lam);
    field("shape", &RandomPoisson::shape);
    field("ctx", &RandomPoisson::ctx);
    field("dtype", &RandomPoisson::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Failures before the k-th success of trials that succeed with probability p in (0, 1]: Poisson with a mean drawn from
// a gamma distribution of shape k >= 0 and scale (1 - p) / p.
struct RandomNegativeBinomial {
  int k = 1;
  double p = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{
      .name = "_random_negative_binomial", .inputs = {}, .random = true, .aliases = Names("random_negative_binomial")};
  static constexpr void fields(auto field) {
    field("k", &RandomNegativeBinomial::k);
    field("p", &RandomNegativeBinomial::p);
    field("shape", &RandomNegativeBinomial::shape);
    field("ctx", &RandomNegativeBinomial::ctx);
    field("dtype", &RandomNegativeBinomial::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The same by mean mu >= 0 and dispersion alpha >= 0: shape 1 / alpha and scale alpha mu. alpha = 0 is Poisson.
struct RandomGeneralizedNegativeBinomial {
  double mu = 1;
  double alpha = 1;
  Shape shape{};
  std::optional<DType> dtype{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_random_generalized_negative_binomial",
                                   .inputs = {},
                                   .random = true,
                                   .aliases = Names("random_generalized_negative_binomial")};
  static constexpr void fields(auto field) {
    field("mu", &RandomGeneralizedNegativeBinomial::mu);
    field("alpha", &RandomGeneralizedNegativeBinomial::alpha);
    field("shape", &RandomGeneralizedNegativeBinomial::shape);
    field("ctx", &RandomGeneralizedNegativeBinomial::ctx);
    field("dtype", &RandomGeneralizedNegativeBinomial::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The same draws in the shape and floating dtype of data, whose values are not read.
struct RandomUniformLike {
  double low = 0;
  double high = 1;
  static constexpr OpTraits traits{.name = "_random_uniform_like", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("low", &RandomUniformLike::low);
    field("high", &RandomUniformLike::high);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomNormalLike {
  double loc = 0;
  double scale = 1;
  static constexpr OpTraits traits{.name = "_random_normal_like", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("loc", &RandomNormalLike::loc);
    field("scale", &RandomNormalLike::scale);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomGammaLike {
  double alpha = 1;
  double beta = 1;
  static constexpr OpTraits traits{.name = "_random_gamma_like", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("alpha", &RandomGammaLike::alpha);
    field("beta", &RandomGammaLike::beta);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomExponentialLike {
  double lam = 1;
  static constexpr OpTraits traits{.name = "_random_exponential_like", .random = true, .flat = true};
  static constexpr void fields(auto field) { field("lam", &RandomExponentialLike::lam); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomPoissonLike {
  double lam = 1;
  static constexpr OpTraits traits{.name = "_random_poisson_like", .random = true, .flat = true};
  static constexpr void fields(auto field) { field("lam", &RandomPoissonLike::lam); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomNegativeBinomialLike {
  int k = 1;
  double p = 1;
  static constexpr OpTraits traits{.name = "_random_negative_binomial_like", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("k", &RandomNegativeBinomialLike::k);
    field("p", &RandomNegativeBinomialLike::p);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

struct RandomGeneralizedNegativeBinomialLike {
  double mu = 1;
  double alpha = 1;
  static constexpr OpTraits traits{.name = "_random_generalized_negative_binomial_like", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("mu", &RandomGeneralizedNegativeBinomialLike::mu);
    field("alpha", &RandomGeneralizedNegativeBinomialLike::alpha);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::RandomUniform& op, KernelContext& c);
void run_cuda(const op::RandomUniform& op, KernelContext& c);
void run_cpu(const op::RandomNormal& op, KernelContext& c);
void run_cuda(const op::RandomNormal& op, KernelContext& c);
void run_cpu(const op::RandomRandint& op, KernelContext& c);
void run_cuda(const op::RandomRandint& op, KernelContext& c);
void run_cpu(const op::RandomGamma& op, KernelContext& c);
void run_cuda(const op::RandomGamma& op, KernelContext& c);
void run_cpu(const op::RandomExponential& op, KernelContext& c);
void run_cuda(const op::RandomExponential& op, KernelContext& c);
void run_cpu(const op::RandomPoisson& op, KernelContext& c);
void run_cuda(const op::RandomPoisson& op, KernelContext& c);
void run_cpu(const op::RandomNegativeBinomial& op, KernelContext& c);
void run_cuda(const op::RandomNegativeBinomial& op, KernelContext& c);
void run_cpu(const op::RandomGeneralizedNegativeBinomial& op, KernelContext& c);
void run_cuda(const op::RandomGeneralizedNegativeBinomial& op, KernelContext& c);

// --- Draws whose parameters are arrays.

namespace ops {
// With the names and the meaning of their parameters in MXNet: uniform (low, high), normal (mu, sigma), gamma (alpha,
// beta), exponential (lam), poisson (lam), negative_binomial (k, p), generalized_negative_binomial (mu, alpha); of
// dirichlet, (alpha), there is a density alone.
enum class Distribution : uint8_t {
  uniform,
  normal,
  gamma,
  exponential,
  poisson,
  negative_binomial,
  generalized_negative_binomial,
  dirichlet
};
struct DistributionInfo {
  std::string_view sample, alias, pdf, pdf_alias;
  std::string_view first, second;  // "": there is no second parameter
};
inline constexpr std::array<DistributionInfo, 8> distribution_table{{
    {"_sample_uniform", "sample_uniform", "_random_pdf_uniform", "random_pdf_uniform", "low", "high"},
    {"_sample_normal", "sample_normal", "_random_pdf_normal", "random_pdf_normal", "mu", "sigma"},
    {"_sample_gamma", "sample_gamma", "_random_pdf_gamma", "random_pdf_gamma", "alpha", "beta"},
    {"_sample_exponential", "sample_exponential", "_random_pdf_exponential", "random_pdf_exponential", "lam", ""},
    {"_sample_poisson", "sample_poisson", "_random_pdf_poisson", "random_pdf_poisson", "lam", ""},
    {"_sample_negative_binomial", "sample_negative_binomial", "_random_pdf_negative_binomial",
     "random_pdf_negative_binomial", "k", "p"},
    {"_sample_generalized_negative_binomial", "sample_generalized_negative_binomial",
     "_random_pdf_generalized_negative_binomial", "random_pdf_generalized_negative_binomial", "mu", "alpha"},
    {"", "", "_random_pdf_dirichlet", "random_pdf_dirichlet", "alpha", ""},
}};
constexpr const DistributionInfo& info(Distribution d) { return distribution_table[size_t(d)]; }

constexpr OpTraits sample_traits(Distribution d) {
  const DistributionInfo& i = info(d);
  OpTraits t{.name = i.sample, .random = true, .flat = true, .aliases = Names(i.alias)};
  t.inputs = i.second.empty() ? Names(i.first) : Names(i.first, i.second);
  return t;
}
KAON_API void infer_sample(Distribution d, const Shape& shape, std::optional<DType> dtype, InferContext& c);
KAON_API void run_sample(Distribution d, KernelContext& c);
void run_sample_cuda(Distribution d, KernelContext& c);
}  // namespace ops

namespace op {
// `shape` draws for each element of the parameters, which have one shape and one dtype, any but bool: parameters.shape
// + shape. float32 unless dtype says otherwise. The gradient of the parameters is zero, as in MXNet.
template <ops::Distribution D>
struct Sample {
  Shape shape{};
  std::optional<DType> dtype{};
  static constexpr OpTraits traits = ops::sample_traits(D);
  static constexpr void fields(auto field) {
    field("shape", &Sample::shape);
    field("dtype", &Sample::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_sample(D, shape, dtype, c); }
};
using SampleUniform = Sample<ops::Distribution::uniform>;
using SampleNormal = Sample<ops::Distribution::normal>;
using SampleGamma = Sample<ops::Distribution::gamma>;
using SampleExponential = Sample<ops::Distribution::exponential>;
using SamplePoisson = Sample<ops::Distribution::poisson>;
using SampleNegativeBinomial = Sample<ops::Distribution::negative_binomial>;
using SampleGeneralizedNegativeBinomial = Sample<ops::Distribution::generalized_negative_binomial>;
}  // namespace op
template <ops::Distribution D>
void run_cpu(const op::Sample<D>&, KernelContext& c) {
  ops::run_sample(D, c);
}
template <ops::Distribution D>
void run_cuda(const op::Sample<D>&, KernelContext& c) {
  ops::run_sample_cuda(D, c);
}

// --- Draws of classes and orders.

namespace op {
// Class numbers drawn with the probabilities in the rows of data, (..., k), which are divided by their
// sum. `shape` draws for each row. With get_prob, a second output of data's dtype: the logarithm of the number in data
// for each class that was drawn, through which the gradient flows. A row of negative, NaN or only zero probabilities is
// an error of the running operator; on a GPU, which cannot report it, the row's draws are -1 and their logarithms NaN.
struct SampleMultinomial {
  Shape shape{};
  bool get_prob = false;
  DType dtype = DType::int32;
  static constexpr OpTraits traits{.name = "_sample_multinomial", .random = true};
  static constexpr void fields(auto field) {
    field("shape", &SampleMultinomial::shape);
    field("get_prob", &SampleMultinomial::get_prob);
    field("dtype", &SampleMultinomial::dtype);
  }
  int num_outputs() const { return get_prob ? 2 : 1; }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// The rows (axis 0) in random order: Fisher and Yates. Has no gradient, as in MXNet.
struct Shuffle {
  static constexpr OpTraits traits{.name = "_shuffle", .random = true, .aliases = {"shuffle"}};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Rows of distinct classes in [0, range_max), int64 (batch, n) for shape (batch, n) with n <= range_max, drawn one
// after another with the probabilities (log(k + 2) - log(k + 1)) / log(range_max + 1), those that came before left out;
// and how often was drawn for each row, int64 (batch,).
struct SampleUniqueZipfian {
  int64_t range_max = 0;
  Shape shape{};
  static constexpr OpTraits traits{.name = "_sample_unique_zipfian", .inputs = {}, .outputs = 2, .random = true};
  static constexpr void fields(auto field) {
    field("range_max", &SampleUniqueZipfian::range_max, true);
    field("shape", &SampleUniqueZipfian::shape);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::SampleMultinomial& op, KernelContext& c);
void run_cuda(const op::SampleMultinomial& op, KernelContext& c);
void run_cpu(const op::Shuffle& op, KernelContext& c);
void run_cuda(const op::Shuffle& op, KernelContext& c);
void run_cpu(const op::SampleUniqueZipfian& op, KernelContext& c);
void run_cuda(const op::SampleUniqueZipfian& op, KernelContext& c);

}  // namespace kaon
