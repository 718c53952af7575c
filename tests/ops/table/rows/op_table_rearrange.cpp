// Rows of the operators that cut, rearrange and scatter arrays, of positions, and of sums up to each element.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

const RowOptions moves{.dtypes = every_dtype};

void split(Rows& rows, const op::SplitV2& op, const Shape& shape) {
  const int at = op.axis < 0 ? op.axis + shape.ndim() : op.axis;
  rows.emplace_back(
      op, std::vector{in(shape)},
      [=](const Hosts& in) {
        Hosts parts;
        int64_t begin = 0;
        for (int i = 0; i < op.num_outputs(); ++i) {
          int64_t size = 0;
          if (op.sections > 0) {
            size = shape[at] / op.sections + (i < shape[at] % op.sections ? 1 : 0);
          } else {
            size = (i + 1 < op.indices.size() ? op.indices[i + 1] : shape[at]) - op.indices[i];
          }
          Host part =
              generate(with(shape, at, size), [&](const Shape& p) { return in[0].at(with(p, at, p[at] + begin)); });
          parts.push_back(op.squeeze_axis ? reshaped(part, without(shape, at)) : part);
          begin += size;
        }
        return parts;
      },
      moves);
}

void split_rows(Rows& rows) {
  split(rows, {.indices = Shape(0, 1, 4)}, {3, 5}), split(rows, {.indices = Shape(0, 2, 2), .axis = 0}, {3, 5});
  split(rows, {.indices = {0, 1, 2, 3, 3, 5, 6, 7, 8, 9}}, {2, 11});
  split(rows, {.indices = Shape(0), .axis = -1}, {1, 7}), split(rows, {.axis = 0, .sections = 3}, {7, 2});
  split(rows, {.indices = Shape(0, 1), .axis = 0, .squeeze_axis = true}, {2, 3});
  split(rows, {.axis = 1, .squeeze_axis = true, .sections = 3}, {2, 3, 1}), split(rows, {.sections = 2}, {0, 5});
}

void blocks_rows(Rows& rows) {
  auto deep = [&](int b, const Shape& s, bool to_space) {
    const Shape space(s[0], s[1], s[2] * b, s[3] * b), depth(s[0], s[1] * b * b, s[2], s[3]);
    const auto in_depth = [=](const Shape& p) {  // of a position in space
      return Shape(p[0], (p[2] % b * b + p[3] % b) * s[1] + p[1], p[2] / b, p[3] / b);
    };
    if (to_space) {
      rows.emplace_back(
          op::DepthToSpace{.block_size = b}, std::vector{in(depth)},
          [=](const Hosts& in) { return generate(space, [&](const Shape& p) { return in[0].at(in_depth(p)); }); },
          moves);
    } else {
      rows.emplace_back(
          op::SpaceToDepth{.block_size = b}, std::vector{in(space)},
          [=](const Hosts& in) {
            Host y = zeros(depth);
            each(space, [&](const Shape& p) { y.at(in_depth(p)) = in[0].at(p); });
            return y;
          },
          moves);
    }
  };
  for (bool to_space : {true, false}) {
    deep(2, {3, 1, 2, 3}, to_space), deep(3, {1, 2, 1, 2}, to_space), deep(1, {2, 3, 1, 1}, to_space);
    deep(2, {0, 2, 1, 1}, to_space), deep(2, {1, 3, 5, 1}, to_space);
  }
}

void diag_rows(Rows& rows) {
  auto diag = [&](const op::Diag& op, const Shape& shape) {
    const int n = shape.ndim(), a = (op.axis1 + n) % n, b = (op.axis2 + n) % n;
    if (n == 1) {
      const int64_t size = shape[0] + std::abs(op.k), row = std::max(-op.k, 0), column = std::max(op.k, 0);
      return rows.emplace_back(
                 op, std::vector{in(shape)},
                 [=](const Hosts& in) {
                   Host y = zeros({size, size});
                   for (int64_t i = 0; i < shape[0]; ++i) y.at({row + i, column + i}) = in[0].at({i});
                   return y;
                 },
                 moves),
             void();
    }
    Shape out;
    for (int i = 0; i < n; ++i) {
      if (i != a && i != b) out.push_back(shape[i]);
    }
    out.push_back(std::min(shape[a] + std::min(op.k, 0), shape[b] - std::max(op.k, 0)));
    rows.emplace_back(
        op, std::vector{in(shape)},
        [=](const Hosts& in) {
          return generate(out, [&](const Shape& p) {
            const int64_t i = p[p.ndim() - 1];
            Shape q;
            for (int axis = 0, k = 0; axis < n; ++axis) {
              q.push_back(axis == a ? i - std::min(op.k, 0) : axis == b ? i + std::max(op.k, 0) : p[k++]);
            }
            return in[0].at(q);
          });
        },
        moves);
  };
  diag({}, {3, 5}), diag({.k = 1}, {3, 5}), diag({.k = -2}, {5, 3}), diag({.k = 5}, {3, 5}), diag({}, {1, 7});
  diag({.k = -1}, {2, 3, 5}), diag({.k = 1, .axis1 = -1, .axis2 = 0}, {3, 1, 5}), diag({}, {0, 3});
  diag({.axis1 = 1, .axis2 = 2}, {2, 3, 3}), diag({.axis1 = 2, .axis2 = 1}, {2, 0, 3});
  diag({}, {3}), diag({.k = 2}, {5}), diag({.k = -1}, {1}), diag({.k = 1}, {0});
}

// out with its slice at column j of the tuples replaced by slice j of `from`.
Host scattered(Host out, const Host& from, const Host& tuples) {
  const int m = int(tuples.shape[0]);
  const int64_t count = tuples.shape.product(1, tuples.shape.ndim());
  const int64_t inner = out.shape.product(m, out.shape.ndim());
  for (int64_t j = 0; j < count; ++j) {
    int64_t row = 0;
    for (int k = 0; k < m; ++k) {
      const int64_t i = int64_t(tuples[size_t(k * count + j)]);
      row = row * out.shape[k] + (i < 0 ? i + out.shape[k] : i);
    }
    for (int64_t i = 0; i < inner; ++i) out.values[size_t(row * inner + i)] = from[size_t(j * inner + i)];
  }
  return out;
}

void scatter_rows(Rows& rows) {
  const struct {
    Shape shape, data;
    Input indices;
    bool differentiate = true;
  } cases[] = {{{3, 5}, {3}, index({2, 3}, {0, 2, -1, 1, 4, -5})},
               {{3, 5}, {2, 5}, index({1, 2}, {2, 0}, DType::int32)},
               {{3, 5}, {3, 5}, index({1, 3}, {2, 2, 0}, DType::int32), false},  // the last one counts
               {{2, 3, 5}, {2, 2, 5}, index({2, 2, 2}, {0, 1, 1, 1, 0, 2, 0, 1}, DType::int64)},
               {{7}, {1}, index({1, 1}, {6}, DType::uint8)},
               {{1, 3}, {1}, index({2}, {0, 1})},
               {{3, 5}, {0}, index({2, 0}, 0, 3)},
               {{4, 0}, {3, 0}, index({1, 3}, {0, 3, 1})}};
  for (const auto& c : cases) {
    const Shape shape = c.shape;
    const RowOptions options{.dtypes = every_dtype, .differentiate = c.differentiate};
    rows.emplace_back(
        op::ScatterNd{.shape = shape}, std::vector{in(c.data), c.indices},
        [=](const Hosts& in) { return scattered(zeros(shape), in[0], in[1]); }, options);
    rows.emplace_back(
        op::ScatterSetNd{.shape = shape}, std::vector{in(shape), in(c.data), c.indices},
        [=](const Hosts& in) { return scattered(in[0], in[1], in[2]); }, options);
  }
  auto copy = [&](const Shape& shape, const Input& index, bool differentiate = true) {
    rows.emplace_back(
        op::IndexCopy{}, std::vector{in(shape), index, in(with(shape, 0, index.shape[0]))},
        [=](const Hosts& in) {
          return scattered(in[0], in[2], reshaped(in[1], {1, in[1].size()}));
        },
        RowOptions{.dtypes = every_dtype, .differentiate = differentiate});
  };
  copy({5, 3}, index({2}, {4, 0}, DType::int32)), copy({3}, index({2}, {-1, 1}));
  copy({3, 2, 1}, index({3}, {2, 1, 2}, DType::int64), false), copy({1, 7}, index({1}, {0}, DType::uint8));
  copy({3, 0}, index({2}, {1, 2})), copy({4, 3}, index({0}, 0, 1));
}

void position_rows(Rows& rows) {
  auto positions = [&](const op::IndexArray& op, const Shape& shape) {
    std::vector<int> axes;
    for (int i = 0; i < (op.axes ? op.axes->ndim() : shape.ndim()); ++i) {
      axes.push_back(op.axes ? (int((*op.axes)[i]) + shape.ndim()) % shape.ndim() : i);
    }
    rows.emplace_back(
        op, std::vector{in(shape)},
        [=](const Hosts&) {
          Host y = generate(inserted(shape, -1, int64_t(axes.size())),
                            [&](const Shape& p) { return double(p[axes[size_t(p[shape.ndim()])]]); });
          y.dtype = DType::int64;
          return y;
        },
        RowOptions{.dtypes = every_dtype, .differentiate = false});
  };
  positions({}, {3, 5}), positions({.axes = Shape(1)}, {1, 7}), positions({.axes = Shape(-1, 0)}, {2, 3, 5});
  positions({.axes = Shape()}, {3}), positions({}, {0, 2}), positions({}, {7}), positions({}, Shape());

  const auto whole = [](const Shape& shape, double high) {
    Input input = in(shape, Fill::integers);
    input.low = 0, input.high = high;
    return constant(input);
  };
  auto ravel = [&](const Shape& sizes, int64_t n) {
    const int m = sizes.ndim();
    rows.emplace_back(
        op::RavelMultiIndex{.shape = sizes}, std::vector{whole({m, n}, 3)},
        [=](const Hosts& in) {
          return generate({n}, [&](const Shape& p) {
            double at = 0;
            for (int k = 0; k < m; ++k) at = at * double(sizes[k]) + in[0].at({k, p[0]});
            return at;
          });
        },
        RowOptions{.dtypes = numbers});
  };
  ravel({3, 5}, 7), ravel({-1, 3}, 1), ravel({2, 3, 4}, 5), ravel({0, 4}, 3), ravel({9}, 4), ravel({3, 5}, 0);
  auto unravel = [&](const Shape& sizes, const Shape& data) {
    const int m = sizes.ndim();
    rows.emplace_back(
        op::UnravelIndex{.shape = sizes}, std::vector{whole(data, 60)},
        [=](const Hosts& in) {
          return generate({m, data.size()}, [&](const Shape& p) {
            double left = in[0][size_t(p[1])];
            for (int k = m - 1; k > p[0]; --k) left = std::floor(left / double(sizes[k]));
            return p[0] == 0 ? left : std::fmod(left, double(sizes[int(p[0])]));
          });
        },
        RowOptions{.dtypes = numbers});
  };
  unravel({3, 5}, {7}), unravel({-1, 3}, {1}), unravel({2, 3, 4}, {3, 5}), unravel({0, 4}, {2, 1}), unravel({9}, {4}),
      unravel({3, 5}, {0}), unravel({3, 5}, Shape());
}

void scan_rows(Rows& rows) {
  const RowOptions sums{.dtypes = numbers, .loosen = 4, .loosen_gradient = 4};
  const auto summed = [](const Host& x, int axis, bool reverse) {
    return along(x, axis, [&](std::vector<double>& line) {
      if (reverse) std::reverse(line.begin(), line.end());
      for (size_t i = 1; i < line.size(); ++i) line[i] += line[i - 1];
      if (reverse) std::reverse(line.begin(), line.end());
    });
  };
  for (bool reverse : {false, true}) {
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{{{3, 5}, 0},
                                                                        {{3, 5}, -1},
                                                                        {{2, 3, 5}, 1},
                                                                        {{1, 7}, 1},
                                                                        {{7}, 0},
                                                                        {{0, 3}, 0},
                                                                        {{3, 0}, 0},
                                                                        {{5, 257}, 0}}) {
      rows.emplace_back(
          op::Scan{.axis = axis, .reverse = reverse}, std::vector{in(shape)},
          [=, axis = axis](const Hosts& in) { return summed(in[0], axis, reverse); }, sums);
    }
  }
  auto cumsum = [&](const op::CumSum& op, const Input& a, RowOptions options) {
    const Shape shape = a.shape;
    rows.emplace_back(
        op, std::vector{a},
        [=](const Hosts& in) {
          Host x = in[0];
          if (op.dtype == DType::int32) {
            for (double& v : x.values) v = std::trunc(v);
          }
          Host y = op.axis ? summed(x, *op.axis, false) : summed(reshaped(x, {shape.size()}), 0, false);
          y.dtype = op.dtype;
          return y;
        },
        options);
  };
  const RowOptions own{.dtypes = numbers, .tried = numbers, .loosen = 4, .loosen_gradient = 4};  // of bool it is int64
  cumsum({.axis = 1}, in({3, 5}), own), cumsum({}, in({2, 3}), own), cumsum({.axis = -2}, in({1, 7}), own);
  cumsum({.axis = 0}, in({0, 3}), own), cumsum({}, in(Shape()), own);
  cumsum({.axis = 0, .dtype = DType::int32}, constant(in({5, 3})), {.dtypes = every_dtype, .differentiate = false});
  cumsum({.dtype = DType::float64}, index({2, 3}, {1.5, -2, 0.25, 3, 7, -1}), {});
  rows.emplace_back(op::CumSum{.axis = 0}, std::vector{index({3}, {1, 0, 1}, DType::boolean)}, [](const Hosts&) {
    return Host{.shape = Shape(3), .values = {1, 1, 2}, .dtype = DType::int64};
  });
}

void product_rows(Rows& rows) {
  auto product = [&](const std::vector<int64_t>& heights, int64_t columns) {
    std::vector<Input> inputs;
    for (int64_t h : heights) inputs.push_back(in({h, columns}));
    rows.emplace_back(
        op::KhatriRao{.num_args = int(heights.size())}, inputs,
        [=](const Hosts& in) {
          int64_t n = 1;
          for (int64_t h : heights) n *= h;
          return generate({n, columns}, [&](const Shape& p) {
            double value = 1;
            int64_t row = p[0];
            for (size_t i = heights.size(); i-- > 0; row /= heights[i]) {
              value *= in[i].at({row % heights[i], p[1]});
            }
            return value;
          });
        },
        RowOptions{.loosen = 2, .loosen_gradient = 4});
  };
  product({3, 5}, 2), product({1}, 7), product({2, 3, 1}, 3), product({2, 0}, 4), product({3, 2}, 0),
      product({1, 1}, 1);
}

// For each element of the columns and the pixel that it is: visit(position in columns, position in images).
void each_element(const op::Im2col& op, const Shape& images, const Shape& windows, const Shape& columns,
                  engine::FunctionRef<void(const Shape&, const Shape&)> visit) {
  const auto of = [](const Shape& s, int a, int64_t none) { return s.empty() ? none : s[a]; };
  each(columns, [&](const Shape& p) {
    Shape at = images;
    int64_t row = p[1], column = p[2];
    bool inside = true;
    for (int a = windows.ndim() - 1; a >= 0; --a) {
      const int64_t element = row % op.kernel[a], window = column % windows[a];
      at[a + 2] = window * of(op.stride, a, 1) - of(op.pad, a, 0) + element * of(op.dilate, a, 1);
      inside = inside && at[a + 2] >= 0 && at[a + 2] < images[a + 2];
      row /= op.kernel[a], column /= windows[a];
    }
    at[0] = p[0], at[1] = row;
    if (inside) visit(p, at);
  });
}

void column_rows(Rows& rows) {
  auto both = [&](const op::Im2col& op, const Shape& images, const Shape& windows) {
    const Shape columns(images[0], images[1] * op.kernel.size(), windows.size());
    rows.emplace_back(op, std::vector{in(images)}, [=](const Hosts& in) {
      Host y = zeros(columns);
      each_element(op, images, windows, columns, [&](const Shape& p, const Shape& q) { y.at(p) = in[0].at(q); });
      return y;
    });
    Shape size;
    for (int a = 2; a < images.ndim(); ++a) size.push_back(images[a]);
    rows.emplace_back(
        op::Col2im{.output_size = size, .kernel = op.kernel, .stride = op.stride, .dilate = op.dilate, .pad = op.pad},
        std::vector{in(columns)},
        [=](const Hosts& in) {
          Host y = zeros(images);
          each_element(op, images, windows, columns, [&](const Shape& p, const Shape& q) { y.at(q) += in[0].at(p); });
          return y;
        },
        RowOptions{.loosen = 4, .loosen_gradient = 2});
  };
  both({.kernel = Shape(2, 3)}, {2, 3, 3, 5}, {2, 3});
  both({.kernel = Shape(3, 2), .stride = Shape(2, 1), .pad = Shape(1, 0)}, {1, 1, 5, 3}, {3, 2});
  both({.kernel = Shape(2, 2), .stride = Shape(1, 3), .dilate = Shape(2, 1), .pad = Shape(0, 2)}, {1, 2, 3, 7}, {1, 4});
  both({.kernel = Shape(1, 1)}, {0, 2, 3, 1}, {3, 1}), both({.kernel = Shape(1, 1)}, {1, 1, 1, 1}, {1, 1});
  both({.kernel = Shape(3), .stride = Shape(2), .dilate = Shape(2), .pad = Shape(3)}, {2, 2, 7}, {5});
  both({.kernel = Shape(2, 1, 3), .stride = Shape(1, 2, 1), .pad = Shape(1, 0, 2)}, {1, 2, 2, 3, 2}, {3, 2, 4});
}

}  // namespace

Rows rearrange_rows() {
  Rows rows;
  split_rows(rows), blocks_rows(rows), diag_rows(rows);
  scatter_rows(rows), position_rows(rows);
  scan_rows(rows), product_rows(rows), column_rows(rows);
  return rows;
}

}  // namespace kaon::test
