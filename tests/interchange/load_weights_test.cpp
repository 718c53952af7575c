#include "kaon/interchange/load_weights.h"

#include <fstream>

#include "kaon/gluon/rnn/rnn.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/interchange/torch_files.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/interchange/support.h"

namespace load_weights_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;
using gluon::Naming;

namespace {

// The net of the script.
nn::HybridSequential script_net() {
  return nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3}), nn::BatchNorm({.epsilon = 1e-5}),
                              nn::Activation("relu"), nn::Flatten(), nn::Dense(3), nn::LayerNorm());
}

// Its first layers, in one of the two layouts.
nn::HybridSequential head(bool channels_last) {
  return nn::HybridSequential(
      nn::Conv2D(4, {.kernel_size = 3, .layout = channels_last ? ConvLayout::NHWC : ConvLayout::NCHW}),
      nn::BatchNorm({.axis = channels_last ? 3 : 1, .epsilon = 1e-5}), nn::Activation("relu"));
}

NamedArrays with_prefix(const NamedArrays& all, const std::string& prefix) {
  NamedArrays some;
  for (const auto& [name, array] : all) {
    if (name.starts_with(prefix)) some.emplace_back(name.substr(prefix.size()), array);
  }
  return some;
}

}  // namespace

TEST_CASE("load_weights: PyTorch's state dict gives PyTorch's outputs", "[interchange]") {
  const NamedArrays file = torch_files::load(foreign_file("net.pt"));
  const NDArray x = find(file, "x");
  const std::vector<double> y = values(find(file, "y"));
  auto net = script_net();
  const auto report = gluon::load_weights(net, foreign_file("net_alone.pt"), {.naming = Naming::pytorch});
  CHECK(report.matched.size() == 10);
  CHECK(report.missing.empty());
  CHECK(report.extra.empty());
  require_close(net(x), y, 1e-4, 1e-5);
  // the same inside of a checkpoint, beside other tensors
  auto again = script_net();
  gluon::load_weights(again, file, {.strip_prefix = "state_dict.", .naming = Naming::pytorch, .ignore_extra = true});
  require_close(again(x), y, 1e-4, 1e-5);
}

TEST_CASE("load_weights: what a checkpoint has beside its tensors is said where a tensor is missing", "[interchange]") {
  const fs::path file = foreign_file("checkpoint.pt");
  nn::HybridSequential net(nn::Dense(2, {.in_units = 3}));
  const gluon::WeightOptions rules{.rename = {{"^net\\.", "0."}}, .ignore_extra = true};
  CHECK(gluon::load_weights(net, file, rules).matched.size() == 2);
  CHECK_THROWS_WITH(gluon::load_weights(net, file, {.rename = {{"^f8$", "0.weight"}}, .ignore_extra = true}),
                    Contains("that the file has and that are not read") && Contains("the tensor 'f8' at byte") &&
                        Contains("float8_e4m3fn"));
}

TEST_CASE("load_weights: kernels of channels last are turned by a rule", "[interchange]") {
  const NamedArrays file = torch_files::load(foreign_file("net.pt"));
  const NDArray x = find(file, "x");
  auto first = head(false), last = head(true);
  const gluon::WeightOptions options{.strip_prefix = "state_dict.", .naming = Naming::pytorch, .ignore_extra = true};
  gluon::load_weights(first, file, options);
  gluon::WeightOptions turned = options;
  turned.transpose = {{"0\\.weight", {0, 2, 3, 1}}};
  const auto report = gluon::load_weights(last, file, turned);
  CHECK(report.matched[0].is_changed);
  CHECK_FALSE(report.matched[1].is_changed);
  require_close(nd.transpose(last(nd.transpose(x, {0, 2, 3, 1})), {0, 3, 1, 2}), values(first(x)), 1e-5, 1e-6);
  turned.transpose = {{"0\\.weight", {0, 2, 2, 1}}};
  CHECK_THROWS_WITH(gluon::load_weights(last, file, turned), Contains("expected each axis of 'state_dict.0.weight'"));
}

TEST_CASE("load_weights: PyTorch's recurrent layers, and gates in another order", "[interchange]") {
  for (const char* name : {"lstm.pt", "gru.pt"}) {
    INFO(name);
    const NamedArrays file = torch_files::load(foreign_file(name));
    const NamedArrays weights = with_prefix(file, "net.");
    const NDArray x = find(file, "x");
    const auto check = [&](auto layer) {
      gluon::load_weights(layer, weights, {.naming = Naming::pytorch});
      require_close(layer(x), values(find(file, "y")), 1e-4, 1e-5);
      // weights in the order of ONNX come back by the rule
      const bool is_lstm = weights[0].second.shape()[0] == 16;
      const std::string own = is_lstm ? "ifgo" : "rzn", theirs = is_lstm ? "iofg" : "zrn";
      NamedArrays foreign;
      for (const auto& [tensor, array] : weights) {
        const int64_t rows = array.shape()[0] / int64_t(own.size());
        std::vector<NDArray> parts;
        for (char gate : theirs) {
          const auto at = int64_t(own.find(gate));
          parts.push_back(nd.slice_axis(array, 0, at * rows, (at + 1) * rows));
        }
        foreign.emplace_back(tensor, nd.concat(parts, {.dim = 0}));
      }
      gluon::load_weights(layer, foreign, {.naming = Naming::pytorch, .gates = {{".*", theirs, own}}});
      require_close(layer(x), values(find(file, "y")), 1e-4, 1e-5);
      CHECK_THROWS_WITH(
          gluon::load_weights(layer, weights, {.naming = Naming::pytorch, .gates = {{".*", "ifgo", "ifgg"}}}),
          Contains("the same letters"));
    };
    if (std::string_view(name) == "lstm.pt") {
      check(gluon::rnn::LSTM(4, {.num_layers = 2, .bidirectional = true}));
    } else {
      check(gluon::rnn::GRU(4, {.num_layers = 2, .bidirectional = true}));
    }
  }
}

TEST_CASE("load_weights: names by rules, a report of the rest, and nothing changed where it throws", "[interchange]") {
  nn::HybridSequential net(nn::Dense(3, {.in_units = 2}), nn::Dense(1, {.in_units = 3}));
  net.initialize(init::One());
  const auto weights = [](double v) {
    return NamedArrays{{"model.layers.0.w", nd.full({3, 2}, v)},
                       {"model.layers.0.b", nd.full({3}, v)},
                       {"model.layers.1.w", nd.full({1, 3}, v)},
                       {"model.layers.1.b", nd.full({1}, v)}};
  };
  const gluon::WeightOptions rules{.strip_prefix = "model.",
                                   .rename = {{"layers\\.(\\d+)", "$1"}, {"\\.w$", ".weight"}, {"\\.b$", ".bias"}}};
  const auto report = gluon::load_weights(net, weights(2), rules);
  CHECK(report.str() == "4 of 4 parameters have a tensor");
  CHECK(report.matched[0].parameter == "0.weight");
  CHECK(report.matched[0].tensor == "model.layers.0.w");
  CHECK(net.collect_params()[0].data().asvector<float>()[0] == 2);

  NamedArrays less = weights(3);
  less.pop_back();
  less.emplace_back("other", nd.ones({1}));
  CHECK_THROWS_WITH(gluon::load_weights(net, less, rules), Contains("1 parameters without a tensor: '1.bias'") &&
                                                               Contains("1 tensors that are of no parameter: 'other'"));
  CHECK(net.collect_params()[0].data().asvector<float>()[0] == 2);
  gluon::WeightOptions lax = rules;
  lax.allow_missing = lax.ignore_extra = true;
  CHECK(gluon::load_weights(net, less, lax).missing == std::vector<std::string>{"1.bias"});
  CHECK(net.collect_params()[0].data().asvector<float>()[0] == 3);
  CHECK(net.collect_params()[3].data().asvector<float>()[0] == 2);

  NamedArrays wrong = weights(4);
  wrong[0].second = nd.ones({2, 3});
  wrong[1].second = nd.ones({3}, {.dtype = DType::float64});
  CHECK_THROWS_AS(gluon::load_weights(net, wrong, rules), ShapeError);
  CHECK_THROWS_WITH(gluon::load_weights(net, wrong, rules),
                    Contains("'0.weight' (expected (3, 2), the tensor 'model.layers.0.w' has (2, 3))") &&
                        Contains("'0.bias' (expected float32, the tensor 'model.layers.0.b' has float64)"));
  CHECK(gluon::match_weights(net, wrong, rules).mismatched.size() == 2);
  wrong[0].second = nd.full({3, 2}, 4);
  CHECK_THROWS_AS(gluon::load_weights(net, wrong, rules), TypeError);
  CHECK(net.collect_params()[0].data().asvector<float>()[0] == 3);
  gluon::WeightOptions casts = rules;
  casts.cast_dtype = true;
  CHECK(gluon::load_weights(net, wrong, casts).matched[1].is_changed);
  CHECK(net.collect_params()[1].dtype() == DType::float32);
  casts.dtype_source = gluon::DTypeSource::saved;
  gluon::load_weights(net, wrong, casts);
  CHECK(net.collect_params()[1].dtype() == DType::float64);

  CHECK_THROWS_WITH(gluon::load_weights(net, weights(1), {.rename = {{"(", ""}}}),
                    Contains("'(' is no regular expression"));
  CHECK_THROWS_WITH(gluon::load_weights(net, {{"0.weight", nd.ones({3, 2})}, {"m.0.weight", nd.ones({3, 2})}},
                                        {.strip_prefix = "m."}),
                    Contains("both '0.weight' and 'm.0.weight' are for the parameter '0.weight'"));
  CHECK_THROWS_WITH(gluon::load_weights(net, {{std::string(100000, 'a'), nd.ones({1})}}, rules),
                    Contains("more than the 2000"));
}

TEST_CASE("load_weights: deferred parameters, tied ones and full names", "[interchange]") {
  nn::HybridSequential net(nn::Dense(3), nn::Dense(1));
  gluon::load_weights(net, {{"0.weight", nd.ones({3, 5})},
                            {"0.bias", nd.ones({3})},
                            {"1.weight", nd.ones({1, 3})},
                            {"1.bias", nd.zeros({1})}});
  CHECK(net(nd.ones({2, 5})).asvector<float>() == std::vector<float>{18, 18});
  nn::Dense dense(1, {.in_units = 2});
  gluon::load_weights(dense, {{dense.weight.name(), nd.ones({1, 2})}, {dense.bias.name(), nd.ones({1})}});
  CHECK(dense(nd.ones({1, 2})).asscalar<float>() == 3);
  nn::HybridSequential tied(nn::Dense(2, {.in_units = 2}), nn::Dense(2, {.in_units = 2}));
  tied[1].share_parameters(tied[0]);
  const NamedArrays once{{"0.weight", nd.ones({2, 2})}, {"0.bias", nd.ones({2})}};
  CHECK(gluon::load_weights(tied, once).missing.empty());
}

TEST_CASE("load_weights: of a file, parameters take over mapped memory, and training changes no file",
          "[interchange]") {
  const ScratchFolder folder;
  safetensors::save(folder / "w", {{"weight", nd.ones({256, 256})}, {"bias", nd.zeros({256})}});
  const std::string before = bytes_of(folder / "w");
  const auto trained = [&](bool adopts) {
    nn::Dense net(256, {.in_units = 256});
    if (!adopts) net.initialize(init::Zero());
    gluon::load_weights(net, folder / "w");
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
    for (int i = 0; i < 3; ++i) {
      autograd::record([&] { return (net(nd.ones({2, 256})) * 0.001).sum(); }).backward();
      trainer.step(2);
    }
    return values(net.weight.data());
  };
  CHECK(trained(true) == trained(false));
  CHECK(trained(true)[0] != 1);
  CHECK(bytes_of(folder / "w") == before);
  // two parameters of one memory, as tied weights are in PyTorch's files, get each their own
  struct Two : gluon::Block {
    gluon::Parameter a = param("row", {6}), b = param("parameter", {6});
  } two;
  gluon::load_weights(two, foreign_file("tree.pt"), {.ignore_extra = true});
  two.a.set_data(nd.zeros({6}));
  CHECK(values(two.b.data()) == values(foreign_array({4, 6}, DType::float32)[0]));
}

// A net of ONNX's y = x w keeps (out, in), as PyTorch's Linear and files that were saved before it was called so.
TEST_CASE("load_weights: names for matrices that loaded nets keep transposed", "[interchange]") {
  for (const int64_t columns : {4, 5}) {
    CAPTURE(columns);
    const ScratchFolder folder;
    onnx::format::Model m = onnx_model(17);
    m.graph.inputs = {onnx_info("x", onnx::format::ElementType::float32, {-1, 4})};
    m.graph.outputs = {onnx_info("y", onnx::format::ElementType::float32, {-1, columns})};
    m.graph.initializers = {onnx_tensor<float>("w", {4, columns}, onnx::format::ElementType::float32,
                                               std::vector<float>(size_t(4 * columns), 1.0f))};
    m.graph.nodes = {onnx_node("MatMul", {"x", "w"}, {"y"})};
    std::ofstream(folder / "net.onnx", std::ios::binary) << onnx::format::write_model(m);
    const NDArray own = nd.random_normal({columns, 4}), x = nd.random_normal({3, 4});
    const NDArray y = nd.dot(x, nd.transpose(own));
    nd_file::save(folder / "old.params", {{"w", own}});
    save_tensors(folder / "torch.safetensors", {{"fc.weight", own}});

    onnx::Block net = onnx::load(folder / "net.onnx");
    const auto check = [&](const fs::path& file, const gluon::Rename& rule) {
      gluon::load_weights(net, file, {.rename = {rule}});
      CHECK(nd.max(nd.abs(net(x) - y)).asscalar<float>() < 1e-5f);
      for (const gluon::Parameter& p : net.collect_params()) p.set_data(nd.zeros({columns, 4}));
    };
    check(folder / "old.params", {"^(w)$", "$1.transposed"});
    check(folder / "torch.safetensors", {"^fc\\.weight$", "w.transposed"});
    CHECK_THROWS_AS(net.load_parameters(folder / "old.params"), ValueError);
    if (columns != 4) CHECK_THROWS_AS(gluon::load_weights(net, folder / "old.params"), ShapeError);
  }
}

}  // namespace load_weights_test
