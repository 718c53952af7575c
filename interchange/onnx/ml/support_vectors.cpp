// Support vectors: of numbers, and of classes, which pairs of them vote for.
#include "kaon/interchange/onnx/ml/support_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/ml/scores.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The kernel of support vectors: x (n, features) and vectors (m, features) to (n, m).
Symbol kernel(const Call& c, const Symbol& x, const Symbol& vectors) {
  const std::string type = c.text("kernel_type", "LINEAR");
  const std::vector<double> p = c.reals("kernel_params");  // gamma, what is added, degree
  if (type != "LINEAR" && p.size() != 3) c.fail(fmt::format("{} kernel_params, 3 expected", p.size()));
  const Symbol products = matmul(x, sym.transpose(vectors));
  if (type == "LINEAR") return products;
  if (type == "POLY") return sym.power(products * p[0] + p[1], p[2]);
  if (type == "SIGMOID") return sym.tanh(products * p[0] + p[1]);
  if (type != "RBF") c.fail_supported("kernel_type " + type);
  const int64_t n = shape_of(x)[0], m = shape_of(vectors)[0], features = shape_of(x)[1];
  const Symbol away = sym.broadcast_sub(reshaped(x, Shape(n, 1, features)), reshaped(vectors, Shape(1, m, features)));
  return sym.exp(sym.sum(away * away, {.axis = Shape(2)}) * -p[0]);
}

void support_regressor(Call& c) {
  const Symbol x = cast(features_of(c), DType::float32);
  const std::vector<double> w = c.reals("coefficients"), rho = c.reals("rho"), v = c.reals("support_vectors");
  const int64_t features = shape_of(x)[1], n = c.integer("n_supports", 0);
  const bool is_direct = n == 0;  // the coefficients are those of a linear model
  if (rho.size() != 1 || int64_t(w.size()) != (is_direct ? features : n) || int64_t(v.size()) != n * features) {
    c.fail(fmt::format("{} coefficients, {} rho and {} numbers of {} vectors for {} features", w.size(), rho.size(),
                       v.size(), n, features));
  }
  const Symbol weights = constant(w, Shape(int64_t(w.size()), 1));
  const Symbol against =
      is_direct ? kernel(c, x, reshaped(weights, Shape(1, features))) : kernel(c, x, constant(v, Shape(n, features)));
  Symbol y = (is_direct ? against : matmul(against, weights)) + rho[0];
  if (c.integer("one_class", 0) != 0) y = (y > 0) * 2 - 1;
  c.set(y);
}

// The pairs of classes (0, 1), (0, 2) ... (1, 2) ..., and what the vectors weigh for each.
struct Pairs {
  std::vector<std::pair<int64_t, int64_t>> of;
  std::vector<double> weights;  // (vectors, pairs)
};

Pairs pairs_of(const std::vector<int64_t>& per_class, const std::vector<double>& coefficients, int64_t vectors) {
  const auto classes = int64_t(per_class.size());
  std::vector<int64_t> first(per_class.size());
  std::exclusive_scan(per_class.begin(), per_class.end(), first.begin(), int64_t(0));
  Pairs pairs;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j) pairs.of.emplace_back(i, j);
  }
  const size_t count = pairs.of.size();
  pairs.weights.resize(size_t(vectors) * count);
  for (size_t p = 0; p < count; ++p) {
    const auto [i, j] = pairs.of[p];
    const auto add = [&](int64_t own, int64_t row) {
      for (int64_t v = first[size_t(own)]; v < first[size_t(own)] + per_class[size_t(own)]; ++v) {
        pairs.weights[size_t(v) * count + p] = coefficients[size_t(row * vectors + v)];
      }
    };
    add(i, j - 1);
    add(j, i);
  }
  return pairs;
}

// The wins of each class over all pairs (n, classes).
Symbol votes_of(const Pairs& pairs, const Symbol& scores, int64_t classes) {
  const auto count = int64_t(pairs.of.size());
  std::vector<double> one(size_t(count * classes)), other = one;
  for (size_t p = 0; p < pairs.of.size(); ++p) {
    one[p * size_t(classes) + size_t(pairs.of[p].first)] = 1;
    other[p * size_t(classes) + size_t(pairs.of[p].second)] = 1;
  }
  const Symbol wins = scores > 0;
  return matmul(wins, constant(one, Shape(count, classes))) + matmul(1 - wins, constant(other, Shape(count, classes)));
}

}  // namespace

std::vector<double> coupled(const std::vector<double>& wins, int64_t k) {
  std::vector<double> q(size_t(k * k)), p(size_t(k), 1 / double(k)), qp(static_cast<size_t>(k));
  const auto r = [&](int64_t i, int64_t j) { return wins[size_t(i * k + j)]; };
  for (int64_t t = 0; t < k; ++t) {
    for (int64_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[size_t(t * k + t)] += r(j, t) * r(j, t);
      q[size_t(t * k + j)] = -r(j, t) * r(t, j);
    }
  }
  const double least = 0.005 / double(k);
  const int64_t rounds = std::max<int64_t>(100, k);
  for (int64_t round = 0; round < rounds; ++round) {
    double pqp = 0;
    for (int64_t t = 0; t < k; ++t) {
      qp[size_t(t)] = 0;
      for (int64_t j = 0; j < k; ++j) qp[size_t(t)] += q[size_t(t * k + j)] * p[size_t(j)];
      pqp += p[size_t(t)] * qp[size_t(t)];
    }
    double most = 0;
    for (double each : qp) most = std::max(most, std::abs(each - pqp));
    if (most < least) break;
    for (int64_t t = 0; t < k; ++t) {
      const double diff = (pqp - qp[size_t(t)]) / q[size_t(t * k + t)], scale = 1 + diff;
      p[size_t(t)] += diff;
      pqp = (pqp + diff * (diff * q[size_t(t * k + t)] + 2 * qp[size_t(t)])) / scale / scale;
      for (int64_t j = 0; j < k; ++j) {
        qp[size_t(j)] = (qp[size_t(j)] + diff * q[size_t(t * k + j)]) / scale;
        p[size_t(j)] /= scale;
      }
    }
  }
  return p;
}

namespace {

// Probabilities of the classes (n, classes), of the scores of pairs (n, pairs) and their logistic fits.
NDArray probabilities(const NDArray& scores, const Pairs& pairs, const std::vector<double>& a,
                      const std::vector<double>& b, int64_t classes) {
  constexpr double least = 1e-7;
  const std::vector<double> s = scores.asvector<double>();
  const int64_t n = scores.shape()[0];
  std::vector<float> all;
  for (int64_t row = 0; row < n; ++row) {
    std::vector<double> wins(size_t(classes * classes));
    for (size_t p = 0; p < pairs.of.size(); ++p) {
      const auto [i, j] = pairs.of[p];
      const double logit = s[size_t(row) * pairs.of.size() + p] * a[p] + b[p];
      const double win = std::clamp(1 / (1 + std::exp(logit)), least, 1 - least);
      wins[size_t(i * classes + j)] = win, wins[size_t(j * classes + i)] = 1 - win;
    }
    for (double each : coupled(wins, classes)) all.push_back(float(each));
  }
  return NDArray::from(all.data(), all.size(), Shape(n, classes));
}

void support_classifier(Call& c) {
  const Labels labels = labels_of(c, "classlabels_ints", "classlabels_strings");
  const std::vector<int64_t> per_class = c.integers("vectors_per_class");
  const std::vector<double> w = c.reals("coefficients"), rho = c.reals("rho"), v = c.reals("support_vectors"),
                            a = c.reals("prob_a"), b = c.reals("prob_b");
  const Symbol x = cast(features_of(c), DType::float32);
  const auto classes = int64_t(per_class.size()), pair_count = classes * (classes - 1) / 2;
  if (classes < 2) c.fail_supported("a classifier without vectors_per_class");
  const int64_t vectors = std::accumulate(per_class.begin(), per_class.end(), int64_t(0)), features = shape_of(x)[1];
  const bool is_fit = std::ranges::all_of(per_class, [](int64_t n) { return n >= 0; }) && labels.size() == classes &&
                      int64_t(w.size()) == (classes - 1) * vectors && int64_t(v.size()) == vectors * features &&
                      int64_t(rho.size()) == pair_count && a.size() == b.size() &&
                      (a.empty() || int64_t(a.size()) == pair_count);
  if (!is_fit || vectors == 0) {
    c.fail(
        fmt::format("{} coefficients, {} rho, {} prob_a, {} prob_b and {} numbers of {} vectors for {} features, {} "
                    "classes and {} labels",
                    w.size(), rho.size(), a.size(), b.size(), v.size(), vectors, features, classes, labels.size()));
  }
  const Pairs pairs = pairs_of(per_class, w, vectors);
  const Symbol against = kernel(c, x, constant(v, Shape(vectors, features)));
  const Symbol scores = sym.broadcast_add(matmul(against, constant(pairs.weights, Shape(vectors, pair_count))),
                                          constant(rho, Shape(1, pair_count)));
  const Symbol votes = votes_of(pairs, scores, classes);
  c.set(0, chosen(c, labels, cast(sym._npi_argmax(votes, {.axis = 1}), DType::int64)));
  const std::string how = c.text("post_transform", "NONE");
  if (a.empty()) {
    if (classes > 2) return c.set(1, transformed(c, scores, how));
    return c.set(1, two_classes(c, scores, 0, how != "NONE", how).scores);
  }
  const Value shares = c.conversion().host({Value::of(scores)}, [=](const std::vector<NDArray>& in) {
    return std::vector{probabilities(in[0], pairs, a, b, classes)};
  })[0];
  c.set(1, transformed(c, shares.symbol, how));
}

constexpr Row support_vector_table[] = {
    {"SVMRegressor", support_regressor, 1, kLearning},
    {"SVMClassifier", support_classifier, 1, kLearning},
};

}  // namespace

std::span<const Row> support_vector_rows() { return support_vector_table; }

}  // namespace kaon::onnx::convert
