// Symbol: a value of a program that has not run, as hybrid_forward gets it while it is traced and model files store it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/ops/functions.h"

namespace KAON_API kaon {

namespace graph {
struct SymbolNode;
struct SymbolFileInfo;
}  // namespace graph

// One output of a node.
struct SymbolEntry {
  engine::IntrusivePtr<graph::SymbolNode> node;
  uint32_t output = 0;
};

using Shapes = std::unordered_map<std::string, Shape>;
using DTypes = std::unordered_map<std::string, DType>;

// A handle on one or several (Group) values. Operators check shapes at the call as far as they are known: ShapeError,
// TypeError, ValueError, with the node's name and the line of the call. Members that need one value throw ValueError
// for a group and an undefined handle. Thread safety: distinct graphs: safe; one graph: composing on one thread.
class Symbol : public ArrayOperators<Symbol> {
 public:
  Symbol();
  explicit Symbol(SymbolEntry entry);
  explicit Symbol(std::vector<SymbolEntry> entries);
  Symbol(const Symbol&);
  Symbol(Symbol&&) noexcept;
  Symbol& operator=(const Symbol&);
  Symbol& operator=(Symbol&&) noexcept;
  ~Symbol();

  static Symbol variable(std::string_view name, const Shape& shape = Shape::unknown(), DType dtype = DType::float32);
  static Symbol group(const std::vector<Symbol>& symbols);
  static Symbol constant(const NDArray& value, std::string_view name = "");

  bool defined() const { return !entries_.empty(); }
  // The name of the node; "group [...]" texts come from to_string.
  const std::string& name() const;
  int num_outputs() const { return int(entries_.size()); }
  Symbol output(int i) const;  // of a group or a node with several outputs; throws IndexError
  // The shape that follows from the inputs' shapes. Throws TraceError, saying what to give, when it is not known. A
  // trace that asks holds for inputs of these shapes and dtypes only.
  const Shape& shape() const;
  DType dtype() const;  // a trace that asks holds for these inputs only
  int ndim() const { return shape().ndim(); }
  int64_t size() const { return shape().size(); }

  // --- as on arrays; each is a node here
  // Row `index` along axis 0, negative from the end. Throws ValueError for a node with several outputs.
  Symbol operator[](int64_t index) const;
  // Elements by NumPy's rules, as of an NDArray; x.at(...) = value rebinds this handle. These ask for the shape.
  using I = Index<Symbol>;
  Symbol operator()(const I& i0, const I& i1 = {}, const I& i2 = {}, const I& i3 = {}, const I& i4 = {},
                    const I& i5 = {}, const I& i6 = {}, const I& i7 = {}) const;
  ArrayPart<Symbol> at(const I& i0, const I& i1 = {}, const I& i2 = {}, const I& i3 = {}, const I& i4 = {},
                       const I& i5 = {}, const I& i6 = {}, const I& i7 = {}) {
    return {*this, {i0, i1, i2, i3, i4, i5, i6, i7}};
  }
  Symbol slice(int64_t begin, int64_t end, std::source_location site = std::source_location::current()) const;
  Symbol reshape(const Shape& shape, std::source_location site = std::source_location::current()) const;
  Symbol astype(DType dtype, std::source_location site = std::source_location::current()) const;
  Symbol sum(std::source_location site = std::source_location::current()) const;
  Symbol mean(std::source_location site = std::source_location::current()) const;
  Symbol transpose(std::source_location site = std::source_location::current()) const;
  Symbol copy(std::source_location site = std::source_location::current()) const;
  Symbol detach(std::source_location site = std::source_location::current()) const;  // no gradient flows through
  // These rebind the handle to a new value; other handles keep the old one.
  Symbol& assign(const Arg<Symbol>& value);
  Symbol& slice_assign(const Shape& begin, const Shape& end, const Arg<Symbol>& value);
  Symbol& operator+=(const Arg<Symbol>& b) { return *this = binary(ops::BinaryKind::add, *this, b); }
  Symbol& operator-=(const Arg<Symbol>& b) { return *this = binary(ops::BinaryKind::sub, *this, b); }
  Symbol& operator*=(const Arg<Symbol>& b) { return *this = binary(ops::BinaryKind::mul, *this, b); }
  Symbol& operator/=(const Arg<Symbol>& b) { return *this = binary(ops::BinaryKind::div, *this, b); }
  Symbol& operator%=(const Arg<Symbol>& b) { return *this = binary(ops::BinaryKind::mod, *this, b); }

  // --- inspection
  std::vector<std::string> list_arguments() const;         // variables, depth first, without auxiliary states
  std::vector<std::string> list_auxiliary_states() const;  // variables that operators update (running statistics)
  std::vector<std::string> list_inputs() const;            // both, depth first
  std::vector<std::string> list_outputs() const;           // "fc1_output"; of a variable its name
  Symbol get_internals() const;                            // every visible output of every node, as a group
  // Infers all shapes from those given by variable name; the symbol does not change. Throws ValueError for a name that
  // is no variable, ShapeError for shapes that do not fit or do not suffice, naming the node. Thread safety: any
  // thread.
  struct InferredShapes {
    std::vector<Shape> arguments, outputs, auxiliary_states;
  };
  InferredShapes infer_shape(const Shapes& known) const;
  // As infer_shape, from what is known in part: -1 stands for a dimension that is not known, Shape::unknown() for a
  // shape. Knowledge flows from inputs to outputs and back, and what does not follow stays unknown. Throws ShapeError,
  // naming the node, where what is known contradicts itself.
  InferredShapes infer_shape_partial(const Shapes& known) const;
  // The dtypes that follow from those given by variable name, in both directions and without shapes; none where it does
  // not follow. Throws ValueError for a name that is no variable, TypeError, naming the node, for a contradiction.
  // Thread safety: any thread.
  struct InferredTypes {
    std::vector<std::optional<DType>> arguments, outputs, auxiliary_states;
  };
  InferredTypes infer_type(const DTypes& known) const;

  // --- files, in MXNet's format (graph/files/symbol_json.cpp)
  // Both throw ValueError for an undefined handle and for what MXNet's format cannot hold, such as an operator that
  // MXNet lacks; save throws IoError.
  std::string tojson() const;
  void save(const std::filesystem::path& file) const;
  // Both throw IoError naming file (`source`), place and expectation.
  static Symbol load(const std::filesystem::path& file);
  static Symbol load_json(std::string_view text, const std::string& source = "JSON text");

  // --- for other layers
  static void apply(const OpDef& def, const void* attrs, std::span<const Symbol* const> inputs, std::span<Symbol> outs,
                    const std::source_location& site, std::string_view name);
  static Symbol from_values(const NDArray& values, std::string_view name) { return constant(values, name); }
  static Symbol binary(ops::BinaryKind kind, const Arg<Symbol>& a, const Arg<Symbol>& b, std::string_view name = {});
  static Symbol negate(const In<Symbol>& a);
  const SymbolEntry& entry() const;  // throws ValueError on groups and undefined symbols
  const std::vector<SymbolEntry>& entries() const { return entries_; }

 private:
  std::vector<SymbolEntry> entries_;
  std::shared_ptr<const graph::SymbolFileInfo> file_;  // of a loaded symbol: its file's contents beyond the graph
};

// "<Symbol dense0_fwd>", "<Symbol group [a, b]>"
KAON_API std::string to_string(const Symbol& symbol);
KAON_API std::ostream& operator<<(std::ostream& out, const Symbol& symbol);

// Names of new nodes in this thread: "<prefix><hint><number>", numbers counted per scope.
class NameScope {
 public:
  explicit NameScope(std::string prefix);  // nests
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  // The prefix of the innermost scope with `name`, or with hint and the next number when `name` is empty.
  static std::string next(std::string_view name, std::string_view hint);
  static std::string prefix();  // of the innermost scope

 private:
  std::string prefix_;
  std::unordered_map<std::string, int> counts_;
  NameScope* outer_;
};

// `sym`: Functions<Symbol> and the constructors of Symbols.
struct SymbolFunctions : Functions<Symbol> {
  using Functions<Symbol>::var;  // of a Symbol the operator: its variance
  // Of a name a variable.
  static Symbol var(std::string_view name, const Shape& shape = Shape::unknown(), DType dtype = DType::float32) {
    return Symbol::variable(name, shape, dtype);
  }
  static Symbol Group(const std::vector<Symbol>& symbols) { return Symbol::group(symbols); }
};
inline constexpr SymbolFunctions sym{};

}  // namespace kaon

template <>
struct fmt::formatter<kaon::Symbol> : kaon::ops::TextFormatter<kaon::Symbol> {};
