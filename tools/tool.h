// What the command-line tools share: how they end, and the nets that they open.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/gluon/nn/sequential.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::tools {

// Reads the command line and calls `run`. Returns 0; 1 with the error's text behind the tool's name on stderr, and 2 so
// for a command line that is none.
int run_tool(CLI::App& app, int argc, char** argv, const std::function<void()>& run);

// A net and the names of its inputs and outputs.
struct Model {
  gluon::nn::AnyBlock block;
  std::function<std::vector<NDArray>(const std::vector<NDArray>&)> forward;
  std::vector<std::string> inputs, outputs;
  std::vector<DType> dtypes;  // of the inputs, where the file or the weights say them; else float32
  bool is_onnx = false;
  std::string hint;  // for errors about inputs: where no weights were found
};
// Opens an ONNX model, or a program of MXNet's (symbol.json). `params`, of the latter alone: its weights, of any kind;
// empty: the file beside it that is called as export_model names it, the one of the last epoch. Inputs are the
// variables that have no weights.
Model open_model(const std::filesystem::path& file, const std::filesystem::path& params);

// "data=1,3,224,224" -> {"data", (1, 3, 224, 224)}; without a name {"", ...}. Throws ValueError.
std::pair<std::string, Shape> parse_shape(const std::string& text);
// Of "data=1,3", or of the only input without its name, by input; without texts shapes of no dimensions. Throws
// ValueError for a name that is no input or is there twice, and for an input without a shape.
std::vector<Shape> parse_shapes(const std::vector<std::string>& texts, const Model& model);
// Throws ValueError, "<option> <why>", where one of the options is on the command line.
void refuse_given(const CLI::App& app, std::initializer_list<const char*> options, std::string_view why);
// Of an option: a whole number of 0 or more, and a number above 0.
const CLI::Validator& whole_number();
const CLI::Validator& positive_number();
// Throws IoError, naming the file, where the folder that it would be written into is not there.
void check_folder(const std::filesystem::path& file);
// Whether both are there and one.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);
// The array of another dtype. Throws ValueError, naming it, where whole numbers would lose fractions or be out of
// range, and floating ones become infinite.
NDArray cast(const NDArray& array, DType dtype, const std::string& name);
// "key=value" with a key. Throws ValueError, naming the option.
std::pair<std::string, std::string> parse_pair(const std::string& text, std::string_view option);
// Throws ValueError, naming the option.
DType parse_dtype(const std::string& text, std::string_view option);
// "1.5 MB"
std::string size_text(uint64_t bytes);
// A text of a file for a terminal: control characters as \n, \t or \x1b. `has_lines`: those of its own lines stay.
std::string printable(std::string_view text, bool has_lines = false);
// A name without what MXNet's files put before it, "arg:" or "aux:".
std::string plain_name(const std::string& name);

}  // namespace kaon::tools
