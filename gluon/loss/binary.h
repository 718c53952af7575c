// Losses of two classes: SigmoidBinaryCrossEntropyLoss, HingeLoss, SquaredHingeLoss, LogisticLoss.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/loss/loss_block.h"

namespace KAON_API kaon {
namespace gluon::loss {

struct SigmoidBCEOptions {
  bool from_sigmoid = false;  // pred are probabilities, else their logits
  std::optional<double> weight{};
  int batch_axis = 0;
};

// -(label log p + (1 - label) log(1 - p)) with p = sigmoid(pred), for labels in [0, 1]. From logits it is computed as
// relu(pred) - pred label + log(1 + e^-|pred|), which does not overflow. Called as loss(pred, label, sample_weight,
// pos_weight) the first logarithm is multiplied by pos_weight, which broadcasts to the labels: (classes,) for (batch,
// classes). An empty vector of arrays stands for no sample_weight.
struct SigmoidBinaryCrossEntropyLoss : detail::Loss<SigmoidBinaryCrossEntropyLoss> {
  explicit SigmoidBinaryCrossEntropyLoss(const SigmoidBCEOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    label = F.reshape_like(label, pred);
    if (from_sigmoid_) return -(F.log(pred + eps) * label + F.log(1 - pred + eps) * (1 - label));
    return F.relu(pred) - pred * label + F.softrelu(-F.abs(pred));
  }
  using Loss::hybrid_forward;
  auto hybrid_forward(auto F, auto pred, auto label, const auto& sample_weight, const auto& pos_weight) {
    using A = decltype(pred);
    const A* positive = given<A>(pos_weight, "pos_weight");
    A loss = positive ? weighted_elements(F, pred, label, *positive) : elements(F, pred, label);
    return over_sample(F, weighted(weigh_samples(F, loss, given<A>(sample_weight, "sample_weight"))));
  }

 private:
  static constexpr double eps = 1e-12;  // log(0)
  template <class A>
  A weighted_elements(auto F, const A& pred, const A& given_label, const A& pos_weight) {
    A label = F.reshape_like(given_label, pred), weight = F.broadcast_like(pos_weight, label);
    if (from_sigmoid_) return -(F.log(pred + eps) * label * weight + F.log(1 - pred + eps) * (1 - label));
    return pred - pred * label + ((weight - 1) * label + 1) * (F.softrelu(-F.abs(pred)) + F.relu(-pred));
  }

  bool from_sigmoid_;
};
using SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss;

struct HingeOptions {
  double margin = 1;
  std::optional<double> weight{};
  int batch_axis = 0;
};

// max(0, margin - pred label) for labels -1 and 1.
struct HingeLoss : detail::Loss<HingeLoss> {
  explicit HingeLoss(const HingeOptions& options = {});
  auto elements(auto F, auto pred, auto label) { return F.relu(margin_ - pred * F.reshape_like(label, pred)); }

 private:
  double margin_;
};

// The square of HingeLoss's elements.
struct SquaredHingeLoss : detail::Loss<SquaredHingeLoss> {
  explicit SquaredHingeLoss(const HingeOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    return F.square(F.relu(margin_ - pred * F.reshape_like(label, pred)));
  }

 private:
  double margin_;
};

enum class LabelFormat : uint8_t { is_signed, binary };

struct LogisticOptions {
  LabelFormat label_format = LabelFormat::is_signed;  // labels -1 and 1, or 0 and 1
  std::optional<double> weight{};
  int batch_axis = 0;
};

// log(1 + e^(-pred label)) for labels -1 and 1.
struct LogisticLoss : detail::Loss<LogisticLoss> {
  explicit LogisticLoss(const LogisticOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    label = F.reshape_like(label, pred);
    if (label_format_ == LabelFormat::is_signed) label = (label + 1) * 0.5;
    return F.relu(pred) - pred * label + F.softrelu(-F.abs(pred));
  }

 private:
  LabelFormat label_format_;
};

}  // namespace gluon::loss
}  // namespace kaon
