// tril and triu on CUDA.
#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/search/kernels/matrix_part.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;
namespace {

struct PartElement {
  MatrixPart part;
  __device__ int64_t operator()(int64_t i) const {
    const int64_t r = i / part.columns, column = i - r * part.columns;
    return column >= part.begin(r) && column < part.end(r) ? part.source_row(r) * part.columns + column : -1;
  }
};

void run_part(KernelContext& c, const MatrixPart& part) {
  cuda::index_copy(c, size_of(c.out().dtype), c.out().size(), c.in(0).data, c.out().data, PartElement{part});
}

}  // namespace

void run_cuda(const op::Tril& op, KernelContext& c) { run_part(c, MatrixPart(c.in(0).shape, op.k, true)); }
void run_cuda(const op::Triu& op, KernelContext& c) { run_part(c, MatrixPart(c.in(0).shape, op.k, false)); }

}  // namespace kaon
