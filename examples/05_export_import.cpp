// Model files: exporting a net in MXNet's format and loading it without its code.
// Prints the two files' names and what the parameter file holds; the arguments and outputs of the loaded program; the
// outputs of net and loaded model, which agree; the features of an inner layer; and the messages for a net that was
// never run and for a file that is cut off.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join
#include <kaon/kaon.h>

#include <filesystem>

namespace nn = kaon::gluon::nn;
using namespace kaon;

int main() {
  random::seed(3);
  nn::HybridSequential net(nn::Conv2D(4, {.kernel_size = 3, .activation = "relu"}), nn::BatchNorm(),
                           nn::MaxPool2D({.pool_size = 2}), nn::Dense(10));
  net.initialize(init::Xavier());
  try {
    net.export_model("early");
  } catch (const StateError& e) {
    fmt::print("StateError: {}\n\n", e.what());
  }

  net.hybridize();
  NDArray x = nd.random_normal({2, 1, 12, 12});
  NDArray expected = net(x);
  net.export_model("model", 1);
  fmt::print("model-symbol.json: {} bytes\nmodel-0001.params:\n", std::filesystem::file_size("model-symbol.json"));
  for (const auto& [name, array] : nd_file::load("model-0001.params")) {
    fmt::print("  {} {}\n", name, array.shape().str());
  }

  // A SymbolBlock is a block like any other: it runs as one operation, can be trained, and composes.
  auto model = gluon::SymbolBlock::imports("model-symbol.json", {"data"}, "model-0001.params");
  fmt::print("\ninputs: {}\noutputs: {}\n", fmt::join(model.program().list_inputs(), " "),
             fmt::join(model.program().list_outputs(), " "));
  NDArray difference = nd.max(nd.abs(model(x) - expected));
  fmt::print("largest difference between net and model: {}\n\n", difference.asscalar<float>());

  // Part of the program, for instance to take features from a trained model.
  Symbol all = Symbol::load("model-symbol.json").get_internals();
  for (const std::string& name : all.list_outputs()) fmt::print("{} ", name);
  Symbol pooled;
  for (int i = 0; i < all.num_outputs(); ++i) {
    if (all.list_outputs()[size_t(i)].starts_with("pool")) pooled = all.output(i);
  }
  gluon::SymbolBlock features(pooled, {"data"});
  features.collect_params().load("model-0001.params", false, true);
  fmt::print("\n\nfeatures {}: shape {}\n\n", pooled, features(x).shape().str());

  std::filesystem::resize_file("model-0001.params", 100);
  try {
    gluon::SymbolBlock::imports("model-symbol.json", {"data"}, "model-0001.params");
  } catch (const IoError& e) {
    fmt::print("IoError: {}\n", e.what());
  }
}
