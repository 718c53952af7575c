// JSON text to SymbolFile.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

#include "kaon/engine/error.h"
#include "kaon/graph/files/symbol_file.h"

namespace kaon::graph {

namespace json = boost::json;

void SymbolFile::fail(const std::string& why) const { throw IoError(fmt::format("{}: {}", source, why)); }

void SymbolFile::fail(size_t node, const std::string& why) const {
  const FileNode& n = nodes[node];
  const std::string op = n.op.empty() || n.op == "null" ? "" : fmt::format(" ({})", n.op);
  fail(fmt::format("node {} '{}'{}: {}", node, n.name, op, why));
}

namespace {

// "line 3, column 7 (byte 52)"
std::string place_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {} (byte {})", line, offset - start + 1, offset);
}

json::value parse_json(std::string_view text, const std::string& source, json::storage_ptr memory) {
  json::parse_options options;
  options.allow_invalid_utf8 = true;  // names in other encodings are passed on as they are
  json::parser parser(memory, options);
  boost::system::error_code error;
  const size_t done = parser.write_some(text.data(), text.size(), error);
  if (!error && done < text.size()) error = json::error::extra_data;
  if (error) throw IoError(fmt::format("{}: no JSON: {} at {}", source, error.message(), place_of(text, done)));
  return parser.release();
}

class Parser {
 public:
  Parser(SymbolFile& file, const json::value& root) : file_(file), root_(root) {}

  void run() {
    const json::object* graph = root_.if_object();
    if (!graph) file_.fail("expected an object with the key \"nodes\"");
    for (const auto& [key, value] : *graph) {
      static constexpr std::string_view known[] = {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"};
      if (std::find(std::begin(known), std::end(known), std::string_view(key)) == std::end(known)) {
        file_.fail(fmt::format("unknown key \"{}\" beside \"nodes\"", std::string_view(key)));
      }
    }
    nodes(array(member(*graph, "nodes"), "\"nodes\""));
    // files with "param" name the user's attributes "attr": these are saved under today's name
    if (has_attr_ && !has_other_) file_.attrs_key = "attr";
    entries(array(member(*graph, "heads"), "\"heads\""), file_.heads, "\"heads\"");
    if (file_.heads.empty()) file_.fail("\"heads\" names no output");
    if (const json::value* v = graph->if_contains("arg_nodes")) arg_nodes(array(*v, "\"arg_nodes\""));
    if (const json::value* v = graph->if_contains("node_row_ptr")) row_ptr(*v);
    if (const json::value* v = graph->if_contains("attrs")) graph_attrs(*v);
  }

 private:
  const json::value& member(const json::object& object, const char* key) {
    const json::value* v = object.if_contains(key);
    if (!v) file_.fail(fmt::format("the key \"{}\" is missing", key));
    return *v;
  }
  const json::array& array(const json::value& value, const std::string& what) {
    const json::array* a = value.if_array();
    if (!a) file_.fail(fmt::format("{}: expected an array", what));
    return *a;
  }

  // A whole number in [0, limit); what() names it in errors.
  template <class What>
  uint32_t number(const json::value& value, size_t limit, const What& what) {
    boost::system::error_code error;
    const auto n = value.to_number<int64_t>(error);
    const bool whole = value.is_int64() || value.is_uint64();
    if (!whole || error || n < 0 || uint64_t(n) >= limit) {
      file_.fail(fmt::format("{}: expected a number from 0 to {}, found {}", what(), limit - 1, shorten(value)));
    }
    return uint32_t(n);
  }
  static std::string shorten(const json::value& value) {
    std::string text = value.is_structured() ? (value.is_array() ? "an array" : "an object") : json::serialize(value);
    return text.size() > 60 ? text.substr(0, 60) + "..." : text;
  }

  // [[node, output, version], ...]; before 0.9 without version.
  void entries(const json::array& list, std::vector<FileEntry>& out, const std::string& what) {
    constexpr size_t any = std::numeric_limits<uint32_t>::max();
    for (size_t i = 0; i < list.size(); ++i) {
      const json::array* e = list[i].if_array();
      const auto place = [&] { return fmt::format("{}, entry {}", what, i); };
      if (!e || (e->size() != 2 && e->size() != 3)) {
        file_.fail(fmt::format("{}: expected [node, output, version], found {}", place(), shorten(list[i])));
      }
      const auto part = [&](size_t at, size_t limit) { return number((*e)[at], limit, place); };
      out.push_back(
          {.node = part(0, file_.nodes.size()), .output = part(1, any), .version = e->size() == 3 ? part(2, any) : 0});
    }
  }

  void nodes(const json::array& list) {
    if (list.empty()) file_.fail("\"nodes\" is empty");
    if (list.size() >= std::numeric_limits<uint32_t>::max()) file_.fail("too many nodes");
    file_.nodes.resize(list.size());  // before the inputs are read: these may name later nodes
    for (size_t i = 0; i < list.size(); ++i) {
      const json::object* object = list[i].if_object();
      if (!object) file_.fail(fmt::format("node {}: expected an object", i));
      file_.nodes[i].name = text(*object, "name", i);  // first, for messages
      file_.nodes[i].op = text(*object, "op", i);
      for (const auto& [key, value] : *object) node_member(i, key, value);
      if (!object->contains("inputs")) file_.fail(i, "the key \"inputs\" is missing");
    }
  }

  std::string text(const json::object& object, const char* key, size_t i) {
    const json::value* v = object.if_contains(key);
    if (!v || !v->is_string()) file_.fail(i, fmt::format("expected a text under the key \"{}\"", key));
    return std::string(v->get_string());
  }

  void node_member(size_t i, std::string_view key, const json::value& value) {
    FileNode& node = file_.nodes[i];
    if (key == "op" || key == "name" || key == "backward_source_id") return;
    if (key == "attrs" || key == "attr" || key == "param") {
      const json::object* map = value.if_object();
      if (!map) file_.fail(i, fmt::format("\"{}\": expected an object", key));
      for (const auto& [name, v] : *map) {
        if (!v.is_string()) {
          file_.fail(i, fmt::format("attribute '{}': expected a text, found {}", std::string_view(name), shorten(v)));
        }
        node.text_attrs[std::string(name)] = std::string(v.get_string());
      }
      (key == "attr" ? has_attr_ : has_other_) = true;
    } else if (key == "inputs") {
      entries(array(value, fmt::format("inputs of node {} '{}'", i, node.name)), node.inputs,
              fmt::format("inputs of node {} '{}'", i, node.name));
    } else if (key == "subgraphs") {
      for (const json::value& v : array(value, fmt::format("subgraphs of node {} '{}'", i, node.name))) {
        SymbolFile& sub = node.subgraphs.emplace_back();
        const size_t number = node.subgraphs.size() - 1;
        sub.source = fmt::format("{}: node {} '{}': subgraph {}", file_.source, i, node.name, number);
        Parser(sub, v).run();
      }
    } else if (key == "control_deps") {
      const json::array* list = value.if_array();
      if (!list || !list->empty()) file_.fail(i, fmt::format("has \"{}\", which Kaon cannot run", key));
    } else {
      file_.fail(i, fmt::format("unknown key \"{}\"", key));
    }
  }

  void arg_nodes(const json::array& list) {
    for (size_t at = 0; at < list.size(); ++at) {
      const uint32_t i =
          number(list[at], file_.nodes.size(), [&] { return fmt::format("node number {} of \"arg_nodes\"", at); });
      if (file_.nodes[i].op != "null") file_.fail(i, "\"arg_nodes\" names it, but it is no variable");
    }
  }

  // Optional for readers, and MXNet's versions count differently: a value that makes no sense is dropped.
  void row_ptr(const json::value& value) {
    const json::array* list = value.if_array();
    if (!list || list->size() != file_.nodes.size() + 1) return;
    std::vector<int64_t> rows;
    for (const json::value& v : *list) {
      boost::system::error_code error;
      rows.push_back(v.to_number<int64_t>(error));
      if (error || rows.back() < 0) return;
      const int64_t step = rows.size() == 1 ? 1 : rows.back() - rows[rows.size() - 2];
      if (step < 1 || step > std::numeric_limits<int32_t>::max()) return;
    }
    if (rows[0] != 0) return;
    for (size_t i = 0; i < file_.nodes.size(); ++i) file_.nodes[i].outputs = uint32_t(rows[i + 1] - rows[i]);
  }

  // Boost.JSON may read such a number one bit off, and it is written again.
  static bool has_fraction(const json::value& value) {
    if (value.is_double()) return true;
    if (const json::array* a = value.if_array()) return std::any_of(a->begin(), a->end(), has_fraction);
    const json::object* o = value.if_object();
    return o && std::any_of(o->begin(), o->end(), [](const auto& pair) { return has_fraction(pair.value()); });
  }

  // {"mxnet_version": ["int", 10901]}
  void graph_attrs(const json::value& value) {
    const json::object* map = value.if_object();
    if (!map) file_.fail("\"attrs\": expected an object");
    for (const auto& [key, v] : *map) {
      const json::array* pair = v.if_array();
      if (!pair || pair->size() != 2 || !(*pair)[0].is_string()) {
        file_.fail(fmt::format("attribute '{}' of the graph: expected [type, value]", std::string_view(key)));
      }
      const json::value& content = (*pair)[1];
      if (key == "mxnet_version") {
        file_.mxnet_version = number(content, 100'000'000, [] { return "\"mxnet_version\""; });
      } else if (key == "is_np_shape") {
        file_.numpy_shape = number(content, 2, [] { return "\"is_np_shape\""; }) != 0;
      }
      if (has_fraction(content)) {
        file_.fail(fmt::format("attribute '{}' of the graph: expected whole numbers, found {}", std::string_view(key),
                               shorten(content)));
      }
      const std::string written = content.is_string() ? json_quote(content.get_string()) : json::serialize(content);
      file_.attrs.emplace_back(key, fmt::format("[{}, {}]", json_quote((*pair)[0].get_string()), written));
    }
  }

  SymbolFile& file_;
  const json::value& root_;
  bool has_attr_ = false, has_other_ = false;
};

}  // namespace

SymbolFile parse_symbol_file(std::string_view text, const std::string& source) {
  SymbolFile file;
  file.source = source;
  file.bytes = text.size();
  json::monotonic_resource memory;  // freed as a whole, after the last use of the tree
  const json::value root = parse_json(text, source, &memory);
  Parser(file, root).run();
  return file;
}

std::vector<uint32_t> file_order(const SymbolFile& file, FileRoots roots) {
  enum class State : uint8_t { fresh, open, done };
  std::vector<State> state(file.nodes.size(), State::fresh);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> stack;  // node, next input to visit
  const bool all = roots == FileRoots::all;
  for (size_t i = 0; i < (all ? file.nodes.size() : file.heads.size()); ++i) {
    const uint32_t root = all ? uint32_t(i) : file.heads[i].node;
    if (state[root] != State::fresh) continue;
    state[root] = State::open;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == file.nodes[node].inputs.size()) {
        state[node] = State::done;
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const uint32_t input = file.nodes[node].inputs[next++].node;
      if (state[input] == State::open) file.fail(input, "needs its own output: the graph has a cycle");
      if (state[input] == State::fresh) {
        state[input] = State::open;
        stack.emplace_back(input, 0);
      }
    }
  }
  return order;
}

}  // namespace kaon::graph
