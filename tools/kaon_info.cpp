// kaon-info: what is in a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "kaon/graph/symbol_picture.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

void print_tensors(const FileSummary& summary, size_t most) {
  if (summary.tensors.empty()) {
    const bool holds_tensors = summary.operators.empty() && summary.inputs.empty() && summary.problems.empty();
    if (holds_tensors) fmt::print("tensors: none\n");
    return;
  }
  size_t width = 4;
  for (size_t i = 0; i < std::min(most, summary.tensors.size()); ++i)
    width = std::max(width, summary.tensors[i].name.size());
  width = std::min<size_t>(width, 72);
  std::map<std::string, std::pair<int64_t, uint64_t>> by_dtype;
  uint64_t total = 0;
  for (const TensorSummary& t : summary.tensors) {
    auto& [count, bytes] = by_dtype[t.dtype];
    ++count;
    bytes += t.bytes;
    total += t.bytes;
  }
  fmt::print("tensors: {}, {}\n", summary.tensors.size(), tools::size_text(total));
  for (const auto& [dtype, sums] : by_dtype) {
    fmt::print("  of {}: {}, {}\n", dtype, sums.first, tools::size_text(sums.second));
  }
  fmt::print("  {:<{}}  {:<10} {:<22} {:>10}\n", "name", width, "dtype", "shape", "bytes");
  for (size_t i = 0; i < summary.tensors.size(); ++i) {
    if (i == most) {
      fmt::print("  ... {} more (--tensors 0 shows all)\n", summary.tensors.size() - most);
      break;
    }
    const TensorSummary& t = summary.tensors[i];
    fmt::print("  {:<{}}  {:<10} {:<22} {:>10}{}\n", t.name, width, t.dtype, t.shape, t.bytes,
               t.note.empty() ? "" : "  not supported: " + t.note);
  }
}

void print_names(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  fmt::print("{}: {}\n", what, names.size());
  for (size_t i = 0; i < std::min<size_t>(names.size(), 20); ++i) fmt::print("  {}\n", names[i]);
  if (names.size() > 20) fmt::print("  ... {} more\n", names.size() - 20);
}

// The same with texts for a terminal.
FileSummary printable(FileSummary summary) {
  using tools::printable;
  for (TensorSummary& t : summary.tensors) t.name = printable(t.name), t.dtype = printable(t.dtype);
  for (auto* names : {&summary.inputs, &summary.outputs, &summary.problems}) {
    for (std::string& name : *names) name = printable(name);
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : summary.metadata) metadata[printable(key)] = printable(text);
  std::map<std::string, int64_t> operators;
  for (const auto& [name, count] : summary.operators) operators[printable(name)] += count;
  summary.metadata = std::move(metadata), summary.operators = std::move(operators);
  return summary;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Says what is in a file: MXNet's programs and arrays, safetensors, npy, npz, PyTorch's state dicts, ONNX.",
      "kaon-info");
  std::string file, plot;
  std::vector<std::string> shapes;
  size_t most = 50;
  app.add_option("file", file, "The file")->required();
  app.add_option("--tensors", most, "How many tensors to list; 0: all")
      ->capture_default_str()
      ->check(tools::whole_number());
  app.add_option("--shape", shapes, "The shape of an input, as data=1,3,224,224: prints a table of the operators");
  app.add_option("--plot", plot, "Writes a picture of the net: SVG by Graphviz, or Graphviz's text");
  return tools::run_tool(app, argc, argv, [&] {
    const FileKind kind = kind_of(file);
    if ((!shapes.empty() || !plot.empty()) && kind != FileKind::onnx && kind != FileKind::mxnet_symbol) {
      throw ValueError(
          fmt::format("--shape and --plot are for nets (.onnx and symbol.json); {} is {}", file, name_of(kind)));
    }
    if (!plot.empty() && !plot.ends_with(".svg") && !plot.ends_with(".dot")) {
      throw ValueError(fmt::format("--plot: expected a name ending in .svg or .dot, got '{}'", plot));
    }
    if (!plot.empty()) tools::check_folder(plot);
    const FileSummary summary = printable(summarize_file(file));
    fmt::print("{}: {}, {}\n", file, name_of(summary.kind), tools::size_text(summary.bytes));
    for (const auto& [key, text] : summary.metadata) fmt::print("  {}: {}\n", key, text);
    print_names(summary.kind == FileKind::onnx ? "inputs" : "inputs and parameters", summary.inputs);
    print_names("outputs", summary.outputs);
    if (!summary.operators.empty()) {
      fmt::print("operators: {} kinds\n", summary.operators.size());
      for (const auto& [name, count] : summary.operators) fmt::print("  {:>5} {}\n", count, name);
    }
    print_tensors(summary, most ? most : size_t(-1));
    for (const std::string& problem : summary.problems) fmt::print("not supported: {}\n", problem);
    if (shapes.empty() && plot.empty()) return;
    Symbol program;
    Shapes known;
    if (summary.kind == FileKind::onnx) {  // whose operators are those for inputs of these shapes
      const tools::Model model = tools::open_model(file, {});
      const std::vector<Shape> given = tools::parse_shapes(shapes, model);
      for (size_t i = 0; i < given.size(); ++i) {
        if (given[i].ndim() > 0) known[model.inputs[i]] = given[i];
      }
      program = onnx::load(file).specialize(shapes.empty() ? std::vector<Shape>() : given).program();
    } else {
      program = Symbol::load(file);
      const std::vector<std::string> names = program.list_inputs();
      for (const std::string& text : shapes) {
        const auto [name, shape] = tools::parse_shape(text);
        if (!name.empty() && std::ranges::find(names, name) == names.end()) {
          throw ValueError(fmt::format("--shape: the net has no input '{}'; it has: {}", name, fmt::join(names, ", ")));
        }
        const std::string& input = name.empty() ? names.at(0) : name;
        if (!known.emplace(input, shape).second) {
          throw ValueError(fmt::format("--shape: two shapes for the input '{}'", input));
        }
      }
    }
    if (!shapes.empty()) fmt::print("{}", tools::printable(print_summary(program, known), true));
    if (!plot.empty()) fmt::print("wrote {}\n", plot_network(program, plot, {.shapes = known, .title = file}).string());
  });
}
