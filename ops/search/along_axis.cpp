// take_along_axis, put_along_axis and index_add.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/math/index_range.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/search/kernels/combine.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::TakeAlongAxis::def = make_op_def<op::TakeAlongAxis>();
constinit const OpDef op::PutAlongAxis::def = make_op_def<op::PutAlongAxis>();
constinit const OpDef op::IndexAdd::def = make_op_def<op::IndexAdd>();

namespace {

constexpr int64_t axis_grain = 1 << 14;  // elements that one task moves
constexpr int64_t kTile = 1024;          // indices that are checked at a time

void check_along(const InferContext& c, int axis) {
  if (c.dtype(1) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  const Shape &data = c.shape(0), &indices = c.shape(1);
  const int at = normalize_axis(axis, data.ndim(), c.op());
  Shape expected = data;
  if (indices.ndim() == data.ndim()) expected[at] = indices[at];
  if (indices != expected) {
    c.fail(
        fmt::format("indices must have the shape of data, {}, but for axis {}, got {}", data.str(), at, indices.str()));
  }
  if (data[at] == 0 && indices.size() > 0) {
    c.fail(fmt::format("axis {} of data {} has no elements to index", at, data.str()));
  }
}

// The positions among n of `count` indices from `first` on: these themselves where they can be, else in `buffer`.
const int64_t* positions_of(const TensorView& indices, int64_t first, int64_t count, int64_t n, IndexMode mode,
                            const char* op, int64_t* buffer) {
  const int64_t* positions = buffer;
  dispatch_all(op, indices.dtype, [&]<class I>() {
    const I* in = indices.as<const I>() + first;
    // most often none is beyond the axis, whatever the mode
    if constexpr (std::is_same_v<I, int64_t>) {
      if (all_within(in, size_t(count), n)) return void(positions = in);
    } else if constexpr (std::is_same_v<I, int32_t>) {
      if (all_within(in, size_t(count), n)) return void(std::copy_n(in, count, buffer));
    }
    int64_t wrong = 0;
    for (int64_t j = 0; j < count; ++j) {
      buffer[j] = position_of(to_index(in[j]), n, mode);
      wrong |= buffer[j];
    }
    if (wrong >= 0) return;
    int64_t j = 0;
    while (buffer[j] >= 0) ++j;
    throw IndexError(fmt::format("[{}] index {} at element {} is outside an axis of size {}", op,
                                 double(accumulate_t<I>(in[j])), first + j, n));
  });
  return positions;
}

// Four at a time: what is read next does not wait for what is written.
template <class T>
void gather(const T* from, const int64_t* position, int64_t count, T* to) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    const T a = from[position[k]], b = from[position[k + 1]], c = from[position[k + 2]], d = from[position[k + 3]];
    to[k] = a, to[k + 1] = b, to[k + 2] = c, to[k + 3] = d;
  }
  for (; k < count; ++k) to[k] = from[position[k]];
}

}  // namespace

// --- take_along_axis

void op::TakeAlongAxis::infer(InferContext& c) const {
  check_along(c, axis);
  c.set_output(c.shape(1), c.dtype());
}

void op::TakeAlongAxis::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd.put_along_axis(nd.zeros_like(g.input_like(0)), g.input(1), g.head(),
                             {.axis = axis, .reduce = Scatter::add, .mode = mode}));
}

void run_cpu(const op::TakeAlongAxis& op, KernelContext& c) {
  const Shape& data = c.in(0).shape;
  const AlongAxis s(data, c.in(1).shape, normalize_axis(op.axis, data.ndim(), "take_along_axis"));
  dispatch_width(c.out().dtype, [&]<class T>() {
    const T* const x = c.in(0).as<const T>();
    T* const y = c.out().as<T>();
    c.run.parallel_for(c.out().size(), axis_grain, [&](int64_t i, int64_t end) {
      int64_t buffer[kTile];
      while (i < end) {  // neighbours with one index j, or, without inner axes, of one line
        const int64_t run = s.inner > 1 ? s.inner : s.m, in_run = i % run, row = i / run;
        const int64_t count = std::min({run - in_run, end - i, kTile});
        const int64_t* const position = positions_of(c.in(1), i, count, s.n, op.mode, "take_along_axis", buffer);
        if (s.inner > 1) {
          const T* const from = x + row / s.m * s.n * s.inner + in_run;
          for (int64_t k = 0; k < count; ++k) y[i + k] = from[position[k] * s.inner + k];
        } else {
          gather(x + row * s.n, position, count, y + i);
        }
        i += count;
      }
    });
  });
}

// --- put_along_axis

void op::PutAlongAxis::infer(InferContext& c) const {
  check_along(c, axis);
  if (c.dtype(2) != c.dtype(0)) {
    c.fail_dtype(fmt::format("data and values must have one dtype, got {} and {}; use cast", name_of(c.dtype(0)),
                             name_of(c.dtype(2))));
  }
  if (reduce != Scatter::none && c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  c.expect_shape(2, c.shape(1));
  c.set_output(c.shape(0), c.dtype());
}

namespace {

NDArray put(const NDArray& data, const NDArray& indices, const NDArray& values, op::PutAlongAxis op, Scatter reduce) {
  return op.reduce = reduce, nd.put_along_axis(data, indices, values, op);
}

// Of the product of an element and its values, without a division by 0: each gets the product of the others.
void set_product_gradients(GradContext& g, const op::PutAlongAxis& op) {
  const NDArray &head = g.head(), &x = g.input(0), &indices = g.input(1), &v = g.input(2), &y = g.output();
  if (g.wants(0)) g.set(0, head * put(nd.ones_like(x), indices, v, op, Scatter::mul));
  if (!g.wants(2)) return;
  const auto taken = [&](const NDArray& a) {
    return nd.take_along_axis(a, indices, {.axis = op.axis, .mode = op.mode});
  };
  const NDArray zero = v == 0, ones = nd.ones_like(v);
  const NDArray others = put(x, indices, nd.where(zero, ones, v), op, Scatter::mul);
  const NDArray zeros = put(nd.zeros_like(x), indices, zero, op, Scatter::add);
  const NDArray at_zero = nd.where(taken(zeros) > 1, nd.zeros_like(v), taken(others));
  g.set(2, taken(head) * nd.where(zero, at_zero, taken(y) / nd.where(zero, ones, v)));
}

// Of the largest or smallest: those that equal it share the head.
void set_extreme_gradients(GradContext& g, const op::PutAlongAxis& op) {
  const NDArray &x = g.input(0), &indices = g.input(1), &v = g.input(2), &y = g.output();
  const auto taken = [&](const NDArray& a) {
    return nd.take_along_axis(a, indices, {.axis = op.axis, .mode = op.mode});
  };
  const NDArray own = x == y, theirs = v == taken(y);
  const NDArray count = put(own, indices, theirs, op, Scatter::add);
  const NDArray share = g.head() / nd.maximum(count, 1.0);
  if (g.wants(0)) g.set(0, share * own);
  if (g.wants(2)) g.set(2, taken(share) * theirs);
}

template <Scatter S, class T>
void scatter_lines(KernelContext& c, const op::PutAlongAxis& op, const AlongAxis& s) {
  const T* const v = c.in(2).as<const T>();
  T* const y = c.out().as<T>();
  const int64_t blocks = (s.inner + kTile - 1) / kTile;
  const int64_t cost = std::max<int64_t>(1, s.m * std::min(s.inner, kTile));
  c.run.parallel_for(s.outer * blocks, std::max<int64_t>(1, axis_grain / cost), [&](int64_t i, int64_t end) {
    int64_t buffer[kTile];
    const auto positions = [&](int64_t first, int64_t count) {
      return positions_of(c.in(1), first, count, s.n, op.mode, "put_along_axis", buffer);
    };
    for (; i < end; ++i) {
      const int64_t o = i / blocks, column = i % blocks * kTile;
      T* const to = y + o * s.n * s.inner + column;
      if (s.inner == 1) {
        for (int64_t j = 0; j < s.m; j += kTile) {
          const int64_t first = o * s.m + j, count = std::min(kTile, s.m - j);
          const int64_t* const position = positions(first, count);
          for (int64_t k = 0; k < count; ++k) to[position[k]] = combined<S>(to[position[k]], v[first + k]);
        }
        continue;
      }
      const int64_t count = std::min(kTile, s.inner - column);
      for (int64_t j = 0; j < s.m; ++j) {
        const int64_t first = (o * s.m + j) * s.inner + column;
        const int64_t* const position = positions(first, count);
        for (int64_t k = 0; k < count; ++k) {
          T& element = to[position[k] * s.inner + k];
          element = combined<S>(element, v[first + k]);
        }
      }
    }
  });
}

}  // namespace

void op::PutAlongAxis::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray& indices = g.input(1);
  switch (reduce) {
    case Scatter::none:
      if (g.wants(0)) {
        const NDArray zeros = nd.zeros_like(g.input_like(2));
        g.set(0, put(g.head(), indices, zeros, *this, Scatter::none));
      }
      [[fallthrough]];
    case Scatter::add:
      if (g.wants(2)) g.set(2, nd.take_along_axis(g.head(), indices, {.axis = axis, .mode = mode}));
      if (g.wants(0) && reduce == Scatter::add) g.set(0, g.head());
      return;
    case Scatter::mul: return set_product_gradients(g, *this);
    default: return set_extreme_gradients(g, *this);
  }
}

void run_cpu(const op::PutAlongAxis& op, KernelContext& given) {
  const auto run = [&](KernelContext& c) {
    const Shape& data = c.in(0).shape;
    if (c.in(0).data != c.out().data) copy_bytes(c.run, c.in(0).data, c.out().data, c.out().bytes());
    const AlongAxis s(data, c.in(1).shape, normalize_axis(op.axis, data.ndim(), "put_along_axis"));
    if (op.reduce == Scatter::none) {
      return dispatch_width(c.out().dtype, [&]<class T>() { scatter_lines<Scatter::none, T>(c, op, s); });
    }
    dispatch_combine("put_along_axis", op.reduce, c.out().dtype, [&]<Scatter S, class T>() {
      if constexpr (!is_half(dtype_of<T>)) scatter_lines<S, T>(c, op, s);
    });
  };
  if (op.reduce == Scatter::none) return run(given);
  as_float32(given, run);
}

// --- index_add

void op::IndexAdd::infer(InferContext& c) const {
  if (c.dtype(0) == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  if (c.dtype(1) == DType::boolean) c.fail_dtype("index must be numbers, got bool");
  if (c.dtype(2) != c.dtype(0)) {
    c.fail_dtype(fmt::format("data and values must have one dtype, got {} and {}; use cast", name_of(c.dtype(0)),
                             name_of(c.dtype(2))));
  }
  c.expect_ndim(1, 1);
  Shape slices = c.shape(0);
  const int at = normalize_axis(axis, slices.ndim(), c.op());
  slices[at] = c.shape(1)[0];
  if (c.shape(0)[at] == 0 && slices[at] > 0) {
    c.fail(fmt::format("axis {} of data {} has no elements to index", at, c.shape(0).str()));
  }
  c.expect_shape(2, slices);
  c.set_output(c.shape(0), c.dtype());
}

void op::IndexAdd::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  if (g.wants(0)) g.set(0, g.head());
  if (g.wants(2)) g.set(2, nd.take(g.head(), g.input(1), {.axis = axis, .mode = mode}));
}

void run_cpu(const op::IndexAdd& op, KernelContext& c) {
  const Shape& data = c.in(0).shape;
  const int at = normalize_axis(op.axis, data.ndim(), "index_add");
  const int64_t* const positions = load_indices(c, c.in(1), data[at], op.mode, "index_add");
  scatter_add(c, positions, c.in(1).size(), data[at], data.product(0, at), data.product(at + 1, data.ndim()),
              c.in(2).data, c.out().data, c.out().dtype, c.in(0).data);
}

}  // namespace kaon
