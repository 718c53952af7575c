#include "kaon/gluon/summary.h"

#include <catch2/catch.hpp>

#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/tests/support/files.h"

namespace summary_test {

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {
struct Net : gluon::HybridBlock<Net> {
  nn::HybridSequential body =
      child("body", nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3, .activation = "relu"}), nn::BatchNorm()));
  nn::Dense fc = child("fc", nn::Dense(10));
  nn::Dense fc_out = child("fc_out", nn::Dense(2, {.use_bias = false}));
  auto hybrid_forward(auto, auto x) { return fc_out(fc(body(x))); }
};
}  // namespace

TEST_CASE("summary: layers, shapes and counts", "[gluon]") {
  Net net;
  net.initialize();
  std::string text = gluon::summary(net, {1, 1, 6, 6});
  auto has_row = [&](const char* layer, const char* shape, int parameters) {
    char row[96];
    std::snprintf(row, sizeof row, "%20s  %42s %15d\n", layer, shape, parameters);
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
  };
  INFO(text);
  has_row("Input", "(1, 1, 6, 6)", 0);
  has_row("relu-1", "(1, 4, 4, 4)", 0);
  has_row("conv-2", "(1, 4, 4, 4)", 40);
  has_row("batchnorm-3", "(1, 4, 4, 4)", 16);
  has_row("dense-4", "(1, 10)", 650);
  has_row("dense-5", "(1, 2)", 20);
  has_row("hybridblock-6", "(1, 2)", 0);
  CHECK(text.find("sequential") == std::string::npos);
  CHECK(text.find("Total params: 726\nTrainable params: 718\nNon-trainable params: 8\n") != std::string::npos);
  CHECK(net.fc.weight.shape() == Shape(10, 64));
}

namespace {
// Its members are registered in another order than they are called in; one is called twice, one never.
struct CallsBackwards : gluon::HybridBlock<CallsBackwards> {
  nn::Dense last = child("last", nn::Dense(2));
  nn::Dense unused = child("unused", nn::Dense(7, {.in_units = 3}));
  nn::Dense twice = child("twice", nn::Dense(4));
  nn::HybridSequential inner = child("inner", nn::HybridSequential(nn::Dense(5), nn::Dense(4)));
  auto hybrid_forward(auto, auto x) { return last(twice(inner(twice(x)))); }
};
}  // namespace

TEST_CASE("summary: the rows are in the order of calls, not of registration", "[gluon]") {
  CallsBackwards net;
  net.initialize();
  const std::string text = gluon::summary(net, {1, 4});
  INFO(text);
  size_t at = 0;
  const auto comes_next = [&](const char* layer, const char* shape, int parameters) {
    char row[96];
    std::snprintf(row, sizeof row, "%20s  %42s %15d\n", layer, shape, parameters);
    INFO(row);
    const size_t found = text.find(row, at);
    CHECK(found != std::string::npos);
    if (found != std::string::npos) at = found;
  };
  comes_next("dense-1", "(1, 4)", 20);  // twice
  comes_next("dense-2", "(1, 5)", 25);  // inner
  comes_next("dense-3", "(1, 4)", 24);
  comes_next("dense-4", "(1, 2)", 10);  // last
  comes_next("hybridblock-5", "(1, 2)", 0);
  comes_next("dense-6", "", 28);  // unused
  CHECK(text.find("Total params: 107\n") != std::string::npos);
  CHECK(gluon::summary(net, {1, 4}) == text);
}

TEST_CASE("summary: a loaded net has a row for each operator", "[gluon]") {
  const test::ScratchFolder folder;
  nn::HybridSequential net(nn::Dense(4, {.activation = "relu"}), nn::Dense(2));
  net.initialize();
  net.hybridize();
  net(nd.ones({2, 3}));
  net.export_model((folder / "net").string());
  const auto loaded = gluon::SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  const std::string text = gluon::summary(loaded, {2, 3});
  INFO(text);
  CHECK(text.find(fmt::format("{:>20}  {:>42} {:>15}\n", "FullyConnected-1", "(2, 4)", 16)) != std::string::npos);
  CHECK(text.find(fmt::format("{:>20}  {:>42} {:>15}\n", "FullyConnected-3", "(2, 2)", 10)) != std::string::npos);
  CHECK_THAT(text, Catch::Matchers::Contains("Total params: 26"));
}

}  // namespace summary_test
