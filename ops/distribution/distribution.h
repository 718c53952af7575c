// Distributions: probability densities, and the draws of NumPy's front end. Made of other operators.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/random/random.h"

namespace KAON_API kaon {

// --- Densities.

namespace ops {
constexpr OpTraits pdf_traits(Distribution d) {
  const DistributionInfo& i = info(d);
  OpTraits t{.name = i.pdf, .aliases = Names(i.pdf_alias)};
  t.inputs = i.second.empty() ? Names("sample", i.first) : Names("sample", i.first, i.second);
  return t;
}
KAON_API void infer_pdf(Distribution d, InferContext& c);
KAON_API void compose_pdf(Distribution d, bool is_log, ComposeContext& c);
}  // namespace ops

namespace op {
// The probability density of each sample, or of each count its probability, with parameters of one element for leading
// dimensions of sample: their shape is the beginning of sample's. is_log: its logarithm. One floating dtype.
//   uniform: 1 / (high - low), wherever the sample lies      normal: exp(-((x - mu) / sigma)^2 / 2) / (sigma sqrt(2
//   pi)) gamma, by rate beta: beta^alpha x^(alpha - 1) exp(-beta x) / gamma(alpha)      exponential: lam exp(-lam x)
//   poisson: lam^x exp(-lam) / x!       negative_binomial: gamma(x + k) / (x! gamma(k)) p^k (1 - p)^x
//   generalized_negative_binomial: that with k = 1 / alpha and p = 1 / (1 + mu alpha)
//   dirichlet, over the last axis of sample and alpha: gamma(sum alpha) / prod gamma(alpha) prod x^(alpha - 1)
// The gradient is the derivative, by counts and by uniform samples 0.
template <ops::Distribution D>
struct Pdf {
  bool is_log = false;
  static constexpr OpTraits traits = ops::pdf_traits(D);
  static constexpr void fields(auto field) { field("is_log", &Pdf::is_log); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_pdf(D, c); }
  void compose(ComposeContext& c) const { ops::compose_pdf(D, is_log, c); }
};
using PdfUniform = Pdf<ops::Distribution::uniform>;
using PdfNormal = Pdf<ops::Distribution::normal>;
using PdfGamma = Pdf<ops::Distribution::gamma>;
using PdfExponential = Pdf<ops::Distribution::exponential>;
using PdfPoisson = Pdf<ops::Distribution::poisson>;
using PdfNegativeBinomial = Pdf<ops::Distribution::negative_binomial>;
using PdfGeneralizedNegativeBinomial = Pdf<ops::Distribution::generalized_negative_binomial>;
using PdfDirichlet = Pdf<ops::Distribution::dirichlet>;
}  // namespace op

// --- Draws of NumPy's front end: a parameter is a number, or None and then an input; the inputs come in the order of
// the parameters. The shape is size, to which inputs broadcast, or else that of the inputs broadcast. The gradient of a
// parameter is the derivative of the draw at the noise that was drawn.

namespace ops {
// Drawn with the noise of a standard distribution: loc + scale noise; scale noise; a power or a quotient.
enum class Noise : uint8_t { gumbel, logistic, laplace, exponential, rayleigh, pareto, weibull, power };
inline constexpr std::array<std::string_view, 8> noise_names{"_npi_gumbel",      "_npi_logistic", "_npi_laplace",
                                                             "_npi_exponential", "_npi_rayleigh", "_npi_pareto",
                                                             "_npi_weibull",     "_npi_powerd"};
constexpr OpTraits noise_traits(Noise noise) {
  OpTraits t{.name = noise_names[size_t(noise)], .random = true};
  t.inputs = noise <= Noise::laplace ? Names("input1", "input2") : Names("input1");
  t.in_mxnet = noise != Noise::laplace;
  return t;
}

// The attributes that these operators share.
struct NumpyDraw {
  std::optional<double> first, second;
  std::optional<Shape> size;
  DType dtype;
  std::optional<Device> ctx;
  bool batch = false;  // size stands in front of the shape of the parameters
};
KAON_API void infer_noise(Noise noise, const NumpyDraw& d, InferContext& c);
KAON_API void compose_noise(Noise noise, const NumpyDraw& d, ComposeContext& c);
KAON_API void infer_numpy(Distribution distribution, const NumpyDraw& d, InferContext& c);
KAON_API void compose_numpy(Distribution distribution, const NumpyDraw& d, ComposeContext& c);
}  // namespace ops

namespace op {
// loc + scale noise, scale >= 0. gumbel: -log(E) for an exponential E; logistic: log(e^E - 1); laplace: E - E'.
// float32.
template <ops::Noise N>
struct LocationScale {
  std::optional<double> loc = 0;
  std::optional<double> scale = 1;
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits = ops::noise_traits(N);
  static constexpr void fields(auto field) {
    field("loc", &LocationScale::loc, true);
    field("scale", &LocationScale::scale, true);
    field("size", &LocationScale::size);
    field("ctx", &LocationScale::ctx);
  }
  int num_inputs() const { return int(!loc) + int(!scale); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_noise(N, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_noise(N, draw(), c); }
  ops::NumpyDraw draw() const { return {loc, scale, size, DType::float32, ctx}; }
};
using RandomGumbel = LocationScale<ops::Noise::gumbel>;
using RandomLogistic = LocationScale<ops::Noise::logistic>;
using RandomLaplace = LocationScale<ops::Noise::laplace>;

// scale noise, scale >= 0. exponential: E, of mean 1; rayleigh: sqrt(2 E). float32.
template <ops::Noise N>
struct Scaled {
  std::optional<double> scale = 1;
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits = ops::noise_traits(N);
  static constexpr void fields(auto field) {
    field("scale", &Scaled::scale);
    field("size", &Scaled::size);
    field("ctx", &Scaled::ctx);
  }
  int num_inputs() const { return int(!scale); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_noise(N, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_noise(N, draw(), c); }
  ops::NumpyDraw draw() const { return {scale, {}, size, DType::float32, ctx}; }
};
using RandomScaledExponential = Scaled<ops::Noise::exponential>;
using RandomRayleigh = Scaled<ops::Noise::rayleigh>;

// With an exponential E, for a > 0. pareto: exp(E / a) - 1; weibull: E^(1 / a); power: exp(-E / a). float32.
template <ops::Noise N>
struct ByExponent {
  std::optional<double> a{};
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  static constexpr OpTraits traits = ops::noise_traits(N);
  static constexpr void fields(auto field) {
    field("a", &ByExponent::a);
    field("size", &ByExponent::size);
    field("ctx", &ByExponent::ctx);
  }
  int num_inputs() const { return int(!a); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_noise(N, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_noise(N, draw(), c); }
  ops::NumpyDraw draw() const { return {a, {}, size, DType::float32, ctx}; }
};
using RandomPareto = ByExponent<ops::Noise::pareto>;
using RandomWeibull = ByExponent<ops::Noise::weibull>;
using RandomPower = ByExponent<ops::Noise::power>;

// Normal, loc + scale noise; uniform, low + (high - low) noise. Batch: size stands in front of the parameters' shape.
template <bool Batch>
struct NumpyNormal {
  std::optional<double> loc = 0;
  std::optional<double> scale = 1;
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  DType dtype = DType::float32;
  static constexpr OpTraits traits{
      .name = Batch ? "_npi_normal_n" : "_npi_normal", .inputs = Names("input1", "input2"), .random = true};
  static constexpr void fields(auto field) {
    field("loc", &NumpyNormal::loc, true);
    field("scale", &NumpyNormal::scale, true);
    field("size", &NumpyNormal::size);
    field("ctx", &NumpyNormal::ctx);
    field("dtype", &NumpyNormal::dtype);
  }
  int num_inputs() const { return int(!loc) + int(!scale); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_numpy(ops::Distribution::normal, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_numpy(ops::Distribution::normal, draw(), c); }
  ops::NumpyDraw draw() const { return {loc, scale, size, dtype, ctx, Batch}; }
};
using RandomNormalOf = NumpyNormal<false>;
using RandomNormalN = NumpyNormal<true>;
template <bool Batch>
struct NumpyUniform {
  std::optional<double> low = 0;
  std::optional<double> high = 1;
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  DType dtype = DType::float32;
  static constexpr OpTraits traits{
      .name = Batch ? "_npi_uniform_n" : "_npi_uniform", .inputs = Names("input1", "input2"), .random = true};
  static constexpr void fields(auto field) {
    field("low", &NumpyUniform::low, true);
    field("high", &NumpyUniform::high, true);
    field("size", &NumpyUniform::size);
    field("ctx", &NumpyUniform::ctx);
    field("dtype", &NumpyUniform::dtype);
  }
  int num_inputs() const { return int(!low) + int(!high); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_numpy(ops::Distribution::uniform, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_numpy(ops::Distribution::uniform, draw(), c); }
  ops::NumpyDraw draw() const { return {low, high, size, dtype, ctx, Batch}; }
};
using RandomUniformOf = NumpyUniform<false>;
using RandomUniformN = NumpyUniform<true>;

// Gamma with this shape and scale; the gradient is zero, as in MXNet.
struct RandomGammaOf {
  std::optional<double> shape = 1;
  std::optional<double> scale = 1;
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "_npi_gamma", .inputs = Names("input1", "input2"), .random = true};
  static constexpr void fields(auto field) {
    field("shape", &RandomGammaOf::shape, true);
    field("scale", &RandomGammaOf::scale, true);
    field("size", &RandomGammaOf::size);
    field("ctx", &RandomGammaOf::ctx);
    field("dtype", &RandomGammaOf::dtype);
  }
  int num_inputs() const { return int(!shape) + int(!scale); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_numpy(ops::Distribution::gamma, draw(), c); }
  void compose(ComposeContext& c) const { ops::compose_numpy(ops::Distribution::gamma, draw(), c); }
  ops::NumpyDraw draw() const { return {shape, scale, size, dtype, ctx}; }
};

// 1 with probability prob, or with is_logit 1 / (1 + e^-logit), else 0; of an array, NaN and what is below 0 count as
// 0, what is above 1 as 1. No gradient. dtype is any.
struct RandomBernoulli {
  std::optional<double> prob{};
  std::optional<double> logit{};
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  DType dtype = DType::float32;
  bool is_logit = false;
  static constexpr OpTraits traits{.name = "_npi_bernoulli", .inputs = Names("input1"), .random = true};
  static constexpr void fields(auto field) {
    field("prob", &RandomBernoulli::prob, true);
    field("logit", &RandomBernoulli::logit, true);
    field("size", &RandomBernoulli::size);
    field("ctx", &RandomBernoulli::ctx);
    field("dtype", &RandomBernoulli::dtype);
    field("is_logit", &RandomBernoulli::is_logit, true);
  }
  int num_inputs() const { return int(!parameter()); }
  const std::optional<double>& parameter() const { return is_logit ? logit : prob; }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// loc + scale z, with a standard normal z between low and high. scale >= 0, low <= high. float32 and float64; the
// numbers are drawn in float64.
struct RandomTruncatedNormal {
  double loc = 0;
  double scale = 1;
  double low = -2;
  double high = 2;
  Shape size{};
  std::optional<Device> ctx{};
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "random_truncated_normal", .inputs = {}, .random = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("loc", &RandomTruncatedNormal::loc);
    field("scale", &RandomTruncatedNormal::scale);
    field("low", &RandomTruncatedNormal::low);
    field("high", &RandomTruncatedNormal::high);
    field("size", &RandomTruncatedNormal::size);
    field("ctx", &RandomTruncatedNormal::ctx);
    field("dtype", &RandomTruncatedNormal::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Probabilities along the last axis with Dirichlet's distribution of these alpha > 0: size + alpha's shape, in alpha's
// floating dtype. Rows with another alpha are NaN. The gradient is zero.
struct RandomDirichlet {
  Shape size{};
  static constexpr OpTraits traits{
      .name = "random_dirichlet", .inputs = Names("alpha"), .random = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("size", &RandomDirichlet::size); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- Draws of whole numbers, int64.

// Numbers from 0 up to a, or to the length of the first input where a is None; with `weighted` the last input has their
// probabilities. Without `replace` each is drawn once at most.
struct RandomChoice {
  std::optional<int64_t> a{};
  std::optional<Shape> size{};
  std::optional<Device> ctx{};
  bool replace = true;
  bool weighted = false;
  static constexpr OpTraits traits{.name = "_npi_choice", .inputs = Names("input1", "input2"), .random = true};
  static constexpr void fields(auto field) {
    field("a", &RandomChoice::a, true);
    field("size", &RandomChoice::size, true);
    field("ctx", &RandomChoice::ctx);
    field("replace", &RandomChoice::replace);
    field("weighted", &RandomChoice::weighted);
  }
  int num_inputs() const { return int(!a) + int(weighted); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// How often each of k results comes in n trials: size + (k,). Their probabilities are pvals, or the input (k,); the
// last of them counts as what is left to 1.
struct RandomMultinomial {
  int64_t n = 0;
  std::optional<ops::FloatTuple> pvals{};
  std::optional<Shape> size{};
  static constexpr OpTraits traits{.name = "_npi_multinomial", .inputs = Names("a"), .random = true};
  static constexpr void fields(auto field) {
    field("n", &RandomMultinomial::n, true);
    field("pvals", &RandomMultinomial::pvals);
    field("size", &RandomMultinomial::size);
  }
  int num_inputs() const { return int(!pvals); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
