// The loops of the update operators, over many weights as if they were one. A light header: .cu files read it.
#pragma once

#include <span>

#include "kaon/ops/optim/rules/rules.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

inline constexpr int64_t update_block = 4096;  // elements of one weight that are worked on, and summed up, together
inline constexpr int max_update_states = 3;

// What a rule reads and writes, beside the weight and its gradient.
struct UpdateTraits {
  int states = 0;
  bool writes_weight = true, writes_states = true;
  bool sums = false;  // gives two sums
};
constexpr UpdateTraits traits_of(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::sgd:
    case UpdateKind::signsgd: return {};
    case UpdateKind::sgd_momentum:
    case UpdateKind::nag:
    case UpdateKind::signum:
    case UpdateKind::lion:
    case UpdateKind::adagrad:
    case UpdateKind::rmsprop:
    case UpdateKind::lars: return {.states = 1};
    case UpdateKind::rmsprop_centered:
    case UpdateKind::ftml: return {.states = 3};
    case UpdateKind::lamb_direction: return {.states = 3, .writes_weight = false};
    case UpdateKind::lamb_means: return {.states = 2, .writes_weight = false, .sums = true};
    case UpdateKind::lamb_step: return {.states = 2, .writes_states = false};
    case UpdateKind::norms: return {.writes_weight = false, .writes_states = false, .sums = true};
    default: return {.states = 2};
  }
}

// Of a rule that needs sums over each weight first: what gives them and what follows. Others are one step.
struct UpdateSteps {
  UpdateKind sums, last;
};
constexpr UpdateSteps steps_of(UpdateKind kind) {
  if (kind == UpdateKind::lamb) return {UpdateKind::lamb_means, UpdateKind::lamb_step};
  if (kind == UpdateKind::lars) return {UpdateKind::norms, UpdateKind::sgd_momentum};
  return {kind, kind};
}

// One weight with its gradient, its states and its float32 copy, which is null where there is none.
struct UpdateTensor {
  enum { weight, grad, first_state, master = first_state + max_update_states, count };
  int64_t size = 0;
  void* arrays[count] = {};
  DType dtypes[count] = {};
  UpdateNumbers numbers{};

  void set(int k, const TensorView& view) { arrays[k] = view.data, dtypes[k] = view.dtype; }
  bool is_double() const { return dtypes[weight] == DType::float64; }
  int64_t blocks() const { return (size + update_block - 1) / update_block; }
};

// The tensor that lies in inputs [first, ...) of a call, whose group has `states` states.
UpdateTensor update_tensor(const KernelContext& c, int first, int states, bool multi_precision);

// Blocks [begin, end) of one weight by a rule of one step. `sums`: two for each block, where the rule gives them.
void update_blocks(const UpdateRule& rule, const UpdateTensor& tensor, int64_t begin, int64_t end, double* sums);

// Updates all weights. Pieces are blocks of their concatenation, so many small ones cost no more than one large one,
// and results depend on no partition.
void update_all(const UpdateRule& rule, std::span<UpdateTensor> tensors, RunContext& run);

// The sums that a rule of one step gives, two for each weight.
void sum_all(const UpdateRule& rule, std::span<const UpdateTensor> tensors, RunContext& run, double* sums);

}  // namespace kaon::ops
