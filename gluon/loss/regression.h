// Losses of numbers: L1Loss, L2Loss, HuberLoss, SmoothL1Loss, PoissonNLLLoss.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/loss/loss_block.h"

namespace KAON_API kaon {
namespace gluon::loss {

struct L2LossOptions {
  double weight = 1;
  int batch_axis = 0;
};

// weight (label - pred)^2 / 2
struct L2Loss : detail::Loss<L2Loss> {
  explicit L2Loss(const L2LossOptions& options = {});
  auto elements(auto F, auto pred, auto label) { return F.square(F.reshape_like(label, pred) - pred); }
};

// |label - pred|
struct L1Loss : detail::Loss<L1Loss> {
  explicit L1Loss(const LossOptions& options = {});
  auto elements(auto F, auto pred, auto label) { return F.abs(F.reshape_like(label, pred) - pred); }
};

struct HuberOptions {
  double rho = 1;
  std::optional<double> weight{};
  int batch_axis = 0;
};

// With e = |label - pred|: e^2 / (2 rho) up to rho, e - rho / 2 beyond. Throws ValueError unless rho > 0.
struct HuberLoss : detail::Loss<HuberLoss> {
  explicit HuberLoss(const HuberOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    auto e = F.abs(F.reshape_like(label, pred) - pred);
    return F.where(e > rho_, e - rho_ / 2, F.square(e) * (0.5 / rho_));
  }

 private:
  double rho_;
};

struct SmoothL1Options {
  double beta = 1;
  std::optional<double> weight{};
  int batch_axis = 0;
};

// PyTorch's name for HuberLoss with rho = beta, as one operator; beta 0 is L1Loss. Throws ValueError unless beta is a
// number of at least 0.
struct SmoothL1Loss : detail::Loss<SmoothL1Loss> {
  explicit SmoothL1Loss(const SmoothL1Options& options = {});
  auto elements(auto F, auto pred, auto label) {
    auto e = F.reshape_like(label, pred) - pred;
    return beta_ > 0 ? F.smooth_l1(e, sigma_) : F.abs(e);
  }

 private:
  double beta_, sigma_;  // sigma^2 = 1 / beta
};

struct PoissonNLLOptions {
  std::optional<double> weight{};
  bool from_logits = true;  // pred are logarithms of the rates, else the rates
  int batch_axis = 0;       // not read: the mean is over all elements
  bool compute_full = false;
  double epsilon = 1e-8;  // added to rates before their logarithm
};

// Minus the logarithm of Poisson's probability of `label` events at the rate that pred says: e^pred - label pred, or
// pred - label log(pred + epsilon). compute_full adds Stirling's formula for log(label!), label log(label) - label +
// log(2 pi label) / 2, where label > 1. Gives the mean over everything, batch included, of shape (1,).
struct PoissonNLLLoss : detail::Loss<PoissonNLLLoss> {
  explicit PoissonNLLLoss(const PoissonNLLOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    label = F.reshape_like(label, pred);
    auto loss = from_logits_ ? F.exp(pred) - label * pred : pred - label * F.log(pred + epsilon_);
    if (!compute_full_) return loss;
    auto n = F.maximum(label, 1);  // no logarithm of 0 where it is not used: its gradient would be NaN
    constexpr double two_pi = 6.283185307179586;
    auto stirling = n * F.log(n) - n + F.log(n * two_pi) * 0.5;
    return loss + F.where(label > 1, stirling, F.zeros_like(stirling));
  }
  auto over_sample(auto F, auto loss) { return F.mean(loss); }

 private:
  bool from_logits_, compute_full_;
  double epsilon_;
};

}  // namespace gluon::loss
}  // namespace kaon
