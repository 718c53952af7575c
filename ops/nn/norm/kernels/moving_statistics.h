// When BatchNorm's moving statistics move: in its forward, or with its gradient, as MXNet's do.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

namespace ops {

// From now on a BatchNorm in training leaves its moving statistics as they are, and each computation of its gradient
// moves them: MXNet's rule, by which a forward without a backward moves nothing and two backwards of one forward move
// twice. For the whole process; the library for MXNet's programs asks for it. Thread safety: any thread.
void move_statistics_with_gradients() noexcept;
bool statistics_move_with_gradients() noexcept;

}  // namespace ops

namespace op {
// moving_mean and moving_var become momentum * old + (1 - momentum) * batch, from the two hidden outputs of a
// BatchNorm: mean and inverse = 1 / sqrt(var + eps). They stay where inverse is negative: the moving values were used.
// All (c,).
struct MoveStatistics {
  double eps = 1e-3;
  double momentum = 0.9;
  static constexpr OpTraits traits{.name = "_move_statistics",
                                   .inputs = ops::Names("moving_mean", "moving_var", "mean", "inverse"),
                                   .outputs = 0,
                                   .mutates = ops::bit(0) | ops::bit(1),
                                   .in_mxnet = false,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("eps", &MoveStatistics::eps);
    field("momentum", &MoveStatistics::momentum);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::MoveStatistics& op, KernelContext& c);
void run_cuda(const op::MoveStatistics& op, KernelContext& c);

}  // namespace kaon
