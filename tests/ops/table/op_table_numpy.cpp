// Rows of arrays stacked, split, padded, edited and made as NumPy does it, of diagonals, and of arithmetic that
// promotes.
#include <algorithm>
#include <cmath>

#include "kaon/ops/promotion/promotion.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

Host typed(Host h, DType t) {
  h.dtype = t;
  return h;
}

const RowOptions any{.dtypes = every_dtype}, refused{.refused = true};
const RowOptions of_shape{.dtypes = every_dtype, .differentiate = false};  // of the shape alone

// --- arithmetic

// The remainder with the sign of the divisor, 0 for a divisor of 0.
double modulo(double a, double b) {
  if (b == 0) return 0;
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class Op>
void promoting(Rows& rows, double (*f)(double, double), bool of_bool) {
  const RowOptions options{
      .dtypes = of_bool ? every_dtype : numbers, .tried = numbers, .loosen = 4, .loosen_gradient = 8};
  for (const auto& [a, b] :
       {std::pair(Shape(3, 5), Shape(3, 5)), {{3, 1}, {5}}, {{1, 7}, {1}}, {{0, 4}, {4}}, {Shape(), Shape()}}) {
    rows.emplace_back(Op{}, std::vector{in(a, Fill::above_one), in(b, Fill::above_one)},
                      broadcasting([f](double x, double y, DType) { return f(x, y); }), options);
  }
  // with an array of another dtype, whose numbers all hold
  for (const DType other : {DType::boolean, DType::uint8, DType::float64}) {
    rows.emplace_back(
        Op{}, std::vector{in({3, 5}, Fill::above_one), index({5}, 1, 2, other)},
        [=](const Hosts& in) {
          return typed(broadcasting([f](double x, double y, DType) { return f(x, y); })(in)[0],
                       result_type(*in[0].dtype, other));
        },
        options);
  }
}

void arithmetic_rows(Rows& rows) {
  promoting<op::PromotingAdd>(
      rows, [](double a, double b) { return a + b; }, true);
  promoting<op::PromotingSubtract>(
      rows, [](double a, double b) { return a - b; }, false);
  promoting<op::PromotingMultiply>(
      rows, [](double a, double b) { return a * b; }, true);
  promoting<op::PromotingMod>(rows, modulo, false);
  promoting<op::PromotingPower>(
      rows, [](double a, double b) { return std::pow(a, b); }, false);
}

// --- stacked and split

// The arrays one after the other along `axis`, each in the shape that `as` gives.
Reference stacked(int axis, std::vector<Shape> shapes) {
  return [=](const Hosts& in) {
    Shape out = shapes[0];
    for (size_t i = 1; i < shapes.size(); ++i) out[axis] += shapes[i][axis];
    return generate(out, [&](const Shape& p) {
      Shape at = p;
      size_t i = 0;
      while (at[axis] >= shapes[i][axis]) at[axis] -= shapes[i][axis], ++i;
      return reshaped(in[i], shapes[i]).at(at);
    });
  };
}

template <class Op>
void stack(Rows& rows, int axis, const std::vector<Shape>& given, const std::vector<Shape>& as, Op op = {}) {
  std::vector<Input> inputs;
  for (const Shape& s : given) inputs.push_back(in(s));
  op.num_args = int(given.size());
  rows.emplace_back(op, inputs, stacked(axis, as), any);
}

template <class Op>
void at_least(Rows& rows, const std::vector<Shape>& given, const std::vector<Shape>& as) {
  std::vector<Input> inputs;
  for (const Shape& s : given) inputs.push_back(in(s));
  rows.emplace_back(
      Op{.num_args = int(given.size())}, inputs,
      [=](const Hosts& in) {
        Hosts out;
        for (size_t i = 0; i < in.size(); ++i) out.push_back(reshaped(in[i], as[i]));
        return out;
      },
      any);
}

template <class Op>
void split(Rows& rows, const Shape& shape, const Op& op, int axis, std::vector<int64_t> begins) {
  begins.push_back(shape[axis]);
  rows.emplace_back(
      op, std::vector{in(shape)},
      [=](const Hosts& in) {
        Hosts out;
        for (size_t i = 0; i + 1 < begins.size(); ++i) {
          Host part = generate(with(shape, axis, begins[i + 1] - begins[i]),
                               [&](const Shape& p) { return in[0].at(with(p, axis, p[axis] + begins[i])); });
          out.push_back(op.squeeze_axis ? reshaped(part, without(shape, axis)) : part);
        }
        return out;
      },
      any);
}

void stack_rows(Rows& rows) {
  stack<op::ColumnStack>(rows, 1, {{5}, {5, 2}, {5}}, {{5, 1}, {5, 2}, {5, 1}});
  stack<op::ColumnStack>(rows, 1, {{1, 7}}, {{1, 7}}), stack<op::ColumnStack>(rows, 1, {{0}, {0, 3}}, {{0, 1}, {0, 3}});
  stack<op::HStack>(rows, 1, {{3, 5}, {3, 2}}, {{3, 5}, {3, 2}}, {.dim = 0});
  stack<op::HStack>(rows, 0, {{3}, Shape(), {0}}, {{3}, {1}, {0}}), stack<op::HStack>(rows, 1, {{1, 7}}, {{1, 7}});
  stack<op::VStack>(rows, 0, {{5}, {2, 5}}, {{1, 5}, {2, 5}}), stack<op::VStack>(rows, 0, {{1, 7}}, {{1, 7}});
  stack<op::VStack>(rows, 0, {{0, 3}, {3}}, {{0, 3}, {1, 3}});
  stack<op::DStack>(rows, 2, {{5}, {1, 5}}, {{1, 5, 1}, {1, 5, 1}}, {.dim = 0});
  stack<op::DStack>(rows, 2, {{3, 5}, {3, 5, 2}}, {{3, 5, 1}, {3, 5, 2}});
  stack<op::DStack>(rows, 2, {{0, 3}}, {{0, 3, 1}}), stack<op::DStack>(rows, 2, {Shape()}, {{1, 1, 1}});
  stack<op::ColumnStack>(rows, 1, {Shape()}, {{1, 1}}),
      stack<op::VStack>(rows, 0, {Shape(), Shape()}, {{1, 1}, {1, 1}});
  at_least<op::AtLeast2d>(rows, {{1, 7}}, {{1, 7}}), at_least<op::AtLeast3d>(rows, {{1, 7}}, {{1, 7, 1}});
  at_least<op::AtLeast1d>(rows, {Shape(), {1, 7}, {0}}, {{1}, {1, 7}, {0}});
  at_least<op::AtLeast2d>(rows, {Shape(), {7}, {0, 3}, {2, 1, 3}}, {{1, 1}, {1, 7}, {0, 3}, {2, 1, 3}});
  at_least<op::AtLeast3d>(rows, {Shape(), {7}, {0, 3}, {2, 1, 3}}, {{1, 1, 1}, {1, 7, 1}, {0, 3, 1}, {2, 1, 3}});
  split(rows, {3, 6}, op::HSplit{.axis = 0, .sections = 3}, 1, {0, 2, 4});
  split(rows, {7}, op::HSplit{.indices = {0, 3, 5}}, 0, {0, 3, 5}),
      split(rows, {1, 5}, op::HSplit{.indices = {0}}, 1, {0});
  split(rows, {0, 4}, op::HSplit{.sections = 2}, 1, {0, 2});
  split(rows, {3, 2}, op::HSplit{.squeeze_axis = true, .sections = 2}, 1, {0, 1});
  split(rows, {2, 3, 6}, op::DSplit{.axis = 0, .sections = 2}, 2, {0, 3});
  split(rows, {1, 1, 7}, op::DSplit{.indices = {0, 3, 5}}, 2, {0, 3, 5});
  split(rows, {0, 2, 4}, op::DSplit{.indices = {0, 4}}, 2, {0, 4});
  split(rows, {3, 1, 2}, op::DSplit{.squeeze_axis = true, .sections = 2}, 2, {0, 1});
}

// --- diagonals

// The diagonals of the matrices along two axes, as the last axis.
Host diagonals(const Host& x, int64_t k, int row, int column) {
  const int64_t none = 0;
  const int64_t n = std::max(none, std::min(x.shape[row] + std::min(k, none), x.shape[column] - std::max(k, none)));
  Shape out;
  for (int i = 0; i < x.shape.ndim(); ++i) {
    if (i != row && i != column) out.push_back(x.shape[i]);
  }
  out.push_back(n);
  return generate(out, [&](const Shape& p) {
    Shape at;
    for (int i = 0, j = 0; i < x.shape.ndim(); ++i) {
      at.push_back(i == row ? p.back() - std::min(k, none) : i == column ? p.back() + std::max(k, none) : p[j++]);
    }
    return x.at(at);
  });
}

Host matrix_of(const Host& x, int64_t k) {
  const int64_t n = x.size() + std::abs(k);
  return generate(Shape(n, n), [&](const Shape& p) { return p[1] - p[0] == k ? x[size_t(k >= 0 ? p[0] : p[1])] : 0; });
}

void diagonal_rows(Rows& rows) {
  rows.emplace_back(
      op::DiagFlat{.k = 1}, std::vector{in(Shape())}, [](const Hosts& in) { return matrix_of(in[0], 1); }, any);
  for (int k : {0, 1, -2, 7}) {
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
      rows.emplace_back(
          op::NumpyDiag{.k = k}, std::vector{in(shape)}, [=](const Hosts& in) { return diagonals(in[0], k, 0, 1); },
          any);
      rows.emplace_back(
          op::DiagFlat{.k = k}, std::vector{in(shape)}, [=](const Hosts& in) { return matrix_of(in[0], k); }, any);
    }
    rows.emplace_back(
        op::NumpyDiag{.k = k}, std::vector{in({5})}, [=](const Hosts& in) { return matrix_of(in[0], k); }, any);
    const auto diagonal = [&](const Shape& shape, int axis1, int axis2) {
      const int row = axis1 < 0 ? axis1 + shape.ndim() : axis1, column = axis2 < 0 ? axis2 + shape.ndim() : axis2;
      rows.emplace_back(
          op::Diagonal{.offset = k, .axis1 = axis1, .axis2 = axis2}, std::vector{in(shape)},
          [=](const Hosts& in) { return diagonals(in[0], k, row, column); }, any);
      rows.emplace_back(
          op::Trace{.offset = k, .axis1 = axis1, .axis2 = axis2}, std::vector{in(shape)},
          [=](const Hosts& in) {
            const Host d = diagonals(in[0], k, row, column);
            Host sums = reduced(d, Shape(-1), false, [](const std::vector<double>& v) {
              double sum = 0;
              for (double x : v) sum += x;
              return sum;
            });
            return d.shape.ndim() == 1 ? sums : reshaped(sums, without(d.shape, d.shape.ndim() - 1));
          },
          RowOptions{.dtypes = numbers, .loosen = 8});
    };
    diagonal({3, 5}, 0, 1), diagonal({2, 3, 5}, 2, 0), diagonal({1, 7, 3}, -1, 1), diagonal({0, 4}, 0, 1);
  }
  for (const Shape& shape : {Shape(3, 3), Shape(1, 1, 1), Shape(0, 0), Shape(5, 5, 5)}) {
    rows.emplace_back(
        op::DiagIndicesFrom{}, std::vector{in(shape)},
        [=](const Hosts&) {
          return typed(generate(Shape(shape.ndim(), shape[0]), [](const Shape& p) { return double(p[1]); }),
                       DType::int64);
        },
        of_shape);
  }
}

// --- arrays made of numbers

template <class Op>
void window(Rows& rows, double (*f)(double)) {
  for (int64_t n : {7, 1, 0, 12}) {
    for (const DType t : {DType::float32, DType::float64, DType::float16}) {
      rows.emplace_back(Op{.M = n, .dtype = t, .ctx = cpu(0)}, std::vector<Input>{}, [=](const Hosts&) {
        Host y = generate(Shape(n), [&](const Shape& p) {
          return n == 1 ? 1 : f(2 * std::acos(-1.0) * double(p[0]) / double(n - 1));
        });
        return typed(y, t);
      });
    }
  }
  rows.emplace_back(Op{}, std::vector<Input>{}, Reference(), refused);
}

void made_rows(Rows& rows) {
  window<op::Blackman>(rows, [](double x) { return 0.42 - 0.5 * std::cos(x) + 0.08 * std::cos(2 * x); });
  window<op::Hamming>(rows, [](double x) { return 0.54 - 0.46 * std::cos(x); });
  window<op::Hanning>(rows, [](double x) { return 0.5 - 0.5 * std::cos(x); });
  const auto eye = [&](const op::NumpyEye& op) {
    rows.emplace_back(op, std::vector<Input>{}, [=](const Hosts&) {
      return typed(
          generate(Shape(op.N, op.M.value_or(op.N)), [&](const Shape& p) { return double(p[1] - p[0] == op.k); }),
          op.dtype);
    });
  };
  eye({.N = 3}), eye({.N = 1, .M = 7, .k = 2, .dtype = DType::int32, .ctx = cpu(0)}), eye({.N = 0, .M = 3});
  eye({.N = 5, .M = 0}), eye({.N = 5, .M = 3, .k = -1});
  for (int64_t n : {3, 1, 0}) {
    for (const DType t : {DType::float32, DType::boolean, DType::int64}) {
      rows.emplace_back(op::Identity{.shape = Shape(n, n), .dtype = t, .ctx = cpu(0)}, std::vector<Input>{},
                        [=](const Hosts&) {
                          return typed(generate(Shape(n, n), [](const Shape& p) { return double(p[0] == p[1]); }), t);
                        });
    }
  }
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(2, 3, 5)}) {
    for (const DType t : {DType::int32, DType::float32}) {
      rows.emplace_back(
          op::Indices{.dimensions = shape, .dtype = t, .ctx = cpu(0)}, std::vector<Input>{}, [=](const Hosts&) {
            return typed(
                generate(inserted(shape, 0, shape.ndim()), [](const Shape& p) { return double(p[1 + int(p[0])]); }), t);
          });
    }
  }
  const auto logspace = [&](const op::LogSpace& op) {
    rows.emplace_back(op, std::vector<Input>{}, [=](const Hosts&) {
      const double step = (op.stop - op.start) / std::max(1, op.num - (op.endpoint ? 1 : 0));
      return typed(
          generate(Shape(op.num), [&](const Shape& p) { return std::pow(op.base, op.start + step * double(p[0])); }),
          op.dtype);
    });
  };
  logspace({.start = 0.25, .stop = 2, .num = 7}), logspace({.start = 1, .stop = 3, .num = 1}),
      logspace({.start = 1, .stop = 3, .num = 0});
  logspace({.start = 3, .stop = -1, .num = 5, .endpoint = false, .base = 2, .dtype = DType::float64, .ctx = cpu(0)});
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    rows.emplace_back(
        op::FullLike{.fill_value = 1}, std::vector{in(shape)}, [=](const Hosts&) { return zeros(shape, 1); }, of_shape);
    rows.emplace_back(
        op::FullLike{.fill_value = -2, .dtype = DType::int32, .ctx = cpu(0)}, std::vector{in(shape)},
        [=](const Hosts&) { return typed(zeros(shape, -2), DType::int32); }, of_shape);
  }
}

// --- edited

void mask_rows(Rows& rows) {
  const auto add = [&](const Shape& data, const Shape& mask, int start_axis, double value) {
    rows.emplace_back(
        op::MaskAssignScalar{.value = value, .start_axis = start_axis},
        std::vector{in(data), index(mask, 0, 2, DType::boolean)},
        [=](const Hosts& in) {
          return generate(data, [&](const Shape& p) {
            Shape at;
            for (int i = 0; i < mask.ndim(); ++i) at.push_back(p[start_axis + i]);
            return in[1].at(at) != 0 ? value : in[0].at(p);
          });
        },
        any);
  };
  add({3, 5}, {3, 5}, 0, 1), add({3, 5}, {5}, 1, 0), add({2, 3, 5}, {2, 3}, 0, 1), add({1, 7}, {1}, 0, 1);
  add({0, 4}, {4}, 1, 1), add({2, 3, 5}, {3}, 1, 1), add(Shape(), Shape(), 0, 1);
}

// The elements of x whose position along `axis` is in `from`, in that order; -1 - i: slice i of `slices`.
Host chosen(const Host& x, int axis, const std::vector<int64_t>& from, const Host* slices = nullptr) {
  return generate(with(x.shape, axis, int64_t(from.size())), [&](const Shape& p) {
    const int64_t at = from[size_t(p[axis])];
    if (at >= 0) return x.at(with(p, axis, at));
    Shape q = with(p, axis, -1 - at);
    for (int i = 0; i < q.ndim(); ++i) q[i] = slices->shape[i] == 1 ? 0 : q[i];
    return slices->at(q);
  });
}

void delete_rows(Rows& rows) {
  const auto add = [&](const Shape& shape, op::Delete op, const std::vector<int64_t>& kept) {
    rows.emplace_back(
        op, std::vector{in(shape)},
        [=](const Hosts& in) {
          const Host x = op.axis ? in[0] : reshaped(in[0], Shape(shape.size()));
          return chosen(x, op.axis ? *op.axis : 0, kept);
        },
        any);
  };
  add({3, 5}, {.int_ind = 1, .axis = 0}, {0, 2}), add({3, 5}, {.int_ind = -1, .axis = 1}, {0, 1, 2, 3});
  add({1, 7}, {.int_ind = 3}, {0, 1, 2, 4, 5, 6}), add({3, 7}, {.start = 1, .stop = 4, .axis = 1}, {0, 4, 5, 6});
  add({3, 7}, {.start = 1, .stop = 7, .step = 2, .axis = 1}, {0, 2, 4, 6});
  add({3, 7}, {.stop = 5, .step = 3, .axis = 1}, {1, 2, 4, 5, 6});
  add({3, 7}, {.start = 5, .stop = 0, .step = -2, .axis = 1}, {0, 2, 4, 6});
  add({3, 7}, {.start = 4, .stop = 2, .axis = 1}, {0, 1, 2, 3, 4, 5, 6});
  add({0, 4}, {.int_ind = 2, .axis = 1}, {0, 1, 3}), add({4, 2}, {.step = 1, .axis = 0}, {});
  rows.emplace_back(op::Delete{.axis = 0}, std::vector{in({3})}, Reference(), refused);
}

template <class Op>
void insert(Rows& rows, const Shape& shape, Op op, std::vector<Input> inputs, const Shape& as,
            const std::vector<int64_t>& order) {
  inputs.insert(inputs.begin(), in(shape));
  rows.emplace_back(
      op, std::move(inputs),
      [=](const Hosts& in) {
        const Host x = op.axis ? in[0] : reshaped(in[0], Shape(shape.size()));
        const Host slices = op.val ? zeros(as, *op.val) : reshaped(in[1], as);
        return chosen(x, op.axis ? *op.axis : 0, order, &slices);
      },
      any);
}

void insert_rows(Rows& rows) {
  insert(rows, {3, 4}, op::InsertScalar{.int_ind = 1, .axis = 0}, {in({4})}, {1, 4}, {0, -1, 1, 2});
  insert(rows, {3, 4}, op::InsertScalar{.val = 1, .int_ind = -1, .axis = 1}, {}, {1, 1}, {0, 1, 2, -1, 3});
  insert(rows, {3, 4}, op::InsertScalar{.int_ind = 4, .axis = 1}, {in({2, 1})}, {1, 2}, {0, 1, 2, 3, -1, -2});
  insert(rows, {1, 7}, op::InsertScalar{.int_ind = 0}, {in({2})}, {2}, {-1, -2, 0, 1, 2, 3, 4, 5, 6});
  insert(rows, {0, 3}, op::InsertScalar{.int_ind = 2, .axis = 1}, {in({1})}, {1, 1}, {0, 1, -1, 2});
  insert(rows, {3, 4}, op::InsertSlice{.start = 0, .stop = 3, .axis = 0}, {in({3, 1})}, {3, 1}, {-1, 0, -2, 1, -3, 2});
  insert(rows, {3, 4}, op::InsertSlice{.val = 1, .start = 1, .step = 2, .axis = 1}, {}, {1, 2}, {0, -1, 1, 2, -2, 3});
  insert(rows, {3, 4}, op::InsertSlice{.start = 3, .stop = 1, .step = -2, .axis = 1}, {in({2})}, {1, 2},
         {0, 1, 2, -1, -2, 3});
  insert(rows, {1, 7}, op::InsertSlice{.start = 2, .stop = 4}, {in({2})}, {2}, {0, 1, -1, 2, -2, 3, 4, 5, 6});
  insert(rows, {0, 3}, op::InsertSlice{.start = 1, .stop = 2, .axis = 1}, {in({1, 1})}, {1, 1}, {0, -1, 1, 2});
  const auto obj = [](std::vector<double> values) {
    const Shape shape(values.size());
    return index(shape, std::move(values), DType::int64);
  };
  insert(rows, {3, 4}, op::InsertTensor{.axis = 1}, {in({3}), obj({1, 1, 3})}, {1, 3}, {0, -1, -2, 1, 2, -3, 3});
  insert(rows, {3, 4}, op::InsertTensor{.axis = 0}, {in({2, 1}), obj({-1, 0})}, {2, 1}, {-2, 0, 1, -1, 2});
  insert(rows, {3, 4}, op::InsertTensor{.val = 1, .axis = 1}, {obj({4, 0})}, {1, 2}, {-2, 0, 1, 2, 3, -1});
  insert(rows, {1, 7}, op::InsertTensor{}, {in({3}), obj({2})}, {3}, {0, 1, -1, -2, -3, 2, 3, 4, 5, 6});
  insert(rows, {0, 3}, op::InsertTensor{.axis = 1}, {in({1, 1}), obj({3})}, {1, 1}, {0, 1, 2, -1});
  insert(rows, Shape(), op::InsertScalar{.int_ind = 1}, {in({1})}, {1}, {0, -1});
  insert(rows, Shape(), op::InsertSlice{.start = 0, .stop = 1}, {in({1})}, {1}, {-1, 0});
  // the attributes of the others have no effect
  insert(rows, {2, 3}, op::InsertTensor{.start = 1, .stop = 2, .step = 2, .int_ind = 1, .axis = 1},
         {in({1, 1}), obj({3})}, {1, 1}, {0, 1, 2, -1});
  insert(rows, {2, 3}, op::InsertSlice{.stop = 1, .int_ind = 1, .axis = 1}, {in({1, 1})}, {1, 1}, {-1, 0, 1, 2});
  insert(rows, {2, 3}, op::InsertScalar{.start = 1, .stop = 2, .step = 2, .int_ind = 1, .axis = 1}, {in({1, 1})},
         {1, 1}, {0, -1, 1, 2});
}

// --- pad

int64_t source(NumpyPadMode mode, int64_t i, int64_t n) {
  while (i < 0 || i >= n) {
    const int64_t back = mode == NumpyPadMode::reflect && n > 1 ? 1 : 0;
    if (mode == NumpyPadMode::edge || n == 1) i = std::clamp<int64_t>(i, 0, n - 1);
    else i = i < 0 ? -i - 1 + back : 2 * n - 1 - i - back;
  }
  return i;
}

Host padded(Host x, const op::NumpyPad& op) {
  for (int axis = 0; axis < x.shape.ndim(); ++axis) {
    const int64_t before = op.pad_width.numbers[2 * axis], after = op.pad_width.numbers[2 * axis + 1];
    const int64_t n = x.shape[axis];
    x = generate(with(x.shape, axis, before + n + after), [&](const Shape& p) {
      const int64_t i = p[axis] - before;
      if (i >= 0 && i < n) return x.at(with(p, axis, i));
      if (op.mode == NumpyPadMode::constant) return op.constant_value;
      if (op.mode == NumpyPadMode::maximum || op.mode == NumpyPadMode::minimum) {
        double most = x.at(with(p, axis, 0));
        for (int64_t k = 1; k < n; ++k) {
          const double v = x.at(with(p, axis, k));
          most = op.mode == NumpyPadMode::maximum ? larger(most, v) : smaller(most, v);
        }
        return most;
      }
      return x.at(with(p, axis, source(op.mode, i, n)));
    });
  }
  return x;
}

void pad_rows(Rows& rows) {
  using Mode = NumpyPadMode;
  for (const Mode mode : {Mode::constant, Mode::edge, Mode::reflect, Mode::symmetric, Mode::maximum, Mode::minimum}) {
    const bool extreme = mode == Mode::maximum || mode == Mode::minimum;
    const auto add = [&](const Shape& shape, const IntTuple& widths, double value = 0) {
      const op::NumpyPad op{.pad_width = {widths}, .mode = mode, .constant_value = value};
      rows.emplace_back(
          op, std::vector{in(shape, Fill::distinct)}, [=](const Hosts& in) { return padded(in[0], op); },
          RowOptions{.dtypes = extreme ? numbers : every_dtype, .loosen_gradient = 8});
    };
    add({3, 5}, {1, 2, 0, 1}, 1), add({2, 3, 2}, {0, 0, 7, 5, 1, 0}), add({1, 7}, {2, 0, 0, 0}), add({5}, {0, 11});
    add({0, 3}, {0, 0, 1, 0});
  }
  rows.emplace_back(op::NumpyPad{.pad_width = {{1, 1}}, .reflect_type = {"odd"}}, std::vector{in({3})}, Reference(),
                    refused);
}

}  // namespace

Rows numpy_rows() {
  Rows rows;
  arithmetic_rows(rows), stack_rows(rows), diagonal_rows(rows), made_rows(rows), mask_rows(rows), delete_rows(rows);
  insert_rows(rows), pad_rows(rows);
  return rows;
}

}  // namespace kaon::test
