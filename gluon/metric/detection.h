// Metrics of detectors: the mean average precision of the Pascal VOC.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

struct VOCMApOptions {
  double iou_thresh = 0.5;  // the least overlap of a detection and the object that it finds
  bool voc07 = false;       // the mean of the best precisions at recalls 0, 0.1 ... 1, as in 2007; else the exact area
};

// The mean over the classes of the area under precision by recall (Everingham et al. 2010). Labels (batch, m, 5 or 6):
// class, left, top, right, bottom, and, if 6, whether the object is difficult; rows of class -1 are padding. preds
// (batch, n, 6): class, score and box, as MultiBoxDetection gives them; rows of class -1 do not count. By falling score
// a detection is right when the object of its class in its image that it overlaps most was not found before; one of a
// difficult object does not count, nor does the object. Classes without objects are left out; NaN where all are. Keeps
// all detections.
class VOCMApMetric : public EvalMetric {
 public:
  // Throws ValueError for an iou_thresh outside of (0, 1].
  explicit VOCMApMetric(const VOCMApOptions& options = {}, std::string_view name = "map");
};

}  // namespace metric
}  // namespace kaon
