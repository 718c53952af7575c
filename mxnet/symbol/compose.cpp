// Composition: an operator gets its inputs; a symbol gets others in place of its variables.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/control_flow/loop_node.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

using Named = std::map<std::string, const Symbol*>;

[[noreturn]] void refuse_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string list;
  for (size_t i = 0; i < candidates.size(); ++i) list += fmt::format("\n\t[{}]{}", i, candidates[i]);
  throw ValueError(fmt::format("[Compose] Keyword argument name {} not found.\nCandidate arguments:{}", name, list));
}

const SymbolEntry& only_output(const Symbol& symbol, const std::string& which) {
  if (symbol.num_outputs() != 1) {
    throw ValueError(fmt::format("[Compose] argument {} has {} outputs, one is expected", which, symbol.num_outputs()));
  }
  return symbol.entries()[0];
}

// How a variable that follows from an operator begins, for initializers.
const char* initial_value(const SymbolNode& node, int input) {
  const std::string& op = node.op_name;
  if (op == "BatchNorm" || op == "BatchNorm_v1" || op == "_contrib_SyncBatchNorm" ||
      op == "_contrib_BatchNormWithReLU") {
    return input == 3 ? R"(["zero", {}])" : input == 4 ? R"(["one", {}])" : nullptr;
  }
  if (op == "LeakyReLU" && input == 1) return R"(["Constant", {"value": 0.25}])";
  if (op == "IdentityAttachKLSparseReg" && input == 1) return R"(["zero", {}])";
  if (op == "UpSampling" && input == 1) return R"(["bilinear", {}])";
  return nullptr;
}

// A variable that was not given. It has the attributes of the operator.
SymbolEntry missing_input(const SymbolNode& node, const std::string& name) {
  SymbolEntry made = Symbol::variable(node.name.empty() ? name : node.name + "_" + name).entry();
  made.node->text_attrs = node.text_attrs;
  return made;
}

void check_updates(const SymbolNode& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!ops::is_mutated(node.op->traits_of(node.attrs.get()), int(i), int(node.inputs.size()))) continue;
    if (!is_operator(*node.inputs[i].node)) continue;
    throw ValueError(fmt::format("[Compose] {} updates its input {}, which must be a variable and is '{}'",
                                 node.op_name, i, node.inputs[i].node->name));
  }
}

std::vector<SymbolEntry> inputs_in_order(const SymbolNode& node, int expected, const std::vector<const Symbol*>& args,
                                         const Named& named) {
  std::vector<SymbolEntry> inputs;
  for (size_t i = 0; i < args.size(); ++i) inputs.push_back(only_output(*args[i], std::to_string(i)));
  if (expected < 0) {
    if (!named.empty()) {
      throw ValueError(fmt::format("[Compose] {} takes any number of inputs, and no keyword arguments", node.op_name));
    }
    return inputs;
  }
  if (args.size() > size_t(expected)) {
    throw ValueError(fmt::format("[Compose] Incorrect number of arguments of {}, requires {}, provided {}",
                                 node.op_name, expected, args.size()));
  }
  const std::vector<std::string> names = input_names(node, expected);
  size_t matched = 0;
  for (size_t i = args.size(); i < size_t(expected); ++i) {
    if (i >= names.size()) {
      throw ValueError(
          fmt::format("[Compose] Not enough argument to call operator {}: it takes {} inputs", node.op_name, expected));
    }
    const auto given = named.find(names[i]);
    if (given != named.end()) {
      inputs.push_back(only_output(*given->second, names[i]));
      ++matched;
    } else {
      inputs.push_back(missing_input(node, names[i]));
    }
  }
  if (matched == named.size()) return inputs;
  const std::vector<std::string> candidates(names.begin() + int64_t(args.size()), names.end());
  for (const auto& [name, symbol] : named) {
    if (std::find(candidates.begin(), candidates.end(), name) == candidates.end()) refuse_name(name, candidates);
  }
  throw ValueError(fmt::format("[Compose] {} has two inputs of one name", node.op_name));
}

void compose_operator(SymbolObject& object, const std::vector<const Symbol*>& args, const Named& named) {
  const NodePtr node = object.symbol.entries()[0].node;
  const OperatorInfo& info = *info_of(*node);
  if (graph::find_control_flow(node->op_name)) {
    if (!named.empty()) throw ValueError(fmt::format("[Compose] {} takes no keyword arguments", node->op_name));
    compose_loop(*node, args);
  } else {
    const OpDef& def = def_of(info);
    std::vector<SymbolEntry> inputs = inputs_in_order(*node, expected_inputs(*node), args, named);
    const std::vector<SymbolEntry> before = std::exchange(node->inputs, std::move(inputs));
    try {
      if (def.traits.variadic) read_again(*node);  // with the number of inputs
      node->op = &def;
      check_updates(*node);
    } catch (...) {
      node->inputs = before;
      node->op = nullptr;
      throw;
    }
    node->outputs.resize(size_t(def.num_outputs(node->attrs.get())));
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      SymbolNode& input = *node->inputs[i].node;
      const char* text = initial_value(*node, int(i));
      if (text && !is_operator(input)) input.text_attrs.emplace("__init__", text);
    }
  }
  place_after_inputs(*node);
  object.symbol = symbol_of_node(node);
}

// Variables by name, in place.
void replace_variables(SymbolObject& object, const std::vector<const Symbol*>& args, const Named& named) {
  if (!args.empty()) {
    throw ValueError("[Compose] a symbol that has inputs takes others by the names of its variables only");
  }
  const std::vector<SymbolNode*> order = graph::topological_order(object.symbol.entries());
  std::unordered_map<const SymbolNode*, SymbolEntry> replacement;
  for (const auto& [name, symbol] : named) {
    bool found = false;
    for (const SymbolNode* n : order) {
      if (is_operator(*n) || n->name != name) continue;
      found = true;
      replacement.emplace(n, only_output(*symbol, name));
    }
    if (!found) refuse_name(name, object.symbol.list_inputs());
  }
  const auto replace = [&](SymbolEntry& e) {
    const auto it = replacement.find(e.node.get());
    if (it != replacement.end()) e = it->second;
  };
  std::vector<NodePtr> kept;  // what is replaced may be the last user of a node in `order`
  for (SymbolNode* n : order) kept.emplace_back(n);
  for (SymbolNode* n : order) std::for_each(n->inputs.begin(), n->inputs.end(), replace);
  std::vector<SymbolEntry> heads = object.symbol.entries();
  std::for_each(heads.begin(), heads.end(), replace);
  for (SymbolNode* n : graph::topological_order(heads)) place_after_inputs(*n);
  object.symbol = Symbol(std::move(heads));
}

// A node of a whole program becomes what it is made of. The inputs are those of the program, in their order.
void compose_program(SymbolObject& object, const std::vector<const Symbol*>& args, const Named& named) {
  SymbolObject program(program_of(*object.symbol.entries()[0].node));
  const std::vector<std::string> names = program.symbol.list_inputs();
  if (args.size() > names.size()) {
    throw ValueError(fmt::format("[Compose] _CachedOp takes {} inputs, got {}", names.size(), args.size()));
  }
  Named all = named;
  for (size_t i = 0; i < args.size(); ++i) all[names[i]] = args[i];
  replace_variables(program, {}, all);
  object.symbol = program.symbol;
}

void compose(SymbolObject& object, const char* name, uint32_t count, const char** keys, SymbolHandle* handles) {
  if (!object.symbol.defined()) throw ValueError("[Compose] the symbol has no outputs");
  std::vector<const Symbol*> args;
  Named named;
  for (uint32_t i = 0; i < count; ++i) {
    const Symbol& symbol = symbol_of(handles[i]).symbol;
    if (keys) {
      named[keys[i]] = &symbol;
    } else {
      args.push_back(&symbol);
    }
  }
  SymbolNode& node = *object.symbol.entries()[0].node;
  if (name && *name) node.name = name;
  const bool has_inputs = !node.inputs.empty() || !is_operator(node);
  const bool is_one_node = std::all_of(object.symbol.entries().begin(), object.symbol.entries().end(),
                                       [&](const SymbolEntry& e) { return e.node.get() == &node; });
  if (has_inputs || !is_one_node) {
    replace_variables(object, args, named);
  } else if (node.op_name == program_op) {
    compose_program(object, args, named);
  } else {
    compose_operator(object, args, named);
  }
}

}  // namespace

int NNSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys, SymbolHandle* args) {
  return guard([&] { compose(symbol_of(sym), name, num_args, keys, args); });
}

int MXSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys, SymbolHandle* args) {
  return NNSymbolCompose(sym, name, num_args, keys, args);
}
