#include "kaon/ops/indexing/indexing.h"

#include "kaon/ops/kernels/index_list.cuh"

namespace kaon {

using namespace ops;

namespace {

// The tuples as positions among the slices of an array of this shape.
struct TuplePositions {
  const void* indices;
  DType dtype;
  int length;
  int64_t count;
  int64_t size[Shape::max_ndim] = {};
  TuplePositions(const TensorView& view, const Shape& data)
      : indices(view.data),
        dtype(view.dtype),
        length(int(view.shape[0])),
        count(view.shape.product(1, view.shape.ndim())) {
    for (int k = 0; k < length; ++k) size[k] = data[k];
  }
  __device__ int64_t operator()(int64_t j) const {
    int64_t flat = 0;
    for (int k = 0; k < length; ++k) {
      const int64_t index = cuda::with_element(indices, dtype, k * count + j, cuda::ToIndex());
      flat = flat * size[k] + cuda::or_stop(position_of(index, size[k], IndexMode::raise));
    }
    return flat;
  }
};

// Each element of the result from lhs, or from the last row of rhs that is for its row.
template <class T>
struct SetRows {
  cuda::Contributions contributions;
  cuda::FastDivide inner;
  const T* lhs;
  const T* rhs;
  T* out;
  __device__ void operator()(int64_t i) const {
    int64_t column = i;
    const int64_t row = inner.split(column);
    const int64_t begin = contributions.start[row], end = contributions.start[row + 1];
    out[i] = begin == end ? lhs[i] : rhs[contributions.order[end - 1] * inner.divisor() + column];
  }
};

}  // namespace

void run_cuda(const op::GatherNd&, KernelContext& c) {
  const Shape& data = c.in(0).shape;
  const TuplePositions positions(c.in(1), data);
  cuda::gather_rows(c, positions, positions.count, data.product(0, positions.length), 1,
                    data.product(positions.length, data.ndim()), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void run_cuda(const op::GatherNdGrad& op, KernelContext& c) {
  const TuplePositions positions(c.in(1), op.shape);
  cuda::scatter_add(c, positions, positions.count, op.shape.product(0, positions.length), 1,
                    op.shape.product(positions.length, op.shape.ndim()), c.in(0).data, c.out().data, c.out().dtype);
}

void run_cuda(const op::ScatterSetNd& op, KernelContext& c) {
  const TensorView& out = c.out();
  const TuplePositions positions(c.in(2), op.shape);
  if (out.size() == 0) return;
  const int64_t count = positions.count, rows = op.shape.product(0, positions.length);
  if (count == 0) return cuda::copy_bytes(c, c.in(0).data, out.data, out.bytes());
  int64_t* keys = static_cast<int64_t*>(c.run.workspace(size_t(count) * sizeof(int64_t)));
  cuda::for_each(c, count, cuda::WriteKey<TuplePositions>{positions, keys});
  const cuda::Contributions contributions = cuda::sort_contributions(c, keys, count, rows);
  const int64_t inner = op.shape.product(positions.length, op.shape.ndim());
  dispatch_width(out.dtype, [&]<class T>() {
    cuda::for_each(
        c, out.size(),
        SetRows<T>{contributions, cuda::FastDivide(inner), c.in(0).as<const T>(), c.in(1).as<const T>(), out.as<T>()});
  });
}

}  // namespace kaon
