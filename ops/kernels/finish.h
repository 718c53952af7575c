// The epilogues of layers on the GPU. A light header: .cu files read it.
#pragma once

#include "kaon/ops/kernels/epilogue.h"

namespace kaon::cuda {

// y[i] = epilogue(x[i]) for n elements, where element i is of channel i / inner % channels. x may be y, and so may the
// epilogue's addend. Everything is of this dtype, in device memory, except scale and shift, which are outputs of
// BatchNormAffine: float32 for 16-bit values. Launches nothing when there is nothing to do.
struct Finish {
  const void* x;
  void* y;
  DType dtype;
  int64_t n, inner, channels;
};
void finish(KernelContext& c, const Finish& f, const Epilogue<void>& epilogue);

}  // namespace kaon::cuda
