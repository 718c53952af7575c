// Operators that ask or set something of many arrays.
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/adapted_rate.h"
#include "kaon/ops/optim/kernels/gradient_factor.h"
#include "kaon/ops/optim/kernels/update_kernel.h"
#include "kaon/ops/optim/optim.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::MultiSumSq::def = make_op_def<op::MultiSumSq>();
constinit const OpDef op::GradientFactor::def = make_op_def<op::GradientFactor>();
constinit const OpDef op::LossScale::def = make_op_def<op::LossScale>();
constinit const OpDef op::MultiLars::def = make_op_def<op::MultiLars>();
constinit const OpDef op::AllFinite::def = make_op_def<op::AllFinite>();
constinit const OpDef op::MultiAllFinite::def = make_op_def<op::MultiAllFinite>();
constinit const OpDef op::ResetArrays::def = make_op_def<op::ResetArrays>();
constinit const OpDef op::MultiAdd::def = make_op_def<op::MultiAdd>();

namespace {

constexpr int64_t update_grain = 65536;

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
      c.run.parallel_for(x.size(), update_grain, [&](int64_t begin, int64_t end) {
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

namespace {

// Two doubles for each input from `first` on: the first is the sum of its squares.
const double* sums_of_squares(KernelContext& c, size_t first) {
  const size_t n = size_t(c.num_inputs()) - first;
  UpdateTensor* tensors = static_cast<UpdateTensor*>(c.run.workspace(n * sizeof(UpdateTensor)));
  double* sums = static_cast<double*>(c.run.workspace(2 * n * sizeof(double)));
  for (size_t i = 0; i < n; ++i) {
    const TensorView& x = c.in(int(first + i));
    UpdateTensor* t = new (tensors + i) UpdateTensor{.size = x.size()};
    t->set(UpdateTensor::weight, x);
    t->set(UpdateTensor::grad, x);
  }
  sum_all({.kind = UpdateKind::norms}, {tensors, n}, c.run, sums);
  return sums;
}

template <class Op>
void find_factor(const Op& op, KernelContext& c) {
  c.run.updates_are_whole = true;
  float* const state = scale_state(op, c);
  const size_t first = state ? 1 : 0, n = size_t(c.num_inputs()) - first;
  const double* const sums = sums_of_squares(c, first);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += sums[2 * i];
  c.run.updates_are_whole = false;
  c.out().as<float>()[0] = gradient_factor(op, squares, state);
}

template <class Op>
void check_factor(const Op& op, InferContext& c, int first) {
  if (c.num_inputs() <= first) c.fail_value("expected one gradient or more");
  if (std::isnan(op.rescale_grad) || std::isnan(op.clip_global_norm)) c.fail_value("attributes must not be NaN");
  for (int i = first; i < c.num_inputs(); ++i) c.expect_floating(i);
  c.set_output(Shape(1), DType::float32);
}

}  // namespace

void op::GradientFactor::infer(InferContext& c) const { check_factor(*this, c, 0); }
void op::LossScale::infer(InferContext& c) const {
  check_factor(*this, c, 1);
  c.expect_shape(0, Shape(2));
  if (c.dtype(0) != DType::float32) c.fail_dtype("the state must be float32, got " + to_text(c.dtype(0)));
  if (!(scale_factor > 1) || !(scale_window >= 1) || !(min_scale > 0) || !(max_scale >= min_scale)) {
    c.fail_value("scale_factor must be above 1, scale_window 1 or more, and 0 < min_scale <= max_scale");
  }
}
void run_cpu(const op::GradientFactor& op, KernelContext& c) { find_factor(op, c); }
void run_cpu(const op::LossScale& op, KernelContext& c) { find_factor(op, c); }

void op::MultiSumSq::infer(InferContext& c) const {
  expect_arrays(c, num_arrays);
  for (int i = 0; i < c.num_inputs(); ++i) c.expect_floating(i);
  c.set_output(Shape(num_arrays), DType::float32);
}

void run_cpu(const op::MultiSumSq&, KernelContext& c) {
  const size_t n = size_t(c.num_inputs());
  if (n == 0) return;
  const double* const sums = sums_of_squares(c, 0);
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
  c.run.parallel_for(c.out().size(), update_grain, [&](int64_t begin, int64_t end) {
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

void op::MultiAdd::infer(InferContext& c) const {
  if (c.num_inputs() == 0 || c.num_inputs() % 2 != 0) {
    c.fail("expected {sum, value} for each sum, got " + to_text(c.num_inputs()) + " arrays");
  }
  for (int i = 0; i < c.num_inputs(); i += 2) {
    c.expect_floating(i);
    c.expect_input(i + 1, c.shape(i), c.dtype(i));
  }
}

void run_cpu(const op::MultiAdd&, KernelContext& c) {
  for (int i = 0; i < c.num_inputs(); i += 2) {
    const TensorView sum = c.in(i), value = c.in(i + 1);
    dispatch_float("_kaon_multi_add", sum.dtype, [&]<class T>() {
      using A = accumulate_t<T>;
      c.run.parallel_for(sum.size(), update_grain, [&](int64_t begin, int64_t end) {
        T* to = sum.as<T>();
        const T* from = value.as<T>();
        for (int64_t k = begin; k < end; ++k) to[k] = T(A(to[k]) + A(from[k]));
      });
    });
  }
}

}  // namespace kaon
