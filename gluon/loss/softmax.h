// Losses of many classes: SoftmaxCrossEntropyLoss, KLDivLoss.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/loss/loss_block.h"

namespace KAON_API kaon {
namespace gluon::loss {

struct SoftmaxCEOptions {
  int axis = -1;             // of the classes
  bool sparse_label = true;  // labels are class numbers, else probabilities like pred
  bool from_logits = false;  // pred are logarithms of probabilities already
  std::optional<double> weight{};
  int batch_axis = 0;
  double label_smoothing = 0;             // the share of a label that all classes get alike
  std::optional<int64_t> ignore_label{};  // elements with this class number have no loss
};

// -log softmax(pred)[label], or -sum of label log softmax(pred).
//
// The other options mean what PyTorch's cross_entropy does. label_smoothing s: the label's probability becomes 1 - s,
// and s / classes is added to that of each class. Class weights (classes,), in pred's dtype, multiply the logarithm of
// each class; they are a parameter, class_weight, which no Trainer changes. With sparse labels and an ignore_label or
// class weights, the result (batch,) is divided by the mean weight of all labels, 0 for those that are ignored: its
// mean is PyTorch's mean, the sum of all losses divided by the sum of the weights. If that sum is 0, so is the result.
//
// Throws ValueError for a label_smoothing outside of [0, 1], for an ignore_label without sparse labels, and for
// class weights of other than one dimension.
struct SoftmaxCrossEntropyLoss : detail::Loss<SoftmaxCrossEntropyLoss> {
  explicit SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& options = {});
  SoftmaxCrossEntropyLoss(const SoftmaxCEOptions& options, const NDArray& class_weights);

  auto hybrid_forward(auto F, auto pred, auto label) {
    return forward(F, pred, label, static_cast<decltype(pred)*>(nullptr));
  }
  auto hybrid_forward(auto F, auto pred, auto label, auto sample_weight) {
    return forward(F, pred, label, &sample_weight);
  }

  Parameter class_weight;  // not defined without class weights

 private:
  template <class A>
  A forward(auto F, A pred, A label, const A* sample_weight) {
    if (!from_logits_) pred = F.log_softmax(pred, {.axis = axis_});
    if (is_plain_) {
      A loss = sparse_label_ ? -F.pick(pred, label, {.axis = axis_, .keepdims = true})
                             : -F.sum(pred * F.reshape_like(label, pred), {.axis = {axis_}, .keepdims = true});
      return over_sample(F, weighted(weigh_samples(F, loss, sample_weight)));
    }
    if (!sparse_label_) label = F.reshape_like(label, pred);
    // class weights broadcast along the last axis
    const bool moves = class_weight.defined() && axis_ != -1;
    const int axis = moves ? -1 : axis_;
    if (moves) pred = F.moveaxis(pred, Shape(axis_), Shape(-1));
    if (moves && !sparse_label_) label = F.moveaxis(label, Shape(axis_), Shape(-1));
    A scaled = pred, class_weights;
    if (class_weight.defined()) scaled = pred * (class_weights = F.broadcast_like(F(class_weight), pred));

    A is_ignored, loss;
    if (sparse_label_) {
      if (ignore_label_) {
        is_ignored = label == double(*ignore_label_);
        label = F.where(is_ignored, 0.0, label);  // a class that there is, also for set_checks
      }
      loss = -F.pick(scaled, label, {.axis = axis, .keepdims = true});
    } else {
      loss = -F.sum(scaled * label, {.axis = {axis}, .keepdims = true});
    }
    if (label_smoothing_ != 0) {
      const A all = F.mean(scaled, {.axis = {axis}, .keepdims = true});
      loss = loss * (1 - label_smoothing_) - all * label_smoothing_;
    }
    A label_weight;
    if (sparse_label_ && class_weight.defined()) {
      label_weight = F.pick(class_weights, label, {.axis = axis, .keepdims = true});
    } else if (ignore_label_) {
      label_weight = F.ones_like(loss);
    }
    if (ignore_label_) {
      const A hidden = F.reshape_like(is_ignored, loss), zero = F.zeros_like(loss);
      loss = F.where(hidden, zero, loss);
      label_weight = F.where(hidden, zero, label_weight);
    }
    if (moves) loss = F.moveaxis(loss, Shape(-1), Shape(axis_));
    loss = over_sample(F, weighted(weigh_samples(F, loss, sample_weight)));
    if (!sparse_label_ || !(ignore_label_ || class_weight.defined())) return loss;
    const A mean = F.mean(label_weight);  // (1,)
    return loss / (mean + (mean == 0));
  }

  int axis_;
  bool sparse_label_, from_logits_;
  bool is_plain_;  // MXNet's loss
  double label_smoothing_;
  std::optional<int64_t> ignore_label_;
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

}  // namespace gluon::loss
}  // namespace kaon
