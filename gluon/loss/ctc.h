// CTCLoss: the loss of sequences whose labels are not aligned with them.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/loss/loss_block.h"

namespace KAON_API kaon {
namespace gluon::loss {

enum class PredLayout : uint8_t { NTC, TNC };
enum class LabelLayout : uint8_t { NT, TN };

struct CTCOptions {
  PredLayout layout = PredLayout::NTC;         // of pred: sequence, step, class
  LabelLayout label_layout = LabelLayout::NT;  // of label: sequence, position
  std::optional<double> weight{};
};

// Minus the logarithm of the probability that a sequence of classes, under the softmax of pred, spells the label when
// repeated classes are merged and then blanks removed: op::CTCLoss, the blank being the last class. Gives (batch,).
//
//     loss(pred, label)
//     loss(pred, label, pred_lengths)                                  // (batch,), of any dtype
//     loss(pred, label, pred_lengths, label_lengths)
//     loss(pred, label, pred_lengths, label_lengths, sample_weight)    // (batch,)
//
// An empty vector of arrays stands for lengths that are not given: then all steps count, and a label ends before its
// first -1. A label that does not fit into its steps has loss 0.
struct CTCLoss : detail::Loss<CTCLoss> {
  explicit CTCLoss(const CTCOptions& options = {});
  auto hybrid_forward(auto F, auto pred, auto label) { return forward<decltype(pred)>(F, pred, label, {}); }
  auto hybrid_forward(auto F, auto pred, auto label, const auto& pred_lengths) {
    using A = decltype(pred);
    return forward<A>(F, pred, label, {given<A>(pred_lengths, "pred_lengths")});
  }
  auto hybrid_forward(auto F, auto pred, auto label, const auto& pred_lengths, const auto& label_lengths) {
    using A = decltype(pred);
    return forward<A>(F, pred, label,
                      {given<A>(pred_lengths, "pred_lengths"), given<A>(label_lengths, "label_lengths")});
  }
  auto hybrid_forward(auto F, auto pred, auto label, const auto& pred_lengths, const auto& label_lengths,
                      auto sample_weight) {
    using A = decltype(pred);
    return forward<A>(
        F, pred, label,
        {given<A>(pred_lengths, "pred_lengths"), given<A>(label_lengths, "label_lengths"), &sample_weight});
  }

 private:
  template <class A>
  struct Given {
    const A* pred_lengths = nullptr;
    const A* label_lengths = nullptr;
    const A* sample_weight = nullptr;
  };
  template <class A>
  A forward(auto F, A pred, A label, const Given<A>& more) {
    if (layout_ == PredLayout::NTC) pred = F.swapaxes(pred, 0, 1);
    if (label_layout_ == LabelLayout::TN) label = F.swapaxes(label, 0, 1);
    const op::CTCLoss op{.use_data_lengths = more.pred_lengths != nullptr,
                         .use_label_lengths = more.label_lengths != nullptr,
                         .blank_label = BlankLabel::last};
    A loss;
    if (more.pred_lengths && more.label_lengths) {
      loss = F.CTCLoss(pred, label, *more.pred_lengths, *more.label_lengths, op);
    } else if (more.pred_lengths || more.label_lengths) {
      loss = F.CTCLoss(pred, label, more.pred_lengths ? *more.pred_lengths : *more.label_lengths, op);
    } else {
      loss = F.CTCLoss(pred, label, op);
    }
    return weighted(weigh_samples(F, loss, more.sample_weight));
  }

  PredLayout layout_;
  LabelLayout label_layout_;
};

}  // namespace gluon::loss
}  // namespace kaon
