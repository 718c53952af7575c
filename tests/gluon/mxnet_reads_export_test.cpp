// MXNet itself loads what Kaon exports and computes the same. Skips where MXNet cannot be imported: choose the
// interpreter with KAON_MXNET_PYTHON.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/gluon/model_zoo/vision.h"
#include "kaon/gluon/rnn/rnn.h"
#include "kaon/graph/control_flow.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace mxnet_reads_export_test {

using namespace kaon;
namespace nn = kaon::gluon::nn;
namespace rnn = kaon::gluon::rnn;

namespace {

// Exports the net, runs it in MXNet and compares; false where MXNet cannot be imported.
template <class Net>
bool check_in_mxnet(Net net, const NDArray& x) {
  test::ScratchFolder folder;
  net.initialize(init::Xavier());
  net.hybridize();
  NDArray y = net(x);
  std::string prefix = (folder / "model").string();
  net.export_model(prefix, 3);
  nd_file::save(folder / "input.nd", {{"", x}});

  const char* python = std::getenv("KAON_MXNET_PYTHON");
  std::string command = std::string(python ? python : "python3") + " " + test::data_file("run_with_mxnet.py").string() +
                        " " + prefix + " 3 " + (folder / "input.nd").string() + " " + (folder / "output.nd").string() +
                        " 2>/dev/null";
  int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    test::skip("MXNet cannot be imported by " + std::string(python ? python : "python3"));
    return false;
  }
  REQUIRE(status == 0);
  auto theirs = nd_file::load(folder / "output.nd").at(0).second.asvector<float>();
  auto ours = y.asvector<float>();
  REQUIRE(theirs.size() == ours.size());
  for (size_t i = 0; i < ours.size(); ++i) CHECK(theirs[i] == Approx(ours[i]).epsilon(1e-4).margin(1e-5));
  return true;
}

// Attention with a mask that a causal model would use, and without it.
struct Causal : gluon::HybridBlock<Causal> {
  explicit Causal(double dropout)
      : cell(child("cell", nn::TransformerEncoderCell(6, 10, 2, {.dropout = dropout}))),
        next(child("next", nn::TransformerEncoderCell(6, 10, 3, {.dropout = dropout}))) {}
  nn::TransformerEncoderCell cell, next;
  auto hybrid_forward(auto F, auto x) {
    return next(cell(x, F.array({{1, 0, 0}, {1, 1, 0}, {1, 1, 1}}).reshape({1, 3, 3})));
  }
};

// A loop along an axis with a loop in it, one that runs as often as the values say, then a branch. (MXNet itself cannot
// infer the shapes of the last two inside of a loop.)
struct Looping : gluon::HybridBlock<Looping> {
  gluon::Parameter w = param("w", {4, 4}), b = param("b", {1, 4});
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    auto step = [&](A row, A h) {
      h = f.tanh(f.dot(row, f(w)) + h);
      auto add = [&](A part, A sum) { return std::pair(part * sum, part + sum); };
      return std::pair(contrib::foreach (add, h, f.sum(h, {.axis = 0})).first, h);
    };
    const auto [rows, last] = contrib::foreach (step, x, f.sum(x, {.axis = 0}));
    const auto [unused, settled] =
        contrib::while_loop([&](const std::vector<A>& v) { return v[0] < 3.0f; },
                            [&](const std::vector<A>& v) {
                              return std::pair(v[1], std::vector<A>{v[0] + 1, f.tanh(f.dot(v[1], f(w)))});
                            },
                            std::vector<A>{f.zeros({1}), last}, 5);
    return contrib::cond(
        f.sum(last) < 0.0f, [&] { return rows * settled[1]; }, [&] { return rows + settled[1] + f(b); });
  }
};

// Cells from zeros, whose number is that of the data.
struct Unrolled : gluon::HybridBlock<Unrolled> {
  rnn::HybridSequentialRNNCell cells;
  Unrolled() {
    cells.add(rnn::LSTMCell(4), rnn::BidirectionalCell(rnn::GRUCell(3), rnn::RNNCell(2)));
    child("cells", cells);
  }
  auto hybrid_forward(auto, auto x) { return cells.unroll(5, x).first; }
};

// One of each family, and the size of its images.
constexpr std::pair<const char*, int64_t> sized_models[] = {
    {"resnet18_v2", 64},    {"vgg11_bn", 32},     {"alexnet", 64},       {"densenet121", 221},
    {"squeezenet1.1", 221}, {"inceptionv3", 299}, {"mobilenet0.25", 64}, {"mobilenetv2_0.25", 64}};

}  // namespace

TEST_CASE("export: MXNet loads our files and gives the same output", "[gluon][mxnet]") {
  nn::HybridSequential net;
  net.add(nn::Conv2D(8, {.kernel_size = 3, .padding = 1, .activation = "relu"}), nn::BatchNorm(),
          nn::MaxPool2D({.pool_size = 2}), nn::Conv2D(4, {.kernel_size = 3}), nn::LeakyReLU(0.1),
          nn::AvgPool2D({.pool_size = 2}), nn::Flatten(), nn::Dense(16, {.activation = "tanh"}), nn::Dropout(0.5),
          nn::Dense(5));
  if (!check_in_mxnet(net, nd.random_normal({3, 2, 12, 12}))) return;
  check_in_mxnet(gluon::model_zoo::vision::resnet50_v1({.classes = 3}), nd.random_normal({2, 3, 40, 33}));
  for (const auto& [name, size] : sized_models) {
    INFO(name);
    check_in_mxnet(gluon::model_zoo::vision::get_model(name, {.classes = 3}), nd.random_normal({2, 3, size, size}));
  }
  for (double dropout : {0.1, 0.0}) check_in_mxnet(Causal(dropout), nd.random_normal({2, 3, 6}));
  check_in_mxnet(Looping(), nd.random_normal({3, 2, 4}));
  check_in_mxnet(rnn::LSTM(4, {.num_layers = 2, .layout = rnn::Layout::NTC, .bidirectional = true}),
                 nd.random_normal({2, 5, 3}));
  check_in_mxnet(rnn::GRU(4), nd.random_normal({5, 2, 3}));
  check_in_mxnet(Unrolled(), nd.random_normal({2, 5, 3}));
}

}  // namespace mxnet_reads_export_test
