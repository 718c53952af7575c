#include "kaon/ops/cuda/kernels.h"

#include "kaon/graph/plan_ops/batch_norm_affine.h"
#include "kaon/graph/plan_ops/fused_kernel.h"
#include "kaon/graph/plan_ops/pad_rows.h"
#include "kaon/graph/plan_ops/rematerialize_batch_norm.h"
#include "kaon/graph/plan_ops/reorder.h"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"
#include "kaon/ops/quant/kernels/block_dense.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/integer_values.h"

namespace kaon::cuda {

static_assert(HasPreparation<op::FusedKernel>);  // where it is not found, it is left out without a word

// The operators of plans, of converted nets, and of gradients alone.
void for_each_graph_kernel(AddKernel add, void* table) {
  add_kernel<op::BatchNormAffine>(add, table);
  add_kernel<op::BlockDequantize>(add, table);
  add_kernel<op::BlockQuantizedDense>(add, table);
  add_kernel<op::FusedKernel>(add, table);
  add_kernel<op::IntegerAdd>(add, table);
  add_kernel<op::IntegerConv>(add, table);
  add_kernel<op::IntegerDense>(add, table);
  add_kernel<op::IntegerDequantize>(add, table);
  add_kernel<op::IntegerMaxPool>(add, table);
  add_kernel<op::IntegerQuantize>(add, table);
  add_kernel<op::RematerializeBatchNorm>(add, table);
  add_kernel<op::MoveStatistics>(add, table);  // of gradients
  add_kernel<op::PadRows>(add, table);
  add_kernel<op::Reorder>(add, table);
  add_kernel<op::TakeRows>(add, table);
}

}  // namespace kaon::cuda

// The second of libkaon_cuda.so's two seams.
extern "C" __attribute__((visibility("default"))) void kaon_cuda_kernels(kaon::ops::AddKernel add, void* table) {
  kaon::cuda::for_each_op_kernel(add, table);
  kaon::cuda::for_each_graph_kernel(add, table);
}
