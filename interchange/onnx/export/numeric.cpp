// Functions of numbers that ONNX has no operator for, made of others; and bits.
#include <cmath>
#include <limits>
#include <numbers>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Function = std::string (*)(Emit& e, const std::string& x);

// f(x), where x itself is the result for integers.
template <Function F>
void of_reals(Emit& e) {
  e.set(e.is_real() ? F(e, e.in()) : e.node("Identity", {e.in()}));
}

std::string floored(Emit& e, const std::string& x) { return e.node("Floor", {x}); }
std::string ceiled(Emit& e, const std::string& x) { return e.node("Ceil", {x}); }

std::string truncated(Emit& e, const std::string& x) {
  return e.where(e.less(x, e.number(0)), ceiled(e, x), floored(e, x));
}

// floor(x), and 1 more where what is behind the point is more than a half, or with `half_up` a half.
std::string nearest(Emit& e, const std::string& x, bool half_up) {
  const std::string whole = floored(e, x), rest = e.sub(x, whole);
  const std::string up = e.node(half_up ? "GreaterOrEqual" : "Greater", {rest, e.number(0.5)});
  return e.where(up, e.add(whole, e.number(1)), whole);
}

// Halves downwards.
std::string rounded_down(Emit& e, const std::string& x) { return nearest(e, x, false); }

// Halves away from zero.
std::string rounded_away(Emit& e, const std::string& x) {
  const std::string size = nearest(e, e.node("Abs", {x}), true);
  return e.where(e.less(x, e.number(0)), e.node("Neg", {size}), size);
}

std::string cube_root(Emit& e, const std::string& x) {
  return e.mul(e.node("Sign", {x}), e.node("Pow", {e.node("Abs", {x}), e.number(1.0 / 3)}));
}

template <Function F>
void is(Emit& e) {
  e.set(F(e, e.in()));
}

void degrees(Emit& e) { e.set(e.mul(e.in(), e.number(180 / std::numbers::pi))); }
void radians(Emit& e) { e.set(e.mul(e.in(), e.number(std::numbers::pi / 180))); }

template <int Base>
void logarithm(Emit& e) {
  e.set(e.div(e.node("Log", {e.in()}), e.number(std::log(double(Base)))));
}

// --- of two numbers

// The remainder with the sign of b, 0 where b is 0.
std::string remainder(Emit& e, const std::string& a, const std::string& b) {
  const std::string zero = e.number(0), none = e.equal(b, zero), safe = e.where(none, e.number(1), b);
  if (!e.is_real()) return e.where(none, zero, e.node("Mod", {a, safe}));
  const std::string r = e.node("Mod", {a, safe}, {integer("fmod", 1)});
  const std::string other = e.less(e.mul(e.node("Sign", {r}), e.node("Sign", {safe})), zero);
  return e.where(none, zero, e.where(other, e.add(r, safe), r));
}

std::string c_remainder(Emit& e, const std::string& a, const std::string& b) {
  if (e.is_real()) return e.node("Mod", {a, b}, {integer("fmod", 1)});
  const std::string zero = e.number(0), none = e.equal(b, zero);
  return e.where(none, zero, e.node("Mod", {a, e.where(none, e.number(1), b)}, {integer("fmod", 1)}));
}

std::string hypotenuse(Emit& e, const std::string& a, const std::string& b) {
  if (e.is_real()) return e.node("Sqrt", {e.add(e.mul(a, a), e.mul(b, b))});
  const std::string x = e.cast(a, DType::float64), y = e.cast(b, DType::float64);
  return e.cast(e.node("Sqrt", {e.add(e.mul(x, x), e.mul(y, y))}), e.result_dtype());
}

// max(a, b) + log(1 + e^-|a - b|)
std::string log_add_exp(Emit& e, const std::string& a, const std::string& b) {
  const std::string apart = e.where(e.equal(a, b), e.number(0), e.node("Neg", {e.node("Abs", {e.sub(a, b)})}));
  return e.add(e.node("Max", {a, b}), e.node("Log", {e.add(e.node("Exp", {apart}), e.number(1))}));
}

// Whether the sign is negative, of -0 too.
std::string is_negative(Emit& e, const std::string& x) {
  const std::string zero = e.number(0);
  return e.less(e.where(e.equal(x, zero), e.node("Reciprocal", {x}), x), zero);  // of -0 that is -infinity
}

std::string signed_as(Emit& e, const std::string& a, const std::string& b) {
  const std::string size = e.node("Abs", {a});
  return e.where(is_negative(e, b), e.node("Neg", {size}), size);
}

// The angle of the point (x, y): that of |y| / |x| in the first quarter, mirrored.
std::string angle(Emit& e, const std::string& y, const std::string& x) {
  const std::string up = e.node("Abs", {y}), right = e.node("Abs", {x}), equal = e.equal(up, right);
  // of 0 / 0 and infinity / infinity as well
  const std::string quotient = e.where(e.node("And", {equal, e.less(e.number(0), up)}), e.number(1),
                                       e.div(up, e.where(equal, e.number(1), right)));
  const std::string first = e.node("Atan", {quotient});
  return signed_as(e, e.where(is_negative(e, x), e.sub(e.number(std::numbers::pi), first), first), y);
}

std::string times_power(Emit& e, const std::string& a, const std::string& b) {
  return e.mul(a, e.node("Pow", {e.number(2), b}));
}

// The larger or smaller one, the number where one is NaN.
template <bool Larger>
std::string extreme_number(Emit& e, const std::string& a, const std::string& b) {
  const std::string y = e.node(Larger ? "Max" : "Min", {a, b});
  if (!e.is_real()) return y;
  return e.where(e.node("IsNaN", {a}), b, e.where(e.node("IsNaN", {b}), a, y));
}

using Pair = std::string (*)(Emit& e, const std::string& a, const std::string& b);

template <Pair F>
void of_two(Emit& e) {
  e.set(F(e, e.in(0), e.in(1)));
}

template <class Op, Pair F, bool Reversed = false>
void of_number(Emit& e) {
  const std::string n = e.number(e.op<Op>().scalar);
  e.set(Reversed ? F(e, n, e.in()) : F(e, e.in(), n));
}

constexpr char kOfAnd[] = "And";
constexpr char kOfOr[] = "Or";
constexpr char kOfXor[] = "Xor";

template <class Op, const char* Name>
void logic_with(Emit& e) {
  const std::string n = e.number(e.op<Op>().scalar != 0, DType::boolean);
  e.set(e.cast(e.node(Name, {e.cast(e.in(), DType::boolean), n}), e.result_dtype()));
}

void smooth_l1(Emit& e) {
  const double s = e.op<op::SmoothL1>().scalar, bend = 1 / (s * s);
  const std::string size = e.node("Abs", {e.in()}), bent = e.mul(e.mul(e.in(), e.in()), e.number(0.5 * s * s));
  e.set(e.where(e.less(size, e.number(bend)), bent, e.sub(size, e.number(0.5 * bend))));
}

void quadratic(Emit& e) {
  const auto& op = e.op<op::Quadratic>();
  const std::string first = e.add(e.mul(e.in(), e.number(op.a)), e.number(op.b));
  e.set(e.add(e.mul(first, e.in()), e.number(op.c)));
}

// --- activations

void shrink(Emit& e, double lambd, double bias) {
  if (e.dtype() != DType::bfloat16) {
    return e.set(e.node("Shrink", {e.in()}, {real("lambd", lambd), real("bias", bias)}));
  }
  const std::string zero = e.number(0), bound = e.number(lambd), by = e.number(bias);
  const std::string low = e.where(e.less(e.in(), e.node("Neg", {bound})), e.add(e.in(), by), zero);
  e.set(e.where(e.less(bound, e.in()), e.sub(e.in(), by), low));
}

void celu(Emit& e) {
  const double alpha = e.op<op::Celu>().alpha;
  if (e.dtype() == DType::float32) return e.set(e.node("Celu", {e.in()}, {real("alpha", alpha)}));
  const std::string a = e.number(alpha), zero = e.number(0);
  const std::string bent = e.mul(e.sub(e.node("Exp", {e.div(e.in(), a)}), e.number(1)), a);
  e.set(e.where(e.less(e.in(), zero), bent, e.in()));
}

void threshold(Emit& e) {
  const auto& op = e.op<op::Threshold>();
  e.set(e.where(e.node("Greater", {e.in(), e.number(op.threshold)}), e.in(), e.number(op.value)));
}

void glu(Emit& e) {
  const int axis = e.axis(e.op<op::Glu>().axis);
  const int64_t half = e.shape()[axis] / 2;
  e.set(e.mul(e.slice(e.in(), axis, 0, half), e.node("Sigmoid", {e.slice(e.in(), axis, half, 2 * half)})));
}

void tanh_shrink(Emit& e) { e.set(e.sub(e.in(), e.node("Tanh", {e.in()}))); }

// --- what kind of number it is

template <ops::NumberKind K>
void number_kind(Emit& e) {
  using N = ops::NumberKind;
  if (!e.is_real()) {
    return e.set(e.builder().initializer(nd.full(e.result(), K == N::finite, {.dtype = DType::boolean}), "known"));
  }
  const std::string most = e.number(infinity);
  switch (K) {
    case N::nan: return e.set(e.node("IsNaN", {e.in()}));
    case N::infinite: return e.set(e.equal(e.node("Abs", {e.in()}), most));
    case N::finite: return e.set(e.less(e.node("Abs", {e.in()}), most));
    case N::positive_infinite: return e.set(e.equal(e.in(), most));
    case N::negative_infinite: return e.set(e.equal(e.in(), e.number(-infinity)));
  }
}

void nan_to_num(Emit& e) {
  if (!e.is_real()) return e.set(e.node("Identity", {e.in()}));
  const auto& op = e.op<op::NanToNum>();
  const double largest = e.dtype() == DType::float64    ? std::numeric_limits<double>::max()
                         : e.dtype() == DType::float32  ? double(std::numeric_limits<float>::max())
                         : e.dtype() == DType::bfloat16 ? 0x1.fep127
                                                        : 65504;
  std::string y = e.where(e.node("IsNaN", {e.in()}), e.number(op.nan), e.in());
  y = e.where(e.equal(e.in(), e.number(infinity)), e.number(op.posinf.value_or(largest)), y);
  e.set(e.where(e.equal(e.in(), e.number(-infinity)), e.number(op.neginf.value_or(-largest)), y));
}

// --- bits

template <const char* OfBool, const char* OfIntegers>
void bits(Emit& e) {
  e.set(e.node(e.dtype() == DType::boolean ? OfBool : OfIntegers, e.all()));
}

constexpr char kBitsAnd[] = "BitwiseAnd";
constexpr char kBitsOr[] = "BitwiseOr";
constexpr char kBitsXor[] = "BitwiseXor";

// Of signed numbers by a product or quotient, as ONNX shifts unsigned ones only. Where all bits go, 0 or the sign
// stays.
template <bool Left>
void shift(Emit& e) {
  const DType t = e.dtype();
  const int64_t bits = int64_t(8 * size_of(t));
  const std::string zero = e.number(0), one = e.number(1), most = e.number(double(bits));
  const std::string inside = e.node("And", {e.less(e.in(1), most), e.node("GreaterOrEqual", {e.in(1), zero})});
  if (ops::is_unsigned(t)) {
    const std::string by = e.where(inside, e.in(1), zero);
    return e.set(
        e.where(inside, e.node("BitShift", {e.in(0), by}, {text("direction", Left ? "LEFT" : "RIGHT")}), zero));
  }
  std::vector<int64_t> powers;
  for (int64_t i = 0; i < bits; ++i) powers.push_back(int64_t(uint64_t(1) << i));
  const std::string table = e.cast(e.builder().constant(powers), t);
  const std::string by = e.node("Gather", {table, e.cast(e.where(inside, e.in(1), zero), DType::int64)});
  if (Left) return e.set(e.where(inside, e.mul(e.in(0), by), zero));
  const std::string negative = e.less(e.in(0), zero), minus_one = e.number(-1);
  const auto flipped = [&](const std::string& x) { return e.sub(minus_one, x); };  // all bits
  const std::string size = e.where(negative, flipped(e.in(0)), e.in(0));
  const std::string last = e.equal(e.in(1), e.number(double(bits - 1)));  // by a power that is not positive
  const std::string left =
      e.where(e.node("Or", {last, e.node("Not", {inside})}), zero, e.div(size, e.where(last, one, by)));
  e.set(e.where(negative, flipped(left), left));
}

void same_input(Emit& e) { e.set(e.node("Identity", {e.in()})); }
void logistic_output(Emit& e) { e.set(e.node("Sigmoid", {e.in()})); }

const WriterRow numeric_table[] = {
    {&op::Floor::def, of_reals<floored>},
    {&op::Ceil::def, of_reals<ceiled>},
    {&op::Trunc::def, of_reals<truncated>},
    {&op::Fix::def, of_reals<truncated>},
    {&op::Rint::def, of_reals<rounded_down>},
    {&op::Round::def, of_reals<rounded_away>},
    {&op::RoundSte::def, of_reals<rounded_away>},
    {&op::SignSte::def, [](Emit& e) { e.set(e.node("Sign", {e.in()})); }},
    {&op::Cbrt::def, is<cube_root>},
    {&op::Rcbrt::def, [](Emit& e) { e.set(e.node("Reciprocal", {cube_root(e, e.in())})); }},
    {&op::Log2::def, logarithm<2>},
    {&op::Log10::def, logarithm<10>},
    {&op::Degrees::def, degrees},
    {&op::Radians::def, radians},
    {&op::BroadcastMod::def, of_two<remainder>},
    {&op::ModScalar::def, of_number<op::ModScalar, remainder>},
    {&op::RModScalar::def, of_number<op::RModScalar, remainder, true>},
    {&op::Fmod::def, of_two<c_remainder>},
    {&op::BroadcastHypot::def, of_two<hypotenuse>},
    {&op::HypotScalar::def, of_number<op::HypotScalar, hypotenuse>},
    {&op::LogAddExp::def, of_two<log_add_exp>},
    {&op::Arctan2::def, of_two<angle>},
    {&op::Copysign::def, of_two<signed_as>},
    {&op::Ldexp::def, of_two<times_power>},
    {&op::Fmax::def, of_two<extreme_number<true>>},
    {&op::Fmin::def, of_two<extreme_number<false>>},
    {&op::LogicalAndScalar::def, logic_with<op::LogicalAndScalar, kOfAnd>},
    {&op::LogicalOrScalar::def, logic_with<op::LogicalOrScalar, kOfOr>},
    {&op::LogicalXorScalar::def, logic_with<op::LogicalXorScalar, kOfXor>},
    {&op::SmoothL1::def, smooth_l1},
    {&op::Quadratic::def, quadratic},
    {&op::HardShrink::def, [](Emit& e) { shrink(e, e.op<op::HardShrink>().lambd, 0); }},
    {&op::SoftShrink::def, [](Emit& e) { shrink(e, e.op<op::SoftShrink>().lambd, e.op<op::SoftShrink>().lambd); }},
    {&op::Celu::def, celu},
    {&op::Threshold::def, threshold},
    {&op::Glu::def, glu},
    {&op::TanhShrink::def, tanh_shrink},
    {&op::IsNan::def, number_kind<ops::NumberKind::nan>},
    {&op::IsInf::def, number_kind<ops::NumberKind::infinite>},
    {&op::IsFinite::def, number_kind<ops::NumberKind::finite>},
    {&op::IsPosInf::def, number_kind<ops::NumberKind::positive_infinite>},
    {&op::IsNegInf::def, number_kind<ops::NumberKind::negative_infinite>},
    {&op::NanToNum::def, nan_to_num},
    {&op::BitwiseAnd::def, bits<kOfAnd, kBitsAnd>},
    {&op::BitwiseOr::def, bits<kOfOr, kBitsOr>},
    {&op::BitwiseXor::def, bits<kOfXor, kBitsXor>},
    {&op::LeftShift::def, shift<true>},
    {&op::RightShift::def, shift<false>},
    // losses and the like, in prediction
    {&op::GradientMultiplier::def, same_input},
    {&op::UnitLoss::def, same_input},
    {&op::MakeLoss::def, same_input},
    {&op::SVMOutput::def, same_input},
    {&op::IdentityAttachKLSparseReg::def, same_input},
    {&op::LinearRegressionOutput::def, same_input},
    {&op::MAERegressionOutput::def, same_input},
    {&op::LogisticRegressionOutput::def, logistic_output},
};

}  // namespace

std::span<const WriterRow> numeric_writers() { return numeric_table; }

}  // namespace kaon::onnx::exporting
