// What classifiers and regressors of ai.onnx.ml do with their scores.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

inline constexpr std::string_view kLearning = "ai.onnx.ml";  // the domain

// Scores (n, classes) after "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" or "NONE".
Symbol transformed(const Call& c, const Symbol& scores, const std::string& how);

// What a class of a classifier is called: numbers or texts.
struct Labels {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  int64_t size() const { return int64_t(texts.empty() ? numbers.size() : texts.size()); }
};
// Of the attributes of these names; refuses both, and neither.
Labels labels_of(const Call& c, std::string_view numbers, std::string_view texts);
// The labels at `index` (n,). Texts hold for the values of the inputs, which are read.
Value chosen(Call& c, const Labels& labels, const Symbol& index);

// What one score of two classes means: both scores (n, 2), and which class is chosen (n,).
struct TwoClasses {
  Symbol scores, index;
};
// Of scores (n, 1) that are above `least` for the second class. The first class has 1 - score where that `is_share` of
// the second, else -score; their logistic functions after "LOGISTIC".
TwoClasses two_classes(const Call& c, const Symbol& score, double least, bool is_share, const std::string& how);

// x of numbers (n, features) in float32, or in float64 where it has that; one row where it has one axis.
Symbol features_of(const Call& c);

}  // namespace kaon::onnx::convert
