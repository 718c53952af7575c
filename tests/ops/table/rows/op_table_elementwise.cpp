// Rows of the elementwise operators.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using F1 = double (*)(double);

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// Where a formula has no value at an infinity, the limit is meant.
double gelu(double x) { return x == -INFINITY ? -0.0 : x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_slope(double x) {
  const double density = std::isinf(x) ? 0 : std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + (density == 0 ? 0 : x * density);
}
double softsign(double x) { return std::isinf(x) ? sign(x) : x / (1 + std::abs(x)); }
double round_half_down(double x) { return x - std::floor(x) <= 0.5 ? std::floor(x) : std::ceil(x); }

// psi(x) = d log gamma(x) / dx: recurrence to a large argument, then the asymptotic series.
double digamma(double x) {
  if (x <= 0 && x == std::floor(x)) return std::numeric_limits<double>::infinity();  // as MXNet has its poles
  if (x < 0.5) return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * x);
  double shift = 0;
  for (; x < 20; ++x) shift -= 1 / x;
  const double y = 1 / (x * x);
  return shift + std::log(x) - 0.5 / x - y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y / 240)));
}

// psi_n(x) = (-1)^(n+1) n! sum_k (x + k)^-(n+1), the tail as an integral from the middle of its first gap.
template <int n>
double polygamma(double x) {
  if (std::isnan(x) || x == -INFINITY) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0 && x == std::floor(x)) return n % 2 ? INFINITY : std::numeric_limits<double>::quiet_NaN();
  const long double factor = (n % 2 ? 1 : -1) * std::tgamma(n + 1.0L);
  long double sum = 0;
  const int terms = 1000;
  for (int k = terms - 1; k >= 0; --k) sum += std::pow(static_cast<long double>(x) + k, -(n + 1));
  return double(factor * (sum + std::pow(static_cast<long double>(x) + terms - 0.5L, -n) / n));
}

// A function at an odd size, batch 1, a zero dimension and no dimensions.
template <class T>
void unary(Rows& rows, const T& op, F1 f, Fill fill = Fill::normal, RowOptions options = {}) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(33), Shape()}) {
    rows.emplace_back(op, std::vector{in(shape, fill)}, elementwise(f), options);
  }
}

RowOptions numeric(double loosen = 1) { return {.dtypes = numbers, .loosen = loosen}; }

// The inverse of a function that rises, by bisection.
double erfinv(double y) {
  if (!(std::abs(y) <= 1)) return std::nan("");
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (std::erf(middle) < y ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Functions whose gradient is the head times a number, or that number.
void own_gradient_rows(Rows& rows) {
  const auto times = [](double scale) {
    return [=](const Hosts&, const Hosts& heads) {
      Host gradient = heads[0];
      for (double& v : gradient.values) v *= scale;
      return Hosts{gradient};
    };
  };
  unary(rows, op::RoundSte{}, [](double x) { return std::round(x); }, Fill::normal,
        {.dtypes = numbers, .gradient = times(1)});
  unary(rows, op::SignSte{}, sign, Fill::nonzero, {.dtypes = numbers, .gradient = times(1)});
  const auto same = [](double x) { return x; };
  unary(rows, op::GradientMultiplier{.scalar = -0.5, .is_int = false}, same, Fill::normal,
        {.dtypes = every_dtype, .gradient = times(-0.5)});
  unary(
      rows, op::UnitLoss{}, same, Fill::normal,
      {.dtypes = every_dtype, .gradient = [](const Hosts& in, const Hosts&) { return Hosts{zeros(in[0].shape, 1)}; }});
}

// 16- and 32-bit floats in another dtype, others as they are.
void amp_cast_rows(Rows& rows) {
  for (DType target : {DType::float16, DType::bfloat16, DType::float32}) {
    for (DType from : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int32, DType::uint8,
                       DType::boolean}) {
      for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
        const bool is_cast = is_floating(from) && from != DType::float64;
        std::vector<double> v;
        for (int64_t i = 0; i < shape.size(); ++i)
          v.push_back(from == DType::boolean ? double(i % 2) : double(i % 7) / (is_floating(from) ? 2 : 1));
        rows.emplace_back(
            op::AmpCast{.dtype = target}, std::vector{index(shape, v, from)},
            [=](const Hosts& in) {
              Hosts out = in;
              if (is_cast) out[0].dtype = target;
              return out;
            },
            RowOptions{.dtypes = every_dtype});
      }
    }
  }
}

// Arrays in the widest or narrowest of their dtypes.
void multicast_rows(Rows& rows) {
  for (bool narrow : {false, true}) {
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
      rows.emplace_back(
          op::AmpMulticast{.num_outputs = 2, .cast_narrow = narrow}, std::vector{in(shape), in({3})},
          [](const Hosts& in) { return in; }, RowOptions{.dtypes = every_dtype});
    }
    rows.emplace_back(op::AmpMulticast{.num_outputs = 4, .cast_narrow = narrow},
                      std::vector{index({3}, {1, 2, 3}, DType::float16), index({1, 2}, {5, -0.5}),
                                  index({2}, {7, 8}, DType::float64), index({2}, {7, 8}, DType::int32)},
                      [narrow](const Hosts& in) {
                        Hosts out = in;
                        out[0].dtype = out[1].dtype = narrow ? DType::float16 : DType::float32;
                        out[2].dtype = DType::float64, out[3].dtype = DType::int32;
                        return out;
                      });
  }
}

void unary_rows(Rows& rows) {
  unary(
      rows, op::Relu{}, [](double x) { return larger(x, 0); }, Fill::nonzero, numeric());
  unary(rows, op::Sigmoid{}, sigmoid);
  unary(rows, op::Tanh{}, [](double x) { return std::tanh(x); });
  unary(rows, op::Exp{}, [](double x) { return std::exp(x); });
  unary(
      rows, op::Log{}, [](double x) { return std::log(x); }, Fill::positive);
  unary(
      rows, op::Sqrt{}, [](double x) { return std::sqrt(x); }, Fill::positive);
  unary(
      rows, op::Rsqrt{}, [](double x) { return 1 / std::sqrt(x); }, Fill::positive);
  unary(
      rows, op::Square{}, [](double x) { return x * x; }, Fill::normal, numeric());
  unary(
      rows, op::Abs{}, [](double x) { return std::abs(x); }, Fill::nonzero, numeric());
  unary(rows, op::Sign{}, sign, Fill::nonzero, numeric());
  unary(
      rows, op::Negative{}, [](double x) { return -x; }, Fill::normal, numeric());
  unary(
      rows, op::Reciprocal{}, [](double x) { return 1 / x; }, Fill::nonzero);
  unary(rows, op::Erf{}, [](double x) { return std::erf(x); });
  unary(
      rows, op::Log1p{}, [](double x) { return std::log1p(x); }, Fill::unit);
  unary(rows, op::Expm1{}, [](double x) { return std::expm1(x); });
  unary(
      rows, op::Log2{}, [](double x) { return std::log2(x); }, Fill::positive);
  unary(
      rows, op::Log10{}, [](double x) { return std::log10(x); }, Fill::positive);
  unary(rows, op::Sin{}, [](double x) { return std::sin(x); });
  unary(rows, op::Cos{}, [](double x) { return std::cos(x); });
  unary(
      rows, op::Tan{}, [](double x) { return std::tan(x); }, Fill::unit);
  unary(
      rows, op::Arcsin{}, [](double x) { return std::asin(x); }, Fill::unit);
  unary(
      rows, op::Arccos{}, [](double x) { return std::acos(x); }, Fill::unit);
  unary(rows, op::Arctan{}, [](double x) { return std::atan(x); });
  unary(rows, op::Sinh{}, [](double x) { return std::sinh(x); });
  unary(rows, op::Cosh{}, [](double x) { return std::cosh(x); });
  unary(rows, op::Arcsinh{}, [](double x) { return std::asinh(x); });
  unary(
      rows, op::Arccosh{}, [](double x) { return std::acosh(x); }, Fill::above_one);
  unary(
      rows, op::Arctanh{}, [](double x) { return std::atanh(x); }, Fill::unit);
  unary(
      rows, op::Floor{}, [](double x) { return std::floor(x); }, Fill::normal, numeric());
  unary(
      rows, op::Ceil{}, [](double x) { return std::ceil(x); }, Fill::normal, numeric());
  unary(
      rows, op::Round{}, [](double x) { return std::round(x); }, Fill::normal, numeric());
  unary(rows, op::Rint{}, round_half_down, Fill::normal, numeric());
  unary(
      rows, op::Trunc{}, [](double x) { return std::trunc(x); }, Fill::normal, numeric());
  unary(
      rows, op::Fix{}, [](double x) { return std::trunc(x); }, Fill::normal, numeric());
  unary(
      rows, op::Cbrt{}, [](double x) { return std::cbrt(x); }, Fill::nonzero);
  unary(
      rows, op::Rcbrt{}, [](double x) { return 1 / std::cbrt(x); }, Fill::nonzero);
  unary(rows, op::Softsign{}, softsign);
  unary(rows, op::HardSigmoid{}, [](double x) { return std::clamp(0.2 * x + 0.5, 0., 1.); });
  unary(rows, op::HardSigmoid{.alpha = 0.6, .beta = 0.4}, [](double x) { return std::clamp(0.6 * x + 0.4, 0., 1.); });
  unary(rows, op::SoftRelu{}, [](double x) { return std::log1p(std::exp(x)); });
  unary(rows, op::Gelu{}, gelu);
  unary(rows, op::LogicalNot{}, [](double x) { return double(x == 0); }, Fill::normal, {.dtypes = every_dtype});
  unary(rows, op::Degrees{}, [](double x) { return x * 180 / std::numbers::pi; });
  unary(rows, op::Radians{}, [](double x) { return x * std::numbers::pi / 180; });
  unary(
      rows, op::Gamma{}, [](double x) { return std::tgamma(x); }, Fill::nonzero);
  unary(
      rows, op::GammaLn{}, [](double x) { return std::lgamma(x); }, Fill::positive);
  unary(rows, op::Digamma{}, digamma, Fill::positive);
  unary(rows, op::Polygamma{}, polygamma<1>, Fill::positive);
  unary(rows, op::Polygamma{.n = 4}, polygamma<4>, Fill::above_one);
  rows.emplace_back(op::Polygamma{.n = 0}, std::vector{in({3, 5})}, Reference(), RowOptions{.refused = true});
  unary(rows, op::Erfinv{}, erfinv, Fill::unit, {.loosen_gradient = 4});
  unary(rows, op::Quadratic{.a = 0.5, .b = -1.5, .c = 2}, [](double x) { return x * (0.5 * x - 1.5) + 2; },
        Fill::normal, {.loosen = 4});
  own_gradient_rows(rows);
  unary(rows, op::Copy{}, [](double x) { return x; }, Fill::normal, {.dtypes = every_dtype});
  RowOptions blocked{.dtypes = every_dtype};
  blocked.gradient = [](const Hosts& inputs, const Hosts&) { return Hosts{zeros(inputs[0].shape)}; };
  unary(
      rows, op::BlockGrad{}, [](double x) { return x; }, Fill::normal, blocked);
  unary(rows, op::ZerosLike{}, [](double) { return 0.0; }, Fill::normal, {.dtypes = every_dtype});
  unary(rows, op::OnesLike{}, [](double) { return 1.0; }, Fill::normal, {.dtypes = every_dtype});
}

// head * slope(saved), where slope follows from the output, or for gelu from the input. Where the slope is 0 for good,
// nothing of the head comes through.
template <class T>
void backward_row(Rows& rows, const T& op, F1 slope, Fill fill) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    rows.emplace_back(op, std::vector{in(shape), in(shape, fill)},
                      Reference(broadcasting([slope](double h, double s, DType) {
                        return slope(s) == 0 && std::is_same_v<T, op::BackwardRelu> ? 0 : h * slope(s);
                      })));
  }
}

using F2 = std::function<double(double, double, DType)>;

template <class T>
void binary(Rows& rows, const T& op, F2 f, Fill left = Fill::nonzero, Fill right = Fill::nonzero,
            RowOptions options = {.dtypes = numbers}) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 5}, {3, 5}},    {{2, 3, 5}, {1, 3, 1}}, {{1, 4}, {3, 1}}, {{5}, {2, 3, 5}}, {{0, 3}, {1, 3}},
      {{2, 1, 3}, {0, 1}}, {{2, 3, 4}, {3, 4}},    {{7}, {1}},       {{}, {}},         {{}, {2, 3}}};
  for (const auto& [a, b] : shapes)
    rows.emplace_back(op, std::vector{in(a, left), in(b, right)}, broadcasting(f), options);
}

// The remainder has the sign of b; by 0 it is 0, as in MXNet.
double modulo(double a, double b) {
  if (b == 0) return 0;
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double quotient(double a, double b, DType t) { return is_floating(t) ? a / b : b == 0 ? 0 : std::trunc(a / b); }
// Powers as integers are: truncated, negative exponents included.
double power(double a, double b, DType t) { return is_floating(t) ? std::pow(a, b) : std::trunc(std::pow(a, b)); }
// As real numbers, then truncated.
double hypotenuse(double a, double b, DType t) {
  return is_floating(t) ? std::hypot(a, b) : std::trunc(std::hypot(a, b));
}

void binary_rows(Rows& rows) {
  const RowOptions logical{.dtypes = every_dtype};
  binary(rows, op::BroadcastAdd{}, [](double a, double b, DType) { return a + b; });
  binary(rows, op::BroadcastSub{}, [](double a, double b, DType) { return a - b; });
  binary(rows, op::BroadcastMul{}, [](double a, double b, DType) { return a * b; });
  binary(rows, op::BroadcastDiv{}, quotient);
  binary(rows, op::BroadcastMod{}, [](double a, double b, DType) { return modulo(a, b); });
  binary(rows, op::BroadcastPower{}, power, Fill::positive, Fill::normal);
  binary(rows, op::BroadcastMaximum{}, [](double a, double b, DType) { return larger(a, b); });
  binary(rows, op::BroadcastMinimum{}, [](double a, double b, DType) { return smaller(a, b); });
  binary(rows, op::BroadcastHypot{}, hypotenuse);
  const Fill any = Fill::normal;
  const auto logaddexp = [](double a, double b, DType) { return std::log(std::exp(a) + std::exp(b)); };
  binary(rows, op::LogAddExp{}, logaddexp, any, any, {});
  binary(
      rows, op::BroadcastEqual{}, [](double a, double b, DType) { return double(a == b); }, any, any, logical);
  binary(
      rows, op::BroadcastNotEqual{}, [](double a, double b, DType) { return double(a != b); }, any, any, logical);
  binary(
      rows, op::BroadcastGreater{}, [](double a, double b, DType) { return double(a > b); }, any, any, logical);
  binary(
      rows, op::BroadcastGreaterEqual{}, [](double a, double b, DType) { return double(a >= b); }, any, any, logical);
  binary(
      rows, op::BroadcastLesser{}, [](double a, double b, DType) { return double(a < b); }, any, any, logical);
  binary(
      rows, op::BroadcastLesserEqual{}, [](double a, double b, DType) { return double(a <= b); }, any, any, logical);
  binary(
      rows, op::BroadcastLogicalAnd{}, [](double a, double b, DType) { return double(a && b); }, any, any, logical);
  binary(
      rows, op::BroadcastLogicalOr{}, [](double a, double b, DType) { return double(a || b); }, any, any, logical);
  binary(
      rows, op::BroadcastLogicalXor{}, [](double a, double b, DType) { return double(!a != !b); }, any, any, logical);
}

// With a number that every dtype holds, and one that only floats do.
template <class T>
void scalar(Rows& rows, F2 f, double whole, double part, Fill fill = Fill::nonzero, uint32_t kinds = numbers) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    for (double s : {whole, part}) {
      const bool is_whole = s == std::floor(s);
      auto reference = [f, s](const Hosts& in) {
        Host out{in[0].shape, in[0].values};
        for (double& v : out.values) v = f(v, s, *in[0].dtype);
        return out;
      };
      const uint32_t dtypes = is_whole || kinds == every_dtype ? kinds : floats;
      rows.emplace_back(T{.scalar = s, .is_int = is_whole}, std::vector{in(shape, fill)}, Reference(reference),
                        RowOptions{.dtypes = dtypes});
    }
  }
}

void scalar_rows(Rows& rows) {
  scalar<op::PlusScalar>(
      rows, [](double x, double s, DType) { return x + s; }, 3, 2.5);
  scalar<op::MinusScalar>(
      rows, [](double x, double s, DType) { return x - s; }, 1, 2.5);
  scalar<op::RMinusScalar>(
      rows, [](double x, double s, DType) { return s - x; }, 3, 2.5);
  scalar<op::MulScalar>(
      rows, [](double x, double s, DType) { return x * s; }, 3, -2.5);
  scalar<op::DivScalar>(rows, quotient, 2, -2.5);
  scalar<op::RDivScalar>(
      rows, [](double x, double s, DType t) { return quotient(s, x, t); }, 5, -2.5);
  scalar<op::ModScalar>(
      rows, [](double x, double s, DType) { return modulo(x, s); }, 2, -0.75);
  scalar<op::RModScalar>(
      rows, [](double x, double s, DType) { return modulo(s, x); }, 5, -2.5);
  scalar<op::PowerScalar>(rows, power, 3, -1.5, Fill::positive);
  scalar<op::RPowerScalar>(
      rows, [](double x, double s, DType t) { return power(s, x, t); }, 2, 0.75, Fill::positive);
  scalar<op::MaximumScalar>(
      rows, [](double x, double s, DType) { return larger(x, s); }, 1, 0.25);
  scalar<op::MinimumScalar>(
      rows, [](double x, double s, DType) { return smaller(x, s); }, 1, 0.25);
  scalar<op::HypotScalar>(rows, hypotenuse, 3, -2.5);
  auto compare = [&]<class T>(F2 f) {
    for (Fill fill : {Fill::normal, Fill::positive}) scalar<T>(rows, f, 2, 0.5, fill, every_dtype);
  };
  compare.operator()<op::EqualScalar>([](double x, double s, DType) { return double(x == s); });
  compare.operator()<op::NotEqualScalar>([](double x, double s, DType) { return double(x != s); });
  compare.operator()<op::GreaterScalar>([](double x, double s, DType) { return double(x > s); });
  compare.operator()<op::GreaterEqualScalar>([](double x, double s, DType) { return double(x >= s); });
  compare.operator()<op::LesserScalar>([](double x, double s, DType) { return double(x < s); });
  compare.operator()<op::LesserEqualScalar>([](double x, double s, DType) { return double(x <= s); });
  compare.operator()<op::LogicalAndScalar>([](double x, double s, DType) { return double(x && s); });
  compare.operator()<op::LogicalOrScalar>([](double x, double s, DType) { return double(x || s); });
  compare.operator()<op::LogicalXorScalar>([](double x, double s, DType) { return double(!x != !s); });
  for (double s : {1.0, 2.5}) {
    auto huber = [s](double x) {
      return std::abs(x) < 1 / (s * s) ? 0.5 * s * s * x * x : std::abs(x) - 0.5 / (s * s);
    };
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
      rows.emplace_back(op::SmoothL1{.scalar = s}, std::vector{in(shape)}, elementwise(huber));
    }
  }
  rows.emplace_back(op::SmoothL1{.scalar = 0}, std::vector{in({3})}, Reference(), RowOptions{.refused = true});
}

void select_rows(Rows& rows) {
  auto where = [](const Hosts& in) {
    const bool by_row = in[0].shape.ndim() < in[1].shape.ndim();
    return generate(in[1].shape, [&](const Shape& p) {
      return in[by_row && in[0].at(Shape(p[0])) ? 1 : by_row ? 2 : in[0].at(p) ? 1 : 2].at(p);
    });
  };
  const RowOptions all{.dtypes = every_dtype};
  for (DType t :
       {DType::float32, DType::bfloat16, DType::int32, DType::boolean, DType::int64, DType::float64, DType::uint8}) {
    rows.emplace_back(op::Where{}, std::vector{index({3, 5}, 0, 2, t), in({3, 5}), in({3, 5})}, where, all);
    rows.emplace_back(op::Where{}, std::vector{index({3}, 0, 2, t), in({3, 5}), in({3, 5})}, where, all);
  }
  rows.emplace_back(op::Where{}, std::vector{constant(in({1, 7})), in({1, 7}), in({1, 7})}, where, all);
  rows.emplace_back(op::Where{}, std::vector{constant(in(Shape())), in(Shape()), in(Shape())}, where, all);
  rows.emplace_back(op::Where{}, std::vector{constant(in({0, 4})), in({0, 4}), in({0, 4})}, where, all);
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    for (auto [low, high] : {std::pair(-1., 2.), std::pair(-0.5, 0.75), std::pair<double, double>(-INFINITY, 1)}) {
      auto clip = [low = low, high = high](const Hosts& in) {
        const bool real = is_floating(*in[0].dtype);
        Host out{in[0].shape, in[0].values};
        const double floor = in[0].dtype == DType::uint8 ? 0 : std::ceil(low);
        for (double& v : out.values) v = smaller(larger(v, real ? low : floor), real ? high : std::floor(high));
        return out;
      };
      rows.emplace_back(op::Clip{.a_min = low, .a_max = high}, std::vector{in(shape, Fill::nonzero)}, clip, numeric());
      auto through = [low = low, high = high](double h, double x, DType) { return x < low || x > high ? 0 : h; };
      rows.emplace_back(op::ClipBackward{.a_min = low, .a_max = high}, std::vector{in(shape), in(shape)},
                        broadcasting(through));
    }
    for (DType to : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8, DType::int8,
                     DType::int32, DType::int64, DType::boolean}) {
      auto cast = [to](const Hosts& in) {
        Host out{in[0].shape, in[0].values, to};
        if (!is_floating(to)) {
          for (double& v : out.values) v = to == DType::boolean ? v != 0 : std::trunc(v);
        }
        return out;
      };
      RowOptions options{.dtypes = every_dtype};
      options.gradient = [to](const Hosts& inputs, const Hosts& heads) {
        return Hosts{is_floating(to) ? Host{inputs[0].shape, heads[0].values} : zeros(inputs[0].shape)};
      };
      options.differentiate = is_floating(to);
      rows.emplace_back(op::Cast{.dtype = to}, std::vector{in(shape)}, cast, options);
    }
    for (int n : {1, 2, 3, 20}) {
      auto sum = [](const Hosts& in) {
        Host out{in[0].shape, in[0].values};
        for (size_t k = 1; k < in.size(); ++k) {
          for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += in[k][i];
        }
        return out;
      };
      rows.emplace_back(op::AddN{.num_args = n}, std::vector(size_t(n), in(shape)), sum, numeric());
    }
  }
  auto sum_to = [&](const Shape& from, const Shape& codes, const Shape& axes, const Shape& to) {
    rows.emplace_back(
        op::SumTo{.shape = codes}, std::vector{in(from)},
        [=](const Hosts& in) {
          return reshaped(reduced(in[0], axes, true,
                                  [](const std::vector<double>& v) {
                                    double sum = 0;
                                    for (double x : v) sum += x;
                                    return sum;
                                  }),
                          to);
        },
        numeric());
  };
  sum_to({3, 5}, {5}, {0}, {5});
  sum_to({2, 3, 5}, {1, -1, 1}, {0, 2}, {1, 3, 1});
  sum_to({2, 3, 5}, {1}, {0, 1, 2}, {1});
  sum_to({1, 7}, {1, 1}, {1}, {1, 1});
  sum_to({0, 3}, {1, 3}, {0}, {1, 3});
  sum_to({3, 0}, {1}, {0, 1}, {1});
}

template <class T>
void compare(Rows& rows, const T& op, bool (*f)(double, double)) {
  const RowOptions options{.dtypes = every_dtype, .tried = numbers, .differentiate = false};
  const auto whole = [](const Shape& s) {
    Input i = in(s, Fill::integers);
    return i.low = 0, i.high = 3, i;
  };
  if constexpr (requires { op.scalar; }) {
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
      rows.emplace_back(
          op, std::vector{whole(shape)},
          [=](const Hosts& in) {
            Host out = in[0];
            for (double& v : out.values) v = f(v, op.scalar);
            return out.dtype = DType::boolean, out;
          },
          options);
    }
  } else {
    for (const auto& [a, b] :
         {std::pair(Shape(3, 5), Shape(3, 5)), {{3, 1}, {5}}, {{1, 7}, {1}}, {{0, 4}, {4}}, {Shape(), Shape()}}) {
      rows.emplace_back(
          op, std::vector{whole(a), whole(b)},
          [=](const Hosts& in) {
            Host out = broadcasting([=](double x, double y, DType) { return f(x, y); })(in)[0];
            return out.dtype = DType::boolean, out;
          },
          options);
    }
  }
}

void comparisons(Rows& rows) {
  const auto equal = [](double a, double b) { return a == b; };
  const auto greater = [](double a, double b) { return a > b; };
  compare(rows, op::CompareEqual{}, equal), compare(rows, op::CompareEqualScalar{}, equal);
  compare(rows, op::CompareEqualScalar{.scalar = 2, .is_int = false}, equal);
  compare(rows, op::CompareNotEqual{}, [](double a, double b) { return a != b; });
  compare(rows, op::CompareNotEqualScalar{.scalar = 2, .is_int = false}, [](double a, double b) { return a != b; });
  compare(rows, op::CompareGreater{}, greater);
  compare(rows, op::CompareGreaterScalar{.scalar = 2, .is_int = false}, greater);
  compare(rows, op::CompareGreaterEqual{}, [](double a, double b) { return a >= b; });
  compare(rows, op::CompareGreaterEqualScalar{.scalar = 2, .is_int = false}, [](double a, double b) { return a >= b; });
  compare(rows, op::CompareLess{}, [](double a, double b) { return a < b; });
  compare(rows, op::CompareLessScalar{.scalar = 2, .is_int = false}, [](double a, double b) { return a < b; });
  compare(rows, op::CompareLessEqual{}, [](double a, double b) { return a <= b; });
  compare(rows, op::CompareLessEqualScalar{.scalar = 2, .is_int = false}, [](double a, double b) { return a <= b; });
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    Input x = in(shape, Fill::integers);
    x.high = 2;
    rows.emplace_back(
        op::NumpyLogicalNot{}, std::vector{x},
        [](const Hosts& in) {
          Host out = in[0];
          for (double& v : out.values) v = v == 0;
          return out.dtype = DType::boolean, out;
        },
        RowOptions{.dtypes = every_dtype, .tried = numbers, .differentiate = false});
  }
}

}  // namespace

Rows elementwise_rows() {
  Rows rows;
  unary_rows(rows);
  backward_row(
      rows, op::BackwardRelu{}, [](double y) { return std::isnan(y) ? y : double(y > 0); }, Fill::nonzero);
  backward_row(
      rows, op::BackwardSigmoid{}, [](double y) { return y * (1 - y); }, Fill::unit);
  backward_row(
      rows, op::BackwardTanh{}, [](double y) { return 1 - y * y; }, Fill::unit);
  backward_row(rows, op::BackwardGelu{}, gelu_slope, Fill::normal);
  amp_cast_rows(rows);
  multicast_rows(rows);
  binary_rows(rows);
  scalar_rows(rows);
  select_rows(rows);
  comparisons(rows);
  return rows;
}

}  // namespace kaon::test
