#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/rnn/rnn.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"
#include "kaon/tests/gluon/rnn/everything.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace recurrent_layer_test {

using namespace kaon;
using namespace kaon::test;
namespace rnn = kaon::gluon::rnn;
using rnn::Layout;

namespace {

std::vector<std::string> names_of(const gluon::Block& block) {
  std::vector<std::string> names;
  for (const auto& p : block.collect_params()) names.push_back(p.name() + " " + p.shape().str());
  return names;
}

// The layer imperatively, hybridized, and as unrolled cells that share its parameters.
template <class L>
void check_layer(L layer, Layout layout, int64_t batch, int64_t length, bool with_lengths) {
  layer.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal(layout == Layout::TNC ? Shape(length, batch, 3) : Shape(batch, length, 3));
  List states;
  for (const auto& s : layer.state_info(batch)) states.push_back(nd.random_normal(s.shape));
  std::vector<float> ends;
  for (int64_t i = 0; i < batch; ++i) ends.push_back(float(1 + i % length));
  const NDArray lengths = nd.array(ends);
  auto run = [&](NDArray in, List s) { return with_lengths ? layer(in, s, lengths) : layer(in, s); };
  run(x, states);
  const auto expected = everything(layer, x, states, run);
  layer.hybridize({.static_alloc = true, .static_shape = true});
  require_all_close(everything(layer, x, states, run), expected);
  layer.hybridize(false);

  // The states of the cells, in the order of layers and directions, are rows of the layer's.
  const auto cells = layer.unfuse();
  const size_t kinds = states.size();
  auto unrolled = [&](NDArray in, List s) {
    List own;
    for (int64_t cell = 0; cell < s[0].shape()[0]; ++cell) {
      for (const NDArray& kind : s) own.push_back(kind[cell]);
    }
    std::optional<NDArray> valid;
    if (with_lengths) valid = lengths;
    auto [y, next] = cells.unroll(length, in, own, layout, valid);
    List stacked;
    for (size_t k = 0; k < kinds; ++k) {
      List rows;
      for (size_t i = k; i < next.size(); i += kinds) rows.push_back(next[i]);
      stacked.push_back(nd.stack(rows));
    }
    return std::pair(y, stacked);
  };
  auto got = everything(layer, x, states, unrolled);
  require_all_close(got, expected);
}

struct Model : gluon::HybridBlock<Model> {
  gluon::nn::Embedding embedding = child("embedding", gluon::nn::Embedding(4, 8));
  rnn::LSTM lstm = child("lstm", rnn::LSTM(16, {.layout = Layout::NTC}));
  gluon::nn::Dense out = child("out", gluon::nn::Dense(4, {.flatten = false}));
  auto hybrid_forward(auto, auto x) { return out(lstm(embedding(x))); }
};

}  // namespace

TEST_CASE("recurrent layers: parameters have MXNet's names and shapes", "[gluon]") {
  CHECK(names_of(rnn::GRU(2, {.num_layers = 2, .input_size = 3})) ==
        std::vector<std::string>{"l0_i2h_weight (6, 3)", "l0_h2h_weight (6, 2)", "l0_i2h_bias (6,)", "l0_h2h_bias (6,)",
                                 "l1_i2h_weight (6, 2)", "l1_h2h_weight (6, 2)", "l1_i2h_bias (6,)",
                                 "l1_h2h_bias (6,)"});
  CHECK(names_of(rnn::RNN(2, {.num_layers = 2, .bidirectional = true})) ==
        std::vector<std::string>{"l0_i2h_weight (2, 0)", "l0_h2h_weight (2, 2)", "l0_i2h_bias (2,)", "l0_h2h_bias (2,)",
                                 "r0_i2h_weight (2, 0)", "r0_h2h_weight (2, 2)", "r0_i2h_bias (2,)", "r0_h2h_bias (2,)",
                                 "l1_i2h_weight (2, 4)", "l1_h2h_weight (2, 2)", "l1_i2h_bias (2,)", "l1_h2h_bias (2,)",
                                 "r1_i2h_weight (2, 4)", "r1_h2h_weight (2, 2)", "r1_i2h_bias (2,)",
                                 "r1_h2h_bias (2,)"});
  CHECK(names_of(rnn::LSTM(4, {.projection_size = 3})) ==
        std::vector<std::string>{"l0_i2h_weight (16, 0)", "l0_h2h_weight (16, 3)", "l0_i2h_bias (16,)",
                                 "l0_h2h_bias (16,)", "l0_h2r_weight (3, 4)"});
  const rnn::LSTM lstm(4, {.num_layers = 2, .bidirectional = true, .projection_size = 3});
  REQUIRE(lstm.state_info(5).size() == 2);
  CHECK(lstm.state_info(5)[0].shape == Shape(4, 5, 3));
  CHECK(lstm.state_info(5)[1].shape == Shape(4, 5, 4));
  CHECK(lstm.state_info(5)[0].layout == "LNC");
  CHECK(lstm.begin_state(5, {.init = init::One()})[1].sum().asscalar<float>() == 80);
}

TEST_CASE("recurrent layers: the first input says how wide it is", "[gluon]") {
  for (bool active : {false, true}) {
    rnn::GRU layer(2, {.layout = Layout::NTC, .bidirectional = true});
    layer.initialize();
    layer.hybridize(active);
    CHECK(layer(nd.ones({3, 4, 5})).shape() == Shape(3, 4, 4));
    CHECK(layer.collect_params().get("l0_i2h_weight").shape() == Shape(6, 5));
    CHECK(layer.collect_params().get("r0_i2h_weight").shape() == Shape(6, 5));
    CHECK_THROWS_AS(layer(nd.ones({3, 4, 6})), ShapeError);
  }
}

TEST_CASE("recurrent layers: the same hybridized, and as unrolled cells", "[gluon]") {
  const auto all = [](int64_t batch, int64_t length, bool lengths) {
    for (Layout layout : {Layout::TNC, Layout::NTC}) {
      for (bool both : {false, true}) {
        for (int layers : {1, 2}) {
          INFO(int(layout) << both << layers << lengths << " batch " << batch << " length " << length);
          check_layer(rnn::RNN(2, {.num_layers = layers,
                                   .activation = "tanh",
                                   .layout = layout,
                                   .bidirectional = both,
                                   .use_sequence_length = lengths}),
                      layout, batch, length, lengths);
          check_layer(
              rnn::GRU(2,
                       {.num_layers = layers, .layout = layout, .bidirectional = both, .use_sequence_length = lengths}),
              layout, batch, length, lengths);
          check_layer(
              rnn::LSTM(
                  2, {.num_layers = layers, .layout = layout, .bidirectional = both, .use_sequence_length = lengths}),
              layout, batch, length, lengths);
          check_layer(rnn::LSTM(4, {.num_layers = layers,
                                    .layout = layout,
                                    .bidirectional = both,
                                    .projection_size = 2,
                                    .use_sequence_length = lengths}),
                      layout, batch, length, lengths);
        }
      }
    }
  };
  SECTION("several sequences") { all(3, 4, false); }
  SECTION("one step of one sequence") { all(1, 1, false); }
  SECTION("sequences of different lengths") { all(3, 4, true); }
}

TEST_CASE("recurrent layers: zero states are the default, in one plan for any batch", "[gluon][traces]") {
  rnn::LSTM layer(3, {.num_layers = 2});
  layer.initialize();
  const NDArray x = nd.random_normal({4, 2, 3});
  const NDArray y = layer(x);
  auto [same, states] = layer(x, layer.begin_state(2));
  CHECK(values(same) == values(y));
  CHECK(values(layer(x, List()).first) == values(y));
  CHECK(states.size() == 2);
  layer.hybridize();
  for (int64_t batch : {2, 5, 1, 0}) {
    const NDArray some = nd.random_normal({4, batch, 3});
    CHECK(layer(some).shape() == Shape(4, batch, 3));
  }
  require_close(layer(x), values(y));
}

TEST_CASE("recurrent layers: a batch of no sequences", "[gluon]") {
  for (bool active : {false, true}) {
    rnn::GRU layer(3, {.bidirectional = true, .input_size = 2});
    layer.initialize();
    layer.hybridize(active);
    auto [y, states] = layer(nd.zeros({4, 0, 2}), layer.begin_state(0));
    CHECK(y.shape() == Shape(4, 0, 6));
    CHECK(states[0].shape() == Shape(2, 0, 3));
  }
}

TEST_CASE("recurrent layers: other dtypes", "[gluon]") {
  const NDArray x = nd.random_normal({4, 2, 3});
  for (bool active : {false, true}) {
    for (DType dtype : {DType::float64, DType::float16, DType::bfloat16}) {
      rnn::LSTM layer(3, {.num_layers = 2, .bidirectional = true});
      layer.initialize(init::Uniform(0.5));
      const auto expected = values(layer(x));
      INFO(name_of(dtype) << " " << active);
      layer.cast(dtype);
      layer.hybridize(active);
      const NDArray y = layer(x.astype(dtype));
      CHECK(y.dtype() == dtype);
      CHECK(layer.begin_state(2)[0].dtype() == dtype);
      const double tolerance = dtype == DType::bfloat16 ? 3e-2 : dtype == DType::float16 ? 3e-3 : 1e-5;
      require_close(y, expected, tolerance, tolerance);
    }
  }
}

TEST_CASE("recurrent layers: dropout is between layers and in training alone", "[gluon]") {
  rnn::LSTM layer(8, {.num_layers = 2, .dropout = 0.5}), one(8, {.dropout = 0.5});
  layer.initialize(init::Uniform(0.5));
  one.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({3, 2, 4});
  CHECK(values(layer(x)) == values(layer(x)));
  autograd::record([&] {
    CHECK(values(layer(x)) != values(layer(x)));
    CHECK(values(one(x)) == values(one(x)));
  });
}

TEST_CASE("recurrent layers: files and exports give the same net", "[gluon]") {
  ScratchFolder folder;
  const rnn::LSTMOptions options{.num_layers = 2, .layout = Layout::NTC, .bidirectional = true};
  rnn::LSTM layer(3, options), other(3, options);
  layer.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({2, 4, 3});
  const auto expected = values(layer(x));
  layer.save_parameters(folder / "layer.params");
  other.load_parameters(folder / "layer.params");
  CHECK(values(other(x)) == expected);
  layer.hybridize();
  layer(x);
  layer.export_model((folder / "model").string());
  auto net = gluon::SymbolBlock::imports(folder / "model-symbol.json", {"data"}, folder / "model-0000.params");
  require_close(net(x), expected);
  require_close(net(nd.concat({.dim = 0}, x, x)), [&] {
    std::vector<double> twice = expected;
    twice.insert(twice.end(), expected.begin(), expected.end());
    return twice;
  }());
}

TEST_CASE("recurrent layers: a language model learns by TrainingStep", "[gluon]") {
  Model net;
  net.initialize(init::Uniform(0.3));
  const NDArray x = nd.array({{0, 1, 2, 3, 0, 1, 2}, {2, 3, 0, 1, 2, 3, 0}});
  const NDArray y = nd.array({{1, 2, 3, 0, 1, 2, 3}, {3, 0, 1, 2, 3, 0, 1}});
  net(x);
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.05}));
  gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer);
  const double before = step(x, y).mean().asscalar<float>();
  for (int i = 0; i < 60; ++i) step(x, y);
  CHECK(step(x, y).mean().asscalar<float>() < 0.1 * before);
}

}  // namespace recurrent_layer_test
