// Small layers: Dropout, Embedding, Flatten, Identity, Lambda.
#pragma once

#include <concepts>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

struct DropoutOptions {
  Shape axes{};  // axes along which all elements share one draw
};
static_assert(std::is_trivially_destructible_v<DropoutOptions>);

// In training each element becomes 0 with probability `rate`, or is divided by 1 - rate (Srivastava et al. 2014).
// Outside training, and with rate 0, it is the identity.
struct Dropout : HybridBlock<Dropout> {
  explicit Dropout(double rate, const DropoutOptions& options = {});
  auto hybrid_forward(auto F, auto x) { return rate_ > 0 ? F.as("fwd").Dropout(x, {.p = rate_, .axes = axes_}) : x; }

 private:
  double rate_;
  Shape axes_;
};

struct EmbeddingOptions {
  DType dtype = DType::float32;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  bool sparse_grad = false;                // the gradient of weight is row_sparse
};
static_assert(std::is_trivially_destructible_v<EmbeddingOptions>);

// Row x[i] of weight (input_dim, output_dim) for every index in x: the result has shape x.shape + (output_dim,).
// sparse_grad: backward() throws StateError where the weight is read in a loop or branch or by another layer too.
struct Embedding : HybridBlock<Embedding> {
  Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options = {});
  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").Embedding(
        x, F(weight),
        {.input_dim = input_dim_, .output_dim = output_dim_, .dtype = weight.dtype(), .sparse_grad = sparse_grad_});
  }

  Parameter weight;

 private:
  int64_t input_dim_, output_dim_;
  bool sparse_grad_;
};

// (batch, a, b, ...) to (batch, a b ...).
struct Flatten : HybridBlock<Flatten> {
  Flatten();
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").flatten(x); }
};

// x itself.
struct Identity : HybridBlock<Identity> {
  Identity();
  auto hybrid_forward(auto, auto x) { return x; }
};

// A function of F (nd or sym) and the input: HybridLambda([](auto F, auto x) { return F.tanh(x); }).
template <class Fn>
struct HybridLambda : HybridBlock<HybridLambda<Fn>> {
  explicit HybridLambda(Fn function) : HybridBlock<HybridLambda<Fn>>("hybridlambda"), function_(std::move(function)) {}
  auto hybrid_forward(auto F, auto x) { return function_(F, x); }

 private:
  Fn function_;
};

// A function of an NDArray, for Sequential; it is not traced.
template <class Fn>
  requires std::invocable<const Fn&, const NDArray&>
struct Lambda : Block {
  explicit Lambda(Fn function) : Block("lambda"), function_(std::move(function)) {}
  NDArray operator()(const NDArray& x) const { return function_(x); }

 private:
  Fn function_;
};

}  // namespace gluon::nn
}  // namespace kaon
