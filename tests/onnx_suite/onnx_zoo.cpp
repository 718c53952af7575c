// onnx_zoo NAME FOLDER [BYTES]: writes a net with random weights as FOLDER/model.onnx, and what it makes of random
// inputs as FOLDER/test_data_set_0, for check_zoo.py; with its arrays in a second file where the model has more than
// BYTES. `onnx_zoo --list` prints the names; "large", of 2.3 GB, is not among them.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "kaon/gluon/model_zoo/bert.h"
#include "kaon/gluon/model_zoo/gpt.h"
#include "kaon/gluon/model_zoo/unet.h"
#include "kaon/gluon/model_zoo/vision.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/element_type.h"
#include "kaon/interchange/onnx/format/wire.h"
#include "kaon/kaon.h"

namespace {

using namespace kaon;
namespace fs = std::filesystem;

uint64_t most_bytes = onnx::SaveOptions().max_file_bytes;

void write_tensor(const fs::path& path, const NDArray& array) {
  onnx::format::WireWriter w;
  w.integers(1, std::vector<int64_t>(array.shape().begin(), array.shape().end()));
  w.integer(2, int64_t(onnx::format::element_type_of(array.dtype())));
  if (array.dtype() == DType::float32) w.bytes(9, std::as_bytes(array.data<const float>()));
  else w.bytes(9, std::as_bytes(array.data<const int32_t>()));
  std::ofstream(path, std::ios::binary) << w.data();
}

void write(const gluon::Block& net, const std::vector<NDArray>& inputs, const std::vector<NDArray>& outputs,
           const fs::path& folder) {
  const fs::path data = folder / "test_data_set_0";
  fs::create_directories(data);
  onnx::save(net, folder / "model.onnx", {.max_file_bytes = most_bytes});
  for (size_t i = 0; i < inputs.size(); ++i) write_tensor(data / fmt::format("input_{}.pb", i), inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) write_tensor(data / fmt::format("output_{}.pb", i), outputs[i]);
}

template <class Net>
void write_net(Net net, const std::vector<NDArray>& inputs, const fs::path& folder) {
  net.initialize(init::Xavier());
  net.hybridize();
  write(net, inputs, {net(inputs[0])}, folder);
}

NDArray tokens(int64_t batch, int64_t length, int64_t vocabulary) {
  return nd.random_randint(0, vocabulary, {batch, length});
}

struct Recurrent : gluon::HybridBlock<Recurrent> {
  gluon::rnn::LSTM lstm = child("lstm", gluon::rnn::LSTM(12, {.num_layers = 2, .bidirectional = true}));
  gluon::rnn::GRU gru = child("gru", gluon::rnn::GRU(10));
  gluon::nn::Dense last = child("last", gluon::nn::Dense(3, {.flatten = false}));
  auto hybrid_forward(auto, auto x) { return last(gru(lstm(x))); }
};

const std::map<std::string, std::function<void(const fs::path&)>>& others() {
  static const std::map<std::string, std::function<void(const fs::path&)>> all{
      {"unet",
       [](const fs::path& f) {
         write_net(gluon::model_zoo::vision::UNet({.channels = 8, .depth = 2}), {nd.random_normal({1, 3, 32, 32})}, f);
       }},
      {"gpt",
       [](const fs::path& f) {
         write_net(gluon::model_zoo::text::GPT(
                       {.vocab_size = 100, .context = 32, .units = 32, .num_layers = 2, .num_heads = 4}),
                   {tokens(2, 9, 100)}, f);
       }},
      {"bert",
       [](const fs::path& f) {
         gluon::model_zoo::text::BERT net(
             {.vocab_size = 100, .max_length = 32, .units = 32, .hidden_size = 64, .num_layers = 2, .num_heads = 4});
         net.initialize(init::Xavier());
         net.hybridize();
         const NDArray words = tokens(2, 9, 100), types = nd.zeros({2, 9}), length = nd.array({9, 6});
         const auto [x, pooled] = net(words, types, length);
         write(net, {words, types, length}, {x, pooled}, f);
       }},
      {"recurrent",
       [](const fs::path& f) {
         write_net(Recurrent(), {nd.random_normal({5, 2, 7})}, f);
       }},
  };
  return all;
}

void write_large(const fs::path& folder) {
  gluon::nn::HybridSequential net;
  for (int i = 0; i < 9; ++i) net.add(gluon::nn::Dense(8000, {.in_units = 8000}));
  write_net(net, {nd.random_normal({2, 8000})}, folder);
}

}  // namespace

int main(int argc, char** argv) {
  namespace vision = gluon::model_zoo::vision;
  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (const std::string& name : vision::model_names()) fmt::print("{}\n", name);
    for (const auto& [name, _] : others()) fmt::print("{}\n", name);
    return 0;
  }
  if (argc != 3 && argc != 4) {
    fmt::print(stderr, "usage: onnx_zoo NAME FOLDER [BYTES], or onnx_zoo --list\n");
    return 2;
  }
  const std::string name = argv[1];
  try {
    if (argc == 4) most_bytes = std::stoull(argv[3]);
    const auto other = others().find(name);
    if (other != others().end()) other->second(argv[2]);
    else if (name == "large") write_large(argv[2]);
    else
      write_net(vision::get_model(name),
                {nd.random_normal(
                    {1, 3, name.starts_with("inception") ? 299 : 224, name.starts_with("inception") ? 299 : 224})},
                argv[2]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
  return 0;
}
