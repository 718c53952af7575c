// kaon-run: runs a net on arrays of files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

struct Given {
  NDArray array;
  std::string from;
};

// Which array is for which input, by the rule that --help says.
class Inputs {
 public:
  Inputs(const tools::Model& model) : model_(model), given_(model.inputs.size()) {}

  void read(const std::vector<std::string>& texts) {
    std::vector<std::pair<std::string, NDArray>> unnamed;  // with their files
    for (const std::string& text : texts) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) {
        NamedArrays arrays = load_tensors(text);
        if (kind_of(text) == FileKind::npy) {
          unnamed.emplace_back(text, arrays[0].second);
        } else {
          for (const auto& [name, array] : arrays) put(name, array, text, "entry ");
        }
      } else {
        const std::string name = text.substr(0, equals), file = text.substr(equals + 1);
        put(name, one_of(file, name), file, "input ");
      }
    }
    put_in_order(unnamed);
  }

  std::vector<NDArray> arrays(bool casts) const {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < given_.size(); ++i) {
      const std::string& name = model_.inputs[i];
      if (!given_[i].array.defined()) {
        throw ValueError(
            fmt::format("--input: no array for the input '{}'; the net's inputs: {}{}", name, names(), model_.hint));
      }
      const DType expected = model_.dtypes[i], found = given_[i].array.dtype();
      // of MXNet's programs the operators say whether whole numbers will do
      const bool is_wrong = model_.is_onnx ? found != expected : is_floating(found) && found != expected;
      if (is_wrong && !casts) {
        throw TypeError(fmt::format("--input: the input '{}' is of {}, {} of {}; --cast converts it", name,
                                    name_of(expected), given_[i].from, name_of(found)));
      }
      arrays.push_back(casts ? tools::cast(given_[i].array, expected, name) : given_[i].array);
    }
    return arrays;
  }

 private:
  std::string names() const { return fmt::format("{}", fmt::join(model_.inputs, ", ")); }

  static NDArray one_of(const std::string& file, const std::string& name) {
    const NamedArrays arrays = load_tensors(file);
    const auto found = std::ranges::find(arrays, name, &NamedArrays::value_type::first);
    if (found != arrays.end()) return found->second;
    if (arrays.size() == 1) return arrays[0].second;
    throw ValueError(fmt::format("--input: {} has {} arrays, and none is called '{}'", file, arrays.size(), name));
  }

  void put(const std::string& name, const NDArray& array, const std::string& file, const char* what) {
    const auto at = std::ranges::find(model_.inputs, name);
    if (at == model_.inputs.end()) {
      throw ValueError(
          fmt::format("--input: {}: the {}'{}' is no input of the net; its inputs: {}", file, what, name, names()));
    }
    if (!array.defined()) throw ValueError(fmt::format("--input: {}: '{}' holds no array", file, name));
    Given& place = given_[size_t(at - model_.inputs.begin())];
    if (place.array.defined()) {
      throw ValueError(fmt::format("--input: two arrays for the input '{}': {} and {}", name, place.from, file));
    }
    place = {array, file};
  }

  // Files called as the inputs, and in another order, are no slip to be passed over.
  void put_in_order(const std::vector<std::pair<std::string, NDArray>>& unnamed) {
    std::vector<std::string> open, stems;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!given_[i].array.defined()) open.push_back(model_.inputs[i]);
    }
    if (unnamed.size() > open.size()) {
      throw ValueError(fmt::format("--input: {} is for no input: the net has {} ({})", unnamed[open.size()].first,
                                   model_.inputs.size(), names()));
    }
    for (const auto& [file, array] : unnamed) stems.push_back(std::filesystem::path(file).stem().string());
    const bool are_inputs = std::ranges::all_of(stems, [&](const std::string& s) {
      return std::ranges::count(open, s) == 1 && std::ranges::count(stems, s) == 1;
    });
    for (size_t i = 0; i < unnamed.size(); ++i) {
      if (are_inputs && stems[i] != open[i]) {
        throw ValueError(
            fmt::format("--input: by its place {} is for the input '{}', by its name for '{}': say which, "
                        "as {}={}",
                        unnamed[i].first, open[i], stems[i], stems[i], unnamed[i].first));
      }
      put(open[i], unnamed[i].second, unnamed[i].first, "input ");
    }
  }

  const tools::Model& model_;
  std::vector<Given> given_;  // by input
};

// Before the net runs, which may take long.
void check_output(const std::string& output, const std::string& net, const std::string& params,
                  const std::vector<std::string>& inputs) {
  if (output.empty()) return;
  const auto ends = [&](const char* ending) { return output.ends_with(ending); };
  if (!ends(".npy") && !ends(".npz") && !ends(".safetensors") && !ends(".params") && !ends(".nd")) {
    throw ValueError(
        fmt::format("--output: expected a name ending in .npz, .npy, .safetensors or .params, got '{}'", output));
  }
  tools::check_folder(output);
  std::vector<std::string> read{net, params};
  for (const std::string& text : inputs) read.push_back(text.substr(text.find('=') + 1));  // npos + 1 is 0
  for (const std::string& file : read) {
    if (tools::is_same_file(output, file)) {
      throw ValueError(fmt::format("--output: {} is read, and would be written over", file));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs a net (ONNX, or symbol.json of MXNet or Kaon) on arrays of npy, npz, safetensors or params files.\n"
      "An npy file without a name is for the next of the net's inputs, in the order that kaon-info shows. In other\n"
      "files the entries are called as the inputs.",
      "kaon-run");
  std::string file, params, output;
  std::vector<std::string> inputs;
  bool casts = false;
  app.add_option("file", file, "The net")->required();
  app.add_option("--params", params,
                 "Its weights, of any kind; default: the file beside it with the name of an export");
  app.add_option(
         "--input", inputs,
         "x.npy; data=x.npy for the input 'data'; in.npz with an entry for each input; data=in.npz for its entry "
         "'data', or its only one; several")
      ->required();
  app.add_flag("--cast", casts, "Converts arrays to the dtype of their input; numbers that it cannot hold are refused");
  app.add_option("--output", output,
                 "Where the results go by their names, .npz, .safetensors, .params, or .npy for one; without it they "
                 "are printed");
  return tools::run_tool(app, argc, argv, [&] {
    check_output(output, file, params, inputs);
    const tools::Model model = tools::open_model(file, params);
    if (output.ends_with(".npy") && model.outputs.size() > 1) {
      throw ValueError(fmt::format("--output: an npy file holds one array, the net gives {} ({}): name an npz file",
                                   model.outputs.size(), fmt::join(model.outputs, ", ")));
    }
    Inputs given(model);
    given.read(inputs);
    const std::vector<NDArray> results = model.forward(given.arrays(casts));
    NamedArrays named;
    for (size_t i = 0; i < results.size(); ++i) {
      named.emplace_back(i < model.outputs.size() ? model.outputs[i] : fmt::format("output{}", i), results[i]);
    }
    if (!output.empty()) save_tensors(output, named);
    for (const auto& [name, array] : named) {
      fmt::print("{} {} {}\n", tools::printable(name), array.shape().str(), to_string(array.dtype()));
      if (output.empty()) fmt::print("{}\n", to_string(array));
    }
  });
}
