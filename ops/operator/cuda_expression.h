// Pointwise operators as CUDA C++, for kernels that are compiled at run time: expressions of the element functions that
// the operators' own kernels call.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kaon/ops/dtype.h"
#include "kaon/ops/elementwise_kinds.h"

namespace kaon::ops {

// The C++ type of an array's elements, and the one in which they are computed: float for 16-bit floats.
const char* cuda_element_type(DType dtype);
const char* cuda_value_type(DType dtype);

// The argument of `cuda_expression`.
struct ExpressionArgs {
  std::span<const std::string> in;  // the names of the inputs' values, of their dtypes' value types
  std::span<const DType> dtypes;    // of the inputs
  DType dtype;                      // of the output

  const char* type() const { return cuda_value_type(dtype); }  // of the expression
};

// Its result.
struct CudaExpression {
  std::string text;
  bool is_rounded = false;  // its value is one of the output's dtype; others are rounded to it afterwards

  CudaExpression(std::string text, bool is_rounded = false) : text(std::move(text)), is_rounded(is_rounded) {}
};

// A number as C++ that gives its very bits.
std::string cuda_literal(float v);
std::string cuda_literal(double v);
std::string cuda_literal(int64_t v);
template <std::integral T>
std::string cuda_literal(T v) {
  return cuda_value_type(dtype_of<T>) + cuda_literal(int64_t(v));
}

// The functions of ops/math/scalar_math.h, by kind.
std::string unary_expression(UnaryKind kind, const ExpressionArgs& a);
std::string unary_backward_expression(UnaryBackwardKind kind, const ExpressionArgs& a);
std::string binary_expression(BinaryKind kind, std::string_view type, std::string_view x, std::string_view y);
// function<type>(inputs..., first, second rest), the two numbers rounded to the type.
std::string two_number_expression(std::string_view function, const ExpressionArgs& a, double first, double second,
                                  std::string_view rest = "");

}  // namespace kaon::ops
