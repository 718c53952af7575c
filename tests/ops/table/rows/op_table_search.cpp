// Rows of the operators that find, gather and scatter elements along an axis, and of other arrangements.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

const RowOptions moves{.dtypes = every_dtype};

int axis_of(int axis, const Shape& shape) { return axis < 0 ? axis + shape.ndim() : axis; }

void sorted_rows(Rows& rows) {
  const auto add = [&](const Input& sorted, const Input& values, bool right, uint32_t tried = every_dtype) {
    rows.emplace_back(
        op::SearchSorted{.right = right}, std::vector{constant(sorted), constant(values)},
        [=](const Hosts& in) {
          Host y = generate(in[1].shape, [&](const Shape& p) {
            int64_t count = 0;
            const double v = in[1].at(p);
            const auto before = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
            for (int64_t i = 0; i < in[0].shape.back(); ++i) {
              const double x = in[0].at(in[0].shape.ndim() == 1 ? Shape(i) : with(p, p.ndim() - 1, i));
              count += right ? !before(v, x) : before(x, v);
            }
            return double(count);
          });
          y.dtype = DType::int64;
          return y;
        },
        RowOptions{.dtypes = numbers, .tried = tried, .differentiate = false});
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (bool right : {false, true}) {
    add(in({5}, {0, 1, 1, 2, 4}), in({3, 5}), right), add(in({1}, {1}), in({1, 7}), right);
    add(in({2, 3}, {0, 1, 3, 1, 1, 2}), in({2, 5}), right), add(in({0}), in({3}), right),
        add(in({3}, {0, 1, 2}), in({0, 2}), right);
    add(in({7}, {0, 1, 2, 3, 3, 3, 5}), in(Shape()), right);
    add(in({4}, {0, 1, 2, nan}), in({4}, {nan, 1, 5, -1}), right, floats);
  }
}

void along_rows(Rows& rows) {
  const struct {
    Shape data, indices;
    int axis;
    IndexMode mode;
    Input index;
    bool are_distinct = true;
  } cases[] = {
      {{3, 5}, {3, 2}, 1, IndexMode::raise, index({3, 2}, {0, 4, -1, 2, 3, -5}, DType::int64)},
      {{3, 5}, {2, 5}, 0, IndexMode::raise, index({2, 5}, {0, 1, 2, 0, 1, 1, 2, 0, 1, 2}, DType::int32)},
      {{2, 3, 5}, {2, 2, 5}, -2, IndexMode::wrap, index({2, 2, 5}, 0, 9), false},
      {{1, 7}, {1, 9}, -1, IndexMode::clip, index({1, 9}, -2, 12, DType::int8), false},
      {{7}, {1}, 0, IndexMode::raise, index({1}, {6.9}, DType::float64)},
      {{3, 5}, {3, 0}, 1, IndexMode::raise, index({3, 0}, 0, 1)},
      {{0, 5}, {0, 2}, 1, IndexMode::raise, index({0, 2}, 0, 1)},
  };
  for (const auto& c : cases) {
    const Shape data = c.data;
    const int at = axis_of(c.axis, data);
    const IndexMode mode = c.mode;
    const auto place = [=](const Shape& p, const Host& indices) {
      const int64_t i = int64_t(indices.at(p)), n = data[at];
      return with(p, at, mode == IndexMode::clip ? std::clamp<int64_t>(i, 0, n - 1) : (i % n + n) % n);
    };
    rows.emplace_back(
        op::TakeAlongAxis{.axis = c.axis, .mode = mode}, std::vector{in(data), c.index},
        [=](const Hosts& in) {
          return generate(in[1].shape, [&](const Shape& p) { return in[0].at(place(p, in[1])); });
        },
        moves);
    for (Scatter kind : {Scatter::none, Scatter::add, Scatter::mul, Scatter::max, Scatter::min}) {
      const Fill fill = kind == Scatter::mul ? Fill::unit : Fill::normal;
      rows.emplace_back(
          op::PutAlongAxis{.axis = c.axis, .reduce = kind, .mode = mode},
          std::vector{in(data, fill), c.index, in(c.indices, fill)},
          [=](const Hosts& in) {
            Host y = in[0];
            each(in[1].shape, [&](const Shape& p) {
              double& e = y.at(place(p, in[1]));
              const double v = in[2].at(p);
              switch (kind) {
                case Scatter::none: e = v; break;
                case Scatter::add: e += v; break;
                case Scatter::mul: e *= v; break;
                case Scatter::max: e = larger(e, v); break;
                case Scatter::min: e = smaller(e, v); break;
              }
            });
            return y;
          },
          RowOptions{.dtypes = kind == Scatter::none ? every_dtype : numbers,
                     .loosen = 4,
                     .loosen_gradient = 4,
                     .differentiate = c.are_distinct || kind == Scatter::add || kind == Scatter::mul});
    }
  }
  // products with one zero and with two; equal elements, which share the gradient
  RowOptions zeros_among{.dtypes = numbers, .tried = floats};
  rows.emplace_back(
      op::PutAlongAxis{.axis = 0, .reduce = Scatter::mul},
      std::vector{in({3}, {2, 3, 0}), index({5}, {0, 0, 1, 1, 2}), in({5}, {0, 4, 0, 0, 5})},
      [](const Hosts& in) {
        Host y = in[0];
        for (size_t i = 0; i < 5; ++i) y.values[size_t(in[1][i])] *= in[2][i];
        return y;
      },
      zeros_among);
  RowOptions ties{.dtypes = numbers};
  ties.gradient = [](const Hosts&, const Hosts& h) {
    const double first = h[0][0] / 3;
    return Hosts{{{2}, {first, 0}}, {}, {{4}, {first, first, h[0][1], 0}}};
  };
  rows.emplace_back(
      op::PutAlongAxis{.axis = 0, .reduce = Scatter::max},
      std::vector{in({2}, {2, 1}), index({4}, {0, 0, 1, 1}), in({4}, {2, 2, 3, 1})},
      [](const Hosts& in) {
        Host y = in[0];
        for (size_t i = 0; i < 4; ++i) {
          double& e = y.values[size_t(in[1][i])];
          e = larger(e, in[2][i]);
        }
        return y;
      },
      ties);

  const auto add = [&](const Shape& shape, int axis, IndexMode mode, const Input& index) {
    const int at = axis_of(axis, shape);
    rows.emplace_back(
        op::IndexAdd{.axis = axis, .mode = mode}, std::vector{in(shape), index, in(with(shape, at, index.shape[0]))},
        [=](const Hosts& in) {
          Host y = in[0];
          each(in[2].shape, [&](const Shape& p) {
            const int64_t i = int64_t(in[1].at(Shape(p[at]))), n = shape[at];
            y.at(with(p, at, mode == IndexMode::clip ? std::clamp<int64_t>(i, 0, n - 1) : (i % n + n) % n)) +=
                in[2].at(p);
          });
          return y;
        },
        RowOptions{.dtypes = numbers, .loosen = 2});
  };
  add({5, 3}, 0, IndexMode::raise, index({4}, {4, 0, -1, 4}, DType::int64));
  add({2, 3, 5}, -1, IndexMode::clip, index({3}, {7, 1, -2}, DType::int32));
  add({1, 7}, 1, IndexMode::wrap, index({2}, {8, 3})), add({3, 0}, 0, IndexMode::raise, index({2}, {0, 1}));
  add({3}, 0, IndexMode::raise, index({0}, 0, 1));
}

void matrix_rows(Rows& rows) {
  const auto add = [&](const Shape& shape, int k) {
    const Shape out = shape.ndim() == 1 ? Shape(shape[0], shape[0]) : shape;
    const auto part = [=](bool lower) {
      return [=](const Hosts& in) {
        return generate(out, [&](const Shape& p) {
          const int n = p.ndim();
          const bool keeps = lower ? p[n - 1] - p[n - 2] <= k : p[n - 1] - p[n - 2] >= k;
          return keeps ? in[0].at(shape.ndim() == 1 ? Shape(p[n - 1]) : p) : 0;
        });
      };
    };
    rows.emplace_back(op::Tril{.k = k}, std::vector{in(shape)}, part(true), moves);
    rows.emplace_back(op::Triu{.k = k}, std::vector{in(shape)}, part(false), moves);
  };
  for (int k : {0, 1, -2, 9, -9}) add({3, 5}, k), add({2, 5, 3}, k);
  add({1, 7}, 0), add({3}, 1), add({0, 3}, 0), add({3, 0}, 0), add({0}, 0), add({1}, 0);
}

void arrange_rows(Rows& rows) {
  const auto roll = [&](const Shape& shape, const Shape& shift, const std::optional<Shape>& axis) {
    const Shape whole = axis ? shape : Shape(shape.size());
    rows.emplace_back(
        op::Roll{.shift = shift, .axis = axis}, std::vector{in(shape)},
        [=](const Hosts& in) {
          const Host x = reshaped(in[0], whole);
          Host y = zeros(whole);
          each(whole, [&](const Shape& p) {
            Shape to = p;
            const Shape axes = axis.value_or(Shape::filled(shift.ndim(), 0));
            for (int i = 0; i < axes.ndim(); ++i) {
              const int a = axis_of(int(axes[i]), whole);
              const int64_t n = whole[a], s = shift[shift.ndim() == 1 ? 0 : i];
              to[a] = ((to[a] + s) % n + n) % n;
            }
            y.at(to) = x.at(p);
          });
          return reshaped(y, shape);
        },
        moves);
  };
  roll({3, 5}, Shape(2), {}), roll({3, 5}, Shape(1, -3), {}), roll({3, 5}, Shape(1), Shape(0));
  roll({3, 5}, Shape(-7), Shape(-1)), roll({2, 3, 5}, Shape(1, 2), Shape(0, 1)), roll({2, 3, 5}, Shape(2), Shape(1, 2));
  roll({2, 3, 5}, Shape(1, 3), Shape(1, 1)), roll({1, 7}, Shape(3), Shape(1)), roll({0, 3}, Shape(1), Shape(1));
  roll({3, 0}, Shape(1), {}), roll({7}, Shape(0), Shape(0)), roll(Shape(), Shape(3), {}),
      roll({2, 3, 4}, Shape(5, 2), Shape(2, 0));

  const auto turn = [&](const Shape& shape, int k, const std::optional<Shape>& axes) {
    const Shape two = axes.value_or(Shape(0, 1));
    const int a = axis_of(int(two[0]), shape), b = axis_of(int(two[1]), shape);
    rows.emplace_back(
        op::Rot90{.k = k, .axes = axes}, std::vector{in(shape)},
        [=](const Hosts& in) {
          Host x = in[0];
          for (int i = 0; i < (k % 4 + 4) % 4; ++i) {
            Shape turned = x.shape;
            std::swap(turned[a], turned[b]);
            x = generate(turned,
                         [&](const Shape& p) { return x.at(with(with(p, a, p[b]), b, x.shape[b] - 1 - p[a])); });
          }
          return x;
        },
        moves);
  };
  for (int k : {0, 1, 2, 3, -1, 5}) turn({3, 5}, k, {}), turn({2, 3, 5}, k, Shape(2, 0));
  turn({1, 7}, 1, Shape(1, 0)), turn({0, 3}, 1, {}), turn({3, 2, 2}, 1, Shape(-1, -2));

  const auto difference = [&](const Shape& shape, int n, int axis) {
    const int at = axis_of(axis, shape);
    rows.emplace_back(
        op::Diff{.n = n, .axis = axis}, std::vector{in(shape)},
        [=](const Hosts& in) {
          Host x = in[0];
          for (int i = 0; i < n; ++i) {
            const int64_t size = std::max<int64_t>(0, x.shape[at] - 1);
            x = generate(with(x.shape, at, size),
                         [&](const Shape& p) { return x.at(with(p, at, p[at] + 1)) - x.at(p); });
          }
          return x;
        },
        RowOptions{.dtypes = numbers, .tried = uint32_t(every_dtype & ~dtype_bit(DType::uint8)), .loosen = 4});
  };
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
           {{3, 5}, 0}, {{3, 5}, -1}, {{2, 3, 5}, 1}, {{1, 7}, 1}, {{1, 3}, 0}, {{0, 3}, 1}, {{3, 0}, 0}}) {
    const int at = axis_of(axis, shape);
    rows.emplace_back(
        op::Difference{.axis = axis}, std::vector{in(shape)},
        [=, shape = shape](const Hosts& in) {
          return generate(with(shape, at, shape[at] - 1),
                          [&](const Shape& p) { return in[0].at(with(p, at, p[at] + 1)) - in[0].at(p); });
        },
        RowOptions{.dtypes = numbers, .tried = uint32_t(every_dtype & ~dtype_bit(DType::uint8))});
  }
  difference({3, 5}, 1, -1), difference({3, 5}, 2, 0), difference({3, 5}, 0, 1), difference({1, 7}, 3, 1);
  difference({3}, 5, 0), difference({0, 3}, 1, 1), difference({2, 3, 5}, 1, 1);

  const auto move = [&](const Shape& shape, const Shape& from, const Shape& to, const Shape& order) {
    rows.emplace_back(
        op::MoveAxis{.source = from, .destination = to}, std::vector{in(shape)},
        [=](const Hosts& in) {
          Shape out = shape;
          for (int i = 0; i < order.ndim(); ++i) out[i] = shape[int(order[i])];
          return generate(out, [&](const Shape& p) {
            Shape q = p;
            for (int i = 0; i < order.ndim(); ++i) q[int(order[i])] = p[i];
            return in[0].at(q);
          });
        },
        moves);
  };
  move({2, 3, 5}, Shape(0), Shape(-1), Shape(1, 2, 0)), move({2, 3, 5}, Shape(0, -1), Shape(2, 0), Shape(2, 1, 0));
  move({3, 5}, Shape(1), Shape(0), Shape(1, 0)), move({1, 7, 2, 3}, Shape(3, 0), Shape(1, 2), Shape(1, 3, 0, 2));
  move({0, 3}, Shape(0), Shape(1), Shape(1, 0)), move({7}, Shape(0), Shape(0), Shape(0));

  const auto grid = [&](const std::vector<Shape>& shapes, GridIndexing indexing) {
    std::vector<Input> inputs;
    Shape out;
    for (const Shape& s : shapes) inputs.push_back(in(s)), out.push_back(s.size());
    if (indexing == GridIndexing::xy && shapes.size() > 1) std::swap(out[0], out[1]);
    rows.emplace_back(
        op::Meshgrid{.num_args = int(shapes.size()), .indexing = indexing}, inputs,
        [=](const Hosts& in) {
          Hosts all;
          for (size_t i = 0; i < shapes.size(); ++i) {
            const bool turned = indexing == GridIndexing::xy && shapes.size() > 1 && i < 2;
            const int along = turned ? 1 - int(i) : int(i);
            all.push_back(generate(out, [&](const Shape& p) { return in[i][size_t(p[along])]; }));
          }
          return all;
        },
        moves);
  };
  for (GridIndexing indexing : {GridIndexing::xy, GridIndexing::ij}) {
    grid({Shape(3), Shape(5)}, indexing), grid({Shape(2), Shape(3), Shape(4)}, indexing), grid({Shape(7)}, indexing);
    grid({Shape(3), Shape()}, indexing), grid({Shape(0), Shape(2)}, indexing), grid({Shape(1), Shape(1)}, indexing);
  }
}

}  // namespace

Rows search_rows() {
  Rows rows;
  sorted_rows(rows), along_rows(rows), matrix_rows(rows), arrange_rows(rows);
  return rows;
}

}  // namespace kaon::test
