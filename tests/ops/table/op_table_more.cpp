// Rows of outputs with a built-in gradient, comparisons and reshapes of NumPy's front end, and draws of whole numbers.
#include <algorithm>
#include <cmath>
#include <set>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

void built_in_gradients(Rows& rows) {
  const auto svm = [&](const op::SVMOutput& op, const Shape& shape) {
    RowOptions options{.loosen = 2};
    options.gradient = [=](const Hosts& in, const Hosts&) {
      return Hosts{generate(shape, [&](const Shape& p) {
        const double s = in[1][size_t(p[0])] == double(p[1]) ? 1 : -1, reached = s * in[0].at(p);
        const double r = op.regularization_coefficient;
        return op.use_linear ? (reached < op.margin ? -r * s : 0) : -2 * r * s * std::max(0.0, op.margin - reached);
      })};
    };
    Input label = in(Shape(shape[0]), Fill::integers);
    label.high = double(shape[1]);
    rows.emplace_back(
        op, std::vector{in(shape), constant(label)}, [](const Hosts& in) { return in[0]; }, options);
  };
  for (bool linear : {false, true}) {
    svm({.use_linear = linear}, {5, 3}), svm({.margin = 0.7, .use_linear = linear}, {1, 7});
    svm({.regularization_coefficient = 0.25, .use_linear = linear}, {0, 4});
  }
  const auto sparse = [&](const op::IdentityAttachKLSparseReg& op, const Shape& shape, bool training) {
    const auto averages = [=](const Hosts& in) {
      Host m = in[1];
      for (int64_t j = 0; training && shape[0] > 0 && j < shape[1]; ++j) {
        double mean = 0;
        for (int64_t i = 0; i < shape[0]; ++i) mean += in[0].at({i, j}) / double(shape[0]);
        m.at(Shape(j)) = op.momentum * m.at(Shape(j)) + (1 - op.momentum) * mean;
      }
      return m;
    };
    // a second call while training moves the average again, and its gradient with it
    RowOptions options{
        .loosen = 2, .loosen_gradient = 16, .training = training, .differentiate = !training || op.momentum == 1};
    options.gradient = [=](const Hosts& in, const Hosts& heads) {
      const Host m = averages(in);
      return Hosts{generate(shape, [&](const Shape& p) {
        const double a = m.at(Shape(p[1])), t = op.sparseness_target;
        return heads[0].at(p) + op.penalty * ((1 - t) / (1 - a) - t / a);
      })};
    };
    rows.emplace_back(
        op, std::vector{in(shape), constant(in(Shape(shape[1]), Fill::above_one))},
        [=](const Hosts& in) {
          const Host m = averages(in);
          return Hosts{in[0], m, m};
        },
        options);
  };
  for (bool training : {false, true}) {
    sparse({}, {5, 3}, training),
        sparse({.sparseness_target = 0.25, .penalty = 0.5, .momentum = 0.75}, {1, 7}, training);
    sparse({.penalty = 0.5, .momentum = 1}, {5, 3}, training);
    sparse({}, {0, 4}, training), sparse({.penalty = 0.25}, {3, 0}, training);
  }
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

void reshapes(Rows& rows) {
  const auto add = [&](const auto& op, const Shape& from, const Shape& to) {
    rows.emplace_back(
        op, std::vector{in(from)}, [=](const Hosts& in) { return reshaped(in[0], to); },
        RowOptions{.dtypes = every_dtype});
  };
  add(op::NumpyReshape{.newshape = {2, -1}}, {3, 4}, {2, 6}), add(op::NumpyReshape{.newshape = {7}}, {1, 7}, {7});
  add(op::NumpyReshape{.newshape = {0, 3}}, {0, 5}, {0, 3});
  rows.emplace_back(op::NumpyReshape{.newshape = {6}, .order = {"F"}}, std::vector{in({2, 3})}, Reference(),
                    RowOptions{.refused = true});
  const auto codes = [&](const Shape& from, const Shape& newshape, const Shape& to, bool reverse = false) {
    add(op::NpxReshape{.newshape = newshape, .reverse = reverse}, from, to);
  };
  codes({2, 3, 4}, {-5, -2}, {6, 4}), codes({1, 3, 4}, {-3, -4}, {3, 4}), codes({2, 3}, {-2, -2, -4}, {2, 3});
  codes({8, 3, 3}, {-2, -6, -1, 3, -2}, {8, 1, 3, 3}), codes({8, 3, 3}, {-6, 2, 4, -4}, {2, 4, 3, 3});
  codes({8, 3, 3}, {-4, -1}, {8, 3, 3, 1}), codes({8, 3, 2, 4}, {-1, -5}, {24, 8}, true);
  codes({2, 3, 4}, {-2, -5}, {2, 12}, true), codes({2, 6}, {-4, 2, 3, -6}, {2, 2, 3}, true),
      codes({0, 4}, {0, 2}, {0, 2}), codes(Shape(), Shape(1), Shape(1));
  rows.emplace_back(op::NpxReshape{.newshape = {6}, .order = {"F"}}, std::vector{in({2, 3})}, Reference(),
                    RowOptions{.refused = true});
}

void sparse_embedding(Rows& rows) {
  const auto add = [&](const Shape& data, int64_t rows_of, int64_t columns, op::SparseEmbedding op) {
    op.input_dim = rows_of, op.output_dim = columns;
    rows.emplace_back(
        op, std::vector{index(data, 0, double(rows_of)), in({rows_of, columns})},
        [=](const Hosts& in) {
          return generate(inserted(data, data.ndim(), columns), [&](const Shape& p) {
            return in[1].at({int64_t(in[0].at(without(p, p.ndim() - 1))), p.back()});
          });
        },
        RowOptions{.dtypes = every_dtype});
  };
  add({3, 5}, 4, 3, {}), add({1, 7}, 2, 1, {.sparse_grad = true}), add({0, 4}, 3, 5, {});
  rows.emplace_back(op::SparseEmbedding{.input_dim = 3, .output_dim = 1, .dtype = DType::float16},
                    std::vector{index({2}, {2, 0}), index({3, 1}, {4, 5, 6}, DType::float16)}, [](const Hosts& in) {
                      Host out = generate({2, 1}, [&](const Shape& p) { return in[1][size_t(in[0][size_t(p[0])])]; });
                      out.dtype = DType::float16;
                      return out;
                    });
  rows.emplace_back(op::SparseEmbedding{}, std::vector{in({2}), in({2, 2})}, Reference(), RowOptions{.refused = true});
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

Rows more_rows() {
  Rows rows;
  built_in_gradients(rows);
  comparisons(rows);
  reshapes(rows);
  sparse_embedding(rows);
  whole_numbers(rows);
  return rows;
}

}  // namespace kaon::test
