// Losses of distances between vectors: TripletLoss, CosineEmbeddingLoss, SDMLLoss.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/loss/loss_block.h"

namespace KAON_API kaon {
namespace gluon::loss {

struct TripletOptions {
  double margin = 1;
  std::optional<double> weight{};
  int batch_axis = 0;
};

// Called as loss(pred, positive, negative), of one size: max(0, |positive - pred|^2 - |negative - pred|^2 + margin)
// for each sample. There are no weights of samples.
struct TripletLoss : detail::Loss<TripletLoss> {
  explicit TripletLoss(const TripletOptions& options = {});
  auto hybrid_forward(auto F, auto pred, auto positive, auto negative) {
    auto difference = F.square(F.reshape_like(positive, pred) - pred) - F.square(F.reshape_like(negative, pred) - pred);
    return weighted(F.relu(F.sum(difference, {.axis = {batch_axis()}, .exclude = true}) + margin_));
  }

 private:
  double margin_;
};

struct CosineEmbeddingOptions {
  std::optional<double> weight{};
  int batch_axis = 0;  // not read: vectors are along the last axis
  double margin = 0;
};

// Called as loss(input1, input2, label) or loss(input1, input2, label, sample_weight). With c the cosine of the angle
// between vectors along the last axis: 1 - c for label 1, max(0, c - margin) for label -1. Gives (vectors, 1). The
// cosine with a vector of zeros is 0.
struct CosineEmbeddingLoss : detail::Loss<CosineEmbeddingLoss> {
  explicit CosineEmbeddingLoss(const CosineEmbeddingOptions& options = {});
  auto hybrid_forward(auto F, auto input1, auto input2, auto label) {
    return weighted(elements(F, input1, input2, label));
  }
  auto hybrid_forward(auto F, auto input1, auto input2, auto label, auto sample_weight) {
    return weighted(weigh_samples(F, elements(F, input1, input2, label), &sample_weight));
  }

 private:
  auto elements(auto F, auto input1, auto input2, auto label) {
    const Shape column(-1, 1), last(-1);
    input1 = F.reshape_like(input1, input2);
    auto lengths = F.maximum(F.norm(input1, {.axis = last}) * F.norm(input2, {.axis = last}), 1e-12);
    lengths = lengths + (lengths == 0);  // 16-bit floats have no 1e-12
    auto cosine = F.reshape(F.sum(input1 * input2, {.axis = last}) / lengths, column);
    label = F.reshape(label, column);
    auto zero = F.zeros_like(cosine);
    return F.where(label == 1, 1 - cosine, F.where(label == -1, F.relu(cosine - margin_), zero));
  }

  double margin_;
};

struct SDMLOptions {
  double smoothing_parameter = 0.3;
  double weight = 1;
  int batch_axis = 0;  // not read: it is axis 0
};

// Smoothed deep metric learning (Bonadiman, Kumar and Mittal 2019). Called as loss(x1, x2), both (batch, features): the
// rows of one index belong together. Gives KLDivLoss, for each row of x1, between log_softmax(-squared distances to
// all rows of x2) and the labels: 1 - smoothing_parameter for its own row, the rest alike for the others.
struct SDMLLoss : detail::Loss<SDMLLoss> {
  explicit SDMLLoss(const SDMLOptions& options = {});
  auto hybrid_forward(auto F, auto x1, auto x2) {
    // a plain difference would broadcast where the batches differ
    auto distances = F.sum(F.square(F.expand_dims(x1, 1) - F.expand_dims(F.broadcast_like(x2, x1), 0)), {.axis = {2}});
    auto log_p = F.log_softmax(-distances, {.axis = 1});
    // float32 numbers rows that 16-bit floats do not
    auto row = F.arange_like(F.cast(F.slice_axis(x1, 1, 0, 1), DType::float32), {.axis = 0});
    auto is_own =
        F.broadcast_like(F.expand_dims(row, 1), distances) == F.broadcast_like(F.expand_dims(row, 0), distances);
    auto zero = F.zeros_like(distances), other = F.where(is_own, zero, zero + 1);
    auto others = F.maximum(F.sum(other, {.axis = {1}, .keepdims = true}), 1);  // a batch of 1 has none
    auto label = F.where(is_own, zero + (1 - smoothing_), F.broadcast_like(smoothing_ / others, distances) * other);
    return weighted(F.sum(label * (F.log(label + 1e-12) - log_p), {.axis = {1}}));
  }

 private:
  double smoothing_;
};

}  // namespace gluon::loss
}  // namespace kaon
