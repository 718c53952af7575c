// Ensembles of trees, in the three forms that ai.onnx.ml has had.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/ml/ensemble.h"
#include "kaon/interchange/onnx/ml/scores.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The numbers of the attribute, or of the tensor that has its name with "_as_tensor".
std::vector<double> numbers_of(const Call& c, const std::string& name) {
  for (const std::string& each : {name, name + "_as_tensor"}) {
    const format::Attribute* a = c.node().find(each);
    if (a && !a->tensors.empty()) return a->tensors[0].values().asvector<double>();
  }
  return c.reals(name);
}

Decision decision_of(const Call& c, const std::string& name) {
  constexpr std::pair<std::string_view, Decision> names[] = {
      {"BRANCH_LEQ", Decision::leq}, {"BRANCH_LT", Decision::lt}, {"BRANCH_GTE", Decision::gte},
      {"BRANCH_GT", Decision::gt},   {"BRANCH_EQ", Decision::eq}, {"BRANCH_NEQ", Decision::neq},
      {"LEAF", Decision::leaf}};
  for (const auto& [known, decision] : names) {
    if (known == name) return decision;
  }
  c.fail_supported("nodes_modes " + name);
}

void check_length(const Call& c, const char* name, size_t length, size_t expected) {
  if (length != expected) c.fail(fmt::format("{} has {} numbers, {} expected", name, length, expected));
}

// The trees of TreeEnsembleClassifier and -Regressor: nodes by the number of their tree and their own. `kind`: what the
// attributes of weights begin with.
Ensemble older_trees(const Call& c, const std::string& kind, int64_t targets) {
  Ensemble e;
  e.targets = targets;
  const auto list = [&](const char* name, size_t n) {
    std::vector<int64_t> all = c.integers(name);
    check_length(c, name, all.size(), n);
    return all;
  };
  const std::vector<std::string> modes = c.texts("nodes_modes");
  const size_t n = modes.size();
  const std::vector<int64_t> tree = list("nodes_treeids", n), id = list("nodes_nodeids", n),
                             feature = list("nodes_featureids", n), yes = list("nodes_truenodeids", n),
                             no = list("nodes_falsenodeids", n), nan = c.integers("nodes_missing_value_tracks_true");
  const std::vector<double> split = numbers_of(c, "nodes_values");
  check_length(c, "nodes_values", split.size(), n);
  if (!nan.empty()) check_length(c, "nodes_missing_value_tracks_true", nan.size(), n);
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  for (size_t i = 0; i < n; ++i) {
    if (!places.emplace(std::pair(tree[i], id[i]), int64_t(i)).second) {
      c.fail(fmt::format("node {} of tree {} is there twice", id[i], tree[i]));
    }
  }
  const auto place = [&](int64_t of, int64_t node) {
    const auto at = places.find({of, node});
    if (at == places.end()) c.fail(fmt::format("node {} of tree {} is not there", node, of));
    return at->second;
  };
  std::vector<bool> is_root(n, true);
  for (size_t i = 0; i < n; ++i) {
    Ensemble::Node node{.decision = decision_of(c, modes[i]), .feature = feature[i], .split = split[i], .members = {}};
    node.nan_is_yes = !nan.empty() && nan[i] != 0;
    node.yes = node.no = int64_t(i);
    if (node.decision != Decision::leaf) {
      node.yes = place(tree[i], yes[i]), node.no = place(tree[i], no[i]);
      is_root[size_t(node.yes)] = is_root[size_t(node.no)] = false;
    }
    e.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < n; ++i) {
    if (is_root[i]) e.roots.push_back(int64_t(i));
  }
  const std::string of = kind == "class" ? "class" : "target";
  const std::vector<int64_t> targets_of = c.integers(of + "_ids");
  const std::vector<int64_t> trees = list((of + "_treeids").c_str(), targets_of.size()),
                             nodes = list((of + "_nodeids").c_str(), targets_of.size());
  const std::vector<double> weights = numbers_of(c, of + "_weights");
  check_length(c, "the weights", weights.size(), targets_of.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    e.weights.push_back({place(trees[i], nodes[i]), targets_of[i], weights[i]});
  }
  return e;
}

Symbol with_base(const Call& c, const Symbol& scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  check_length(c, "base_values", base.size(), size_t(shape_of(scores)[1]));
  return sym.broadcast_add(scores, constant(base, Shape(1, int64_t(base.size())), dtype_of(scores)));
}

Aggregate aggregate_of(const Call& c, const std::string& name) {
  if (name == "SUM") return Aggregate::sum;
  if (name == "AVERAGE") return Aggregate::average;
  if (name == "MIN") return Aggregate::min;
  if (name == "MAX") return Aggregate::max;
  c.fail_supported("aggregate_function " + name);
}

void regressor(Call& c) {
  const Ensemble trees = older_trees(c, "target", c.integer("n_targets", 1));
  const Symbol y = aggregated(c, trees, features_of(c), aggregate_of(c, c.text("aggregate_function", "SUM")));
  const Symbol scores = with_base(c, y, numbers_of(c, "base_values"));
  const std::string how = c.text("post_transform", "NONE");
  // a score alone stays as it is, apart from PROBIT
  const bool stays = trees.targets == 1 && how != "PROBIT";
  c.set(cast(stays ? scores : transformed(c, scores, how), DType::float32));
}

void classifier(Call& c) {
  const Labels labels = labels_of(c, "classlabels_int64s", "classlabels_strings");
  const Ensemble trees = older_trees(c, "class", labels.size());
  const std::string how = c.text("post_transform", "NONE");
  const std::vector<double> base = numbers_of(c, "base_values");
  std::set<int64_t> named;
  bool is_positive = true;
  for (const Ensemble::Weight& w : trees.weights) {
    named.insert(w.target);
    is_positive = is_positive && w.value >= 0;
  }
  const Symbol sums = aggregated(c, trees, features_of(c), Aggregate::sum);
  if (labels.size() == 2 && named.size() == 1) {  // one score for both
    Symbol score = slice_along(sums, 1, *named.begin(), *named.begin() + 1);
    if (base.size() > 2) check_length(c, "base_values", base.size(), 2);
    if (!base.empty()) score = score + base.back();
    const TwoClasses two = two_classes(c, score, is_positive ? 0.5 : 0, is_positive, how);
    c.set(0, chosen(c, labels, two.index));
    return c.set(1, cast(two.scores, DType::float32));
  }
  const Symbol scores = with_base(c, sums, base);
  c.set(0, chosen(c, labels, cast(sym._npi_argmax(scores, {.axis = 1}), DType::int64)));
  c.set(1, cast(transformed(c, scores, how), DType::float32));
}

// Nodes and leaves in lists of their own, as numbers.
void ensemble(Call& c) {
  const std::vector<int64_t> feature = c.integers("nodes_featureids"), yes = c.integers("nodes_truenodeids"),
                             no = c.integers("nodes_falsenodeids"), yes_leaf = c.integers("nodes_trueleafs"),
                             no_leaf = c.integers("nodes_falseleafs"), target = c.integers("leaf_targetids"),
                             nan = c.integers("nodes_missing_value_tracks_true");
  const std::vector<double> modes = numbers_of(c, "nodes_modes"), split = numbers_of(c, "nodes_splits"),
                            weight = numbers_of(c, "leaf_weights"), members = numbers_of(c, "membership_values");
  const size_t n = feature.size();
  for (const auto& [name, length] : {std::pair{"nodes_truenodeids", yes.size()},
                                     {"nodes_falsenodeids", no.size()},
                                     {"nodes_trueleafs", yes_leaf.size()},
                                     {"nodes_falseleafs", no_leaf.size()},
                                     {"nodes_modes", modes.size()},
                                     {"nodes_splits", split.size()}}) {
    check_length(c, name, length, n);
  }
  if (!nan.empty()) check_length(c, "nodes_missing_value_tracks_true", nan.size(), n);
  check_length(c, "leaf_weights", weight.size(), target.size());
  Ensemble e;
  e.targets = c.integer("n_targets", 0);
  e.roots = c.integers("tree_roots");
  auto next = members.begin();
  for (size_t i = 0; i < n; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) c.fail_supported(fmt::format("nodes_modes {}", modes[i]));
    Ensemble::Node node{.decision = Decision(int(modes[i])), .feature = feature[i], .split = split[i], .members = {}};
    node.nan_is_yes = !nan.empty() && nan[i] != 0;
    node.yes = yes[i] + (yes_leaf[i] != 0 ? int64_t(n) : 0);
    node.no = no[i] + (no_leaf[i] != 0 ? int64_t(n) : 0);
    if (node.decision == Decision::member) {  // those up to the next NaN
      const auto end = std::find_if(next, members.end(), [](double v) { return std::isnan(v); });
      node.members.assign(next, end);
      next = end == members.end() ? end : end + 1;
    }
    e.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < target.size(); ++i) {
    const auto at = int64_t(n + i);
    Ensemble::Node leaf;
    leaf.yes = leaf.no = at;
    e.nodes.push_back(std::move(leaf));
    e.weights.push_back({at, target[i], weight[i]});
  }
  const int64_t how = c.integer("aggregate_function", 1), after = c.integer("post_transform", 0);
  if (how < 0 || how > 3) c.fail_supported(fmt::format("aggregate_function {}", how));
  if (after < 0 || after > 4) c.fail_supported(fmt::format("post_transform {}", after));
  constexpr const char* names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const Symbol y = aggregated(c, e, features_of(c), Aggregate(how));
  const bool stays = e.targets == 1 && after != 4;
  c.set(cast(stays ? y : transformed(c, y, names[after]), c.dtype()));
}

constexpr Row tree_table[] = {
    {"TreeEnsemble", ensemble, 5, kLearning},
    {"TreeEnsembleClassifier", classifier, 1, kLearning},
    {"TreeEnsembleRegressor", regressor, 1, kLearning},
};

}  // namespace

std::span<const Row> tree_rows() { return tree_table; }

}  // namespace kaon::onnx::convert
