#include <cmath>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/group_adagrad.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::GroupAdagradUpdate::def = make_op_def<op::GroupAdagradUpdate>();

void op::GroupAdagradUpdate::infer(InferContext& c) const {
  for (double v : {lr, rescale_grad, clip_gradient, epsilon}) {
    if (std::isnan(v)) c.fail_value("attributes must not be NaN");
  }
  c.expect_floating();
  c.expect_same_dtype();
  c.expect_ndim_at_least(0, 1);
  c.expect_shape(1, c.shape(0));
  c.expect_shape(2, Shape(c.shape(0)[0], 1));
}

void run_cpu(const op::GroupAdagradUpdate& op, KernelContext& c) {
  const int64_t rows = c.in(2).size(), width = rows == 0 ? 0 : c.in(0).size() / rows;
  if (width == 0) return;
  dispatch_float("_contrib_group_adagrad_update", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const GroupAdagrad<A> rule(op);
    c.run.parallel_for(rows, std::max<int64_t>(1, 16384 / width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* const weight = c.in(0).as<T>() + row * width;
        const T* const grad = c.in(1).as<T>() + row * width;
        T& history = c.in(2).as<T>()[row];
        A sum[8] = {};  // side by side, as vectors
        int64_t i = 0;
        for (; i + 8 <= width; i += 8) {
          for (int64_t k = 0; k < 8; ++k) sum[k] += rule.square(A(grad[i + k]));
        }
        for (; i < width; ++i) sum[0] += rule.square(A(grad[i]));
        A all = 0;
        for (A s : sum) all += s;
        const A updated = A(history) + all / A(width);
        history = T(updated);
        const A rate = rule.rate(updated);
        for (i = 0; i < width; ++i) weight[i] = T(A(weight[i]) - rate * rule.clipped(A(grad[i])));
      }
    });
  });
}

}  // namespace kaon
