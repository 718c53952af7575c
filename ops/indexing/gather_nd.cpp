#include "kaon/ops/indexing/indexing.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::GatherNd::def = make_op_def<op::GatherNd>();
constinit const OpDef op::GatherNdGrad::def = make_op_def<op::GatherNdGrad>();
constinit const OpDef op::ScatterSetNd::def = make_op_def<op::ScatterSetNd>();

namespace {

// The shape of the slices of data at the indices, which are input `at`.
Shape gathered_shape(InferContext& c, const Shape& data, int at = 1) {
  const Shape& indices = c.shape(at);
  c.expect_ndim_at_least(at, 1);
  if (c.dtype(at) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  const int64_t m = indices[0];
  if (m < 1 || m > data.ndim()) {
    c.fail(fmt::format("the first dimension of indices must be 1 to {}, got shape {}", data.ndim(), indices.str()));
  }
  Shape out;
  for (int i = 1; i < indices.ndim(); ++i) out.push_back(indices[i]);
  for (int i = int(m); i < data.ndim(); ++i) out.push_back(data[i]);
  if (out.empty()) out.push_back(1);
  return out;
}

// The tuples as positions among the slices of an array of this shape.
const int64_t* flat_positions(KernelContext& c, const TensorView& indices, const Shape& data, const char* op) {
  const int64_t m = indices.shape[0], count = indices.shape.product(1, indices.shape.ndim());
  int64_t* flat = static_cast<int64_t*>(c.run.workspace(size_t(std::max<int64_t>(1, count)) * sizeof(int64_t)));
  dispatch_all(op, indices.dtype, [&]<class T>() {
    const T* const in = indices.as<const T>();
    c.run.parallel_for(count, 1 << 15, [&](int64_t begin, int64_t end) {
      std::fill(flat + begin, flat + end, int64_t(0));
      constexpr int64_t tile = 1024;  // stays in the cache from one index of the tuples to the next
      for (; begin < end; begin += tile) {
        const int64_t last = std::min(end, begin + tile);
        for (int64_t k = 0; k < m; ++k) {
          const int64_t n = data[int(k)];
          for (int64_t j = begin; j < last; ++j) {
            const int64_t position = position_of(to_index(in[k * count + j]), n, IndexMode::raise);
            if (position < 0) {
              throw IndexError(fmt::format("[{}] index {} at position {} is outside an axis of size {}", op,
                                           double(accumulate_t<T>(in[k * count + j])), j, n));
            }
            flat[j] = flat[j] * n + position;
          }
        }
      }
    });
  });
  return flat;
}

}  // namespace

void op::GatherNd::infer(InferContext& c) const { c.set_output(gathered_shape(c, c.shape(0)), c.dtype()); }

void op::GatherNd::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_gather_nd(g.head(), g.input(1), {.shape = g.input_like(0).shape()}));
}

void run_cpu(const op::GatherNd&, KernelContext& c) {
  const Shape &data = c.in(0).shape, &indices = c.in(1).shape;
  const int m = int(indices[0]);
  gather_rows(c, flat_positions(c, c.in(1), data, "gather_nd"), indices.product(1, indices.ndim()), data.product(0, m),
              1, data.product(m, data.ndim()), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void op::GatherNdGrad::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  if (c.dtype() == DType::boolean) c.fail_dtype("is not implemented for dtype bool");
  c.expect_shape(0, gathered_shape(c, shape));
  c.set_output(shape, c.dtype());
}

void op::GatherNdGrad::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.gather_nd(g.head(), g.input(1)));
}

void run_cpu(const op::GatherNdGrad& op, KernelContext& c) {
  const Shape& indices = c.in(1).shape;
  const int m = int(indices[0]);
  scatter_add(c, flat_positions(c, c.in(1), op.shape, "_backward_gather_nd"), indices.product(1, indices.ndim()),
              op.shape.product(0, m), 1, op.shape.product(m, op.shape.ndim()), c.in(0).data, c.out().data,
              c.out().dtype);
}

void op::ScatterSetNd::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  if (c.dtype(0) != c.dtype(1)) {
    c.fail_dtype(fmt::format("lhs and rhs must have one dtype, got {} and {}; use cast", name_of(c.dtype(0)),
                             name_of(c.dtype(1))));
  }
  c.expect_shape(0, shape);
  c.expect_shape(1, gathered_shape(c, shape, 2));
  c.set_output(shape, c.dtype());
}

void op::ScatterSetNd::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  if (g.wants(0)) {
    g.set(0, nd._scatter_set_nd(g.head(), nd.zeros_like(g.input_like(1)), g.input(2), {.shape = shape}));
  }
  if (g.wants(1)) g.set(1, nd.gather_nd(g.head(), g.input(2)));
}

void run_cpu(const op::ScatterSetNd& op, KernelContext& c) {
  const TensorView &lhs = c.in(0), &rhs = c.in(1), &indices = c.in(2), &out = c.out();
  const int m = int(indices.shape[0]);
  const int64_t count = indices.shape.product(1, indices.shape.ndim()), rows = op.shape.product(0, m);
  const size_t width = size_t(op.shape.product(m, op.shape.ndim())) * size_of(out.dtype);
  const int64_t* positions = flat_positions(c, indices, op.shape, "_scatter_set_nd");
  if (out.size() == 0) return;
  if (width == size_of(out.dtype)) {  // single elements, the last one at each place
    copy_bytes(c.run, lhs.data, out.data, out.bytes());
    return dispatch_width(out.dtype, [&]<class T>() {
      const T* const from = rhs.as<const T>();
      T* const to = out.as<T>();
      for (int64_t j = 0; j < count; ++j) to[positions[j]] = from[j];
    });
  }
  int64_t* source = static_cast<int64_t*>(c.run.workspace(size_t(rows) * sizeof(int64_t)));  // of each row; -1: lhs
  std::fill_n(source, rows, int64_t(-1));
  for (int64_t j = 0; j < count; ++j) source[positions[j]] = j;
  c.run.parallel_for(rows, std::max<int64_t>(1, (1 << 16) / int64_t(width)), [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      char* const to = out.as<char>() + size_t(r) * width;
      const char* const from =
          source[r] < 0 ? lhs.as<char>() + size_t(r) * width : rhs.as<char>() + size_t(source[r]) * width;
      if (from != to) std::memcpy(to, from, width);
    }
  });
}

}  // namespace kaon
