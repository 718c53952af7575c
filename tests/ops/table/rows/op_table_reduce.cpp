// Rows of the reductions and their gradients.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Values = std::vector<double>;
using Fold = double (*)(const Values&);

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double add(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double average(const Values& v) { return add(v) / double(v.size()); }
double multiply(const Values& v) {
  double p = 1;
  for (double x : v) p *= x;
  return p;
}
Values numbers_in(Values v) {
  std::erase_if(v, [](double x) { return std::isnan(x); });
  return v;
}
double add_numbers(const Values& v) { return add(numbers_in(v)); }
double multiply_numbers(const Values& v) { return multiply(numbers_in(v)); }
double largest(const Values& v) { return std::accumulate(v.begin(), v.end(), v.at(0), larger); }
double smallest(const Values& v) { return std::accumulate(v.begin(), v.end(), v.at(0), smaller); }

struct Case {
  Shape shape, axis;
  bool keepdims = false, exclude = false;
};

const Case cases[] = {{{3, 5}, {}},
                      {{3, 5}, {0}},
                      {{3, 5}, {1}},
                      {{3, 5}, {-1}, true},
                      {{2, 3, 5}, {0, 2}},
                      {{2, 3, 5}, {1}, true},
                      {{2, 3, 5}, {1}, false, true},
                      {{2, 3, 5}, {-3, 1}, true, true},
                      {{1, 7}, {0}},
                      {{7}, {0}},
                      {{1, 1, 1}, {}, true},
                      {{2, 1, 3, 1, 2}, {1, 3}},
                      {{}, {}}};

Shape excluded(const Case& c) {
  if (!c.exclude || c.axis.empty()) return c.axis;
  Shape rest;
  for (int i = 0; i < c.shape.ndim(); ++i) {
    const bool named =
        std::any_of(c.axis.begin(), c.axis.end(), [&](int64_t a) { return a == i || a + c.shape.ndim() == i; });
    if (!named) rest.push_back(i);
  }
  return rest;
}

// Of bool the sums and products are counted in int64, the means are float32.
template <class T>
Host as_stored(Host y, const Host& x) {
  if (x.dtype == DType::boolean) y.dtype = std::is_same_v<T, op::Mean> ? DType::float32 : DType::int64;
  return y;
}

template <class T>
void reduction(Rows& rows, Fold fold, Fill fill, RowOptions options, bool of_nothing) {
  for (const Case& c : cases) {
    rows.emplace_back(
        T{.axis = c.axis, .keepdims = c.keepdims, .exclude = c.exclude}, std::vector{in(c.shape, fill)},
        [=](const Hosts& in) { return as_stored<T>(reduced(in[0], excluded(c), c.keepdims, fold), in[0]); }, options);
  }
  // nothing along the axis that stays, or along the one that goes
  auto over = [&](const Shape& axis, const Shape& shape) {
    rows.emplace_back(
        T{.axis = axis}, std::vector{in(shape, fill)},
        [=](const Hosts& in) { return as_stored<T>(reduced(in[0], axis, false, fold), in[0]); }, options);
  };
  over({1}, {0, 3});
  if (of_nothing) over({1}, {3, 0}), over({}, {3, 0});
}

const RowOptions any_number{.dtypes = numbers};

// Spreads what belongs to each result over the elements that it comes from: f(results at i, data at i).
template <class F>
Host spread(const Shape& shape, const Shape& axis, const Host& result, F f) {
  Shape kept = shape;
  for (int64_t a : axis) kept[int(a)] = 1;
  const Host r = reshaped(result, kept);
  return generate(shape, [&](const Shape& p) {
    Shape q = p;
    for (int64_t a : axis) q[int(a)] = 0;
    return f(r.at(q), p);
  });
}

void gradient_rows(Rows& rows) {
  struct Spread {
    Shape shape, axis, result;
  };
  const Spread spreads[] = {
      {{3, 5}, {1}, {3}}, {{2, 3, 5}, {0, 2}, {3}}, {{2, 3, 5}, {1}, {2, 1, 5}}, {{1, 7}, {0}, {7}},
      {{0, 4}, {1}, {0}}, {{3, 0}, {1}, {3}},       {{3, 5}, {0, 1}, {1}},       {{}, {}, {1}},
      {{3}, {0}, {}}};
  for (const Spread& s : spreads) {
    for (double scale : {1.0, 0.25}) {
      rows.emplace_back(
          op::SumGrad{.shape = s.shape, .axis = s.axis, .scale = scale}, std::vector{in(s.result)},
          [=](const Hosts& in) {
            return spread(s.shape, s.axis, in[0], [&](double h, const Shape&) { return h * scale; });
          },
          RowOptions{.dtypes = scale == 1 ? every_dtype : floats});
    }
    // `out` is what the forward operator gives for `data`; only then do these mean something
    auto chosen = [=](const Hosts& in) {
      const Host best = spread(s.shape, s.axis, in[2], [](double y, const Shape&) { return y; });
      return spread(s.shape, s.axis, in[0],
                    [&](double h, const Shape& p) { return in[1].at(p) == best.at(p) ? h : 0; });
    };
    rows.emplace_back(op::MaxGrad{.axis = s.axis},
                      std::vector{in(s.result), constant(in(s.shape, Values(size_t(s.shape.size()), 2))),
                                  constant(in(s.result, Values(size_t(s.result.size()), 2)))},
                      chosen);
    rows.emplace_back(op::MaxGrad{.axis = s.axis},
                      std::vector{in(s.result), constant(in(s.shape)), constant(in(s.result, Fill::above_one))},
                      chosen);
    RowOptions first{.differentiate = false};  // not differentiable again
    rows.emplace_back(
        op::NanSumGrad{.axis = s.axis}, std::vector{in(s.result), in(s.shape)},
        [=](const Hosts& in) {
          return spread(s.shape, s.axis, in[0],
                        [&](double h, const Shape& p) { return std::isnan(in[1].at(p)) ? 0 : h; });
        },
        first);
    for (bool skip : {false, true}) {
      rows.emplace_back(
          op::ProdGrad{.axis = s.axis, .skip_nan = skip}, std::vector{in(s.result), in(s.shape)},
          [=](const Hosts& in) {
            return spread(s.shape, s.axis, in[0], [&](double h, const Shape& p) -> double {
              if (skip && std::isnan(in[1].at(p))) return 0;
              double others = 1;
              each(s.shape, [&](const Shape& q) {
                if (skip && std::isnan(in[1].at(q))) return;
                bool same_result = p != q;
                for (int i = 0; i < p.ndim(); ++i) {
                  const bool gone = std::find(s.axis.begin(), s.axis.end(), i) != s.axis.end();
                  same_result = same_result && (gone || p[i] == q[i]);
                }
                if (same_result) others *= in[1].at(q);
              });
              return h * others;
            });
          },
          first);
    }
    for (int ord : {1, 2}) {
      rows.emplace_back(op::NormGrad{.ord = ord, .axis = s.axis},
                        std::vector{in(s.result), in(s.shape, Fill::nonzero), in(s.result, Fill::positive)},
                        [=](const Hosts& in) {
                          const Host share = spread(s.shape, s.axis, in[2], [](double y, const Shape&) { return y; });
                          return spread(s.shape, s.axis, in[0], [&](double h, const Shape& p) {
                            const double x = in[1].at(p);
                            return ord == 1 ? h * (x > 0 ? 1 : x < 0 ? -1 : x) : h * x / share.at(p);
                          });
                        });
    }
  }
}

void index_of_rows(Rows& rows) {
  auto first_best = [](bool max) {
    return [max](const Values& v) {
      auto better = [max](double a, double b) { return (max ? a > b : a < b) || std::isnan(a) > std::isnan(b); };
      size_t best = 0;
      for (size_t i = 1; i < v.size(); ++i) best = better(v[i], v[best]) ? i : best;
      return double(best);
    };
  };
  auto search = [&](auto op, bool max, const Shape& shape) {
    const Shape axes = op.axis ? Shape(*op.axis) : Shape();
    const bool keep = op.keepdims;
    auto f = first_best(max);
    rows.emplace_back(
        op, std::vector{in(shape)},
        [=](const Hosts& in) {
          Host y = reduced(in[0], axes, keep, f);
          y.dtype = in[0].dtype == DType::boolean ? DType::float32 : in[0].dtype;
          return y;
        },
        RowOptions{.dtypes = every_dtype});
  };
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(2, 3, 4)}) {
    search(op::ArgMax{}, true, shape), search(op::ArgMin{}, false, shape);
    search(op::ArgMax{.axis = 0}, true, shape), search(op::ArgMin{.axis = 0}, false, shape);
    search(op::ArgMax{.axis = -1, .keepdims = true}, true, shape),
        search(op::ArgMin{.axis = -1, .keepdims = true}, false, shape);
  }
  search(op::ArgMax{}, true, {}), search(op::ArgMin{}, false, {});
  search(op::ArgMax{.axis = 1}, true, {0, 3}), search(op::ArgMin{.axis = 1}, false, {0, 3});
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
    auto f = first_best(true);
    rows.emplace_back(
        op::ArgMaxChannel{}, std::vector{in(shape)},
        [=](const Hosts& in) {
          Host y = reduced(in[0], {1}, false, f);
          y.dtype = in[0].dtype == DType::boolean ? DType::float32 : in[0].dtype;
          return y;
        },
        RowOptions{.dtypes = every_dtype});
  }
  // the last index that int8 holds
  const RowOptions bytes{.dtypes = every_dtype, .tried = dtype_bit(DType::int8) | dtype_bit(DType::uint8)};
  rows.emplace_back(
      op::ArgMax{.axis = 1}, std::vector{in({1, 128})},
      [=](const Hosts& in) {
        Host y = reduced(in[0], {1}, false, first_best(true));
        y.dtype = in[0].dtype == DType::boolean ? DType::float32 : in[0].dtype;
        return y;
      },
      bytes);
}

void norm_rows(Rows& rows) {
  for (int ord : {1, 2}) {
    auto length = [ord](const Values& v) {
      double s = 0;
      for (double x : v) s += ord == 1 ? std::abs(x) : x * x;
      return ord == 1 ? s : std::sqrt(s);
    };
    for (const Case& c : cases) {
      if (c.exclude) continue;
      rows.emplace_back(op::Norm{.ord = ord, .axis = c.axis, .keepdims = c.keepdims},
                        std::vector{in(c.shape, Fill::nonzero)},
                        [=](const Hosts& in) { return reduced(in[0], c.axis, c.keepdims, length); });
    }
    RowOptions wide{};  // the numeric gradient would be one of float32
    wide.gradient = [ord](const Hosts& in, const Hosts& h) {
      return Hosts{generate({3, 5}, [&](const Shape& p) {
        double n = 0;
        for (int i = 0; i < 5; ++i) n += in[0].at({p[0], i}) * in[0].at({p[0], i});
        const double x = in[0].at(p);
        return h[0][size_t(p[0])] * (ord == 1 ? (x > 0 ? 1 : -1) : x / std::sqrt(n));
      })};
    };
    rows.emplace_back(
        op::Norm{.ord = ord, .axis = {1}, .out_dtype = DType::float32}, std::vector{in({3, 5}, Fill::nonzero)},
        [=](const Hosts& in) {
          Host y = reduced(in[0], {1}, false, length);
          y.dtype = DType::float32;
          return y;
        },
        wide);
    for (const Shape& shape : {Shape(0, 3), Shape(3, 0)}) {
      rows.emplace_back(op::Norm{.ord = ord, .axis = {1}}, std::vector{in(shape)},
                        [=](const Hosts& in) { return reduced(in[0], {1}, false, length); });
    }
  }
  rows.emplace_back(op::Norm{.ord = 3}, std::vector{in({3, 5})}, Reference(), RowOptions{.refused = true});
}

}  // namespace

Rows reduce_rows() {
  Rows rows;
  reduction<op::Sum>(rows, add, Fill::normal, {.dtypes = every_dtype}, true);
  reduction<op::Mean>(rows, average, Fill::normal, {.dtypes = floats | dtype_bit(DType::boolean)}, true);
  reduction<op::Prod>(rows, multiply, Fill::nonzero, {.dtypes = every_dtype, .loosen = 2}, true);
  reduction<op::Max>(rows, largest, Fill::distinct, any_number, false);
  reduction<op::Min>(rows, smallest, Fill::distinct, any_number, false);
  reduction<op::NanSum>(rows, add_numbers, Fill::normal, any_number, true);
  reduction<op::NanProd>(rows, multiply_numbers, Fill::nonzero, {.dtypes = numbers, .loosen = 2}, true);
  // not numbers are left out, and get no gradient
  RowOptions real{.dtypes = numbers, .tried = floats};
  const Values holes{1, nan, 2, nan, nan, nan, 3, -4, 5};
  real.gradient = [holes](const Hosts&, const Hosts& heads) {
    return Hosts{generate({3, 3}, [&](const Shape& p) {
      return std::isnan(holes[size_t(p[0] * 3 + p[1])]) ? 0 : heads[0][size_t(p[0])];
    })};
  };
  rows.emplace_back(
      op::NanSum{.axis = {1}}, std::vector{in({3, 3}, holes)},
      [](const Hosts& in) { return reduced(in[0], {1}, false, Fold(add_numbers)); }, real);
  real.gradient = [](const Hosts&, const Hosts& h) {
    return Hosts{{{3, 3}, {2 * h[0][0], 0, h[0][0], 0, 0, 0, -20 * h[0][2], 15 * h[0][2], -12 * h[0][2]}}};
  };
  rows.emplace_back(
      op::NanProd{.axis = {1}}, std::vector{in({3, 3}, holes)},
      [](const Hosts& in) { return reduced(in[0], {1}, false, Fold(multiply_numbers)); }, real);
  // one zero, two zeros
  rows.emplace_back(
      op::Prod{.axis = {1}}, std::vector{in({3, 3}, {1, 0, 2, 0, 3, 0, 3, -4, 5})},
      [](const Hosts& in) { return as_stored<op::Prod>(reduced(in[0], {1}, false, Fold(multiply)), in[0]); },
      RowOptions{.dtypes = every_dtype});
  // every tied element gets the whole gradient
  RowOptions ties{.dtypes = numbers};
  ties.gradient = [](const Hosts&, const Hosts& h) {
    return Hosts{{{2, 3}, {h[0][0], 0, h[0][0], h[0][1], h[0][1], h[0][1]}}};
  };
  rows.emplace_back(
      op::Max{.axis = {1}}, std::vector{in({2, 3}, {2, 1, 2, 3, 3, 3})},
      [](const Hosts& in) { return reduced(in[0], {1}, false, Fold(largest)); }, ties);
  rows.emplace_back(
      op::Min{.axis = {1}}, std::vector{in({2, 3}, {1, 2, 1, 3, 3, 3})},
      [](const Hosts& in) { return reduced(in[0], {1}, false, Fold(smallest)); }, ties);
  norm_rows(rows);
  index_of_rows(rows);
  gradient_rows(rows);
  return rows;
}

}  // namespace kaon::test
