// Sums up to each element on CUDA.
#include "kaon/ops/reduce/kernels/scan.cuh"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;
namespace {

struct Plus {
  template <class Sum>
  __device__ Sum operator()(Sum a, Sum b) const {
    return Sum(a + b);
  }
};

}  // namespace

void run_cuda(const op::Scan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  const ScanPieces s(shape, normalize_axis(op.axis, shape.ndim(), "_scan"), op.reverse);
  dispatch_signed("_scan", c.out().dtype, [&]<class T>() {
    using Sum = sum_t<T>;
    cuda::scan_lines<T>(c, s, Sum(0), Plus());
  });
}

}  // namespace kaon
