// Rows of truth, variance, quantiles, counts, and running products and extrema.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Values = std::vector<double>;
using Axes = std::optional<Shape>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

struct Case {
  Shape shape;
  Axes axis{};
  bool keepdims = false;
};

const Case cases[] = {{{3, 5}},
                      {{3, 5}, Shape(0)},
                      {{3, 5}, Shape(-1), true},
                      {{2, 3, 5}, Shape(0, 2)},
                      {{2, 3, 5}, Shape(1), true},
                      {{1, 7}, Shape(0)},
                      {{7}, Shape(0)},
                      {{2, 3}, {}, true},
                      {{2, 1, 3, 2}, Shape(3, 1)},
                      {Shape()}};

// f of the elements over the axes; of no axes, of each element.
template <class F>
Host over(const Host& x, const Axes& axis, bool keepdims, const F& f) {
  if (!axis || !axis->empty()) {
    return reduced(x, axis.value_or(Shape()), keepdims, [&](const Values& v) { return double(f(v)); });
  }
  return generate(x.shape, [&](const Shape& p) { return f(Values{x.at(p)}); });
}

Host typed(Host h, DType t) {
  h.dtype = t;
  return h;
}

double sum(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double product(const Values& v) {
  double p = 1;
  for (double x : v) p *= x;
  return p;
}
double mean(const Values& v) { return sum(v) / double(v.size()); }

void truth_rows(Rows& rows) {
  const auto any = [](const Values& v) {
    return double(std::any_of(v.begin(), v.end(), [](double x) { return x != 0; }));
  };
  const auto all = [](const Values& v) {
    return double(std::all_of(v.begin(), v.end(), [](double x) { return x != 0; }));
  };
  const auto add = [&](const Case& c, const Input& x, uint32_t tried = every_dtype) {
    const RowOptions options{.dtypes = every_dtype, .tried = tried, .differentiate = false};
    rows.emplace_back(
        op::Any{.axis = c.axis, .keepdims = c.keepdims}, std::vector{x},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, any), DType::boolean); }, options);
    rows.emplace_back(
        op::All{.axis = c.axis, .keepdims = c.keepdims}, std::vector{x},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, all), DType::boolean); }, options);
  };
  for (const Case& c : cases) add(c, in(c.shape));
  add({{2, 3}, Shape(1)}, in({2, 3}, {0, 1, 0, 0, 0, 0})), add({{2, 3}, Shape(0)}, in({2, 3}, {1, 1, 0, 1, 0, 0}));
  add({{2, 3}, Shape()}, in({2, 3}, {0, 1, 0, 0, 0, 0})),
      add({{2, 2}, Shape(1)}, in({2, 2}, {nan, 0, -0.0, 0}), floats);
  add({{0, 3}, Shape(0)}, in({0, 3})), add({{3, 0}, Shape(0)}, in({3, 0})), add({Shape()}, in(Shape()));
  add({{3, 130, 2}, Shape(0, 2)}, in({3, 130, 2}, Fill::distinct));
}

void numpy_rows(Rows& rows) {
  const RowOptions every{.dtypes = every_dtype, .loosen = 2}, whole{.dtypes = every_dtype, .differentiate = false};
  const auto wide = [](const Host& x) { return x.dtype == DType::boolean ? DType::int64 : *x.dtype; };
  const auto real = [](const Host& x) { return is_floating(*x.dtype) ? *x.dtype : DType::float32; };
  for (const Case& c : cases) {
    rows.emplace_back(
        op::NumpySum{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, sum), wide(in[0])); }, every);
    rows.emplace_back(
        op::NumpyMean{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, mean), real(in[0])); }, every);
    rows.emplace_back(
        op::NumpyProd{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape, Fill::unit)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, product), wide(in[0])); }, every);
    const auto largest = [](const Values& v) { return std::accumulate(v.begin(), v.end(), v.at(0), larger); };
    const auto smallest = [](const Values& v) { return std::accumulate(v.begin(), v.end(), v.at(0), smaller); };
    rows.emplace_back(
        op::NumpyMax{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape, Fill::distinct)},
        [=](const Hosts& in) { return over(in[0], c.axis, c.keepdims, largest); }, every);
    rows.emplace_back(
        op::NumpyMin{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape, Fill::distinct)},
        [=](const Hosts& in) { return over(in[0], c.axis, c.keepdims, smallest); }, every);
    if (c.axis && c.axis->ndim() > 1) continue;
    const std::optional<int> axis = c.axis ? std::optional<int>(int((*c.axis)[0])) : std::nullopt;
    const auto place = [](bool max) {
      return [max](const Values& v) {
        const auto better = [max](double a, double b) {
          return (max ? a > b : a < b) || std::isnan(a) > std::isnan(b);
        };
        size_t best = 0;
        for (size_t i = 1; i < v.size(); ++i) best = better(v[i], v[best]) ? i : best;
        return double(best);
      };
    };
    rows.emplace_back(
        op::NumpyArgMax{.axis = axis, .keepdims = c.keepdims}, std::vector{in(c.shape)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, place(true)), DType::int64); }, whole);
    rows.emplace_back(
        op::NumpyArgMin{.axis = axis, .keepdims = c.keepdims}, std::vector{in(c.shape)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, place(false)), DType::int64); }, whole);
  }
  rows.emplace_back(op::NumpySum{.axis = Shape(1), .dtype = DType::float64, .initial = 2.5},
                    std::vector{index({0, 3}, 0, 1)},
                    [](const Hosts&) { return typed(zeros(Shape(0)), DType::float64); });
  rows.emplace_back(
      op::NumpySum{.axis = Shape(0), .initial = 2}, std::vector{in({3, 2})},
      [](const Hosts& in) { return over(in[0], Shape(0), false, [](const Values& v) { return 2 + sum(v); }); },
      RowOptions{.dtypes = every_dtype, .tried = numbers, .loosen = 8});
  rows.emplace_back(op::NumpyMean{.axis = Shape(1), .dtype = DType::float64},
                    std::vector{index({2, 3}, {1, 2, 4, 0, 0, 1}, DType::int8)},
                    [](const Hosts& in) { return typed(over(in[0], Shape(1), false, mean), DType::float64); });
  rows.emplace_back(
      op::NumpyMean{.axis = Shape(1)}, std::vector{in({0, 3})},
      [=](const Hosts& in) { return typed(zeros(Shape(0)), real(in[0])); }, every);
  rows.emplace_back(op::NumpyProd{.axis = Shape(0), .dtype = DType::int32, .initial = 3},
                    std::vector{index({3, 2}, 1, 4)}, [](const Hosts& in) {
                      return typed(over(in[0], Shape(0), false, [](const Values& v) { return 3 * product(v); }),
                                   DType::int32);
                    });
  rows.emplace_back(
      op::NumpyProd{.axis = Shape(0)}, std::vector{in({0, 3})},
      [=](const Hosts& in) { return typed(zeros({3}, 1), wide(in[0])); }, every);
  rows.emplace_back(
      op::NumpyMax{.axis = Shape(0), .initial = 1}, std::vector{in({0, 3})}, [](const Hosts&) { return zeros({3}, 1); },
      every);
  rows.emplace_back(
      op::NumpyMin{.axis = Shape(0), .initial = 1}, std::vector{in({0, 3})}, [](const Hosts&) { return zeros({3}, 1); },
      every);
  rows.emplace_back(
      op::NumpyArgMax{.axis = 1}, std::vector{in({0, 3})},
      [](const Hosts&) { return typed(zeros(Shape(0)), DType::int64); }, whole);
  rows.emplace_back(
      op::NumpyArgMin{.axis = 1}, std::vector{in({0, 3})},
      [](const Hosts&) { return typed(zeros(Shape(0)), DType::int64); }, whole);
  rows.emplace_back(op::NumpyMean{.initial = 1}, std::vector{in({3})}, Reference(), RowOptions{.refused = true});
}

void deviation_rows(Rows& rows) {
  const RowOptions every{.dtypes = every_dtype, .loosen = 4, .loosen_gradient = 4};
  const auto variance = [](int ddof) {
    return [ddof](const Values& v) {
      const double m = mean(v);
      double s = 0;
      for (double x : v) s += (x - m) * (x - m);
      return s / std::max(0.0, double(v.size()) - ddof);
    };
  };
  const auto add = [&](const Case& c, const Input& x, int ddof, std::optional<DType> dtype, const RowOptions& options) {
    const auto result = [=](const Host& x) {
      return dtype.value_or(is_floating(*x.dtype) ? *x.dtype : DType::float32);
    };
    rows.emplace_back(
        op::Var{.axis = c.axis, .dtype = dtype, .ddof = ddof, .keepdims = c.keepdims}, std::vector{x},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, variance(ddof)), result(in[0])); },
        options);
    rows.emplace_back(
        op::Std{.axis = c.axis, .dtype = dtype, .ddof = ddof, .keepdims = c.keepdims}, std::vector{x},
        [=](const Hosts& in) {
          return typed(over(in[0], c.axis, c.keepdims, [&](const Values& v) { return std::sqrt(variance(ddof)(v)); }),
                       result(in[0]));
        },
        options);
  };
  RowOptions flat = every;
  flat.differentiate = false;
  for (const Case& c : cases) {
    const bool is_one = c.shape.empty() || c.shape[0] == 1 || c.shape == Shape(2, 1, 3, 2);
    add(c, in(c.shape), 0, {}, is_one ? flat : every);
    if (!is_one) add(c, in(c.shape), 1, {}, every);
  }
  add({{3, 4}, Shape(1)}, index({3, 4}, -3, 5, DType::int32), 1, DType::float64, {});
  add({{2, 3}, Shape()}, in({2, 3}), 0, {}, flat), add({{0, 3}, Shape(1)}, in({0, 3}), 0, {}, every);
  // far from 0, where a difference of squares would leave nothing
  add({{3}}, index({3}, {30000001, 30000002, 30000003}, DType::float64), 0, {}, {});

  const auto log_sum = [](const Values& v) {
    double s = 0;
    for (double x : v) s += std::exp(x);
    return std::log(s);
  };
  for (const Case& c : cases) {
    rows.emplace_back(
        op::LogSumExp{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape)},
        [=](const Hosts& in) { return over(in[0], c.axis, c.keepdims, log_sum); }, RowOptions{.loosen = 2});
  }
  rows.emplace_back(op::LogSumExp{.axis = Shape()}, std::vector{in({3, 2})}, [](const Hosts& in) { return in[0]; });
  rows.emplace_back(op::LogSumExp{.axis = Shape(1)}, std::vector{in({2, 0})},
                    [](const Hosts&) { return zeros({2}, -inf); });
  RowOptions none{};
  none.gradient = [](const Hosts&, const Hosts&) { return Hosts{zeros({1, 3})}; };
  rows.emplace_back(
      op::LogSumExp{.axis = Shape(1)}, std::vector{in({1, 3}, {-inf, -inf, -inf})},
      [=](const Hosts& in) { return over(in[0], Shape(1), false, log_sum); }, none);
}

double quantile_of(Values v, double q, Interpolation kind) {
  if (std::any_of(v.begin(), v.end(), [](double x) { return std::isnan(x); }) || !(q >= 0 && q <= 1)) return nan;
  std::sort(v.begin(), v.end());
  const double at = q * double(v.size() - 1), low = std::floor(at), part = at - low;
  const double a = v[size_t(low)], b = v[std::min(size_t(low) + 1, v.size() - 1)];
  switch (kind) {
    case Interpolation::lower: return a;
    case Interpolation::higher: return part > 0 ? b : a;
    case Interpolation::nearest: return part >= 0.5 ? b : a;
    case Interpolation::midpoint: return part > 0 && a != b ? a + (b - a) * 0.5 : a;
    default: return part > 0 && a != b ? a + (b - a) * part : a;
  }
}

// The mean of the elements in the middle, as NumPy's.
double median_of(const Values& v) {
  const double low = quantile_of(v, 0.5, Interpolation::lower), high = quantile_of(v, 0.5, Interpolation::higher);
  return low == high ? low : (low + high) / 2;
}

void quantile_rows(Rows& rows) {
  const RowOptions every{.dtypes = every_dtype};
  const auto real = [](const Host& x) { return x.dtype == DType::float64 ? DType::float64 : DType::float32; };
  for (const Case& c : cases) {
    rows.emplace_back(
        op::Median{.axis = c.axis, .keepdims = c.keepdims}, std::vector{in(c.shape, Fill::distinct)},
        [=](const Hosts& in) { return typed(over(in[0], c.axis, c.keepdims, median_of), real(in[0])); }, every);
  }
  for (Interpolation kind : {Interpolation::higher, Interpolation::linear, Interpolation::lower,
                             Interpolation::midpoint, Interpolation::nearest}) {
    for (const Case& c : cases) {
      for (double q : {0.0, 0.3, 0.5, 1.0}) {
        if ((q == 0 || q == 1) && c.shape != Shape(3, 5)) continue;
        const auto f = [=](const Values& v) { return quantile_of(v, q, kind); };
        const Reference reference = [=](const Hosts& in) {
          return typed(over(in[0], c.axis, c.keepdims, f), real(in[0]));
        };
        const std::vector<Input> data{in(c.shape, Fill::distinct)};
        rows.emplace_back(op::Quantile{.q = q, .axis = c.axis, .interpolation = kind, .keepdims = c.keepdims}, data,
                          reference, every);
        rows.emplace_back(
            op::Percentile{.axis = c.axis, .interpolation = kind, .keepdims = c.keepdims, .q_scalar = 100 * q}, data,
            reference, every);
      }
      const Values list{0.25, 0.9, -0.5, 1, 0.6};
      const bool has_axes = c.keepdims || (c.axis && c.axis->ndim() < c.shape.ndim());
      const auto lists = [=](double scale) -> Reference {
        return [=](const Hosts& in) {
          Host all;
          for (size_t i = 0; i < list.size(); ++i) {
            const Host one = over(in[0], c.axis, c.keepdims,
                                  [&](const Values& v) { return quantile_of(v, in[1][i] / scale, kind); });
            all.shape = has_axes ? inserted(one.shape, 0, int64_t(list.size())) : Shape(list.size());
            all.values.insert(all.values.end(), one.values.begin(), one.values.end());
          }
          return typed(all, real(in[0]));
        };
      };
      const RowOptions fixed{.dtypes = every_dtype, .differentiate = false};  // the reference has NaN
      Values percent = list;
      for (double& v : percent) v *= 100;
      rows.emplace_back(op::Quantile{.axis = c.axis, .interpolation = kind, .keepdims = c.keepdims},
                        std::vector{in(c.shape, Fill::distinct), index({5}, list, DType::float64)}, lists(1), fixed);
      rows.emplace_back(op::Percentile{.axis = c.axis, .interpolation = kind, .keepdims = c.keepdims},
                        std::vector{in(c.shape, Fill::distinct), index({5}, percent, DType::float64)}, lists(100),
                        fixed);
    }
  }
  rows.emplace_back(
      op::Quantile{.axis = Shape(1)}, std::vector{in({3, 5}, Fill::distinct), index(Shape(), {0.75})},
      [=](const Hosts& in) {
        const auto f = [&](const Values& v) { return quantile_of(v, in[1][0], Interpolation::linear); };
        return typed(over(in[0], Shape(1), false, f), real(in[0]));
      },
      every);
  for (double q : {0.25, 1.0}) {  // NaN anywhere, infinities between which nothing lies
    rows.emplace_back(
        op::Quantile{.q = q, .axis = Shape(1)},
        std::vector{constant(in({3, 4}, {1, nan, 2, 3, inf, inf, inf, 1, -inf, 2, 3, 4}))},
        [=](const Hosts& in) {
          const auto f = [=](const Values& v) { return quantile_of(v, q, Interpolation::lower); };
          return typed(over(in[0], Shape(1), false, f), real(in[0]));
        },
        RowOptions{.dtypes = every_dtype, .tried = q == 1 ? floats : 0, .differentiate = false});
  }
  rows.emplace_back(
      op::Quantile{.q = 0.5, .axis = Shape(1)}, std::vector{in({0, 3})},
      [=](const Hosts& in) { return typed(zeros(Shape(0)), real(in[0])); }, every);
  rows.emplace_back(
      op::Percentile{.axis = Shape(1), .q_scalar = 50}, std::vector{in({0, 3})},
      [=](const Hosts& in) { return typed(zeros(Shape(0)), real(in[0])); }, every);
  rows.emplace_back(
      op::Median{.axis = Shape(1)}, std::vector{in({0, 3})},
      [=](const Hosts& in) { return typed(zeros(Shape(0)), real(in[0])); }, every);
  rows.emplace_back(op::Quantile{.q = 1.5}, std::vector{in({3})}, Reference(), RowOptions{.refused = true});
}

void histogram_rows(Rows& rows) {
  const auto counted = [](const Host& x, const Values& edges) {
    Host counts = typed(zeros(Shape(edges.size() - 1)), DType::int64);
    for (double v : x.values) {
      for (size_t i = 0; i + 1 < edges.size(); ++i) {
        const bool last = i + 2 == edges.size();
        if (v >= edges[i] && (v < edges[i + 1] || (last && v == edges[i + 1]))) counts.values[i] += 1;
      }
    }
    return counts;
  };
  const auto even = [&](const Input& x, int bins, double low, double high) {
    rows.emplace_back(
        op::Histogram{.bin_cnt = bins, .range = ops::Interval{low, high}}, std::vector{x},
        [=](const Hosts& in) {
          Values edges;
          const double extra = low == high ? 0.5 : 0;
          for (int i = 0; i <= bins; ++i) edges.push_back(low - extra + (high - low + 2 * extra) * i / bins);
          return Hosts{counted(in[0], edges), {Shape(bins + 1), edges}};
        },
        RowOptions{.dtypes = numbers, .differentiate = false});
  };
  even(in({3, 5}), 3, 0, 6), even(in({1, 7}), 1, -2, 2), even(in({129}), 5, 0, 10), even(in({0, 4}), 2, 0, 2);
  even(in(Shape()), 2, 0, 4);
  const auto given = [&](const Input& x, const Values& edges) {
    rows.emplace_back(
        op::Histogram{}, std::vector{x, constant(in(Shape(edges.size()), edges))},
        [=](const Hosts& in) {
          return Hosts{counted(in[0], in[1].values), {in[1].shape, in[1].values}};
        },
        RowOptions{.dtypes = numbers, .differentiate = false});
  };
  given(in({3, 5}), {0, 1, 3, 7}), given(in({1, 7}), {1, 2}), given(in({0}), {0, 1, 1, 2}),
      given(in({2, 65}), {0, 1, 1, 2});
}

void close_rows(Rows& rows) {
  const auto add = [&](const Input& a, const Input& b, double rtol, double atol, bool equal_nan, uint32_t tried) {
    const auto close = [=](double x, double y) {
      if (std::isnan(x) && std::isnan(y)) return equal_nan;
      return x == y || (std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y));
    };
    const RowOptions options{.dtypes = numbers, .tried = tried, .differentiate = false};
    rows.emplace_back(
        op::IsClose{.rtol = rtol, .atol = atol, .equal_nan = equal_nan}, std::vector{a, b},
        [=](const Hosts& in) {
          const Host y = broadcasting([=](double x, double y, DType) { return double(close(x, y)); })(in)[0];
          return typed(y, DType::boolean);
        },
        options);
    rows.emplace_back(
        op::AllClose{.rtol = float(rtol), .atol = float(atol), .equal_nan = equal_nan}, std::vector{a, b},
        [=](const Hosts& in) {
          const Host y = broadcasting([=](double x, double y, DType) { return double(close(x, y)); })(in)[0];
          const bool all = std::all_of(y.values.begin(), y.values.end(), [](double v) { return v != 0; });
          return typed(zeros({1}, all), DType::uint8);
        },
        options);
  };
  add(in({3, 5}), in({3, 5}), 1e-5, 1e-8, false, every_dtype);
  add(in({3, 5}), in({5}), 0.5, 0.5, true, every_dtype), add(in({1, 7}), in({3, 1}), 0.25, 1, false, every_dtype);
  add(in({0, 3}), in({3}), 0.5, 0.5, true, every_dtype), add(in(Shape()), in(Shape()), 0.5, 0.5, true, every_dtype);
  for (bool equal_nan : {false, true}) {
    add(in({5}, {nan, inf, -inf, inf, 1}), in({5}, {nan, inf, inf, 1, 1}), 0.5, 0.5, equal_nan, floats);
    add(in({2}, {nan, 1}), in({2}, {nan, 1.25}), 0.5, 0.5, equal_nan, floats);
  }
}

void running_rows(Rows& rows) {
  const uint32_t wide = dtype_bit(DType::float32) | dtype_bit(DType::float64) | dtype_bit(DType::int64);
  const auto products = [](const Host& x, int axis) {
    return along(x, axis, [](Values& line) {
      for (size_t i = 1; i < line.size(); ++i) line[i] *= line[i - 1];
    });
  };
  const auto places = [](const Host& x, int axis, bool max) {
    Host y = along(x, axis, [max](Values& line) {
      size_t best = 0;
      const Values from = line;
      for (size_t i = 0; i < line.size(); ++i) {
        const double v = from[i], b = from[best];
        if (std::isnan(v) || (!std::isnan(b) && (max ? v >= b : v <= b))) best = i;
        line[i] = double(best);
      }
    });
    return typed(y, DType::int64);
  };
  const auto extremes = [](const Host& x, int axis, bool max) {
    return along(x, axis, [max](Values& line) {
      for (size_t i = 1; i < line.size(); ++i)
        line[i] = max ? larger(line[i - 1], line[i]) : smaller(line[i - 1], line[i]);
    });
  };
  const std::pair<Shape, int> shapes[] = {{{3, 5}, 0}, {{3, 5}, -1}, {{2, 3, 5}, 1}, {{1, 7}, 1},
                                          {{7}, 0},    {{0, 3}, 0},  {{3, 0}, 0},    {{3, 70}, 0}};
  for (const auto& [shape, axis] : shapes) {
    const Input x = in(shape, Fill::unit), distinct = in(shape, Fill::distinct);
    const int at = axis;
    rows.emplace_back(
        op::ProductScan{.axis = at}, std::vector{x}, [=](const Hosts& in) { return products(in[0], at); },
        RowOptions{.dtypes = wide, .loosen = 4});
    rows.emplace_back(
        op::CumProd{.axis = at}, std::vector{x}, [=](const Hosts& in) { return products(in[0], at); },
        RowOptions{.dtypes = every_dtype, .tried = numbers, .loosen = 4});
    rows.emplace_back(
        op::ProductScanGrad{.axis = at}, std::vector{in(shape), x},
        [=](const Hosts& in) {
          const Shape& s = in[1].shape;
          const int a = at < 0 ? at + s.ndim() : at;
          return generate(s, [&](const Shape& p) {
            double total = 0;
            for (int64_t i = p[a]; i < s[a]; ++i) {
              double others = 1;
              for (int64_t k = 0; k <= i; ++k) {
                if (k != p[a]) others *= in[1].at(with(p, a, k));
              }
              total += in[0].at(with(p, a, i)) * others;
            }
            return total;
          });
        },
        RowOptions{
            .dtypes = dtype_bit(DType::float32) | dtype_bit(DType::float64), .loosen = 4, .differentiate = false});
    for (bool max : {true, false}) {
      rows.emplace_back(
          op::ExtremeScan{.axis = at, .largest = max}, std::vector{in(shape)},
          [=](const Hosts& in) { return places(in[0], at, max); }, RowOptions{.dtypes = wide, .differentiate = false});
      const Reference both = [=](const Hosts& in) { return Hosts{extremes(in[0], at, max), places(in[0], at, max)}; };
      const RowOptions options{.dtypes = numbers};
      if (max) rows.emplace_back(op::CumMax{.axis = at}, std::vector{distinct}, both, options);
      else rows.emplace_back(op::CumMin{.axis = at}, std::vector{distinct}, both, options);
    }
  }
  // one zero and two, a NaN, ties
  rows.emplace_back(
      op::ProductScan{.axis = 1}, std::vector{in({2, 5}, {1, 2, 0, 3, 4, 0, 2, 0, 1, 5})},
      [=](const Hosts& in) { return products(in[0], 1); }, RowOptions{.dtypes = wide});
  rows.emplace_back(
      op::CumMax{.axis = 1}, std::vector{constant(in({2, 5}, {1, 3, 3, nan, 4, 2, 1, 2, 2, 5}))},
      [=](const Hosts& in) {
        return Hosts{extremes(in[0], 1, true), places(in[0], 1, true)};
      },
      RowOptions{.dtypes = numbers, .tried = floats, .differentiate = false});
  rows.emplace_back(
      op::CumProd{}, std::vector{in(Shape(), Fill::nonzero)}, [](const Hosts& in) { return reshaped(in[0], {1}); },
      RowOptions{.dtypes = every_dtype, .tried = numbers});
  rows.emplace_back(
      op::CumProd{}, std::vector{in({2, 3}, Fill::nonzero)},
      [=](const Hosts& in) { return products(reshaped(in[0], {6}), 0); },
      RowOptions{.dtypes = every_dtype, .tried = numbers, .loosen = 4});
  rows.emplace_back(op::CumProd{.axis = 0, .dtype = DType::float64}, std::vector{index({3}, {2, 3, 4}, DType::uint8)},
                    [](const Hosts&) {
                      return Host{.shape = Shape(3), .values = {2, 6, 24}, .dtype = DType::float64};
                    });
  rows.emplace_back(op::CumProd{.axis = 0}, std::vector{index({3}, {1, 0, 1}, DType::boolean)}, [](const Hosts&) {
    return Host{.shape = Shape(3), .values = {1, 0, 0}, .dtype = DType::int64};
  });
}

}  // namespace

Rows statistics_rows() {
  Rows rows;
  truth_rows(rows), numpy_rows(rows), deviation_rows(rows), quantile_rows(rows);
  histogram_rows(rows), close_rows(rows), running_rows(rows);
  return rows;
}

}  // namespace kaon::test
