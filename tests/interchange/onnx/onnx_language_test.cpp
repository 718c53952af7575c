// ONNX Runtime's operators of language models: what is kept between calls and programs, and what is refused. The values
// are ONNX Runtime's, which onnx_sample compares (data/onnx/language, by onnx_suite/write_language.py).
#include <catch2/catch.hpp>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/ops/quant/kernels/block_dense.h"
#include "kaon/tests/interchange/onnx/one_node.h"

namespace onnx_language_test {

using namespace kaon;
using namespace kaon::test;
using proto::ElementType;

namespace {

constexpr auto f32 = ElementType::float32;
constexpr auto i32 = ElementType::int32;

NDArray int32s(const std::vector<int32_t>& values, const Shape& shape) {
  return NDArray::from(values.data(), values.size(), shape, DType::int32);
}

// 20 numbers of 4 bits for each of 3 outputs, in blocks of 16, as bytes: 3 rows of 2 blocks of 8 bytes.
OneNode packed_product(std::vector<proto::Attribute> attributes = {integer("K", 20), integer("N", 3),
                                                                   integer("bits", 4), integer("block_size", 16)},
                       size_t bytes = 48) {
  std::vector<uint8_t> packed(bytes);
  for (size_t i = 0; i < bytes; ++i) packed[i] = uint8_t(i * 37);
  const auto rows = int64_t(bytes / 16);
  return OneNode("com.microsoft", "MatMulNBits", {{"x", f32}, {"b", ElementType::uint8}, {"s", f32}}, 1,
                 std::move(attributes),
                 {tensor<uint8_t>("b", ElementType::uint8, {rows, 2, 8}, packed),
                  tensor<float>("s", f32, {3, 2}, {1, 2, 0.5, 0.25, 3, 1})});
}

}  // namespace

TEST_CASE("onnx language: packed weights stay packed, the same array for all programs of a model", "[onnx]") {
  const onnx::Block block = packed_product().load();
  const std::vector<float> scale{1, 2, 0.5, 0.25, 3, 1};
  for (const int64_t rows : {1, 4, 7}) {
    const NDArray x = nd.random_normal({rows, 20});
    const std::vector<float> a = x.asvector<float>(), y = block(x).asvector<float>();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t n = 0; n < 3; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < 20; ++k) {
          const auto byte = uint8_t((n * 16 + k / 2) * 37);
          const int code = k % 2 == 0 ? byte & 15 : byte >> 4;
          sum += double(a[size_t(i * 20 + k)]) * (code - 8) * double(scale[size_t(n * 2 + k / 16)]);
        }
        CHECK(y[size_t(i * 3 + n)] == Approx(sum).margin(1e-4));
      }
    }
  }
  // the same array in the programs of two batches, and no other of its size
  const auto weight = [&](int64_t rows) {
    const uint8_t* found = nullptr;
    const Symbol program = block.specialize({Shape(rows, 20)}).program();
    for (const graph::SymbolNode* n : graph::topological_order(program.entries())) {
      if (!n->constant.defined()) continue;
      CHECK(n->constant.shape() != Shape(3, 20));
      if (n->constant.shape() == Shape(3, 2, 8)) found = n->constant.data<const uint8_t>().data();
    }
    return found;
  };
  CHECK(weight(2) != nullptr);
  CHECK(weight(2) == weight(5));
}

TEST_CASE("onnx language: products with packed weights are written as they were read", "[onnx]") {
  const ScratchFolder folder;
  const auto path = folder / "written.onnx";
  for (const bool has_rows : {true, false}) {
    gluon::SymbolBlock net = packed_product().load().specialize({has_rows ? Shape(4, 20) : Shape(20)});
    const NDArray x = nd.random_normal(has_rows ? Shape(4, 20) : Shape(20));
    net.hybridize();
    const std::vector<float> y = net(x).asvector<float>();
    onnx::save(net, path);
    const onnx::Block again = onnx::load(path);
    CHECK(again.summary().operators.at("com.microsoft.MatMulNBits") == 1);
    CHECK(again.summary().opsets.at("com.microsoft") == 1);
    CHECK(again.summary().unsupported.empty());
    CHECK(again(x).asvector<float>() == y);
  }
  // of any number of rows, with zero points and a bias, which have another dtype than the scales
  const op::BlockQuantizedDense op{.bits = 4, .block_size = 16, .has_zeros = true, .no_bias = false};
  const NDArray codes = nd.random_randint(0, 256, {3, 2, 8}).astype(DType::uint8);
  const NDArray scales = nd.random_normal({3, 2}).astype(DType::float16), zeros = nd.random_normal({3, 2}) + 8.0;
  const Symbol x = Symbol::variable("x");
  const std::vector<Symbol> inputs{x, Symbol::constant(codes), Symbol::constant(scales), Symbol::constant(zeros),
                                   Symbol::constant(nd.random_normal({3}))};
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  Symbol y;
  Symbol::apply(op::BlockQuantizedDense::def, &op, pointers, std::span(&y, 1), std::source_location::current(), "y");
  onnx::save(y, {{"x", {Shape(4, 20), DType::float32}}}, {}, path, {.batch_name = "rows"});
  const onnx::Block again = onnx::load(path);
  CHECK(again.summary().operators.at("com.microsoft.MatMulNBits") == 1);
  CHECK(again.inputs()[0].dim_names[0] == "rows");
  for (const int64_t rows : {1, 7, 33}) {
    const NDArray data = nd.random_normal({rows, 20});
    const NDArray want = nd.dot(data, again(nd.eye(20)) - again(nd.zeros({20, 20})));
    const NDArray bias = again(nd.zeros({1, 20}));
    CHECK(nd.max(nd.abs(again(data) - nd.broadcast_add(want, bias))).asscalar<float>() < 1e-4f);
  }
}

TEST_CASE("onnx language: packed weights that do not fit are refused", "[onnx]") {
  const NDArray x = nd.ones({2, 20});
  const auto fails = [&](const OneNode& node, const std::string& why) {
    CHECK_THROWS_WITH(node.load()(x), Catch::Contains(why) && Catch::Contains("the_node"));
  };
  const auto with = [](int64_t k, int64_t n, int64_t bits, int64_t block) {
    return std::vector{integer("K", k), integer("N", n), integer("bits", bits), integer("block_size", block)};
  };
  fails(packed_product(with(20, 3, 3, 16)), "bits 3 is not supported");
  fails(packed_product(with(20, 3, 4, 24)), "block_size is 24");
  fails(packed_product(with(21, 3, 4, 16)), "K is 21 and N 3 for A of shape (2, 20)");
  fails(packed_product(with(20, 3, 4, 16), 32), "input 1 of shape (3, 2, 8) expected, got (2, 2, 8)");
  auto prepacked = with(20, 3, 4, 16);
  prepacked.push_back(integer("weight_prepacked", 1));
  fails(packed_product(prepacked), "weight_prepacked is not supported");
  CHECK_THROWS_WITH(OneNode("com.microsoft", "MatMulNBits",
                            {{"x", ElementType::float64}, {"b", ElementType::uint8}, {"s", f32}}, 1, with(20, 3, 4, 16),
                            {tensor<uint8_t>("b", ElementType::uint8, {3, 2, 8}, std::vector<uint8_t>(48)),
                             tensor<float>("s", f32, {3, 2}, std::vector<float>(6))})
                        .load()(x.astype(DType::float64)),
                    Catch::Contains("A of float32, float16 or bfloat16 expected, got float64"));
}

TEST_CASE("onnx language: a cache of a fixed size is filled step by step", "[onnx]") {
  constexpr int64_t heads = 4, own = 2, d = 16, capacity = 12, batch = 2;
  const onnx::Block block =
      OneNode("com.microsoft", "GroupQueryAttention",
              {{"q", f32}, {"k", f32}, {"v", f32}, {"pk", f32}, {"pv", f32}, {"lengths", i32}, {"total", i32}}, 3,
              {integer("num_heads", heads), integer("kv_num_heads", own)})
          .load();
  const NDArray q = nd.random_normal({batch, capacity, heads * d}), k = nd.random_normal({batch, capacity, own * d}),
                v = nd.random_normal({batch, capacity, own * d});
  const auto split = [&](const NDArray& x, int64_t n) {
    return nd.transpose(x.reshape({batch, capacity, n, d}), Shape(0, 2, 1, 3));
  };
  const NDArray whole = nd.scaled_dot_product_attention(split(q, heads), split(k, own), split(v, own),
                                                        {.causal = CausalMask::upper_left});
  const NDArray expected = nd.transpose(whole, Shape(0, 2, 1, 3)).reshape({batch, capacity, heads * d});
  NDArray keys = nd.zeros({batch, own, capacity, d}), values = nd.zeros({batch, own, capacity, d});
  const auto run = [&](int64_t from, int64_t to) {
    const auto part = [&](const NDArray& x) { return nd.slice_axis(x, 1, from, to); };
    const auto last = int32_t(to - 1);
    const auto outputs = block.forward(
        {part(q), part(k), part(v), keys, values, int32s({last, last}, {batch}), int32s({int32_t(to)}, Shape())});
    keys = outputs[1], values = outputs[2];
    CHECK(nd.max(nd.abs(outputs[0] - part(expected))).asscalar<float>() < 1e-5f);
  };
  run(0, 5);
  for (int64_t step = 5; step < capacity; ++step) run(step, step + 1);
  CHECK(nd.max(nd.abs(keys - split(k, own))).asscalar<float>() == 0);
}

TEST_CASE("onnx language: experts that do not fit are refused", "[onnx]") {
  const auto fails = [](const std::vector<proto::Attribute>& attributes, const Shape& router, const Shape& first,
                        const std::string& why) {
    const OneNode node("com.microsoft", "MoE", {{"x", f32}, {"r", f32}, {"w1", f32}, {"", f32}, {"w2", f32}}, 1,
                       attributes);
    CHECK_THROWS_WITH(node.load().forward({nd.ones({2, 8}), nd.ones(router), nd.ones(first), nd.ones({3, 8, 16})}),
                      Catch::Contains(why) && Catch::Contains("the_node"));
  };
  const Shape router(2, 3), first(3, 16, 8);
  fails({integer("k", 4)}, router, first, "k is 4 of 3 experts");
  fails({integer("k", 1)}, Shape(3, 3), first, "router_probs of shape (3, 3) for 2 rows");
  fails({integer("k", 1)}, router, Shape(3, 16, 7),
        "fc1_experts_weights of shape (3, 16, 7) for 3 experts of 8 inputs");
  fails({integer("k", 1), text("activation_type", "tanh")}, router, first, "activation_type tanh is not supported");
  fails({integer("k", 1), text("activation_type", "swiglu")}, router, first, "swiglu_fusion 0 of 16 numbers");
}

TEST_CASE("onnx language: attention that is not computed is refused", "[onnx]") {
  const NDArray q = nd.ones({1, 2, 32}), k = nd.ones({1, 2, 16});
  const auto fails = [&](const std::vector<proto::Attribute>& attributes, const NDArray& key, const std::string& why) {
    const OneNode node("com.microsoft", "GroupQueryAttention",
                       {{"q", f32}, {"k", f32}, {"v", f32}, {"", f32}, {"", f32}, {"lengths", i32}, {"total", i32}}, 1,
                       attributes);
    CHECK_THROWS_WITH(node.load().forward({q, key, key, int32s({1}, {1}), int32s({2}, Shape())}), Catch::Contains(why));
  };
  const auto heads = [](int64_t n, int64_t own) {
    return std::vector{integer("num_heads", n), integer("kv_num_heads", own)};
  };
  const auto and_more = [&](const std::string& name, int64_t value) {
    auto all = heads(2, 1);
    all.push_back(integer(name, value));
    return all;
  };
  fails(heads(3, 2), k, "3 heads for 2");
  fails(heads(2, 1), nd.ones({1, 3, 16}), "input 1 of shape (1, 3, 16) beside a query of shape (1, 2, 32)");
  fails(and_more("sliding_window_cache", 1), k, "sliding_window_cache is not supported");
  fails(and_more("do_rotary", 1), k, "do_rotary needs cos_cache and sin_cache");
  auto window = and_more("local_window_size", 1);
  window.push_back(integer("causal", 0));
  fails(window, k, "local_window_size needs causal");

  const OneNode cross("com.microsoft", "MultiHeadAttention", {{"q", f32}, {"k", f32}, {"v", f32}}, 1,
                      {integer("num_heads", 2), integer("unidirectional", 1)});
  const NDArray more = nd.ones({1, 5, 32});
  CHECK_THROWS_WITH(cross.load().forward({q, more, more}),
                    Catch::Contains("unidirectional, of 2 queries and 5 keys, is not supported"));
}

}  // namespace onnx_language_test
