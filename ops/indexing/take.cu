#include "kaon/ops/indexing/indexing.h"

#include "kaon/ops/kernels/index_list.cuh"

namespace kaon {

using namespace ops;

void run_cuda(const op::Take& op, KernelContext& c) {
  const Shape& a = c.in(0).shape;
  const int at = normalize_axis(op.axis, a.ndim(), "take");
  cuda::gather_rows(c, cuda::Positions(c.in(1), a[at], op.mode), c.in(1).size(), a[at], a.product(0, at),
                    a.product(at + 1, a.ndim()), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void run_cuda(const op::TakeGrad& op, KernelContext& c) {
  const Shape& a = op.shape;
  const int at = normalize_axis(op.axis, a.ndim(), "_backward_take");
  cuda::scatter_add(c, cuda::Positions(c.in(1), a[at], op.mode), c.in(1).size(), a[at], a.product(0, at),
                    a.product(at + 1, a.ndim()), c.in(0).data, c.out().data, c.out().dtype);
}

void run_cuda(const op::Embedding& op, KernelContext& c) {
  cuda::gather_rows(c, cuda::Positions(c.in(0), op.input_dim, IndexMode::clip), c.in(0).size(), op.input_dim, 1,
                    op.output_dim, c.in(1).data, c.out().data, size_of(c.in(1).dtype));
}

}  // namespace kaon
