// take_along_axis, put_along_axis and index_add on CUDA: a thread for each element; what is written to one element is
// sorted by order first, so that results do not depend on the threads.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/search/kernels/combine.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;
namespace {

// The element of data that index i names.
struct AlongElement {
  cuda::FastDivide inner, m;
  int64_t n;
  cuda::Positions positions;
  __device__ int64_t operator()(int64_t i) const {
    int64_t column = i;
    const int64_t outer = m.quotient(inner.split(column));
    return (outer * n + positions(i)) * inner.divisor() + column;
  }
};

AlongElement element_of(const TensorView& data, const TensorView& indices, int axis, IndexMode mode, const char* op) {
  const AlongAxis s(data.shape, indices.shape, normalize_axis(axis, data.shape.ndim(), op));
  return {cuda::FastDivide(s.inner), cuda::FastDivide(s.m), s.n, cuda::Positions(indices, s.n, mode)};
}

struct ElementKey {
  AlongElement element;
  int64_t* keys;
  __device__ void operator()(int64_t i) const { keys[i] = element(i); }
};

template <Scatter S, class T>
struct PutElement {
  const int64_t *start, *order;
  const T *data, *values;
  T* out;
  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    A sum = A(data[i]);
    for (int64_t k = start[i]; k < start[i + 1]; ++k) sum = combined<S>(sum, A(values[order[k]]));
    out[i] = T(sum);
  }
};

template <Scatter S, class T>
void put(KernelContext& c, const cuda::Contributions& all) {
  cuda::for_each(c, c.out().size(),
                 PutElement<S, T>{all.start, all.order, c.in(0).as<const T>(), c.in(2).as<const T>(), c.out().as<T>()});
}

}  // namespace

void run_cuda(const op::TakeAlongAxis& op, KernelContext& c) {
  const int64_t n = c.out().size();
  if (n == 0) return;
  cuda::index_copy(c, size_of(c.out().dtype), n, c.in(0).data, c.out().data,
                   element_of(c.in(0), c.in(1), op.axis, op.mode, "take_along_axis"));
}

void run_cuda(const op::PutAlongAxis& op, KernelContext& c) {
  const int64_t count = c.in(1).size(), size = c.out().size();
  if (count == 0) return cuda::copy_bytes(c, c.in(0).data, c.out().data, c.out().bytes());
  auto* keys = static_cast<int64_t*>(c.run.workspace(size_t(count) * sizeof(int64_t)));
  cuda::for_each(c, count, ElementKey{element_of(c.in(0), c.in(1), op.axis, op.mode, "put_along_axis"), keys});
  const cuda::Contributions all = cuda::sort_contributions(c, keys, count, size);
  if (op.reduce == Scatter::none) {
    return dispatch_width(c.out().dtype, [&]<class T>() { put<Scatter::none, T>(c, all); });
  }
  dispatch_combine("put_along_axis", op.reduce, c.out().dtype, [&]<Scatter S, class T>() { put<S, T>(c, all); });
}

void run_cuda(const op::IndexAdd& op, KernelContext& c) {
  const Shape& data = c.in(0).shape;
  const int at = normalize_axis(op.axis, data.ndim(), "index_add");
  cuda::scatter_add(c, cuda::Positions(c.in(1), data[at], op.mode), c.in(1).size(), data[at], data.product(0, at),
                    data.product(at + 1, data.ndim()), c.in(2).data, c.out().data, c.out().dtype, c.in(0).data);
}

}  // namespace kaon
