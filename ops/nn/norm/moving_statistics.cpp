#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

#include <atomic>

#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::MoveStatistics::def = make_op_def<op::MoveStatistics>();

namespace ops {
namespace {
std::atomic<bool> with_gradients{false};
}  // namespace

void move_statistics_with_gradients() noexcept { with_gradients.store(true, std::memory_order_relaxed); }
bool statistics_move_with_gradients() noexcept { return with_gradients.load(std::memory_order_relaxed); }

}  // namespace ops

void op::MoveStatistics::infer(InferContext& c) const {
  for (int i = 0; i < 4; ++i) {
    c.expect_floating(i);
    c.expect_shape(i, c.shape(0));
  }
}

namespace {

template <class T>
void move(const op::MoveStatistics& op, KernelContext& c) {
  T *const moving_mean = c.in(0).as<T>(), *const moving_var = c.in(1).as<T>();
  const T *const mean = c.in(2).as<T>(), *const inverse = c.in(3).as<T>();
  for (int64_t i = 0; i < c.in(0).size(); ++i) {
    if (inverse[i] < 0) continue;
    moving_mean[i] = moved(moving_mean[i], mean[i], op.momentum);
    moving_var[i] = moved(moving_var[i], variance_of(inverse[i], op.eps), op.momentum);
  }
}

}  // namespace

void run_cpu(const op::MoveStatistics& op, KernelContext& context) {
  as_float32(
      context,
      [&](KernelContext& c) {
        if (c.in(0).dtype == DType::float64) {
          move<double>(op, c);
        } else {
          move<float>(op, c);
        }
      },
      bit(0) | bit(1));
}

}  // namespace kaon
