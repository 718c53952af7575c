#include "kaon/ops/movement/movement.h"

#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/pad_axis.h"

namespace kaon {

using namespace ops;

namespace {

// The element that element i of the padded array is a copy of; -1: the constant.
struct Padded {
  int count = 0;
  cuda::FastDivide size[Shape::max_ndim];
  PadAxis axis[Shape::max_ndim];
  int64_t stride[Shape::max_ndim];
  __device__ int64_t operator()(int64_t i) const {
    int64_t from = 0;
    for (int k = count - 1; k >= 0; --k) {
      int64_t at = i;
      i = size[k].split(at);
      const int64_t source = axis[k].source(at);
      if (source < 0) return -1;
      from += source * stride[k];
    }
    return from;
  }
};

// The axes from the outermost, with neighbours that are not padded as one.
Padded make_padded(const op::Pad& op, const Shape& in) {
  Padded p;
  bool open = false;  // the last axis so far is not padded
  for (int i = 0; i < in.ndim(); ++i) {
    const PadAxis axis = pad_axis(op.pad_width, i, in[i], op.mode);
    const bool plain = axis.padded() == axis.n;
    if (plain && open) {
      p.axis[p.count - 1].n *= axis.n;
    } else {
      p.axis[p.count++] = axis;
    }
    open = plain;
  }
  if (p.count == 0) p.axis[p.count++] = {0, 1, 0, op.mode};  // a single number
  return p;
}

template <class T>
struct AddCopies {
  PadAxis axis;
  cuda::FastDivide inner, n;
  const T* head;
  T* out;
  __device__ void operator()(int64_t i) const {
    using Acc = accumulate_t<T>;
    int64_t column = i;
    int64_t at = inner.split(column);
    const int64_t o = n.split(at);
    const T* from = head + o * axis.padded() * inner.divisor() + column;
    Acc sum = Acc(0);
    axis.for_each_copy(at, [&](int64_t copy) { sum += Acc(from[copy * inner.divisor()]); });
    out[i] = T(sum);
  }
};

}  // namespace

void run_cuda(const op::Pad& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (out.size() == 0) return;
  const size_t width = size_of(in.dtype);
  Padded p = make_padded(op, in.shape);
  PadAxis& inner = p.axis[p.count - 1];
  size_t wide = width;
  if (inner.padded() == inner.n) {
    wide = cuda::widest(width, {inner.n}, {in.data, out.data});
    inner.n /= int64_t(wide / width);
  }
  int64_t stride = 1;
  for (int k = p.count - 1; k >= 0; --k) {
    p.size[k] = cuda::FastDivide(p.axis[k].padded());
    p.stride[k] = stride;
    stride *= p.axis[k].n;
  }
  cuda::index_copy(c, wide, out.size() / int64_t(wide / width), in.data, out.data, p,
                   element_bits(op.constant_value, in.dtype), width);
}

void run_cuda(const op::PadGrad& op, KernelContext& c) {
  const TensorView &head = c.in(0), &out = c.out();
  if (out.size() == 0) return;
  const int ndim = head.shape.ndim();
  int last = -1;
  for (int a = 0; a < ndim; ++a) {
    if (head.shape[a] != out.shape[a]) last = a;
  }
  if (last < 0) return cuda::copy_bytes(c, head.data, out.data, out.bytes());
  dispatch_float("_backward_pad", out.dtype, [&]<class T>() {
    Shape shape = head.shape;  // one axis after the other; intermediate arrays are in workspace
    const T* from = head.as<T>();
    for (int a = 0; a <= last; ++a) {
      if (shape[a] == out.shape[a]) continue;
      shape[a] = out.shape[a];
      T* to = a == last ? out.as<T>() : static_cast<T*>(c.run.workspace(size_t(shape.size()) * sizeof(T)));
      cuda::for_each(c, shape.size(),
                     AddCopies<T>{pad_axis(op.pad_width, a, out.shape[a], op.mode),
                                  cuda::FastDivide(shape.product(a + 1, ndim)), cuda::FastDivide(shape[a]), from, to});
      from = to;
    }
  });
}

}  // namespace kaon
