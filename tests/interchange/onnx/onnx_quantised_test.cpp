// Quantised models: which parts of them are computed with whole numbers. The values are ONNX Runtime's, which
// onnx_sample compares (data/onnx/quantised and runtime, by onnx_suite/write_quantised.py and write_runtime.py).
#include <catch2/catch.hpp>

#include <map>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"
#include "kaon/kaon.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/tests/support/files.h"

namespace onnx_quantised_test {

using namespace kaon;
using namespace kaon::test;

namespace {

fs::path folder(const std::string& name) {
  return data_file((name.starts_with("runtime/") ? "onnx/" : "onnx/quantised/") + name);
}

std::map<std::string, int> operators(const std::string& name) {
  const onnx::convert::IntegerScope everywhere(true);
  const Symbol program = onnx::load_block(folder(name) / "model.onnx").program();
  std::map<std::string, int> counts;
  for (const graph::SymbolNode* n : graph::topological_order(program.entries())) {
    if (n->op) ++counts[std::string(n->op->name())];
  }
  return counts;
}

NDArray run_layer(const auto& op, const std::vector<NDArray>& inputs) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& x : inputs) pointers.push_back(&x);
  NDArray out;
  NDArray::apply(std::remove_cvref_t<decltype(op)>::def, &op, pointers, std::span(&out, 1),
                 std::source_location::current(), "");
  return out;
}

}  // namespace

TEST_CASE("onnx quantised: convolutions and products of levels are layers of whole numbers", "[onnx]") {
  for (const char* name : {"pairs_uint8", "pairs_int8"}) {
    CAPTURE(name);
    auto counts = operators(name);
    CHECK(counts["_integer_conv"] == 3);
    CHECK(counts["_integer_dense"] == 2);
    CHECK(counts["Convolution"] == 0);
    CHECK(counts["FullyConnected"] == 0);
  }
  auto counts = operators("operators_int8");
  CHECK(counts["_integer_conv"] == 3);
  CHECK(counts["_integer_dense"] == 1);
  CHECK(counts["FullyConnected"] == 1);                       // the Gemm, which is not quantised
  CHECK(operators("operators_uint8")["_integer_conv"] == 0);  // its weights without their zero point are no int8
  CHECK(operators("dense_pairs")["_integer_dense"] == 2);
  CHECK(operators("dense_dynamic")["_integer_dense"] == 2);

  // ONNX Runtime's own operators (onnx_suite/write_runtime.py)
  counts = operators("runtime/net");
  CHECK(counts["_integer_conv"] == 3);
  CHECK(counts["_integer_dense"] == 2);  // QGemm and QLinearMatMul
  for (const char* name : {"gemm_uint8", "gemm_columns", "integer_to_float", "dynamic"}) {
    CAPTURE(name);
    CHECK(operators(std::string("runtime/") + name)["_integer_dense"] == 1);
  }
}

TEST_CASE("onnx quantised: whole numbers give the results of the standard's reference within a level", "[onnx]") {
  const onnx::convert::IntegerScope everywhere(true);
  const std::map<std::string, double> levels{{"pairs_uint8", 0.0126},        {"pairs_int8", 0.0131},
                                             {"operators_uint8", 0.0133},    {"operators_int8", 0.013},
                                             {"dense_pairs", 0.0407},        {"dense_dynamic", 0.0001},
                                             {"runtime/net", 0.0128},        {"runtime/gemm_uint8", 1.01},
                                             {"runtime/gemm_columns", 1.01}, {"runtime/integer_to_float", 0.0002}};
  for (const auto& [name, level] : levels) {
    CAPTURE(name);
    const fs::path data = folder(name) / "test_data_set_0";
    onnx::format::ValueInfo tensor;
    const auto read = [&](const char* file) {
      return onnx::format::read_data(data / file, tensor).tensors[0].values();
    };
    onnx::Block net = onnx::load(folder(name) / "model.onnx");
    const NDArray x = read("input_0.pb"), y = read("output_0.pb");
    for (const bool hybridized : {true, false}) {
      net.hybridize(hybridized);
      CHECK(nd.max(nd.abs(net(x).astype(DType::float32) - y.astype(DType::float32))).asscalar<double>() < level);
    }
  }
}

TEST_CASE("onnx quantised: layers of whole numbers round to even, move by the zero point and stop at the last level",
          "[onnx]") {
  const NDArray x = nd.array({{1, 2, 3}, {255, 255, 255}}).astype(DType::uint8);
  const NDArray w = nd.array({{1, 1, 1}, {-1, -1, -1}, {127, 127, 127}}).astype(DType::int8);
  const NDArray bias = nd.array({1, 0, 0}).astype(DType::int32), scale = nd.array({0.5, 0.5, 1});
  const std::vector<NDArray> inputs{x, w, bias, scale};
  op::IntegerDense dense{.num_hidden = 3};
  CHECK(run_layer(dense, inputs).asvector<float>() == std::vector<float>{3.5, -3, 762, 383, -382.5, 97155});
  dense.out_type = DType::int32;
  CHECK(run_layer(dense, inputs).asvector<int32_t>() == std::vector<int32_t>{7, -6, 762, 766, -765, 97155});
  dense.out_type = DType::uint8;
  CHECK(run_layer(dense, inputs).asvector<uint8_t>() == std::vector<uint8_t>{4, 0, 255, 255, 0, 255});
  dense.zero = 11;
  CHECK(run_layer(dense, inputs).asvector<uint8_t>() == std::vector<uint8_t>{15, 8, 255, 255, 0, 255});
  dense.relu = true;
  CHECK(run_layer(dense, inputs).asvector<uint8_t>() == std::vector<uint8_t>{15, 11, 255, 255, 11, 255});
  dense.out_type = DType::int8;
  dense.zero = -128;
  CHECK(run_layer(dense, inputs).asvector<int8_t>() == std::vector<int8_t>{-124, -128, 127, 127, -128, 127});
  dense.out_type = DType::float16;
  CHECK_THROWS_WITH(run_layer(dense, inputs), Catch::Contains("out_type must be"));

  // a convolution of one position is the dense layer
  op::IntegerConv conv{.kernel = Shape(1, 1), .num_filter = 3, .out_type = DType::int32};
  const std::vector<NDArray> images{x.reshape({2, 3, 1, 1}), w.reshape({3, 3, 1, 1}), bias, scale};
  CHECK(run_layer(conv, images).asvector<int32_t>() == std::vector<int32_t>{7, -6, 762, 766, -765, 97155});
}

}  // namespace onnx_quantised_test
