// Elementwise operators as ONNX nodes.
#include <cmath>
#include <numbers>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

template <const char* Name>
void same(Emit& e) {
  e.set(e.node(Name, e.all()));
}

// Kaon's comparisons and logic have the dtype of their operands.
template <const char* Name>
void comparison(Emit& e) {
  std::vector<std::string> x = e.all();
  if (e.dtype() == DType::boolean) {  // ONNX compares numbers
    for (std::string& v : x) v = e.cast(v, DType::int32);
  }
  e.set(e.cast(e.node(Name, x), e.result_dtype()));
}

// Whether ONNX has powers and products of it.
bool is_wide(DType t) { return is_floating(t) || t == DType::int32 || t == DType::int64; }

void power(Emit& e, const std::string& a, const std::string& b) {
  if (is_wide(e.dtype())) return e.set(e.node("Pow", {a, b}));
  e.set(e.cast(e.node("Pow", {e.cast(a, DType::int64), e.cast(b, DType::int64)}), e.dtype()));
}

void powers(Emit& e) { power(e, e.in(0), e.in(1)); }
void to_power(Emit& e) { power(e, e.in(), e.number(e.op<op::PowerScalar>().scalar)); }
void power_of_number(Emit& e) { power(e, e.number(e.op<op::RPowerScalar>().scalar), e.in()); }

void relu(Emit& e) { e.set(e.node(ops::is_unsigned(e.dtype()) ? "Identity" : "Relu", {e.in()})); }

void negative(Emit& e) { e.set(ops::is_unsigned(e.dtype()) ? e.sub(e.number(0), e.in()) : e.node("Neg", {e.in()})); }

void sum_of_all(Emit& e) {
  if (e.is_real()) return e.set(e.node("Sum", e.all()));
  std::string sum = e.in();
  for (int i = 1; i < e.count(); ++i) sum = e.add(sum, e.in(i));
  e.set(e.count() == 1 ? e.node("Identity", {sum}) : sum);
}

template <const char* Name>
void logic(Emit& e) {
  e.set(e.cast(e.node(Name, {e.cast(e.in(0), DType::boolean), e.cast(e.in(1), DType::boolean)}), e.result_dtype()));
}

template <class Op, const char* Name, bool Swapped = false>
void with_number(Emit& e) {
  const std::string n = e.number(e.op<Op>().scalar);
  e.set(Swapped ? e.node(Name, {n, e.in()}) : e.node(Name, {e.in(), n}));
}

// Numbers that the dtype does not hold are compared in float64.
template <class Op>
std::string against_number(Emit& e, const char* name) {
  const double n = e.op<Op>().scalar;
  if (e.is_real() || (n == std::floor(n) && std::abs(n) <= 127 && (n >= 0 || !ops::is_unsigned(e.dtype())) &&
                      e.dtype() != DType::boolean)) {
    return e.node(name, {e.in(), e.number(n)});
  }
  return e.node(name, {e.cast(e.in(), DType::float64), e.number(n, DType::float64)});
}

template <class Op, const char* Name>
void compared_with(Emit& e) {
  e.set(e.cast(against_number<Op>(e, Name), e.result_dtype()));
}

void not_equal_to(Emit& e) {
  e.set(e.cast(e.node("Not", {against_number<op::NotEqualScalar>(e, "Equal")}), e.result_dtype()));
}

constexpr char kAbs[] = "Abs";
constexpr char kSign[] = "Sign";
constexpr char kExp[] = "Exp";
constexpr char kLog[] = "Log";
constexpr char kSqrt[] = "Sqrt";
constexpr char kReciprocal[] = "Reciprocal";
constexpr char kSin[] = "Sin";
constexpr char kCos[] = "Cos";
constexpr char kTan[] = "Tan";
constexpr char kAsin[] = "Asin";
constexpr char kAcos[] = "Acos";
constexpr char kAtan[] = "Atan";
constexpr char kSinh[] = "Sinh";
constexpr char kCosh[] = "Cosh";
constexpr char kAsinh[] = "Asinh";
constexpr char kAcosh[] = "Acosh";
constexpr char kAtanh[] = "Atanh";
constexpr char kErf[] = "Erf";
constexpr char kRelu[] = "Relu";
constexpr char kSigmoid[] = "Sigmoid";
constexpr char kTanh[] = "Tanh";
constexpr char kSoftplus[] = "Softplus";
constexpr char kSoftsign[] = "Softsign";
constexpr char kIdentity[] = "Identity";
constexpr char kAdd[] = "Add";
constexpr char kSub[] = "Sub";
constexpr char kMul[] = "Mul";
constexpr char kDiv[] = "Div";
constexpr char kMax[] = "Max";
constexpr char kMin[] = "Min";
constexpr char kEqual[] = "Equal";
constexpr char kGreater[] = "Greater";
constexpr char kGreaterOrEqual[] = "GreaterOrEqual";
constexpr char kLess[] = "Less";
constexpr char kLessOrEqual[] = "LessOrEqual";
constexpr char kAnd[] = "And";
constexpr char kOr[] = "Or";
constexpr char kXor[] = "Xor";
constexpr char kMish[] = "Mish";
constexpr char kHardSwish[] = "HardSwish";

void activation(Emit& e) {
  switch (e.op<op::Activation>().act_type) {
    case ActivationType::relu: return same<kRelu>(e);
    case ActivationType::sigmoid: return same<kSigmoid>(e);
    case ActivationType::tanh: return same<kTanh>(e);
    case ActivationType::softrelu: return same<kSoftplus>(e);
    case ActivationType::softsign: return same<kSoftsign>(e);
  }
  e.fail("act_type");
}

// x/2 (1 + erf(x / sqrt 2))
void gelu(Emit& e) {
  if (e.builder().opset() >= 20) return e.set(e.node("Gelu", {e.in()}));
  const std::string erf = e.node("Erf", {e.node("Div", {e.in(), e.number(std::numbers::sqrt2)})});
  const std::string twice = e.node("Mul", {e.in(), e.node("Add", {erf, e.number(1)})});
  e.set(e.node("Mul", {twice, e.number(0.5)}));
}

void leaky_relu(Emit& e) {
  const auto& op = e.op<op::LeakyReLU>();
  switch (op.act_type) {
    case LeakyType::leaky: return e.set(e.node("LeakyRelu", {e.in()}, {real("alpha", op.slope)}));
    case LeakyType::elu: return e.set(e.node("Elu", {e.in()}, {real("alpha", op.slope)}));
    case LeakyType::selu: return e.set(e.node("Selu", {e.in()}));
    case LeakyType::rrelu:
      return e.set(e.node("LeakyRelu", {e.in()}, {real("alpha", (op.lower_bound + op.upper_bound) / 2)}));
    case LeakyType::gelu: return gelu(e);
    case LeakyType::prelu: {
      if (e.rank() == 0) return e.set(e.node("PRelu", {e.in(), e.reshape(e.in(1), Shape())}));
      Shape slope = e.shape(1);  // a number for each channel, or for each of the first axes
      for (int i = slope.ndim() == 1 ? 2 : slope.ndim(); i < e.rank() && slope.size() != 1; ++i) slope.push_back(1);
      return e.set(e.node("PRelu", {e.in(), e.reshape(e.in(1), slope)}));
    }
  }
  e.fail("act_type");
}

void square(Emit& e) { e.set(e.node("Mul", {e.in(), e.in()})); }
void rsqrt(Emit& e) { e.set(e.node("Reciprocal", {e.node("Sqrt", {e.in()})})); }
void log1p(Emit& e) { e.set(e.node("Log", {e.node("Add", {e.in(), e.number(1)})})); }
void expm1(Emit& e) { e.set(e.node("Sub", {e.node("Exp", {e.in()}), e.number(1)})); }
void silu(Emit& e) { e.set(e.node("Mul", {e.in(), e.node("Sigmoid", {e.in()})})); }

// x tanh(softplus(x)); the operator came with opset 18
void mish(Emit& e) {
  if (e.builder().opset() >= 18) return same<kMish>(e);
  e.set(e.node("Mul", {e.in(), e.node("Tanh", {e.node("Softplus", {e.in()})})}));
}

void log_sigmoid(Emit& e) { e.set(e.node("Neg", {e.node("Softplus", {e.node("Neg", {e.in()})})})); }
void cast(Emit& e) { e.set(e.cast(e.in(), e.result_dtype())); }
void logical_not(Emit& e) { e.set(e.cast(e.node("Not", {e.cast(e.in(), DType::boolean)}), e.result_dtype())); }

void clip(Emit& e) {
  const auto& op = e.op<op::Clip>();
  if (e.is_real()) return e.set(e.node("Clip", {e.in(), e.number(op.a_min), e.number(op.a_max)}));
  // whole numbers inside the bounds, where the dtype has any less
  const int bits = int(8 * size_of(e.dtype())) - int(!ops::is_unsigned(e.dtype()));
  const double lowest = ops::is_unsigned(e.dtype()) ? 0 : -std::ldexp(1, bits), most = std::ldexp(1, bits) - 1;
  const std::string from = op.a_min > lowest ? e.number(std::ceil(op.a_min)) : "";
  const std::string to = op.a_max < most ? e.number(std::floor(op.a_max)) : "";
  if (from.empty() && to.empty()) return e.set(e.node("Identity", {e.in()}));
  e.set(to.empty()     ? e.node("Max", {e.in(), from})
        : from.empty() ? e.node("Min", {e.in(), to})
                       : e.node("Clip", {e.in(), from, to}));
}

void hard_sigmoid(Emit& e) {
  const auto& op = e.op<op::HardSigmoid>();
  e.set(e.node("HardSigmoid", {e.in()}, {real("alpha", op.alpha), real("beta", op.beta)}));
}

void not_equal(Emit& e) { e.set(e.cast(e.node("Not", {e.node("Equal", e.all())}), e.result_dtype())); }

void where(Emit& e) {
  std::string condition = e.in(0);
  if (e.dtype(0) != DType::boolean) condition = e.cast(condition, DType::boolean);
  if (e.shape(0).ndim() == 1 && e.shape(1).ndim() > 1) {  // a 1-D condition chooses rows
    Shape s = Shape::filled(e.shape(1).ndim(), 1);
    s[0] = e.shape(0)[0];
    condition = e.reshape(condition, s);
  }
  e.set(e.node("Where", {condition, e.in(1), e.in(2)}));
}

void broadcast_where(Emit& e) {
  std::string condition = e.in(0);
  if (e.dtype(0) != DType::boolean) condition = e.cast(condition, DType::boolean);
  e.set(e.node("Where", {condition, e.in(1), e.in(2)}));
}

template <int Value>
void filled_like(Emit& e) {
  if (e.result().empty()) return e.set(e.number(Value, e.result_dtype()));
  e.set(e.builder().initializer(nd.full(e.result(), Value, {.dtype = e.result_dtype()}), "filled"));
}

const WriterRow elementwise_table[] = {
    {&op::Abs::def, same<kAbs>},
    {&op::Negative::def, negative},
    {&op::Sign::def, same<kSign>},
    {&op::Exp::def, same<kExp>},
    {&op::Log::def, same<kLog>},
    {&op::Sqrt::def, same<kSqrt>},
    {&op::Rsqrt::def, rsqrt},
    {&op::Square::def, square},
    {&op::Reciprocal::def, same<kReciprocal>},
    {&op::Erf::def, same<kErf>},
    {&op::Log1p::def, log1p},
    {&op::Expm1::def, expm1},
    {&op::Sin::def, same<kSin>},
    {&op::Cos::def, same<kCos>},
    {&op::Tan::def, same<kTan>},
    {&op::Arcsin::def, same<kAsin>},
    {&op::Arccos::def, same<kAcos>},
    {&op::Arctan::def, same<kAtan>},
    {&op::Sinh::def, same<kSinh>},
    {&op::Cosh::def, same<kCosh>},
    {&op::Arcsinh::def, same<kAsinh>},
    {&op::Arccosh::def, same<kAcosh>},
    {&op::Arctanh::def, same<kAtanh>},
    {&op::Relu::def, relu},
    {&op::Sigmoid::def, same<kSigmoid>},
    {&op::Tanh::def, same<kTanh>},
    {&op::SoftRelu::def, same<kSoftplus>},
    {&op::Softsign::def, same<kSoftsign>},
    {&op::Gelu::def, gelu},
    {&op::Silu::def, silu},
    {&op::Mish::def, mish},
    {&op::LogSigmoid::def, log_sigmoid},
    {&op::HardSwish::def, same<kHardSwish>},
    {&op::HardSigmoid::def, hard_sigmoid},
    {&op::Activation::def, activation},
    {&op::LeakyReLU::def, leaky_relu},
    {&op::Copy::def, same<kIdentity>},
    {&op::BlockGrad::def, same<kIdentity>},
    {&op::Cast::def, cast},
    {&op::Clip::def, clip},
    {&op::LogicalNot::def, logical_not},
    {&op::ZerosLike::def, filled_like<0>},
    {&op::OnesLike::def, filled_like<1>},
    {&op::BroadcastAdd::def, same<kAdd>},
    {&op::BroadcastSub::def, same<kSub>},
    {&op::BroadcastMul::def, same<kMul>},
    {&op::BroadcastDiv::def, same<kDiv>},
    {&op::BroadcastPower::def, powers},
    {&op::BroadcastMaximum::def, same<kMax>},
    {&op::BroadcastMinimum::def, same<kMin>},
    {&op::BroadcastEqual::def, comparison<kEqual>},
    {&op::BroadcastNotEqual::def, not_equal},
    {&op::BroadcastGreater::def, comparison<kGreater>},
    {&op::BroadcastGreaterEqual::def, comparison<kGreaterOrEqual>},
    {&op::BroadcastLesser::def, comparison<kLess>},
    {&op::BroadcastLesserEqual::def, comparison<kLessOrEqual>},
    {&op::BroadcastLogicalAnd::def, logic<kAnd>},
    {&op::BroadcastLogicalOr::def, logic<kOr>},
    {&op::BroadcastLogicalXor::def, logic<kXor>},
    {&op::AddN::def, sum_of_all},
    {&op::PlusScalar::def, with_number<op::PlusScalar, kAdd>},
    {&op::MinusScalar::def, with_number<op::MinusScalar, kSub>},
    {&op::RMinusScalar::def, with_number<op::RMinusScalar, kSub, true>},
    {&op::MulScalar::def, with_number<op::MulScalar, kMul>},
    {&op::DivScalar::def, with_number<op::DivScalar, kDiv>},
    {&op::RDivScalar::def, with_number<op::RDivScalar, kDiv, true>},
    {&op::PowerScalar::def, to_power},
    {&op::RPowerScalar::def, power_of_number},
    {&op::MaximumScalar::def, with_number<op::MaximumScalar, kMax>},
    {&op::MinimumScalar::def, with_number<op::MinimumScalar, kMin>},
    {&op::EqualScalar::def, compared_with<op::EqualScalar, kEqual>},
    {&op::NotEqualScalar::def, not_equal_to},
    {&op::GreaterScalar::def, compared_with<op::GreaterScalar, kGreater>},
    {&op::GreaterEqualScalar::def, compared_with<op::GreaterEqualScalar, kGreaterOrEqual>},
    {&op::LesserScalar::def, compared_with<op::LesserScalar, kLess>},
    {&op::LesserEqualScalar::def, compared_with<op::LesserEqualScalar, kLessOrEqual>},
    {&op::Where::def, where},
    {&op::BroadcastWhere::def, broadcast_where},
};

}  // namespace

std::span<const WriterRow> elementwise_writers() { return elementwise_table; }

}  // namespace kaon::onnx::exporting
