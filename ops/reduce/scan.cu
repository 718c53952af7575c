// Sums up to each element on CUDA: a thread for each piece of each line.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/reduce/kernels/scan_pieces.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;
namespace {

// The first element of the line.
__device__ int64_t first_of(const ScanPieces& s, int64_t line) {
  return line / s.inner * s.n * s.inner + line % s.inner;
}

template <class T, class Sum>
struct SumPiece {
  ScanPieces s;
  int64_t lines;
  const T* x;
  Sum* before;
  __device__ void operator()(int64_t i) const {
    const int64_t piece = i / lines, first = first_of(s, i % lines);
    Sum sum = Sum(0);
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) sum = Sum(sum + Sum(x[first + s.offset(k)]));
    before[i + lines] = sum;
  }
};

template <class Sum>
struct AddPieces {
  int64_t pieces, lines;
  Sum* before;
  __device__ void operator()(int64_t line) const {
    Sum sum = Sum(0);
    before[line] = sum;
    for (int64_t p = 1; p < pieces; ++p) before[p * lines + line] = sum = Sum(sum + before[p * lines + line]);
  }
};

template <class T, class Sum>
struct ScanPiece {
  ScanPieces s;
  int64_t lines;
  const T* x;
  T* y;
  const Sum* before;
  __device__ void operator()(int64_t i) const {
    const int64_t piece = i / lines, first = first_of(s, i % lines);
    Sum sum = before ? before[i] : Sum(0);
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
      const int64_t at = first + s.offset(k);
      sum = Sum(sum + Sum(x[at]));
      y[at] = T(sum);
    }
  }
};

}  // namespace

void run_cuda(const op::Scan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  const ScanPieces s(shape, normalize_axis(op.axis, shape.ndim(), "_scan"), op.reverse);
  const int64_t lines = s.outer * s.inner;
  dispatch_number("_scan", c.out().dtype, [&]<class T>() {
    using Sum = typename ScanSum<T>::type;
    const T* x = c.in(0).as<const T>();
    Sum* before = nullptr;
    if (s.pieces > 1) {
      before = static_cast<Sum*>(c.run.workspace(size_t(s.pieces * lines) * sizeof(Sum)));
      cuda::for_each(c, (s.pieces - 1) * lines, SumPiece<T, Sum>{s, lines, x, before});
      cuda::for_each(c, lines, AddPieces<Sum>{s.pieces, lines, before});
    }
    cuda::for_each(c, s.pieces * lines, ScanPiece<T, Sum>{s, lines, x, c.out().as<T>(), before});
  });
}

}  // namespace kaon
