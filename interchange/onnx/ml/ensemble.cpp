#include "kaon/interchange/onnx/ml/ensemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kMostWeights = int64_t(1) << 28;  // leaves times targets

// Decisions on the longest way from a root to a leaf.
int64_t depth_of(const Call& c, const Ensemble& trees) {
  const auto n = int64_t(trees.nodes.size());
  std::vector<bool> was_there(trees.nodes.size());
  std::vector<int64_t> level = trees.roots;
  int64_t depth = 0;
  for (;; ++depth) {
    std::vector<int64_t> next;
    for (int64_t i : level) {
      if (i < 0 || i >= n) c.fail(fmt::format("node {} of {}", i, n));
      const Ensemble::Node& node = trees.nodes[size_t(i)];
      if (node.decision == Decision::leaf) continue;
      if (was_there[size_t(i)]) c.fail(fmt::format("two ways lead to node {}", i));
      was_there[size_t(i)] = true;
      next.insert(next.end(), {node.yes, node.no});
    }
    if (next.empty()) return depth;
    level = std::move(next);
  }
}

// The decisions of one kind, 1 or 0.
Symbol decided(Decision decision, const Symbol& x, const Symbol& split) {
  switch (decision) {
    case Decision::leq: return sym.broadcast_lesser_equal(x, split);
    case Decision::lt: return sym.broadcast_lesser(x, split);
    case Decision::gte: return sym.broadcast_greater_equal(x, split);
    case Decision::gt: return sym.broadcast_greater(x, split);
    case Decision::eq: return sym.broadcast_equal(x, split);
    default: return sym.broadcast_not_equal(x, split);
  }
}

class Walk {
 public:
  Walk(const Ensemble& trees, const Symbol& x) : trees_(trees), x_(x), dtype_(dtype_of(x)) {
    std::array<bool, 8> used{};
    size_t most = 0;
    for (const Ensemble::Node& n : trees.nodes) {
      used[size_t(n.decision)] = true;
      may_be_nan_ = may_be_nan_ || n.nan_is_yes;
      most = std::max(most, n.members.size());
    }
    for (Decision d :
         {Decision::leq, Decision::lt, Decision::gte, Decision::gt, Decision::eq, Decision::neq, Decision::member}) {
      if (used[size_t(d)]) decisions_.push_back(d);
    }
    feature_ = each(DType::int64, [](const Ensemble::Node& n) { return double(n.feature); });
    yes_ = each(DType::int64, [](const Ensemble::Node& n) { return double(n.yes); });
    no_ = each(DType::int64, [](const Ensemble::Node& n) { return double(n.no); });
    split_ = each(dtype_, [](const Ensemble::Node& n) { return n.split; });
    decision_ = each(DType::float32, [](const Ensemble::Node& n) { return double(n.decision); });
    nan_is_yes_ = each(DType::float32, [](const Ensemble::Node& n) { return double(n.nan_is_yes); });
    if (!used[size_t(Decision::member)]) return;
    std::vector<double> members;
    for (const Ensemble::Node& n : trees.nodes) {
      for (size_t i = 0; i < most; ++i) {
        members.push_back(i < n.members.size() ? n.members[i] : std::numeric_limits<double>::quiet_NaN());
      }
    }
    members_ = constant(members, Shape(int64_t(trees.nodes.size()), int64_t(most)), dtype_);
  }

  Symbol step(const Symbol& at) const {
    const Symbol x = sym.take_along_axis(x_, of(feature_, at), {.axis = 1});
    Symbol yes;
    for (Decision d : decisions_) {
      Symbol one = cast(d == Decision::member ? is_member(x, at) : decided(d, x, of(split_, at)), DType::float32);
      if (decisions_.size() > 1) one = one * (of(decision_, at) == double(d));
      yes = yes.defined() ? yes + one : one;
    }
    if (may_be_nan_) yes = sym.broadcast_maximum(yes, of(nan_is_yes_, at) * cast(sym.isnan(x), DType::float32));
    return sym.broadcast_where(yes, of(yes_, at), of(no_, at));
  }

 private:
  template <class F>
  Symbol each(DType dtype, F number) const {
    std::vector<double> all;
    for (const Ensemble::Node& n : trees_.nodes) all.push_back(number(n));
    return constant(all, Shape(int64_t(all.size())), dtype);
  }
  static Symbol of(const Symbol& table, const Symbol& at) { return sym.take(table, at, {.axis = 0}); }
  Symbol is_member(const Symbol& x, const Symbol& at) const {
    Shape one = shape_of(x);
    one.push_back(1);
    return sym.max(sym.broadcast_equal(reshaped(x, one), of(members_, at)), {.axis = Shape(2)});
  }

  const Ensemble& trees_;
  Symbol x_;
  DType dtype_;
  bool may_be_nan_ = false;
  std::vector<Decision> decisions_;
  Symbol feature_, yes_, no_, split_, decision_, nan_is_yes_, members_;
};

}  // namespace

Symbol aggregated(const Call& c, const Ensemble& trees, const Symbol& x, Aggregate how) {
  const auto nodes = int64_t(trees.nodes.size()), roots = int64_t(trees.roots.size());
  const int64_t n = shape_of(x)[0], features = shape_of(x)[1];
  if (nodes == 0 || roots == 0) c.fail("no trees");
  if (trees.targets < 1 || nodes > kMostWeights / trees.targets) {
    c.fail(fmt::format("{} targets of {} nodes", trees.targets, nodes));
  }
  for (const Ensemble::Node& node : trees.nodes) {
    if (node.decision == Decision::leaf) continue;
    if (node.feature < 0 || node.feature >= features) {
      c.fail(fmt::format("a node of feature {} for x of {}", node.feature, features));
    }
  }
  const bool is_sum = how == Aggregate::sum || how == Aggregate::average;
  const double nothing = how == Aggregate::min ? kInfinite : how == Aggregate::max ? -kInfinite : 0;
  std::vector<double> table(size_t(nodes * trees.targets), nothing);
  for (const Ensemble::Weight& w : trees.weights) {
    if (w.node < 0 || w.node >= nodes || w.target < 0 || w.target >= trees.targets) {
      c.fail(fmt::format("a weight of target {} at node {}", w.target, w.node));
    }
    double& to = table[size_t(w.node * trees.targets + w.target)];
    to = is_sum ? to + w.value : w.value;
  }
  const int64_t depth = depth_of(c, trees);
  const DType dtype = dtype_of(x);
  if (n == 0) return full(Shape(0, trees.targets), 0, dtype);
  Symbol at = broadcast(reshaped(constant(trees.roots), Shape(1, roots)), Shape(n, roots));
  const Walk walk(trees, x);
  for (int64_t i = 0; i < depth; ++i) at = walk.step(at);
  const Symbol said = sym.take(constant(table, Shape(nodes, trees.targets), dtype), at, {.axis = 0});
  if (is_sum) {
    const Symbol sum = sym.sum(said, {.axis = Shape(1)});
    return how == Aggregate::average ? sum / double(roots) : sum;
  }
  const Symbol y = how == Aggregate::min ? sym.min(said, {.axis = Shape(1)}) : sym.max(said, {.axis = Shape(1)});
  return sym.broadcast_where(sym.isinf(y), constant({0.0}, Shape(1), dtype), y);  // a target that no leaf names
}

}  // namespace kaon::onnx::convert
