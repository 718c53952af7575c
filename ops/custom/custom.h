// Operators that the program defines and names at run time: MXNet's Custom.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// The attributes of a call or of a node but `op_type`, as text.
using CustomAttributes = std::map<std::string, std::string, std::less<>>;

// What an op_type does. Its functions may be called by any thread, and several at a time.
struct CustomOperator {
  std::vector<std::string> inputs{"data"};  // their names; a call with another number of arrays is refused
  int outputs = 1;
  // Computes the outputs by calling other operators: at a call on arrays, and while a network is traced. Its gradient
  // is theirs.
  std::function<void(const CustomAttributes&, ComposeContext&)> compose;
  // Sets the shapes and dtypes of the outputs. None: those of the first input.
  std::function<void(const CustomAttributes&, InferContext&)> infer{};
};

// Makes `op_type` known to nd.Custom, sym.Custom and to the readers of files, for the rest of the process; once.
// ValueError: it is empty or registered already, or op has no compose. Blocks for a moment at most; any thread.
KAON_API void register_custom_operator(std::string op_type, CustomOperator op);

namespace ops {
// Two texts of attributes that are equal stand for equal attributes.
KAON_API std::string custom_text(const CustomAttributes& attributes);
// ValueError that lists what is registered, where this op_type is not.
KAON_API void expect_custom_operator(std::string_view op_type);
}  // namespace ops

namespace op {
// The operator that is registered as op_type, of its inputs.
struct Custom {
  ops::Word op_type{};
  ops::Word attributes{};  // the others, as custom_text gives them; in files each is an attribute of its own
  static constexpr OpTraits traits{
      .name = "Custom", .variadic = true, .mode_dependent = true, .aliases = ops::Names("_npi_Custom")};
  static constexpr void fields(auto field) {
    field("op_type", &Custom::op_type, true);
    field("attributes", &Custom::attributes);
  }
  static const OpDef def;
  int num_outputs() const;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
