#include "kaon/gluon/model_zoo/ssd.h"

#include <fmt/format.h>

#include <cmath>

namespace kaon::gluon::model_zoo::vision {

SSD::SSD(int64_t classes, const std::vector<nn::AnyBlock>& given) : HybridBlock("ssd"), classes_(classes) {
  if (classes < 1 || given.empty()) {
    throw ValueError(
        fmt::format("[SSD] at least one class and one stage are needed, got {} and {}", classes, given.size()));
  }
  const auto size = [&](size_t i) { return 0.2 + 0.7 * double(i) / double(given.size()); };
  constexpr int64_t anchors = 4;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_hybrid()) throw ValueError(fmt::format("[SSD] stage {} must be a HybridBlock", i));
    stages.push_back(child(fmt::format("stages{}", i), given[i]));
    const nn::ConvOptions window{.kernel_size = {3, 3}, .padding = {1, 1}};
    class_predictors.push_back(
        child(fmt::format("class_predictors{}", i), nn::Conv2D(anchors * (classes + 1), window)));
    box_predictors.push_back(child(fmt::format("box_predictors{}", i), nn::Conv2D(anchors * 4, window)));
    sizes_.push_back(float(size(i)));
    sizes_.push_back(float(std::sqrt(size(i) * size(i + 1))));
  }
}

NDArray SSD::detect(const NDArray& images) const {
  auto [anchors, scores, boxes] = (*this)(images);
  return nd.MultiBoxDetection(nd.transpose(nd.softmax(scores), {0, 2, 1}), boxes, anchors, {.nms_threshold = 0.45f});
}

}  // namespace kaon::gluon::model_zoo::vision
