#include "kaon/graph/files/symbol_write.h"

#include <fmt/format.h>

#include <unordered_map>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/files/control_flow_file.h"
#include "kaon/ops/custom/custom.h"

namespace kaon::graph {

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));  // else it would not be JSON
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

namespace {

using TextMap = std::map<std::string, std::string>;

constexpr size_t inline_items = 10;  // longer arrays take a line per item

std::string indent(int level) { return "\n" + std::string(size_t(level) * 2, ' '); }

std::string join(const std::vector<std::string>& items, int level, bool lines) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    if (lines) out += indent(level + 1);
    out += items[i];
  }
  if (lines) out += indent(level);
  return out;
}

std::string array(const std::vector<std::string>& items, int level) {
  return "[" + join(items, level, items.size() > inline_items) + "]";
}

std::string object(const std::vector<std::string>& members, int level, bool lines) {
  return "{" + join(members, level, lines) + "}";
}

std::string member(std::string_view key, const std::string& value) { return json_quote(key) + ": " + value; }

class Writer {
 public:
  Writer(const std::vector<SymbolEntry>& heads, const SymbolFileInfo* info)
      : heads_(heads), order_(written_order(heads, loops_)), info_(info) {
    for (size_t i = 0; i < order_.size(); ++i) ids_[order_[i]] = i;
  }

  // `level`: how far it is indented; that of the file itself is 0.
  std::string run(int level) {
    level_ = level;
    std::vector<std::string> nodes, variables, rows{"0"}, heads, attrs;
    int64_t outputs = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      nodes.push_back(node(i));
      if (order_[i]->is_variable()) variables.push_back(std::to_string(i));
      outputs += info_ ? info_->nodes.at(order_[i]).outputs : int64_t(order_[i]->outputs.size());
      rows.push_back(std::to_string(outputs));
    }
    for (size_t i = 0; i < heads_.size(); ++i) heads.push_back(entry(heads_[i], info_ ? info_->head_versions[i] : 0));
    if (info_) {
      for (const auto& [key, value] : info_->attrs) attrs.push_back(member(key, value));
    } else {
      attrs.push_back(member("mxnet_version", fmt::format("[\"int\", {}]", written_mxnet_version)));
    }
    std::vector<std::string> members{
        member("nodes", "[" + join(nodes, level + 1, true) + "]"), member("arg_nodes", array(variables, level + 1)),
        member("node_row_ptr", array(rows, level + 1)), member("heads", array(heads, level + 1))};
    if (level == 0) members.push_back(member("attrs", object(attrs, 1, attrs.size() > 1)));
    return object(members, level, true);
  }

 private:
  std::string entry(const SymbolEntry& e, uint32_t version) const {
    return fmt::format("[{}, {}, {}]", ids_.at(e.node.get()), e.output, version);
  }

  // How often the variable has been updated when this input is read, the update by this very node included.
  uint32_t version_of(const SymbolNode& node, size_t input) {
    const SymbolNode* variable = node.inputs[input].node.get();
    if (!variable->is_variable()) return 0;
    uint32_t& count = updates_[variable];
    if (is_mutated(node.op->traits, int(input), int(node.inputs.size()))) ++count;
    return count;
  }

  std::string node(size_t i) {
    const SymbolNode& n = *order_[i];
    const auto loop = loops_.find(&n);
    const bool is_loop = loop != loops_.end();
    std::vector<std::string> inputs;
    for (size_t k = 0; k < (is_loop ? loop->second.order.size() : n.inputs.size()); ++k) {
      const size_t at = is_loop ? loop->second.order[k] : k;
      inputs.push_back(entry(n.inputs[at], info_ ? info_->nodes.at(&n).versions[at] : version_of(n, at)));
    }
    std::vector<std::string> members{member("op", json_quote(n.op_name)), member("name", json_quote(n.name))};
    if (const TextMap texts = attributes(n); !texts.empty()) {
      std::vector<std::string> pairs;
      for (const auto& [key, value] : texts) pairs.push_back(member(key, json_quote(value)));
      members.push_back(member(info_ ? info_->attrs_key : "attrs", object(pairs, level_ + 3, pairs.size() > 1)));
    }
    members.push_back(member("inputs", array(inputs, level_ + 3)));
    if (is_loop) {
      std::vector<std::string> graphs;
      for (const Subgraph& s : loop->second.subgraphs) {
        graphs.push_back(Writer(s.heads, s.info.get()).run(level_ + 4));
      }
      members.push_back(member("subgraphs", "[" + join(graphs, level_ + 3, true) + "]"));
    }
    return object(members, level_ + 2, true);
  }

  TextMap attributes(const SymbolNode& n) const {
    if (n.constant.defined()) {
      throw ValueError(
          fmt::format("[tojson] '{}' is a constant, and a symbol file holds no values: make it a variable and "
                      "keep its value with the parameters, as export_model does",
                      n.name));
    }
    TextMap texts = n.text_attrs;
    if (!n.op) return texts;
    if (const auto loop = loops_.find(&n); loop != loops_.end()) {
      for (const auto& [key, value] : loop->second.attrs) texts[key] = value;
      return texts;
    }
    if (!n.op->traits_of(n.attrs.get()).in_mxnet) {
      throw ValueError(fmt::format("[tojson] node '{}' is the operator '{}', which MXNet does not have{}", n.name,
                                   n.op->name(), n.op->traits.in_mxnet ? " with these attributes" : ""));
    }
    // As a file gave them, or as the program set them.
    for (const auto& [key, value] : texts) {
      if (!key.starts_with("__")) return texts;
    }
    n.op->write(n.attrs.get(), [&](std::string_view name, const std::string& text, bool is_default) {
      if (is_default) return;
      if (name.starts_with("__")) {
        throw ValueError(
            fmt::format("[tojson] node '{}' ({}) has been fused with another ({}), which MXNet cannot express", n.name,
                        n.op->name(), text));
      }
      texts[std::string(name)] = text;
    });
    const bool is_custom = n.op == &op::Custom::def;  // MXNet would hand num_args to the program's operator
    if (n.op->traits.variadic && n.op->traits.mutates_period == 0 && !is_custom) {
      texts.emplace("num_args", std::to_string(n.inputs.size()));
    }
    return texts;
  }

  const std::vector<SymbolEntry>& heads_;
  int level_ = 0;
  WrittenLoops loops_;
  std::vector<SymbolNode*> order_;
  const SymbolFileInfo* info_;
  std::unordered_map<const SymbolNode*, size_t> ids_;
  std::unordered_map<const SymbolNode*, uint32_t> updates_;
};

}  // namespace

std::string write_symbol(const std::vector<SymbolEntry>& heads, const SymbolFileInfo* info) {
  return Writer(heads, info).run(0);
}

}  // namespace kaon::graph
