#include "kaon/tools/tool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "kaon/engine/error.h"
#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/ops/functions.h"

namespace kaon::tools {

namespace fs = std::filesystem;

int run_tool(CLI::App& app, int argc, char** argv, const std::function<void()>& run) {
  app.set_version_flag("--version", "Kaon " KAON_VERSION);
  try {
    app.parse(argc, argv);
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& value : option->results()) {
        if (value.empty()) throw CLI::ValidationError(option->get_name(), "expected a value, got an empty text");
      }
    }
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    fmt::print(stderr, "{}: {}\n{} --help says what it takes.\n", app.get_name(), e.what(), app.get_name());
    return 2;
  }
  try {
    run();
    if (std::fflush(stdout) != 0) throw IoError(fmt::format("cannot write the output: {}", std::strerror(errno)));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), printable(e.what(), true));
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

// Calls and waits, so that errors of kernels come here too. They name the file.
template <class Block>
std::function<std::vector<NDArray>(const std::vector<NDArray>&)> forward_of(const Block& block, const fs::path& file) {
  return [block, file](const std::vector<NDArray>& inputs) {
    try {
      std::vector<NDArray> results = block.forward(inputs);
      for (const NDArray& result : results) result.wait_to_read();
      return results;
    } catch (const Error& e) {
      if (std::string_view(e.what()).find(file.string()) != std::string_view::npos) throw;
      std::rethrow_exception(e.with_context(fmt::format(" (in {})", file.string())));
    }
  };
}

// What files say of the inputs' dtypes, and what follows from the weights'; else float32.
std::vector<DType> dtypes_of(const Symbol& program, const std::vector<std::string>& inputs,
                             const NamedArrays& tensors) {
  DTypes known;
  const std::vector<std::string> all = program.list_inputs(), arguments = program.list_arguments();
  for (const auto& [name, array] : tensors) {
    if (array.defined() && std::ranges::find(all, name) != all.end()) known[name] = array.dtype();
  }
  std::vector<DType> dtypes(inputs.size(), DType::float32);
  try {
    const auto inferred = program.infer_type(known).arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto at = std::ranges::find(arguments, inputs[i]);
      if (at != arguments.end()) dtypes[i] = inferred[size_t(at - arguments.begin())].value_or(DType::float32);
    }
  } catch (const TypeError&) {
    return dtypes;  // the call says what contradicts itself
  }
  return dtypes;
}

}  // namespace

Model open_model(const fs::path& file, const fs::path& params) {
  const FileKind kind = kind_of(file);
  if (kind == FileKind::onnx) {
    if (!params.empty()) throw ValueError("--params: an ONNX model has its own");
    const onnx::Block block = onnx::load(file, {.trainable = false});
    Model model{.block = block, .forward = {}, .inputs = {}, .outputs = {}, .dtypes = {}, .is_onnx = true, .hint = {}};
    model.forward = forward_of(block, file);
    for (const onnx::ValueInfo& value : block.inputs()) {
      model.inputs.push_back(value.name);
      model.dtypes.push_back(value.dtype);
    }
    for (const onnx::ValueInfo& value : block.outputs()) model.outputs.push_back(value.name);
    return model;
  }
  if (kind != FileKind::mxnet_symbol) {
    throw IoError(fmt::format("{}: expected a net (.onnx or symbol.json), found {}", file.string(),
                              kind == FileKind::unknown ? "a file of a kind that is not known" : name_of(kind)));
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
  std::string hint;
  if (weights.empty()) hint = "; no weights were found beside the net: --params names their file";
  const auto model_of = [&](const gluon::SymbolBlock& block) {
    Model model{.block = block,
                .forward = {},
                .inputs = inputs,
                .outputs = program.list_outputs(),
                .dtypes = dtypes_of(program, inputs, tensors),
                .is_onnx = false,
                .hint = hint};
    model.forward = forward_of(block, file);
    return model;
  };
  if (is_mxnet) return model_of(gluon::SymbolBlock::imports(file, inputs, weights, Device(), false, true));
  gluon::SymbolBlock block(program, inputs);
  gluon::load_weights(block, tensors,
                      {.ignore_extra = true, .cast_dtype = true, .dtype_source = gluon::DTypeSource::saved});
  return model_of(block);
}

std::vector<Shape> parse_shapes(const std::vector<std::string>& texts, const Model& model) {
  const std::vector<std::string>& inputs = model.inputs;
  std::vector<Shape> shapes(inputs.size());
  for (const std::string& text : texts) {
    const auto [name, shape] = parse_shape(text);
    if (name.empty() && inputs.size() != 1) {
      throw ValueError(fmt::format("--shape: the net has {} inputs ({}): say which, as {}={}{}", inputs.size(),
                                   fmt::join(inputs, ", "), inputs.empty() ? "data" : inputs[0], text, model.hint));
    }
    const auto at = name.empty() ? inputs.begin() : std::ranges::find(inputs, name);
    if (at == inputs.end()) {
      throw ValueError(fmt::format("--shape: the net has no input '{}'; it has: {}", name, fmt::join(inputs, ", ")));
    }
    Shape& place = shapes[size_t(at - inputs.begin())];
    if (place.ndim() > 0) throw ValueError(fmt::format("--shape: two shapes for the input '{}'", *at));
    place = shape;
  }
  for (size_t i = 0; i < shapes.size() && !texts.empty(); ++i) {
    if (shapes[i].ndim() > 0) continue;
    throw ValueError(fmt::format("--shape: none for the input '{}'{}", inputs[i], model.hint));
  }
  return shapes;
}

void refuse_given(const CLI::App& app, std::initializer_list<const char*> options, std::string_view why) {
  for (const char* option : options) {
    if (app.count(option) > 0) throw ValueError(fmt::format("{} {}", option, why));
  }
}

const CLI::Validator& whole_number() {
  static const CLI::Validator validator(
      [](const std::string& text) {
        const bool is_whole = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == text.npos;
        return is_whole ? std::string() : fmt::format("expected a whole number of 0 or more, got '{}'", text);
      },
      "");
  return validator;
}

const CLI::Validator& positive_number() {
  static const CLI::Validator validator(
      [](const std::string& text) {
        double number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
        return is_number && number > 0 ? std::string() : fmt::format("expected a number above 0, got '{}'", text);
      },
      "");
  return validator;
}

void check_folder(const fs::path& file) {
  std::error_code error;
  if (!file.has_parent_path() || fs::is_directory(file.parent_path(), error)) return;
  throw IoError(fmt::format("{}: there is no folder {}", file.string(), file.parent_path().string()));
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

NDArray cast(const NDArray& array, DType dtype, const std::string& name) {
  if (array.dtype() == dtype) return array;
  const NDArray result = array.astype(dtype);
  const auto fail = [&](const char* what) {
    throw ValueError(
        fmt::format("'{}' of {} has {} {} cannot hold", name, name_of(array.dtype()), what, name_of(dtype)));
  };
  if (array.size() == 0) return result;
  if (is_floating(dtype)) {
    const auto infinities = [](const NDArray& a) {
      return is_floating(a.dtype()) ? nd.sum(nd.isinf(a).astype(DType::float64)).asscalar<double>() : 0.0;
    };
    if (infinities(result) != infinities(array)) fail("numbers so large that");
    return result;
  }
  const NDArray same = nd.broadcast_equal(result.astype(DType::float64), array.astype(DType::float64));
  if (nd.min(same.astype(DType::float64)).asscalar<double>() == 0) fail("numbers that");
  return result;
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
  if (equals == std::string::npos || equals == 0) {
    throw ValueError(fmt::format("{}: expected key=value, got '{}'", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

DType parse_dtype(const std::string& text, std::string_view option) {
  std::string names;
  for (DType dtype : ops::all_dtypes) {
    if (text == name_of(dtype)) return dtype;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(dtype));
  }
  throw ValueError(fmt::format("{}: expected one of {}, got '{}'", option, names, text));
}

std::string size_text(uint64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  auto n = double(bytes);
  for (; n >= 1000 && unit < 4; n /= 1000) ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", n, units[unit]);
}

std::string printable(std::string_view text, bool has_lines) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = uint8_t(text[i]);
    const bool is_second = c == 0xc2 && i + 1 < text.size() && (uint8_t(text[i + 1]) & 0xe0) == 0x80;  // U+0080 to 9f
    if (is_second) {
      shown += fmt::format("\\x{:02x}", uint8_t(text[++i]));
    } else if (c == '\n' || c == '\t') {
      shown += has_lines ? std::string(1, char(c)) : c == '\n' ? "\\n" : "\\t";
    } else if (c < 32 || c == 127) {
      shown += fmt::format("\\x{:02x}", c);
    } else {
      shown += char(c);
    }
  }
  return shown;
}

std::string plain_name(const std::string& name) {
  return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name;
}

}  // namespace kaon::tools
