#include "kaon/interchange/onnx/ml/scores.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr double kNothing = 1e-7;  // scores so near to 0 stay 0 in SOFTMAX_ZERO

Symbol softmax_zero(const Symbol& scores) {
  const Symbol is_some = cast(sym.abs(scores) > kNothing, dtype_of(scores));
  const Symbol least = sym.max(scores, {.axis = Shape(1), .keepdims = true});
  const Symbol powers = sym.exp(sym.broadcast_sub(scores, least)) * is_some;
  return sym.broadcast_div(powers, sym.sum(powers, {.axis = Shape(1), .keepdims = true}));
}

}  // namespace

Symbol transformed(const Call& c, const Symbol& scores, const std::string& how) {
  if (how == "NONE") return scores;
  if (how == "LOGISTIC") return sym.sigmoid(scores);
  if (how == "SOFTMAX") return sym.softmax(scores);
  if (how == "SOFTMAX_ZERO") return softmax_zero(scores);
  if (how == "PROBIT") return sym.erfinv(scores * 2 - 1) * std::sqrt(2.0);
  c.fail_supported("post_transform " + how);
}

Labels labels_of(const Call& c, std::string_view numbers, std::string_view texts) {
  Labels labels{c.integers(numbers), c.texts(texts)};
  if (labels.numbers.empty() == labels.texts.empty()) c.fail(fmt::format("{} or {} expected", numbers, texts));
  return labels;
}

Value chosen(Call& c, const Labels& labels, const Symbol& index) {
  if (labels.texts.empty()) {
    return Value::of(sym.take(constant(labels.numbers), cast(index, DType::int64), {.axis = 0}));
  }
  std::vector<std::string> all;
  for (int64_t i : c.conversion().read(Value::of(index)).asvector<int64_t>()) {
    all.push_back(labels.texts.at(size_t(i)));
  }
  const auto n = int64_t(all.size());
  return Value::text(std::move(all), Shape(n));
}

TwoClasses two_classes(const Call& c, const Symbol& score, double least, bool is_share, const std::string& how) {
  TwoClasses t;
  t.index = cast(reshaped(score, Shape(shape_of(score)[0])) > least, DType::int64);
  if (how == "PROBIT") t.scores = transformed(c, score, how);
  else if (how == "LOGISTIC") t.scores = sym.sigmoid(concatenated({score * -1, score}, 1));
  else t.scores = concatenated({is_share ? 1 - score : score * -1, score}, 1);
  return t;
}

Symbol features_of(const Call& c) {
  const DType wide = c.dtype() == DType::float64 ? DType::float64 : DType::float32;
  if (c.rank() == 1) return reshaped(cast(c.x(), wide), Shape(1, c.shape()[0]));
  if (c.rank() != 2) c.fail(fmt::format("x (n, features) expected, got {}", c.shape().str()));
  return cast(c.x(), wide);
}

}  // namespace kaon::onnx::convert
