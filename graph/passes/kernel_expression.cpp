#include "kaon/graph/passes/kernel_expression.h"

#include <fmt/format.h>

#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"

namespace kaon::graph::passes {

std::optional<std::string> kernel_expression(const Node& node, std::span<const std::string> inputs,
                                             std::span<const DType> dtypes) {
  if (!node.op->cuda_expression) return {};
  const DType dtype = node.outputs[0].dtype;
  std::optional<CudaExpression> value =
      node.op->cuda_expression(node.attrs.get(), {.in = inputs, .dtypes = dtypes, .dtype = dtype});
  if (!value) return {};
  // 16-bit floats are rounded after each operator, so that the chain gives the bits of its operators one by one.
  if (!is_half(dtype) || value->is_rounded) return std::move(value->text);
  return fmt::format("float({}({}))", cuda_element_type(dtype), value->text);
}

}  // namespace kaon::graph::passes
