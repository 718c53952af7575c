// What the command-line tools share: how they end, and the nets that they open.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/gluon/symbol_block.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::tools {

// Reads the command line and calls `run`. Returns 0; 1 with the error's text behind the tool's name on stderr; for a
// wrong command line what the library says.
int run_tool(CLI::App& app, int argc, char** argv, const std::function<void()>& run);

// A net and the names of its inputs and outputs.
struct Model {
  gluon::Block block;
  std::function<std::vector<NDArray>(const std::vector<NDArray>&)> forward;
  std::vector<std::string> inputs, outputs;
  std::vector<DType> dtypes;  // of the inputs, where the file says them; else float32
  bool is_onnx = false;
  // Of "data=1,3", or of the only input without its name, by input; shapes without dimensions for those not given.
  // Throws ValueError for a name that is no input.
  std::vector<Shape> parse_shapes(const std::vector<std::string>& texts) const;
};
// Opens an ONNX model, or a program of MXNet's (symbol.json). `params`, of the latter alone: its weights, of any kind;
// empty: the file beside it that is called as export_model names it, the one of the last epoch. Inputs are the
// variables that have no weights.
Model open_model(const std::filesystem::path& file, const std::filesystem::path& params);

// "data=1,3,224,224" -> {"data", (1, 3, 224, 224)}; without a name {"", ...}. Throws ValueError.
std::pair<std::string, Shape> parse_shape(const std::string& text);
// "key=value". Throws ValueError, naming the option.
std::pair<std::string, std::string> parse_pair(const std::string& text, std::string_view option);
// Throws ValueError.
DType parse_dtype(const std::string& text);
// "1.5 MB"
std::string size_text(uint64_t bytes);
// A name without what MXNet's files put before it, "arg:" or "aux:".
std::string plain_name(const std::string& name);

}  // namespace kaon::tools
