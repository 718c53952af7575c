// Dimensions of any size in files that are written: what follows from the sizes is computed, all else is refused.
#include <catch2/catch.hpp>

#include <filesystem>
#include <functional>

#include "kaon/gluon/model_zoo/bert.h"
#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_any_size_test {

using namespace kaon;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;

namespace {

void check_close(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  if (a.size() == 0) return;
  CHECK(nd.max(nd.abs(a.astype(DType::float64) - b.astype(DType::float64))).asscalar<double>() < 1e-5);
}

// A program of x (2, 3, 4), whose first two dimensions are named, and what it is of other sizes: computed on variables
// of these shapes.
struct Row {
  const char* name;
  std::function<Symbol(const Symbol&)> make;
};

const Row rows[] = {
    {"reshape by codes",
     [](const Symbol& x) {
       return sym.reshape(x, {0, -1});
     }},
    {"reshape that merges",
     [](const Symbol& x) {
       return sym.reshape(x, {-3, 0});
     }},
    {"reshape that splits",
     [](const Symbol& x) {
       return sym.reshape(x, {0, 0, -4, 2, 2});
     }},
    {"merged and split",
     [](const Symbol& x) {
       return sym.reshape(sym.transpose(x, {2, 0, 1}), {-4, 2, 2, -3});
     }},
    {"slice to the end", [](const Symbol& x) { return sym.slice_axis(x, 1, 1, std::nullopt); }},
    {"slice from behind", [](const Symbol& x) { return sym.slice_axis(x, 1, -2, -1); }},
    {"slice_like",
     [](const Symbol& x) {
       return sym.slice_like(sym.tile(x, {2, 2, 1}), x);
     }},
    {"broadcast_like",
     [](const Symbol& x) { return sym.broadcast_like(sym.mean(x, {.axis = Shape(0), .keepdims = true}), x); }},
    {"zeros of its shape", [](const Symbol& x) { return x + sym.zeros_like(x); }},
    {"softmax", [](const Symbol& x) { return sym.softmax(x); }},
    {"positions",
     [](const Symbol& x) {
       return x + sym.reshape(sym.arange_like(x, {.axis = 1}), {1, -1, 1});
     }},
    {"sum over a named axis", [](const Symbol& x) { return sym.sum(x, {.axis = Shape(1)}); }},
    {"tiled",
     [](const Symbol& x) {
       return sym.tile(x, {1, 2, 3});
     }},
    {"groups of channels behind a stride",
     [](const Symbol& x) {
       const Symbol y = sym.Pooling(sym.transpose(x, {0, 2, 1}), {.kernel = Shape(1), .stride = Shape(2)});
       return sym.GroupNorm(y, Symbol::constant(nd.array({1.0, 2.0})), Symbol::constant(nd.array({0.0, 1.0})),
                            {.num_groups = 2});
     }},
    {"stacked and flat", [](const Symbol& x) { return sym.flatten(sym.stack({.axis = 1}, x, x * 2.0)); }},
};

}  // namespace

TEST_CASE("onnx any size: programs hold for other sizes") {
  test::ScratchFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Symbol program = row.make(sym.var("x", {2, 3, 4}));
    const fs::path file = folder / "any.onnx";
    onnx::save(program, {{"x", {Shape(2, 3, 4), DType::float32}}}, {}, file,
               {.named = {{"x", 0, "n"}, {"x", 1, "steps"}}});
    onnx::Block back = onnx::load(file);
    CHECK(back.inputs().at(0).shape == Shape(-1, -1, 4));
    CHECK(back.inputs().at(0).dim_names == std::vector<std::string>{"n", "steps", ""});
    for (const Shape& shape :
         {Shape(2, 3, 4), Shape(1, 3, 4), Shape(5, 2, 4), Shape(3, 7, 4), Shape(4, 4, 4), Shape(0, 3, 4)}) {
      CAPTURE(shape.str());
      gluon::SymbolBlock own(row.make(sym.var("x")), {"x"});
      const NDArray x = nd.random_normal(shape);
      check_close(back(x), own(x));
    }
  }
}

TEST_CASE("onnx any size: what depends on a size otherwise is refused by name") {
  test::ScratchFolder folder;
  const fs::path file = folder / "no.onnx";
  const auto save = [&](const Symbol& program) {
    onnx::save(program, {{"x", {Shape(2, 4), DType::float32}}}, {}, file, {.batch_name = "n"});
  };
  const Symbol x = sym.var("x", {2, 4});
  // a size that a program says itself
  CHECK_THROWS_WITH(save(sym.broadcast_add(x, sym.zeros({2, 1}))), Catch::Contains("n = 2"));
  CHECK_THROWS_WITH(save(sym.dot(x, sym.random_uniform({2, 4}), {.transpose_a = true})), Catch::Contains("n = 3"));
  CHECK_THROWS_WITH(save(sym.squeeze(sym.expand_dims(x, 1))), Catch::Contains("for n = 1 it has (4)"));
  CHECK_FALSE(fs::exists(file));
  const std::vector<std::pair<std::string, TensorMeta>> both{{"x", {Shape(2, 4), DType::float32}},
                                                             {"y", {Shape(3, 4), DType::float32}}};
  const Symbol sum = sym.concat({.dim = 0}, x, sym.var("y", {3, 4}));
  CHECK_THROWS_WITH(onnx::save(sum, both, {}, file, {.batch_name = "n"}),
                    Catch::Contains("n is 2 on axis 0 of x and 3 on axis 0 of y"));
  onnx::save(sum, both, {}, file, {.named = {{"x", 0, "n"}, {"y", 0, "m"}}});
  onnx::Block back = onnx::load(file);
  CHECK(back.outputs().at(0).dim_names.at(0).empty());  // n + m has no name
  CHECK(back.forward({nd.ones({5, 4}), nd.ones({1, 4})})[0].shape() == Shape(6, 4));
  CHECK_THROWS_WITH(onnx::save(sum, both, {}, file, {.named = {{"z", 0, "n"}}}), Catch::Contains("inputs: x, y"));
  CHECK_THROWS_WITH(onnx::save(sum, both, {}, file, {.named = {{"x", 2, "n"}}}),
                    Catch::Contains("axis 2 of the input x"));
  CHECK_THROWS_WITH(onnx::save(sum, both, {}, file, {.named = {{"x", 0, "n"}, {"x", -2, "m"}}}),
                    Catch::Contains("has two names"));
  CHECK_THROWS_WITH(
      onnx::save(sum, both, {}, file, {.named = {{"x", 0, "a"}, {"x", 1, "b"}, {"y", 0, "c"}, {"y", 1, "d"}}}),
      Catch::Contains("at most 3 names"));
}

namespace {

// Reads the size of its input.
struct Reading : gluon::HybridBlock<Reading> {
  nn::Dense last = child("last", nn::Dense(5));
  auto hybrid_forward(auto F, auto x) {
    const int64_t n = x.shape()[0];
    return last(F.reshape(x, {n, -1})) * (1.0 / double(n));
  }
};

struct Halves : gluon::HybridBlock<Halves> {
  auto hybrid_forward(auto F, auto x) { return F.reshape(x, {x.shape()[0], x.shape()[1], 2, x.shape()[2] / 2}); }
};

// Attention to what came before.
struct Causal : gluon::HybridBlock<Causal> {
  auto hybrid_forward(auto F, auto x) {
    const auto step = F.arange(0, double(x.shape()[1]));
    const auto mask = F.broadcast_lesser_equal(F.expand_dims(step, 0), F.expand_dims(step, 1));
    const auto scores = F.batch_dot(x, x, {.transpose_b = true});
    return F.batch_dot(F.softmax(F.broadcast_add(scores, F.expand_dims((mask - 1.0) * 1e9, 0))), x);
  }
};

// Of even sizes.
struct Even : gluon::HybridBlock<Even> {
  auto hybrid_forward(auto F, auto x) { return F.reshape(x, {0, -4, -1, 2, 0}); }
};

struct FirstTen : gluon::HybridBlock<FirstTen> {
  auto hybrid_forward(auto, auto x) { return x(range(), range(0, 10)); }
};

struct Longer : gluon::HybridBlock<Longer> {
  auto hybrid_forward(auto F, auto x) { return x.shape()[1] < 8 ? x : F.relu(x); }
};

struct Eights : gluon::HybridBlock<Eights> {
  auto hybrid_forward(auto F, auto x) { return x.shape()[1] % 8 == 0 ? F.relu(x) : F.tanh(x); }
};

struct Steps : gluon::HybridBlock<Steps> {
  gluon::rnn::LSTM lstm = child("lstm", gluon::rnn::LSTM(6, {.layout = gluon::rnn::Layout::NTC}));
  nn::Dense last = child("last", nn::Dense(3, {.flatten = false}));
  auto hybrid_forward(auto, auto x) { return last(lstm(x)); }
};

}  // namespace

TEST_CASE("onnx any size: a block that reads shapes is traced for those that are compared") {
  test::ScratchFolder folder;
  Reading net;
  net.initialize(init::Xavier());
  net.hybridize();
  net(nd.random_normal({2, 3, 2}));
  const fs::path file = folder / "net.onnx";
  onnx::save(net, file, {.batch_name = "n"});  // computes 1 / n
  const NDArray many = nd.random_normal({7, 3, 2});
  check_close(onnx::load(file)(many), net(many));
  onnx::save(net, file, {.shapes = {{5, 3, 2}}});
  const NDArray x = nd.random_normal({5, 3, 2});
  check_close(onnx::load(file)(x), net(x));

  const auto save = [&](auto block, const char* name) {
    block.hybridize();
    block(nd.random_normal({2, 3, 4}));
    onnx::save(block, file, {.named = {{"data", 1, name}}});
    for (const int64_t steps : {1, 3, 8, 30}) {
      CAPTURE(steps);
      const NDArray y = nd.random_normal({2, steps, 4});
      check_close(onnx::load(file)(y), block(y));
    }
  };
  save(Halves(), "steps");
  save(Causal(), "steps");
  CHECK_THROWS_WITH(onnx::save(static_cast<const gluon::Block&>(net), file, {.batch_name = "n"}),
                    Catch::Contains("give the net itself"));
  Even even;
  even.hybridize();
  even(nd.random_normal({2, 4, 3}));
  onnx::save(even, file, {.named = {{"data", 1, "steps"}}});
  const NDArray z = nd.random_normal({2, 10, 3});
  check_close(onnx::load(file)(z), even(z));
  // limits of sizes that were not called
  CHECK_THROWS_WITH(save(FirstTen(), "steps"), Catch::Contains("steps cannot have any size"));
  CHECK_THROWS_WITH(save(Longer(), "steps"), Catch::Contains("steps cannot have any size"));
  CHECK_THROWS_WITH(save(Eights(), "steps"), Catch::Contains("steps cannot have any size"));
}

TEST_CASE("onnx any size: recurrent nets and BERT for any batch and number of steps") {
  test::ScratchFolder folder;
  const fs::path file = folder / "net.onnx";
  Steps net;
  net.initialize(init::Xavier());
  net.hybridize();
  const auto x = nd.random_normal({2, 3, 4});
  net(x);
  onnx::save(net, file, {.named = {{"data", 0, "n"}, {"data", 1, "steps"}}});
  onnx::Block back = onnx::load(file);
  for (const Shape& shape : {Shape(2, 3, 4), Shape(1, 5, 4), Shape(4, 1, 4)}) {
    CAPTURE(shape.str());
    const NDArray y = nd.random_normal(shape);
    check_close(back(y), net(y));
  }

  gluon::model_zoo::text::BERT bert(
      {.vocab_size = 50, .max_length = 16, .units = 8, .hidden_size = 12, .num_layers = 2, .num_heads = 2});
  bert.initialize(init::Xavier());
  bert.hybridize();
  const auto ask = [](int64_t n, int64_t steps) {
    const NDArray tokens = nd.random_randint(0, 50, {n, steps}).astype(DType::float32);
    return std::array{tokens, nd.zeros({n, steps}), nd.full({n}, double(steps - 1))};
  };
  const auto first = ask(2, 6);
  bert(first[0], first[1], first[2]);
  onnx::save(bert, file, {.batch_name = "n", .named = {{"data0", 1, "steps"}, {"data1", 1, "steps"}}});
  onnx::Block loaded = onnx::load(file);
  for (const auto& [n, steps] : {std::pair(2, 6), std::pair(1, 9), std::pair(5, 2)}) {
    CAPTURE(n, steps);
    const auto in = ask(n, steps);
    const auto [own, own_pooled] = bert(in[0], in[1], in[2]);
    const std::vector<NDArray> got = loaded.forward({in[0], in[1], in[2]});
    check_close(got.at(0), own);
    check_close(got.at(1), own_pooled);
  }
}

}  // namespace onnx_any_size_test
