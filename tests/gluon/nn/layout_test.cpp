// Nets with the channels last: Conv, Pool and BatchNorm(axis) against their twins with the channels second.
#include <sstream>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/kaon.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace layout_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// Two convolutions of images with normalisation, a residual sum and pooling. `last`: the channels are last.
struct Images : HybridBlock<Images> {
  explicit Images(bool last)
      : layout(last ? ConvLayout::NHWC : ConvLayout::NCHW),
        axis(last ? 3 : 1),
        first(child("first", nn::Conv2D(32, {.kernel_size = 3, .padding = 1, .use_bias = false, .layout = layout}))),
        norm(child("norm", nn::BatchNorm({.axis = axis}))),
        second(child("second", nn::Conv2D(32, {.kernel_size = 3, .padding = 1, .layout = layout}))),
        max(child("max", nn::MaxPool2D({.pool_size = 2, .layout = layout}))),
        third(
            child("third", nn::Conv2D(24, {.kernel_size = {3, 2}, .strides = {1, 2}, .groups = 4, .layout = layout}))),
        mean(child("mean", nn::AvgPool2D({.pool_size = 2, .strides = 1, .layout = layout}))),
        all(child("all", nn::GlobalAvgPool2D({.layout = layout}))) {}

  auto hybrid_forward(auto F, auto x) {
    x = F.relu(norm(first(x)));
    x = F.relu(second(x) + x);
    return F.flatten(all(mean(third(max(x)))));
  }

  ConvLayout layout;
  int axis;
  nn::Conv2D first;
  nn::BatchNorm norm;
  nn::Conv2D second;
  nn::MaxPool2D max;
  nn::Conv2D third;
  nn::AvgPool2D mean;
  nn::GlobalAvgPool2D all;
};

NDArray channels_last(const NDArray& x) { return x.ndim() == 4 ? nd.transpose(x, {0, 2, 3, 1}) : x; }

// A net with the channels last and the weights of `twin`, whose first call has been.
Images last_of(const Images& twin) {
  Images net(true);
  net.initialize();
  const NDArray x = nd.zeros({1, 9, 8, 5});
  net(x);
  const ParameterDict theirs = twin.collect_params();
  auto from = theirs.begin();
  for (Parameter p : net.collect_params()) p.set_data(channels_last((*from++).data()));
  return net;
}

}  // namespace

TEST_CASE("nn: layers with the channels last are the same hybridized", "[gluon]") {
  constexpr auto nwc = ConvLayout::NWC, nhwc = ConvLayout::NHWC, ndhwc = ConvLayout::NDHWC;
  SECTION("Conv") {
    check_hybrid(nn::Conv1D(4, {.kernel_size = 3, .strides = 2, .padding = 1, .layout = nwc}), {3, 9, 2});
    check_hybrid(nn::Conv2D(6, {.kernel_size = 3, .groups = 2, .activation = "relu", .layout = nhwc}), {3, 6, 5, 4});
    check_hybrid(nn::Conv3D(2, {.kernel_size = {1, 2, 3}, .padding = 1, .layout = ndhwc}), {2, 3, 4, 5, 3});
  }
  SECTION("Pool") {
    check_hybrid(nn::MaxPool1D({.pool_size = 3, .layout = nwc}), {3, 9, 2});
    check_hybrid(nn::MaxPool2D({.layout = nhwc}), {2, 6, 8, 16});
    check_hybrid(nn::AvgPool3D({.pool_size = {1, 2, 3}, .layout = ndhwc}), {2, 4, 3, 6, 2});
    check_hybrid(nn::GlobalMaxPool1D({.layout = nwc}), {2, 5, 3});
    check_hybrid(nn::GlobalAvgPool2D({.layout = nhwc}), {2, 5, 4, 3});
    check_hybrid(nn::GlobalAvgPool3D({.layout = ndhwc}), {2, 3, 2, 3, 2});
  }
  SECTION("nets") { check_hybrid(Images(true), {3, 9, 8, 5}, false); }
}

TEST_CASE("nn: the channels of layers with the channels last follow from the last axis", "[gluon]") {
  nn::Conv2D conv(4, {.kernel_size = {3, 2}, .groups = 2, .layout = ConvLayout::NHWC});
  conv.initialize();
  CHECK(conv(nd.ones({2, 5, 5, 6})).shape() == Shape(2, 3, 4, 4));
  CHECK(conv.weight.shape() == Shape(4, 3, 2, 3));
  CHECK(nn::GlobalMaxPool2D({.layout = ConvLayout::NHWC})(nd.ones({2, 5, 4, 3})).shape() == Shape(2, 1, 1, 3));
  CHECK_THROWS_WITH(nn::Conv2D(4, {.kernel_size = 3, .layout = ConvLayout::NWC}),
                    Contains("[Conv] layout must be NCHW or NHWC, got NWC"));
  CHECK_THROWS_WITH(nn::MaxPool3D({.layout = ConvLayout::NHWC}),
                    Contains("[Pool] layout must be NCDHW or NDHWC, got NHWC"));
  CHECK_THROWS_WITH(nn::GlobalAvgPool1D({.layout = ConvLayout::NCHW}),
                    Contains("[GlobalPool] layout must be NCW or NWC, got NCHW"));
}

TEST_CASE("nn: a net with the channels last is its twin with the channels second", "[gluon]") {
  Images second(false);
  second.initialize(init::Uniform(0.3));
  NDArray x = nd.random_normal({3, 5, 9, 8});
  second(x);
  for (bool training : {false, true}) {
    for (const HybridizeOptions& options : {HybridizeOptions{}, HybridizeOptions{.winograd = true}}) {
      Images net = last_of(second);
      net.hybridize(options);
      NDArray y = channels_last(x);
      x.attach_grad(), y.attach_grad();
      const auto expected = forward_backward(second, x, training), got = forward_backward(net, y, training);
      require_close(got[0], expected[0], 1e-3, 1e-4);
      require_close(got[1], values(channels_last(x.grad())), 1e-3, 1e-4);
      const ParameterDict all = second.collect_params();
      auto theirs = all.begin();
      for (const Parameter& p : net.collect_params()) {
        const Parameter& q = *theirs++;
        INFO(q.name());
        require_close(p.data(), values(channels_last(q.data())), 1e-3, 1e-4);  // moving statistics are updated
        if (q.grad_req() != GradReq::null) require_close(p.grad(), values(channels_last(q.grad())), 1e-3, 1e-3);
      }
      if (!training) require_close(net(y), values(second(x)), 1e-3, 1e-4);
    }
  }
}

TEST_CASE("nn: a plan of a net with the channels last copies no images", "[gluon]") {
  Images net(true);
  net.initialize();
  net.hybridize({.static_alloc = true, .static_shape = true});
  NDArray x = nd.random_normal({2, 16, 16, 16});
  net(x).wait_to_read();
  REQUIRE(net.node()->traces.size() == 1);
  std::istringstream lines(net.node()->traces[0].graph->report()->implementations());
  int convolutions = 0;
  bool copies_are_known = false;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    if (line.find("reorders of images") != line.npos) {
      CHECK_THAT(line, Contains("0 reorders of images, 0 more inside kernels"));
      copies_are_known = true;
    } else {
      CHECK(line.find("reorder") == line.npos);
    }
    CHECK(line.find("BatchNorm ") == line.npos);  // part of the layer before it
    CHECK(line.find("Activation") == line.npos);
    if (line.find("Convolution") == line.npos) continue;
    CHECK(line.find("nhwc") != line.npos);
    ++convolutions;
  }
  CHECK(convolutions == 3);
  CHECK(copies_are_known);
}

TEST_CASE("nn: layout is part of an exported model", "[gluon]") {
  ScratchFolder folder;
  Images net(true);
  net.initialize();
  net.hybridize();
  const NDArray x = nd.random_normal({2, 9, 8, 5});
  const NDArray y = net(x);
  net.export_model((folder / "net").string());
  SymbolBlock loaded = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  require_close(loaded(x), values(y), 1e-4, 1e-5);
  nn::Conv1D rows(2, {.kernel_size = 3, .layout = ConvLayout::NWC});  // a layout that MXNet's Convolution lacks
  rows.initialize();
  rows.hybridize();
  rows(nd.ones({1, 5, 2}));
  CHECK_THROWS_WITH(rows.export_model((folder / "rows").string()), Contains("Convolution"));
}

}  // namespace layout_test
