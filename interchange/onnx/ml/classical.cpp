// Linear models, and what is done to features before and to scores after them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/ml/scores.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// x (n, features) times coefficients (outputs, features), and an intercept for each output where there are any.
Symbol linear_scores(const Call& c, const Symbol& x, int64_t outputs) {
  const std::vector<double> w = c.reals("coefficients"), b = c.reals("intercepts");
  const int64_t features = shape_of(x)[1];
  if (outputs < 1 || int64_t(w.size()) != outputs * features || (!b.empty() && int64_t(b.size()) != outputs)) {
    c.fail(fmt::format("{} coefficients and {} intercepts for {} features and {} outputs", w.size(), b.size(), features,
                       outputs));
  }
  const Symbol y = matmul(x, sym.transpose(constant(w, Shape(outputs, features), dtype_of(x))));
  return b.empty() ? y : sym.broadcast_add(y, constant(b, Shape(1, outputs), dtype_of(x)));
}

void linear_regressor(Call& c) {
  const Symbol y = linear_scores(c, cast(features_of(c), DType::float32), c.integer("targets", 1));
  const std::string how = c.text("post_transform", "NONE");
  c.set(shape_of(y)[1] == 1 && how != "PROBIT" ? y : transformed(c, y, how));
}

void linear_classifier(Call& c) {
  const Labels labels = labels_of(c, "classlabels_ints", "classlabels_strings");
  const Symbol x = cast(features_of(c), DType::float32);
  const std::vector<double> w = c.reals("coefficients");
  const int64_t features = std::max<int64_t>(1, shape_of(x)[1]), outputs = int64_t(w.size()) / features;
  const Symbol scores = linear_scores(c, x, outputs);
  const std::string how = c.text("post_transform", "NONE");
  if (outputs == 1 && labels.size() == 2) {
    const TwoClasses two = two_classes(c, scores, 0, true, how);
    c.set(0, chosen(c, labels, two.index));
    return c.set(1, two.scores);
  }
  if (outputs != labels.size()) c.fail(fmt::format("{} scores for {} labels", outputs, labels.size()));
  c.set(0, chosen(c, labels, cast(sym._npi_argmax(scores, {.axis = 1}), DType::int64)));
  c.set(1, transformed(c, scores, how));
}

// A number for all features, or one for each.
Symbol by_feature(const Call& c, const char* name, int64_t features) {
  const std::vector<double> v = c.reals(name);
  if (v.size() != 1 && int64_t(v.size()) != features) {
    c.fail(fmt::format("{} numbers in {} for {} features", v.size(), name, features));
  }
  return constant(v, Shape(int64_t(v.size())));
}

void scaler(Call& c) {
  if (c.rank() < 1) c.fail("features expected");
  const int64_t features = c.shape().back();
  Symbol y = cast(c.x(), DType::float32);
  y = sym.broadcast_sub(y, by_feature(c, "offset", features));
  c.set(sym.broadcast_mul(y, by_feature(c, "scale", features)));
}

void normalizer(Call& c) {
  const std::string norm = c.text("norm", "MAX");
  const Symbol x = cast(c.x(), DType::float32);
  const int rank = rank_of(x);
  if (rank != 1 && rank != 2) c.fail(fmt::format("x of shape {}", c.shape().str()));
  const Shape last(rank - 1);
  Symbol size;
  if (norm == "MAX") size = sym.max(x, {.axis = last, .keepdims = true});
  else if (norm == "L1") size = sym.sum(sym.abs(x), {.axis = last, .keepdims = true});
  else if (norm == "L2") size = sym.sqrt(sym.sum(x * x, {.axis = last, .keepdims = true}));
  else c.fail_supported("norm " + norm);
  // rows of zeros stay
  c.set(sym.broadcast_div(x, sym.broadcast_where(size == 0, constant({1.0}, Shape(1)), size)));
}

// What is the number that stands for nothing, or NaN, becomes that of its feature.
void imputer(Call& c) {
  const bool is_whole = !is_floating(c.dtype());
  std::vector<double> by = c.reals("imputed_value_floats");
  double missing = c.real("replaced_value_float", 0);
  if (is_whole) {
    const std::vector<int64_t> whole = c.integers("imputed_value_int64s");
    by.assign(whole.begin(), whole.end());
    missing = double(c.integer("replaced_value_int64", 0));
  }
  if (c.rank() < 1) c.fail("features expected");
  const int64_t features = c.shape().back();
  if (by.size() != 1 && int64_t(by.size()) != features) {
    c.fail(fmt::format("{} numbers for {} features", by.size(), features));
  }
  const Symbol is_missing = std::isnan(missing) ? sym.isnan(c.x()) : c.x() == missing;
  const Symbol values = broadcast(constant(by, Shape(int64_t(by.size())), c.dtype()), c.shape());
  c.set_like(c.input(0), sym.broadcast_where(is_missing, values, c.x()));
}

void one_hot_encoder(Call& c) {
  const std::vector<int64_t> numbers = c.integers("cats_int64s");
  const std::vector<std::string> texts = c.texts("cats_strings");
  if (c.integer("zeros", 1) == 0) c.fail_supported("zeros 0");
  if (numbers.empty() == texts.empty()) c.fail("cats_int64s or cats_strings expected");
  if (numbers.empty()) {
    if (c.input(0).kind != Value::Kind::strings) c.fail("strings expected");
    std::vector<float> hot;
    for (const std::string& x : c.input(0).strings) {
      for (const std::string& t : texts) hot.push_back(float(x == t));
    }
    Shape s = c.input(0).strings_shape;
    s.push_back(int64_t(texts.size()));
    return c.set(Value::constant(NDArray::from(hot.data(), hot.size(), s)));
  }
  Shape one = c.shape();
  one.push_back(1);
  const Symbol x = reshaped(cast(c.x(), DType::int64), one);
  c.set(cast(sym.broadcast_equal(x, constant(numbers)), DType::float32));
}

void feature_vectorizer(Call& c) {
  const std::vector<int64_t> widths = c.integers("inputdimensions");
  if (int(widths.size()) != c.count()) c.fail(fmt::format("{} inputdimensions of {}", widths.size(), c.count()));
  std::vector<Symbol> parts;
  for (int i = 0; i < c.count(); ++i) {
    const Shape& s = c.shape(i);
    const int64_t rows = s.ndim() > 1 ? s[0] : 1, width = s.size() / std::max<int64_t>(1, rows), n = widths[size_t(i)];
    const Symbol x = reshaped(cast(c.x(i), DType::float32), Shape(rows, width));
    if (n < 0) c.fail(fmt::format("inputdimensions {}", n));
    parts.push_back(n <= width ? slice_along(x, 1, 0, n) : padded(x, {0, 0}, {0, n - width}));
  }
  c.set(concatenated(parts, 1));
}

// A map from label to score for each row is no value here: the scores themselves (n, labels).
void zip_map(Call& c) {
  const Labels labels = labels_of(c, "classlabels_int64s", "classlabels_strings");
  if (c.rank() < 1 || c.rank() > 2 || c.shape().back() != labels.size()) {
    c.fail(fmt::format("scores of shape {} for {} labels", c.shape().str(), labels.size()));
  }
  c.set(c.input(0));
}

constexpr Row classical_table[] = {
    {"LinearRegressor", linear_regressor, 1, kLearning},
    {"LinearClassifier", linear_classifier, 1, kLearning},
    {"Scaler", scaler, 1, kLearning},
    {"Normalizer", normalizer, 1, kLearning},
    {"Imputer", imputer, 1, kLearning},
    {"OneHotEncoder", one_hot_encoder, 1, kLearning},
    {"FeatureVectorizer", feature_vectorizer, 1, kLearning},
    {"ZipMap", zip_map, 1, kLearning},
};

}  // namespace

std::span<const Row> classical_rows() { return classical_table; }

}  // namespace kaon::onnx::convert
