#include "kaon/ops/movement/movement.h"

#include "kaon/ops/cuda/index.cuh"

namespace kaon {

using namespace ops;

namespace {

constexpr int most_parts = 16;  // of one launch

// Arrays of as many rows side by side: array k is the columns [begin[k], begin[k + 1]) of a wide one.
struct Parts {
  int count = 0;
  int64_t begin[most_parts + 1] = {};
  void* data[most_parts] = {};  // null: not wanted
};

template <class T, bool join>
struct MoveParts {
  Parts parts;
  cuda::FastDivide columns;
  int64_t row;  // of the wide array
  T* wide;
  __device__ void operator()(int64_t i) const {
    int64_t column = i;
    const int64_t r = columns.split(column);
    int k = 0;
    while (column >= parts.begin[k + 1]) ++k;
    T* part = static_cast<T*>(parts.data[k]);
    if (!part) return;
    T& narrow = part[r * (parts.begin[k + 1] - parts.begin[k]) + column - parts.begin[k]];
    T& other = wide[r * row + column];
    if constexpr (join) {
      other = narrow;
    } else {
      narrow = other;
    }
  }
};

// Between the arrays and a wide one, `rows` rows each.
template <bool join>
void move_parts(KernelContext& c, std::span<const TensorView> arrays, const TensorView& whole, int64_t rows) {
  if (whole.size() == 0) return;
  const size_t width = size_of(whole.dtype);
  size_t wide = cuda::widest(width, {whole.size() / rows}, {whole.data});
  for (const TensorView& a : arrays) wide = std::min(wide, cuda::widest(width, {a.size() / rows}, {a.data}));
  const int64_t factor = int64_t(wide / width), row = whole.size() / rows / factor;
  cuda::by_width(wide, [&]<class T>() {
    T* to = whole.as<T>();
    while (!arrays.empty()) {
      Parts parts;
      for (; parts.count < most_parts && size_t(parts.count) < arrays.size(); ++parts.count) {
        const TensorView& a = arrays[size_t(parts.count)];
        parts.data[parts.count] = a.data;
        parts.begin[parts.count + 1] = parts.begin[parts.count] + a.size() / rows / factor;
      }
      const int64_t columns = parts.begin[parts.count];
      if (columns > 0) {
        cuda::for_each(c, rows * columns, MoveParts<T, join>{parts, cuda::FastDivide(columns), row, to});
      }
      to += columns;
      arrays = arrays.subspan(size_t(parts.count));
    }
  });
}

void join(KernelContext& c, int axis, const char* op) {
  const Shape& out = c.out().shape;
  move_parts<true>(c, c.inputs, c.out(), out.product(0, normalize_axis(axis, out.ndim(), op)));
}

}  // namespace

void run_cuda(const op::Concat& op, KernelContext& c) { join(c, op.dim, "Concat"); }
void run_cuda(const op::Stack& op, KernelContext& c) { join(c, op.axis, "stack"); }

void run_cuda(const op::SliceChannel& op, KernelContext& c) {
  const Shape& in = c.in(0).shape;
  move_parts<false>(c, c.outputs, c.in(0), in.product(0, normalize_axis(op.axis, in.ndim(), "SliceChannel")));
}

}  // namespace kaon
