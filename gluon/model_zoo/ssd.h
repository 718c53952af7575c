// A single-shot detector (Liu et al. 2016) over any features.
#pragma once

#include <tuple>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::vision {

// What a detector says for n anchors: where they are (1, n, 4), as corners in parts of the image, the scores (batch, n,
// classes + 1) of background and classes, and the offsets of the boxes (batch, 4 n).
template <class A>
using SSDResult = std::tuple<A, A, A>;

// Each stage makes a smaller map of the last one's; at each place of its result it predicts for 4 anchors: two squares
// and a wide and a high box. Stage i of k has squares of 0.2 to 0.9 of the image, evenly spaced (0.37 for one stage).
struct SSD : HybridBlock<SSD> {
  // Throws ValueError for no classes, no stages, and stages that cannot be traced.
  SSD(int64_t classes, const std::vector<nn::AnyBlock>& stages);

  auto hybrid_forward(auto F, auto x) {
    std::vector<decltype(x)> anchors, scores, boxes;
    for (size_t i = 0; i < stages.size(); ++i) {
      x = stages[i](x);
      anchors.push_back(F.MultiBoxPrior(x, {.sizes = {sizes_[2 * i], sizes_[2 * i + 1]}, .ratios = {1, 2, 0.5f}}));
      scores.push_back(F.flatten(F.transpose(class_predictors[i](x), {0, 2, 3, 1})));
      boxes.push_back(F.flatten(F.transpose(box_predictors[i](x), {0, 2, 3, 1})));
    }
    return SSDResult<decltype(x)>(F.concat(anchors, {.dim = 1}),
                                  F.reshape(F.concat(scores, {.dim = 1}), {0, -1, classes_ + 1}),
                                  F.concat(boxes, {.dim = 1}));
  }
  // The loss (batch,) for labels (batch, m, 5): class and corners, class -1 for padding. Cross-entropy at the anchors
  // that MultiBoxTarget chooses, three negative ones for each positive one, and the absolute error of the boxes, each
  // divided by the number of positive anchors.
  auto loss(auto F, const auto& anchors, const auto& scores, const auto& boxes, const auto& labels) const {
    auto target = F.MultiBoxTarget(anchors, labels, F.transpose(scores, {0, 2, 1}), {.negative_mining_ratio = 3});
    auto chosen = target[2] >= 0;
    auto entropy = -F.pick(F.log_softmax(scores), F.maximum(target[2], 0), {.axis = 2});
    auto positive = F.maximum(F.sum(target[2] > 0, {.axis = Shape{1}}), 1);
    auto off = F.abs((boxes - target[0]) * target[1]);
    return (F.sum(entropy * chosen, {.axis = Shape{1}}) + F.sum(off, {.axis = Shape{1}})) / positive;
  }
  // Detections (batch, n, 6) of images: class, score, corners; class -1 where there is none.
  NDArray detect(const NDArray& images) const;

  std::vector<nn::AnyBlock> stages;
  std::vector<nn::Conv2D> class_predictors, box_predictors;

 private:
  int64_t classes_;
  std::vector<float> sizes_;  // two of each stage
};

}  // namespace gluon::model_zoo::vision
}  // namespace kaon
