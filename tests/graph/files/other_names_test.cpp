// Files that name operators in MXNet's other ways: _npx_convolution, _sparse_relu, crop.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "kaon/graph/symbol.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/ops/operator/usual_name.h"

namespace other_names_test {

using namespace kaon;
using namespace kaon::ops;
using Catch::Matchers::Contains;

namespace {

// a (2, 3), b (1, 3) -> an operator of these inputs.
Symbol loaded(const std::string& op, const std::string& attrs, int inputs) {
  const char* const text = R"json({{"nodes": [
    {{"op": "null", "name": "a", "attrs": {{"__shape__": "(2, 3)"}}, "inputs": []}},
    {{"op": "null", "name": "b", "attrs": {{"__shape__": "(1, 3)"}}, "inputs": []}},
    {{"op": "{}", "name": "y", "attrs": {{{}}}, "inputs": [{}]}}],
    "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "attrs": {{"mxnet_version": ["int", 10901]}}}})json";
  return Symbol::load_json(fmt::format(fmt::runtime(text), op, attrs,
                                       inputs == 0   ? ""
                                       : inputs == 1 ? "[0, 0, 0]"
                                                     : "[0, 0, 0], [1, 0, 0]"));
}

}  // namespace

TEST_CASE("other names: each leads to an operator that has the usual one", "[symbol_json]") {
  std::set<std::string> usual;
  for (const OpDef* def : all_op_defs()) {
    usual.insert(std::string(def->name()));
    for (int i = 0; i < def->traits.aliases.size(); ++i) usual.insert(std::string(def->traits.aliases[i]));
  }
  const std::vector<std::string> others = other_names_of_operators();
  CHECK(std::set<std::string>(others.begin(), others.end()).size() == others.size());
  CHECK(others.size() > 120);
  for (const std::string& other : others) {
    INFO(other);
    CHECK_FALSE(usual.contains(other));
    CHECK(usual.contains(std::string(usual_name(other))));
    REQUIRE(find_op(other) != nullptr);
    CHECK(find_op(other) == find_op(usual_name(other)));
    CHECK(find_op(other)->traits.in_mxnet);
  }
  for (const std::string& name : usual) CHECK(usual_name(name) == name);
  CHECK(usual_name("_sparse_no_such_operator") == "_sparse_no_such_operator");
}

TEST_CASE("other names: a file that has one is read, and written with the usual one", "[symbol_json]") {
  const struct {
    std::string other, attrs, usual;
    int inputs;
  } cases[] = {{"_sparse_relu", "", "relu", 1},
               {"crop", R"json("begin": "(0, 1)", "end": "(2, 3)")json", "slice", 1},
               {"_npi_maximum", "", "broadcast_maximum", 2},
               {"_npx_fully_connected", R"("num_hidden": "4", "no_bias": "True")", "FullyConnected", 2},
               {"cast_storage", R"("stype": "row_sparse")", "_copy", 1},
               {"_scatter_plus_scalar", R"("scalar": "2")", "_plus_scalar", 1},
               {"_scatter_minus_scalar", R"("scalar": "2")", "_minus_scalar", 1},
               {"_scatter_elemwise_div", "", "elemwise_div", 2},
               {"_identity_with_attr_like_rhs", "", "reshape_like", 2},
               {"_sparse_add_n", R"("num_args": "2")", "add_n", 2},
               {"random_uniform", R"json("low": "1", "shape": "(2,)")json", "_random_uniform", 0},
               {"_zeros_without_dtype", R"json("shape": "(2,)", "dtype": "-1")json", "_zeros", 0}};
  for (const auto& c : cases) {
    INFO(c.other);
    const std::string text = loaded(c.other, c.attrs, c.inputs).tojson();
    CHECK_THAT(text, Contains("\"op\": \"" + c.usual + "\""));
    CHECK_THAT(text, !Contains("\"" + c.other + "\""));
  }
  const std::string shape = R"json("shape": "(2,)", "dtype": )json";
  CHECK_THAT(loaded("_zeros_without_dtype", shape + "\"4\"", 0).tojson(), Contains("\"dtype\": \"int32\""));
  CHECK_THROWS_AS(loaded("_zeros_without_dtype", shape + "\"9\"", 0), IoError);
}

TEST_CASE("other names: those that broadcast do, those of elementwise operators want equal shapes", "[symbol_json]") {
  const Shapes shapes{{"a", {2, 3}}, {"b", {1, 3}}};
  for (const char* name : {"_npi_maximum", "_sparse_broadcast_add"}) {
    CHECK(loaded(name, "", 2).infer_shape(shapes).outputs == std::vector<Shape>{{2, 3}});
  }
  for (const char* name : {"_sparse_elemwise_add", "_Hypot"}) {
    CHECK_THROWS_WITH(loaded(name, "", 2).infer_shape(shapes),
                      Contains("inputs must have one shape, got (2, 3) and (1, 3)"));
  }
}

}  // namespace other_names_test
