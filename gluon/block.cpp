#include "kaon/gluon/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <regex>
#include <unordered_map>

#include "kaon/engine/device/backend.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/graph/files/mxnet_terms.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon {

using namespace graph;
namespace {

void visit(const std::shared_ptr<BlockNode>& node, const std::string& path,
           const std::function<void(BlockNode&, const std::string&)>& fn) {
  fn(*node, path);
  for (const auto& c : node->children) visit(c.node, path + c.key + ".", fn);
}

}  // namespace

detail::NamedParameters detail::structural_parameters(const Block& block) {
  NamedParameters all;
  visit(block.node(), "", [&](BlockNode& b, const std::string& path) {
    for (const auto& p : b.parameters) all.emplace_back(path + p.file_key, p.parameter);
  });
  return all;
}

void BlockNode::set_prefix(const std::string& new_prefix, const std::string& new_path) {
  prefix = new_prefix;
  path = intern(new_path);
  for (auto& p : parameters) {
    if (!p.is_shared) p.parameter.set_name(prefix + p.key);
  }
  for (auto& c : children) {
    if (c.node->named_by() != this) continue;
    c.node->set_prefix(prefix + c.name + "_", new_path.empty() ? c.name : new_path + "." + c.name);
  }
  clear_traces();
}

const BlockNode* BlockNode::named_by() const {
  for (const auto& p : parents) {
    if (auto parent = p.lock()) return parent.get();
  }
  return nullptr;
}

void BlockNode::clear_traces() {
  ++changes;
  std::vector<Trace> leaving;  // destroyed when the lock is free
  {
    std::lock_guard guard(lock);
    leaving.swap(traces);
    arenas = IntrusivePtr<PlanArenas>(new PlanArenas);
  }
  for (const auto& p : parents) {
    if (auto parent = p.lock()) parent->clear_traces();
  }
}

Block::Block(std::string_view hint) : Block(hint, false) {}
Block::Block(std::string_view hint, bool calls_hooks) : node_(std::make_shared<BlockNode>()) {
  node_->hint = hint;
  node_->name = hint;
  node_->path = intern(hint);
  node_->calls_hooks = calls_hooks;
}
Block::~Block() = default;

const std::string& Block::name() const { return node_->name; }
const std::string& Block::class_name() const { return node_->hint; }

void Block::initialize(const init::Initializer& init, Device device, bool force_reinit) {
  initialize(init, std::vector{device}, force_reinit);
}

void Block::initialize(const init::Initializer& init, const std::vector<Device>& devices, bool force_reinit) {
  for (Device device : devices) check_device(device, "initialize");  // also where there are no parameters
  collect_params().initialize(init, devices, force_reinit);
}

ParameterDict Block::collect_params(std::string_view select) const {
  ParameterDict all;
  std::optional<std::regex> pattern;
  try {
    if (!select.empty()) pattern.emplace(std::string(select));
  } catch (const std::regex_error& e) {
    throw ValueError(fmt::format("[collect_params] '{}' is no regular expression: {}", select, e.what()));
  }
  visit(node_, "", [&](BlockNode& b, const std::string&) {
    for (const auto& p : b.parameters) {
      if (!pattern || std::regex_search(p.parameter.name(), *pattern, std::regex_constants::match_continuous))
        all.add(p.parameter);
    }
  });
  return all;
}

void Block::apply(const std::function<void(Block&)>& fn) {
  for (const auto& c : std::vector(node_->children)) Block(c.node).apply(fn);
  fn(*this);
}

void Block::hybridize(bool active, const HybridizeOptions& options) {
  if (active) options.check();
  visit(node_, "", [&](BlockNode& b, const std::string&) {
    b.active = active;
    b.options = options;
    b.clear_traces();
  });
}

void Block::cast(DType dtype) {
  const bool is_16_bit = is_floating(dtype) && size_of(dtype) == 2;
  auto each = [&](auto&& fn) {
    visit(node_, "", [&](BlockNode& b, const std::string&) {
      const DType own = is_16_bit && b.keeps_float32 ? DType::float32 : dtype;
      for (auto& p : b.parameters) fn(p.parameter, own);
    });
  };
  each([](Parameter& p, DType d) { p.check_cast(d); });  // everything is looked at before anything is changed
  each([](Parameter& p, DType d) { p.cast(d); });
  visit(node_, "", [](BlockNode& b, const std::string&) { b.clear_traces(); });
}

void Block::save_parameters(const std::filesystem::path& file, bool deduplicate) const {
  detail::NamedParameters parameters = detail::structural_parameters(*this);
  if (deduplicate) {
    detail::NamedParameters once;
    for (auto& named : parameters) {
      if (std::ranges::none_of(once, [&](const auto& p) { return p.second == named.second; })) once.push_back(named);
    }
    parameters = std::move(once);
  }
  detail::save_values(parameters, file, "save_parameters");
}

void Block::load_parameters(const std::filesystem::path& file, bool allow_missing, bool ignore_extra) {
  load_parameters(file, {.allow_missing = allow_missing, .ignore_extra = ignore_extra});
}

void Block::load_parameters(const std::filesystem::path& file, const LoadOptions& options) {
  auto parameters = detail::structural_parameters(*this);
  NamedArrays arrays = detail::load_arrays(file);
  bool dotted =
      parameters.empty() || std::any_of(arrays.begin(), arrays.end(), [&](const auto& a) {
        return a.first.find('.') != a.first.npos ||
               std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == a.first; });
      });
  if (dotted) {
    detail::load_values(parameters, arrays, file, "load_parameters", options);
  } else {  // written with full names
    collect_params().load(file, options);
  }
  if (options.cast_dtype) visit(node_, "", [](BlockNode& b, const std::string&) { b.clear_traces(); });
}

namespace {

void check_unused(const BlockNode& node, std::string_view name) {
  for (const auto& p : node.parameters) {
    if (p.key == name) throw ValueError(fmt::format("[Block] {} has a parameter '{}' already", node.path, name));
  }
}

}  // namespace

Parameter Block::param(std::string_view name, const Shape& shape, const ParameterOptions& options,
                       std::string_view file_key) {
  check_unused(*node_, name);
  Parameter p(node_->prefix + std::string(name), shape, options);
  node_->parameters.push_back(
      {.key = std::string(name), .parameter = p, .file_key = std::string(file_key.empty() ? name : file_key)});
  return p;
}

Parameter Block::constant(std::string_view name, const NDArray& values) {
  check_unused(*node_, name);
  Parameter p(node_->prefix + std::string(name), values);
  node_->parameters.push_back({.key = std::string(name), .parameter = p, .file_key = std::string(name)});
  return p;
}

void Block::share_parameters(const Block& other) {
  std::unordered_map<std::string, Parameter> theirs;
  for (const auto& [path, p] : detail::structural_parameters(other)) theirs.emplace(path, p);
  std::vector<std::pair<Parameter, Parameter>> shared;
  for (const auto& [path, p] : detail::structural_parameters(*this)) {
    if (const auto at = theirs.find(path); at != theirs.end()) shared.emplace_back(p, at->second);
  }
  if (shared.empty()) {
    throw ValueError(fmt::format("[share_parameters] {} has no parameter of a path that {} has too", node_->path,
                                 other.node_->path));
  }
  for (const auto& [own, their] : shared) own.check_share(their);
  for (const auto& [own, their] : shared) own.share(their);
  visit(node_, "", [](BlockNode& b, const std::string&) { b.clear_traces(); });
}

void Block::share_param(std::string_view name, const Parameter& parameter) {
  check_unused(*node_, name);
  node_->parameters.push_back(
      {.key = std::string(name), .parameter = parameter, .file_key = std::string(name), .is_shared = true});
}

namespace {

// Makes `child` known under a name; one that has an owner keeps its names.
void adopt(const std::shared_ptr<BlockNode>& parent, std::string_view name, const std::shared_ptr<BlockNode>& child) {
  std::erase_if(child->parents, [](const auto& p) { return p.expired(); });
  bool is_first = child->parents.empty();
  child->parents.push_back(parent);
  if (is_first) {
    child->name = name;
    std::string path = parent->prefix.empty() ? std::string(name) : std::string(parent->path) + "." + std::string(name);
    child->set_prefix(parent->prefix + std::string(name) + "_", path);
  }
  parent->clear_traces();
}

// Parameters of programs have the programs' names, which two programs may share. In a net of both, one that is called
// as another parameter gets the prefix of its block before its name.
void tell_apart(const BlockNode& parent, const std::shared_ptr<BlockNode>& child) {
  std::vector<std::pair<std::string, Parameter>> added;
  visit(child, "", [&](BlockNode& b, const std::string&) {
    if (b.hint != "symbolblock" && b.hint != "onnx") return;
    for (const auto& own : b.parameters) {
      if (own.is_shared) added.emplace_back(b.prefix, own.parameter);
    }
  });
  if (added.empty()) return;
  std::unordered_map<std::string, Parameter> names;
  for (const auto& own : parent.parameters) names.emplace(own.parameter.name(), own.parameter);
  for (const auto& c : parent.children) {
    if (c.node == child) continue;
    visit(c.node, "", [&](BlockNode& b, const std::string&) {
      for (const auto& own : b.parameters) names.emplace(own.parameter.name(), own.parameter);
    });
  }
  for (const auto& [prefix, p] : added) {
    const auto at = names.find(p.name());
    if (at != names.end() && !(at->second == p)) p.set_name(prefix + p.name());
  }
}

void check_acyclic(const BlockNode& parent, std::string_view key, const std::shared_ptr<BlockNode>& child) {
  visit(child, "", [&](BlockNode& b, const std::string&) {
    if (&b != &parent) return;
    throw ValueError(fmt::format("[Block] '{}' cannot become a child of {}, which it contains", key, parent.path));
  });
}

}  // namespace

void Block::add_child(std::string_view key, std::string_view name, const Block& block) {
  for (const auto& c : node_->children) {
    if (c.key == key)
      throw ValueError(fmt::format("[Block] a child '{}' is registered already; use replace_child", key));
  }
  check_acyclic(*node_, key, block.node_);
  node_->children.push_back({std::string(key), std::string(name), block.node_});
  adopt(node_, name, block.node_);
  tell_apart(*node_, block.node_);
}

void Block::swap_child(std::string_view name, const Block& block) {
  for (auto& c : node_->children) {
    if (c.key != name) continue;
    check_acyclic(*node_, name, block.node_);
    std::erase_if(c.node->parents, [&](const auto& p) { return p.lock() == node_; });
    c.node = block.node_;
    adopt(node_, c.name, c.node);
    tell_apart(*node_, c.node);
    if (node_->active) Block(block).hybridize(true, node_->options);
    return;
  }
  throw ValueError(fmt::format("[Block] there is no child '{}' to replace", name));
}

namespace {
void print(const BlockNode& b, std::string& text, int indent) {
  std::string shapes;
  for (const auto& p : b.parameters) {
    shapes += fmt::format("{}{}: {}", shapes.empty() ? "" : ", ", p.key, p.parameter.shape().str());
  }
  text += b.hint + "(" + shapes;
  if (!b.children.empty()) {
    text += "\n";
    for (const auto& c : b.children) {
      text += fmt::format("{}({}): ", std::string(size_t(indent) + 2, ' '), c.key);
      print(*c.node, text, indent + 2);
    }
    text += std::string(size_t(indent), ' ');
  }
  text += ")\n";
}
}  // namespace

std::string to_string(const Block& block) {
  std::string text;
  print(*block.node(), text, 0);
  text.pop_back();
  return text;
}

namespace {

// The program of a trace that holds for its shapes alone, whose data say them.
Symbol with_shapes(const Symbol& program, const std::vector<std::string>& names, const std::vector<TensorMeta>& metas) {
  std::unordered_map<std::string, Symbol> data;
  for (size_t i = 0; i < metas.size(); ++i) {
    const Symbol variable = Symbol::variable(names[i], metas[i].shape, metas[i].dtype);
    auto& text = variable.entry().node->text_attrs;
    text["__shape__"] = to_text(metas[i].shape);
    text["__dtype__"] = std::to_string(int(metas[i].dtype));
    text[detail::fixed_shapes_key] = "True";
    data.emplace(names[i], variable);
  }
  return graph::compose(program, data);
}

std::string describe(const std::vector<std::string>& names, const std::vector<TensorMeta>& metas) {
  std::string text;
  for (size_t i = 0; i < metas.size(); ++i) {
    text += fmt::format("{}{} {} {}", i > 0 ? ", " : "", names[i], metas[i].shape.str(), name_of(metas[i].dtype));
  }
  return text;
}

}  // namespace

const BlockNode::Trace& BlockNode::latest_trace(const char* asker) const {
  if (traces.empty()) throw StateError(fmt::format("[{}] call hybridize() and run the net once first", asker));
  const Trace* chosen = &traces.front();
  for (const Trace& t : traces) {
    if (t.training != chosen->training ? !t.training : t.used > chosen->used) chosen = &t;
  }
  return *chosen;
}

void export_block(const BlockNode& block, const std::string& prefix, int epoch, const ExportOptions& options) {
  if (epoch < 0) throw ValueError(fmt::format("[export_model] epoch must not be negative, got {}", epoch));
  const BlockNode::Trace* chosen = &block.latest_trace("export_model");
  Symbol program = chosen->graph->program();
  if (!chosen->metas.empty()) {
    const std::vector<std::string>& names = chosen->graph->input_names();
    if (!options.fixed_shapes) {
      throw StateError(
          fmt::format("[export_model] hybrid_forward of {} reads shapes or dtypes: what it has traced holds for {} "
                      "alone. Use the codes 0 and -1 of reshape, or write it for these alone: "
                      "export_model(prefix, epoch, {{.fixed_shapes = true}})",
                      block.path, describe(names, chosen->metas)));
    }
    program = with_shapes(program, names, chosen->metas);
  }
  NamedArrays arrays;
  auto aux = program.list_auxiliary_states();
  std::unordered_map<std::string, NDArray> values;
  const std::span names = std::span(chosen->graph->input_names()).subspan(chosen->num_inputs);  // then
  for (size_t i = 0; i < names.size(); ++i) values[names[i]] = chosen->parameters[i].reduced();
  for (const std::string& name : program.list_inputs()) {
    auto it = values.find(name);
    if (it == values.end()) continue;
    bool is_aux = std::find(aux.begin(), aux.end(), name) != aux.end();
    arrays.emplace_back((is_aux ? "aux:" : "arg:") + name, it->second);
  }
  auto [exported, constants] = constants_as_variables(graph::in_mxnet_terms(program));
  for (auto& [name, value] : constants) arrays.emplace_back("arg:" + name, value);
  exported.save(prefix + "-symbol.json");
  nd_file::save(fmt::format("{}-{:04}.params", prefix, epoch), arrays);
}

}  // namespace kaon::gluon
