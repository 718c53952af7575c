// Rows of the operators of linear algebra: products, factorisations, triangles.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/matrices.h"

namespace kaon::test {
namespace {

constexpr uint32_t both_floats = dtype_bit(DType::float32) | dtype_bit(DType::float64);
const RowOptions moves{.dtypes = every_dtype}, any_number{.dtypes = numbers};
const RowOptions factors{.dtypes = both_floats, .loosen = 16, .loosen_gradient = 16};

Shape with_last(const Shape& shape, int64_t rows, int64_t columns) {
  Shape out = shape;
  out[out.ndim() - 2] = rows, out[out.ndim() - 1] = columns;
  return out;
}

// Matrices far from singular, with unlike eigenvalues and singular values.
Input regular(const Shape& shape, bool is_symmetric = false, double diagonal = 2) {
  std::vector<double> values;
  for (int64_t b = 0; b < batch_of(shape); ++b) {
    Matrix a(shape[shape.ndim() - 2], shape.back());
    for (int64_t i = 0; i < a.rows; ++i) {
      for (int64_t j = 0; j < a.columns; ++j) {
        a(i, j) = 0.75 * std::sin(1.0 + double(7 * i + 3 * j + 5 * b)) + (i == j ? diagonal + double(i) : 0);
      }
    }
    if (is_symmetric) a = symmetric(a);
    values.insert(values.end(), a.values.begin(), a.values.end());
  }
  return in(shape, values);
}

// The gradients of sum(heads * outputs) by central differences. For operators that read one triangle of a symmetric
// matrix, and whose gradient is that of the symmetric function.
std::function<Hosts(const Hosts&, const Hosts&)> numeric_gradient(const Reference& f) {
  return [=](const Hosts& inputs, const Hosts& heads) {
    const auto value = [&](const Hosts& at) {
      const Hosts outputs = f(at);
      double sum = 0;
      for (size_t i = 0; i < outputs.size(); ++i) {
        for (size_t k = 0; k < outputs[i].values.size(); ++k) sum += heads[i][k] * outputs[i][k];
      }
      return sum;
    };
    constexpr double step = 1e-5;
    Host gradient{inputs[0].shape, inputs[0].values};
    for (size_t k = 0; k < gradient.values.size(); ++k) {
      Hosts above = inputs, below = inputs;
      above[0].values[k] += step, below[0].values[k] -= step;
      gradient.values[k] = (value(above) - value(below)) / (2 * step);
    }
    return Hosts{gradient};
  };
}

void gemm_rows(Rows& rows) {
  // the matrices lie along `axis` and the last one: with that axis moved they are the last two
  auto gemm = [&](const Shape& a, const Shape& b, op::LinalgGemm op, bool with_c, RowOptions options = {}) {
    const int axis = op.axis < 0 ? op.axis + a.ndim() : op.axis, last = a.ndim() - 1;
    const bool ta = op.transpose_a, tb = op.transpose_b;
    const Shape out = with(with(a, axis, a[ta ? last : axis]), last, b[tb ? axis : last]);
    const int64_t summed = a[ta ? axis : last];
    std::vector inputs{in(a), in(b)};
    if (with_c) inputs.push_back(in(out));
    const Reference reference = [=](const Hosts& in) {
      return generate(out, [&](const Shape& p) {
        double sum = 0;
        for (int64_t k = 0; k < summed; ++k) {
          Shape x = p, y = p;
          x[axis] = ta ? k : p[axis], x[last] = ta ? p[axis] : k;
          y[axis] = tb ? p[last] : k, y[last] = tb ? k : p[last];
          sum += in[0].at(x) * in[1].at(y);
        }
        return op.alpha * sum + (with_c ? op.beta * in[2].at(p) : 0);
      });
    };
    if (with_c) {
      rows.emplace_back(op, inputs, reference, options);
    } else {
      rows.emplace_back(op::LinalgGemm2{.transpose_a = ta, .transpose_b = tb, .alpha = op.alpha, .axis = op.axis},
                        inputs, reference, options);
    }
  };
  const RowOptions rough{.loosen = 4, .loosen_gradient = 4};
  for (bool with_c : {false, true}) {
    gemm({3, 5}, {5, 7}, {}, with_c, rough);
    gemm({5, 3}, {5, 2}, {.transpose_a = true, .alpha = -0.5, .beta = 2}, with_c, rough);
    gemm({2, 3, 5}, {2, 7, 5}, {.transpose_b = true, .alpha = 2}, with_c, rough);
    gemm({1, 5, 1}, {1, 3, 5}, {.transpose_a = true, .transpose_b = true}, with_c, rough);
    gemm({3, 2, 5}, {5, 2, 4}, {.axis = 0}, with_c, rough);
    gemm({5, 1, 2, 3}, {4, 1, 2, 5}, {.transpose_a = true, .transpose_b = true, .axis = -4}, with_c, rough);
    gemm({2, 5, 3, 4}, {2, 4, 3, 7}, {.beta = 0.5, .axis = 1}, with_c, rough);
    gemm({0, 3, 2}, {0, 2, 4}, {}, with_c), gemm({2, 3, 0}, {2, 0, 4}, {.alpha = 2}, with_c);
    gemm({3, 0}, {0, 0}, {}, with_c);
  }
  gemm({3, 5}, {5, 2}, {.beta = 0}, true, rough);

  auto syrk = [&](const Shape& a, const op::LinalgSyrk& op) {
    const int64_t n = op.transpose ? a.back() : a[a.ndim() - 2];
    rows.emplace_back(
        op, std::vector{in(a)},
        [=](const Hosts& in) {
          return batch_of_matrices(with_last(a, n, n), [&](int64_t i) {
            const Matrix x = matrix_of(in[0], i);
            return op.alpha * (op.transpose ? transposed(x) * x : x * transposed(x));
          });
        },
        RowOptions{.loosen = 4, .loosen_gradient = 4});
  };
  syrk({3, 5}, {}), syrk({2, 5, 3}, {.transpose = true, .alpha = 0.5}), syrk({1, 1, 7}, {.alpha = -2});
  syrk({0, 3, 2}, {}), syrk({2, 3, 0}, {});
}

// op(A) for A's lower or upper triangle.
Matrix triangle_of(const Matrix& a, bool lower, bool transpose) {
  const Matrix t = lower ? lower_triangle(a) : transposed(lower_triangle(transposed(a)));
  return transpose ? transposed(t) : t;
}

void triangular_rows(Rows& rows) {
  auto both = [&](const Shape& b, const op::LinalgTrmm& op) {
    const int64_t n = op.rightside ? b.back() : b[b.ndim() - 2];
    const Shape a = with_last(b, n, n);
    const auto reference = [=](bool solves) -> Reference {
      return [=](const Hosts& in) {
        return batch_of_matrices(b, [&](int64_t i) {
          Matrix t = triangle_of(matrix_of(in[0], i), op.lower, op.transpose);
          if (solves) t = inverse(t);
          const Matrix x = matrix_of(in[1], i);
          return op.alpha * (op.rightside ? x * t : t * x);
        });
      };
    };
    rows.emplace_back(op, std::vector{in(a), in(b)}, reference(false), RowOptions{.loosen = 4, .loosen_gradient = 4});
    rows.emplace_back(
        op::LinalgTrsm{.transpose = op.transpose, .rightside = op.rightside, .lower = op.lower, .alpha = op.alpha},
        std::vector{regular(a), in(b)}, reference(true), factors);
  };
  for (bool transpose : {false, true}) {
    for (bool rightside : {false, true}) {
      for (bool lower : {false, true}) {
        both({3, 5}, {.transpose = transpose, .rightside = rightside, .lower = lower});
        both({2, 3, 4}, {.transpose = transpose, .rightside = rightside, .lower = lower, .alpha = -1.5});
      }
    }
  }
  both({1, 1, 1}, {}), both({0, 3, 2}, {}), both({2, 0, 3}, {}), both({2, 3, 0}, {.alpha = 2});
  both({2, 1, 7, 3}, {.alpha = 2});
}

void factor_rows(Rows& rows) {
  auto square = [&](const auto& op, const Input& input, Matrix (*f)(const Matrix&), RowOptions options = factors,
                    bool is_symmetric = false) {
    const Reference reference = [=](const Hosts& in) {
      return batch_of_matrices(input.shape, [&](int64_t i) { return f(matrix_of(in[0], i)); });
    };
    if (is_symmetric) options.gradient = numeric_gradient(reference);
    rows.emplace_back(op, std::vector{input}, reference, options);
  };
  for (const Shape& s :
       {Shape(3, 3), Shape(2, 5, 5), Shape(1, 1, 1), Shape(2, 1, 3, 3), Shape(0, 3, 3), Shape(2, 0, 0)}) {
    square(
        op::LinalgPotrf{}, regular(s, true), [](const Matrix& a) { return cholesky_factor(symmetric(a)); }, factors,
        true);
    square(op::LinalgPotri{}, regular(s), [](const Matrix& a) {
      const Matrix l = lower_triangle(a);
      return inverse(l * transposed(l));
    });
    square(
        op::LinalgPotrf{.lower = false}, regular(s, true),
        [](const Matrix& a) { return transposed(cholesky_factor(symmetric(a))); }, factors, true);
    square(op::LinalgPotri{.lower = false}, regular(s), [](const Matrix& a) {
      const Matrix l = lower_triangle(transposed(a));
      return inverse(l * transposed(l));
    });
    square(op::LinalgInverse{}, regular(s), [](const Matrix& a) { return inverse(a); });
    square(
        op::LinalgInverse{}, regular(s, false, 0.75), [](const Matrix& a) { return inverse(a); },
        RowOptions{.dtypes = both_floats, .loosen = 200, .loosen_gradient = 500});
  }

  auto solve = [&](const Shape& a, const Shape& b) {
    const bool vectors = b.ndim() < a.ndim();
    rows.emplace_back(
        op::LinalgSolve{}, std::vector{regular(a), in(b)},
        [=](const Hosts& in) {
          const Shape as_columns = vectors ? inserted(b, -1, 1) : b;
          const Host right = reshaped(in[1], as_columns);
          return reshaped(
              batch_of_matrices(as_columns,
                                [&](int64_t i) { return inverse(matrix_of(in[0], i)) * matrix_of(right, i); }),
              b);
        },
        factors);
  };
  solve({3, 3}, {3, 2}), solve({5, 5}, {5}), solve({2, 3, 3}, {2, 3, 7}), solve({2, 3, 3}, {2, 3}),
      solve({1, 1}, {1, 1});
  solve({0, 3, 3}, {0, 3, 2}), solve({2, 0, 0}, {2, 0, 3}), solve({2, 3, 3}, {2, 3, 0}), solve({2, 2, 3, 3}, {2, 2, 3});

  for (const Shape& s :
       {Shape(3, 3), Shape(2, 5, 5), Shape(1, 1, 1), Shape(2, 1, 2, 2), Shape(0, 3, 3), Shape(2, 0, 0)}) {
    for (double diagonal : {2.0, -1.5}) {
      const Shape out = s.ndim() == 2 ? Shape(1) : without(without(s, -1), -1);
      const auto each_determinant = [=](const Hosts& in, double (*f)(double)) {
        Host all{out};
        for (int64_t i = 0; i < batch_of(s); ++i) all.values.push_back(f(determinant(matrix_of(in[0], i))));
        return all;
      };
      rows.emplace_back(
          op::LinalgDet{}, std::vector{regular(s, false, diagonal)},
          [=](const Hosts& in) { return each_determinant(in, [](double d) { return d; }); }, factors);
      rows.emplace_back(
          op::LinalgSlogdet{}, std::vector{regular(s, false, diagonal)},
          [=](const Hosts& in) {
            return Hosts{each_determinant(in, [](double d) { return double((d > 0) - (d < 0)); }),
                         each_determinant(in, [](double d) { return std::log(std::abs(d)); })};
          },
          factors);
    }
  }
}

void spectral_rows(Rows& rows) {
  const RowOptions rough{.dtypes = both_floats, .loosen = 100, .loosen_gradient = 100, .tolerance = 1e-8};
  for (const Shape& s : {Shape(3, 3), Shape(2, 3, 5), Shape(1, 1, 7), Shape(1, 1), Shape(0, 2, 3), Shape(2, 0, 3)}) {
    const int64_t m = s[s.ndim() - 2];
    rows.emplace_back(
        op::LinalgGelqf{}, std::vector{regular(s)},
        [=](const Hosts& in) {
          return Hosts{
              batch_of_matrices(s, [&](int64_t i) { return reflected(matrix_of(in[0], i)).q; }),
              batch_of_matrices(with_last(s, m, m), [&](int64_t i) { return reflected(matrix_of(in[0], i)).l; })};
        },
        rough);
  }
  for (const Shape& s : {Shape(3, 3), Shape(2, 5, 5), Shape(1, 1, 1), Shape(0, 3, 3), Shape(2, 0, 0)}) {
    const Reference reference = [=](const Hosts& in) {
      const auto of = [&](int64_t i) { return eigen(symmetric(matrix_of(in[0], i))); };
      Host values{without(s, -1)};
      for (int64_t i = 0; i < batch_of(s); ++i) {
        for (double v : of(i).values) values.values.push_back(v);
      }
      return Hosts{batch_of_matrices(s, [&](int64_t i) { return of(i).vectors; }), values};
    };
    RowOptions options = rough;
    options.gradient = numeric_gradient(reference);
    rows.emplace_back(op::LinalgSyevd{}, std::vector{regular(s, true)}, reference, options);
  }
  for (const Shape& s : {Shape(3, 3), Shape(2, 3, 5), Shape(2, 5, 3), Shape(1, 1, 7), Shape(7, 1), Shape(0, 2, 3),
                         Shape(2, 0, 3), Shape(2, 3, 0)}) {
    const int64_t m = s[s.ndim() - 2], n = s.back(), k = std::min(m, n);
    rows.emplace_back(
        op::LinalgSvd{}, std::vector{regular(s)},
        [=](const Hosts& in) {
          const auto of = [&](int64_t i) { return singular(matrix_of(in[0], i)); };
          Host values{with(without(s, -1), s.ndim() - 2, k)};
          for (int64_t i = 0; i < batch_of(s); ++i) {
            for (double v : of(i).values) values.values.push_back(v);
          }
          return Hosts{batch_of_matrices(with_last(s, m, k), [&](int64_t i) { return of(i).ut; }), values,
                       batch_of_matrices(with_last(s, k, n), [&](int64_t i) { return of(i).v; })};
        },
        rough);
  }
}

// Whether element (i, j) of a square matrix is in the triangle.
bool is_in_triangle(int64_t i, int64_t j, int offset, bool lower) {
  return offset < 0 || (offset == 0 && lower) ? j - i <= offset : j - i >= offset;
}

void packed_rows(Rows& rows) {
  auto diagonal = [&](const Shape& leading, int64_t m, int offset) {
    const int64_t n = m + std::abs(offset);
    Shape packed = leading, full = leading;
    packed.push_back(m), full.push_back(n), full.push_back(n);
    rows.emplace_back(
        op::LinalgExtractDiag{.offset = offset}, std::vector{in(full)},
        [=](const Hosts& in) {
          return generate(packed, [&](const Shape& p) {
            Shape q = p;
            q[q.ndim() - 1] = p[p.ndim() - 1] - std::min(offset, 0), q.push_back(p[p.ndim() - 1] + std::max(offset, 0));
            return in[0].at(q);
          });
        },
        moves);
    rows.emplace_back(
        op::LinalgMakeDiag{.offset = offset}, std::vector{in(packed)},
        [=](const Hosts& in) {
          return generate(full, [&](const Shape& p) {
            const int64_t i = p[p.ndim() - 2], j = p[p.ndim() - 1];
            return j - i == offset ? in[0].at(with(without(p, -1), p.ndim() - 2, std::min(i, j))) : 0;
          });
        },
        moves);
  };
  diagonal({}, 3, 0), diagonal({2}, 3, 2), diagonal({2, 3}, 1, -1), diagonal({1}, 5, -2), diagonal({0}, 3, 0),
      diagonal({2}, 0, 1), diagonal({}, 0, 0);

  auto triangle = [&](const Shape& leading, int64_t m, int offset, bool lower) {
    const int64_t n = m + std::abs(offset);
    Shape packed = leading, full = leading;
    packed.push_back(m * (m + 1) / 2), full.push_back(n), full.push_back(n);
    const bool is_lower = offset < 0 || (offset == 0 && lower);
    const auto in_order = [=](const std::function<void(const Shape&, const Shape&)>& visit) {  // packed, full
      each(packed, [&](const Shape& p) {
        int64_t line = 0, at = p[p.ndim() - 1];  // of rows, or of columns
        while (at > line) at -= ++line;
        Shape q = p;
        q[q.ndim() - 1] = is_lower ? line - offset : at;
        q.push_back(is_lower ? at : line + offset);
        visit(p, q);
      });
    };
    rows.emplace_back(
        op::LinalgExtractTrian{.offset = offset, .lower = lower}, std::vector{in(full)},
        [=](const Hosts& in) {
          Host y = zeros(packed);
          in_order([&](const Shape& q, const Shape& p) { y.at(q) = in[0].at(p); });
          return y;
        },
        moves);
    rows.emplace_back(
        op::LinalgMakeTrian{.offset = offset, .lower = lower}, std::vector{in(packed)},
        [=](const Hosts& in) {
          Host y = zeros(full);
          in_order([&](const Shape& q, const Shape& p) { y.at(p) = in[0].at(q); });
          return y;
        },
        moves);
  };
  for (bool lower : {false, true}) {
    for (int offset : {0, 1, -2}) triangle({}, 3, offset, lower), triangle({2, 3}, 2, offset, lower);
    triangle({1}, 1, 0, lower), triangle({0}, 3, -1, lower), triangle({2}, 0, 1, lower), triangle({1}, 7, 3, lower);
  }

  auto keep = [&](const Shape& s, bool lower) {
    rows.emplace_back(
        op::Triangle{.lower = lower}, std::vector{in(s)},
        [=](const Hosts& in) {
          return generate(s, [&](const Shape& p) {
            return is_in_triangle(p[p.ndim() - 2], p[p.ndim() - 1], 0, lower) ? in[0].at(p) : 0;
          });
        },
        moves);
  };
  for (bool lower : {false, true}) {
    for (const Shape& s : {Shape(3, 3), Shape(2, 3, 5), Shape(1, 5, 3), Shape(1, 1), Shape(0, 2, 2), Shape(2, 0, 3)}) {
      keep(s, lower);
    }
  }

  auto sum_log = [&](const Shape& s) {
    const Shape out = s.ndim() == 2 ? Shape(1) : without(without(s, -1), -1);
    rows.emplace_back(
        op::LinalgSumLogDiag{}, std::vector{in(s, Fill::positive)},
        [=](const Hosts& in) {
          Host all{out};
          for (int64_t i = 0; i < batch_of(s); ++i) {
            const Matrix a = matrix_of(in[0], i);
            double sum = 0;
            for (int64_t k = 0; k < a.rows; ++k) sum += std::log(a(k, k));
            all.values.push_back(sum);
          }
          return all;
        },
        RowOptions{.loosen = 4});
  };
  sum_log({3, 3}), sum_log({2, 5, 5}), sum_log({1, 1, 1}), sum_log({0, 3, 3}), sum_log({2, 1, 7, 7});
}

// The sum of products that subscripts without an ellipsis say; axes of size 1 repeat.
Host einsum(const std::string& subscripts, const Hosts& in) {
  const size_t arrow = subscripts.find("->");
  std::vector<std::string> parts(1);
  for (char c : subscripts.substr(0, arrow)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const std::string output = subscripts.substr(arrow + 2);
  std::map<char, int64_t> sizes;
  std::string labels = output;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t k = 0; k < parts[i].size(); ++k) {
      int64_t& size = sizes.emplace(parts[i][k], 1).first->second;
      if (in[i].shape[int(k)] != 1) size = in[i].shape[int(k)];
      if (labels.find(parts[i][k]) == labels.npos) labels += parts[i][k];
    }
  }
  const auto shape_of = [&](const std::string& of) {
    Shape s;
    for (char c : of) s.push_back(sizes.at(c));
    return s;
  };
  Host y = zeros(output.empty() ? Shape(1) : shape_of(output));
  each(shape_of(labels), [&](const Shape& p) {
    double product = 1;
    for (size_t i = 0; i < parts.size(); ++i) {
      Shape q;
      for (size_t k = 0; k < parts[i].size(); ++k) {
        q.push_back(in[i].shape[int(k)] == 1 ? 0 : p[int(labels.find(parts[i][k]))]);
      }
      product *= in[i].at(q);
    }
    Shape to;
    for (size_t k = 0; k < output.size(); ++k) to.push_back(p[int(k)]);
    y.at(output.empty() ? Shape(0) : to) += product;
  });
  return y;
}

Reference einsum_reference(const std::string& subscripts) {
  return [=](const Hosts& in) { return einsum(subscripts, in); };
}

void einsum_rows(Rows& rows) {
  RowOptions sums = any_number;
  sums.loosen = sums.loosen_gradient = 8;
  // `plain` says the same without an ellipsis or an implicit result
  auto add = [&](const char* subscripts, std::vector<Shape> shapes, const std::string& plain, int optimize = 0) {
    std::vector<Input> inputs;
    for (const Shape& s : shapes) inputs.push_back(in(s));
    rows.emplace_back(op::Einsum{.num_args = int(shapes.size()), .subscripts = {subscripts}, .optimize = optimize},
                      inputs, einsum_reference(plain), sums);
  };
  auto same = [&](const char* subscripts, std::vector<Shape> shapes) {
    add(subscripts, std::move(shapes), subscripts);
  };
  same("ij,jk->ik", {{3, 5}, {5, 7}}), same("ij,kj->ki", {{3, 5}, {2, 5}}), same("ji,jk->ik", {{5, 1}, {5, 7}});
  same("bij,bjk->bik", {{2, 3, 5}, {2, 5, 4}}), same("bij,bkj->kib", {{1, 3, 5}, {1, 2, 5}});
  same("ij->ji", {{3, 5}}), same("ij->ij", {{3, 5}}), same("ij->j", {{3, 5}}), same("ij->", {{3, 5}}),
      same("ii->", {{5, 5}});
  same("ii->i", {{3, 3}}), same("iji->j", {{3, 2, 3}}), same("iii->i", {{3, 3, 3}}), same("iijj->ij", {{2, 2, 3, 3}});
  same("i,j->ij", {{3}, {5}}), same("i,i->", {{7}, {7}}), same("i,i->i", {{7}, {7}}), same("ij,ij->", {{3, 5}, {3, 5}});
  same("i,i->i", {{1}, {5}}), same("ij,jk->ik", {{3, 1}, {5, 2}}), same("ij,ij->ij", {{1, 5}, {3, 1}});
  same("ij,jk,kl->il", {{3, 5}, {5, 2}, {2, 7}}), same("ij,jk,kl->", {{2, 3}, {3, 5}, {5, 2}});
  same("a,b,c,d->dcba", {{2}, {1}, {3}, {2}}), same("abc,bd,cde->ae", {{2, 3, 4}, {3, 2}, {4, 2, 5}});
  same("ij,ik,il->jkl", {{3, 2}, {3, 1}, {3, 5}}), same("ii,ij->j", {{3, 3}, {3, 5}});
  same("ij,jk->ik", {{0, 5}, {5, 7}}), same("ij,jk->ik", {{3, 0}, {0, 2}}), same("ij->i", {{3, 0}});
  add("ij,jk", {{3, 5}, {5, 2}}, "ij,jk->ik"), add("ba", {{3, 5}}, "ba->ab"), add("ii", {{3, 3}}, "ii->");
  add(" i j , j -> i ", {{3, 5}, {5}}, "ij,j->i", 1), add("aA->Aa", {{2, 3}}, "ab->ba");
  add("...ij,...jk->...ik", {{2, 3, 5}, {2, 5, 4}}, "bij,bjk->bik"), add("...i->...", {{2, 3, 5}}, "abi->ab");
  add("...ij,jk", {{2, 1, 3, 5}, {5, 4}}, "abij,jk->abik"), add("i...,i...->...", {{3, 2, 5}, {3, 1}}, "iab,ib->ab");
  add("...,...", {{2, 3}, {3}}, "ab,b->ab"), add("i...i", {{3, 2, 3}}, "iai->a"), add("...->...", {{2, 3}}, "ab->ab");
}

void product_rows(Rows& rows) {
  RowOptions sums = any_number;
  sums.loosen = sums.loosen_gradient = 8;
  auto matmul = [&](const Shape& a, const Shape& b, const std::string& plain) {
    rows.emplace_back(op::Matmul{}, std::vector{in(a), in(b)}, einsum_reference(plain), sums);
  };
  matmul({3, 5}, {5, 7}, "ij,jk->ik"), matmul({5}, {5}, "i,i->"), matmul({5}, {5, 3}, "i,ij->j");
  matmul({3, 5}, {5}, "ij,j->i"), matmul({2, 3, 5}, {5}, "bij,j->bi"), matmul({5}, {2, 5, 3}, "i,bij->bj");
  matmul({2, 3, 5}, {2, 5, 4}, "bij,bjk->bik"), matmul({2, 1, 3, 4}, {5, 4, 2}, "abij,bjk->abik");
  matmul({3, 4}, {2, 4, 5}, "ij,bjk->bik"), matmul({1, 3, 4}, {2, 4, 5}, "bij,bjk->bik");
  matmul({2, 2, 3, 1}, {1, 7}, "abij,jk->abik"), matmul({0, 3, 2}, {1, 2, 4}, "bij,bjk->bik");
  matmul({2, 3, 0}, {2, 0, 4}, "bij,bjk->bik"), matmul({1, 1}, {1, 1}, "ij,jk->ik"), matmul({0}, {0}, "i,i->");

  auto tensordot = [&](const Shape& a, const Shape& b, const Shape& a_axes, const Shape& b_axes,
                       const std::string& plain) {
    rows.emplace_back(op::Tensordot{.a_axes_summed = a_axes, .b_axes_summed = b_axes}, std::vector{in(a), in(b)},
                      einsum_reference(plain), sums);
  };
  tensordot({2, 3, 4}, {4, 3, 5}, Shape(1, 2), Shape(1, 0), "abc,cbd->ad");
  tensordot({3, 2}, {3, 5}, Shape(0), Shape(0), "ab,ac->bc"),
      tensordot({3, 2}, {5, 2}, Shape(-1), Shape(-1), "ab,cb->ac");
  tensordot({2, 3}, {1, 5}, {}, {}, "ab,cd->abcd"), tensordot({3, 2}, {2, 3}, Shape(0, 1), Shape(1, 0), "ab,ba->");
  tensordot({2, 0, 3}, {0, 5}, Shape(1), Shape(0), "abc,bd->acd"),
      tensordot({1, 7}, {7, 1}, Shape(1), Shape(0), "ab,bc->ac");
  tensordot({2, 3, 4}, {3, 2, 2}, Shape(1), Shape(0), "abc,bde->acde");
  auto int_axes = [&](const Shape& a, const Shape& b, int axes, const std::string& plain) {
    rows.emplace_back(op::TensordotIntAxes{.axes = axes}, std::vector{in(a), in(b)}, einsum_reference(plain), sums);
  };
  int_axes({2, 3, 4}, {3, 4, 5}, 2, "abc,bcd->ad"), int_axes({3, 5}, {5, 2}, 1, "ab,bc->ac"),
      int_axes({3}, {1, 5}, 0, "a,bc->abc");
  int_axes({3, 2}, {3, 2}, 2, "ab,ab->"), int_axes({0, 3}, {3, 7}, 1, "ab,bc->ac"), int_axes({2, 0}, {0}, 1, "ab,b->a");

  auto outer = [&](const Shape& a, const Shape& b) {
    const int64_t n = a.size(), m = b.size();
    rows.emplace_back(
        op::Outer{}, std::vector{in(a), in(b)},
        [=](const Hosts& in) {
          return generate({n, m}, [&](const Shape& p) { return in[0][size_t(p[0])] * in[1][size_t(p[1])]; });
        },
        any_number);
  };
  outer({3}, {5}), outer({2, 3}, {1, 7}), outer({1}, {1}), outer({0}, {3});
  auto kron = [&](const Shape& a, const Shape& b, const Shape& x, const Shape& y) {  // x, y: with as many axes
    Shape out;
    for (int i = 0; i < x.ndim(); ++i) out.push_back(x[i] * y[i]);
    rows.emplace_back(
        op::Kron{}, std::vector{in(a), in(b)},
        [=](const Hosts& in) {
          const Host left = reshaped(in[0], x), right = reshaped(in[1], y);
          return generate(out, [&](const Shape& p) {
            Shape q = p, r = p;
            for (int i = 0; i < p.ndim(); ++i) q[i] = p[i] / y[i], r[i] = p[i] % y[i];
            return left.at(q) * right.at(r);
          });
        },
        any_number);
  };
  kron({2, 3}, {5, 7}, {2, 3}, {5, 7}), kron({3}, {5}, {3}, {5}), kron({2, 3}, {4}, {2, 3}, {1, 4});
  kron({3}, {1, 2, 5}, {1, 1, 3}, {1, 2, 5}), kron({1, 1}, {3, 1}, {1, 1}, {3, 1}),
      kron({0, 2}, {3, 2}, {0, 2}, {3, 2});
}

}  // namespace

Rows linalg_rows() {
  Rows rows;
  gemm_rows(rows), triangular_rows(rows), factor_rows(rows), spectral_rows(rows), packed_rows(rows);
  product_rows(rows), einsum_rows(rows);
  return rows;
}

// Larger than the blocks that one matrix is computed in, and batches that are shared among threads.
TEST_CASE("op table: factors of large matrices are right, and the same bits on 0, 1 and 2 threads", "[op_table]") {
  RowOptions options{.dtypes = both_floats, .loosen = 2000, .tolerance = 1e-8};
  const auto rows_of = [&](const Shape& s, bool reference) {
    const auto of = [&](Matrix (*f)(const Matrix&)) {
      return !reference ? Reference() : Reference([=](const Hosts& in) {
        return batch_of_matrices(s, [&](int64_t i) { return f(matrix_of(in[0], i)); });
      });
    };
    Rows rows;
    rows.emplace_back(op::LinalgPotrf{}, std::vector{regular(s, true, 200)}, of(cholesky_factor), options);
    rows.emplace_back(op::LinalgInverse{}, std::vector{regular(s, false, 20)},
                      of([](const Matrix& a) { return inverse(a); }), options);
    rows.emplace_back(op::LinalgTrsm{}, std::vector{regular(s, false, 100), regular(s)}, Reference(), options);
    rows.emplace_back(op::LinalgTrsm{.rightside = true}, std::vector{regular(s, false, 100), regular(s)}, Reference(),
                      options);
    return rows;
  };
  for (const Row& row : rows_of({307, 307}, true)) {
    INFO(row.str());
    if (row.reference) CHECK(check_values(row) == "");
    CHECK(check_threads(row) == "");
  }
  for (const Row& row : rows_of({40, 33, 33}, false)) {
    INFO(row.str());
    CHECK(check_threads(row) == "");
  }
}

}  // namespace kaon::test
