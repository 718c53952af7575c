// The contents of a symbol file, between JSON text and Symbols. Internal to the readers and writers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/symbol.h"

namespace kaon::graph {

// MXNet's number of the release whose format is written: major * 10000 + minor * 100 + patch.
inline constexpr int64_t written_mxnet_version = 10901;

// A graph inside of a node of control flow.
struct Subgraph {
  std::vector<SymbolEntry> heads;
  std::vector<size_t> values;                    // of its variables, depth first: which of the node's inputs each is
  std::shared_ptr<const SymbolFileInfo> info{};  // nullptr: not from a file
};

// A file's contents beyond the graph, kept with a loaded Symbol so that it is saved unchanged.
struct SymbolFileInfo {
  struct Node {
    uint32_t outputs = 1;            // as the writing build counted them (some count the workspace of max pooling)
    std::vector<uint32_t> versions;  // per input: how often the variable had been updated
  };
  std::string attrs_key = "attrs";                         // "attr" before 1.2
  std::vector<std::pair<std::string, std::string>> attrs;  // of the graph: name and JSON text
  std::unordered_map<const SymbolNode*, Node> nodes;
  std::vector<uint32_t> head_versions;
};

struct FileEntry {
  uint32_t node = 0, output = 0, version = 0;
};

struct SymbolFile;

struct FileNode {
  std::string op, name;
  std::map<std::string, std::string> text_attrs;
  std::vector<FileEntry> inputs;
  uint32_t outputs = 0;  // from node_row_ptr; 0: not said
  std::vector<SymbolFile> subgraphs;

  const OpDef* def = nullptr;  // set by resolve_operators; nullptr: variable
  Attributes attrs;
};

struct SymbolFile {
  std::string source;  // for messages: the file's name
  std::vector<FileNode> nodes;
  std::vector<FileEntry> heads;
  std::string attrs_key = "attrs";
  std::vector<std::pair<std::string, std::string>> attrs;
  int64_t mxnet_version = 800;  // files of 0.8 and before do not say
  bool numpy_shape = false;     // 0 is a size and not "unknown"
  size_t bytes = 0;
  std::vector<size_t> values;  // of a subgraph: as in Subgraph, set by resolve_operators

  // Throws IoError: "model.json: node 3 'fc1' (FullyConnected): why"
  [[noreturn]] void fail(size_t node, const std::string& why) const;
  [[noreturn]] void fail(const std::string& why) const;
};

// JSON to SymbolFile: structure, numbers and references are checked, operators are not looked at.
SymbolFile parse_symbol_file(std::string_view text, const std::string& source);

// Finds the operators, brings nodes of older releases up to date and reads the operators' attributes.
void resolve_operators(SymbolFile& file);

// All nodes, or those that the heads need, with inputs before their users. Throws IoError naming a node of a cycle.
enum class FileRoots : uint8_t { all, heads };
std::vector<uint32_t> file_order(const SymbolFile& file, FileRoots roots = FileRoots::all);

// `text` as a JSON string, quotes included, in the escapes that MXNet's reader knows.
std::string json_quote(std::string_view text);

}  // namespace kaon::graph
