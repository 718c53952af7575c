// Operators that ask or set something of many arrays.
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/adapted_rate.h"
#include "kaon/ops/optim/kernels/update_kernel.h"
#include "kaon/ops/optim/optim.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::MultiSumSq::def = make_op_def<op::MultiSumSq>();
constinit const OpDef op::MultiLars::def = make_op_def<op::MultiLars>();
constinit const OpDef op::AllFinite::def = make_op_def<op::AllFinite>();
constinit const OpDef op::MultiAllFinite::def = make_op_def<op::MultiAllFinite>();
constinit const OpDef op::ResetArrays::def = make_op_def<op::ResetArrays>();

namespace {

constexpr int64_t grain = 65536;

void expect_arrays(const InferContext& c, int num_arrays) {
  if (num_arrays == c.num_inputs()) return;
  c.fail("num_arrays must be the number of inputs, " + to_text(c.num_inputs()) + ", got " + to_text(num_arrays));
}

void infer_finite(InferContext& c, bool init_output) {
  if (!init_output) c.fail_value("init_output must be True: the result is a new array; multiply results instead");
  for (int i = 0; i < c.num_inputs(); ++i) c.expect_floating(i);
  c.set_output(Shape(1), DType::float32);
}

void find_finite(KernelContext& c) {
  std::atomic<bool> finite{true};
  for (const TensorView& x : c.inputs) {
    dispatch_float("multi_all_finite", x.dtype, [&]<class T>() {
      c.run.parallel_for(x.size(), grain, [&](int64_t begin, int64_t end) {
        // 0 * x is 0 for finite x and NaN for the others; sums side by side run as vectors
        constexpr int64_t lanes = 16;
        const T* p = x.as<T>();
        accumulate_t<T> sum[lanes] = {};
        int64_t i = begin;
        for (; i + lanes <= end; i += lanes) {
          for (int64_t k = 0; k < lanes; ++k) sum[k] += accumulate_t<T>(p[i + k]) * 0;
        }
        for (; i < end; ++i) sum[0] += accumulate_t<T>(p[i]) * 0;
        for (accumulate_t<T> s : sum) {
          if (std::isnan(s)) finite.store(false, std::memory_order_relaxed);
        }
      });
    });
  }
  c.out().as<float>()[0] = finite ? 1.0f : 0.0f;
}

}  // namespace

void op::AllFinite::infer(InferContext& c) const { infer_finite(c, init_output); }
void op::MultiAllFinite::infer(InferContext& c) const {
  expect_arrays(c, num_arrays);
  infer_finite(c, init_output);
}
void run_cpu(const op::AllFinite&, KernelContext& c) { find_finite(c); }
void run_cpu(const op::MultiAllFinite&, KernelContext& c) { find_finite(c); }

void op::MultiSumSq::infer(InferContext& c) const {
  expect_arrays(c, num_arrays);
  for (int i = 0; i < c.num_inputs(); ++i) c.expect_floating(i);
  c.set_output(Shape(num_arrays), DType::float32);
}

void run_cpu(const op::MultiSumSq&, KernelContext& c) {
  const size_t n = size_t(c.num_inputs());
  if (n == 0) return;
  UpdateTensor* tensors = static_cast<UpdateTensor*>(c.run.workspace(n * sizeof(UpdateTensor)));
  double* sums = static_cast<double*>(c.run.workspace(2 * n * sizeof(double)));
  for (size_t i = 0; i < n; ++i) {
    UpdateTensor* t = new (tensors + i) UpdateTensor{.size = c.in(int(i)).size()};
    t->set(UpdateTensor::weight, c.in(int(i)));
    t->set(UpdateTensor::grad, c.in(int(i)));
  }
  sum_all({.kind = UpdateKind::norms}, {tensors, n}, c.run, sums);
  for (size_t i = 0; i < n; ++i) c.out().as<float>()[i] = float(sums[2 * i]);
}

void op::MultiLars::infer(InferContext& c) const {
  for (double v : {eta, eps, rescale_grad}) {
    if (std::isnan(v)) c.fail_value("attributes must not be NaN");
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.dtype(i) != DType::float32) c.fail_dtype("expected float32, got " + to_text(c.dtype(i)));
    c.expect_shape(i, c.shape(0));
  }
  c.set_output(c.shape(0), DType::float32);
}

void run_cpu(const op::MultiLars& op, KernelContext& c) {
  const float *lrs = c.in(0).as<float>(), *weights = c.in(1).as<float>(), *grads = c.in(2).as<float>(),
              *wds = c.in(3).as<float>();
  float* out = c.out().as<float>();
  c.run.parallel_for(c.out().size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = lars_rate(op, lrs[i], wds[i], weights[i], grads[i]);
  });
}

void op::ResetArrays::infer(InferContext& c) const {
  expect_arrays(c, num_arrays);
  if (num_arrays == 0) c.fail("expected one array or more, got no inputs");
}

void run_cpu(const op::ResetArrays&, KernelContext& c) {
  for (const TensorView& x : c.inputs) {
    c.run.parallel_for(int64_t(x.bytes()), 1 << 18,
                       [&](int64_t begin, int64_t end) { std::memset(x.as<char>() + begin, 0, size_t(end - begin)); });
  }
}

}  // namespace kaon
