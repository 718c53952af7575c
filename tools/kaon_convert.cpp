// kaon-convert: from one kind of file to another.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "kaon/graph/symbol_picture.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/ops/functions.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

struct Options {
  std::string in, out, dtype, strip_prefix, add_prefix, only;
  std::vector<std::string> rename, metadata, shapes;
  bool compress = false;
  uint64_t shard_bytes = 0, file_bytes = onnx::SaveOptions().max_file_bytes;
};

// Runs the net once on zeros of the shapes given, so that it can be written as the other kind.
void convert_net(const Options& o) {
  const std::string suffix = "-symbol.json";
  const bool to_onnx = o.out.ends_with(".onnx");
  if (!to_onnx && (!o.out.ends_with(suffix) || o.out.size() == suffix.size())) {
    throw ValueError(fmt::format("a net is written as <name>{} or .onnx, got '{}'", suffix, o.out));
  }
  tools::Model model = tools::open_model(o.in, {});
  const onnx::SaveOptions options{.max_file_bytes = o.file_bytes};
  if (model.is_onnx && to_onnx && o.shapes.empty()) {  // the model as it is
    onnx::save(onnx::load(o.in), o.out, options);
    fmt::print("wrote {}\n", o.out);
    return;
  }
  const std::vector<Shape> shapes = model.parse_shapes(o.shapes);
  std::vector<NDArray> zeros;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].ndim() == 0) throw ValueError(fmt::format("--shape: none for the input '{}'", model.inputs[i]));
    zeros.push_back(nd.zeros(shapes[i], {.dtype = model.dtypes[i]}));
  }
  if (to_onnx) {
    if (model.is_onnx) {  // the program for these shapes
      gluon::SymbolBlock block = onnx::load_block(o.in, shapes);
      block.hybridize();
      block.forward(zeros);
      onnx::save(block, o.out, options);
    } else {
      model.block.hybridize();
      model.forward(zeros);
      onnx::save(model.block, o.out, options);
    }
    fmt::print("wrote {}\n", o.out);
    return;
  }
  if (!model.is_onnx) return Symbol::load(o.in).save(o.out);
  const gluon::SymbolBlock block = onnx::load_block(o.in, shapes);
  block.forward(zeros);
  const std::string prefix = o.out.substr(0, o.out.size() - suffix.size());
  block.export_model(prefix, 0, {.fixed_shapes = true});
  fmt::print("wrote {} and {}-0000.params\n", o.out, prefix);
}

void convert_program(const Options& o) {
  const Symbol program = Symbol::load(o.in);
  const std::string extension = std::filesystem::path(o.out).extension().string();
  if (extension == ".json") {
    program.save(o.out);
    fmt::print("wrote {}\n", o.out);
  } else if (extension == ".svg" || extension == ".dot") {
    fmt::print("wrote {}\n", plot_network(program, o.out, {.title = o.in}).string());
  } else {
    throw ValueError(fmt::format("a program is written as .json, .svg or .dot, got '{}'", o.out));
  }
}

std::regex compiled(const std::string& pattern, const char* option) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& e) {
    throw ValueError(fmt::format("{}: '{}' is no regular expression: {}", option, pattern, e.what()));
  }
}

void convert_tensors(const Options& o) {
  NamedArrays arrays = load_tensors(o.in);
  const bool to_mxnet = o.out.ends_with(".params") || o.out.ends_with(".nd");
  std::vector<std::pair<std::regex, std::string>> rules;
  for (const std::string& text : o.rename) {
    const auto [pattern, replacement] = tools::parse_pair(text, "--rename");
    rules.emplace_back(compiled(pattern, "--rename"), replacement);
  }
  const std::regex only = compiled(o.only.empty() ? "" : o.only, "--only");
  NamedArrays converted;
  for (const auto& [given, array] : arrays) {
    if (!array.defined()) continue;
    if (given.size() > 2000)
      throw ValueError(fmt::format("a name of {} characters is too long for rules", given.size()));
    if (!o.only.empty() && !std::regex_search(given, only)) continue;
    std::string name = to_mxnet ? given : tools::plain_name(given);
    if (name.starts_with(o.strip_prefix)) name.erase(0, o.strip_prefix.size());
    for (const auto& [pattern, replacement] : rules) name = std::regex_replace(name, pattern, replacement);
    const bool casts = !o.dtype.empty() && is_floating(array.dtype());
    converted.emplace_back(o.add_prefix + name, casts ? array.astype(tools::parse_dtype(o.dtype)) : array);
  }
  if (converted.empty() && !o.only.empty())
    throw ValueError(fmt::format("--only: no tensor of {} has a name with '{}'", o.in, o.only));
  SaveTensorsOptions options{.metadata = {}, .compress = o.compress, .max_shard_bytes = o.shard_bytes};
  for (const std::string& text : o.metadata) options.metadata.insert(tools::parse_pair(text, "--metadata"));
  save_tensors(o.out, converted, options);
  uint64_t bytes = 0;
  for (const auto& [name, array] : converted) bytes += uint64_t(array.size()) * size_of(array.dtype());
  fmt::print("wrote {}: {} tensors, {}\n", o.out, converted.size(), tools::size_text(bytes));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Converts a file of tensors to the kind that the other name ends in (.params, .safetensors, "
      ".safetensors.index.json,\n"
      ".npz, .npy), a program of MXNet's to .json of this version, .svg or .dot, or a net between ONNX and MXNet's "
      "files\n"
      "(--shape says for which inputs). PyTorch's .pt is read, not written.\n"
      "Names lose MXNet's 'arg:' and 'aux:' unless .params is written.",
      "kaon-convert");
  Options o;
  app.add_option("in", o.in, "The file to read")->required();
  app.add_option("out", o.out, "The file to write")->required();
  app.add_option("--dtype", o.dtype, "Casts floating tensors, as to float16");
  app.add_option("--only", o.only, "Takes tensors whose name this regular expression finds");
  app.add_option("--strip-prefix", o.strip_prefix, "Removes this from the beginning of names");
  app.add_option("--rename", o.rename,
                 "A regular expression and its replacement, as '^model\\.(.*)=$1'; several in order");
  app.add_option("--add-prefix", o.add_prefix, "Puts this before names");
  app.add_option("--metadata", o.metadata, "key=value, of safetensors");
  app.add_option("--shard-bytes", o.shard_bytes, "At most so many bytes in a file, of safetensors with an index");
  app.add_option("--file-bytes", o.file_bytes,
                 "Puts the arrays of an ONNX model of more bytes into a second file; 2 GiB");
  app.add_option("--shape", o.shapes, "The shape of an input of a net, as data=1,3,224,224");
  app.add_flag("--compress", o.compress, "Deflates, of npz");
  return tools::run_tool(app, argc, argv, [&] {
    const FileKind kind = kind_of(o.in);
    if (kind == FileKind::onnx || (kind == FileKind::mxnet_symbol && o.out.ends_with(".onnx"))) {
      convert_net(o);
    } else if (kind == FileKind::mxnet_symbol) {
      convert_program(o);
    } else {
      convert_tensors(o);
    }
  });
}
