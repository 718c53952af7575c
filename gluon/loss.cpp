#include "kaon/gluon/loss.h"

#include <fmt/format.h>

namespace kaon::gluon::loss {

static_assert(std::is_trivially_destructible_v<SoftmaxCEOptions> && std::is_trivially_destructible_v<KLDivOptions>);

L2Loss::L2Loss(const L2LossOptions& o) : Loss("l2loss", o.weight / 2, o.batch_axis) {}
L1Loss::L1Loss(const LossOptions& o) : Loss("l1loss", o.weight, o.batch_axis) {}

SigmoidBinaryCrossEntropyLoss::SigmoidBinaryCrossEntropyLoss(const SigmoidBCEOptions& o)
    : Loss("sigmoidbinarycrossentropyloss", o.weight, o.batch_axis), from_sigmoid_(o.from_sigmoid) {}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& o)
    : Loss("softmaxcrossentropyloss", o.weight, o.batch_axis),
      axis_(o.axis),
      sparse_label_(o.sparse_label),
      from_logits_(o.from_logits) {}

KLDivLoss::KLDivLoss(const KLDivOptions& o)
    : Loss("kldivloss", o.weight, o.batch_axis), from_logits_(o.from_logits), axis_(o.axis) {}

HuberLoss::HuberLoss(const HuberOptions& o) : Loss("huberloss", o.weight, o.batch_axis), rho_(o.rho) {
  if (!(o.rho > 0)) throw ValueError(fmt::format("[HuberLoss] rho must be positive, got {}", o.rho));
}

HingeLoss::HingeLoss(const HingeOptions& o) : Loss("hingeloss", o.weight, o.batch_axis), margin_(o.margin) {}
SquaredHingeLoss::SquaredHingeLoss(const HingeOptions& o)
    : Loss("squaredhingeloss", o.weight, o.batch_axis), margin_(o.margin) {}

LogisticLoss::LogisticLoss(const LogisticOptions& o)
    : Loss("logisticloss", o.weight, o.batch_axis), label_format_(o.label_format) {}

}  // namespace kaon::gluon::loss
