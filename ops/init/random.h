// Operators that draw random numbers. Element i of a draw depends on (seed, offset, i) alone: see philox.h.
#pragma once

#include <optional>

#include "kaon/engine/device.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

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
void run_cpu(const RandomUniform& op, KernelContext& c);
void run_cuda(const RandomUniform& op, KernelContext& c);

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
void run_cpu(const RandomNormal& op, KernelContext& c);
void run_cuda(const RandomNormal& op, KernelContext& c);

// Integers uniform in [low, high); int32 unless dtype is int64.
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
void run_cpu(const RandomRandint& op, KernelContext& c);
void run_cuda(const RandomRandint& op, KernelContext& c);

// Class numbers drawn with the probabilities in the rows of data, (k,) or (batch, k); they are divided by their
// sum. `shape` draws for each row. A row of negative, NaN or only zero probabilities is an error of the running
// operator; on a GPU, which cannot report it, the row's draws are -1.
struct SampleMultinomial {
  Shape shape{};
  bool get_prob = false;  // not implemented: take the log of data and pick
  DType dtype = DType::int32;
  static constexpr OpTraits traits{.name = "_sample_multinomial", .random = true, .flat = true};
  static constexpr void fields(auto field) {
    field("shape", &SampleMultinomial::shape);
    field("get_prob", &SampleMultinomial::get_prob);
    field("dtype", &SampleMultinomial::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const SampleMultinomial& op, KernelContext& c);
void run_cuda(const SampleMultinomial& op, KernelContext& c);

// The rows (axis 0) in random order: Fisher and Yates. Has no gradient, as in MXNet.
struct Shuffle {
  static constexpr OpTraits traits{.name = "_shuffle", .random = true, .aliases = {"shuffle"}};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const Shuffle& op, KernelContext& c);
void run_cuda(const Shuffle& op, KernelContext& c);

}  // namespace kaon
