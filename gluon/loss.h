// Losses: how far predictions are from labels, one number per sample.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::loss {

// All losses are hybrid blocks, called as loss(pred, label) or loss(pred, label, sample_weight), and give (batch,): the
// mean over all axes but batch_axis. The label is reshaped like pred, except class numbers and KLDivLoss's.
// sample_weight is multiplied to the element losses and must broadcast to their shape, which is that of pred (for
// SoftmaxCrossEntropyLoss with 1 class): (batch, 1) for (batch, classes). `weight` scales everything. Throw what the
// operators throw: ShapeError and TypeError for arrays that do not fit.
struct LossOptions {
  std::optional<double> weight{};
  int batch_axis = 0;
};
static_assert(std::is_trivially_destructible_v<LossOptions>);

namespace detail {

// The last steps of every loss.
template <class Derived>
class Loss : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto pred, auto label) {
    return self().over_sample(F, weighted(self().elements(F, pred, label)));
  }
  auto hybrid_forward(auto F, auto pred, auto label, auto sample_weight) {
    auto loss = self().elements(F, pred, label);
    // in a plain product a weight (batch,) would make (batch, batch) out of (batch, 1)
    return self().over_sample(F, weighted(loss * F.broadcast_like(sample_weight, loss)));
  }

 protected:
  Loss(std::string_view hint, std::optional<double> weight, int batch_axis)
      : HybridBlock<Derived>(hint), weight_(weight), batch_axis_(batch_axis) {}
  int batch_axis() const { return batch_axis_; }
  // The mean, unless the derived loss has its own.
  auto over_sample(auto F, auto loss) { return F.mean(loss, {.axis = {batch_axis_}, .exclude = true}); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  auto weighted(auto loss) { return weight_ ? loss * *weight_ : loss; }

  std::optional<double> weight_;
  int batch_axis_;
};

}  // namespace detail

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

struct SigmoidBCEOptions {
  bool from_sigmoid = false;  // pred are probabilities, else their logits
  std::optional<double> weight{};
  int batch_axis = 0;
};

// -(label log p + (1 - label) log(1 - p)) with p = sigmoid(pred), for labels in [0, 1]. From logits it is computed as
// relu(pred) - pred label + log(1 + e^-|pred|), which does not overflow.
struct SigmoidBinaryCrossEntropyLoss : detail::Loss<SigmoidBinaryCrossEntropyLoss> {
  explicit SigmoidBinaryCrossEntropyLoss(const SigmoidBCEOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    label = F.reshape_like(label, pred);
    if (from_sigmoid_) {
      constexpr double eps = 1e-12;  // log(0)
      return -(F.log(pred + eps) * label + F.log(1 - pred + eps) * (1 - label));
    }
    return F.relu(pred) - pred * label + F.softrelu(-F.abs(pred));
  }

 private:
  bool from_sigmoid_;
};
using SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss;

struct SoftmaxCEOptions {
  int axis = -1;             // of the classes
  bool sparse_label = true;  // labels are class numbers, else probabilities like pred
  bool from_logits = false;  // pred are logarithms of probabilities already
  std::optional<double> weight{};
  int batch_axis = 0;
};

// -log softmax(pred)[label], or -sum of label log softmax(pred).
struct SoftmaxCrossEntropyLoss : detail::Loss<SoftmaxCrossEntropyLoss> {
  explicit SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    if (!from_logits_) pred = F.log_softmax(pred, {.axis = axis_});
    if (sparse_label_) return -F.pick(pred, label, {.axis = axis_, .keepdims = true});
    return -F.sum(pred * F.reshape_like(label, pred), {.axis = {axis_}, .keepdims = true});
  }

 private:
  int axis_;
  bool sparse_label_, from_logits_;
};
using SoftmaxCELoss = SoftmaxCrossEntropyLoss;

struct KLDivOptions {
  bool from_logits = true;  // pred are logarithms of probabilities
  int axis = -1;            // of the classes
  std::optional<double> weight{};
  int batch_axis = 0;
};

// label (log(label + 1e-12) - log p), summed (not averaged) over all axes but the batch's.
struct KLDivLoss : detail::Loss<KLDivLoss> {
  explicit KLDivLoss(const KLDivOptions& options = {});
  auto elements(auto F, auto pred, auto label) {
    if (!from_logits_) pred = F.log_softmax(pred, {.axis = axis_});
    return label * (F.log(label + 1e-12) - pred);
  }
  auto over_sample(auto F, auto loss) { return F.sum(loss, {.axis = {batch_axis()}, .exclude = true}); }

 private:
  bool from_logits_;
  int axis_;
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
