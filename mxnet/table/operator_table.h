// MXNet's operators: their names and arguments as programs know them, and Kaon's operator for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kaon/ops/op_def.h"

namespace kaon::mxnet {

// Immutable, and kept as long as the process: its address is the operator's handle.
struct OperatorInfo {
  struct Argument {
    std::string name, type;  // "act_type", "{'relu', 'tanh'}, required"
    bool is_listed = true;   // false: MXNet reads it and does not tell
    bool is_input() const { return type.starts_with("NDArray") || type.starts_with("Symbol"); }
    // "None" of "Shape or None, optional, default=None"; empty where it is required.
    std::string_view default_text() const;
  };
  std::string name;
  std::vector<std::string> aliases;
  std::string num_args_key;           // the argument that counts the inputs, where there is any number of them
  std::vector<Argument> arguments;    // inputs, then attributes, in MXNet's order
  const OpDef* def = nullptr;         // nullptr: Kaon has none
  std::vector<std::string> required;  // attributes of `def` without a default, and its count of the inputs
  bool equal_shapes = false;          // its inputs must have one shape, where Kaon's operator broadcasts

  const Argument* argument(std::string_view argument_name) const;
  int num_attributes() const;
  // For MXSymbolGetAtomicSymbolInfo: `arguments` as C has them.
  std::vector<const char*> c_names, c_types, c_descriptions;
};

// In alphabetical order. Thread safety: any thread.
const std::vector<OperatorInfo>& all_operators();
// By name or other name; nullptr when MXNet has none. Thread safety: any thread.
const OperatorInfo* find_operator(std::string_view name);
// All names, for C.
const std::vector<const char*>& operator_names();

// Throws ValueError when Kaon has none.
const OpDef& def_of(const OperatorInfo& info);

}  // namespace kaon::mxnet
