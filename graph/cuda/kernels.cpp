#include "kaon/graph/cuda/kernels.h"

#include "kaon/graph/batch_norm_affine.h"
#include "kaon/graph/normalize_again.h"

namespace kaon::cuda {

void for_each_graph_kernel(AddKernel add, void* table) {
  add_kernel<BatchNormAffine>(add, table);
  add_kernel<NormalizeAgain>(add, table);
}

}  // namespace kaon::cuda

// The second of libkaon_cuda.so's two seams.
extern "C" __attribute__((visibility("default"))) void kaon_cuda_kernels(kaon::cuda::AddKernel add, void* table) {
  kaon::cuda::for_each_op_kernel(add, table);
  kaon::cuda::for_each_graph_kernel(add, table);
}
