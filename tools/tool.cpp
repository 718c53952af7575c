#include "kaon/tools/tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "kaon/engine/error.h"
#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/tensor_files.h"

namespace kaon::tools {

namespace fs = std::filesystem;

int run_tool(CLI::App& app, int argc, char** argv, const std::function<void()>& run) {
  app.set_version_flag("--version", "Kaon " KAON_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), e.what());
    return 1;
  }
  return 0;
}

namespace {

// The weights beside "net-symbol.json": "net-0010.params" before "net-0000.params".
fs::path weights_beside(const fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view suffix = "-symbol.json";
  std::string prefix = file.stem().string();
  if (name.ends_with(suffix)) prefix = name.substr(0, name.size() - suffix.size());
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::set<std::string> epochs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string other = entry.path().filename().string();
    const bool is_epoch = other.size() == prefix.size() + 12 && other.starts_with(prefix + "-") &&
                          other.ends_with(".params") &&
                          std::all_of(other.end() - 11, other.end() - 7, [](char c) { return c >= '0' && c <= '9'; });
    if (is_epoch) epochs.insert(other);
  }
  if (!epochs.empty()) return folder / *epochs.rbegin();
  for (const char* extension : {".params", ".safetensors", ".npz", ".pt"}) {
    if (fs::path other = folder / (prefix + extension); fs::exists(other)) return other;
  }
  return {};
}

}  // namespace

Model open_model(const fs::path& file, const fs::path& params) {
  const FileKind kind = kind_of(file);
  if (kind == FileKind::onnx) {
    if (!params.empty()) throw ValueError("--params: an ONNX model has its own");
    const onnx::Block block = onnx::load(file, {.trainable = false});
    Model model{.block = block, .forward = {}, .inputs = {}, .outputs = {}, .dtypes = {}, .is_onnx = true};
    model.forward = [block](const std::vector<NDArray>& inputs) { return block.forward(inputs); };
    for (const onnx::ValueInfo& value : block.inputs()) {
      model.inputs.push_back(value.name);
      model.dtypes.push_back(value.dtype);
    }
    for (const onnx::ValueInfo& value : block.outputs()) model.outputs.push_back(value.name);
    return model;
  }
  if (kind != FileKind::mxnet_symbol) {
    throw IoError(fmt::format("{}: expected a net (.onnx or symbol.json), found a file that is {}", file.string(),
                              name_of(kind)));
  }
  const Symbol program = Symbol::load(file);
  const fs::path weights = params.empty() ? weights_beside(file) : params;
  NamedArrays tensors;
  if (!weights.empty()) tensors = load_tensors(weights);
  for (auto& [name, array] : tensors) name = plain_name(name);
  std::set<std::string> known;
  for (const auto& [name, array] : tensors) known.insert(name);
  const bool is_mxnet = !weights.empty() && kind_of(weights) == FileKind::mxnet_params;
  std::vector<std::string> inputs;
  for (const std::string& name : program.list_inputs()) {
    if (known.contains(name) || (is_mxnet && name.ends_with("label"))) continue;
    inputs.push_back(name);
  }
  const auto model_of = [&](const gluon::SymbolBlock& block) {
    Model model{.block = block,
                .forward = {},
                .inputs = inputs,
                .outputs = program.list_outputs(),
                .dtypes = std::vector<DType>(inputs.size(), DType::float32)};
    model.forward = [block](const std::vector<NDArray>& arrays) { return block.forward(arrays); };
    return model;
  };
  if (is_mxnet) return model_of(gluon::SymbolBlock::imports(file, inputs, weights, Device(), false, true));
  gluon::SymbolBlock block(program, inputs);
  gluon::load_weights(block, tensors,
                      {.ignore_extra = true, .cast_dtype = true, .dtype_source = gluon::DTypeSource::saved});
  return model_of(block);
}

std::vector<Shape> Model::parse_shapes(const std::vector<std::string>& texts) const {
  std::vector<Shape> shapes(inputs.size());
  for (const std::string& text : texts) {
    const auto [name, shape] = parse_shape(text);
    const auto at = name.empty() ? inputs.begin() : std::ranges::find(inputs, name);
    if (at == inputs.end()) throw ValueError(fmt::format("--shape: the net has no input '{}'", name));
    shapes[size_t(at - inputs.begin())] = shape;
  }
  return shapes;
}

std::pair<std::string, Shape> parse_shape(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  std::string_view rest(text);
  if (equals != std::string::npos) rest.remove_prefix(equals + 1);
  const auto fail = [&] {
    throw ValueError(fmt::format(
        "a shape: expected numbers of 1 or more with commas between them, as data=1,3,224,224, got '{}'", text));
  };
  Shape shape;
  while (!rest.empty()) {
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
    if (error != std::errc() || dim < 1 || shape.ndim() == Shape::max_ndim) fail();
    shape.push_back(dim);
    rest.remove_prefix(size_t(end - rest.data()));
    if (rest.empty()) break;
    if (rest[0] != ',' && rest[0] != 'x') fail();
    rest.remove_prefix(1);
    if (rest.empty()) fail();
  }
  if (shape.ndim() == 0) fail();
  return {name, shape};
}

std::pair<std::string, std::string> parse_pair(const std::string& text, std::string_view option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw ValueError(fmt::format("{}: expected key=value, got '{}'", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

DType parse_dtype(const std::string& text) {
  std::string names;
  for (DType dtype : ops::all_dtypes) {
    if (text == name_of(dtype)) return dtype;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(dtype));
  }
  throw ValueError(fmt::format("a dtype: expected one of {}, got '{}'", names, text));
}

std::string size_text(uint64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  auto n = double(bytes);
  for (; n >= 1000 && unit < 4; n /= 1000) ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", n, units[unit]);
}

std::string plain_name(const std::string& name) {
  return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name;
}

}  // namespace kaon::tools
