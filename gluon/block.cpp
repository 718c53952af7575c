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
  {
    std::lock_guard guard(lock);
    traces.clear();
  }
  for (const auto& p : parents) {
    if (auto parent = p.lock()) parent->clear_traces();
  }
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
  // Everything is looked at before anything is changed.
  std::vector<Parameter> found;
  std::vector<std::pair<Parameter, NDArray>> chosen;
  for (const auto& [name, array] : arrays) {
    auto it = std::find_if(parameters.begin(), parameters.end(), [&, &name = name](const auto& p) { return p.first == name; });
    if (it != parameters.end()) {
      it->second.check_data(array);
      found.push_back(it->second);
      chosen.emplace_back(it->second, array);
    } else if (!ignore_extra) {
      throw ValueError(fmt::format("[load_parameters] {} holds '{}', which is no parameter of this net", file.string(), name));
    }
  }
  for (const auto& [path, p] : parameters) {  // a shared parameter may stand there under any of its paths
    if (!allow_missing && std::find(found.begin(), found.end(), p) == found.end()) {
      throw ValueError(fmt::format("[load_parameters] parameter '{}' is missing in {}", path, file.string()));
    }
  }
  for (auto& [p, array] : chosen) p.set_data(array);
}

Parameter Block::param(std::string_view name, const Shape& shape, const ParameterOptions& options) {
  for (const auto& p : node_->parameters) {
    if (p.key == name) throw ValueError(fmt::format("[Block] {} has a parameter '{}' already", node_->path, name));
  }
  Parameter p(node_->prefix + std::string(name), shape, options);
  node_->parameters.push_back({std::string(name), p});
  return p;
}

namespace {

// Makes `child` known under a name; one that has an owner keeps its names.
void adopt(const std::shared_ptr<BlockNode>& parent, std::string_view name, const std::shared_ptr<BlockNode>& child) {
  bool is_first = child->parents.empty();
  child->parents.push_back(parent);
  if (is_first) {
    child->name = name;
    std::string path = parent->prefix.empty() ? std::string(name) : std::string(parent->path) + "." + std::string(name);
    child->set_prefix(parent->prefix + std::string(name) + "_", path);
  }
  parent->clear_traces();
}

}  // namespace

void Block::add_child(std::string_view key, std::string_view name, const Block& block) {
  for (const auto& c : node_->children) {
    if (c.key == key) throw ValueError(fmt::format("[Block] a child '{}' is registered already; use replace_child", key));
  }
  bool cycle = false;
  visit(block.node_, "", [&](BlockNode& b, const std::string&) { cycle = cycle || &b == node_.get(); });
  if (cycle) throw ValueError(fmt::format("[Block] '{}' cannot become a child of {}, which it contains", key, node_->path));
  node_->children.push_back({std::string(key), std::string(name), block.node_});
  adopt(node_, name, block.node_);
}

void Block::swap_child(std::string_view name, const Block& block) {
  for (auto& c : node_->children) {
    if (c.key != name) continue;
    std::erase_if(c.node->parents, [&](const auto& p) { return p.lock() == node_; });
    c.node = block.node_;
    adopt(node_, c.name, c.node);
    if (node_->active) Block(block).hybridize(true, node_->options);
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

namespace {
// A block calls its own children only: others would have no names of their own and be missing in files.
void check_own(const BlockNode& block) {
  const BlockNode* caller = t_running_block;
  if (!caller || caller == &block) return;
  for (const auto& c : caller->children) {
    if (c.node.get() == &block) return;
  }
  throw StateError(fmt::format("[Block] {} calls {} ({}), which is not one of its registered children: make it a member with "
                               "child(\"name\", ...)", caller->path, block.path, block.hint));
}
}  // namespace

CallScope::CallScope(BlockNode& block, bool tracing)
    : saved_path_(thread_context().scope), saved_tracing_(thread_context().tracing), saved_block_(t_running_block) {
  check_own(block);
  t_running_block = &block;
  thread_context().scope = block.path;
  thread_context().tracing = tracing;
  if (tracing) names_.emplace(block.prefix);
}

CallScope::~CallScope() {
  thread_context().scope = saved_path_;
  thread_context().tracing = saved_tracing_;
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
    for (Parameter p : used.used) p.forget_variable();  // it may have been given a wrong shape
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

// One trace at a time: it completes parameters, which nets may share. Recursive: hybrid_forward may run another net.
std::recursive_mutex& trace_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

bool fits(const BlockNode::Trace& t, std::span<const NDArray* const> inputs, bool training) {
  if (t.num_inputs != inputs.size() || t.training != training) return false;
  for (size_t i = 0; i < t.metas.size(); ++i) {
    if (!(t.metas[i].shape == inputs[i]->shape()) || t.metas[i].dtype != inputs[i]->dtype()) return false;
  }
  return true;
}

BlockNode::Trace make_trace(const BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace, bool training) {
  SymbolShapeWatch watch;
  Traced traced = run_trace(inputs, trace);
  std::vector<std::string> names = traced.input_names;
  for (const Parameter& p : traced.parameters) names.push_back(p.name());
  BlockNode::Trace made{.num_inputs = inputs.size(), .training = training, .metas = {}, .graph = {},
                        .parameters = traced.parameters};
  if (watch.was_read()) {
    for (const NDArray* a : inputs) made.metas.push_back({a->shape(), a->dtype()});
  }
  made.graph = std::make_shared<CachedGraph>(traced.program, names, block.options, block.path);
  return made;
}

}  // namespace

void finish_deferred(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace) {
  auto any = [&] {
    return std::any_of(block.parameters.begin(), block.parameters.end(), [](const auto& p) { return p.parameter.is_deferred(); });
  };
  if (!any()) return;
  std::lock_guard one(trace_mutex());
  if (any()) run_trace(inputs, trace);
}

void call_traced(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace, const std::source_location& site,
                 FunctionRef<std::span<NDArray>(size_t)> room) {
  check_own(block);
  bool training = thread_context().training;
  std::shared_ptr<CachedGraph> graph;
  constexpr size_t few = 32;
  NDArray some[few];
  std::vector<NDArray> many;
  NDArray* parameters = some;
  size_t num_parameters = 0;
  auto take_existing = [&] {
    std::lock_guard guard(block.lock);
    for (const BlockNode::Trace& t : block.traces) {
      if (!fits(t, inputs, training)) continue;
      graph = t.graph;
      num_parameters = t.parameters.size();
      if (num_parameters > few) {
        many.resize(num_parameters);
        parameters = many.data();
      }
      for (size_t i = 0; i < num_parameters; ++i) parameters[i] = t.parameters[i].data();
      return true;
    }
    return false;
  };
  if (!take_existing()) {
    std::lock_guard one(trace_mutex());
    if (!take_existing()) {  // another thread may have been faster
      BlockNode::Trace made = make_trace(block, inputs, trace, training);
      {
        std::lock_guard guard(block.lock);
        block.traces.push_back(std::move(made));
      }
      take_existing();
    }
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
  graph->call({all, total}, room(graph->num_outputs()), site);
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
