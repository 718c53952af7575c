// Nodes with "subgraphs" from symbol files.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/ops/elementwise/elementwise.h"

namespace kaon::graph {
namespace {

template <class Op>
void set_operator(FileNode& node, const Op& op) {
  node.def = &Op::def;
  node.attrs = Attributes(Op::def, &op);
}

class ControlFlowReader {
 public:
  ControlFlowReader(SymbolFile& file, size_t index, const std::vector<std::vector<uint32_t>>& variables)
      : file_(file), index_(index), variables_(variables), kind_(control_kind(*node().def)) {}

  void run() {
    static constexpr size_t counts[] = {1, 2, 3};
    const size_t count = counts[size_t(kind_)];
    if (node().subgraphs.size() != count) {
      fail(fmt::format("needs {} subgraphs, the file gives {}", count, node().subgraphs.size()));
    }
    check_keys();
    if (number("num_args") != inputs() + count) {
      fail(fmt::format("attribute 'num_args' is {}, but it has {} inputs and {} subgraphs", number("num_args"),
                       inputs(), count));
    }
    values_.resize(count);
    program_.kind = kind_;
    if (kind_ == ControlKind::foreach) {
      read_foreach();
    } else if (kind_ == ControlKind::while_loop) {
      read_while();
    } else {
      read_cond();
    }
    if (number("num_outputs") != size_t(program_.num_results())) {
      fail(fmt::format("attribute 'num_outputs' is {}, its subgraphs make {}", number("num_outputs"),
                       program_.num_results()));
    }
    for (size_t i = 0; i < count; ++i) node().subgraphs[i].values = std::move(values_[i]);
    add_key();
    const ControlFlow* program = intern_program(std::move(program_));
    if (kind_ == ControlKind::foreach) {
      set_operator(node(), op::ControlFlowOp<ControlKind::foreach>{program});
    } else if (kind_ == ControlKind::while_loop) {
      set_operator(node(), op::ControlFlowOp<ControlKind::while_loop>{program});
    } else {
      set_operator(node(), op::ControlFlowOp<ControlKind::cond>{program});
    }
  }

 private:
  FileNode& node() { return file_.nodes[index_]; }
  const SymbolFile& graph(size_t i) { return node().subgraphs[i]; }
  size_t inputs() { return node().inputs.size(); }
  [[noreturn]] void fail(const std::string& why) { file_.fail(index_, why); }

  void check_keys() {
    static constexpr std::string_view loop[] = {"num_args", "num_outputs", "num_out_data"};
    static constexpr std::string_view own[][4] = {
        {"in_data_locs", "in_state_locs", "remain_locs"},
        {"cond_input_locs", "func_input_locs", "func_var_locs", "max_iterations"},
        {"cond_input_locs", "then_input_locs", "else_input_locs"}};
    for (const auto& [key, value] : node().text_attrs) {
      if (key.starts_with("__")) continue;
      const auto general = std::span(loop).first(kind_ == ControlKind::cond ? 2 : 3);
      if (std::find(general.begin(), general.end(), key) != general.end()) continue;
      const auto& names = own[size_t(kind_)];
      if (!key.empty() && std::find(std::begin(names), std::end(names), key) != std::end(names)) continue;
      fail(fmt::format("attribute '{}' (with the value '{}') is not known to Kaon", key, value));
    }
  }

  const std::string& text(const char* key) {
    const auto it = node().text_attrs.find(key);
    if (it == node().text_attrs.end()) fail(fmt::format("the attribute '{}' is missing", key));
    return it->second;
  }
  size_t number(const char* key) {
    int64_t value = 0;
    if (!from_text(text(key), value) || value < 0 || value > std::numeric_limits<int32_t>::max()) {
      fail(fmt::format("attribute '{}' cannot be '{}'", key, text(key)));
    }
    return size_t(value);
  }
  // "[0, 2]": places, each less than `limit`.
  std::vector<size_t> places(const char* key, size_t limit) {
    const std::string& all = text(key);
    std::vector<size_t> list;
    const bool brackets =
        all.size() >= 2 && ((all.front() == '[' && all.back() == ']') || (all.front() == '(' && all.back() == ')'));
    bool good = brackets;
    const char *at = all.data() + 1, *end = all.data() + all.size() - 1;
    auto skip = [&](std::string_view what) {
      while (at < end && what.find(*at) != what.npos) ++at;
    };
    for (skip(" "); good && at < end; skip(" ,")) {
      size_t place = 0;
      const auto [next, error] = std::from_chars(at, end, place);
      good = error == std::errc() && place < limit;
      list.push_back(place);
      at = next;
    }
    if (!good) fail(fmt::format("attribute '{}' cannot be '{}': expected places below {}", key, all, limit));
    return list;
  }
  // The source of each variable of subgraph i.
  std::vector<size_t> sources(const char* key, size_t i) {
    std::vector<size_t> list = places(key, inputs());
    if (list.size() != variables_[i].size()) {
      fail(fmt::format("attribute '{}' names {} inputs, its subgraph has {}", key, list.size(), variables_[i].size()));
    }
    return list;
  }

  void read_foreach() {
    const size_t count = variables_[0].size();
    std::vector<std::optional<size_t>> values(count);
    size_t next = 0;
    auto take = [&](const char* key) {
      const std::vector<size_t> list = places(key, count);
      for (size_t place : list) {
        if (values[place]) fail(fmt::format("attribute '{}' names input {} of its subgraph again", key, place));
        values[place] = next++;
      }
      return int(list.size());
    };
    program_.num_data = take("in_data_locs");
    program_.num_states = take("in_state_locs");
    program_.num_captured = take("remain_locs");
    if (program_.num_data == 0) fail("goes along no data");
    if (next != count || next != inputs()) {
      fail(fmt::format("its places name {} inputs, it has {}, its subgraph {}", next, inputs(), count));
    }
    for (const auto& v : values) values_[0].push_back(*v);
    set_outputs(0);
    program_.graphs = {made(0)};
  }

  void read_while() {
    const std::vector<size_t> condition = sources("cond_input_locs", 0), body = sources("func_input_locs", 1);
    const std::vector<size_t> states = places("func_var_locs", body.size());
    if (states.empty()) fail("has no loop variables");
    std::vector<size_t> first;
    for (size_t place : states) first.push_back(body[place]);
    reorder(first);
    if (graph(0).heads.size() != 1) fail(fmt::format("its condition has {} outputs, not 1", graph(0).heads.size()));
    program_.num_states = int(states.size());
    program_.num_captured = int(inputs() - states.size());
    program_.max_iterations = int64_t(number("max_iterations"));
    feed(0, condition);
    feed(1, body);
    set_outputs(1);
    program_.graphs = {made(1), made(0)};
    if (find_draws(std::span(program_.graphs).subspan(1)).any) fail("its condition draws random numbers");
  }

  void read_cond() {
    const std::vector<size_t> predicate = sources("cond_input_locs", 0);
    const std::vector<size_t> then = sources("then_input_locs", 1), otherwise = sources("else_input_locs", 2);
    check_predicate();
    reorder({predicate[0]});
    program_.num_states = 1;
    program_.num_captured = int(inputs() - 1);
    program_.num_outputs = int(graph(1).heads.size());
    if (graph(1).heads.size() != graph(2).heads.size()) {
      fail(fmt::format("one branch has {} outputs, the other {}", graph(1).heads.size(), graph(2).heads.size()));
    }
    feed(0, predicate);
    feed(1, then);
    feed(2, otherwise);
    program_.graphs = {made(1), made(2)};
  }
  // MXNet computes the predicate outside and passes it in.
  void check_predicate() {
    const SymbolFile& g = graph(0);
    uint32_t at = g.heads[0].node;
    while (g.nodes[at].def == &op::Copy::def) at = g.nodes[at].inputs[0].node;
    if (g.heads.size() != 1 || g.nodes[at].def) {
      fail("its first subgraph computes the predicate: Kaon reads one that is computed outside");
    }
  }

  // Outputs come before the states.
  void set_outputs(size_t body) {
    const size_t heads = graph(body).heads.size(), outputs = number("num_out_data");
    if (heads != outputs + size_t(program_.num_states)) {
      fail(fmt::format("its body has {} outputs, expected {} and {} states", heads, outputs, program_.num_states));
    }
    program_.num_outputs = int(outputs);
  }

  // Puts these inputs first.
  void reorder(const std::vector<size_t>& first) {
    std::vector<FileEntry> sorted;
    std::vector<std::optional<size_t>> where(inputs());
    auto add = [&](size_t i) {
      where[i] = sorted.size();
      sorted.push_back(node().inputs[i]);
    };
    for (size_t i : first) {
      if (where[i]) fail(fmt::format("input {} is two of its loop variables", i));
      add(i);
    }
    for (size_t i = 0; i < where.size(); ++i) {
      if (!where[i]) add(i);
    }
    node().inputs = std::move(sorted);
    for (const auto& w : where) where_.push_back(*w);
  }
  void feed(size_t i, const std::vector<size_t>& list) {
    for (size_t input : list) values_[i].push_back(where_[input]);
  }

  // The graph of subgraph i as a trace would make it: equal bodies are one program.
  Graph made(size_t i) {
    const SymbolFile& from = graph(i);
    Graph g;
    const size_t own = size_t(program_.num_data + program_.num_states);
    for (size_t v = 0; v < inputs(); ++v) {
      Node n;
      n.name = v < own ? fmt::format("value{}", v) : fmt::format("captured{}", v - own);
      n.outputs.resize(1);
      g.inputs.push_back(g.add(std::move(n)).node);
    }
    std::vector<uint32_t> number(from.nodes.size());
    for (size_t k = 0; k < variables_[i].size(); ++k) number[variables_[i][k]] = g.inputs[values_[i][k]];
    for (uint32_t k : file_order(from, FileRoots::heads)) {
      const FileNode& f = from.nodes[k];
      if (!f.def) continue;
      Node n;
      n.op = f.def;
      n.attrs = f.attrs;
      n.name = fmt::format("{}{}", f.def->name(), g.nodes.size());
      n.outputs.resize(size_t(f.def->num_outputs(f.attrs.get())));
      for (const FileEntry& e : f.inputs) n.inputs.push_back({number[e.node], e.output});
      number[k] = g.add(std::move(n)).node;
    }
    for (const FileEntry& e : from.heads) g.outputs.push_back({number[e.node], e.output});
    g.num_forward_outputs = uint32_t(g.outputs.size());
    return g;
  }

  // Files do not have it.
  void add_key() {
    const Draws draws = find_draws(program_.graphs);
    program_.is_random = draws.any;
    if (!draws.any) return;
    FileNode key;
    key.name = node().name + "_key";
    set_operator(key, op::ControlFlowKey{.training_only = !draws.always});
    key.op = key.def->name();
    node().inputs.push_back({.node = uint32_t(file_.nodes.size())});
    file_.nodes.push_back(std::move(key));
  }

  SymbolFile& file_;
  const size_t index_;
  const std::vector<std::vector<uint32_t>>& variables_;
  const ControlKind kind_;
  ControlFlow program_;
  std::vector<size_t> where_;                // of each input of the file, in the new order
  std::vector<std::vector<size_t>> values_;  // by subgraph and variable: which input
};

}  // namespace

std::vector<uint32_t> subgraph_variables(const SymbolFile& subgraph) {
  std::vector<uint32_t> found;
  for (uint32_t i : file_order(subgraph, FileRoots::heads)) {
    if (subgraph.nodes[i].op == "null") found.push_back(i);
  }
  return found;
}

void read_control_flow(SymbolFile& file, size_t index, const std::vector<std::vector<uint32_t>>& variables) {
  ControlFlowReader(file, index, variables).run();
}

}  // namespace kaon::graph
