#include "kaon/graph/passes/kernel_expression.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <unordered_map>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/activation/kernels/activation_kernel.h"

namespace kaon::passes {
namespace {

// A number as C++ that gives its very bits.
std::string literal(double v, const char* suffix, const char* type) {
  if (v != v) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", type);
  if (std::isinf(v)) return fmt::format("{}std::numeric_limits<{}>::infinity()", v < 0 ? "-" : "", type);
  return fmt::format("({:a}{})", v, suffix);
}
std::string literal(float v) { return literal(v, "f", "float"); }
std::string literal(double v) { return literal(v, "", "double"); }
std::string literal(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  return fmt::format("({}ll)", v);
}
template <std::integral T>
std::string literal(T v) {
  return fmt::format("{}{}", value_type(dtype_of<T>), literal(int64_t(v)));
}

struct Arguments {
  const Node& node;
  std::span<const std::string> in;
  DType dtype;       // of the output
  const char* type;  // in which it is computed
};

template <class F>
std::string with_value_type(DType dtype, F&& f) {
  return dispatch_all("fuse", dtype, [&]<class T>() { return f.template operator()<accumulate_t<T>>(); });
}

std::string call(std::string_view function, std::string_view kind, int k, const Arguments& a) {
  std::string text = fmt::format("{}<{}({}), {}>({}", function, kind, k, a.type, a.in[0]);
  for (size_t i = 1; i < a.in.size(); ++i) text += ", " + a.in[i];
  return text + ")";
}
std::string unary(UnaryKind kind, const Arguments& a) { return call("unary_value", "UnaryKind", int(kind), a); }
std::string unary_backward(UnaryBackwardKind kind, const Arguments& a) {
  return call("unary_backward_value", "UnaryBackwardKind", int(kind), a);
}
std::string binary(BinaryKind kind, std::string_view type, std::string_view x, std::string_view y) {
  return fmt::format("binary_value<BinaryKind({}), {}>({}, {})", int(kind), type, x, y);
}

template <ScalarKind K>
std::string scalar(const Arguments& a) {
  const double s = static_cast<const Scalar<K>*>(a.node.attrs.get())->scalar;
  const std::string& x = a.in[0];
  constexpr BinaryKind kind = info(K).kind;
  return with_value_type(a.dtype, [&]<class T>() -> std::string {
    if constexpr (K == ScalarKind::smooth_l1) {
      return fmt::format("smooth_l1_value<{}>({}, {})", a.type, x, literal(T(s)));
    } else if constexpr (is_logical(kind) && !std::is_floating_point_v<T>) {
      const ComparedNumber number(s);
      const std::string is_true = number.is_integer
                                      ? binary(kind, "int64_t", fmt::format("int64_t({})", x), literal(number.integer))
                                      : binary(kind, "double", fmt::format("double({})", x), literal(number.real));
      return fmt::format("{}({} != 0)", a.type, is_true);
    } else {
      if (K == ScalarKind::power && std::is_floating_point_v<T> && s == 2) return binary(BinaryKind::mul, a.type, x, x);
      if (K == ScalarKind::power && std::is_floating_point_v<T> && s == 0.5) return fmt::format("root_value({})", x);
      const std::string number = literal(scalar_operand<T>(kind, s));
      return info(K).reversed ? binary(kind, a.type, number, x) : binary(kind, a.type, x, number);
    }
  });
}

// The formula of one operator: nothing where these attributes have none.
using Expression = std::optional<std::string> (*)(const Arguments&);

std::optional<std::string> activation(const Arguments& a) {
  switch (attributes<Activation>(a.node).act_type) {
    case ActivationType::relu: return unary(UnaryKind::relu, a);
    case ActivationType::sigmoid: return unary(UnaryKind::sigmoid, a);
    case ActivationType::tanh: return unary(UnaryKind::tanh, a);
    case ActivationType::softrelu: return unary(UnaryKind::softrelu, a);
    case ActivationType::softsign: return unary(UnaryKind::softsign, a);
  }
  return {};
}

std::optional<std::string> backward_activation(const Arguments& a) {
  switch (attributes<BackwardActivation>(a.node).act_type) {
    case ActivationType::relu: return unary_backward(UnaryBackwardKind::relu, a);
    case ActivationType::sigmoid: return unary_backward(UnaryBackwardKind::sigmoid, a);
    case ActivationType::tanh: return unary_backward(UnaryBackwardKind::tanh, a);
    case ActivationType::softrelu: return fmt::format("softrelu_backward_value({}, {})", a.in[0], a.in[1]);
    case ActivationType::softsign: return fmt::format("softsign_backward_value({}, {})", a.in[0], a.in[1]);
  }
  return {};
}

std::optional<std::string> add_n(const Arguments& a) {
  std::string sum = a.in[0];
  for (size_t i = 1; i < a.in.size(); ++i) sum = binary(BinaryKind::add, a.type, sum, a.in[i]);
  return sum;
}

std::optional<std::string> where(const Arguments& a) {
  return fmt::format("({} != 0 ? {} : {})", a.in[0], a.in[1], a.in[2]);
}

std::optional<std::string> clip(const Arguments& a) {
  const Clip& op = attributes<Clip>(a.node);
  return with_value_type(a.dtype, [&]<class T>() {
    T low, high;
    clip_bounds(op.a_min, op.a_max, low, high);
    return fmt::format("clip_value<{}>({}, {}, {})", a.type, a.in[0], literal(low), literal(high));
  });
}

// function(inputs..., first, second rest)
std::optional<std::string> real_pair(const char* function, const Arguments& a, double first, double second,
                                     const char* rest = "") {
  return with_value_type(a.dtype, [&]<class T>() {
    std::string text = fmt::format("{}<{}>(", function, a.type);
    for (const std::string& x : a.in) text += x + ", ";
    return text + fmt::format("{}, {}{})", literal(T(first)), literal(T(second)), rest);
  });
}

std::optional<std::string> clip_backward(const Arguments& a) {
  const ClipBackward& op = attributes<ClipBackward>(a.node);
  return real_pair("clip_backward_value", a, op.a_min, op.a_max);
}

std::optional<std::string> hard_sigmoid(const Arguments& a) {
  const HardSigmoid& op = attributes<HardSigmoid>(a.node);
  return real_pair("hard_sigmoid_value", a, op.alpha, op.beta);
}

std::optional<std::string> polygamma(const Arguments& a) {
  return fmt::format("{}(polygamma_value({}, double({})))", a.type, attributes<Polygamma>(a.node).n, a.in[0]);
}

std::optional<std::string> leaky(const char* function, const Arguments& a, LeakyType type, double slope) {
  const bool selu = type == LeakyType::selu, linear = type == LeakyType::leaky;
  return real_pair(function, a, selu ? selu_alpha : slope, selu ? selu_scale : 1, linear ? ", true" : ", false");
}

std::optional<std::string> leaky_relu(const Arguments& a) {
  const LeakyReLU& op = attributes<LeakyReLU>(a.node);
  if (op.act_type == LeakyType::gelu) return unary(UnaryKind::gelu, a);
  return leaky("leaky_value", a, op.act_type, op.slope);
}

std::optional<std::string> backward_leaky_relu(const Arguments& a) {
  const BackwardLeakyReLU& op = attributes<BackwardLeakyReLU>(a.node);
  if (op.act_type == LeakyType::gelu) return unary_backward(UnaryBackwardKind::gelu, a);
  return leaky("leaky_backward_value", a, op.act_type, op.slope);
}

std::optional<std::string> repeated(const Arguments& a) { return a.in[0]; }

std::optional<std::string> sum_grad(const Arguments& a) {
  const double scale = attributes<SumGrad>(a.node).scale;
  if (scale == 1) return a.in[0];
  return with_value_type(a.dtype,
                         [&]<class T>() { return binary(BinaryKind::mul, a.type, a.in[0], literal(T(scale))); });
}

std::unordered_map<const OpDef*, Expression> make_table() {
  std::unordered_map<const OpDef*, Expression> table{{&Activation::def, activation},
                                                     {&BackwardActivation::def, backward_activation},
                                                     {&AddN::def, add_n},
                                                     {&Where::def, where},
                                                     {&Clip::def, clip},
                                                     {&ClipBackward::def, clip_backward},
                                                     {&HardSigmoid::def, hard_sigmoid},
                                                     {&Polygamma::def, polygamma},
                                                     {&LeakyReLU::def, leaky_relu},
                                                     {&BackwardLeakyReLU::def, backward_leaky_relu},
                                                     {&BroadcastTo::def, repeated},
                                                     {&BroadcastAxis::def, repeated},
                                                     {&SumGrad::def, sum_grad}};
  const auto for_each = [&]<int... I>(std::integer_sequence<int, I...>, auto add) {
    (add.template operator()<I>(), ...);
  };
  for_each(std::make_integer_sequence<int, unary_kinds>(), [&]<int I>() {
    table[&Unary<UnaryKind(I)>::def] = [](const Arguments& a) { return std::optional(unary(UnaryKind(I), a)); };
  });
  for_each(std::make_integer_sequence<int, unary_backward_kinds>(), [&]<int I>() {
    table[&UnaryBackward<UnaryBackwardKind(I)>::def] = [](const Arguments& a) {
      return std::optional(unary_backward(UnaryBackwardKind(I), a));
    };
  });
  for_each(std::make_integer_sequence<int, binary_kinds>(), [&]<int I>() {
    table[&Binary<BinaryKind(I)>::def] = [](const Arguments& a) {
      return std::optional(binary(BinaryKind(I), a.type, a.in[0], a.in[1]));
    };
  });
  for_each(std::make_integer_sequence<int, scalar_kinds>(), [&]<int I>() {
    table[&Scalar<ScalarKind(I)>::def] = [](const Arguments& a) { return std::optional(scalar<ScalarKind(I)>(a)); };
  });
  return table;
}

}  // namespace

const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float";
    case DType::float64: return "double";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::uint8: return "uint8_t";
    case DType::int8: return "int8_t";
    case DType::int32: return "int32_t";
    case DType::int64: return "int64_t";
    case DType::boolean: return "bool";
  }
  return "";
}

const char* value_type(DType dtype) { return size_of(dtype) == 2 ? "float" : element_type(dtype); }

std::optional<std::string> kernel_expression(const Node& node, std::span<const std::string> inputs,
                                             std::span<const DType> dtypes) {
  const DType dtype = node.outputs[0].dtype;
  const bool is_half = size_of(dtype) == 2;
  if (node.op == &Cast::def) {
    if (dtypes[0] == dtype) return inputs[0];
    return fmt::format("{}(convert<{}>({}))", value_type(dtype), element_type(dtype), inputs[0]);
  }
  using Table = decltype(make_table());
  static constinit MadeOnce<const Table> made;
  const Table& table = made.get([] { return new Table(make_table()); });
  const auto found = table.find(node.op);
  if (found == table.end()) return {};
  std::optional<std::string> value = found->second({node, inputs, dtype, value_type(dtype)});
  // 16-bit values are rounded after each operator, so that the chain gives the bits of its operators one by one.
  if (value && is_half) value = fmt::format("float({}({}))", element_type(dtype), *value);
  return value;
}

}  // namespace kaon::passes
