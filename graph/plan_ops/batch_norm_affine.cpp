#include "kaon/graph/plan_ops/batch_norm_affine.h"

#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace graph;

constinit const OpDef op::BatchNormAffine::def = make_op_def<op::BatchNormAffine>();

void op::BatchNormAffine::infer(InferContext& c) const {
  const DType dtype = is_half(c.dtype()) ? DType::float32 : c.dtype();
  c.set_output(0, c.shape(0), dtype);
  c.set_output(1, c.shape(0), dtype);
}

void run_cpu(const op::BatchNormAffine& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const T *gamma = c.in(0).as<T>(), *beta = c.in(1).as<T>(), *mean = c.in(2).as<T>(), *var = c.in(3).as<T>();
    const T* bias = op.no_bias ? nullptr : c.in(4).as<T>();
    T *scale = c.out(0).as<T>(), *shift = c.out(1).as<T>();
    for (int64_t i = 0; i < c.out().size(); ++i) {
      const ChannelScale f = channel_scale(op.fix_gamma ? 1 : double(gamma[i]), double(beta[i]), double(mean[i]),
                                           double(var[i]), bias ? double(bias[i]) : 0, op.eps);
      scale[i] = T(f.scale);
      shift[i] = T(f.shift);
    }
  });
}

}  // namespace kaon
