// Rows of the operators that take elements by index, and of the matrix products.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

const RowOptions moves{.dtypes = every_dtype};
const RowOptions sums{.dtypes = numbers, .loosen = 2};

// Truncated, then into [0, n) as the mode says.
int64_t position(double value, int64_t n, IndexMode mode) {
  const int64_t i = int64_t(value);
  if (mode == IndexMode::clip) return std::clamp<int64_t>(i, 0, n - 1);
  return (i % n + n) % n;  // raise: negative counts from the end
}

void take_rows(Rows& rows) {
  const struct {
    Shape shape;
    int axis;
    IndexMode mode;
    Input indices;
  } cases[] = {{{5, 3}, 0, IndexMode::clip, index({4}, -2, 8)},
               {{5, 3}, 0, IndexMode::wrap, index({2, 3}, -7, 13, DType::int32)},
               {{5, 3}, 1, IndexMode::raise, index({4}, -3, 3, DType::int64)},
               {{2, 3, 5}, -2, IndexMode::clip, index({2, 2}, 0, 3, DType::uint8)},
               {{7, 1}, 0, IndexMode::clip, index({1}, {2.9}, DType::float64)},
               {{7, 3}, 0, IndexMode::clip, index({33}, 0, 7, DType::int8)},
               {{5, 3}, 0, IndexMode::clip, index({0}, 0, 1)},
               {{5, 0}, 0, IndexMode::clip, index({2}, 0, 5)},
               {{5, 3}, 0, IndexMode::clip, index({3}, {4, 4, 4}, DType::bfloat16)}};
  for (const auto& c : cases) {
    const int at = c.axis < 0 ? c.axis + c.shape.ndim() : c.axis;
    const Shape taken = c.indices.shape, shape = c.shape;
    const IndexMode mode = c.mode;
    Shape to;
    for (int i = 0; i < shape.ndim(); ++i) {
      if (i != at) to.push_back(shape[i]);
      for (int k = 0; i == at && k < taken.ndim(); ++k) to.push_back(taken[k]);
    }
    // the element of the array that stands at `p` of the result
    auto source = [=](const Shape& p, const Host& indices) {
      Shape q, which;
      for (int k = 0; k < taken.ndim(); ++k) which.push_back(p[at + k]);
      for (int i = 0; i < at; ++i) q.push_back(p[i]);
      q.push_back(position(indices.at(which), shape[at], mode));
      for (int i = at + 1; i < shape.ndim(); ++i) q.push_back(p[i + taken.ndim() - 1]);
      return q;
    };
    rows.emplace_back(
        op::Take{.axis = c.axis, .mode = mode}, std::vector{in(shape), c.indices},
        [=](const Hosts& in) { return generate(to, [&](const Shape& p) { return in[0].at(source(p, in[1])); }); },
        RowOptions{.dtypes = every_dtype, .differentiate = true});
    rows.emplace_back(
        op::TakeGrad{.shape = shape, .axis = c.axis, .mode = mode}, std::vector{in(to), c.indices},
        [=](const Hosts& in) {
          Host out = zeros(shape);
          each(to, [&](const Shape& p) { out.at(source(p, in[1])) += in[0].at(p); });
          return out;
        },
        sums);
  }
  auto embed = [&](const Input& data, int64_t n, int64_t width, RowOptions options) {
    rows.emplace_back(
        op::Embedding{.input_dim = n, .output_dim = width}, std::vector{data, in({n, width})},
        [=](const Hosts& in) {
          return generate(inserted(data.shape, -1, width), [&](const Shape& p) {
            return in[1].at({position(in[0].at(without(p, -1)), n, IndexMode::clip), p[p.ndim() - 1]});
          });
        },
        options);
  };
  embed(index({4}, 0, 5), 5, 3, moves), embed(index({2, 3}, -1, 7, DType::int32), 5, 7, moves);
  embed(index({1}, 0, 2, DType::int64), 2, 1, moves), embed(index({0, 2}, 0, 2), 2, 3, moves);
  rows.emplace_back(
      op::Embedding{.input_dim = 5, .output_dim = 3, .dtype = DType::float16},
      std::vector{index({2}, 0, 5), index({5, 3}, 0, 9, DType::float16)}, [](const Hosts& in) {
        Host out = generate({2, 3}, [&](const Shape& p) { return in[1].at({int64_t(in[0][size_t(p[0])]), p[1]}); });
        out.dtype = DType::float16;
        return out;
      });
  rows.emplace_back(
      op::Embedding{.input_dim = 5, .output_dim = 3, .sparse_grad = true}, std::vector{index({2}, 0, 5), in({5, 3})},
      [](const Hosts& in) {
        return generate({2, 3}, [&](const Shape& p) { return in[1].at({int64_t(in[0][size_t(p[0])]), p[1]}); });
      },
      moves);
}

void pick_rows(Rows& rows) {
  auto pick = [&](const Shape& shape, int axis, bool keep, IndexMode mode, Input indices) {
    const int at = axis < 0 ? axis + shape.ndim() : axis;
    const Shape kept = with(shape, at, 1);
    Shape to = keep ? kept : without(shape, at);
    if (to.empty()) to = Shape(1);
    auto source = [=](const Shape& p, const Hosts& in) {
      return with(p, at, position(reshaped(in[1], kept).at(p), shape[at], mode));
    };
    rows.emplace_back(
        op::Pick{.axis = axis, .keepdims = keep, .mode = mode}, std::vector{in(shape), indices},
        [=](const Hosts& in) {
          return reshaped(generate(kept, [&](const Shape& p) { return in[0].at(source(p, in)); }), to);
        },
        moves);
    rows.emplace_back(
        op::PickGrad{.shape = shape, .axis = axis, .mode = mode}, std::vector{in(to), indices},
        [=](const Hosts& in) {
          Host out = zeros(shape);
          const Host head = reshaped(in[0], kept);
          each(kept, [&](const Shape& p) { out.at(source(p, in)) = head.at(p); });
          return out;
        },
        moves);
  };
  pick({3, 5}, -1, false, IndexMode::clip, index({3}, -2, 8)),
      pick({3, 5}, 0, true, IndexMode::wrap, index({1, 5}, -4, 9, DType::int32));
  pick({2, 3, 5}, 1, false, IndexMode::clip, index({2, 5}, 0, 3, DType::int64)),
      pick({1, 7}, 1, true, IndexMode::clip, index({1}, 0, 7, DType::uint8));
  pick({0, 4}, 1, false, IndexMode::clip, index({0}, 0, 4)), pick({7}, 0, false, IndexMode::clip, index({1}, 0, 7));
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
    rows.emplace_back(
        op::BatchTake{}, std::vector{in(shape), index({shape[0]}, -2, double(shape[1] + 2))},
        [=](const Hosts& in) {
          return generate({shape[0]}, [&](const Shape& p) {
            return in[0].at({p[0], position(in[1].at(p), shape[1], IndexMode::clip)});
          });
        },
        moves);
  }
  auto one_hot = [&](const Shape& shape, int64_t depth, double on, double off, DType dtype) {
    Input indices = in(shape, Fill::integers);
    indices.low = -1, indices.high = double(depth + 2);
    rows.emplace_back(
        op::OneHot{.depth = depth, .on_value = on, .off_value = off, .dtype = dtype}, std::vector{constant(indices)},
        [=](const Hosts& in) {
          Host out = generate(inserted(shape, -1, depth), [&](const Shape& p) {
            return std::trunc(in[0].at(without(p, -1))) == double(p[p.ndim() - 1]) ? on : off;
          });
          out.dtype = dtype;
          return out;
        },
        RowOptions{.dtypes = numbers});
  };
  one_hot({4}, 5, 1, 0, DType::float32), one_hot({3, 5}, 3, 2, -1, DType::int32),
      one_hot({1, 7}, 2, 8, 1, DType::float16), one_hot({0, 3}, 4, 1, 0, DType::float32),
      one_hot({}, 3, 1, 0, DType::float32), one_hot({2, 3}, 0, 1, 0, DType::int32);
}

void gather_rows(Rows& rows) {
  const struct {
    Shape shape;
    Input indices;
  } cases[] = {{{3, 5}, index({2, 3}, {0, 2, -1, 1, 4, -5})},
               {{3, 5}, index({1, 4}, {2, 0, 2, 2}, DType::int32)},
               {{2, 3, 5}, index({2, 2, 2}, {0, 1, 1, 1, 0, 2, 2, 2}, DType::int64)},
               {{7}, index({1, 1}, {6})},
               {{3, 5}, index({2, 0}, 0, 3)},
               {{4, 0}, index({1, 3}, {0, 3, 1})}};
  for (const auto& c : cases) {
    const Shape shape = c.shape, indices = c.indices.shape;
    const int m = int(indices[0]);
    Shape to;
    for (int i = 1; i < indices.ndim(); ++i) to.push_back(indices[i]);
    for (int i = m; i < shape.ndim(); ++i) to.push_back(shape[i]);
    if (to.empty()) to = Shape(1);
    auto source = [=](const Shape& p, const Host& which) {
      Shape q;
      for (int i = 0; i < m; ++i) {
        Shape w(i);
        for (int k = 1; k < indices.ndim(); ++k) w.push_back(p[k - 1]);
        q.push_back(position(which.at(w), shape[i], IndexMode::raise));
      }
      for (int i = m; i < shape.ndim(); ++i) q.push_back(p[i - m + indices.ndim() - 1]);
      return q;
    };
    rows.emplace_back(
        op::GatherNd{}, std::vector{in(shape), c.indices},
        [=](const Hosts& in) { return generate(to, [&](const Shape& p) { return in[0].at(source(p, in[1])); }); },
        moves);
    rows.emplace_back(
        op::GatherNdGrad{.shape = shape}, std::vector{in(to), c.indices},
        [=](const Hosts& in) {
          Host out = zeros(shape);
          each(to, [&](const Shape& p) { out.at(source(p, in[1])) += in[0].at(p); });
          return out;
        },
        sums);
  }
}

void product_rows(Rows& rows) {
  auto dot = [&](const Shape& a, const Shape& b, bool ta, bool tb) {
    const int ia = ta ? 0 : a.ndim() - 1, ib = tb ? b.ndim() - 1 : 0;
    Shape to;
    for (int64_t d : without(a, ia)) to.push_back(d);
    for (int64_t d : without(b, ib)) to.push_back(d);
    const Shape full = to.empty() ? Shape(1) : to;
    rows.emplace_back(op::Dot{.transpose_a = ta, .transpose_b = tb}, std::vector{in(a), in(b)}, [=](const Hosts& in) {
      return generate(full, [&](const Shape& p) {
        double sum = 0;
        for (int64_t k = 0; k < a[ia]; ++k) {
          Shape x, y;
          for (int i = 0; i < a.ndim() - 1; ++i) x.push_back(p[i]);
          for (int i = 0; i < b.ndim() - 1; ++i) y.push_back(p[a.ndim() - 1 + i]);
          sum += in[0].at(inserted(x, ia, k)) * in[1].at(inserted(y, ib, k));
        }
        return sum;
      });
    });
  };
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      dot(ta ? Shape(5, 3) : Shape(3, 5), tb ? Shape(7, 5) : Shape(5, 7), ta, tb);
      dot(ta ? Shape(5, 1) : Shape(1, 5), tb ? Shape(3, 5) : Shape(5, 3), ta, tb);
      dot(ta ? Shape(4, 0) : Shape(0, 4), tb ? Shape(3, 4) : Shape(4, 3), ta, tb);
      dot(ta ? Shape(0, 2) : Shape(2, 0), tb ? Shape(3, 0) : Shape(0, 3), ta, tb);
      dot(ta ? Shape(0, 2, 3) : Shape(2, 3, 0), tb ? Shape(3, 2, 0) : Shape(0, 3, 2), ta, tb);
      dot(ta ? Shape(4, 2, 3) : Shape(2, 3, 4), tb ? Shape(3, 2, 4) : Shape(4, 3, 2), ta, tb);
    }
  }
  dot({7}, {7}, false, false), dot({3, 5}, {5}, false, false), dot({5}, {5, 3}, false, false),
      dot({5, 3}, {5}, true, false);
  dot({2, 3, 4}, {4}, false, false), dot({4, 2, 3}, {4}, true, false), dot({4}, {4, 2, 3}, false, false),
      dot({4}, {2, 3, 4}, false, true);
  auto batch_dot = [&](int64_t n, int64_t m, int64_t k, int64_t l, bool ta, bool tb) {
    const Shape a = ta ? Shape(n, k, m) : Shape(n, m, k), b = tb ? Shape(n, l, k) : Shape(n, k, l);
    rows.emplace_back(op::BatchDot{.transpose_a = ta, .transpose_b = tb}, std::vector{in(a), in(b)},
                      [=](const Hosts& in) {
                        return generate({n, m, l}, [&](const Shape& p) {
                          double sum = 0;
                          for (int64_t j = 0; j < k; ++j) {
                            sum += in[0].at(ta ? Shape(p[0], j, p[1]) : Shape(p[0], p[1], j)) *
                                   in[1].at(tb ? Shape(p[0], p[2], j) : Shape(p[0], j, p[2]));
                          }
                          return sum;
                        });
                      });
  };
  for (bool ta : {false, true}) {
    for (bool tb : {false, true})
      batch_dot(2, 3, 5, 4, ta, tb), batch_dot(1, 1, 7, 3, ta, tb), batch_dot(0, 3, 2, 4, ta, tb),
          batch_dot(3, 2, 0, 1, ta, tb);
  }
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

}  // namespace

Rows index_rows() {
  Rows rows;
  take_rows(rows);
  pick_rows(rows);
  gather_rows(rows);
  product_rows(rows);
  sparse_embedding(rows);
  return rows;
}

}  // namespace kaon::test
