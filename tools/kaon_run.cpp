// kaon-run: runs a net on arrays of files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

// The arrays of "x.npy", "data=x.npy" or of a file with several, by the names of inputs.
NamedArrays read_inputs(const std::vector<std::string>& texts, const std::vector<std::string>& inputs) {
  NamedArrays given;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    const std::string file = equals == std::string::npos ? text : text.substr(equals + 1);
    const NamedArrays arrays = load_tensors(file);
    if (arrays.size() == 1) {
      if (name.empty() && inputs.size() != 1 && std::ranges::find(inputs, arrays[0].first) == inputs.end()) {
        throw ValueError(fmt::format("--input: the net has {} inputs: say which, as {}={}", inputs.size(),
                                     inputs.empty() ? "data" : inputs[0], file));
      }
      const bool is_named = name.empty() && std::ranges::find(inputs, arrays[0].first) != inputs.end();
      given.emplace_back(!name.empty() ? name : is_named ? arrays[0].first : inputs[0], arrays[0].second);
    } else if (!name.empty()) {
      throw ValueError(fmt::format("--input: {} has {} arrays, expected one for '{}'", file, arrays.size(), name));
    } else {
      given.insert(given.end(), arrays.begin(), arrays.end());
    }
  }
  return given;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a net (ONNX, or symbol.json of MXNet or Kaon) on arrays of npy, npz, safetensors or params files.",
               "kaon-run");
  std::string file, params, output;
  std::vector<std::string> inputs;
  app.add_option("file", file, "The net")->required();
  app.add_option("--params", params,
                 "Its weights, of any kind; default: the file beside it with the name of an export");
  app.add_option("--input", inputs, "x.npy, data=x.npy, or a file with an array for each input")->required();
  app.add_option("--output", output, "Where the results go, .npz, .npy or .safetensors; without it they are printed");
  return tools::run_tool(app, argc, argv, [&] {
    const tools::Model model = tools::open_model(file, params);
    const NamedArrays given = read_inputs(inputs, model.inputs);
    std::vector<NDArray> arrays;
    for (const std::string& name : model.inputs) {
      const auto found = std::ranges::find(given, name, &NamedArrays::value_type::first);
      if (found == given.end()) throw ValueError(fmt::format("--input: no array for the input '{}'", name));
      arrays.push_back(found->second);
    }
    const std::vector<NDArray> results = model.forward(arrays);
    NamedArrays named;
    for (size_t i = 0; i < results.size(); ++i) {
      named.emplace_back(i < model.outputs.size() ? model.outputs[i] : fmt::format("output{}", i), results[i]);
    }
    if (!output.empty()) save_tensors(output, named);
    for (const auto& [name, array] : named) {
      fmt::print("{} {} {}\n", name, array.shape().str(), to_string(array.dtype()));
      if (output.empty()) fmt::print("{}\n", to_string(array));
    }
  });
}
