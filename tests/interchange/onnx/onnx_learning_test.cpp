// Trees and linear models of ai.onnx.ml: where ONNX Runtime departs from the standard, and what is refused. Other
// values are ONNX Runtime's, which onnx_sample compares (data/onnx/learning, by onnx_suite/write_learning.py).
#include <catch2/catch.hpp>

#include <cmath>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/ml/support_vectors.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/one_node.h"

namespace onnx_learning_test {

using namespace kaon;
using namespace kaon::test;
using proto::Attribute;
using proto::ElementType;

namespace {

constexpr auto f32 = ElementType::float32;

OneNode learning(const std::string& op_type, int outputs, const std::vector<Attribute>& attributes) {
  return OneNode("ai.onnx.ml", op_type, {{"x", f32}}, outputs, attributes);
}

// x[0] is in the set -2, 3: then 1 for target 0; else x[1] < 0.5: 2 for target 0, else 3 for target 1.
std::vector<Attribute> member_tree(int64_t post_transform) {
  return {integer("n_targets", 2),
          integer("post_transform", post_transform),
          integers("tree_roots", {0}),
          integers("nodes_featureids", {0, 1}),
          tensor_attribute<uint8_t>("nodes_modes", ElementType::uint8, {6, 1}),
          tensor_attribute<float>("nodes_splits", f32, {0, 0.5}),
          tensor_attribute<float>("membership_values", f32, {-2, 3, NAN}),
          integers("nodes_truenodeids", {0, 1}),
          integers("nodes_trueleafs", {1, 1}),
          integers("nodes_falsenodeids", {1, 2}),
          integers("nodes_falseleafs", {0, 1}),
          integers("leaf_targetids", {0, 0, 1}),
          tensor_attribute<float>("leaf_weights", f32, {1, 2, 3})};
}

// x[0] <= 0.5: 0.4 and 0.6 for two classes, else 0.7 and 0.3.
std::vector<Attribute> two_class_tree() {
  return {texts("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"}),
          integers("nodes_treeids", {0, 0, 0}),
          integers("nodes_nodeids", {0, 1, 2}),
          integers("nodes_featureids", {0, 0, 0}),
          floats("nodes_values", {0.5, 0, 0}),
          integers("nodes_truenodeids", {1, 0, 0}),
          integers("nodes_falsenodeids", {2, 0, 0}),
          integers("class_treeids", {0, 0, 0, 0}),
          integers("class_nodeids", {1, 1, 2, 2}),
          integers("class_ids", {0, 1, 0, 1}),
          floats("class_weights", {0.4f, 0.6f, 0.7f, 0.3f})};
}

std::vector<Attribute> with(std::vector<Attribute> all, const Attribute& other) {
  std::erase_if(all, [&](const Attribute& a) { return a.name == other.name; });
  all.push_back(other);
  return all;
}

}  // namespace

TEST_CASE("onnx learning: decisions by sets hold for numbers between whole ones too", "[onnx]") {
  const auto y = learning("TreeEnsemble", 1, member_tree(0)).load()(nd.array({{-2, 0}, {3, 9}, {2.5, 0}, {-1, 0.5}}));
  CHECK(y.asvector<float>() == std::vector<float>{1, 0, 1, 0, 2, 0, 0, 3});
}

TEST_CASE("onnx learning: the numbers of post_transform are the standard's", "[onnx]") {
  const NDArray x = nd.array({{-2, 0}, {-1, 0.5}});
  const auto softmax = learning("TreeEnsemble", 1, member_tree(1)).load()(x).asvector<double>();
  CHECK(softmax[0] == Approx(std::exp(1) / (1 + std::exp(1))));
  CHECK(softmax[3] == Approx(std::exp(3) / (1 + std::exp(3))));
  const auto logistic = learning("TreeEnsemble", 1, member_tree(2)).load()(x).asvector<double>();
  CHECK(logistic[0] == Approx(1 / (1 + std::exp(-1))));
  CHECK(logistic[1] == Approx(0.5));
}

TEST_CASE("onnx learning: of two classes with a score each, the larger one is chosen", "[onnx]") {
  const NDArray x = nd.array({{0}, {1}});
  const auto numbers =
      learning("TreeEnsembleClassifier", 2, with(two_class_tree(), integers("classlabels_int64s", {7, 5})))
          .load()
          .forward({x});
  CHECK(numbers[0].asvector<int64_t>() == std::vector<int64_t>{5, 7});
  CHECK(numbers[1].asvector<float>() == std::vector<float>{0.4f, 0.6f, 0.7f, 0.3f});
  const onnx::Block block =
      learning("TreeEnsembleClassifier", 2, with(two_class_tree(), texts("classlabels_strings", {"no", "yes"}))).load();
  CHECK(block.run({x})[0].strings == std::vector<std::string>{"yes", "no"});
  CHECK(block.run({nd.array({{3}, {3}})})[0].strings == std::vector<std::string>{"no", "no"});
}

TEST_CASE("onnx learning: maps of scores are the scores", "[onnx]") {
  const NDArray x = nd.array({{0.25, 0.75}, {1, 0}});
  const auto zip = [&](const std::vector<std::string>& labels) {
    return learning("ZipMap", 1, {texts("classlabels_strings", labels)}).load().run({x})[0].array;
  };
  CHECK(zip({"no", "yes"}).asvector<float>() == x.asvector<float>());
  CHECK_THROWS_WITH(zip({"no", "yes", "or"}), Catch::Contains("scores of shape (2, 2) for 3 labels"));
}

TEST_CASE("onnx learning: probabilities of classes are those of their pairs where these fit", "[onnx]") {
  const std::vector<double> p{0.2, 0.5, 0.3};
  std::vector<double> wins(9);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) wins[i * 3 + j] = i == j ? 0 : p[i] / (p[i] + p[j]);
  }
  const std::vector<double> found = onnx::convert::coupled(wins, 3);
  for (size_t i = 0; i < 3; ++i) CHECK(found[i] == Approx(p[i]).margin(2e-3));
}

TEST_CASE("onnx learning: models whose numbers do not fit are refused", "[onnx]") {
  const NDArray x = nd.ones({2, 2});
  const auto fails = [&](const OneNode& node, const NDArray& data, const std::string& why) {
    CHECK_THROWS_WITH(node.load().run({data}), Catch::Contains(why) && Catch::Contains("the_node"));
  };
  const auto trees = [&](const Attribute& other) { return learning("TreeEnsemble", 1, with(member_tree(0), other)); };
  fails(trees(integers("nodes_featureids", {0, 2})), x, "a node of feature 2 for x of 2");
  fails(trees(integers("nodes_truenodeids", {0})), x, "nodes_truenodeids has 1 numbers, 2 expected");
  fails(trees(integers("nodes_falsenodeids", {1, 3})), x, "node 5 of 5");
  fails(trees(integers("leaf_targetids", {0, 0, 2})), x, "a weight of target 2");
  auto circle = with(member_tree(0), integers("nodes_falseleafs", {0, 0}));
  fails(learning("TreeEnsemble", 1, with(circle, integers("nodes_falsenodeids", {1, 0}))), x,
        "two ways lead to node 0");
  const auto classes = [&](const Attribute& other) {
    return learning("TreeEnsembleClassifier", 2,
                    with(with(two_class_tree(), integers("classlabels_int64s", {7, 5})), other));
  };
  fails(classes(texts("nodes_modes", {"BRANCH_LIKE", "LEAF", "LEAF"})), x, "nodes_modes BRANCH_LIKE is not supported");
  fails(classes(integers("nodes_nodeids", {0, 1, 1})), x, "node 1 of tree 0 is there twice");
  fails(classes(integers("nodes_falsenodeids", {4, 0, 0})), x, "node 4 of tree 0 is not there");
  fails(learning("TreeEnsembleClassifier", 2, two_class_tree()), x,
        "classlabels_int64s or classlabels_strings expected");
  fails(learning("LinearRegressor", 1, {floats("coefficients", {1, 2, 3})}), x, "3 coefficients");
  fails(learning("SVMClassifier", 2,
                 {integers("classlabels_ints", {0, 1}), integers("vectors_per_class", {1, 1}), floats("rho", {0}),
                  floats("coefficients", {1, -1}), floats("support_vectors", {1, 2, 3})}),
        x, "3 numbers of 2 vectors for 2 features");
  fails(learning("Scaler", 1, {floats("scale", {1}), floats("offset", {1, 2, 3})}), x, "3 numbers in offset for 2");
  fails(learning("Normalizer", 1, {text("norm", "L3")}), x, "norm L3 is not supported");
}

}  // namespace onnx_learning_test
