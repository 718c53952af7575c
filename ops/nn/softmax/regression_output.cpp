#include "kaon/ops/nn/softmax/softmax.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/init/init.h"
#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/nn/activation/kernels/activation_kernel.h"
#include "kaon/ops/nn/softmax/kernels/loss_kernel.h"
#include "kaon/ops/nn/softmax/kernels/moved_average.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t element_grain = 65536;  // elements per piece
constexpr int64_t costly_grain = 16384;   // and where exponentials are computed

}  // namespace

template <RegressionKind kind>
constinit const OpDef op::RegressionOutput<kind>::def = make_op_def<op::RegressionOutput<kind>>();
constinit const OpDef op::BackwardRegressionOutput::def = make_op_def<op::BackwardRegressionOutput>();
constinit const OpDef op::MakeLoss::def = make_op_def<op::MakeLoss>();
constinit const OpDef op::SVMOutput::def = make_op_def<op::SVMOutput>();
constinit const OpDef op::IdentityAttachKLSparseReg::def = make_op_def<op::IdentityAttachKLSparseReg>();
constinit const OpDef op::BackwardMakeLoss::def = make_op_def<op::BackwardMakeLoss>();

// A label of (n,) serves data of (n, 1).
template <RegressionKind kind>
void op::RegressionOutput<kind>::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  const Shape &data = c.shape(0), &label = c.shape(1);
  const bool fits = label.is_known() && !label.empty() && label[0] == data[0] && label.size() == data.size();
  if (!fits) c.expect_shape(1, data.ndim() == 2 && data[1] == 1 ? Shape(data[0]) : data);
  c.expect_same_dtype();
  c.set_output(data, c.dtype());
}

template <RegressionKind kind>
void op::RegressionOutput<kind>::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  g.set(0, nd._backward_RegressionOutput(g.output(), g.input(1), {.kind = kind, .grad_scale = grad_scale}));
}

template <RegressionKind kind>
void run_cpu(const op::RegressionOutput<kind>&, KernelContext& c) {
  if constexpr (kind == RegressionKind::logistic) {
    c.run.parallel_for(c.out().size(), costly_grain, [&](int64_t begin, int64_t end) {
      activation_forward(ActivationType::sigmoid, c.out().dtype, c.in(0).data, c.out().data, begin, end);
    });
  } else {
    copy_bytes(c.run, c.in(0).data, c.out().data, c.out().bytes());
  }
}

template struct op::RegressionOutput<RegressionKind::linear>;
template struct op::RegressionOutput<RegressionKind::mae>;
template struct op::RegressionOutput<RegressionKind::logistic>;
template void run_cpu(const op::LinearRegressionOutput&, KernelContext&);
template void run_cpu(const op::MAERegressionOutput&, KernelContext&);
template void run_cpu(const op::LogisticRegressionOutput&, KernelContext&);

void op::BackwardRegressionOutput::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_same_dtype();
  c.expect_ndim_at_least(0, 1);
  if (c.shape(0).size() != c.shape(1).size()) c.fail("sizes must be equal: " + c.describe_inputs());
  c.set_output(c.shape(0), c.dtype());
}

void run_cpu(const op::BackwardRegressionOutput& op, KernelContext& c) {
  const TensorView y = c.in(0), label = c.in(1), dx = c.out();
  if (dx.size() == 0) return;
  const double scale = op.grad_scale * double(y.shape[0]) / double(y.size());
  c.run.parallel_for(dx.size(), element_grain, [&](int64_t begin, int64_t end) {
    if (op.kind == RegressionKind::mae) {
      scaled_sign(y.dtype, scale, y.data, label.data, dx.data, begin, end);
    } else {
      scaled_difference(y.dtype, scale, y.data, label.data, nullptr, dx.data, begin, end);
    }
  });
}

void op::MakeLoss::infer(InferContext& c) const {
  c.expect_floating();
  if (normalization == Normalization::batch) c.expect_ndim_at_least(0, 1);
  c.set_output(c.shape(0), c.dtype());
}
void op::MakeLoss::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd._backward_MakeLoss(g.input(0), {grad_scale, valid_thresh, normalization}));
}
void run_cpu(const op::MakeLoss&, KernelContext& c) { copy_bytes(c.run, c.in(0).data, c.out().data, c.out().bytes()); }

void op::BackwardMakeLoss::infer(InferContext& c) const {
  c.expect_floating();
  if (normalization == Normalization::batch) c.expect_ndim_at_least(0, 1);
  c.set_output(c.shape(0), c.dtype());
}

void run_cpu(const op::BackwardMakeLoss& op, KernelContext& c) {
  const TensorView x = c.in(0);
  if (x.size() == 0) return;
  double divisor = 1;
  if (op.normalization == Normalization::batch) divisor = double(x.shape[0]);
  if (op.normalization == Normalization::valid) {
    const int64_t pieces = (x.size() + element_grain - 1) / element_grain;
    int64_t* counts = static_cast<int64_t*>(c.run.workspace(sizeof(int64_t) * size_t(pieces)));
    c.run.parallel_for(x.size(), element_grain, [&](int64_t begin, int64_t end) {
      counts[begin / element_grain] = count_above(x.dtype, op.valid_thresh, x.data, begin, end);
    });
    int64_t count = 0;
    for (int64_t p = 0; p < pieces; ++p) count += counts[p];
    divisor = double(std::max<int64_t>(1, count));
  }
  fill(c.out(), op.grad_scale / divisor, c.run);
}

void op::SVMOutput::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 2);
  c.expect_shape(1, Shape(c.shape(0)[0]));
  c.expect_same_dtype();
  c.set_output(c.shape(0), c.dtype());
}

void op::SVMOutput::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const NDArray& x = g.input(0);
  const NDArray is_label = nd.one_hot(g.input(1), x.shape()[1], {.dtype = x.dtype()});
  const NDArray sign = is_label * 2 - 1, reached = sign * x;
  g.set(0, use_linear ? sign * (reached < margin) * -regularization_coefficient
                      : sign * nd.relu(margin - reached) * (-2 * regularization_coefficient));
}

void run_cpu(const op::SVMOutput&, KernelContext& c) { copy_bytes(c.run, c.in(0).data, c.out().data, c.out().bytes()); }

void op::IdentityAttachKLSparseReg::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 2);
  if (!(sparseness_target > 0 && sparseness_target < 1)) {
    c.fail_value(fmt::format("sparseness_target must lie between 0 and 1, got {}", sparseness_target));
  }
  if (!(momentum >= 0 && momentum <= 1)) c.fail_value(fmt::format("momentum must lie in [0, 1], got {}", momentum));
  c.expect_shape(1, Shape(c.shape(0)[1]));
  c.expect_same_dtype();
  c.set_output(0, c.shape(0), c.dtype());
  c.set_output(1, c.shape(1), c.dtype());
}

void op::IdentityAttachKLSparseReg::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray average = nd.BlockGrad(g.output(1));
  g.set(0, g.head(0) + ((1 - sparseness_target) / (1 - average) - sparseness_target / average) * penalty);
}

void run_cpu(const op::IdentityAttachKLSparseReg& op, KernelContext& context) {
  const uint32_t updated = context.training ? bit(1) : 0;
  in_float_or_double(
      context,
      [&]<class T>(KernelContext& c) {
        const int64_t rows = c.in(0).shape[0], columns = c.in(0).shape[1];
        const T* const x = c.in(0).as<T>();
        T *const average = c.in(1).as<T>(), *const used = c.out(1).as<T>();
        c.run.parallel_for(columns, std::max<int64_t>(1, element_grain / (rows + 1)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T moved = c.training ? moved_average(x + i, rows, columns, average[i], op.momentum) : average[i];
            if (c.training) average[i] = moved;
            if (used) used[i] = moved;
          }
        });
        copy_bytes(c.run, x, c.out(0).data, c.out(0).bytes());
      },
      updated);
}

}  // namespace kaon
