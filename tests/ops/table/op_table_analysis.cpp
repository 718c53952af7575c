// Rows of NumPy's functions of numbers: rounding, averages, interpolation, norms, inverses, eigenvalues.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/matrices.h"

namespace kaon::test {
namespace {

using Values = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
constexpr uint32_t wide_floats = dtype_bit(DType::float32) | dtype_bit(DType::float64);

Host typed(Host h, DType t) {
  h.dtype = t;
  return h;
}

double sum(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

// f over the axes; without a list over all.
template <class F>
Host over(const Host& x, const std::optional<Shape>& axis, bool keepdims, const F& f) {
  return reduced(x, axis.value_or(Shape()), keepdims, [&](const Values& v) { return double(f(v)); });
}

// --- elements

void element_rows(Rows& rows) {
  const auto around = [&](int decimals, Input x, uint32_t tried) {
    const double unit = std::pow(10.0, std::abs(decimals));
    rows.emplace_back(
        op::Around{.decimals = decimals}, std::vector{x},
        [=](const Hosts& in) {
          Host y = in[0];
          for (double& v : y.values)
            v = decimals >= 0 ? std::nearbyint(v * unit) / unit : std::nearbyint(v / unit) * unit;
          return y;
        },
        RowOptions{.dtypes = numbers, .tried = tried, .loosen = 2, .differentiate = x.fill != Fill::given});
  };
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) around(0, in(shape), numbers);
  around(0, in({8}, {0.5, 1.5, -0.5, -2.5, 2.25, nan, inf, -3}), floats);
  around(-1, in({7}, {15, 25, -15, -25, 14, 96, 0}), numbers & ~unsigned_integers);
  around(-1, in({4}, {15, 25, 14, 96}), numbers), around(-7, in({3}, {15, 25, 96}), integers);
  around(2, in({4}, {1.25, -0.375, 3, 17}), floats), around(3, in({3}, {15, 25, 96}), integers);

  const auto polyval = [&](int64_t n, const Shape& shape) {
    rows.emplace_back(
        op::Polyval{}, std::vector{in(Shape(n)), in(shape, Fill::unit)},
        [=](const Hosts& in) {
          return generate(shape, [&](const Shape& p) {
            double y = 0;
            for (size_t i = 0; i < in[0].values.size(); ++i) y = i == 0 ? in[0][0] : y * in[1].at(p) + in[0][i];
            return y;
          });
        },
        RowOptions{.dtypes = numbers, .loosen = 8, .loosen_gradient = 16});
  };
  polyval(4, {3, 5}), polyval(1, {1, 7}), polyval(0, {3}), polyval(3, {0, 4}), polyval(3, Shape());

  const auto interp = [&](const op::Interp& op, const Shape& shape, const Values& xp) {
    rows.emplace_back(
        op, std::vector{in(shape), constant(in(Shape(xp.size()), xp)), in(Shape(xp.size()))},
        [=](const Hosts& in) {
          return generate(shape, [&](const Shape& p) {
            const double x = in[0].at(p);
            if (std::isnan(x)) return x;
            if (x < xp.front()) return op.left.value_or(in[2][0]);
            if (x >= xp.back()) return x > xp.back() ? op.right.value_or(in[2].values.back()) : in[2].values.back();
            const size_t i = size_t(std::upper_bound(xp.begin(), xp.end(), x) - xp.begin()) - 1;
            return in[2][i] + (x - xp[i]) * (in[2][i + 1] - in[2][i]) / (xp[i + 1] - xp[i]);
          });
        },
        RowOptions{.loosen = 16, .loosen_gradient = 32});
  };
  interp({}, {3, 5}, {-1.5, -0.25, 0.5, 2}), interp({.left = -7, .right = 8}, {1, 7}, {-0.5, 0.25, 0.75});
  interp({}, {0, 4}, {0, 1}), interp({}, Shape(), {-4, 0, 4}), interp({.right = 2}, {5}, {0.125});

  for (bool invert : {false, true}) {
    for (const auto& [shape, others] : {std::pair(Shape(3, 5), 4), {{1, 7}, 1}, {{0, 4}, 3}, {{3}, 0}, {Shape(), 2}}) {
      const Shape x = shape;
      Input element = constant(in(x, Fill::integers)), tests = constant(in(Shape(others), Fill::integers));
      element.high = 4, tests.high = 4;
      rows.emplace_back(
          op::IsIn{.invert = invert}, std::vector{element, tests},
          [=](const Hosts& in) {
            return typed(generate(x,
                                  [&](const Shape& p) {
                                    const Values& v = in[1].values;
                                    return double((std::find(v.begin(), v.end(), in[0].at(p)) != v.end()) != invert);
                                  }),
                         DType::boolean);
          },
          RowOptions{.dtypes = numbers, .differentiate = false});
    }
  }

  const auto ediff = [&](const op::EDiff1d& op, const Shape& shape, std::vector<Input> ends) {
    ends.insert(ends.begin(), in(shape));
    rows.emplace_back(
        op, ends,
        [=](const Hosts& in) {
          Values y;
          const auto put = [&](bool is_array, const std::optional<double>& number, const Host& array) {
            if (is_array) y.insert(y.end(), array.values.begin(), array.values.end());
            else if (number) y.push_back(*number);
          };
          put(op.to_begin_arr_given, op.to_begin_scalar, in[1 % in.size()]);
          for (size_t i = 1; i < in[0].values.size(); ++i) y.push_back(in[0][i] - in[0][i - 1]);
          put(op.to_end_arr_given, op.to_end_scalar, in.back());
          return Host{Shape(y.size()), y};
        },
        RowOptions{.dtypes = numbers, .tried = numbers & ~unsigned_integers});
  };
  ediff({}, {3, 5}, {}), ediff({.to_begin_scalar = 2, .to_end_scalar = -3}, {1, 7}, {}), ediff({}, {0, 4}, {});
  ediff({.to_begin_arr_given = true, .to_end_arr_given = true}, {5}, {in({2}), in({3})}), ediff({}, {1}, {});
  ediff({}, Shape(), {}), ediff({.to_begin_arr_given = true, .to_end_scalar = 1}, {5}, {in({2, 2})});
}

// --- averages

void average_rows(Rows& rows) {
  const auto real_of = [](Host y, const Host& x) {
    return typed(std::move(y), is_floating(*x.dtype) ? *x.dtype : DType::float32);
  };
  const auto average = [&](const op::Average& op, const Shape& shape, std::vector<Input> weights, bool along) {
    weights.insert(weights.begin(), in(shape));
    rows.emplace_back(
        op, weights,
        [=](const Hosts& in) {
          const Host& a = in[0];
          const int at = along ? int((*op.axis)[0]) : 0;
          const Host w = !op.weighted ? zeros(shape, 1)
                         : along      ? generate(shape, [&](const Shape& p) { return in[1].at(Shape(p[at])); })
                                      : in[1];
          const Host products = generate(shape, [&](const Shape& p) { return a.at(p) * w.at(p); });
          Host y = over(products, op.axis, false, sum);
          const Host sums = over(w, op.axis, false, sum);
          for (size_t i = 0; i < y.values.size(); ++i) y.values[i] /= sums[i];
          Hosts out{real_of(y, a)};
          if (!op.returned) return out;
          out.push_back(real_of(along || !op.weighted ? zeros(Shape(1), sums[0]) : sums, a));
          return out;
        },
        RowOptions{.dtypes = every_dtype, .tried = numbers, .loosen = 8, .loosen_gradient = 16});
  };
  average({}, {3, 5}, {in({3, 5}, Fill::positive)}, false);
  average({.axis = Shape(1), .returned = true}, {3, 5}, {in({5}, Fill::positive)}, true);
  average({.axis = Shape(0, 2), .returned = true}, {2, 3, 5}, {in({2, 3, 5}, Fill::positive)}, false);
  average({.axis = Shape(0), .returned = true, .weighted = false}, {1, 7}, {}, false);
  average({}, Shape(), {in(Shape(), Fill::positive)}, false);
  average({.axis = Shape(1)}, {0, 4}, {in({0, 4}, Fill::positive)}, false);
}

template <class Op>
void nan_reduce(Rows& rows, double (*f)(const Values&), uint32_t dtypes) {
  const auto of = [f](const Values& v) {
    Values kept;
    for (double x : v) {
      if (!std::isnan(x)) kept.push_back(x);
    }
    return kept.empty() ? nan : f(kept);
  };
  const auto add = [&](const std::optional<Shape>& axis, bool keepdims, Input x, uint32_t tried) {
    rows.emplace_back(
        Op{.axis = axis, .keepdims = keepdims}, std::vector{x},
        [=](const Hosts& in) { return over(in[0], axis, keepdims, of); },
        RowOptions{.dtypes = dtypes, .tried = tried, .loosen = 4, .loosen_gradient = 8});
  };
  add({}, false, in({3, 5}, Fill::distinct), every_dtype),
      add(Shape(-1), true, in({1, 7}, Fill::distinct), every_dtype);
  add(Shape(0), false, in({2, 3, 5}, Fill::distinct), every_dtype), add({}, false, in(Shape()), every_dtype);
  add(Shape(1), false, in({0, 4}), every_dtype);
  add(Shape(1), false, constant(in({3, 3}, {nan, 1, 4, nan, nan, nan, 2, nan, -inf})), floats);
}

void covariance_rows(Rows& rows) {
  const auto add = [&](const op::Cov& op, const Shape& shape) {
    rows.emplace_back(
        op, std::vector{in(shape)},
        [=](const Hosts& in) {
          const bool is_vector = shape.ndim() == 1;
          const Host x = is_vector ? reshaped(in[0], {1, shape[0]}) : in[0];
          const int along = is_vector || op.rowvar ? 1 : 0;
          const int64_t n = x.shape[along], variables = x.shape[1 - along];
          const auto at = [&](int64_t i, int64_t k) { return along == 1 ? x.at({i, k}) : x.at({k, i}); };
          Host y = generate({variables, variables}, [&](const Shape& p) {
            double a = 0, b = 0, c = 0;
            for (int64_t k = 0; k < n; ++k) a += at(p[0], k) / double(n), b += at(p[1], k) / double(n);
            for (int64_t k = 0; k < n; ++k) c += (at(p[0], k) - a) * (at(p[1], k) - b);
            return c / double(n - op.ddof.value_or(op.bias ? 0 : 1));
          });
          return is_vector ? reshaped(y, {1}) : y;
        },
        RowOptions{.loosen = 16, .loosen_gradient = 32});
  };
  add({}, {3, 5}), add({.rowvar = false}, {5, 3}), add({.bias = true}, {1, 7}), add({.ddof = 2}, {7}), add({}, {0, 4});
}

// --- products and norms

void product_rows(Rows& rows) {
  const auto dot = [&](const Shape& a, const Shape& b, const Shape& out, int64_t n) {
    rows.emplace_back(
        op::NumpyDot{}, std::vector{in(a), in(b)},
        [=](const Hosts& in) {
          if (a.ndim() == 0 || b.ndim() == 0) {
            return generate(out,
                            [&](const Shape& p) { return in[0].at(a.ndim() ? p : a) * in[1].at(b.ndim() ? p : b); });
          }
          return generate(out, [&](const Shape& p) {
            double y = 0;
            for (int64_t k = 0; k < n; ++k) {
              Shape i, j;
              for (int d = 0; d + 1 < a.ndim(); ++d) i.push_back(p[d]);
              for (int d = 0; d + 1 < b.ndim(); ++d) j.push_back(p[a.ndim() - 1 + d]);
              y += in[0].at(inserted(i, a.ndim() - 1, k)) * in[1].at(inserted(j, b.ndim() == 1 ? 0 : b.ndim() - 2, k));
            }
            return y;
          });
        },
        RowOptions{.dtypes = numbers, .loosen = 16, .loosen_gradient = 32});
  };
  dot({3, 5}, {5, 2}, {3, 2}, 5), dot({1, 7}, {7}, {1}, 7), dot({5}, {5}, {1}, 5), dot({0, 3}, {3, 2}, {0, 2}, 3);
  dot({2, 3}, {4, 3, 2}, {2, 4, 2}, 3), dot(Shape(), {3, 2}, {3, 2}, 0), dot({3, 2}, Shape(), {3, 2}, 0);

  const auto cross = [&](int axis, const Shape& a, const Shape& b, const Shape& out) {
    const int at = axis < 0 ? axis + out.ndim() : axis;
    rows.emplace_back(
        op::Cross{.axis = axis}, std::vector{in(a), in(b)},
        [=](const Hosts& in) {
          const auto element = [&](const Host& x, Shape p, int64_t i) {
            p = with(p, at, i);
            Shape q;
            for (int d = out.ndim() - x.shape.ndim(); d < out.ndim(); ++d) {
              q.push_back(x.shape[d - out.ndim() + x.shape.ndim()] == 1 ? 0 : p[d]);
            }
            return x.at(q);
          };
          return generate(out, [&](const Shape& p) {
            const int64_t j = (p[at] + 1) % 3, k = (p[at] + 2) % 3;
            return element(in[0], p, j) * element(in[1], p, k) - element(in[0], p, k) * element(in[1], p, j);
          });
        },
        RowOptions{.dtypes = numbers, .loosen = 8, .loosen_gradient = 16});
  };
  cross(-1, {5, 3}, {3}, {5, 3}), cross(0, {3, 7}, {3, 7}, {3, 7}), cross(-1, {1, 3}, {2, 1, 3}, {2, 1, 3});
  cross(-1, {0, 3}, {3}, {0, 3});
}

void norm_rows(Rows& rows) {
  const auto vector_norm = [](double ord) {
    return [ord](const Values& v) {
      double y = ord == inf ? 0 : ord == -inf ? inf : 0;
      for (double x : v) {
        const double a = std::abs(x);
        y = ord == inf    ? larger(y, a)
            : ord == -inf ? smaller(y, a)
                          : y + (ord == 0 ? double(a != 0) : std::pow(a, ord));
      }
      return ord == 0 || std::isinf(ord) ? y : std::pow(y, 1 / ord);
    };
  };
  const RowOptions options{.loosen = 8, .loosen_gradient = 32};
  for (double ord : {1.0, 2.0, inf, -inf, 0.0, 3.0, -1.0}) {
    for (bool keepdims : {false, true}) {
      for (const auto& [shape, axis] : {std::pair(Shape(3, 5), Shape(1)), {{1, 7}, Shape(-1)}, {{2, 3, 5}, Shape(0)}}) {
        const Shape along = axis;
        rows.emplace_back(
            op::LinalgNorm{.ord = ord, .axis = along, .keepdims = keepdims}, std::vector{in(shape, Fill::distinct)},
            [=](const Hosts& in) { return over(in[0], along, keepdims, vector_norm(ord)); }, options);
      }
    }
    rows.emplace_back(
        op::LinalgNorm{.ord = ord}, std::vector{in({5}, Fill::distinct)},
        [=](const Hosts& in) { return over(in[0], {}, false, vector_norm(ord)); }, options);
  }
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(2, 3, 2), Shape()}) {
    rows.emplace_back(
        op::LinalgNorm{}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return over(in[0], {}, false, vector_norm(2)); }, options);
  }
  rows.emplace_back(
      op::LinalgNorm{.axis = Shape(0, 2), .keepdims = true}, std::vector{in({2, 3, 5})},
      [=](const Hosts& in) { return over(in[0], Shape(0, 2), true, vector_norm(2)); }, options);
  for (double ord : {1.0, -1.0, inf, -inf}) {
    const bool columns = std::abs(ord) == 1;
    const auto extreme = [ord](const Values& v) {
      double y = ord > 0 ? 0 : inf;
      for (double x : v) y = ord > 0 ? larger(y, x) : smaller(y, x);
      return y;
    };
    rows.emplace_back(
        op::LinalgNorm{.ord = ord, .axis = Shape(0, 2), .keepdims = true}, std::vector{in({2, 3, 5}, Fill::distinct)},
        [=](const Hosts& in) {
          const Host sums = over(in[0], Shape(columns ? 0 : 2), true, vector_norm(1));
          return over(sums, Shape(columns ? 2 : 0), true, extreme);
        },
        options);
  }
  // singular values of a matrix whose columns are orthogonal: their lengths
  for (double ord : {2.0, -2.0}) {
    rows.emplace_back(
        op::LinalgNorm{.ord = ord}, std::vector{constant(in({3, 2}, {3, 0, 4, 0, 0, 2}))},
        [=](const Hosts&) {
          return Host{{1}, {ord > 0 ? 5.0 : 2.0}};
        },
        RowOptions{.dtypes = wide_floats, .loosen = 8});
  }
  rows.emplace_back(op::LinalgNorm{.ord = 3}, std::vector{in({3, 2})}, Reference(), RowOptions{.refused = true});

  // as files have them
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(2, 3, 2)}) {
    rows.emplace_back(
        op::NumpyNorm{.flag = -2}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return over(in[0], {}, false, vector_norm(2)); }, options);
    rows.emplace_back(
        op::NumpyNorm{.ord = 3, .axis = Shape(-1), .keepdims = true}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return over(in[0], Shape(-1), true, vector_norm(3)); }, options);
    rows.emplace_back(
        op::NumpyNorm{.axis = Shape(0), .flag = 1}, std::vector{in(shape, Fill::nonzero)},
        [=](const Hosts& in) { return over(in[0], Shape(0), false, vector_norm(2)); }, options);
  }
  rows.emplace_back(
      op::NumpyNorm{.flag = -2}, std::vector{in(Shape(), Fill::nonzero)},
      [=](const Hosts& in) { return over(in[0], {}, false, vector_norm(2)); }, options);
  for (int flag : {0, 2}) {
    rows.emplace_back(
        op::NumpyNorm{.axis = Shape(0, 1), .flag = flag}, std::vector{constant(in({3, 2}, {3, 0, 4, 0, 0, 2}))},
        [=](const Hosts&) {
          return Host{{1}, {flag == 2 ? 7.0 : 5.0}};
        },
        RowOptions{.dtypes = wide_floats, .loosen = 8});
  }
  rows.emplace_back(op::NumpyNorm{.flag = 3}, std::vector{in({3})}, Reference(), RowOptions{.refused = true});
}

// --- matrices

// Diagonal matrices with numbers apart from 0, turned by a permutation of the columns.
Host permuted(const Shape& shape, const Values& values) {
  const int64_t n = shape.back();
  return generate(shape, [&](const Shape& p) {
    const int64_t i = p[p.ndim() - 2], j = p.back();
    return j == (i + 1) % n ? values[size_t(i)] : 0;
  });
}

void matrix_rows(Rows& rows) {
  const RowOptions lapack{.dtypes = wide_floats, .loosen = 200, .loosen_gradient = 2000, .tolerance = 1e-8};
  const auto inverse = [](const Shape& shape, const Values& values, double limit) {
    return [=](const Hosts&) {
      const int64_t n = shape.back();
      return generate(shape, [&](const Shape& p) {
        const int64_t i = p[p.ndim() - 2], j = p.back();
        return i == (j + 1) % n && std::abs(values[size_t(j)]) > limit ? 1 / values[size_t(j)] : 0;
      });
    };
  };
  const Values three{2, -0.5, 4}, one{3};
  for (const auto& [shape, values] : {std::pair(Shape(3, 3), three), {{1, 1, 1}, one}, {{5, 3, 3}, three}}) {
    const Input a = in(shape, permuted(shape, values).values);
    rows.emplace_back(op::PinvScalarRcond{}, std::vector{constant(a)}, inverse(shape, values, 0), lapack);
    rows.emplace_back(op::PinvScalarRcond{.rcond = 0.25}, std::vector{constant(a)}, inverse(shape, values, 1), lapack);
    rows.emplace_back(op::Pinv{}, std::vector{constant(a), constant(in(Shape(), Values{0.25}))},
                      inverse(shape, values, 1), lapack);
  }
  for (const Shape& shape : {Shape(0, 3, 2), Shape(0, 3)}) {
    Shape out = shape;
    std::swap(out[shape.ndim() - 1], out[shape.ndim() - 2]);
    rows.emplace_back(
        op::PinvScalarRcond{}, std::vector{constant(in(shape))}, [=](const Hosts&) { return zeros(out); }, lapack);
    rows.emplace_back(
        op::Pinv{}, std::vector{constant(in(shape)), constant(in(Shape(), Values{0.5}))},
        [=](const Hosts&) { return zeros(out); }, lapack);
  }
  rows.emplace_back(op::PinvScalarRcond{.hermitian = true}, std::vector{in({2, 2})}, Reference(),
                    RowOptions{.refused = true});
  rows.emplace_back(op::Pinv{.hermitian = true}, std::vector{in({2, 2}), in(Shape())}, Reference(),
                    RowOptions{.refused = true});

  const auto tensorinv = [&](int ind, const Shape& shape, const Shape& out, const Values& values) {
    const int64_t n = int64_t(values.size());
    const Input a = in(shape, permuted({n, n}, values).values);
    rows.emplace_back(
        op::TensorInv{.ind = ind}, std::vector{constant(a)},
        [=](const Hosts& in) {
          return reshaped(inverse({n, n}, values, 0)(in), out);
        },
        lapack);
  };
  const Values six{2, -0.5, 4, 1, -3, 0.25};
  tensorinv(2, {2, 3, 6}, {6, 2, 3}, six), tensorinv(1, {6, 3, 2}, {3, 2, 6}, six);
  tensorinv(1, {1, 1}, {1, 1}, one), tensorinv(1, {0, 3, 0}, {3, 0, 0}, {});

  const auto tensorsolve = [&](const Shape& axes, const Shape& a, const Shape& b, const Shape& out,
                               const Values& values) {
    const int64_t n = int64_t(values.size());
    const Host matrix = permuted({n, n}, values);
    const Shape moved = a;
    // the matrix as `a` holds it, its axes in a_axes taken back from the end
    const Host held = axes.empty() ? reshaped(matrix, a) : generate(a, [&](const Shape& p) {
      return matrix.at({p[1] * a[2] + p[2], p[0]});
    });
    rows.emplace_back(
        op::TensorSolve{.a_axes = axes}, std::vector{constant(in(moved, held.values)), in(b)},
        [=](const Hosts& in) {
          return reshaped(generate(Shape(n),
                                   [&](const Shape& p) {
                                     const size_t i = size_t((p[0] + n - 1) % n);
                                     return in[1][i] / values[i];
                                   }),
                          out);
        },
        lapack);
  };
  tensorsolve({}, {2, 3, 6}, {2, 3}, {6}, six), tensorsolve({0}, {6, 2, 3}, {2, 3}, {6}, six);
  tensorsolve({}, Shape(), Shape(), Shape(), one), tensorsolve({}, {1, 1}, {1}, {1}, one),
      tensorsolve({}, {0, 0}, {0}, {0}, {});
}

// Symmetric 2x2 blocks [[a, b], [b, a]] have the values a - b and a + b with the vectors (1, -1) and (1, 1) / sqrt 2.
void eigen_rows(Rows& rows) {
  const double half = std::sqrt(0.5);
  const RowOptions lapack{
      .dtypes = wide_floats | integers, .tried = wide_floats, .loosen = 100, .differentiate = false};
  for (const Word triangle : {Word{"L"}, Word{"U"}}) {
    for (const Shape& batch : {Shape(3), Shape(1), Shape(0), Shape()}) {
      const Shape shape = inserted(inserted(batch, batch.ndim(), 2), batch.ndim() + 1, 2);
      Values a;
      for (int64_t i = 0; i < batch.size(); ++i) {
        // the other triangle is not read
        const double other = 100, b = double(i) + 1;
        const bool lower = triangle == Word{"L"};
        for (double v : {2.0, lower ? other : b, lower ? b : other, 2.0}) a.push_back(v);
      }
      const Input x = constant(in(shape, a));
      const auto values = [=](const Hosts&) {
        return generate(inserted(batch, batch.ndim(), 2), [&](const Shape& p) {
          const double b = (batch.ndim() > 0 ? double(p[0]) : 0) + 1;
          return p.back() == 0 ? 2 - b : 2 + b;
        });
      };
      rows.emplace_back(op::Eigvalsh{.UPLO = triangle}, std::vector{x}, values, lapack);
      RowOptions inspected = lapack;
      inspected.inspect = [=](const Hosts& in, const Hosts& out) -> std::string {
        const Host want = values(in);
        for (size_t i = 0; i < want.values.size(); ++i) {
          if (std::abs(out[0][i] - want[i]) > 1e-4) return "another eigenvalue";
        }
        for (size_t i = 0; i < out[1].values.size(); i += 4) {
          const double* const v = out[1].values.data() + i;
          const bool fits = std::abs(v[0] + v[2]) < 1e-4 && std::abs(v[1] - half) < 1e-4 &&
                            std::abs(v[3] - half) < 1e-4 && std::abs(std::abs(v[0]) - half) < 1e-4;
          if (!fits) return "another eigenvector";
        }
        return "";
      };
      rows.emplace_back(op::Eigh{.UPLO = triangle}, std::vector{x}, Reference(), inspected);
    }
  }
  rows.emplace_back(op::Eigh{.UPLO = {"X"}}, std::vector{in({2, 2})}, Reference(), RowOptions{.refused = true});
  // triangular: the values are the diagonal
  RowOptions real{.dtypes = wide_floats, .loosen = 100, .differentiate = false, .on_gpu = false};
  for (const auto& [shape, n] : {std::pair(Shape(3, 3), 1), {{1, 1, 1}, 1}, {{5, 3, 3}, 5}, {{0, 3, 3}, 0}}) {
    const Shape matrices = shape;
    const int64_t size = matrices.back();
    const Host a = generate(matrices, [&](const Shape& p) {
      const int64_t i = p[p.ndim() - 2], j = p.back();
      return i == j ? double(2 * i + 1) : i < j ? 0.5 : 0;
    });
    const auto values = [=](const Hosts&) {
      return generate(without(matrices, matrices.ndim() - 1),
                      [](const Shape& p) { return 2.0 * double(p.back()) + 1; });
    };
    RowOptions integers_too = real;
    integers_too.dtypes |= integers, integers_too.tried = wide_floats;
    rows.emplace_back(op::Eigvals{}, std::vector{constant(in(matrices, a.values))}, values, integers_too);
    RowOptions inspected = real;
    inspected.inspect = [=](const Hosts& in, const Hosts& out) -> std::string {
      const Host want = values(in);
      for (size_t i = 0; i < want.values.size(); ++i) {
        if (std::abs(out[0][i] - want[i]) > 1e-4) return "another eigenvalue";
      }
      for (int64_t m = 0; m < matrices.size() / std::max<int64_t>(size * size, 1); ++m) {
        const size_t first = size_t(m * size * size);
        for (int64_t k = 0; k < size; ++k) {
          for (int64_t i = 0; i < size; ++i) {
            double product = 0;
            for (int64_t j = 0; j < size; ++j) {
              product += in[0][first + size_t(i * size + j)] * out[1][first + size_t(j * size + k)];
            }
            const double scaled = out[0][size_t(m * size + k)] * out[1][first + size_t(i * size + k)];
            if (std::abs(product - scaled) > 1e-4) return "no eigenvector";
          }
        }
      }
      return "";
    };
    rows.emplace_back(op::Eig{}, std::vector{constant(in(matrices, a.values))}, Reference(), inspected);
  }
}

}  // namespace

Rows analysis_rows() {
  Rows rows;
  element_rows(rows), average_rows(rows);
  nan_reduce<op::NanMean>(
      rows, [](const Values& v) { return sum(v) / double(v.size()); }, floats);
  nan_reduce<op::NanMax>(
      rows, [](const Values& v) { return *std::max_element(v.begin(), v.end()); }, numbers);
  nan_reduce<op::NanMin>(
      rows, [](const Values& v) { return *std::min_element(v.begin(), v.end()); }, numbers);
  covariance_rows(rows), product_rows(rows), norm_rows(rows), matrix_rows(rows), eigen_rows(rows);
  return rows;
}

}  // namespace kaon::test
