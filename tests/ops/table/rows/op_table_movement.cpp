// Rows of the operators that change shapes or move elements.
#include <algorithm>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

const RowOptions moves{.dtypes = every_dtype};
constexpr auto none = std::nullopt;

// The bytes of the first input under another shape.
template <class T>
void reshape(Rows& rows, const T& op, const Shape& from, const Shape& to, std::vector<Input> more = {}) {
  std::vector<Input> inputs{in(from)};
  for (Input& i : more) inputs.push_back(constant(i));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        return reshaped({in[0].shape, in[0].values}, to);
      },
      moves);
}

// Every element of the result is one of the first input: the one at source(position).
template <class T, class F>
void move(Rows& rows, const T& op, const Shape& from, const Shape& to, F source, std::vector<Input> more = {}) {
  std::vector<Input> inputs{in(from)};
  for (Input& i : more) inputs.push_back(constant(i));
  rows.emplace_back(
      op, inputs, [=](const Hosts& in) { return generate(to, [&](const Shape& p) { return in[0].at(source(p)); }); },
      moves);
}

void reshape_rows(Rows& rows) {
  const struct {
    Shape in, codes, out;
    bool reverse = false;
  } cases[] = {{{2, 3, 4}, {4, 0, 2}, {4, 3, 2}},
               {{2, 3, 4}, {2, 0, 0}, {2, 3, 4}},
               {{2, 3, 4}, {6, 1, -1}, {6, 1, 4}},
               {{2, 3, 4}, {3, -1, 8}, {3, 1, 8}},
               {{2, 3, 4}, {-1}, {24}},
               {{2, 3, 4}, {-2, 1, 1}, {2, 3, 4, 1, 1}},
               {{2, 3, 4}, {2, -2}, {2, 3, 4}},
               {{2, 3, 4}, {-3, 4}, {6, 4}},
               {{2, 3, 4, 5}, {-3, -3}, {6, 20}},
               {{2, 3, 4}, {0, -3}, {2, 12}},
               {{2, 3, 4}, {-3, -2}, {6, 4}},
               {{2, 3, 4}, {-4, 1, 2, -2}, {1, 2, 3, 4}},
               {{10, 5, 4}, {-1, 0}, {40, 5}},
               {{10, 5, 4}, {-1, 0}, {50, 4}, true},
               {{2, 3, 4}, {2, -4, -1, 3, -2}, {2, 1, 3, 4}},
               {{8, 3}, {-4, 2, -1, 3}, {2, 4, 3}},
               {{2, 3, 8}, {0, 0, 2, -1, -4}, {2, 3, 2, 4}, true},
               {{64}, {16, 4, -4}, {16, 4}, true},
               {{0, 3, 4}, {0, -1}, {0, 12}},
               {{0, 3}, {-1, 3}, {0, 3}},
               {{1, 7}, {7, 1}, {7, 1}},
               {{}, {1, 1}, {1, 1}}};
  for (const auto& c : cases) reshape(rows, op::Reshape{.shape = c.codes, .reverse = c.reverse}, c.in, c.out);
  reshape(rows, op::Reshape{.target_shape = {0, 6}}, {2, 3, 4}, {4, 6});
  reshape(rows, op::Reshape{.target_shape = {5, 0}, .keep_highest = true}, {2, 3, 4}, {2, 12});

  reshape(rows, op::ReshapeLike{}, {6, 4}, {2, 3, 4}, {in({2, 3, 4})});
  reshape(rows, op::ReshapeLike{}, {0, 4}, {4, 0}, {in({4, 0})});
  reshape(rows, op::ReshapeLike{}, {1, 7}, {7}, {in({7})});
  reshape(rows, op::ReshapeLike{}, {}, {}, {in(Shape())});
  reshape(rows, op::ReshapeLike{.lhs_begin = 0, .lhs_end = 1, .rhs_begin = 1, .rhs_end = 3}, {6, 5}, {2, 3, 5},
          {in({9, 2, 3})});
  reshape(rows, op::ReshapeLike{.lhs_begin = -2, .lhs_end = -1, .rhs_begin = -3, .rhs_end = -1}, {7, 6, 5},
          {7, 2, 3, 5}, {in({2, 3, 9})});
  for (const auto& [from, to] : {std::pair(Shape(2, 3, 5), Shape(2, 15)),
                                 {Shape(1, 7), Shape(1, 7)},
                                 {Shape(0, 3, 2), Shape(0, 6)},
                                 {Shape(5), Shape(5, 1)}}) {
    reshape(rows, op::Flatten{}, from, to);
  }
  reshape(rows, op::ExpandDims{}, {3, 5}, {1, 3, 5});
  reshape(rows, op::ExpandDims{.axis = 1}, {0, 7}, {0, 1, 7});
  reshape(rows, op::ExpandDims{.axis = -1}, {1, 7}, {1, 7, 1});
  reshape(rows, op::ExpandDims{}, {}, {1});
  reshape(rows, op::Squeeze{}, {1, 3, 1, 5}, {3, 5});
  reshape(rows, op::Squeeze{}, {1, 1}, {1});
  reshape(rows, op::Squeeze{}, {}, {1});
  reshape(rows, op::Squeeze{.axis = Shape(-2)}, {1, 3, 1, 5}, {1, 3, 5});
  reshape(rows, op::Squeeze{.axis = Shape()}, {1, 3, 1, 5}, {1, 3, 1, 5});  // a list of none, as in NumPy
  reshape(rows, op::Squeeze{.axis = Shape(0, 2)}, {1, 0, 1, 7}, {0, 7});
  reshape(rows, op::ReshapeTo{.shape = {5, 3}}, {3, 5}, {5, 3});
  reshape(rows, op::ReshapeTo{.shape = {7, 0, 2}}, {0, 1}, {7, 0, 2});
  reshape(rows, op::ReshapeTo{.shape = {7}}, {1, 7}, {7});
  reshape(rows, op::ReshapeTo{}, {1, 1}, {});
  reshape(rows, op::ReshapeTo{.shape = {1, 1}}, {}, {1, 1});
}

void permute_rows(Rows& rows) {
  const std::pair<Shape, Shape> cases[] = {{{3, 5}, {}},
                                           {{3, 5}, {1, 0}},
                                           {{2, 3, 5}, {}},
                                           {{2, 3, 5}, {2, 0, 1}},
                                           {{2, 3, 5}, {0, 2, 1}},
                                           {{1, 7, 1}, {1, 2, 0}},
                                           {{0, 3}, {1, 0}},
                                           {{2, 1, 3, 2}, {3, 1, 0, 2}},
                                           {{7}, {}},
                                           {{}, {}}};
  for (const auto& [shape, axes] : cases) {
    Shape order = axes;
    if (order.empty()) {
      for (int i = shape.ndim() - 1; i >= 0; --i) order.push_back(i);
    }
    Shape to;
    for (int64_t a : order) to.push_back(shape[int(a)]);
    move(rows, op::Transpose{.axes = axes}, shape, to, [order](const Shape& p) {
      Shape q = p;
      for (int i = 0; i < p.ndim(); ++i) q[int(order[i])] = p[i];
      return q;
    });
  }
  auto swap = [&](const Shape& shape, int a, int b) {
    auto exchange = [a, b](Shape p) {
      std::swap(p[a < 0 ? a + p.ndim() : a], p[b < 0 ? b + p.ndim() : b]);
      return p;
    };
    move(rows, op::SwapAxis{.dim1 = a, .dim2 = b}, shape, exchange(shape), exchange);
  };
  swap({3, 5}, 0, 1), swap({2, 3, 5}, 2, 0), swap({2, 3, 5}, 1, -1), swap({1, 7}, 1, 1), swap({0, 4}, 0, 1);
  for (const auto& [shape, axes] : {std::pair(Shape(3, 5), Shape(0)),
                                    {Shape(2, 3, 5), Shape(0, 2)},
                                    {Shape(1, 7), Shape(-1)},
                                    {Shape(0, 3), Shape(1)}}) {
    move(rows, op::Reverse{.axis = axes}, shape, shape, [shape = shape, axes = axes](Shape p) {
      for (int64_t a : axes) {
        const int i = int(a < 0 ? a + p.ndim() : a);
        p[i] = shape[i] - 1 - p[i];
      }
      return p;
    });
  }
}

struct Range {
  Shape shape;
  OptionalShape begin, end, step;
  Shape first, stride, count;  // resolved, by hand
};

const Range ranges[] = {{{5, 7}, {1, 2}, {4, 6}, {}, {1, 2}, {1, 1}, {3, 4}},
                        {{5, 7}, {-4}, {-1}, {}, {1, 0}, {1, 1}, {3, 7}},
                        {{5, 7}, {none, 1}, {none, none}, {2, 3}, {0, 1}, {2, 3}, {3, 2}},
                        {{5, 7}, {none, 5}, {none, 1}, {-1, -2}, {4, 5}, {-1, -2}, {5, 2}},
                        {{1, 7}, {0, 3}, {1, 4}, {}, {0, 3}, {1, 1}, {1, 1}},
                        {{5, 7}, {none, 3}, {-1, none}, {-1, -1}, {4, 3}, {-1, -1}, {0, 4}},
                        {{5, 7}, {1, 6}, {none, none}, {INT64_MAX, INT64_MIN}, {1, 6}, {5, -7}, {1, 1}},
                        {{0, 4}, {0, 1}, {0, 3}, {}, {0, 1}, {1, 1}, {0, 2}},
                        {{5, 4}, {2, 1}, {2, 3}, {}, {2, 1}, {1, 1}, {0, 2}},
                        {{2, 3, 5}, {0, 1, 0}, {2, 3, 5}, {1, 1, 4}, {0, 1, 0}, {1, 1, 4}, {2, 2, 2}},
                        // beyond an end, or the wrong way
                        {{5, 7}, {1, -9}, {10, 2}, {}, {1, 0}, {1, 1}, {4, 2}},
                        {{5, 7}, {10, 2}, {0, -9}, {-1, -2}, {4, 2}, {-1, -2}, {4, 2}},
                        {{5, 7}, {5, 3}, {9, 1}, {}, {0, 0}, {1, 1}, {0, 0}},
                        {{5, 7}, {0, -9}, {2, -8}, {-1, 1}, {0, 0}, {-1, 1}, {0, 0}}};

Shape place(const Range& r, Shape p) {
  for (int i = 0; i < p.ndim(); ++i) p[i] = r.first[i] + p[i] * r.stride[i];
  return p;
}

void slice_rows(Rows& rows) {
  for (const Range& r : ranges) {
    move(rows, op::Slice{.begin = r.begin, .end = r.end, .step = r.step}, r.shape, r.count,
         [r](const Shape& p) { return place(r, p); });
    rows.emplace_back(
        op::SliceGrad{.shape = r.shape, .begin = r.first, .step = r.stride}, std::vector{in(r.count)},
        [=](const Hosts& in) {
          Host out = zeros(r.shape);
          each(r.count, [&](const Shape& p) { out.at(place(r, p)) = in[0].at(p); });
          return out;
        },
        moves);
    rows.emplace_back(
        op::SliceAssign{.begin = r.begin, .end = r.end, .step = r.step}, std::vector{in(r.shape), in(r.count)},
        [=](const Hosts& in) {
          Host out{in[0].shape, in[0].values};
          each(r.count, [&](const Shape& p) { out.at(place(r, p)) = in[1].at(p); });
          return out;
        },
        moves);
    for (double value : {0.0, 3.0}) {
      rows.emplace_back(
          op::SliceAssignScalar{.begin = r.begin, .end = r.end, .step = r.step, .scalar = value},
          std::vector{in(r.shape)},
          [=](const Hosts& in) {
            Host out{in[0].shape, in[0].values};
            each(r.count, [&](const Shape& p) { out.at(place(r, p)) = value; });
            return out;
          },
          moves);
    }
  }
  auto rows_of = [&](const Shape& shape, int axis, int64_t begin, std::optional<int64_t> end, int64_t first,
                     int64_t count) {
    const int at = axis < 0 ? axis + shape.ndim() : axis;
    move(rows, op::SliceAxis{.axis = axis, .begin = begin, .end = end}, shape, with(shape, at, count),
         [=](const Shape& p) { return with(p, at, p[at] + first); });
  };
  rows_of({5, 7}, 0, 1, 3, 1, 2), rows_of({5, 7}, 1, 2, none, 2, 5), rows_of({2, 3, 5}, -1, -3, -1, 2, 2);
  rows_of({1, 7}, 0, 0, 1, 0, 1), rows_of({0, 4}, 1, 1, 3, 1, 2), rows_of({5, 4}, 0, 2, 2, 2, 0);
  auto like = [&](const Shape& shape, const Shape& other, const Shape& axes, const Shape& to) {
    move(rows, op::SliceLike{.axes = axes}, shape, to, [](const Shape& p) { return p; }, {in(other)});
  };
  like({5, 7}, {3, 4}, {}, {3, 4}), like({5, 7}, {3, 4}, {0}, {3, 7}), like({2, 3, 5}, {1, 9, 2}, {-1, 0}, {1, 3, 2}),
      like({3, 7}, {0, 1}, {0}, {0, 7}), like({}, {}, {}, {}), like({4, 3, 6}, {2, 3, 5, 1}, {-3, -1}, {2, 3, 5});
}

void join_rows(Rows& rows) {
  auto concat = [&](int dim, const std::vector<Shape>& parts) {
    std::vector<Input> inputs;
    Shape to = parts[0];
    const int axis = dim < 0 ? dim + to.ndim() : dim;
    to[axis] = 0;
    for (const Shape& s : parts) inputs.push_back(in(s)), to[axis] += s[axis];
    rows.emplace_back(
        op::Concat{.dim = dim, .num_args = int(parts.size())}, inputs,
        [=](const Hosts& in) {
          return generate(to, [&](Shape p) {
            size_t k = 0;
            for (; p[axis] >= in[k].shape[axis]; ++k) p[axis] -= in[k].shape[axis];
            return in[k].at(p);
          });
        },
        moves);
  };
  concat(1, {{3, 2}, {3, 5}}), concat(0, {{1, 5}, {3, 5}, {2, 5}}), concat(-1, {{2, 3, 1}, {2, 3, 4}}),
      concat(1, {{1, 7}});
  concat(1, {{3, 0}, {3, 2}}), concat(0, {{0, 4}, {0, 4}}), concat(2, {{2, 3, 4}, {2, 3, 1}, {2, 3, 3}});
  auto stack = [&](int axis, size_t n, const Shape& shape) {
    const int at = axis < 0 ? axis + shape.ndim() + 1 : axis;
    rows.emplace_back(
        op::Stack{.axis = axis, .num_args = int(n)}, std::vector(n, in(shape)),
        [=](const Hosts& in) {
          return generate(inserted(shape, at, int64_t(n)),
                          [&](const Shape& p) { return in[size_t(p[at])].at(without(p, at)); });
        },
        moves);
  };
  stack(0, 2, {3, 5}), stack(1, 3, {3, 5}), stack(-1, 2, {1, 7}), stack(0, 1, {4}), stack(1, 2, {0, 3}),
      stack(0, 3, {});
  auto split = [&](int n, int axis, bool squeeze, const Shape& shape) {
    const int at = axis < 0 ? axis + shape.ndim() : axis;
    rows.emplace_back(
        op::SliceChannel{.num_outputs = n, .axis = axis, .squeeze_axis = squeeze}, std::vector{in(shape)},
        [=](const Hosts& in) {
          Hosts out;
          const int64_t size = shape[at] / n;
          for (int k = 0; k < n; ++k) {
            Host part = generate(with(shape, at, size),
                                 [&](const Shape& p) { return in[0].at(with(p, at, p[at] + k * size)); });
            Shape to = part.shape;
            if (squeeze) to = shape.ndim() > 1 ? without(to, at) : Shape(1);
            out.push_back(reshaped(part, to));
          }
          return out;
        },
        moves);
  };
  split(3, 1, false, {2, 6}), split(2, 0, false, {4, 5}), split(5, -1, true, {2, 3, 5}), split(1, 1, false, {1, 7}),
      split(2, 1, false, {0, 4});
  split(3, 0, true, {3}), split(3, 1, false, {2, 0}), split(3, 1, true, {1, 3, 2});
}

void repeat_rows(Rows& rows) {
  auto repeat = [&](const Shape& shape, int n, std::optional<int> axis) {
    if (!axis) {
      rows.emplace_back(
          op::Repeat{.repeats = n}, std::vector{in(shape)},
          [=](const Hosts& in) {
            return generate(Shape(shape.size() * n), [&](const Shape& p) { return in[0][size_t(p[0] / n)]; });
          },
          moves);
      return;
    }
    const int at = *axis < 0 ? *axis + shape.ndim() : *axis;
    move(rows, op::Repeat{.repeats = n, .axis = axis}, shape, with(shape, at, shape[at] * n),
         [=](const Shape& p) { return with(p, at, p[at] / n); });
  };
  repeat({3, 5}, 2, none), repeat({3, 5}, 3, 0), repeat({2, 3, 5}, 2, -1), repeat({1, 7}, 2, 1), repeat({0, 4}, 3, 1),
      repeat({3}, 0, 0), repeat({2, 3}, 1, 1), repeat({}, 3, none);
  auto tile = [&](const Shape& shape, const Shape& reps, const Shape& to) {
    move(rows, op::Tile{.reps = reps}, shape, to, [=](const Shape& p) {
      Shape q;
      for (int i = 0; i < shape.ndim(); ++i) q.push_back(p[i + p.ndim() - shape.ndim()] % shape[i]);
      return q;
    });
  };
  tile({3, 5}, {2}, {3, 10}), tile({3, 5}, {2, 3}, {6, 15}), tile({3}, {2, 1, 2}, {2, 1, 6}),
      tile({1, 7}, {3, 1}, {3, 7}), tile({0, 4}, {2, 2}, {0, 8});
  tile({2, 3, 2}, {2, 1, 3}, {4, 3, 6}), tile({3}, {0}, {0}), tile({}, {2, 3}, {2, 3});

  auto broadcast = [&](auto op, const Shape& shape, const Shape& to, std::vector<Input> more = {}) {
    move(
        rows, op, shape, to,
        [=](const Shape& p) {
          Shape q;
          for (int i = 0; i < shape.ndim(); ++i) q.push_back(shape[i] == 1 ? 0 : p[i + p.ndim() - shape.ndim()]);
          return q;
        },
        more);
  };
  broadcast(op::BroadcastTo{.shape = {3, 5}}, {1, 5}, {3, 5}),
      broadcast(op::BroadcastTo{.shape = {2, 3, 0}}, {2, 1, 5}, {2, 3, 5});
  broadcast(op::BroadcastTo{.shape = {4, 7}}, {1, 1}, {4, 7}),
      broadcast(op::BroadcastTo{.shape = {0, 4}}, {0, 1}, {0, 4}),
      broadcast(op::BroadcastTo{.shape = {2, 3, 5}}, {3, 1}, {2, 3, 5}),
      broadcast(op::BroadcastTo{.shape = {2, 3}}, {}, {2, 3});
  broadcast(op::BroadcastAxis{.axis = {1}, .size = {5}}, {3, 1}, {3, 5}),
      broadcast(op::BroadcastAxis{.axis = {0, -1}, .size = {2, 3}}, {1, 4, 1}, {2, 4, 3});
  broadcast(op::BroadcastAxis{.axis = {0}, .size = {7}}, {1, 1}, {7, 1}),
      broadcast(op::BroadcastAxis{.axis = {1}, .size = {4}}, {0, 1}, {0, 4});
  broadcast(op::BroadcastAxis{.axis = {1}, .size = {0}}, {3, 1}, {3, 0});
  broadcast(op::BroadcastLike{}, {3, 1}, {3, 5}, {in({3, 5})}),
      broadcast(op::BroadcastLike{}, {1, 7}, {0, 7}, {in({0, 7})}),
      broadcast(op::BroadcastLike{}, {}, {}, {in(Shape())});
  broadcast(op::BroadcastLike{.lhs_axes = Shape(1), .rhs_axes = Shape(0)}, {3, 1}, {3, 4}, {in({4, 9})});
  broadcast(op::BroadcastLike{.lhs_axes = Shape(0, -1), .rhs_axes = Shape(-1, 0)}, {1, 2, 1}, {9, 2, 4}, {in({4, 9})});
}

void pad_rows(Rows& rows) {
  auto pad = [&](PadMode mode, const Shape& shape, const IntTuple& width, double value) {
    Shape to = shape;
    for (int i = 0; i < shape.ndim(); ++i) to[i] += width[2 * i] + width[2 * i + 1];
    auto source = [=](Shape p, bool& outside) {
      for (int i = 0; i < p.ndim(); ++i) {
        const int64_t n = shape[i], x = p[i] - width[2 * i];
        outside = outside || x < 0 || x >= n;
        p[i] = mode == PadMode::reflect ? (x < 0    ? -x
                                           : x >= n ? 2 * (n - 1) - x
                                                    : x)
                                        : std::min(std::max<int64_t>(x, 0), n - 1);
      }
      return p;
    };
    rows.emplace_back(
        op::Pad{.mode = mode, .pad_width = width, .constant_value = value}, std::vector{in(shape)},
        [=](const Hosts& in) {
          return generate(to, [&](const Shape& p) {
            bool outside = false;
            const Shape q = source(p, outside);
            return outside && mode == PadMode::constant ? value : in[0].at(q);
          });
        },
        moves);
    if (mode == PadMode::constant) return;
    rows.emplace_back(
        op::PadGrad{.mode = mode, .pad_width = width}, std::vector{in(to)},
        [=](const Hosts& in) {
          Host out = zeros(shape);
          bool ignored = false;
          each(to, [&](const Shape& p) { out.at(source(p, ignored)) += in[0].at(p); });
          return out;
        },
        RowOptions{.loosen = 8});  // 16-bit floats are rounded once per axis
  };
  for (double value : {0.0, 2.0}) {
    pad(PadMode::constant, {1, 2, 3, 5}, {0, 0, 0, 0, 1, 2, 0, 3}, value),
        pad(PadMode::constant, {3, 5}, {1, 0, 2, 1}, value);
    pad(PadMode::constant, {0, 1, 4, 3}, {0, 0, 0, 0, 1, 1, 2, 0}, value), pad(PadMode::constant, {7}, {0, 0}, value);
  }
  for (PadMode mode : {PadMode::edge, PadMode::reflect}) {
    pad(mode, {1, 2, 3, 5}, {0, 0, 0, 0, 1, 2, 2, 0}, 0), pad(mode, {2, 1, 3, 4}, {0, 0, 0, 0, 2, 1, 3, 3}, 0),
        pad(mode, {3, 5}, {0, 1, 0, 0}, 0);
    pad(mode, {0, 1, 3, 4}, {0, 0, 0, 0, 1, 1, 2, 0}, 0), pad(mode, {3, 5}, {0, 0, 0, 0}, 0);
  }
  for (PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect}) {  // more axes than a Shape has pairs for
    pad(mode, {2, 2, 3, 2, 3}, {0, 1, 0, 0, 2, 1, 0, 1, 1, 2}, 2);
    pad(mode, {1, 2, 1, 2, 2, 2, 3, 2}, {0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 2, 0, 0, 1}, 2);
  }
  rows.emplace_back(op::PadGrad{.mode = PadMode::constant, .pad_width = {0, 0}}, std::vector{in({3})}, Reference(),
                    RowOptions{.refused = true});

  auto mask = [&](const Shape& shape, int axis, double value, DType lengths) {
    const int64_t batch = shape[1 - axis], steps = shape[axis];
    rows.emplace_back(
        op::SequenceMask{.use_sequence_length = true, .value = value, .axis = axis},
        std::vector{in(shape), index({batch}, 0, double(steps + 1), lengths)},
        [=](const Hosts& in) {
          return generate(shape, [&](const Shape& p) {
            return double(p[axis]) >= std::trunc(in[1][size_t(p[1 - axis])]) ? value : in[0].at(p);
          });
        },
        moves);
  };
  mask({5, 3}, 0, 0, DType::float32), mask({5, 3, 2}, 0, 2, DType::int32), mask({3, 5, 2}, 1, 1, DType::int64),
      mask({7, 1}, 0, 0, DType::float32), mask({0, 4}, 0, 0, DType::float32);
  rows.emplace_back(
      op::SequenceMask{.use_sequence_length = true, .value = 9},
      std::vector{in({4, 3}), index({3}, std::vector<double>{0.4, 1.5, 2.9})},
      [](const Hosts& in) {
        return generate({4, 3},
                        [&](const Shape& p) { return p[0] >= std::trunc(in[1][size_t(p[1])]) ? 9.0 : in[0].at(p); });
      },
      moves);
  reshape(rows, op::SequenceMask{}, {5, 3}, {5, 3});
}

void numpy_reshapes(Rows& rows) {
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

}  // namespace

Rows movement_rows() {
  Rows rows;
  reshape_rows(rows);
  permute_rows(rows);
  slice_rows(rows);
  join_rows(rows);
  repeat_rows(rows);
  pad_rows(rows);
  numpy_reshapes(rows);
  return rows;
}

}  // namespace kaon::test
