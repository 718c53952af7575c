#include "kaon/ops/indexing/indexing.h"

#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/movement/kernels/copies.h"

namespace kaon {

using namespace ops;

namespace {

// The element itself, or -1 after the end of its sequence.
struct Masked {
  cuda::FastDivide inner, columns;
  bool steps_first;
  cuda::Numbers length;
  __device__ int64_t operator()(int64_t i) const {
    int64_t rest = i;
    int64_t b = inner.split(rest);
    const int64_t a = columns.split(b);
    return double(steps_first ? a : b) >= ::trunc(length(steps_first ? b : a)) ? -1 : i;
  }
};

}  // namespace

void run_cuda(const op::SequenceMask& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (!op.use_sequence_length) return cuda::copy_bytes(c, in.data, out.data, out.bytes());
  const size_t width = size_of(out.dtype);
  const int64_t inner = out.shape.product(2, out.shape.ndim());
  const size_t wide = cuda::widest(width, {inner}, {in.data, out.data});
  const int64_t factor = int64_t(wide / width);
  cuda::index_copy(
      c, wide, out.size() / factor, in.data, out.data,
      Masked{cuda::FastDivide(inner / factor), cuda::FastDivide(out.shape[1]), op.axis == 0, cuda::Numbers(c.in(1))},
      element_bits(op.value, out.dtype), width);
}

}  // namespace kaon
