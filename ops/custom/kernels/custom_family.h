// Operators of one op_type whose inputs and outputs depend on their attributes, as those of MXNet's programs do.
#pragma once

#include "kaon/ops/custom/custom.h"

namespace KAON_API kaon {

struct CustomSignature {
  std::vector<std::string> inputs{"data"};  // their names, those that are updated in place last
  std::vector<std::string> outputs{"output"};
  int updated = 0;  // how many of the inputs are updated in place
};

// As CustomOperator.
struct CustomFamily {
  std::function<CustomSignature(const CustomAttributes&)> signature;  // called once for each set of attributes
  std::function<void(const CustomAttributes&, ComposeContext&)> compose;
  std::function<void(const CustomAttributes&, InferContext&)> infer;
};

// As register_custom_operator, but takes the place of an operator that is registered under the name: nodes that are
// there already become operators of the new family.
KAON_API void register_custom_family(std::string op_type, CustomFamily family);

namespace ops {
// Of an operator of a family, or of one that was registered alone, whose outputs are numbered. Throws ValueError for an
// op_type that is not registered, and what the family's function throws.
KAON_API const CustomSignature& custom_signature(const op::Custom& op);
}  // namespace ops

}  // namespace kaon
