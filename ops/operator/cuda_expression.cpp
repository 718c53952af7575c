#include "kaon/ops/operator/cuda_expression.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/math/dispatch.h"

namespace kaon::ops {
namespace {

std::string real_literal(double v, const char* suffix, const char* type) {
  if (v != v) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", type);
  if (std::isinf(v)) return fmt::format("{}std::numeric_limits<{}>::infinity()", v < 0 ? "-" : "", type);
  return fmt::format("({:a}{})", v, suffix);
}

std::string call(std::string_view function, std::string_view kind, int k, const ExpressionArgs& a) {
  std::string text = fmt::format("{}<{}({}), {}>({}", function, kind, k, a.type(), a.in[0]);
  for (size_t i = 1; i < a.in.size(); ++i) text += ", " + a.in[i];
  return text + ")";
}

}  // namespace

const char* cuda_element_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float";
    case DType::float64: return "double";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::uint8: return "uint8_t";
    case DType::int8: return "int8_t";
    case DType::uint16: return "uint16_t";
    case DType::int16: return "int16_t";
    case DType::uint32: return "uint32_t";
    case DType::int32: return "int32_t";
    case DType::uint64: return "uint64_t";
    case DType::int64: return "int64_t";
    case DType::boolean: return "bool";
  }
  return "";
}

const char* cuda_value_type(DType dtype) { return is_half(dtype) ? "float" : cuda_element_type(dtype); }

std::string cuda_literal(float v) { return real_literal(v, "f", "float"); }
std::string cuda_literal(double v) { return real_literal(v, "", "double"); }
std::string cuda_literal(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  return fmt::format("({}ll)", v);
}

std::string unary_expression(UnaryKind kind, const ExpressionArgs& a) {
  return call("unary_value", "UnaryKind", int(kind), a);
}
std::string unary_backward_expression(UnaryBackwardKind kind, const ExpressionArgs& a) {
  return call("unary_backward_value", "UnaryBackwardKind", int(kind), a);
}
std::string binary_expression(BinaryKind kind, std::string_view type, std::string_view x, std::string_view y) {
  return fmt::format("binary_value<BinaryKind({}), {}>({}, {})", int(kind), type, x, y);
}

std::string two_number_expression(std::string_view function, const ExpressionArgs& a, double first, double second,
                                  std::string_view rest) {
  return dispatch_all("fuse", a.dtype, [&]<class T>() {
    using Value = accumulate_t<T>;
    std::string text = fmt::format("{}<{}>(", function, a.type());
    for (const std::string& x : a.in) text += x + ", ";
    return text + fmt::format("{}, {}{})", cuda_literal(Value(first)), cuda_literal(Value(second)), rest);
  });
}

}  // namespace kaon::ops
