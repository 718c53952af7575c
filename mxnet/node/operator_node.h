// Operators' nodes as MXNet sees them: the names of their inputs and outputs, and whether they have inputs yet.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/mxnet/table/operator_table.h"

namespace kaon {
struct CustomSignature;
}

namespace kaon::mxnet {

using graph::SymbolNode;
using NodePtr = engine::IntrusivePtr<SymbolNode>;

// A node is an operator, then, from its creation on, though `op` is null until it has been composed: Kaon's functions
// take what has not for a variable.
inline bool is_operator(const SymbolNode& node) { return node.op_name != "null"; }

// Throws ValueError where an operator of the symbol has not been composed.
void check_composed(const Symbol& symbol);

// What a program says of an operator of its own; nullptr for other nodes.
const CustomSignature* custom_signature_of(const SymbolNode& node);

// nullptr for a variable.
const OperatorInfo* info_of(const SymbolNode& node);

// How many inputs an operator takes with its attributes; -1: any number. Throws ValueError where Kaon does not have it.
int expected_inputs(const SymbolNode& node);
// The names of its `count` inputs: which of MXNet's there are depends on attributes (no_bias, use_sequence_length).
std::vector<std::string> input_names(const SymbolNode& node, int count);

// Whether MXNet's operator names its inputs: monitors get "input0" from one that does not.
bool lists_inputs(const SymbolNode& node);

// How many outputs programs see.
int visible_outputs(const SymbolNode& node);
// How many MXNet counts, hidden ones included.
int counted_outputs(const SymbolNode& node);
// "bn_output", "bn_mean", "split0_output1"; of a variable its name.
std::string output_name(const SymbolNode& node, int output);

// The symbol of all visible outputs.
Symbol symbol_of_node(const NodePtr& node);

// Reads the texts of the node again, into `attrs`. Throws ValueError and leaves the node as it was for a text that is
// no value, and where the node would have other numbers of inputs or outputs.
void read_again(SymbolNode& node);

// Gives the node a place after its inputs in the order of creation, by which programs run.
void place_after_inputs(SymbolNode& node);

}  // namespace kaon::mxnet
