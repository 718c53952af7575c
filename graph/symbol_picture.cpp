#include "kaon/graph/symbol_picture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/graph/ir/symbol_node.h"

extern char** environ;

namespace kaon {

using namespace graph;

namespace {

// Of each node its first output's.
using NodeShapes = std::unordered_map<const SymbolNode*, Shape>;

// What follows from the known shapes; the nodes stay as they are.
NodeShapes shapes_of(const Shapes& known, const std::vector<SymbolNode*>& nodes) {
  std::unordered_map<const SymbolNode*, std::vector<TensorMeta>> metas;
  for (const SymbolNode* n : nodes) metas[n] = n->outputs;
  for (const auto& [name, shape] : known) {
    const auto it = std::find_if(nodes.begin(), nodes.end(), [&, &name = name](const SymbolNode* n) {
      return n->is_variable() && n->name == name;
    });
    if (it == nodes.end()) throw ValueError(fmt::format("[print_summary] there is no variable '{}'", name));
    metas[*it][0].shape = shape;
  }
  for (SymbolNode* n : nodes) {
    try {
      if (n->op) infer_node(*n, [&](SymbolNode& x) -> std::vector<TensorMeta>& { return metas[&x]; });
    } catch (const Error& e) {
      std::rethrow_exception(e.with_context(fmt::format("; in node {}", n->name)));
    }
  }
  NodeShapes shapes;
  for (const SymbolNode* n : nodes) shapes[n] = metas[n][0].shape;
  return shapes;
}

std::string text_of(const Shape& shape) {
  if (shape.ndim() < 0) return "?";
  std::string text;
  for (const int64_t d : shape) {
    if (!text.empty()) text += 'x';
    text += d < 0 ? "?" : fmt::format("{}", d);
  }
  return text.empty() ? "1" : text;
}

bool is_called_a_weight(const std::string& name) {
  static constexpr std::string_view ends[] = {"weight",     "bias",         "gamma",       "beta",       "moving_mean",
                                              "moving_var", "running_mean", "running_var", "parameters", "alpha"};
  return std::any_of(std::begin(ends), std::end(ends), [&](std::string_view end) { return name.ends_with(end); });
}

bool is_parameter(const SymbolNode& node, const Shapes& inputs) {
  if (!node.is_variable()) return false;
  if (node.constant.defined()) return true;
  return inputs.empty() ? is_called_a_weight(node.name) : !inputs.contains(node.name);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// One colour for each kind of work.
std::string_view colour_of(std::string_view op) {
  const auto has = [&](std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view p) { return op.find(p) != std::string_view::npos; });
  };
  if (has({"Conv", "FullyConnected", "dot", "matmul", "RNN", "Embedding"})) return "#fb8072";
  if (has({"Norm"})) return "#bebada";
  if (has({"Activation", "relu", "Relu", "ReLU", "tanh", "sigmoid", "gelu", "silu"})) return "#ffffb3";
  if (has({"Pool"})) return "#80b1d3";
  if (has({"oncat", "eshape", "latten", "ranspose", "slice", "stack", "split"})) return "#fdb462";
  if (has({"oftmax", "Output"})) return "#fccde5";
  return "#b3de69";
}

}  // namespace

std::map<std::string, int64_t> count_operators(const Symbol& program) {
  std::map<std::string, int64_t> counts;
  for (const SymbolNode* n : topological_order(program.entries())) {
    if (!n->is_variable()) ++counts[n->op_name.empty() ? std::string(n->op->name()) : n->op_name];
  }
  return counts;
}

std::string print_summary(const Symbol& program, const Shapes& known) {
  const std::vector<SymbolNode*> nodes = topological_order(program.entries());
  const NodeShapes shapes = shapes_of(known, nodes);
  const std::string thick(104, '='), thin(104, '_');
  std::string text = fmt::format("{}\n{:<40}{:<24}{:>12}  {}\n{}\n", thin, "Layer (type)", "Output Shape", "Param #",
                                 "Previous Layer", thick);
  std::unordered_set<const SymbolNode*> counted;
  int64_t total = 0, unknown = 0;
  for (const SymbolNode* n : nodes) {
    const bool is_input = n->is_variable() && !is_parameter(*n, known);
    if (n->is_variable() && !is_input) continue;
    int64_t own = 0;
    std::string before;
    for (const SymbolEntry& e : n->inputs) {
      if (!is_parameter(*e.node, known)) {
        before += (before.empty() ? "" : ", ") + e.node->name;
      } else if (counted.insert(e.node.get()).second) {
        const auto shape = shapes.find(e.node.get());
        if (shape != shapes.end() && shape->second.is_known()) {
          own += shape->second.size();
        } else {
          ++unknown;
        }
      }
    }
    total += own;
    const std::string kind = is_input ? "input" : n->op_name.empty() ? std::string(n->op->name()) : n->op_name;
    const auto shape = shapes.find(n);
    text += fmt::format("{:<40}{:<24}{:>12}  {}\n", fmt::format("{} ({})", n->name, kind),
                        shape == shapes.end() ? "?" : text_of(shape->second), own, before);
  }
  text += fmt::format("{}\nTotal params: {}\n", thick, total);
  if (unknown) text += fmt::format("Parameters whose shape does not follow from the inputs' shapes: {}\n", unknown);
  return text + thin + "\n";
}

std::string network_dot(const Symbol& program, const PlotOptions& options) {
  const std::vector<SymbolNode*> nodes = topological_order(program.entries());
  const NodeShapes shapes = shapes_of(options.shapes, nodes);
  std::unordered_map<const SymbolNode*, size_t> numbers;
  std::string text = fmt::format(
      "digraph \"{}\" {{\n  rankdir=BT;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9, dir=back];\n",
      escaped(options.title));
  const auto is_hidden = [&](const SymbolNode& n) { return options.hide_weights && is_parameter(n, options.shapes); };
  for (const SymbolNode* n : nodes) {
    if (is_hidden(*n)) continue;
    const size_t number = numbers.emplace(n, numbers.size()).first->second;
    const std::string op = n->op_name.empty() && n->op ? std::string(n->op->name()) : n->op_name;
    const std::string label =
        n->is_variable() ? escaped(n->name) : fmt::format("{}\\n{}", escaped(op), escaped(n->name));
    text += fmt::format("  n{} [label=\"{}\", fillcolor=\"{}\"{}];\n", number, label,
                        n->is_variable() ? "#8dd3c7" : colour_of(op), n->is_variable() ? ", shape=ellipse" : "");
  }
  for (const SymbolNode* n : nodes) {
    if (is_hidden(*n)) continue;
    for (const SymbolEntry& e : n->inputs) {
      if (is_hidden(*e.node)) continue;
      const auto shape = shapes.find(e.node.get());
      const std::string label = shape == shapes.end() || shape->second.ndim() < 0 ? "" : text_of(shape->second);
      text += fmt::format("  n{} -> n{} [label=\"{}\"];\n", numbers.at(n), numbers.at(e.node.get()), label);
    }
  }
  return text + "}\n";
}

namespace {

// An open file, or none.
struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
};

// What `dot -Tsvg` makes of the text; nothing where the program is not there.
std::optional<std::string> drawn(const std::string& text) {
  const auto fail = [](const char* what) {
    throw IoError(fmt::format("[plot_network] {}: {}", what, std::strerror(errno)));
  };
  Descriptor in{::memfd_create("kaon_plot", MFD_CLOEXEC)}, out, end;
  if (in.number < 0) fail("no memory for the text");
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(in.number, text.data() + at, text.size() - at);
    if (n < 0) fail("no memory for the text");
    at += size_t(n);
  }
  ::lseek(in.number, 0, SEEK_SET);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("no pipe");
  out.number = ends[0];
  end.number = ends[1];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.number, 0);
  posix_spawn_file_actions_adddup2(&actions, end.number, 1);
  char program[] = "dot", format[] = "-Tsvg";
  char* arguments[] = {program, format, nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) return std::nullopt;
  if (failure != 0) {
    errno = failure;
    fail("cannot start dot");
  }
  end.close();
  std::string svg;
  std::array<char, 1 << 16> piece;
  ssize_t n;
  while ((n = ::read(out.number, piece.data(), piece.size())) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) svg.append(piece.data(), size_t(n));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || svg.empty()) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return std::nullopt;  // where spawning tells so late
    throw IoError(fmt::format("[plot_network] dot failed with status {}", status));
  }
  return svg;
}

}  // namespace

std::filesystem::path plot_network(const Symbol& program, const std::filesystem::path& file,
                                   const PlotOptions& options) {
  const std::string text = network_dot(program, options);
  if (file.extension() != ".dot") {
    if (const std::optional<std::string> svg = drawn(text)) {
      engine::write_file(file, *svg);
      return file;
    }
  }
  std::filesystem::path other = file;
  other.replace_extension(".dot");
  engine::write_file(other, text);
  return other;
}

}  // namespace kaon
