#include <catch2/catch.hpp>

#include <string>

#include "calls.h"

namespace call_test {

using namespace symbols;
using Catch::Matchers::Contains;
using Floats = std::vector<float>;

TEST_CASE("An operator is called by name with texts for attributes", "[mxnet]") {
  const Array x({2, 3}, {1, 2, 3, 4, 5, 6});
  REQUIRE(one("_plus_scalar", {&x}, {{"scalar", "1.5"}}).values() == Floats{2.5, 3.5, 4.5, 5.5, 6.5, 7.5});
  const Array sums = one("sum", {&x}, {{"axis", "[1]"}, {"keepdims", "True"}});
  REQUIRE(sums.shape() == std::vector<int>{2, 1});
  REQUIRE(sums.values() == Floats{6, 15});
  REQUIRE(one("sum", {&x}, {{"axis", "None"}}).values() == Floats{21});
  // attributes that make no difference, of nodes, and of operators without any
  REQUIRE(one("FullyConnected", {&x, &x}, {{"num_hidden", "2"}, {"no_bias", "1"}, {"__lr_mult__", "2"}}).values() ==
          Floats{14, 32, 32, 77});
  REQUIRE(one("broadcast_maximum", {&x, &sums}, {{"axis", "1"}}).values() == Floats{6, 6, 6, 15, 15, 15});
}

TEST_CASE("A call that MXNet would refuse is refused by name", "[mxnet]") {
  const Array x({2, 3}, {1, 2, 3, 4, 5, 6}), row({1, 3}, {1, 2, 3});
  std::vector<Array> results;
  const auto error = [&](const char* op, const std::vector<const Array*>& inputs, const Texts& attributes) {
    REQUIRE(invoke(op, inputs, attributes, results) == -1);
    return std::string(MXGetLastError());
  };
  REQUIRE_THAT(error("sum", {&x}, {{"axi", "1"}}), Contains("MXNetError: Cannot find argument 'axi'"));
  REQUIRE_THAT(error("sum", {&x}, {{"axis", "one"}}), Contains("[sum] Invalid Parameter format for axis"));
  REQUIRE_THAT(error("FullyConnected", {&x, &x}, {{"no_bias", "1"}}), Contains("num_hidden is not presented"));
  REQUIRE_THAT(error("elemwise_add", {&x, &row}, {}), Contains("inputs must have one shape"));
  REQUIRE_THAT(error("dot", {&x, &row}, {}), Contains("[dot]"));
  REQUIRE_THAT(error("sum", {}, {}), Contains("[sum]"));
  REQUIRE_THAT(error("_zeros", {}, {{"shape", "(0,)"}}), Contains("inferring shapes failed"));
  REQUIRE_THAT(error("_CustomFunction", {&x}, {}), Contains("'_CustomFunction' is not provided by Kaon"));
  REQUIRE(one("broadcast_add", {&x, &row}).values() == Floats{2, 4, 6, 5, 7, 9});
  OpHandle none = nullptr;
  REQUIRE(NNGetOpHandle("no_such_operator", &none) == -1);
}

TEST_CASE("split_v2 cuts at more places than an array may have dimensions", "[mxnet]") {
  const Array x({1, 11}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  std::vector<Array> parts;
  ok(invoke("_split_v2", {&x}, {{"indices", "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)"}, {"axis", "1"}}, parts));
  REQUIRE(parts.size() == 10);
  REQUIRE(parts[4].values() == Floats{4});
  REQUIRE(parts[9].values() == Floats{9, 10});
}

TEST_CASE("Attributes mean what they mean in MXNet", "[mxnet]") {
  const Array x({1, 1, 4}, {1, 3, 2, 4});
  const Texts window{{"kernel", "2"}, {"stride", "(2, 1)"}, {"pad", "(0, 0, 0)"}, {"pool_type", "max"}};
  REQUIRE(one("Pooling", {&x}, window).values() == Floats{3, 4});
  const auto range = [](const Texts& attributes) {
    const Array whole = one("_arange", {}, attributes);
    return one("Cast", {&whole}, {{"dtype", "float32"}}).values();
  };
  const Texts fractions{{"start", "1.3"}, {"stop", "10"}, {"step", "1.3"}, {"repeat", "1"}, {"dtype", "int32"}};
  REQUIRE(range(fractions) == Floats{1, 2, 3, 4, 5, 6, 7});
  REQUIRE(range({{"start", "3.5"}, {"step", "1.5"}, {"dtype", "uint8"}}) == Floats{0, 1, 2});
  std::vector<Array> results;
  REQUIRE(invoke("_arange", {}, {{"start", "0"}, {"stop", "3"}, {"step", "0.5"}, {"dtype", "int32"}}, results) == -1);
}

TEST_CASE("An operator reads attributes that it does not list", "[mxnet]") {
  const Array x({1, 2}, {1, 2}), y({1, 2}, {3, 4});
  REQUIRE(one("_npi_concatenate", {&x, &y}, {{"axis", "1"}}).values() == Floats{1, 2, 3, 4});
  REQUIRE(one("_npi_concatenate", {&x, &y}).shape() == std::vector<int>{2, 2});
  REQUIRE(one("smooth_l1", {&x}, {{"scalar", "1"}, {"is_int", "True"}}).values() == Floats{0.5, 1.5});
  const Texts size{{"input_dim", "3"}, {"output_dim", "1"}, {"deterministic", "True"}};
  const Array weight({3, 1}, {5, 6, 7});
  REQUIRE(one("_contrib_SparseEmbedding", {&x, &weight}, size).values() == Floats{6, 7});
  std::vector<Array> results;
  REQUIRE(invoke("_npi_concatenate", {&x, &y}, {{"axis", "None"}}, results) == -1);
  REQUIRE_THAT(std::string(MXGetLastError()), Contains("does not support axis=None"));
  REQUIRE(invoke("_linalg_potrf", {&x}, {{"upper", "1"}}, results) == -1);
  uint32_t n = 0;
  const char *name = nullptr, *about = nullptr, *key = nullptr, **names = nullptr, **types = nullptr, **texts = nullptr;
  ok(MXSymbolGetAtomicSymbolInfo(Sym::op("smooth_l1"), &name, &about, &n, &names, &types, &texts, &key, nullptr));
  REQUIRE(n == 2);
}

TEST_CASE("Without NumPy's shapes no result has a size that an empty input leaves open", "[mxnet]") {
  const Array x({2}, {1, 2});
  const Array empty = one("one_hot", {&x}, {{"depth", "0"}});
  REQUIRE(empty.shape() == std::vector<int>{2, 0});
  std::vector<Array> results;
  REQUIRE(invoke("square", {&empty}, {}, results) == -1);
  REQUIRE_THAT(std::string(MXGetLastError()), Contains("[square] inferring shapes failed"));
  REQUIRE(one("sum", {&empty}).values() == Floats{0});
}

TEST_CASE("Every operator refuses a call without arrays or makes one", "[mxnet]") {
  uint32_t n = 0;
  const char** names = nullptr;
  ok(MXListAllOpNames(&n, &names));
  REQUIRE(n > 600);
  for (uint32_t i = 0; i < n; ++i) {
    INFO(names[i]);
    std::vector<Array> results;
    if (invoke(names[i], {}, {}, results) != 0) REQUIRE(std::string(MXGetLastError()).size() > 12);
  }
}

TEST_CASE("Results go into given arrays", "[mxnet]") {
  const Array x({2, 2}, {1, 2, 3, 4});
  const Array y({2, 2}, {0, 0, 0, 0});
  const Array last = view(y, MXNDArrayAt, 1);  // sees what is written
  ok(invoke_into("square", {&x}, {}, {&y}));
  REQUIRE(y.values() == Floats{1, 4, 9, 16});
  REQUIRE(last.values() == Floats{9, 16});
  ok(invoke_into("broadcast_add", {&x, &y}, {}, {&x}));  // the input itself
  REQUIRE(x.values() == Floats{2, 6, 12, 20});
  NDArrayHandle h = nullptr;
  ok(MXNDArrayCreateNone(&h));
  const Array none(h);
  ok(invoke_into("square", {&y}, {}, {&none}));
  REQUIRE(none.values() == Floats{1, 16, 81, 256});
  const uint32_t shape[] = {2, 2};
  ok(MXNDArrayCreateEx(shape, 2, 1, 0, 0, 4, &h));  // int32
  const Array integers(h);
  ok(invoke_into("_copyto", {&y}, {}, {&integers}));
  REQUIRE(one("Cast", {&integers}, {{"dtype", "float32"}}).values() == Floats{1, 4, 9, 16});
  const Array other({3}, {0, 0, 0});
  REQUIRE(invoke_into("square", {&x}, {}, {&other}) == -1);
  REQUIRE(invoke_into("square", {&x}, {}, {&y, &other}) == -1);
  REQUIRE(y.values() == Floats{1, 4, 9, 16});
}

TEST_CASE("An update gives the new weight, and changes the given one only where it is the result", "[mxnet]") {
  const Array weight({2}, {1, 2}), grad({2}, {1, 1}), momentum({2}, {0, 0});
  const Texts attributes{{"lr", "0.5"}, {"momentum", "0.5"}};
  const Array updated = one("sgd_mom_update", {&weight, &grad, &momentum}, attributes);
  REQUIRE(updated.values() == Floats{0.5, 1.5});
  REQUIRE(weight.values() == Floats{1, 2});
  REQUIRE(momentum.values() == Floats{-0.5, -0.5});
  ok(invoke_into("sgd_mom_update", {&weight, &grad, &momentum}, attributes, {&weight}));
  REQUIRE(weight.values() == Floats{0.25, 1.25});
  const Array v({1}, {4}), g({1}, {2});
  ok(invoke_into("multi_sgd_update", {&weight, &grad, &v, &g},
                 {{"lrs", "[1, 0.5]"}, {"wds", "[0, 0]"}, {"num_weights", "2"}}, {&weight, &v}));
  REQUIRE(weight.values() == Floats{-0.75, 0.25});
  REQUIRE(v.values() == Floats{3});
  std::vector<Array> nothing;
  ok(invoke("reset_arrays", {&weight, &v}, {{"num_arrays", "2"}}, nothing));
  REQUIRE(nothing.empty());
  REQUIRE(weight.values() == Floats{0, 0});
}

TEST_CASE("Operators of the interface's own", "[mxnet]") {
  const Array x({3, 2}, {1, 1, 1, 1, 1, 1}), values({3}, {5, 6, 7}), columns({3}, {0, 1, 9});
  REQUIRE(one("fill_element_0index", {&x, &values, &columns}).values() == Floats{5, 1, 1, 6, 1, 1});
  const Array y({2}, {0, 0});
  ok(invoke_into("_set_value", {}, {{"src", "2.5"}}, {&y}));
  REQUIRE(y.values() == Floats{2.5, 2.5});
  REQUIRE(one("_contrib_boolean_mask", {&values, &columns}).values() == Floats{6, 7});
  const Array square({2, 2}, {0, 0, 0, 0}), which({2}, {1, 0});
  REQUIRE(one("_onehot_encode", {&which, &square}).values() == Floats{0, 1, 1, 0});
}

}  // namespace call_test
