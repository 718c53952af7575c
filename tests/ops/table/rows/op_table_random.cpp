// Rows of the operators that draw random numbers, and of probability densities.
#include <algorithm>
#include <cmath>
#include <set>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

struct Moments {
  double mean, deviation, lowest, highest;
};
Moments moments(const Host& h) {
  double sum = 0, squares = 0;
  for (double v : h.values) sum += v, squares += v * v;
  const double n = double(h.size()), mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean)),
          *std::min_element(h.values.begin(), h.values.end()), *std::max_element(h.values.begin(), h.values.end())};
}

// An operator that draws: its dtype, and for a large enough draw its mean, deviation and range.
template <class T>
void draw(Rows& rows, const T& op, DType dtype, double mean, double deviation, double low, double high) {
  RowOptions options;
  options.inspect = [=](const Hosts&, const Hosts& outputs) -> std::string {
    const Host& y = outputs[0];
    if (y.dtype != dtype || y.shape != op.shape) return "another dtype or shape";
    if (y.size() < 500) return "";
    const Moments m = moments(y);
    if (std::abs(m.mean - mean) > 0.15 * deviation) return "mean " + std::to_string(m.mean);
    if (std::abs(m.deviation - deviation) > 0.1 * deviation) return "deviation " + std::to_string(m.deviation);
    return m.lowest < low || m.highest > high ? "out of range" : "";
  };
  rows.emplace_back(op, std::vector<Input>{}, Reference(), options);
}

// With get_prob: the logarithm of what data have for each class that was drawn.
void multinomial_with_logarithms(Rows& rows) {
  for (const Shape& data : {Shape(5), Shape(3, 7), Shape(1, 3), Shape(0, 3)}) {
    RowOptions options;
    options.inspect = [=](const Hosts& inputs, const Hosts& outputs) -> std::string {
      const Host &p = inputs[0], &classes = outputs[0], &logs = outputs[1];
      if (logs.shape != classes.shape || logs.dtype != p.dtype) return "another dtype or shape";
      const int64_t k = data.back(), draws = 6;
      for (int64_t i = 0; i < logs.size(); ++i) {
        const double want = std::log(p[size_t(i / draws * k + int64_t(classes[size_t(i)]))]), got = logs[size_t(i)];
        if (!(std::abs(got - want) <= 0.01 * std::max(1.0, std::abs(want)))) return "logarithm " + std::to_string(got);
      }
      return "";
    };
    rows.emplace_back(op::SampleMultinomial{.shape = {2, 3}, .get_prob = true, .dtype = DType::uint8},
                      std::vector{in(data, Fill::positive)}, Reference(), options);
  }
}

void draw_rows(Rows& rows) {
  const double uniform = 1 / std::sqrt(12.);
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    draw(rows, op::RandomUniform{.shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 0.5, uniform, 0, 1);
    draw(rows, op::RandomUniform{.low = -2, .high = 4, .shape = {31, 33}, .dtype = t}, t, 1, 6 * uniform, -2, 4);
    draw(rows, op::RandomNormal{.shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 0, 1, -6, 6);
    draw(rows, op::RandomNormal{.loc = 3, .scale = 0.5, .shape = {31, 33}, .dtype = t}, t, 3, 0.5, 0, 6);
  }
  for (DType t : {DType::int32, DType::int64}) {
    draw(rows, op::RandomRandint{.low = -3, .high = 8, .shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 2,
         std::sqrt(10.), -3, 7);
  }
  draw(rows, op::RandomUniform{.shape = {1, 7}}, DType::float32, 0, 0, 0, 0),
      draw(rows, op::RandomUniform{.shape = {0, 4}}, DType::float32, 0, 0, 0, 0);
  draw(rows, op::RandomNormal{.shape = {1, 7}}, DType::float32, 0, 0, 0, 0),
      draw(rows, op::RandomNormal{.shape = {0, 4}}, DType::float32, 0, 0, 0, 0);
  draw(rows, op::RandomRandint{.low = 0, .high = 2, .shape = {1, 7}}, DType::int32, 0, 0, 0, 0),
      draw(rows, op::RandomRandint{.low = 0, .high = 2, .shape = {0, 4}}, DType::int32, 0, 0, 0, 0);
  rows.emplace_back(op::RandomUniform{.low = 2, .high = 1, .shape = {3}}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});

  auto multinomial = [&](const Shape& data, std::vector<double> p, const Shape& shape, const Shape& to, DType dtype) {
    RowOptions options;
    options.inspect = [=](const Hosts&, const Hosts& outputs) -> std::string {
      const Host& y = outputs[0];
      if (y.dtype != dtype || y.shape != to) return "another dtype or shape " + y.shape.str();
      const int64_t classes = data.back(), draws = shape.size();
      for (int64_t row = 0; row < y.size() / std::max<int64_t>(1, draws); ++row) {
        std::vector<double> count(static_cast<size_t>(classes));
        double sum = 0;
        for (int64_t k = 0; k < classes; ++k) sum += p[size_t(row * classes + k)];
        for (int64_t i = 0; i < draws; ++i) ++count.at(size_t(y[size_t(row * draws + i)]));
        for (int64_t k = 0; k < classes; ++k) {
          const double want = p[size_t(row * classes + k)] / sum, got = count[size_t(k)] / double(draws);
          if (want == 0 ? got != 0 : draws > 500 && std::abs(got - want) > 0.08)
            return "frequency " + std::to_string(got);
        }
      }
      return "";
    };
    rows.emplace_back(op::SampleMultinomial{.shape = shape, .dtype = dtype}, std::vector{constant(in(data, p))},
                      Reference(), options);
  };
  multinomial({3}, {0.25, 0.25, 0.5}, {1000}, {1000}, DType::int32),
      multinomial({2, 3}, {0, 1, 1, 2, 0, 2}, {31, 33}, {2, 31, 33}, DType::float32);
  multinomial({2, 1, 3}, {0, 1, 1, 2, 0, 2}, {31, 33}, {2, 1, 31, 33}, DType::int32),
      multinomial({2, 2, 2, 1}, std::vector<double>(8, 1), {}, {2, 2, 2}, DType::float32);
  multinomial({1, 7}, std::vector<double>(7, 1), {}, {1}, DType::int64),
      multinomial({4}, {0, 0, 1, 0}, {}, {1}, DType::uint8), multinomial({0, 3}, {}, {}, {0}, DType::int32);
  multinomial_with_logarithms(rows);

  for (const Shape& shape : {Shape(33), Shape(7, 5), Shape(1, 7), Shape(0, 4)}) {
    RowOptions options{.dtypes = every_dtype};
    options.inspect = [=](const Hosts& inputs, const Hosts& outputs) -> std::string {
      // the same rows in another order
      auto rows_of = [&](const Host& h) {
        std::vector<std::vector<double>> out;
        const int64_t n = shape[0], width = n ? shape.size() / n : 0;
        for (int64_t i = 0; i < n; ++i)
          out.emplace_back(h.values.begin() + i * width, h.values.begin() + (i + 1) * width);
        return out;
      };
      auto before = rows_of(inputs[0]), after = rows_of(outputs[0]);
      if (shape[0] > 20 && before == after && inputs[0].dtype == DType::float32) return "not shuffled";
      std::sort(before.begin(), before.end()), std::sort(after.begin(), after.end());
      return before == after ? "" : "rows are not those of the input";
    };
    rows.emplace_back(op::Shuffle{}, std::vector{in(shape)}, Reference(), options);
  }
}

// Of a large enough draw: its mean and deviation, for noise of which some are far out.
std::string inspect_draw(const Host& y, DType dtype, const Shape& shape, double mean, double deviation) {
  if (y.dtype != dtype || y.shape != shape) return "another dtype or shape " + y.shape.str();
  for (double v : y.values) {
    if (!std::isfinite(v)) return "not finite";
  }
  if (y.size() < 500) return "";
  const Moments m = moments(y);
  if (std::abs(m.mean - mean) > 0.15 * deviation) return "mean " + std::to_string(m.mean);
  return std::abs(m.deviation - deviation) > 0.25 * deviation ? "deviation " + std::to_string(m.deviation) : "";
}

// The draw of op, with numbers as parameters, at several sizes; and refused with the parameters of `bad`.
template <class T>
void draw_by_numbers(Rows& rows, T op, T bad, double mean, double deviation) {
  const auto add = [&](const Shape& shape, DType dtype) {
    T one = op;
    one.shape = shape;
    one.dtype = dtype;
    RowOptions options;
    options.inspect = [=](const Hosts&, const Hosts& out) {
      return inspect_draw(out[0], dtype, shape, mean, deviation);
    };
    rows.emplace_back(one, std::vector<Input>{}, Reference(), options);
  };
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) add({31, 33}, t);
  op.ctx = cpu(0);
  add({1, 7}, DType::float64);
  add({0, 4}, DType::float32);
  bad.shape = Shape(3);
  rows.emplace_back(bad, std::vector<Input>{}, Reference(), RowOptions{.refused = true});
}

template <class T>
void draw_like(Rows& rows, const T& op, double mean, double deviation) {
  for (const Shape& shape : {Shape(31, 33), Shape(1, 7), Shape(0, 4), Shape()}) {
    RowOptions options{.differentiate = false};
    options.inspect = [=](const Hosts& in, const Hosts& out) {
      return inspect_draw(out[0], *in[0].dtype, shape, mean, deviation);
    };
    rows.emplace_back(op, std::vector{in(shape)}, Reference(), options);
  }
}

// With parameters that are all alike.
template <class T>
void draw_by_arrays(Rows& rows, std::vector<double> parameters, double mean, double deviation) {
  for (const Shape& shape : {Shape(31, 33), Shape(1, 7), Shape(0, 4), Shape()}) {
    std::vector<Input> inputs;
    for (double p : parameters) {
      inputs.push_back(constant(in(shape, std::vector<double>(size_t(shape.size()), p))));
    }
    const auto add = [&](const T& op) {
      Shape to = shape;
      for (int64_t d : op.shape) to.push_back(d);
      RowOptions options{.dtypes = numbers};
      options.inspect = [=](const Hosts&, const Hosts& out) {
        return inspect_draw(out[0], op.dtype.value_or(DType::float32), to, mean, deviation);
      };
      rows.emplace_back(T(op), inputs, Reference(), options);
    };
    add(T{});
    add(T{.shape = {5, 3}, .dtype = DType::float64});
    add(T{.shape = {2}, .dtype = DType::float16});
    add(T{.shape = {0}});
  }
}

void distribution_rows(Rows& rows) {
  using std::sqrt;
  draw_by_numbers(rows, op::RandomGamma{.alpha = 2, .beta = 3}, op::RandomGamma{.alpha = -1}, 6, sqrt(18));
  draw_by_numbers(rows, op::RandomGamma{.alpha = 0.5}, op::RandomGamma{.beta = 0}, 0.5, sqrt(0.5));
  draw_by_numbers(rows, op::RandomExponential{.lam = 2}, op::RandomExponential{.lam = 0}, 0.5, 0.5);
  draw_by_numbers(rows, op::RandomPoisson{.lam = 4}, op::RandomPoisson{.lam = -1}, 4, 2);
  draw_by_numbers(rows, op::RandomPoisson{.lam = 100}, op::RandomPoisson{.lam = NAN}, 100, 10);
  draw_by_numbers(rows, op::RandomNegativeBinomial{.k = 3, .p = 0.25}, op::RandomNegativeBinomial{.p = 1.5}, 9, 6);
  draw_by_numbers(rows, op::RandomGeneralizedNegativeBinomial{.mu = 3, .alpha = 0.5},
                  op::RandomGeneralizedNegativeBinomial{.alpha = -1}, 3, sqrt(7.5));
  draw_like(rows, op::RandomUniformLike{.low = 2, .high = 5}, 3.5, sqrt(0.75));
  draw_like(rows, op::RandomNormalLike{.loc = 1, .scale = 2}, 1, 2);
  draw_like(rows, op::RandomGammaLike{.alpha = 2, .beta = 3}, 6, sqrt(18));
  draw_like(rows, op::RandomExponentialLike{.lam = 2}, 0.5, 0.5);
  draw_like(rows, op::RandomPoissonLike{.lam = 4}, 4, 2);
  draw_like(rows, op::RandomNegativeBinomialLike{.k = 3, .p = 0.25}, 9, 6);
  draw_like(rows, op::RandomGeneralizedNegativeBinomialLike{.mu = 3, .alpha = 0.5}, 3, sqrt(7.5));
  draw_by_arrays<op::SampleUniform>(rows, {2, 5}, 3.5, sqrt(0.75));
  draw_by_arrays<op::SampleNormal>(rows, {1, 2}, 1, 2);
  draw_by_arrays<op::SampleGamma>(rows, {2, 3}, 6, sqrt(18));
  draw_by_arrays<op::SampleExponential>(rows, {2}, 0.5, 0.5);
  draw_by_arrays<op::SamplePoisson>(rows, {4}, 4, 2);
  draw_by_arrays<op::SampleNegativeBinomial>(rows, {3, 1}, 0, 0);
  draw_by_arrays<op::SampleGeneralizedNegativeBinomial>(rows, {3, 1}, 3, sqrt(12));

  const auto zipfian = [&](int64_t range, const Shape& shape) {
    RowOptions options;
    options.inspect = [=](const Hosts&, const Hosts& out) -> std::string {
      for (int64_t row = 0; row < shape[0]; ++row) {
        std::set<double> classes;
        for (int64_t i = 0; i < shape[1]; ++i) classes.insert(out[0].at({row, i}));
        if (int64_t(classes.size()) != shape[1]) return "a class comes twice";
        if (shape[1] > 0 && (*classes.begin() < 0 || *classes.rbegin() >= double(range))) return "out of range";
        if (out[1].at({row}) < double(shape[1])) return "too few tries";
      }
      return "";
    };
    rows.emplace_back(op::SampleUniqueZipfian{.range_max = range, .shape = shape}, std::vector<Input>{}, Reference(),
                      options);
  };
  zipfian(100, {3, 33}), zipfian(5, {1, 5}), zipfian(1, {3, 1}), zipfian(7, {0, 3}), zipfian(int64_t(1) << 60, {2, 7});
  rows.emplace_back(op::SampleUniqueZipfian{.range_max = 3, .shape = {1, 4}}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});
}

// --- NumPy's front end

// Fields of op set to None take the inputs.
template <class T>
void numpy_draw(Rows& rows, const T& op, std::vector<Input> inputs, const Shape& to, double mean = 0,
                double deviation = 0) {
  RowOptions options{.differentiate = false};
  DType dtype = DType::float32;
  if constexpr (requires { op.dtype; }) dtype = op.dtype;
  options.inspect = [=](const Hosts&, const Hosts& out) { return inspect_draw(out[0], dtype, to, mean, deviation); };
  rows.emplace_back(op, std::move(inputs), Reference(), options);
}

// The operator with two parameters by numbers, by one input and by both; `make(first, second, size)`.
template <class Make>
void numpy_draws(Rows& rows, Make make, double mean, double deviation) {
  using Number = std::optional<double>;
  const Number none;
  const auto alike = [](const Shape& s, double v) { return in(s, std::vector<double>(size_t(s.size()), v)); };
  const bool two = make(none, none, {}).num_inputs() == 2;
  numpy_draw(rows, make(Number(1.5), Number(2), Shape(31, 33)), {}, {31, 33}, mean, deviation);
  numpy_draw(rows, make(Number(1.5), Number(2), Shape(1, 7)), {}, {1, 7});
  numpy_draw(rows, make(Number(1.5), Number(2), Shape(0, 4)), {}, {0, 4});
  numpy_draw(rows, make(none, Number(2), {}), {alike({31, 33}, 1.5)}, {31, 33}, mean, deviation);
  if (!two) {
    for (const Shape& s : {Shape(1, 7), Shape(0, 4), Shape()})
      numpy_draw(rows, make(none, none, {}), {alike(s, 1.5)}, s);
    return numpy_draw(rows, make(none, none, Shape(31, 33)), {alike({31, 1}, 1.5)}, {31, 33}, mean, deviation);
  }
  numpy_draw(rows, make(Number(1.5), none, Shape(31, 33)), {alike({33}, 2)}, {31, 33}, mean, deviation);
  numpy_draw(rows, make(none, none, {}), {alike({31, 1}, 1.5), alike({33}, 2)}, {31, 33}, mean, deviation);
  for (const Shape& s : {Shape(1, 7), Shape(0, 4), Shape()}) {
    numpy_draw(rows, make(none, none, {}), {alike(s, 1.5), alike(s, 2)}, s);
  }
}

void numpy_rows(Rows& rows) {
  using Number = std::optional<double>;
  using Size = std::optional<Shape>;
  using std::sqrt;
  const double pi = 3.14159265358979323846;
  const auto shifted = [&](auto op, double mean, double deviation) {
    numpy_draws(
        rows,
        [op](Number loc, Number scale, Size size) {
          auto one = op;
          return one.loc = loc, one.scale = scale, one.size = size, one.ctx = cpu(0), one;
        },
        1.5 + 2 * mean, 2 * deviation);
  };
  shifted(op::RandomGumbel{}, 0.5772156649, pi / sqrt(6)), shifted(op::RandomLogistic{}, 0, pi / sqrt(3));
  shifted(op::RandomLaplace{}, 0, sqrt(2)), shifted(op::RandomNormalOf{}, 0, 1);
  const auto scaled = [&](auto op, double mean, double deviation) {
    numpy_draws(
        rows,
        [op](Number scale, Number, Size size) {
          auto one = op;
          return one.scale = scale, one.size = size, one.ctx = cpu(0), one;
        },
        1.5 * mean, 1.5 * deviation);
  };
  scaled(op::RandomScaledExponential{}, 1, 1), scaled(op::RandomRayleigh{}, sqrt(pi / 2), sqrt(2 - pi / 2));
  const auto by_exponent = [&](auto op, double by, double mean, double deviation) {
    numpy_draws(
        rows,
        [op, by](Number a, Number, Size size) {
          auto one = op;
          return one.a = a ? Number(by) : Number(), one.size = size, one.ctx = cpu(0), one;
        },
        mean, deviation);
  };
  by_exponent(op::RandomWeibull{}, 1.5, std::tgamma(1 + 1 / 1.5), 0.6129357917);
  numpy_draws(
      rows,
      [](Number a, Number, Size size) {
        return op::RandomPower{.a = a ? Number(1.5) : Number(), .size = size, .ctx = cpu(0)};
      },
      0.6, 0.2618614683);
  for (const Shape& s : {Shape(31, 33), Shape(1, 7), Shape(0, 4), Shape()}) {
    numpy_draw(rows, op::RandomTruncatedNormal{.size = s, .ctx = cpu(0)}, {}, s, 0, 0.8796256610);
    numpy_draw(rows,
               op::RandomTruncatedNormal{
                   .loc = 1, .scale = 2, .low = 0, .high = INFINITY, .size = s, .ctx = cpu(0), .dtype = DType::float64},
               {}, s, 1 + 2 * sqrt(2 / pi), 2 * sqrt(1 - 2 / pi));
  }
  rows.emplace_back(op::RandomTruncatedNormal{.scale = -1, .size = Shape(3)}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});
  numpy_draw(rows, op::RandomPareto{.a = 8, .size = Shape(31, 33), .ctx = cpu(0)}, {}, {31, 33}, 1. / 7, 0.16495722);
  for (const Shape& s : {Shape(1, 7), Shape(0, 4), Shape(5, 3), Shape()}) {
    numpy_draw(rows, op::RandomPareto{.a = {}}, {in(s, Fill::positive)}, s);
  }
  numpy_draws(
      rows,
      [](Number low, Number high, Size size) {
        return op::RandomUniformOf{low, high, size, cpu(0), DType::float64};
      },
      1.75, 0.5 / sqrt(12.));
  numpy_draws(
      rows,
      [](Number a, Number scale, Size size) {
        return op::RandomGammaOf{a, scale, size, cpu(0), DType::float64};
      },
      3, sqrt(6.));
  numpy_draw(rows, op::RandomNormalOf{.loc = {}, .scale = {}, .dtype = DType::float16},
             {in({3, 1}), in({5}, Fill::positive)}, {3, 5});
  for (const Shape& s : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    Shape to(2);
    for (int64_t d : s) to.push_back(d);
    const Input first = in(s, Fill::unit), second = in(s, Fill::above_one);
    numpy_draw(rows, op::RandomNormalN{.loc = {}, .scale = {}, .size = Shape(2), .dtype = DType::float64},
               {first, second}, to);
    numpy_draw(rows, op::RandomUniformN{.low = {}, .high = {}, .size = Shape(2), .dtype = DType::bfloat16},
               {first, second}, to);
  }
  numpy_draw(rows, op::RandomNormalN{.loc = 1, .scale = 2, .size = Shape(31, 33), .ctx = cpu(0)}, {}, {31, 33}, 1, 2);
  numpy_draw(rows, op::RandomUniformN{.low = 1, .high = 3, .size = Shape(31, 33), .ctx = cpu(0)}, {}, {31, 33}, 2,
             1 / sqrt(3));
  rows.emplace_back(op::RandomGumbel{.scale = -1, .size = Shape(3)}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});

  const auto bernoulli = [&](op::RandomBernoulli op, DType dtype, const Shape& to, double mean) {
    op.dtype = dtype;
    op.size = to;
    op.ctx = cpu(0);
    numpy_draw(rows, op, {}, to, mean, sqrt(mean * (1 - mean)));
  };
  for (DType t :
       {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::boolean, DType::int32, DType::uint8}) {
    bernoulli({.prob = 0.25}, t, {31, 33}, 0.25);
    bernoulli({.logit = 1.0, .is_logit = true}, t, {31, 33}, 0.7310585786);
  }
  for (const Shape& s : {Shape(31, 33), Shape(1, 7), Shape(0, 4), Shape()}) {
    const Input quarter = constant(in(s, std::vector<double>(size_t(s.size()), 0.25)));
    numpy_draw(rows, op::RandomBernoulli{.dtype = DType::int32}, {quarter}, s, 0.25, sqrt(0.1875));
    numpy_draw(rows, op::RandomBernoulli{.is_logit = true}, {quarter}, s, 0.5621765, 0.4961);
  }
  numpy_draw(rows, op::RandomBernoulli{.size = Shape(31, 33)}, {constant(in({33}, std::vector<double>(33, 0.25)))},
             {31, 33}, 0.25, sqrt(0.1875));
  rows.emplace_back(op::RandomBernoulli{.prob = 2, .size = Shape(3)}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});
}

// --- densities

double times_log(double factor, double x) { return factor == 0 && x >= 0 ? 0 : factor * std::log(x); }

double log_density(Distribution d, double x, double a, double b) {
  switch (d) {
    case Distribution::uniform: return -std::log(b - a);
    case Distribution::normal: return -(x - a) / b * ((x - a) / b) / 2 - std::log(b) - 0.91893853320467274178;
    case Distribution::gamma: return times_log(a - 1, x) - b * x + a * std::log(b) - std::lgamma(a);
    case Distribution::exponential: return std::log(a) - a * x;
    case Distribution::poisson: return times_log(x, a) - a - std::lgamma(x + 1);
    case Distribution::generalized_negative_binomial:
      return log_density(Distribution::negative_binomial, x, 1 / b, 1 / (1 + a * b));
    default: return std::lgamma(x + a) - std::lgamma(x + 1) - std::lgamma(a) + a * std::log(b) + times_log(x, 1 - b);
  }
}

template <Distribution D>
void density_rows(Rows& rows, Fill samples, Fill first, Fill second) {
  const bool counts = D >= Distribution::poisson, two = !info(D).second.empty();
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{3, 5}, {3}}, {{3, 5}, {3, 5}}, {{2, 3, 7}, {2, 3}}, {{1, 7}, {1}}, {{0, 4}, {0}}, {{3, 0}, {3}}, {{}, {}}};
  for (const auto& [sample, parameter] : shapes) {
    for (bool is_log : {false, true}) {
      std::vector<Input> inputs{in(sample, samples), in(parameter, first)};
      if (counts) {
        inputs[0].fill = Fill::integers;
        inputs[0].low = 0, inputs[0].high = 9;
      }
      if (counts || D == Distribution::uniform) inputs[0].differentiable = false;
      if (two) inputs.push_back(in(parameter, second));
      if (D == Distribution::negative_binomial && two) {  // a probability
        std::vector<double> p;
        for (int64_t i = 0; i < parameter.size(); ++i) p.push_back(0.125 + double(i % 6) / 8);
        inputs[2] = in(parameter, p);
      }
      const auto reference = [=](const Hosts& x) {
        const int64_t repeats = sample.size() / std::max<int64_t>(1, parameter.size());
        Host out{sample, std::vector<double>(size_t(sample.size())), x[0].dtype};
        for (size_t i = 0; i < out.values.size(); ++i) {
          const size_t p = i / size_t(repeats);
          const double y = log_density(D, x[0][i], x[1][p], two ? x[2][p] : 0);
          out.values[i] = is_log ? y : std::exp(y);
        }
        return out;
      };
      rows.emplace_back(op::Pdf<D>{is_log}, inputs, reference, RowOptions{.loosen = 8});
    }
  }
}

void dirichlet_rows(Rows& rows) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{3, 5}, {3, 5}}, {{3, 4, 5}, {3, 5}}, {{4, 3}, {3}},
                                                    {{1, 3}, {1, 3}}, {{0, 3}, {3}},       {{3}, {3}}};
  for (const auto& [sample, parameter] : shapes) {
    for (bool is_log : {false, true}) {
      const auto reference = [=](const Hosts& x) {
        const int64_t k = sample.back(), rows_of = parameter.size() / k;
        const Shape to = sample.ndim() == 1 ? Shape(1) : without(sample, -1);
        Host out{to, std::vector<double>(size_t(to.size())), x[0].dtype};
        const int64_t repeats = to.size() / std::max<int64_t>(1, rows_of);
        for (int64_t i = 0; i < to.size(); ++i) {
          double sum = 0, y = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double a = x[1][size_t(i / repeats * k + j)];
            sum += a;
            y += times_log(a - 1, x[0][size_t(i * k + j)]) - std::lgamma(a);
          }
          y += std::lgamma(sum);
          out.values[size_t(i)] = is_log ? y : std::exp(y);
        }
        return out;
      };
      RowOptions options{.loosen = 16};
      if (!is_log) options.tried = every_dtype & ~dtype_bit(DType::float16);  // which does not hold some densities
      rows.emplace_back(op::PdfDirichlet{is_log},
                        std::vector{in(sample, Fill::positive), in(parameter, Fill::positive)}, reference, options);
    }
  }
}

// Each of these inspects what is drawn.
void whole_numbers(Rows& rows) {
  const auto choice = [&](op::RandomChoice op, std::vector<Input> inputs, int64_t n, const Shape& shape) {
    RowOptions options{.differentiate = false};
    if (!inputs.empty() && !op.weighted) options.dtypes = every_dtype;
    op.size = shape;
    if (op.num_inputs() == 0) op.ctx = cpu(0);
    options.inspect = [=](const Hosts&, const Hosts& out) -> std::string {
      if (out[0].dtype != DType::int64 || out[0].shape != shape) return "another dtype or shape";
      for (double v : out[0].values) {
        if (!(v >= 0 && v < double(n))) return "out of range";
        if (op.weighted && v == 0) return "of probability 0";
      }
      const std::set<double> different(out[0].values.begin(), out[0].values.end());
      if (!op.replace && int64_t(different.size()) != out[0].size()) return "a number comes twice";
      return op.replace && out[0].size() > 100 && different.size() < size_t(n - op.weighted) ? "one never comes" : "";
    };
    rows.emplace_back(op, std::move(inputs), Reference(), options);
  };
  const Input weights = constant(in({5}, {0, 0.25, 0.25, 0.25, 0.25}));
  for (const Shape& shape : {Shape(31, 33), Shape(1, 7), Shape(0, 4), Shape()}) {
    choice({.a = 5}, {}, 5, shape), choice({.a = {}}, {constant(in({5}))}, 5, shape);
    choice({.a = 5, .weighted = true}, {weights}, 5, shape);
  }
  choice({.a = {}}, {constant(in({0}))}, 0, {0}), choice({.a = {}}, {constant(in({1}))}, 1, {3});
  choice({.a = 7, .replace = false}, {}, 7, {7}), choice({.a = 7, .replace = false}, {}, 7, {1, 3});
  choice({.a = 5, .replace = false, .weighted = true}, {weights}, 5, {2, 2});
  rows.emplace_back(op::RandomChoice{.a = 0, .size = Shape(3)}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});

  const auto multinomial = [&](op::RandomMultinomial op, std::vector<Input> inputs, int64_t k, const Shape& size) {
    RowOptions options{.differentiate = false};
    if (!size.empty()) op.size = size;
    options.inspect = [=](const Hosts&, const Hosts& out) -> std::string {
      if (out[0].dtype != DType::int64 || out[0].shape != inserted(size, size.ndim(), k))
        return "another dtype or shape";
      for (size_t i = 0; i < out[0].values.size(); i += size_t(k)) {
        double sum = 0;
        for (size_t j = 0; j < size_t(k); ++j) {
          if (out[0][i + j] < 0 || (j == 0 && out[0][i] != 0)) return "of probability 0";
          sum += out[0][i + j];
        }
        if (sum != double(op.n)) return "another number of trials";
      }
      return "";
    };
    rows.emplace_back(op, std::move(inputs), Reference(), options);
  };
  for (const Shape& size : {Shape(3, 5), Shape(1), Shape(0), Shape()}) {
    multinomial({.n = 10}, {constant(in({3}, {0, 0.25, 0.75}))}, 3, size);
    multinomial({.n = 7, .pvals = FloatTuple(0, 0.5, 0.5)}, {}, 3, size),
        multinomial({.n = 0}, {constant(in({3}, {0, 0.25, 0.75}))}, 3, size);
  }
  rows.emplace_back(op::RandomMultinomial{.n = -1, .pvals = FloatTuple(1)}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});

  const auto dirichlet = [&](const Shape& size, const Shape& alpha, Fill fill) {
    RowOptions options{.differentiate = false};
    options.inspect = [=](const Hosts& in, const Hosts& out) -> std::string {
      Shape to = size;
      for (int64_t d : alpha) to.push_back(d);
      if (out[0].dtype != in[0].dtype || out[0].shape != to) return "another dtype or shape";
      for (size_t i = 0; i < out[0].values.size(); i += size_t(alpha.back())) {
        double sum = 0;
        for (size_t j = 0; j < size_t(alpha.back()); ++j) {
          if (!(out[0][i + j] >= 0)) return "negative";
          sum += out[0][i + j];
        }
        if (std::abs(sum - 1) > 0.02) return "the sum is " + std::to_string(sum);
      }
      return "";
    };
    rows.emplace_back(op::RandomDirichlet{.size = size}, std::vector{in(alpha, fill)}, Reference(), options);
  };
  dirichlet({31}, {3}, Fill::positive), dirichlet({}, {1, 5}, Fill::above_one), dirichlet({2}, {3, 7}, Fill::positive);
  dirichlet({0}, {2}, Fill::positive), dirichlet({}, {0, 2}, Fill::positive);
}

}  // namespace

Rows random_rows() {
  Rows rows;
  draw_rows(rows);
  distribution_rows(rows);
  whole_numbers(rows);
  return rows;
}

Rows density_rows() {
  Rows rows;
  numpy_rows(rows);
  density_rows<Distribution::normal>(rows, Fill::normal, Fill::normal, Fill::positive);
  density_rows<Distribution::uniform>(rows, Fill::unit, Fill::unit, Fill::above_one);
  density_rows<Distribution::gamma>(rows, Fill::positive, Fill::positive, Fill::positive);
  density_rows<Distribution::exponential>(rows, Fill::positive, Fill::positive, Fill::positive);
  density_rows<Distribution::poisson>(rows, Fill::integers, Fill::positive, Fill::positive);
  density_rows<Distribution::negative_binomial>(rows, Fill::integers, Fill::positive, Fill::unit);
  density_rows<Distribution::generalized_negative_binomial>(rows, Fill::integers, Fill::positive, Fill::positive);
  dirichlet_rows(rows);
  return rows;
}

}  // namespace kaon::test
