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

}  // namespace kaon
