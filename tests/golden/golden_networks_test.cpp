// Networks beside MXNet 1.9.1, which has written data/networks/ by make_networks.py: outputs, and the gradients of a
// loss, from the same files of parameters; the programs that MXNet has exported of the same networks too.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/model_zoo/bert.h"
#include "kaon/gluon/model_zoo/ssd.h"
#include "kaon/gluon/model_zoo/unet.h"
#include "kaon/gluon/rnn/rnn.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"
#include "kaon/tests/support/files.h"

namespace golden_networks_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;
namespace text = kaon::gluon::model_zoo::text;
namespace vision = kaon::gluon::model_zoo::vision;
namespace json = boost::json;

namespace {

using List = std::vector<NDArray>;
using Arrays = std::map<std::string, NDArray>;

std::filesystem::path file(const std::string& name) { return golden_dir() / "networks" / name; }

// Those of one network, without its name.
struct Results {
  explicit Results(const std::string& name) {
    for (const auto& [key, array] : nd_file::load(file("results.params"))) {
      if (key.starts_with(name + "/")) all.emplace(key.substr(name.size() + 1), array);
    }
    REQUIRE(!all.empty());
  }
  // KIND/0, KIND/1, ...
  List list(const std::string& kind) const {
    List found;
    for (auto at = all.find(kind + "/0"); at != all.end(); at = all.find(kind + "/" + std::to_string(found.size()))) {
      found.push_back(at->second);
    }
    return found;
  }
  // What a step leaves of a parameter: its gradient, or without one its value. Not defined: it was not asked for.
  NDArray left(const std::string& key) const {
    for (const char* kind : {"grad/", "after/"}) {
      if (const auto at = all.find(kind + key); at != all.end()) return at->second;
    }
    return {};
  }
  Arrays all;
};

// The sum of all elements, each times its weight.
NDArray sum_of_heads(const NDArray& a) { return (a * golden_head(a.shape())).sum(); }
Symbol sum_of_heads(const Symbol& a) { return (a * Symbol::constant(golden_head(a.shape()))).sum(); }

template <class A>
A entropy(const A& scores, const A& labels, int axis = -1) {
  return gluon::loss::SoftmaxCrossEntropyLoss({.axis = axis})(scores, labels).mean();
}

struct LanguageModel : gluon::HybridBlock<LanguageModel> {
  explicit LanguageModel(bool tied)
      : encoder(child("encoder", nn::Embedding(11, 7))),
        lstm(child("rnn", gluon::rnn::LSTM(7, {.num_layers = 2}))),
        decoder(child("decoder", nn::Dense(11, {.flatten = false, .in_units = 7}))) {
    if (tied) decoder.share_parameters(encoder);
  }
  auto hybrid_forward(auto, auto tokens, auto hidden, auto cell) {
    auto [y, next] = lstm(encoder(tokens), std::vector{hidden, cell});
    return std::tuple(decoder(y), next[0], next[1]);
  }
  nn::Embedding encoder;
  gluon::rnn::LSTM lstm;
  nn::Dense decoder;
};

// A block of a network, and what is done with it.
struct Made {
  gluon::Block block;
  std::function<List(const List& inputs)> call;
  std::function<NDArray(const List& outputs, const List& labels)> loss;
  std::function<gluon::TrainingStep(gluon::Trainer& trainer)> step;  // of all inputs and labels
};

struct Network {
  std::string name;
  size_t inputs;  // further ones are labels
  bool trains;    // the loss is computed in training mode
  std::function<Made()> make;
};

// forward(F, inputs) gives the outputs, loss(F, outputs, labels) the loss.
template <class Forward, class Loss>
Made made(const gluon::Block& block, size_t inputs, Forward forward, Loss loss) {
  return {block, [=](const List& x) { return forward(nd, x); },
          [=](const List& out, const List& labels) { return loss(nd, out, labels); },
          [=](gluon::Trainer& trainer) {
            return gluon::TrainingStep(
                [=](const std::vector<Symbol>& all) {
                  const auto end = all.begin() + long(inputs);
                  return loss(sym, forward(sym, std::vector<Symbol>(all.begin(), end)),
                              std::vector<Symbol>(end, all.end()));
                },
                trainer);
          }};
}

template <class... A>
auto listed(const std::tuple<A...>& results) {
  return std::apply([](const auto&... r) { return std::vector{r...}; }, results);
}

Network bert(double dropout) {
  return {"bert", 4, false, [=] {
            text::BERT net({.vocab_size = 13,
                            .max_length = 7,
                            .units = 8,
                            .hidden_size = 12,
                            .num_layers = 2,
                            .num_heads = 2,
                            .dropout = dropout});
            return made(
                net, 4, [=](auto, const auto& x) { return listed(net(x[0], x[1], x[2], x[3])); },
                [](auto, const auto& out, const auto& labels) {
                  return entropy(out[3], labels[0]) + entropy(out[2], labels[1]) + sum_of_heads(out[0]) +
                         sum_of_heads(out[1]);
                });
          }};
}

nn::HybridSequential halved(int64_t channels) {
  return nn::HybridSequential(nn::Conv2D(channels, {.kernel_size = {3, 3}, .padding = {1, 1}}), nn::BatchNormReLU(),
                              nn::MaxPool2D());
}

Network ssd() {
  return {"ssd", 1, true, [] {
            vision::SSD net(2, {halved(4), halved(6), halved(5)});
            return made(
                net, 1,
                [=](auto, const auto& x) {
                  auto out = listed(net(x[0]));
                  if constexpr (std::is_same_v<decltype(out), List>) {
                    if (!autograd::is_recording()) out.push_back(net.detect(x[0]));
                  }
                  return out;
                },
                [=](auto F, const auto& out, const auto& labels) {
                  return net.loss(F, out[0], out[1], out[2], labels[0]).sum();
                });
          }};
}

Network unet() {
  return {"unet", 1, true, [] {
            vision::UNet net({.classes = 3, .channels = 4, .depth = 2});
            return made(
                net, 1, [=](auto, const auto& x) { return std::vector{net(x[0])}; },
                [](auto, const auto& out, const auto& labels) { return entropy(out[0], labels[0], 1); });
          }};
}

Network language_model(bool tied) {
  return {tied ? "lstm_model_tied" : "lstm_model", 3, false, [=] {
            LanguageModel net(tied);
            return made(
                net, 3,
                [=](auto, const auto& x) {
                  auto states = std::vector{x[1], x[2]};
                  // the states of the tied one are those with which MXNet begins
                  if constexpr (std::is_same_v<decltype(states), List>) {
                    if (tied) states = net.lstm.begin_state(3);
                  }
                  return listed(net(x[0], states[0], states[1]));
                },
                [](auto, const auto& out, const auto& labels) {
                  return entropy(out[0], labels[0]) + sum_of_heads(out[1]) + sum_of_heads(out[2]);
                });
          }};
}

std::vector<Network> networks() {
  return {bert(0), bert(0.3), ssd(), unet(), language_model(false), language_model(true)};
}

void check_outputs(const List& got, const Results& golden) {
  const List expected = golden.list("output");
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    check_close("output " + std::to_string(i), got[i], expected[i], 1e-5);
  }
}

// Inputs, and labels.
std::pair<List, List> data_of(const Network& n, const Results& golden) {
  const List all = golden.list("input");
  const auto end = all.begin() + long(n.inputs);
  return {List(all.begin(), end), List(end, all.end())};
}

// Predicts, then takes a step's gradients.
void run(const Network& n, const Made& net, const Results& golden) {
  const auto [inputs, labels] = data_of(n, golden);
  check_outputs(net.call(inputs), golden);
  const NDArray loss = autograd::record([&] { return net.loss(net.call(inputs), labels); }, n.trains);
  loss.backward();
  check_close("loss", loss.reshape({1}), golden.all.at("loss"), 1e-5);
}

void check_left(const std::string& key, const gluon::Parameter& p, const Results& golden) {
  const NDArray expected = golden.left(key);
  if (!expected.defined()) return;
  check_close("gradient of " + key, p.grad_req() == GradReq::null ? p.data() : p.grad(), expected, 1e-5);
}

// What the exported program calls each parameter of a network.
std::map<std::string, std::string> exported_names(const std::string& network) {
  const json::value all = json::parse(bytes_of(file("exported.json")));
  std::map<std::string, std::string> names;
  for (const auto& [key, name] : all.at(network).as_object()) names.emplace(key, std::string(name.as_string()));
  return names;
}

// What save_parameters() writes, which are the names that MXNet writes.
NamedArrays saved(const Network& n, const gluon::Block& block) {
  ScratchFolder folder;
  block.save_parameters(folder / "saved.params");
  const NamedArrays arrays = nd_file::load(folder / "saved.params"), theirs = nd_file::load(file(n.name + ".params"));
  std::set<std::string> names, their_names;
  for (const auto& [key, array] : arrays) names.insert(key);
  for (const auto& [key, array] : theirs) their_names.insert(key);
  REQUIRE(names == their_names);
  return arrays;
}

std::vector<std::string> data_names(size_t inputs) {
  if (inputs == 1) return {"data"};
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs; ++i) names.push_back("data" + std::to_string(i));
  return names;
}

}  // namespace

TEST_CASE("golden: networks give what MXNet gives with its files", "[golden]") {
  const std::optional<HybridizeOptions> modes[] = {std::nullopt, HybridizeOptions{}, HybridizeOptions{.exact = true}};
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (const Network& n : networks()) {
      const Results golden(n.name);
      for (size_t mode = 0; mode < std::size(modes); ++mode) {
        INFO(n.name << ", mode " << mode << ", " << threads << " threads");
        Made net = n.make();
        if (modes[mode]) net.block.hybridize(*modes[mode]);
        net.block.load_parameters(file(n.name + ".params"));
        run(n, net, golden);
        // Under the names of files: the gradients as values.
        for (gluon::Parameter p : net.block.collect_params()) {
          if (p.grad_req() != GradReq::null) p.set_data(p.grad());
        }
        for (const auto& [key, array] : saved(n, net.block)) {
          const NDArray expected = golden.left(key);
          if (expected.defined()) check_close("gradient of " + key, array, expected, 1e-5);
        }
      }
    }
  }
}

TEST_CASE("golden: networks train as MXNet's do", "[golden]") {
  enum class Way { imperative, hybridized, exact, in_step };
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (const Network& n : {bert(0), ssd(), unet(), language_model(false), language_model(true)}) {
      const Results golden(n.name);
      for (Way way : {Way::imperative, Way::hybridized, Way::exact, Way::in_step}) {
        INFO(n.name << ", way " << int(way) << ", " << threads << " threads");
        Made net = n.make();
        net.block.load_parameters(file(n.name + ".params"));
        if (way != Way::imperative) net.block.hybridize({.exact = way == Way::exact});
        gluon::Trainer trainer(net.block.collect_params(), optimizer::SGD({.learning_rate = 0.2, .momentum = 0.9}));
        gluon::TrainingStep step = net.step(trainer);
        const auto [inputs, labels] = data_of(n, golden);
        for (int i = 0; i < 5; ++i) {
          if (way == Way::in_step) {
            step(golden.list("input"));
          } else {
            autograd::record([&] { return net.loss(net.call(inputs), labels); }).backward();
            trainer.step(inputs[0].shape()[0]);
          }
        }
        for (const auto& [key, array] : saved(n, net.block)) {
          // Five steps magnify the rounding of oneDNN's kernels, which differs between instruction sets.
          check_close(key + ", trained", array, golden.all.at("trained/" + key), 1e-4, 1e-4);
        }
      }
    }
  }
}

TEST_CASE("golden: networks that MXNet has exported", "[golden]") {
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::vector<std::pair<std::string, Network>> programs{{"bert_interleaved", bert(0)}};
    for (const Network& n : networks()) programs.emplace_back(n.name, n);
    for (const auto& [program, n] : programs) {
      INFO(program << ", " << threads << " threads");
      const Results golden(n.name);
      auto block = gluon::SymbolBlock::imports(file(program + "-symbol.json"), data_names(n.inputs),
                                               file(n.name + "-0000.params"));
      Made as_net = n.make();
      as_net.call = [&](const List& x) { return block.forward(x); };
      run(n, as_net, golden);
      for (const auto& [key, name] : exported_names(n.name)) {
        check_left(key, block.collect_params().get(name), golden);
      }
    }
  }
}

TEST_CASE("golden: the detector with the heads of MXNet's example", "[golden]") {
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const Results golden("ssd_heads"), net("ssd");
    auto block =
        gluon::SymbolBlock::imports(file("ssd_heads-symbol.json"), {"data0", "data1"}, file("ssd-0000.params"));
    const List out = autograd::record([&] { return block.forward(net.list("input")); });
    autograd::backward(out);
    check_outputs(out, golden);
    for (const auto& [key, name] : exported_names("ssd")) check_left(key, block.collect_params().get(name), golden);
  }
}

}  // namespace golden_networks_test
