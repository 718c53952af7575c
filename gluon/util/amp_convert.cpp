// Casts of mixed precision in programs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/operator/registry.h"

namespace kaon::amp {

using namespace graph;
namespace {

// What is known of a value's dtype.
enum class Precision : uint8_t { low, full, neither, unknown };
enum class Casts : uint8_t { none, to_low, to_full, to_widest };

const OpDef* op_named(const std::string& name) {
  const OpDef* op = ops::find_op(name);
  if (!op) throw ValueError(fmt::format("[convert_symbol] there is no operator '{}'", name));
  return op;
}

Precision precision_of(DType dtype) {
  return is_half(dtype) ? Precision::low : dtype == DType::float32 ? Precision::full : Precision::neither;
}

// Inputs that count steps or choose them stay as they are: float16 counts no further than 2048.
bool is_kept(std::string_view input) {
  return input == "sequence_length" || input == "valid_length" || input == "mask";
}

class Converter {
 public:
  Converter(const Symbol& program, const ConvertOptions& o)
      : target_(o.target_dtype), excluded_(o.excluded_sym_names.begin(), o.excluded_sym_names.end()) {
    if (!is_half(target_)) {
      throw ValueError(
          fmt::format("[convert_symbol] target_dtype must be float16 or bfloat16, got {}", name_of(target_)));
    }
    const auto put = [&](const std::string& name, Casts casts) {
      const auto [at, is_new] = casts_.emplace(op_named(name), casts);
      if (!is_new && at->second != casts) {
        throw ValueError(fmt::format("[convert_symbol] the operator '{}' is in two lists", name));
      }
    };
    for (const std::string& name : o.target_dtype_ops.value_or(list_lp16_ops())) put(name, Casts::to_low);
    for (const std::string& name : o.fp32_ops.value_or(list_fp32_ops())) put(name, Casts::to_full);
    for (const ConditionalOp& c : o.conditional_fp32_ops.value_or(list_conditional_fp32_ops())) {
      put(c.name, Casts::none);
      conditions_.emplace(op_named(c.name), c);
    }
    for (const std::string& name : list_widest_type_cast()) casts_.emplace(op_named(name), Casts::to_widest);
    std::set<std::string> names;
    for (const SymbolNode* n : topological_order(program.entries())) names.insert(n->name);
    for (const std::string& name : excluded_) {
      if (!names.contains(name)) throw ValueError(fmt::format("[convert_symbol] the program has no node '{}'", name));
    }
  }

  void change(const SymbolNode& node, std::vector<SymbolEntry>& inputs) {
    const auto cast_all = [&](Precision to) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Names& names = node.op->traits.inputs;
        if (int(i) < names.size() && is_kept(names[int(i)])) continue;
        inputs[i] = cast(inputs[i], to);
      }
    };
    const Casts casts = casts_of(node);
    if (casts == Casts::to_low) cast_all(Precision::low);
    if (casts == Casts::to_full) cast_all(Precision::full);
    if (casts == Casts::to_widest) {
      const auto any = [&](Precision p) {
        return std::any_of(inputs.begin(), inputs.end(), [&](const SymbolEntry& e) { return of(e) == p; });
      };
      if (any(Precision::low) && any(Precision::full)) cast_all(Precision::full);
    }
  }

 private:
  Casts casts_of(const SymbolNode& node) const {
    // An operator that is in no list of operators has a graph or a function inside, which is for float32.
    if (excluded_.contains(node.name) || !ops::find_op(node.op->name())) return Casts::to_full;
    for (auto [c, end] = conditions_.equal_range(node.op); c != end; ++c) {
      bool holds = false;
      node.op->write(node.attrs.get(), [&](std::string_view name, const std::string& text, bool) {
        const auto& values = c->second.values;
        holds = holds || (name == c->second.attribute && std::find(values.begin(), values.end(), text) != values.end());
      });
      if (holds) return Casts::to_full;
    }
    const auto found = casts_.find(node.op);
    if (found != casts_.end()) return found->second;
    return node.op->traits.in_mxnet ? Casts::none : Casts::to_widest;
  }

  // The precision of a value of the new program, whose dtype is known where its shape is.
  Precision of(const SymbolEntry& entry) {
    const SymbolNode& node = *entry.node;
    const TensorMeta& meta = node.outputs[entry.output];
    if (meta.shape.is_known() || node.is_variable()) return precision_of(meta.dtype);
    const auto [at, is_new] = known_.emplace(&node, Precision::unknown);
    if (!is_new) return at->second;
    Precision result = Precision::unknown;
    if (node.op == &op::AmpCast::def) {
      result = precision_of(static_cast<const op::AmpCast*>(node.attrs.get())->dtype);
    } else if (node.op == &op::Cast::def) {
      result = precision_of(static_cast<const op::Cast*>(node.attrs.get())->dtype);
    } else if (const Casts casts = casts_of(node); casts == Casts::to_low || casts == Casts::to_full) {
      result = casts == Casts::to_low ? Precision::low : Precision::full;
    } else if (!node.inputs.empty()) {
      // Statistics and slopes of a BatchNorm are float32 beside data of 16 bits.
      const size_t count = node.op == &op::BatchNorm::def ? 1 : node.inputs.size();
      for (size_t i = 0; i < count && result != Precision::full; ++i) {
        const Precision p = of(node.inputs[i]);
        if (p == Precision::low || p == Precision::full) result = p;
      }
    }
    return known_[&node] = result;
  }

  SymbolEntry cast(const SymbolEntry& entry, Precision to) {
    const Precision from = of(entry);
    if (from == to || from == Precision::neither) return entry;
    SymbolEntry& made = made_[{entry.node.get(), entry.output, to}];
    if (!made.node) {
      const DType dtype = to == Precision::low ? target_ : DType::float32;
      const std::string name =
          fmt::format("{}_amp_cast_{}", entry.node->output_name(int(entry.output)), name_of(dtype));
      const op::AmpCast op{.dtype = dtype};
      const Symbol input(entry);
      const Symbol* inputs[] = {&input};
      Symbol out;
      Symbol::apply(op::AmpCast::def, &op, inputs, std::span(&out, 1), std::source_location::current(), name);
      made = out.entry();
    }
    return made;
  }

  const DType target_;
  const std::set<std::string> excluded_;
  std::unordered_map<const OpDef*, Casts> casts_;
  std::multimap<const OpDef*, ConditionalOp> conditions_;
  std::unordered_map<const SymbolNode*, Precision> known_;
  std::map<std::tuple<const SymbolNode*, uint32_t, Precision>, SymbolEntry> made_;
};

// The variables, but for `data`, that nothing reads other than casts to `dtype`.
std::set<const SymbolNode*> only_cast_to(const Symbol& program, DType dtype, const std::set<std::string>& data) {
  std::set<const SymbolNode*> cast, others;
  for (const SymbolEntry& e : program.entries()) others.insert(e.node.get());
  for (const SymbolNode* n : topological_order(program.entries())) {
    const bool is_cast = n->op == &op::AmpCast::def && static_cast<const op::AmpCast*>(n->attrs.get())->dtype == dtype;
    for (const SymbolEntry& e : n->inputs) {
      const SymbolNode& from = *e.node;
      if (!from.is_variable() || from.constant.defined() || data.contains(from.name)) continue;
      (is_cast ? cast : others).insert(&from);
    }
  }
  for (const SymbolNode* n : others) cast.erase(n);
  return cast;
}

Symbol with_cast_parameters(const Symbol& program, DType dtype, const std::set<std::string>& data) {
  const std::set<const SymbolNode*> cast = only_cast_to(program, dtype, data);
  std::unordered_map<const SymbolNode*, Symbol> variables;
  for (const SymbolNode* n : cast) {
    Symbol v = Symbol::variable(n->name, n->outputs[0].shape, dtype);
    v.entry().node->text_attrs = n->text_attrs;
    if (auto& text = v.entry().node->text_attrs; text.contains("__dtype__")) {
      text["__dtype__"] = std::to_string(int(dtype));
    }
    variables.emplace(n, std::move(v));
  }
  return with_replaced(program, [&](const SymbolNode& n, const std::vector<SymbolEntry>&) {
    const auto at = n.op == &op::AmpCast::def ? variables.find(n.inputs[0].node.get()) : variables.end();
    return at == variables.end() ? SymbolEntry{} : at->second.entry();
  });
}

}  // namespace

Symbol convert_symbol(const Symbol& program, const ConvertOptions& options, const std::vector<std::string>& data) {
  const NameScope names("");
  Converter converter(program, options);
  const Symbol converted = with_inputs(
      program, [&](const SymbolNode& node, std::vector<SymbolEntry>& inputs) { converter.change(node, inputs); });
  if (!options.cast_optional_params) return converted;
  std::set<std::string> kept(data.begin(), data.end());
  if (data.empty()) {
    for (const SymbolNode* n : topological_order(program.entries())) {
      if (n->is_variable() && !n->text_attrs.contains("__dtype__")) kept.insert(n->name);
    }
  }
  return with_cast_parameters(converted, options.target_dtype, kept);
}

gluon::SymbolBlock convert_hybrid_block(const gluon::Block& net, const ConvertOptions& options) {
  const gluon::BlockNode::Trace& trace = net.node()->latest_trace("convert_hybrid_block");
  if (!trace.metas.empty()) {
    throw StateError(fmt::format(
        "[convert_hybrid_block] hybrid_forward of {} reads shapes or dtypes: what it has traced holds for these alone",
        net.node()->path));
  }
  const std::vector<std::string>& names = trace.graph->input_names();
  const std::vector<std::string> data(names.begin(), names.begin() + long(trace.num_inputs));
  const Symbol program = convert_symbol(trace.graph->program(), options, data);
  std::vector<gluon::Parameter> parameters = trace.parameters;
  for (const SymbolNode* n : topological_order(program.entries())) {
    const auto p = std::find_if(parameters.begin(), parameters.end(),
                                [&](const gluon::Parameter& of) { return n->is_variable() && of.name() == n->name; });
    if (p == parameters.end() || n->outputs[0].dtype == p->dtype()) continue;
    gluon::Parameter copy(p->name(), p->shape(), {.dtype = n->outputs[0].dtype});
    copy.set_data(p->data().astype(copy.dtype()));
    *p = copy;
  }
  return gluon::SymbolBlock(program, data, parameters);
}

}  // namespace kaon::amp
