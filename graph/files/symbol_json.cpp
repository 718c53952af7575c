// Symbols from files and to files.
#include <fmt/format.h>

#include "kaon/graph/files/symbol_file.h"
#include "kaon/graph/files/symbol_write.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/array/file_io.h"

namespace kaon {

using namespace graph;

namespace {

// Shape and dtype of a variable, as far as Gluon's attributes say.
TensorMeta variable_meta(const SymbolFile& file, size_t index) {
  const FileNode& node = file.nodes[index];
  TensorMeta meta;
  if (auto it = node.text_attrs.find("__shape__"); it != node.text_attrs.end()) {
    Shape shape;
    bool good = from_text(it->second, shape);
    for (int i = 0; good && i < shape.ndim(); ++i) {
      if (shape[i] == 0 && !file.numpy_shape) shape[i] = -1;
      good = shape[i] >= -1;
    }
    if (!good) file.fail(index, fmt::format("attribute '__shape__' cannot be '{}'", it->second));
    const bool says_nothing = it->second == "None" || (shape.ndim() == 0 && !file.numpy_shape);
    if (!says_nothing) meta.shape = shape;
  }
  if (auto it = node.text_attrs.find("__dtype__"); it != node.text_attrs.end()) {
    int64_t flag = 0;
    const bool number = from_text(it->second, flag);
    if (number && flag == -1) return meta;  // not known
    if (!number || flag < -1 || flag > 127 || !is_valid(DType(flag))) {
      file.fail(index, fmt::format("attribute '__dtype__' cannot be '{}': expected the number of an element type",
                                   it->second));
    }
    meta.dtype = DType(flag);
  }
  return meta;
}

using Nodes = std::vector<IntrusivePtr<SymbolNode>>;

std::vector<SymbolEntry> make_heads(const SymbolFile& file, const Nodes& made) {
  std::vector<SymbolEntry> heads;
  for (const FileEntry& e : file.heads) heads.push_back({made[e.node], e.output});
  return heads;
}

std::shared_ptr<const SymbolFileInfo> make_info(SymbolFile& file, const Nodes& made) {
  auto info = std::make_shared<SymbolFileInfo>();
  info->attrs_key = file.attrs_key;
  info->attrs = std::move(file.attrs);
  for (const FileEntry& e : file.heads) info->head_versions.push_back(e.version);
  for (size_t i = 0; i < made.size(); ++i) {
    const FileNode& from = file.nodes[i];
    auto& out = info->nodes[made[i].get()];
    out.outputs = from.outputs ? from.outputs : uint32_t(made[i]->outputs.size());
    for (const FileEntry& e : from.inputs) out.versions.push_back(e.version);
  }
  return info;
}

Nodes make_nodes(SymbolFile& file) {
  Nodes made(file.nodes.size());
  for (uint32_t i : file_order(file)) {
    FileNode& from = file.nodes[i];
    IntrusivePtr<SymbolNode> node(new SymbolNode);
    node->op = from.def;
    node->name = from.name;
    node->op_name = from.op;
    node->attrs = from.attrs;
    if (from.def) {
      node->outputs.resize(size_t(from.def->num_outputs(from.attrs.get())));
    } else {
      node->outputs = {variable_meta(file, i)};
    }
    node->text_attrs = std::move(from.text_attrs);
    for (const FileEntry& e : from.inputs) node->inputs.push_back({made[e.node], e.output});
    if (!from.subgraphs.empty()) {
      std::vector<Subgraph> subgraphs;
      for (SymbolFile& sub : from.subgraphs) {
        const Nodes inner = make_nodes(sub);
        subgraphs.push_back({make_heads(sub, inner), sub.values, make_info(sub, inner)});
      }
      node->subgraphs = std::make_shared<const std::vector<Subgraph>>(std::move(subgraphs));
    }
    made[i] = std::move(node);
  }
  return made;
}

}  // namespace

Symbol Symbol::load_json(std::string_view text, const std::string& source) {
  SymbolFile file = parse_symbol_file(text, source);
  resolve_operators(file);
  const auto made = make_nodes(file);
  std::vector<SymbolEntry> heads = make_heads(file, made);
  // A file that does not say its version is older than today's layout: it is written as a new one.
  auto info = file.attrs.empty() ? nullptr : make_info(file, made);
  Symbol symbol(std::move(heads));
  symbol.file_ = std::move(info);
  return symbol;
}

Symbol Symbol::load(const std::filesystem::path& file) { return load_json(read_file(file), file.string()); }

std::string Symbol::tojson() const {
  if (!defined()) throw ValueError("[tojson] this handle holds no symbol");
  return write_symbol(entries_, file_.get());
}

void Symbol::save(const std::filesystem::path& file) const { write_file(file, tojson()); }

}  // namespace kaon
