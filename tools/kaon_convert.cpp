// kaon-convert: from one kind of file to another.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <unordered_map>

#include "kaon/graph/symbol_picture.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/interchange/torch_files.h"
#include "kaon/ops/functions.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

struct Options {
  std::string in, out, params, dtype, strip_prefix, add_prefix, only;
  std::vector<std::string> rename, metadata, shapes;
  bool compress = false;
  uint64_t shard_bytes = 0, file_bytes = onnx::SaveOptions().max_file_bytes;
};

constexpr std::string_view symbol_suffix = "-symbol.json";

// The kinds that files are written as, by the endings of their names.
enum class Target : uint8_t { params, safetensors, safetensors_index, npz, npy, onnx, symbol, json, picture };

Target target_of(const std::string& out) {
  constexpr std::pair<std::string_view, Target> endings[] = {{".params", Target::params},
                                                             {".nd", Target::params},
                                                             {".safetensors", Target::safetensors},
                                                             {".safetensors.index.json", Target::safetensors_index},
                                                             {".npz", Target::npz},
                                                             {".npy", Target::npy},
                                                             {".onnx", Target::onnx},
                                                             {symbol_suffix, Target::symbol},
                                                             {".json", Target::json},
                                                             {".svg", Target::picture},
                                                             {".dot", Target::picture}};
  const std::string name = std::filesystem::path(out).filename().string();
  for (const auto& [ending, target] : endings) {
    if (name.ends_with(ending) && name.size() > ending.size()) return target;
  }
  if (name.ends_with(".pt") || name.ends_with(".pth")) {
    throw ValueError(fmt::format("{}: PyTorch's files are read, not written: torch reads .safetensors and .npz", out));
  }
  throw ValueError(
      fmt::format("{}: the name's ending says what is written: expected .params, .nd, .safetensors, "
                  ".safetensors.index.json, .npz, .npy, .onnx, -symbol.json, .json, .svg or .dot",
                  out));
}

bool is_of_tensors(Target target) { return target <= Target::npy; }

// Runs a net once on zeros of the shapes given, so that it can be written as the other kind.
void convert_net(const Options& o, Target target) {
  tools::Model model = tools::open_model(o.in, o.params);
  const onnx::SaveOptions options{.max_file_bytes = o.file_bytes};
  const std::vector<Shape> shapes = tools::parse_shapes(o.shapes, model);
  if (model.is_onnx && target == Target::onnx) {  // its own graph, for these shapes where some are given
    onnx::SaveOptions own = options;
    if (!o.shapes.empty()) own.shapes = shapes;
    try {
      onnx::save(onnx::load(o.in), o.out, own);
    } catch (const Error& e) {
      if (std::string_view(e.what()).find(o.in) != std::string_view::npos) throw;
      std::rethrow_exception(e.with_context(fmt::format(" (in {})", o.in)));
    }
    fmt::print("wrote {}\n", o.out);
    return;
  }
  std::vector<NDArray> zeros;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].ndim() == 0)
      throw ValueError(fmt::format("--shape: none for the input '{}'{}", model.inputs[i], model.hint));
    zeros.push_back(nd.zeros(shapes[i], {.dtype = model.dtypes[i]}));
  }
  if (target == Target::onnx) {
    model.forward(zeros);
    // with its own names of inputs, which a trace does not have
    std::vector<Symbol> variables;
    std::vector<std::pair<std::string, TensorMeta>> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      variables.push_back(sym.var(model.inputs[i], shapes[i], model.dtypes[i]));
      inputs.emplace_back(model.inputs[i], TensorMeta{shapes[i], model.dtypes[i]});
    }
    std::unordered_map<std::string, NDArray> values;
    for (const gluon::Parameter& p : model.block.collect_params()) values[p.name()] = p.data();
    onnx::save(Symbol::group(model.block(variables)), inputs, values, o.out, options);
    fmt::print("wrote {}\n", o.out);
    return;
  }
  const gluon::SymbolBlock block = onnx::load_block(o.in, shapes);
  block.forward(zeros);
  const std::string prefix = o.out.substr(0, o.out.size() - symbol_suffix.size());
  block.export_model(prefix, 0, {.fixed_shapes = true});
  fmt::print("wrote {} and {}-0000.params\n", o.out, prefix);
}

void convert_program(const Options& o, Target target) {
  const Symbol program = Symbol::load(o.in);
  if (target == Target::picture) {
    fmt::print("wrote {}\n", plot_network(program, o.out, {.title = o.in}).string());
  } else {
    program.save(o.out);
    fmt::print("wrote {}\n", o.out);
  }
}

std::regex compiled(const std::string& pattern, const char* option) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& e) {
    throw ValueError(fmt::format("{}: '{}' is no regular expression: {}", option, pattern, e.what()));
  }
}

// What the options make of names. Each must find one: else it is a slip.
class Renaming {
 public:
  explicit Renaming(const Options& o) : options_(o) {
    for (const std::string& text : o.rename) {
      const auto [pattern, replacement] = tools::parse_pair(text, "--rename");
      rules_.push_back({compiled(pattern, "--rename"), replacement, text});
    }
  }

  std::string renamed(std::string name) {
    if (!options_.strip_prefix.empty() && name.starts_with(options_.strip_prefix)) {
      name.erase(0, options_.strip_prefix.size());
      has_stripped_ = true;
    }
    for (Rule& rule : rules_) {
      if (!std::regex_search(name, rule.pattern)) continue;
      rule.has_found = true;
      name = std::regex_replace(name, rule.pattern, rule.replacement);
    }
    return options_.add_prefix + name;
  }

  void check() const {
    if (!options_.strip_prefix.empty() && !has_stripped_) {
      throw ValueError(fmt::format("--strip-prefix: no tensor of {} has a name that begins with '{}'", options_.in,
                                   options_.strip_prefix));
    }
    for (const Rule& rule : rules_) {
      if (!rule.has_found) {
        throw ValueError(fmt::format("--rename: no tensor of {} has a name for '{}'", options_.in, rule.text));
      }
    }
  }

 private:
  struct Rule {
    std::regex pattern;
    std::string replacement, text;
    bool has_found = false;
  };
  const Options& options_;
  std::vector<Rule> rules_;
  bool has_stripped_ = false;
};

// What load_tensors() leaves out of PyTorch's files. Throws IoError where a tensor that is asked for is among it.
std::vector<std::string> left_out(const Options& o, FileKind kind, const std::regex& only) {
  std::vector<std::string> names;
  if (kind != FileKind::torch) return names;
  const torch_files::Contents contents = torch_files::contents(o.in);
  for (const torch_files::LeftOut& l : contents.left_out) {
    if (!o.only.empty() && (l.name.size() > 2000 || !std::regex_search(l.name, only))) continue;
    if (l.is_tensor) contents.at(l.name);
    names.push_back(fmt::format("{} ({})", l.name, l.found));
  }
  return names;
}

void convert_tensors(const Options& o, FileKind kind, Target target) {
  std::optional<DType> dtype;
  if (!o.dtype.empty()) dtype = tools::parse_dtype(o.dtype, "--dtype");
  if (dtype && !is_floating(*dtype)) {
    throw ValueError(fmt::format("--dtype: {} would cut numbers: expected a floating dtype", name_of(*dtype)));
  }
  SaveTensorsOptions options{.metadata = {}, .compress = o.compress, .max_shard_bytes = o.shard_bytes};
  for (const std::string& text : o.metadata) {
    const auto pair = tools::parse_pair(text, "--metadata");
    if (!options.metadata.insert(pair).second) {
      throw ValueError(fmt::format("--metadata: the key '{}' twice", pair.first));
    }
  }
  Renaming renaming(o);
  const std::regex only = compiled(o.only, "--only");
  NamedArrays converted;
  std::vector<std::string> empty;
  bool has_cast = false;
  const std::vector<std::string> others = left_out(o, kind, only);
  for (const auto& [given, array] : load_tensors(o.in)) {
    if (given.size() > 2000 && !(o.only.empty() && o.rename.empty()))
      throw ValueError(fmt::format("a name of {} characters is too long for rules", given.size()));
    if (!o.only.empty() && !std::regex_search(given, only)) continue;
    if (!array.defined()) {
      empty.push_back(given);
      continue;
    }
    std::string name = renaming.renamed(target == Target::params ? given : tools::plain_name(given));
    const bool casts = dtype && is_floating(array.dtype());
    has_cast |= casts;
    converted.emplace_back(std::move(name), casts ? tools::cast(array, *dtype, given) : array);
  }
  if (converted.empty() && !o.only.empty())
    throw ValueError(fmt::format("--only: no tensor of {} has a name with '{}'", o.in, o.only));
  renaming.check();
  if (dtype && !has_cast) throw ValueError(fmt::format("--dtype: no tensor of {} is of a floating dtype", o.in));
  save_tensors(o.out, converted, options);
  uint64_t bytes = 0;
  for (const auto& [name, array] : converted) bytes += uint64_t(array.size()) * size_of(array.dtype());
  fmt::print("wrote {}: {} tensors, {}\n", o.out, converted.size(), tools::size_text(bytes));
  for (const std::string& other : others) fmt::print("left out: {}\n", tools::printable(other));
  if (!empty.empty()) {
    fmt::print("left out, as they hold no array: {}\n", tools::printable(fmt::format("{}", fmt::join(empty, ", "))));
  }
}

// What each kind is written as; all else is refused.
void check_pair(const Options& o, FileKind kind, Target target) {
  const auto refuse = [&](std::string_view what) {
    throw ValueError(fmt::format("{} is {}, which {}; got {}", o.in, name_of(kind), what, o.out));
  };
  if (kind == FileKind::onnx) {
    if (!is_of_tensors(target) && target != Target::onnx && target != Target::symbol) {
      refuse("is written as .onnx, <name>-symbol.json or, its initializers, as a file of tensors");
    }
  } else if (kind == FileKind::mxnet_symbol) {
    if (is_of_tensors(target)) refuse("has no tensors: convert the file of its weights");
  } else if (kind == FileKind::mxnet_states) {
    refuse("needs its trainer: gluon::load_mxnet_states()");
  } else if (kind != FileKind::unknown && !is_of_tensors(target)) {
    refuse("has tensors and no net: convert the net's symbol.json, with --params");
  }
}

// An option that would do nothing is refused.
void check_options(const CLI::App& app, FileKind kind, Target target) {
  if (!is_of_tensors(target)) {
    tools::refuse_given(app, {"--dtype", "--only", "--strip-prefix", "--rename", "--add-prefix"}, "is for tensors");
  }
  if (target != Target::safetensors && target != Target::safetensors_index) {
    tools::refuse_given(app, {"--metadata", "--shard-bytes"}, "is for .safetensors alone");
  }
  if (target != Target::npz) tools::refuse_given(app, {"--compress"}, "is for .npz alone: other kinds have none");
  if (target != Target::onnx) tools::refuse_given(app, {"--file-bytes"}, "is for .onnx alone");
  const bool runs = target == Target::onnx || (kind == FileKind::onnx && target == Target::symbol);
  if (!runs) tools::refuse_given(app, {"--shape"}, "is for nets between ONNX and MXNet's files");
  if (kind != FileKind::mxnet_symbol || target != Target::onnx) {
    tools::refuse_given(app, {"--params"}, "is for a symbol.json that is written as .onnx");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Converts a file of tensors to the kind that the other name ends in (.params, .safetensors, "
      ".safetensors.index.json,\n"
      ".npz, .npy), a program of MXNet's to .json of this version, .svg or .dot, or a net between ONNX and MXNet's "
      "files\n"
      "(--shape says for which inputs). PyTorch's .pt is read, not written. Of an ONNX model, tensors are the "
      "initializers.\n"
      "Names lose MXNet's 'arg:' and 'aux:' unless .params is written.",
      "kaon-convert");
  Options o;
  app.add_option("in", o.in, "The file to read")->required();
  app.add_option("out", o.out, "The file to write; it may be the one that is read")->required();
  app.add_option("--params", o.params,
                 "The weights of a symbol.json, of any kind; default: the file beside it with the name of an export");
  app.add_option("--dtype", o.dtype, "Casts floating tensors, as to float16; numbers beyond it are refused");
  app.add_option("--only", o.only, "Takes tensors whose name this regular expression finds");
  app.add_option("--strip-prefix", o.strip_prefix, "Removes this from the beginning of names");
  app.add_option("--rename", o.rename,
                 "A regular expression and its replacement, as '^model\\.(.*)=$1'; several in order");
  app.add_option("--add-prefix", o.add_prefix, "Puts this before names");
  app.add_option("--metadata", o.metadata, "key=value, of safetensors; several");
  app.add_option("--shard-bytes", o.shard_bytes, "At most so many bytes in a file, of safetensors with an index")
      ->check(tools::whole_number());
  app.add_option("--file-bytes", o.file_bytes,
                 "Puts the arrays of an ONNX model of more bytes into a second file; 2 GiB")
      ->check(tools::whole_number());
  app.add_option("--shape", o.shapes, "The shape of an input of a net, as data=1,3,224,224; several");
  app.add_flag("--compress", o.compress, "Deflates, of npz");
  return tools::run_tool(app, argc, argv, [&] {
    const FileKind kind = kind_of(o.in);
    const Target target = target_of(o.out);
    check_pair(o, kind, target);
    check_options(app, kind, target);
    tools::check_folder(o.out);
    if (is_of_tensors(target)) {
      convert_tensors(o, kind, target);
    } else if (kind == FileKind::onnx || target == Target::onnx) {
      convert_net(o, target);
    } else {
      convert_program(o, target);
    }
  });
}
