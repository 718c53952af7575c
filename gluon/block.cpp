#include "kaon/gluon/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <regex>
#include <unordered_map>

#include "kaon/engine/backend.h"
#include "kaon/gluon/block_node.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon {
namespace {

thread_local BlockNode* t_running_block = nullptr;

void visit(const std::shared_ptr<BlockNode>& node, const std::string& path,
           const std::function<void(BlockNode&, const std::string&)>& fn) {
  fn(*node, path);
  for (const auto& c : node->children) visit(c.node, path + c.key + ".", fn);
}

// Dotted path and parameter, each path once.
std::vector<std::pair<std::string, Parameter>> structural_parameters(const std::shared_ptr<BlockNode>& node) {
  std::vector<std::pair<std::string, Parameter>> all;
  visit(node, "", [&](BlockNode& b, const std::string& path) {
    for (const auto& p : b.parameters) all.emplace_back(path + p.key, p.parameter);
  });
  return all;
}

}  // namespace

void BlockNode::set_prefix(const std::string& new_prefix, const std::string& new_path) {
  prefix = new_prefix;
  path = intern(new_path);
  for (auto& p : parameters) p.parameter.set_name(prefix + p.key);
  for (auto& c : children) {
    c.node->set_prefix(prefix + c.name + "_", new_path.empty() ? c.name : new_path + "." + c.name);
  }
  clear_traces();
}

void BlockNode::clear_traces() {
  std::lock_guard guard(lock);
  traces.clear();
}

Block::Block(std::string_view hint) : node_(std::make_shared<BlockNode>()) {
  node_->hint = hint;
  node_->name = hint;
  node_->path = intern(hint);
}
Block::~Block() = default;

const std::string& Block::name() const { return node_->name; }
const std::string& Block::class_name() const { return node_->hint; }

void Block::initialize(const init::Initializer& init, Device device, bool force_reinit) {
  check_device(device, "initialize");
  collect_params().initialize(init, device, force_reinit);
}

ParameterDict Block::collect_params(std::string_view select) const {
  ParameterDict all;
  std::optional<std::regex> pattern;
  if (!select.empty()) pattern.emplace(std::string(select));
  visit(node_, "", [&](BlockNode& b, const std::string&) {
    for (const auto& p : b.parameters) {
      if (!pattern || std::regex_search(p.parameter.name(), *pattern, std::regex_constants::match_continuous)) all.add(p.parameter);
    }
  });
  return all;
}

void Block::hybridize(bool active, const HybridizeOptions& options) {
  if (active && options.static_shape && !options.static_alloc) {
    throw ValueError("[hybridize] static_shape requires static_alloc");
  }
  visit(node_, "", [&](BlockNode& b, const std::string&) {
    b.active = active;
    b.options = options;
    b.clear_traces();
  });
}

void Block::cast(DType dtype) {
  visit(node_, "", [&](BlockNode& b, const std::string&) { b.clear_traces(); });
  for (Parameter p : collect_params()) p.cast(dtype);
}

void Block::save_parameters(const std::filesystem::path& file) const {
  NamedArrays arrays;
  for (auto& [path, p] : structural_parameters(node_)) arrays.emplace_back(path, p.data());
  nd_file::save(file, arrays);
}

void Block::load_parameters(const std::filesystem::path& file, bool allow_missing, bool ignore_extra) {
  auto parameters = structural_parameters(node_);
  NamedArrays arrays = nd_file::load(file);
  bool dotted = parameters.empty() || std::any_of(arrays.begin(), arrays.end(), [&](const auto& a) {
    return std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == a.first; });
  });
  if (!dotted) return collect_params().load(file, allow_missing, ignore_extra);  // written with full names
  for (const auto& [name, array] : arrays) {
    auto it = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == name; });
    if (it == parameters.end()) {
      if (ignore_extra) continue;
      throw ValueError(fmt::format("[load_parameters] {} holds '{}', which is no parameter of this net", file.string(), name));
    }
    it->second.set_data(array);
  }
  for (const auto& [path, p] : parameters) {
    bool found = std::any_of(arrays.begin(), arrays.end(), [&, &path = path](const auto& a) { return a.first == path; });
    if (!found && !allow_missing) {
      throw ValueError(fmt::format("[load_parameters] parameter '{}' is missing in {}", path, file.string()));
    }
  }
}

Parameter Block::param(std::string_view name, const Shape& shape, const ParameterOptions& options) {
  Parameter p(node_->prefix + std::string(name), shape, options);
  node_->parameters.push_back({std::string(name), p});
  return p;
}

void Block::add_child(std::string_view key, std::string_view name, const Block& block) {
  for (const auto& c : node_->children) {
    if (c.key == key) throw ValueError(fmt::format("[Block] a child '{}' is registered already; use replace_child", key));
  }
  node_->children.push_back({std::string(key), std::string(name), block.node_});
  node_->clear_traces();
  BlockNode& child = *block.node_;
  if (child.has_parent) return;  // a shared block keeps its first owner's names
  child.has_parent = true;
  child.name = name;
  std::string path = node_->prefix.empty() ? std::string(name) : std::string(node_->path) + "." + std::string(name);
  child.set_prefix(node_->prefix + std::string(name) + "_", path);
}

void Block::swap_child(std::string_view name, const Block& block) {
  for (auto& c : node_->children) {
    if (c.key != name) continue;
    c.node = block.node_;
    block.node_->has_parent = true;
    block.node_->name = c.name;
    block.node_->active = node_->active;
    block.node_->options = node_->options;
    block.node_->set_prefix(node_->prefix + c.name + "_", node_->prefix.empty() ? c.name : std::string(node_->path) + "." + c.name);
    node_->clear_traces();
    return;
  }
  throw ValueError(fmt::format("[Block] there is no child '{}' to replace", name));
}

namespace {
void print(const BlockNode& b, std::string& text, int indent) {
  text += b.hint;
  if (b.children.empty()) {
    std::string shapes;
    for (const auto& p : b.parameters) shapes += fmt::format("{}{}: {}", shapes.empty() ? "" : ", ", p.key, p.parameter.shape().str());
    text += "(" + shapes + ")\n";
    return;
  }
  text += "(\n";
  for (const auto& c : b.children) {
    text += fmt::format("{}({}): ", std::string(size_t(indent) + 2, ' '), c.key);
    print(*c.node, text, indent + 2);
  }
  text += std::string(size_t(indent), ' ') + ")\n";
}
}  // namespace

std::string to_string(const Block& block) {
  std::string text;
  print(*block.node(), text, 0);
  text.pop_back();
  return text;
}

namespace detail {

bool is_active(const BlockNode& block) { return block.active; }

CallScope::CallScope(BlockNode& block, bool tracing)
    : saved_path_(thread_context().scope), saved_block_(t_running_block) {
  if (saved_block_ && saved_block_ != &block) {
    bool own = std::any_of(saved_block_->children.begin(), saved_block_->children.end(),
                           [&](const auto& c) { return c.node.get() == &block; });
    if (!own) {
      throw StateError(fmt::format("[Block] {} calls {} ({}), which is not one of its registered children: make it a member with "
                                   "child(\"name\", ...)", saved_block_->path, block.path, block.hint));
    }
  }
  t_running_block = &block;
  thread_context().scope = block.path;
  if (tracing) names_.emplace(block.prefix);
}

CallScope::~CallScope() {
  thread_context().scope = saved_path_;
  t_running_block = saved_block_;
}

namespace {

struct Traced {
  Symbol program;
  std::vector<std::string> input_names;
  std::vector<Parameter> parameters;
};

// Runs hybrid_forward on variables of the inputs' shapes; completes the shapes of deferred parameters.
Traced run_trace(std::span<const NDArray* const> inputs, TraceFn trace) {
  Traced result;
  std::vector<Symbol> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = inputs.size() == 1 ? "data" : fmt::format("data{}", i);
    data.push_back(Symbol::variable(name, inputs[i]->shape(), inputs[i]->dtype()));
    result.input_names.push_back(name);
  }
  ThreadContext saved = thread_context();
  thread_context().interceptor = nullptr;  // a trace computes nothing that could be recorded
  thread_context().recording = false;
  BlockNode* running = std::exchange(t_running_block, nullptr);
  ParameterTrace used;
  auto restore = [&] {
    thread_context() = saved;
    t_running_block = running;
  };
  try {
    result.program = Symbol::group(trace(data));
  } catch (...) {
    restore();
    throw;
  }
  restore();
  result.parameters = std::move(used.used);
  for (Parameter p : result.parameters) {
    const Shape& s = p.var().entry().node->outputs[0].shape;
    if (s.is_known()) p.set_shape(s);
    p.finish_deferred();
  }
  return result;
}

}  // namespace

void finish_deferred(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace) {
  bool any = std::any_of(block.parameters.begin(), block.parameters.end(), [](const auto& p) { return p.parameter.is_deferred(); });
  if (any) run_trace(inputs, trace);
}

std::vector<NDArray> call_traced(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace,
                                 const std::source_location& site) {
  bool training = thread_context().training;
  auto find = [&]() -> const BlockNode::Trace* {
    for (const auto& t : block.traces) {
      if (t.num_inputs != inputs.size() || t.training != training) continue;
      bool fits = true;
      for (size_t i = 0; fits && i < t.shapes.size(); ++i) fits = t.shapes[i] == inputs[i]->shape();
      if (fits) return &t;
    }
    return nullptr;
  };
  std::shared_ptr<CachedGraph> graph;
  constexpr size_t few = 32;
  NDArray some[few];
  std::vector<NDArray> many;
  NDArray* parameters = some;
  size_t num_parameters = 0;
  auto take = [&](const BlockNode::Trace& t) {
    graph = t.graph;
    num_parameters = t.parameters.size();
    if (num_parameters > few) {
      many.resize(num_parameters);
      parameters = many.data();
    }
    for (size_t i = 0; i < num_parameters; ++i) parameters[i] = t.parameters[i].data();
  };
  {
    std::lock_guard guard(block.lock);
    if (const BlockNode::Trace* t = find()) take(*t);
  }
  if (!graph) {
    SymbolShapeWatch watch;
    Traced traced = run_trace(inputs, trace);
    std::vector<std::string> names = traced.input_names;
    for (const Parameter& p : traced.parameters) names.push_back(p.name());
    BlockNode::Trace entry{.num_inputs = inputs.size(), .training = training, .shapes = {}, .graph = {},
                           .parameters = traced.parameters};
    if (watch.was_read()) {
      for (const NDArray* a : inputs) entry.shapes.push_back(a->shape());
    }
    entry.graph = std::make_shared<CachedGraph>(traced.program, names, block.options, block.path);
    take(entry);
    std::lock_guard guard(block.lock);
    block.traces.push_back(std::move(entry));
  }
  const NDArray* few_pointers[few + 8];
  std::vector<const NDArray*> many_pointers;
  size_t total = inputs.size() + num_parameters;
  const NDArray** all = few_pointers;
  if (total > few + 8) {
    many_pointers.resize(total);
    all = many_pointers.data();
  }
  std::copy(inputs.begin(), inputs.end(), all);
  for (size_t i = 0; i < num_parameters; ++i) all[inputs.size() + i] = &parameters[i];
  return graph->call({all, total}, site);
}

}  // namespace detail

void export_block(const BlockNode& block, const std::string& prefix, int epoch) {
  if (block.traces.empty()) {
    throw StateError("[export_model] call hybridize() and run the net once before exporting it");
  }
  // The program for prediction, when there is one.
  const BlockNode::Trace* chosen = &block.traces.front();
  for (const auto& t : block.traces) {
    if (!t.training) chosen = &t;
  }
  Symbol program = chosen->graph->program();
  NamedArrays arrays;
  auto aux = program.list_auxiliary_states();
  std::unordered_map<std::string, NDArray> values;
  for (const Parameter& p : chosen->parameters) values[p.name()] = p.data();
  for (const std::string& name : program.list_inputs()) {
    auto it = values.find(name);
    if (it == values.end()) continue;
    bool is_aux = std::find(aux.begin(), aux.end(), name) != aux.end();
    arrays.emplace_back((is_aux ? "aux:" : "arg:") + name, it->second);
  }
  auto [exported, constants] = constants_as_variables(program);
  for (auto& [name, value] : constants) arrays.emplace_back("arg:" + name, value);
  exported.save(prefix + "-symbol.json");
  nd_file::save(fmt::format("{}-{:04}.params", prefix, epoch), arrays);
}

}  // namespace kaon::gluon
