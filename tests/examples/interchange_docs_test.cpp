// The code of docs/interchange.md.
#include <kaon/gluon/util/checkpoint.h>
#include <kaon/graph/symbol_picture.h>
#include <kaon/interchange/load_weights.h>
#include <kaon/interchange/mxnet_states.h>
#include <kaon/interchange/numpy_files.h>
#include <kaon/interchange/safetensors.h>
#include <kaon/interchange/tensor_files.h>
#include <kaon/interchange/torch_files.h>
#include <kaon/kaon.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "kaon/tests/support/files.h"

namespace interchange_docs_test {

using namespace kaon;
namespace nn = gluon::nn;

namespace {

// The folder of a page's files, as the current one.
struct InScratch {
  test::ScratchFolder folder;
  test::fs::path before = test::fs::current_path();
  InScratch() { test::fs::current_path(folder / "."); }
  ~InScratch() { test::fs::current_path(before); }
};

}  // namespace

TEST_CASE("interchange page: files of tensors", "[docs]") {
  const InScratch here;
  const NamedArrays arrays{{"weight", nd.arange(6).reshape({2, 3})}, {"bias", nd.ones({2})}};
  {
    safetensors::save("model.safetensors", arrays, {.metadata = {{"format", "pt"}}});
    safetensors::Contents contents = safetensors::load("model.safetensors");
    for (const auto& [name, array] : contents.arrays) fmt::print("{} {}\n", name, array.shape());
    // several files of at most 2 GB each, with an index
    safetensors::save("model.safetensors.index.json", arrays, {.max_shard_bytes = 2'000'000'000});
  }
  {
    NDArray x = nd.arange(12).reshape({3, 4});
    npy::save("x.npy", x, {.fortran_order = true});
    NDArray same = npy::load("x.npy");
    npz::save("arrays.npz", {{"x", x}, {"y", x * 2}}, {.compress = true});
    NamedArrays both = npz::load("arrays.npz", {.max_bytes = 1 << 30});
    CHECK(same.shape() == x.shape());
    CHECK(both.size() == 2);
  }
  {
    NamedArrays tensors = load_tensors("model.safetensors");  // by the contents
    save_tensors("model.npz", tensors);                       // by the name
    CHECK(kind_of("model.npz") == FileKind::npz);
  }
}

TEST_CASE("interchange page: weights into nets", "[docs]") {
  const InScratch here;
  test::fs::copy_file(test::data_file("interchange/net.pt"), "checkpoint.pt");
  nn::HybridSequential net(nn::Conv2D(4, {.kernel_size = 3}), nn::BatchNorm(), nn::Activation("relu"), nn::Flatten(),
                           nn::Dense(3), nn::LayerNorm());
  {
    NamedArrays tensors = torch_files::load("checkpoint.pt");  // "state_dict.0.weight" and so on
    gluon::WeightReport report = gluon::load_weights(
        net, tensors, {.strip_prefix = "state_dict.", .naming = gluon::Naming::pytorch, .ignore_extra = true});
    fmt::print("{}\n", report.str());  // 10 of 10 parameters have a tensor ...
    CHECK(report.matched.size() == 10);
  }
  {
    const torch_files::Contents checkpoint = torch_files::contents("checkpoint.pt");
    NDArray weight = checkpoint.at("state_dict.0.weight");  // IoError, with byte and reason, where it was left out
    for (const torch_files::LeftOut& l : checkpoint.left_out) fmt::print("{}: found {}\n", l.name, l.found);
    CHECK(weight.shape() == Shape(4, 3, 3, 3));
  }
  {
    const gluon::WeightOptions rules{
        .rename = {{"^encoder\\.block\\.(\\d+)\\.", "layers.$1."}},  // regular expressions, in order
        .gates = {{".*lstm.*", "iofg", "ifgo"}},                     // ONNX's order of gates into Kaon's
        .transpose = {{".*kernel", {1, 0}}},                         // (in, out) into (out, in)
        .allow_missing = true,
        .ignore_extra = true,
        .cast_dtype = true};
    CHECK(gluon::match_weights(net, {}, rules).missing.size() == 10);
  }
}

namespace {

Task<> train_on(nn::Dense net, gluon::Trainer& trainer) {
  const auto save = gluon::save_checkpoint_async("last.params", net, trainer);  // this step's values
  autograd::record([&] { return net(nd.ones({4, 3})).sum(); }).backward();      // training goes on
  trainer.step(4);
  co_await save;  // it is on disk
}

}  // namespace

TEST_CASE("interchange page: checkpoints beside the training", "[docs]") {
  const InScratch here;
  nn::Dense net(2, {.in_units = 3});
  net.initialize();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD());
  sync_wait(train_on(net, trainer));
  gluon::load_checkpoint("last.params", net, trainer);
  CHECK(trainer.steps() == 0);
}

TEST_CASE("interchange page: pictures", "[docs]") {
  const InScratch here;
  const Symbol x = Symbol::variable("data");
  const Symbol weight = Symbol::variable("fc_weight"), bias = Symbol::variable("fc_bias");
  const Symbol net = sym.as("fc").FullyConnected(sym.relu(x), weight, bias, {.num_hidden = 10});
  fmt::print("{}", print_summary(net, {{"data", {1, 784}}}));
  plot_network(net, "net.svg", {.shapes = {{"data", {1, 784}}}});
  CHECK((test::fs::exists("net.svg") || test::fs::exists("net.dot")));
}

}  // namespace interchange_docs_test
