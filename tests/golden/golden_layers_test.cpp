// Layers beside MXNet 1.9.1, which has written data/layers.params by make_layers.py: outputs in both modes and
// gradients, imperative and hybridized, from parameters under the names of MXNet's files.
#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "kaon/gluon/nn/deformable_conv.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"
#include "kaon/tests/support/files.h"

namespace golden_layers_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

namespace {

using Arrays = std::map<std::string, NDArray>;

// Those of one case, without its name.
Arrays arrays_of(const std::string& name) {
  static const auto* const all = new NamedArrays(nd_file::load(golden_dir() / "layers.params"));
  Arrays found;
  for (const auto& [key, array] : *all) {
    if (key.starts_with(name + "/")) found.emplace(key.substr(name.size() + 1), array);
  }
  REQUIRE(!found.empty());
  return found;
}

template <class Container>
nn::AnyBlock joined(Container container, const auto&... blocks) {
  container.add(blocks...);
  return container;
}

// The blocks of make_layers.py.
const std::vector<std::pair<std::string, std::function<nn::AnyBlock()>>>& cases() {
  static const auto* const all = new std::vector<std::pair<std::string, std::function<nn::AnyBlock()>>>{
      {"conv1_transpose",
       [] { return nn::Conv1DTranspose(3, {.kernel_size = 4, .strides = 2, .padding = 1, .output_padding = 1}); }},
      {"conv2_transpose",
       [] {
         return nn::Conv2DTranspose(
             4, {.kernel_size = {3, 2}, .strides = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}});
       }},
      {"conv2_transpose_groups",
       [] { return nn::Conv2DTranspose(6, {.kernel_size = 3, .groups = 3, .activation = "relu", .use_bias = false}); }},
      {"conv2_transpose_dilated",
       [] {
         return nn::Conv2DTranspose(2, {.kernel_size = 3, .dilation = {2, 1}, .in_channels = 2});
       }},
      {"conv3_transpose", [] { return nn::Conv3DTranspose(2, {.kernel_size = 2, .strides = 2}); }},
      {"instance_norm", [] { return nn::InstanceNorm(); }},
      {"instance_norm_last",
       [] { return nn::InstanceNorm({.axis = 2, .epsilon = 1e-3, .center = false, .scale = true}); }},
      {"group_norm", [] { return nn::GroupNorm({.num_groups = 2}); }},
      {"group_norm_one", [] { return nn::GroupNorm({.scale = false}); }},
      {"batch_norm_relu", [] { return nn::BatchNormReLU({.in_channels = 3}); }},
      {"batch_norm_relu_last", [] { return nn::BatchNormReLU({.axis = -1, .momentum = 0.5, .epsilon = 1e-2}); }},
      {"sync_batch_norm", [] { return nn::SyncBatchNorm(); }},
      {"concurrent", [] { return joined(nn::Concurrent(1), nn::Dense(3), nn::Identity(), nn::Dense(2)); }},
      {"hybrid_concurrent",
       [] { return joined(nn::HybridConcurrent(), nn::Dense(3, {.activation = "tanh"}), nn::Dense(1)); }},
      {"pixel_shuffle1", [] { return nn::PixelShuffle1D(3); }},
      {"pixel_shuffle2", [] { return nn::PixelShuffle2D({2, 3}); }},
      {"pixel_shuffle3", [] { return nn::PixelShuffle3D({2, 3, 2}); }},
      {"reflection_pad2", [] { return nn::ReflectionPad2D(2); }},
      {"deformable", [] { return nn::DeformableConvolution(4, {.kernel_size = 3, .padding = 1}); }},
      {"deformable_groups", [] {
         return nn::DeformableConvolution(4, {.kernel_size = {3, 2},
                                              .strides = {2, 1},
                                              .groups = 2,
                                              .num_deformable_group = 2,
                                              .activation = "relu",
                                              .use_bias = false,
                                              .offset_use_bias = false});
       }}};
  return *all;
}

void load(nn::AnyBlock& block, const Arrays& golden) {
  ScratchFolder folder;
  NamedArrays params;
  for (const auto& [key, array] : golden) {
    if (key.starts_with("param/")) params.emplace_back(key.substr(6), array);
  }
  nd_file::save(folder / "case.params", params);
  block.load_parameters(folder / "case.params");
}

// Under the names of files: the gradients as values.
void check_gradients(const nn::AnyBlock& block, const Arrays& golden) {
  ScratchFolder folder;
  for (gluon::Parameter p : block.collect_params()) {
    if (p.grad_req() != GradReq::null) p.set_data(p.grad());
  }
  block.save_parameters(folder / "gradients.params");
  size_t found = 0;
  for (const auto& [key, array] : nd_file::load(folder / "gradients.params")) {
    const auto expected = golden.find("grad/" + key);
    if (expected == golden.end()) continue;
    check_close("gradient of " + key, array, expected->second, 1e-5);
    ++found;
  }
  size_t wanted = 0;
  for (const auto& [key, array] : golden) wanted += key.starts_with("grad/") && key != "grad/x";
  REQUIRE(found == wanted);
}

}  // namespace

TEST_CASE("golden: layers compute what MXNet computes", "[golden]") {
  const std::optional<HybridizeOptions> modes[] = {std::nullopt, HybridizeOptions{}, HybridizeOptions{.exact = true}};
  for (const auto& [name, make] : cases()) {
    INFO(name);
    const Arrays golden = arrays_of(name);
    for (size_t i = 0; i < std::size(modes); ++i) {
      INFO("mode " << i);
      nn::AnyBlock block = make();
      if (modes[i]) block.hybridize(*modes[i]);
      load(block, golden);
      NDArray x = golden.at("x").copy();
      check_close("out", block(x), golden.at("out"), 1e-5);
      x.attach_grad();
      const NDArray loss = autograd::record([&] {
        const NDArray y = block(x);
        check_close("in training", y, golden.at("train"), 1e-5);
        return (y * golden_head(y.shape())).sum();
      });
      loss.backward();
      check_close("gradient of x", x.grad(), golden.at("grad/x"), 1e-5);
      check_gradients(block, golden);
    }
  }
}

}  // namespace golden_layers_test
