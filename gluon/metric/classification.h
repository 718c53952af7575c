// Metrics of classes: Accuracy, TopKAccuracy, F1, MCC, PCC, ConfusionMatrix, PerClassF1, AUC.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

// The share of `preds` that are right: the index of the largest along `axis`, or preds themselves when they have
// labels' shape.
class Accuracy : public EvalMetric {
 public:
  explicit Accuracy(int axis = 1, std::string_view name = "accuracy");
};

// The share of labels (batch,) for which fewer than top_k classes have a higher score in preds (batch, classes). The
// name gets "_<top_k>". Throws ValueError for top_k below 1.
class TopKAccuracy : public EvalMetric {
 public:
  explicit TopKAccuracy(int top_k, std::string_view name = "top_k_accuracy");
};

// The harmonic mean of precision and recall of class 1, for labels (batch,) of two classes and scores of both, (batch,
// 2). What is divided by 0 is 0. An update of several pairs counts as one batch. More than two values among the labels
// of a batch are a ValueError, which get() and value() throw.
class F1 : public EvalMetric {
 public:
  explicit F1(Average average = Average::macro, std::string_view name = "f1");
};

// Matthews' correlation coefficient of two classes, from -1 to 1, of what F1 takes. Factors of the denominator that are
// 0 are left out.
class MCC : public EvalMetric {
 public:
  explicit MCC(Average average = Average::macro, std::string_view name = "mcc");
};

// Matthews' correlation coefficient of any number of classes, over all samples. preds (batch, classes), or class
// numbers of labels' shape. NaN while labels or predictions are all one class.
class PCC : public EvalMetric {
 public:
  explicit PCC(std::string_view name = "pcc");
};

// How often a sample of class i was taken for class j. preds (batch, classes, ...), or class numbers of labels' shape.
// The values are the rows one after the other, named "confusion_i_j". A class outside of [0, num_classes) is an
// IndexError, which the waits throw. Throws ValueError for num_classes below 1.
class ConfusionMatrix : public EvalMetric {
 public:
  explicit ConfusionMatrix(int64_t num_classes, std::string_view name = "confusion");
  // float64 (num_classes, num_classes): rows are labels, columns predictions. Does not block. Zeros before an update.
  NDArray matrix() const;
  NDArray global_matrix() const;

 private:
  int64_t num_classes_;
};

// F1 of each class against all others, over all samples; 0 for a class that is neither label nor prediction. Takes what
// ConfusionMatrix takes; names "f1_i".
class PerClassF1 : public EvalMetric {
 public:
  explicit PerClassF1(int64_t num_classes, std::string_view name = "f1");
};

// The area under the ROC curve: the probability that a sample with label 1 has a higher score than one with label 0,
// equal scores counting half. Labels (batch,), above 0 for class 1; preds are scores (batch,) or (batch, 1), or of both
// classes (batch, 2). NaN without samples of both classes, and with a score that is NaN. Keeps 16 bytes of each sample.
class AUC : public EvalMetric {
 public:
  explicit AUC(std::string_view name = "auc");
};

}  // namespace metric
}  // namespace kaon
