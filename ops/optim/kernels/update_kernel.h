// The loops of the update operators, over many tensors as if they were one. A state that has decayed below the smallest
// normal number of the accumulator becomes zero: processors are several times slower on denormal numbers.
#pragma once

#include <span>

#include "kaon/ops/op.h"

namespace kaon::ops {

enum class UpdateKind : uint8_t { sgd, sgd_momentum, adam };

// The parameters that all updates share. lr and wd are per tensor, in UpdateTensor.
struct UpdateRule {
  UpdateKind kind = UpdateKind::sgd;
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  double rescale = 1, clip = -1;
};

// One weight with its gradient and states (momentum; mean and variance), all of one dtype and size.
struct UpdateTensor {
  DType dtype = DType::float32;
  int64_t size = 0;
  double lr = 0, wd = 0;
  void* arrays[4] = {};
};

// Updates elements [begin, end) of one tensor.
void update_range(const UpdateRule& rule, const UpdateTensor& tensor, int64_t begin, int64_t end);

// Updates all tensors. Pieces are parts of their concatenation, so many small tensors cost no more than one large one;
// elements do not depend on the partition.
void update_all(const UpdateRule& rule, std::span<const UpdateTensor> tensors, RunContext& run);

// All inputs are one tensor; checks of `infer` for it.
void infer_update(InferContext& c, const UpdateRule& rule, double lr, double wd);
void run_update(const UpdateRule& rule, double lr, double wd, KernelContext& c);

// Groups of `period` inputs, then the rates: checks, and the run.
void infer_multi_update(InferContext& c, const UpdateRule& rule, int period);
void run_multi_update(const UpdateRule& rule, int period, KernelContext& c);

}  // namespace kaon::ops
