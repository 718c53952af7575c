#include "kaon/gluon/loss.h"

#include <fmt/format.h>

#include <cmath>

namespace kaon::gluon::loss {

static_assert(std::is_trivially_destructible_v<SoftmaxCEOptions> && std::is_trivially_destructible_v<KLDivOptions> &&
              std::is_trivially_destructible_v<CTCOptions>);

void detail::throw_several(const std::string& loss, const char* argument, size_t count) {
  throw ValueError(
      fmt::format("[{}] {} is an array, or an empty list for none; got a list of {} arrays", loss, argument, count));
}

L2Loss::L2Loss(const L2LossOptions& o) : Loss("l2loss", o.weight / 2, o.batch_axis) {}
L1Loss::L1Loss(const LossOptions& o) : Loss("l1loss", o.weight, o.batch_axis) {}

HuberLoss::HuberLoss(const HuberOptions& o) : Loss("huberloss", o.weight, o.batch_axis), rho_(o.rho) {
  if (!(o.rho > 0)) throw ValueError(fmt::format("[HuberLoss] rho must be positive, got {}", o.rho));
}

SmoothL1Loss::SmoothL1Loss(const SmoothL1Options& o)
    : Loss("smoothl1loss", o.weight, o.batch_axis), beta_(o.beta), sigma_(o.beta > 0 ? 1 / std::sqrt(o.beta) : 0) {
  if (!(o.beta >= 0)) throw ValueError(fmt::format("[SmoothL1Loss] beta must not be negative, got {}", o.beta));
}

PoissonNLLLoss::PoissonNLLLoss(const PoissonNLLOptions& o)
    : Loss("poissonnllloss", o.weight, o.batch_axis),
      from_logits_(o.from_logits),
      compute_full_(o.compute_full),
      epsilon_(o.epsilon) {}

SigmoidBinaryCrossEntropyLoss::SigmoidBinaryCrossEntropyLoss(const SigmoidBCEOptions& o)
    : Loss("sigmoidbinarycrossentropyloss", o.weight, o.batch_axis), from_sigmoid_(o.from_sigmoid) {}

HingeLoss::HingeLoss(const HingeOptions& o) : Loss("hingeloss", o.weight, o.batch_axis), margin_(o.margin) {}
SquaredHingeLoss::SquaredHingeLoss(const HingeOptions& o)
    : Loss("squaredhingeloss", o.weight, o.batch_axis), margin_(o.margin) {}

LogisticLoss::LogisticLoss(const LogisticOptions& o)
    : Loss("logisticloss", o.weight, o.batch_axis), label_format_(o.label_format) {}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& o)
    : Loss("softmaxcrossentropyloss", o.weight, o.batch_axis),
      axis_(o.axis),
      sparse_label_(o.sparse_label),
      from_logits_(o.from_logits),
      is_plain_(o.label_smoothing == 0 && !o.ignore_label),
      label_smoothing_(o.label_smoothing),
      ignore_label_(o.ignore_label) {
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1)) {
    throw ValueError(
        fmt::format("[SoftmaxCrossEntropyLoss] label_smoothing must be from 0 to 1, got {}", o.label_smoothing));
  }
  if (o.ignore_label && !o.sparse_label) {
    throw ValueError(fmt::format(
        "[SoftmaxCrossEntropyLoss] ignore_label {} is a class number, which needs sparse_label", *o.ignore_label));
  }
}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& o, const NDArray& class_weights)
    : SoftmaxCrossEntropyLoss(o) {
  if (class_weights.ndim() != 1) {
    throw ValueError(fmt::format("[SoftmaxCrossEntropyLoss] class weights must have shape (classes,), got {}",
                                 class_weights.shape().str()));
  }
  class_weight =
      param("class_weight", class_weights.shape(), {.dtype = class_weights.dtype(), .differentiable = false});
  class_weight.set_data(class_weights);
  is_plain_ = false;
}

KLDivLoss::KLDivLoss(const KLDivOptions& o)
    : Loss("kldivloss", o.weight, o.batch_axis), from_logits_(o.from_logits), axis_(o.axis) {}

TripletLoss::TripletLoss(const TripletOptions& o) : Loss("tripletloss", o.weight, o.batch_axis), margin_(o.margin) {}
CosineEmbeddingLoss::CosineEmbeddingLoss(const CosineEmbeddingOptions& o)
    : Loss("cosineembeddingloss", o.weight, o.batch_axis), margin_(o.margin) {}
SDMLLoss::SDMLLoss(const SDMLOptions& o)
    : Loss("sdmlloss", o.weight == 1 ? std::nullopt : std::optional(o.weight), o.batch_axis),
      smoothing_(o.smoothing_parameter) {}

CTCLoss::CTCLoss(const CTCOptions& o)
    : Loss("ctcloss", o.weight, o.label_layout == LabelLayout::NT ? 0 : 1),
      layout_(o.layout),
      label_layout_(o.label_layout) {}

}  // namespace kaon::gluon::loss
