// SymbolNode: what Symbols refer to; and what files, traces and graphs ask of programs of Symbols.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kaon/engine/run_context.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/operator/op_attributes.h"

namespace kaon::graph {

struct Subgraph;  // files/symbol_file.h

// A variable, a constant or an operator with its inputs. Shared by the Symbols that refer to it.
struct SymbolNode : RefCounted<SymbolNode> {
  const OpDef* op = nullptr;  // nullptr: variable (or constant, when `constant` is defined)
  std::string name;
  std::string op_name;  // as written in files: the operator's name or one of its aliases; "null" for variables
  Attributes attrs;
  // From a file: attributes of operators as written there (so that saving gives them back unchanged), attributes of
  // variables ("__shape__" ...).
  std::map<std::string, std::string> text_attrs;
  std::vector<SymbolEntry> inputs;
  std::vector<TensorMeta> outputs;  // shapes and dtypes as far as they are known
  NDArray constant;
  // What the net that made it demands of its inputs' shapes: where they do not fit, the error begins with this.
  std::shared_ptr<const std::string> demand;
  // Of a node with "subgraphs" in MXNet's format: these as a file or a program of MXNet's gave them, with their names.
  // Null: they follow from `attrs`.
  std::shared_ptr<const std::vector<Subgraph>> subgraphs;
  bool is_detached = false;             // made by detach(): autograd records nothing computed from it alone
  uint64_t sequence = next_sequence();  // order of creation

  bool is_variable() const { return !op; }
  int num_outputs() const { return int(outputs.size()); }
  int visible_outputs() const { return op ? op->visible_outputs(attrs.get()) : 1; }
  // Name of an output in list_outputs(): "fc1_output", "split0_output1", or a variable's own name.
  std::string output_name(int i) const;
  void destroy();  // without recursion along long chains
  SymbolNode* next_destroyed = nullptr;

 private:
  static uint64_t next_sequence();
};

// Without inputs and outputs. nullptr: a variable.
IntrusivePtr<SymbolNode> make_node(const OpDef* op, std::string name);

// Post-order, each node once: inputs before their users, as in MXNet's files.
std::vector<SymbolNode*> topological_order(const std::vector<SymbolEntry>& heads);
// The same nodes, inputs before their users, in the order in which the program made them, as an imperative run does.
std::vector<SymbolNode*> creation_order(const std::vector<SymbolEntry>& heads);

// Whether the node has a name under which MXNet's operator does not broadcast (elemwise_add, _plus, _equal ...): then
// its inputs must have one shape.
bool wants_equal_shapes(const SymbolNode& node);
// Throws ShapeError where they differ. `name` as in the file.
void expect_equal_shapes(std::string_view name, std::span<const TensorMeta* const> inputs);

// Runs shape inference of one node as far as its inputs are known; fills shapes of variables that follow from others.
// True when the outputs are known.
bool infer_node(SymbolNode& node);
// The same with the shapes and dtypes of any node's outputs in metas_of(node), which are filled for this node and for
// variables that follow.
bool infer_node(SymbolNode& node, FunctionRef<std::vector<TensorMeta>&(SymbolNode&)> metas_of);

// Whether Symbol::shape() or dtype() has been asked on this thread while it lives: then a trace holds for inputs like
// these only.
class SymbolShapeWatch {
 public:
  SymbolShapeWatch();
  ~SymbolShapeWatch();
  SymbolShapeWatch(const SymbolShapeWatch&) = delete;
  SymbolShapeWatch& operator=(const SymbolShapeWatch&) = delete;
  bool was_read() const { return was_read_; }
  static void note_read();  // by Symbol::shape() and dtype()

 private:
  bool was_read_ = false;
  SymbolShapeWatch* outer_;
};

// The program on other inputs: variables with these names are replaced. Nodes are copied, variables without a
// replacement shared; node names get the running NameScope's prefix.
Symbol compose(const Symbol& program, const std::unordered_map<std::string, Symbol>& replacements);

// The program with the label input of each output layer that follows from the `unknown` variables made a variable of
// its own, whose shape follows from the data; and the names of these.
std::pair<Symbol, std::vector<std::string>> with_direct_labels(const Symbol& program,
                                                               const std::vector<std::string>& unknown);

// The program with what replacement(node, its inputs in the new program) gives in place of an operator's only output;
// an empty entry leaves the operator.
Symbol with_replaced(const Symbol& program,
                     FunctionRef<SymbolEntry(const SymbolNode&, const std::vector<SymbolEntry>&)> replacement);

// The program with other inputs of its operators: change(node, inputs) may change what `node` reads, which `inputs` are
// in the new program.
Symbol with_inputs(const Symbol& program, FunctionRef<void(const SymbolNode&, std::vector<SymbolEntry>&)> change);

// The program with each constant as a variable of its name, and the values of these.
std::pair<Symbol, std::vector<std::pair<std::string, NDArray>>> constants_as_variables(const Symbol& program);

}  // namespace kaon::graph
