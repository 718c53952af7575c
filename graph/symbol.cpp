#include "kaon/graph/symbol.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/ir/variables.h"
#include "kaon/ops/elementwise/kernels/arithmetic.h"
#include "kaon/ops/promotion/promoted_call.h"

namespace kaon {

using namespace graph;

// --- construction

Symbol::Symbol() = default;
Symbol::Symbol(SymbolEntry entry) { entries_.push_back(std::move(entry)); }
Symbol::Symbol(std::vector<SymbolEntry> entries) : entries_(std::move(entries)) {}
Symbol::Symbol(const Symbol&) = default;
Symbol::Symbol(Symbol&&) noexcept = default;
Symbol& Symbol::operator=(const Symbol&) = default;
Symbol& Symbol::operator=(Symbol&&) noexcept = default;
Symbol::~Symbol() = default;

const std::string& Symbol::name() const { return entry().node->name; }

Symbol Symbol::variable(std::string_view name, const Shape& shape, DType dtype) {
  auto n = make_node(nullptr, std::string(name));
  n->outputs = {{shape, dtype}};
  return Symbol(SymbolEntry{n, 0});
}

Symbol Symbol::constant(const NDArray& value, std::string_view name) {
  auto n = make_node(nullptr, NameScope::next(name, "constant"));
  n->outputs = {{value.shape(), value.dtype()}};
  n->constant = value;
  return Symbol(SymbolEntry{n, 0});
}

Symbol Symbol::group(const std::vector<Symbol>& symbols) {
  std::vector<SymbolEntry> all;
  for (const Symbol& s : symbols) all.insert(all.end(), s.entries_.begin(), s.entries_.end());
  return Symbol(std::move(all));
}

const SymbolEntry& Symbol::entry() const {
  if (entries_.size() != 1) {
    throw ValueError(entries_.empty() ? "[Symbol] this handle holds no symbol"
                                      : fmt::format("[Symbol] one value expected, got a group of {}; take .output(i)",
                                                    entries_.size()));
  }
  return entries_[0];
}

Symbol Symbol::output(int i) const {
  if (i < 0 || i >= num_outputs()) {
    throw IndexError(fmt::format("[Symbol] output {} does not exist: there are {}", i, num_outputs()));
  }
  return Symbol(entries_[size_t(i)]);
}

namespace {

// Casts the inputs in `mask` as promote_types() asks. Where a shape is unknown its dtype is, too: nothing is cast.
void promote(uint32_t mask, std::vector<SymbolEntry>& inputs, const std::source_location& site) {
  const auto meta = [&](size_t i) -> const TensorMeta& { return inputs[i].node->outputs[inputs[i].output]; };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if ((mask >> i & 1) != 0 && meta(i).shape.ndim() < 0) return;
  }
  if (mask == 0) return;
  SymbolShapeWatch::note_read();  // for inputs of other dtypes it is another program
  const auto dtype = common_dtype(mask, inputs.size(), [&](size_t i) { return meta(i).dtype; });
  for (size_t i = 0; dtype && i < inputs.size(); ++i) {
    if ((mask >> i & 1) != 0 && meta(i).dtype != *dtype) inputs[i] = Symbol(inputs[i]).astype(*dtype, site).entry();
  }
}

}  // namespace

void Symbol::apply(const OpDef& def, const void* attrs, std::span<const Symbol* const> inputs, std::span<Symbol> outs,
                   const std::source_location& site, std::string_view name) {
  if (def.num_outputs(attrs) == 0) {
    throw TraceError(
        fmt::format("[{}] only changes arrays in place, which a trace cannot record: call it outside of hybrid_forward",
                    def.name()));
  }
  std::string hint(def.name());
  std::transform(hint.begin(), hint.end(), hint.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  hint.erase(0, hint.find_first_not_of('_'));
  std::string node_name = NameScope::next(name, hint);
  std::vector<SymbolEntry> entries;
  for (const Symbol* s : inputs) entries.push_back(s->entry());
  if (thread_context().promotes) [[unlikely]]
    promote(promoted_inputs(def), entries, site);
  int expected = def.num_inputs(attrs);
  // Inputs that are not given become variables.
  const Names& names = def.traits_of(attrs).inputs;
  for (int i = int(inputs.size()); i < std::min(expected, names.size()); ++i) {
    entries.push_back(variable(fmt::format("{}_{}", node_name, names[i])).entry());
  }
  if (expected >= 0 && int(entries.size()) != expected) {
    throw ValueError(
        fmt::format("[{}] takes {} inputs with these attributes, got {}", def.name(), expected, inputs.size()));
  }
  auto node = make_node(&def, std::move(node_name));
  node->attrs = Attributes(def, attrs);
  node->inputs = std::move(entries);
  node->outputs.resize(size_t(def.num_outputs(attrs)));
  try {
    infer_node(*node);
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(fmt::format("; in node {}, called at {}", node->name, describe(site))));
  }
  for (size_t i = 0; i < outs.size(); ++i) outs[i] = Symbol(SymbolEntry{node, uint32_t(i)});
}

// --- values

const Shape& Symbol::shape() const {
  const SymbolEntry& e = entry();
  const Shape& s = e.node->outputs[e.output].shape;
  if (!s.is_known()) {
    throw TraceError(
        fmt::format("[shape] the shape of {} is not known: give the shapes of the input variables, as in "
                    "sym.var(\"data\", {{1, 3, 224, 224}})",
                    e.node->name));
  }
  SymbolShapeWatch::note_read();
  return s;
}

DType Symbol::dtype() const {
  const SymbolEntry& e = entry();
  SymbolShapeWatch::note_read();
  return e.node->outputs[e.output].dtype;
}

Symbol Symbol::binary(BinaryKind kind, const Arg<Symbol>& a, const Arg<Symbol>& b, std::string_view name) {
  return apply_binary(kind, a, b, name);
}
Symbol Symbol::negate(const In<Symbol>& a) { return sym.negative(a); }

Symbol Symbol::operator[](int64_t index) const {
  if (entry().node->visible_outputs() > 1) {
    throw ValueError(
        fmt::format("[Symbol] node {} has several outputs: take one with .output(i) before indexing", name()));
  }
  // the last row is index:end, not -1:0
  Symbol row = index == -1 ? sym.slice_axis(*this, 0, -1, std::nullopt) : sym.slice_axis(*this, 0, index, index + 1);
  return sym.squeeze(row, Shape(0));  // which leaves the one dimension that (1,) has
}
Symbol Symbol::slice(int64_t begin, int64_t end, std::source_location site) const {
  return sym.slice(In<Symbol>(*this, site), Shape(begin), Shape(end));
}
Symbol Symbol::reshape(const Shape& s, std::source_location site) const {
  return sym.reshape(In<Symbol>(*this, site), s);
}
Symbol Symbol::astype(DType t, std::source_location site) const { return sym.cast(In<Symbol>(*this, site), t); }
Symbol Symbol::sum(std::source_location site) const { return sym.sum(In<Symbol>(*this, site)); }
Symbol Symbol::mean(std::source_location site) const { return sym.mean(In<Symbol>(*this, site)); }
Symbol Symbol::transpose(std::source_location site) const { return sym.transpose(In<Symbol>(*this, site)); }

Symbol Symbol::copy(std::source_location site) const { return sym.identity(In<Symbol>(*this, site)); }
Symbol Symbol::detach(std::source_location site) const {
  Symbol result = sym.BlockGrad(In<Symbol>(*this, site));
  result.entry().node->is_detached = true;
  return result;
}

namespace {
// `value` in the dtype of `target` and broadcast to its shape. Whether that takes a cast is read from the dtypes, so a
// trace of it holds for these dtypes only.
Symbol as_written(const Symbol& target, const Symbol& value, const std::source_location& site) {
  DType to = target.dtype();
  Symbol cast = value.dtype() == to ? value : sym.cast(In<Symbol>(value, site), to);
  return sym.broadcast_like(In<Symbol>(cast, site), target);
}
}  // namespace

Symbol& Symbol::assign(const Arg<Symbol>& value) {
  if (value.is_number()) {
    return *this = sym.zeros_like(In<Symbol>(*this, value.site())) + value;
  }
  return *this = as_written(*this, value.array(), value.site());
}

Symbol& Symbol::slice_assign(const Shape& begin, const Shape& end, const Arg<Symbol>& value) {
  if (value.is_number()) {
    return *this = sym._slice_assign_scalar(In<Symbol>(*this, value.site()),
                                            {.begin = begin, .end = end, .scalar = value.number()});
  }
  In<Symbol> self(*this, value.site());
  Symbol part = as_written(sym.slice(self, begin, end), value.array(), value.site());
  return *this = sym._slice_assign(self, part, {.begin = begin, .end = end});
}

// --- inspection

namespace {
std::vector<std::string> names_of(const std::vector<SymbolNode*>& nodes) {
  std::vector<std::string> names;
  for (SymbolNode* n : nodes) names.push_back(n->name);
  return names;
}
}  // namespace

std::vector<std::string> Symbol::list_arguments() const {
  return names_of(variables(entries_, VariableKind::argument));
}
std::vector<std::string> Symbol::list_auxiliary_states() const {
  return names_of(variables(entries_, VariableKind::auxiliary));
}
std::vector<std::string> Symbol::list_inputs() const { return names_of(variables(entries_, VariableKind::any)); }

std::vector<std::string> Symbol::list_outputs() const {
  std::vector<std::string> names;
  for (const SymbolEntry& e : entries_) names.push_back(e.node->output_name(int(e.output)));
  return names;
}

Symbol Symbol::get_internals() const {
  std::vector<SymbolEntry> all;
  for (SymbolNode* n : topological_order(entries_)) {
    for (int i = 0; i < n->visible_outputs(); ++i) all.push_back({IntrusivePtr<SymbolNode>(n), uint32_t(i)});
  }
  return Symbol(std::move(all));
}

std::string to_string(const Symbol& symbol) {
  if (!symbol.defined()) return "<Symbol none>";
  if (symbol.num_outputs() == 1) return fmt::format("<Symbol {}>", symbol.name());
  std::string names;
  for (const SymbolEntry& e : symbol.entries()) names += (names.empty() ? "" : ", ") + e.node->name;
  return fmt::format("<Symbol group [{}]>", names);
}

std::ostream& operator<<(std::ostream& out, const Symbol& symbol) { return out << to_string(symbol); }

// --- names

namespace {
thread_local NameScope* t_names = nullptr;
}

NameScope::NameScope(std::string prefix) : prefix_(std::move(prefix)), outer_(std::exchange(t_names, this)) {}
NameScope::~NameScope() { t_names = outer_; }

std::string NameScope::prefix() { return t_names ? t_names->prefix_ : ""; }

std::string NameScope::next(std::string_view name, std::string_view hint) {
  // Outside of any scope numbers count up per thread, so that composed symbols keep distinct names.
  static thread_local std::unordered_map<std::string, int> outside;
  const std::string prefix = t_names ? t_names->prefix_ : "";
  if (!name.empty()) return prefix + std::string(name);
  auto& counts = t_names ? t_names->counts_ : outside;
  return fmt::format("{}{}{}", prefix, hint, counts[std::string(hint)]++);
}

}  // namespace kaon
