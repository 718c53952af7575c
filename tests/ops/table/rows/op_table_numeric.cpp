// Rows of element functions of NumPy's, and of activations that are made of others.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

Host typed(Host h, DType t) {
  h.dtype = t;
  return h;
}

const std::pair<Shape, Shape> pairs[] = {
    {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{2, 1, 3}, {1, 5, 1}}, {{1, 7}, {1, 7}}, {{7}, {1}}, {{0, 3}, {3}}, {{}, {}}};

void kind_rows(Rows& rows) {
  const auto add = [&](auto op, bool (*is)(double)) {
    const Reference reference = [is](const Hosts& in) {
      return typed(generate(in[0].shape, [&](const Shape& p) { return is(in[0].at(p)); }), DType::boolean);
    };
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
      rows.emplace_back(op, std::vector{in(shape)}, reference,
                        RowOptions{.dtypes = every_dtype, .differentiate = false});
    }
    rows.emplace_back(op, std::vector{in({7}, {nan, inf, -inf, 0, -0.0, 1, -1e-7})}, reference,
                      RowOptions{.dtypes = every_dtype, .tried = floats, .differentiate = false});
  };
  add(op::IsNan{}, [](double x) { return x != x; }), add(op::IsInf{}, [](double x) { return std::abs(x) == inf; });
  add(op::IsFinite{}, [](double x) { return x - x == 0; });
  add(op::IsPosInf{}, [](double x) { return x == inf; }), add(op::IsNegInf{}, [](double x) { return x == -inf; });

  const auto replaced = [&](const op::NanToNum& op, const Input& x, uint32_t tried) {
    RowOptions options{.dtypes = every_dtype, .tried = tried};
    options.gradient = [](const Hosts& in, const Hosts& h) {
      return Hosts{generate(in[0].shape, [&](const Shape& p) { return std::isfinite(in[0].at(p)) ? h[0].at(p) : 0; })};
    };
    rows.emplace_back(
        op, std::vector{x},
        [=](const Hosts& in) {
          const DType t = *in[0].dtype;
          const double largest = t == DType::float64    ? 0x1.fffffffffffffp1023
                                 : t == DType::float32  ? 0x1.fffffep127
                                 : t == DType::bfloat16 ? 0x1.fep127
                                                        : 65504;
          return generate(in[0].shape, [&](const Shape& p) {
            const double v = in[0].at(p);
            return v != v      ? op.nan
                   : v == inf  ? op.posinf.value_or(largest)
                   : v == -inf ? op.neginf.value_or(-largest)
                               : v;
          });
        },
        options);
  };
  const Input special = in({5}, {nan, inf, -inf, 1.5, -2});
  replaced({}, special, floats), replaced({.copy = false, .nan = 0.5, .posinf = 4, .neginf = -8}, special, floats);
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) replaced({}, in(shape), every_dtype);
}

void bits_rows(Rows& rows) {
  using Ints = std::vector<DType>;
  const Ints whole{DType::uint8, DType::int8, DType::int32, DType::int64};
  const Ints any{DType::uint8, DType::int8, DType::int32, DType::int64, DType::boolean};
  const auto input = [](const Shape& shape, double low, double high, DType t) {
    return index(shape, t == DType::uint8 || t == DType::boolean ? 0 : low, t == DType::boolean ? 2 : high, t);
  };
  const auto add = [&](auto op, int64_t (*f)(int64_t, int64_t), const Ints& dtypes, double low, double high) {
    for (DType t : dtypes) {
      for (const auto& [a, b] : pairs) {
        rows.emplace_back(op, std::vector{input(a, -6, 7, t), input(b, low, high, t)}, [=](const Hosts& in) {
          return typed(
              broadcasting([f](double x, double y, DType) { return double(f(int64_t(x), int64_t(y))); })(in)[0], t);
        });
      }
    }
  };
  add(
      op::BitwiseAnd{}, [](int64_t a, int64_t b) { return a & b; }, any, -6, 7);
  add(
      op::BitwiseOr{}, [](int64_t a, int64_t b) { return a | b; }, any, -6, 7);
  add(
      op::BitwiseXor{}, [](int64_t a, int64_t b) { return a ^ b; }, any, -6, 7);
  add(
      op::LeftShift{}, [](int64_t a, int64_t b) { return a * (int64_t(1) << b); }, whole, 0, 3);
  add(
      op::RightShift{}, [](int64_t a, int64_t b) { return a >> b; }, whole, 0, 3);
  add(
      op::Lcm{}, [](int64_t a, int64_t b) { return std::lcm(a, b); }, any, -6, 7);
  // all bits shifted out
  const auto out = [&](auto op, DType t, std::vector<double> a, std::vector<double> b, std::vector<double> y) {
    const Shape shape(a.size());
    rows.emplace_back(op, std::vector{index(shape, a, t), index(shape, b, t)},
                      [=](const Hosts&) { return Host{.shape = shape, .values = y, .dtype = t}; });
  };
  out(op::LeftShift{}, DType::int8, {1, 1, 64, 3}, {8, -1, 1, 7}, {0, 0, -128, -128});
  out(op::RightShift{}, DType::int32, {-5, 5, -5, 7}, {32, 32, -1, 31}, {-1, 0, -1, 0});

  const auto scalar = [&](auto op, int64_t (*f)(int64_t, int64_t)) {
    for (DType t : whole) {
      for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
        rows.emplace_back(op, std::vector{input(shape, -6, 7, t)}, [=](const Hosts& in) {
          return typed(
              generate(shape, [&](const Shape& p) { return double(f(int64_t(in[0].at(p)), int64_t(op.scalar))); }), t);
        });
      }
    }
  };
  scalar(op::BitwiseAndScalar{.scalar = 3}, [](int64_t a, int64_t b) { return a & b; });
  scalar(op::BitwiseOrScalar{.scalar = 4, .is_int = false}, [](int64_t a, int64_t b) { return a | b; });
  scalar(op::BitwiseAndScalar{.scalar = 2, .is_int = false}, [](int64_t a, int64_t b) { return a & b; });
  scalar(op::BitwiseXorScalar{.scalar = 5, .is_int = false}, [](int64_t a, int64_t b) { return a ^ b; });
  scalar(op::LcmScalar{.scalar = 4, .is_int = false}, [](int64_t a, int64_t b) { return std::lcm(a, b); });
  for (DType t : any) {
    const double ones = t == DType::uint8 ? 255 : t == DType::boolean ? 1 : -1;
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
      rows.emplace_back(op::BitwiseNot{}, std::vector{input(shape, -6, 7, t)}, [=](const Hosts& in) {
        return typed(generate(shape, [&](const Shape& p) { return ones - in[0].at(p); }), t);
      });
    }
  }
}

void where_rows(Rows& rows) {
  const RowOptions any{.dtypes = every_dtype};
  const auto at = [](const Host& x, const Shape& p) {
    Shape q = x.shape;
    for (int i = 0; i < q.ndim(); ++i) q[i] = x.shape[i] == 1 ? 0 : p[p.ndim() - q.ndim() + i];
    return x.at(q);
  };
  const struct {
    Shape condition, x, y, out;
  } cases[] = {{{3, 5}, {3, 5}, {3, 5}, {3, 5}}, {{3, 1}, {5}, {3, 5}, {3, 5}}, {{5}, {2, 1, 5}, {3, 1}, {2, 3, 5}},
               {{1}, {1, 7}, {7}, {1, 7}},       {{0, 3}, {3}, {1}, {0, 3}},    {{}, {}, {}, {}}};
  for (const auto& c : cases) {
    const Input condition = index(c.condition, 0, 2);
    const Shape out = c.out;
    rows.emplace_back(
        op::BroadcastWhere{}, std::vector{condition, in(c.x), in(c.y)},
        [=](const Hosts& in) {
          return generate(out, [&](const Shape& p) { return at(in[0], p) != 0 ? at(in[1], p) : at(in[2], p); });
        },
        any);
    const Shape two = broadcast_shapes(c.condition, c.x, "test");
    for (double number : {0.0, 1.0}) {
      rows.emplace_back(
          op::WhereScalarY{.scalar = number}, std::vector{condition, in(c.x)},
          [=](const Hosts& in) {
            return generate(two, [&](const Shape& p) { return at(in[0], p) != 0 ? at(in[1], p) : number; });
          },
          any);
      rows.emplace_back(
          op::WhereScalarX{.scalar = number}, std::vector{condition, in(c.x)},
          [=](const Hosts& in) {
            return generate(two, [&](const Shape& p) { return at(in[0], p) != 0 ? number : at(in[1], p); });
          },
          any);
    }
    const op::WhereScalars scalars{.x = 1.5, .y = -2};
    rows.emplace_back(scalars, std::vector{condition}, [=](const Hosts& in) {
      return typed(generate(in[0].shape, [&](const Shape& p) { return in[0].at(p) != 0 ? 1.5 : -2; }), DType::float32);
    });
  }
}

template <class Op>
void real(Rows& rows, double (*f)(double, double), Fill left, Fill right, uint32_t dtypes = floats) {
  const Reference reference = broadcasting([f](double x, double y, DType) { return f(x, y); });
  for (const auto& [a, b] : pairs) {
    rows.emplace_back(Op{}, std::vector{in(a, left), in(b, right)}, reference,
                      RowOptions{.dtypes = dtypes, .loosen = 2, .loosen_gradient = 4});
  }
  const std::vector<double> x{0, -0.0, 1, -1, inf, -inf, inf, nan, 2, 3, 0, -0.0};
  const std::vector<double> y{0, -1, 0, -0.0, inf, -inf, -1, 2, nan, inf, 2, -0.0};
  rows.emplace_back(Op{}, std::vector{in({12}, x), in({12}, y)}, reference,
                    RowOptions{.dtypes = dtypes, .tried = floats, .loosen = 2, .differentiate = false});
}

template <class Op, class Reversed>
void real_scalar(Rows& rows, double (*f)(double, double), double number) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
    rows.emplace_back(
        Op{.scalar = number, .is_int = false}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return generate(shape, [&](const Shape& p) { return f(in[0].at(p), number); }); },
        RowOptions{.loosen = 2, .loosen_gradient = 4});
    rows.emplace_back(
        Reversed{.scalar = number, .is_int = false}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return generate(shape, [&](const Shape& p) { return f(number, in[0].at(p)); }); },
        RowOptions{.loosen = 2, .loosen_gradient = 4});
  }
}

// As NumPy: of infinities no number, by infinity 0 or -1.
double floor_quotient(double x, double y, DType t) {
  if (!is_floating(t)) return y == 0 ? 0 : std::floor(x / y);
  if (std::isinf(y) && std::isfinite(x)) return x != 0 && (x < 0) != (y < 0) ? -1 : 0;
  return std::isinf(x) && y != 0 ? nan : std::floor(x / y);
}

double of_ldexp(double a, double b) { return a * std::exp2(b); }
double of_arctan2(double a, double b) { return std::atan2(a, b); }
double of_copysign(double a, double b) { return std::copysign(a, b); }

void real_rows(Rows& rows) {
  real<op::Arctan2>(rows, of_arctan2, Fill::nonzero, Fill::nonzero);
  real<op::Copysign>(rows, of_copysign, Fill::nonzero, Fill::nonzero);
  real<op::Fmod>(
      rows, [](double a, double b) { return std::fmod(a, b); }, Fill::normal, Fill::above_one, numbers);
  real<op::Fmax>(
      rows, [](double a, double b) { return b != b || a >= b ? a : b; }, Fill::normal, Fill::normal, numbers);
  real<op::Fmin>(
      rows, [](double a, double b) { return b != b || a <= b ? a : b; }, Fill::normal, Fill::normal, numbers);
  real<op::Ldexp>(rows, of_ldexp, Fill::normal, Fill::normal);
  real_scalar<op::Arctan2Scalar, op::RArctan2Scalar>(rows, of_arctan2, -1.5);
  real_scalar<op::CopysignScalar, op::RCopysignScalar>(rows, of_copysign, -2);
  real_scalar<op::LdexpScalar, op::RLdexpScalar>(rows, of_ldexp, 2.5);
  const auto real_of = [](Host y, const Host& x) {
    return typed(std::move(y), is_floating(*x.dtype) ? *x.dtype : DType::float32);
  };
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
    rows.emplace_back(
        op::TrueDivideScalar{.scalar = -2.5, .is_int = false}, std::vector{in(shape)},
        [=](const Hosts& in) {
          return real_of(generate(shape, [&](const Shape& p) { return in[0].at(p) / -2.5; }), in[0]);
        },
        RowOptions{.dtypes = every_dtype});
    rows.emplace_back(
        op::RTrueDivideScalar{.scalar = 1.5, .is_int = false}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) {
          return real_of(generate(shape, [&](const Shape& p) { return 1.5 / in[0].at(p); }), in[0]);
        },
        RowOptions{.dtypes = every_dtype});
  }
  for (const auto& [a, b] : pairs) {
    rows.emplace_back(
        op::TrueDivide{}, std::vector{in(a), in(b, Fill::nonzero)},
        [=](const Hosts& in) {
          return real_of(broadcasting([](double x, double y, DType) { return x / y; })(in)[0], in[0]);
        },
        RowOptions{.dtypes = every_dtype});
    rows.emplace_back(op::FloorDivide{}, std::vector{in(a), in(b, Fill::nonzero)}, broadcasting(floor_quotient),
                      RowOptions{.dtypes = numbers, .differentiate = false});
  }
}

void activation(Rows& rows, auto op, std::function<double(double)> f, Fill fill = Fill::normal) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 3), Shape()}) {
    rows.emplace_back(op, std::vector{in(shape, fill)}, elementwise(f), RowOptions{.loosen = 6, .loosen_gradient = 8});
  }
}

void activation_rows(Rows& rows) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  activation(rows, op::Silu{}, [=](double x) { return x * sigmoid(x); });
  activation(rows, op::Mish{}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  activation(rows, op::LogSigmoid{}, [=](double x) { return std::log(sigmoid(x)); });
  activation(rows, op::HardSwish{}, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  activation(
      rows, op::TanhShrink{}, [](double x) { return x - std::tanh(x); }, Fill::nonzero);
  for (double lambd : {0.5, 1.25}) {
    activation(rows, op::HardShrink{.lambd = lambd}, [=](double x) { return std::abs(x) <= lambd ? 0 : x; });
    activation(rows, op::SoftShrink{.lambd = lambd}, [=](double x) { return x - std::clamp(x, -lambd, lambd); });
    activation(rows, op::Celu{.alpha = 2 * lambd},
               [=](double x) { return std::max(x, 0.0) + std::min(2 * lambd * std::expm1(x / (2 * lambd)), 0.0); });
    activation(rows, op::Threshold{.threshold = lambd, .value = -3}, [=](double x) { return x <= lambd ? -3 : x; });
  }
  const auto glu = [&](const Shape& shape, int axis) {
    const int at = axis < 0 ? axis + shape.ndim() : axis;
    const int64_t half = shape[at] / 2;
    rows.emplace_back(
        op::Glu{.axis = axis}, std::vector{in(shape)},
        [=](const Hosts& in) {
          return generate(with(shape, at, half),
                          [&](const Shape& p) { return in[0].at(p) * sigmoid(in[0].at(with(p, at, p[at] + half))); });
        },
        RowOptions{.loosen = 6, .loosen_gradient = 8});
  };
  glu({3, 6}, -1), glu({4, 5}, 0), glu({1, 2, 7}, 1), glu({0, 2}, 1), glu({3, 0}, 1);
  rows.emplace_back(op::SoftShrink{.lambd = -1}, std::vector{in({3})}, Reference(), RowOptions{.refused = true});
}

}  // namespace

Rows numeric_rows() {
  Rows rows;
  kind_rows(rows), bits_rows(rows), where_rows(rows), real_rows(rows), activation_rows(rows);
  return rows;
}

}  // namespace kaon::test
