#include "kaon/ops/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_grad.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::SumGrad::def = make_op_def<op::SumGrad>();
constinit const OpDef op::MaxGrad::def = make_op_def<op::MaxGrad>();
constinit const OpDef op::NanSumGrad::def = make_op_def<op::NanSumGrad>();
constinit const OpDef op::ProdGrad::def = make_op_def<op::ProdGrad>();

namespace {

uint32_t mask_of(const InferContext& c, const Shape& axis, const Shape& shape) {
  uint32_t mask = 0;
  for (int64_t a : axis) mask |= bit(normalize_axis(a, shape.ndim(), c.op()));
  return mask;
}

void expect_results(const InferContext& c, int i, const Shape& shape, uint32_t mask) {
  if (c.shape(i).size() != reduced_shape(shape, mask, false).size()) {
    c.fail(fmt::format("{} does not fit shape {} reduced over axes {}", c.describe_inputs(), shape.str(),
                       axes_of(mask).str()));
  }
}

}  // namespace

}  // namespace kaon

namespace kaon::ops {

void infer_reduce_grad(InferContext& c, const Shape& axis) {
  c.expect_same_dtype();
  c.expect_floating();
  for (int64_t a : axis) {
    if (a < 0) c.fail_value(fmt::format("axes are counted from the front, got {}", axis.str()));
  }
  const uint32_t mask = mask_of(c, axis, c.shape(1));
  expect_results(c, 0, c.shape(1), mask);
  if (c.num_inputs() > 2) expect_results(c, 2, c.shape(1), mask);
  c.set_output(c.shape(1), c.dtype());
}

void for_each_spread(RunContext& run, std::span<const ReduceDim> dims,
                     FunctionRef<void(int64_t i, int64_t o, int64_t n, int64_t step)> body) {
  constexpr int64_t block = 1 << 15;
  ReduceDim merged[Shape::max_ndim + 1];
  int n = 0;
  for (const ReduceDim& d : dims) {
    if (d.size == 0) return;
    if (d.size == 1) continue;
    if (n > 0 && merged[n - 1].reduced == d.reduced) {
      merged[n - 1].size *= d.size;
    } else {
      merged[n++] = d;
    }
  }
  if (n == 0) merged[n++] = {1, true};
  int64_t result_strides[Shape::max_ndim + 1], stride = 1, rows = 1;
  for (int i = n - 1; i >= 0; --i) {
    result_strides[i] = merged[i].reduced ? 0 : stride;
    if (!merged[i].reduced) stride *= merged[i].size;
    if (i < n - 1) rows *= merged[i].size;
  }
  const int64_t width = merged[n - 1].size, step = result_strides[n - 1];
  const int64_t blocks = (width + block - 1) / block;
  run.parallel_for(rows * blocks, std::max<int64_t>(1, block / width), [&](int64_t item, int64_t end) {
    for (; item < end; ++item) {
      const int64_t row = item / blocks, begin = item % blocks * block;
      int64_t result = begin * step, index = row;
      for (int i = n - 2; i >= 0; --i) {
        result += index % merged[i].size * result_strides[i];
        index /= merged[i].size;
      }
      body(row * width + begin, result, std::min(block, width - begin), step);
    }
  });
}

namespace {

uint32_t summed_axes(const op::SumGrad& op) {
  uint32_t mask = 0;
  for (int64_t a : op.axis) mask |= bit(int(a < 0 ? a + op.shape.ndim() : a));
  return mask;
}

}  // namespace

}  // namespace kaon::ops

namespace kaon {

void op::SumGrad::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  if (scale != 1) c.expect_floating();
  expect_results(c, 0, shape, mask_of(c, axis, shape));
  c.set_output(shape, c.dtype());
}

void op::SumGrad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  NDArray sum = axis.empty() ? g.head() : nd.sum(g.head(), {.axis = axis});
  if (scale != 1) sum = sum * scale;
  g.set(0, nd._reshape_to(sum, {.shape = g.input_like(0).shape()}));
}

FusedForms op::SumGrad::fused_forms(const RegisterKernels& k) const {
  FusedForms forms;
  if (scale != 1) forms.one = k.scalar[size_t(ScalarKind::mul)];
  forms.numbers = {float(scale)};
  forms.broadcasts = true;
  forms.copies = scale == 1;
  forms.repeated = summed_axes(*this);
  return forms;
}

std::optional<CudaExpression> op::SumGrad::cuda_expression(const ExpressionArgs& a) const {
  if (scale == 1) return a.in[0];
  return dispatch_all("fuse", a.dtype, [&]<class T>() {
    return binary_expression(BinaryKind::mul, a.type(), a.in[0], cuda_literal(accumulate_t<T>(scale)));
  });
}

void run_cpu(const op::SumGrad& op, KernelContext& c) {
  const ReduceDims dims(op.shape, summed_axes(op));
  auto spread = [&]<class T>(auto&& value) {
    T* out = c.out().as<T>();
    const T* head = c.in(0).as<T>();
    for_each_spread(c.run, dims.span(), [&](int64_t i, int64_t o, int64_t n, int64_t step) {
      if (step == 0) {
        std::fill_n(out + i, n, value(head[o]));
      } else {
        for (int64_t k = 0; k < n; ++k) out[i + k] = value(head[o + k]);
      }
    });
  };
  if (op.scale == 1) {
    dispatch_width(c.out().dtype, [&]<class T>() { spread.template operator()<T>([](T v) { return v; }); });
  } else {
    dispatch_float("_backward_sum", c.out().dtype, [&]<class T>() {
      using Acc = accumulate_t<T>;
      const Acc scale = Acc(op.scale);
      spread.template operator()<T>([scale](T v) { return T(Acc(v) * scale); });
    });
  }
}

void op::MaxGrad::infer(InferContext& c) const { infer_reduce_grad(c, axis); }

void op::MaxGrad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray& data = g.input(1);
  const NDArray chosen = data == nd._backward_sum(g.input(2), {.shape = data.shape(), .axis = axis});
  const NDArray product = g.head() * chosen;
  g.set(0,
        nd._reshape_to(axis.empty() ? product : nd.sum(product, {.axis = axis}), {.shape = g.input_like(0).shape()}));
}

void run_cpu(const op::MaxGrad& op, KernelContext& c) { run_reduce_grad(op.axis, c, MaxGradValue()); }

void op::NanSumGrad::infer(InferContext& c) const { infer_reduce_grad(c, axis); }

void run_cpu(const op::NanSumGrad& op, KernelContext& c) { run_reduce_grad(op.axis, c, NanSumGradValue()); }

void op::ProdGrad::infer(InferContext& c) const { infer_reduce_grad(c, axis); }

void run_cpu(const op::ProdGrad& op, KernelContext& c) {
  const TensorView& data = c.in(1);
  uint32_t mask = 0;
  for (int64_t a : op.axis) mask |= bit(int(a));
  const ReduceDims dims(data.shape, mask);
  const int64_t results = c.in(0).size();
  ProdFactors* factors = static_cast<ProdFactors*>(c.run.workspace(size_t(results) * sizeof(ProdFactors)));
  std::uninitialized_fill_n(factors, results, ProdFactors::none());
  dispatch_float("_backward_prod", data.dtype, [&]<class T>() {
    using Acc = accumulate_t<T>;
    const T *head = c.in(0).as<T>(), *x = data.as<T>();
    T* out = c.out().as<T>();
    // One piece covers all: several pieces may meet in one result.
    struct Serial final : RunContext {
      void parallel_for(int64_t n, int64_t, FunctionRef<void(int64_t, int64_t)> body) override {
        if (n > 0) body(0, n);
      }
      void* workspace(size_t) override { return nullptr; }
    } serial;
    const auto skipped = [&](double v) { return op.skip_nan && v != v; };
    for_each_spread(serial, dims.span(), [&](int64_t i, int64_t o, int64_t n, int64_t step) {
      for (int64_t k = 0; k < n; ++k) {
        const double v = double(Acc(x[i + k]));
        if (!skipped(v)) factors[o + k * step].multiply(v);
      }
    });
    for_each_spread(c.run, dims.span(), [&](int64_t i, int64_t o, int64_t n, int64_t step) {
      for (int64_t k = 0; k < n; ++k) {
        const int64_t r = o + k * step;
        const double v = double(Acc(x[i + k]));
        const double others = skipped(v) ? 0 : factors[r].without(v);
        out[i + k] = T(Acc(double(Acc(head[r])) * others));
      }
    });
  });
}

}  // namespace kaon
