#include "kaon/ops/nn/softmax/softmax.h"

#include <algorithm>
#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/softmax/kernels/loss_kernel.h"
#include "kaon/ops/nn/softmax/kernels/softmax_call.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t exp_grain = 16384;  // elements per piece

// Class numbers of any dtype as integers.
int64_t* read_labels(const TensorView& label, RunContext& run) {
  const int64_t n = label.size();
  int64_t* out = static_cast<int64_t*>(run.workspace(sizeof(int64_t) * size_t(std::max<int64_t>(1, n))));
  run.parallel_for(n, exp_grain, [&](int64_t begin, int64_t end) {
    dispatch_all("SoftmaxOutput", label.dtype, [&]<class T>() {
      for (int64_t i = begin; i < end; ++i) {
        const auto v = accumulate_t<T>(label.as<T>()[i]);
        out[i] = v == v ? convert<int64_t>(v) : INT64_MIN;  // NaN is no class
      }
    });
  });
  return out;
}

// The checks that the operator and its gradient share. A label has a class for every row, or the data's shape.
template <class Op>
void check_label(const Op& op, InferContext& c) {
  c.expect_floating();
  const Shape& data = c.shape(0);
  c.expect_ndim_at_least(0, op.multi_output ? 2 : 1);
  if (op.multi_output && op.preserve_shape) c.fail_value("multi_output and preserve_shape exclude each other");
  if (!(op.smooth_alpha >= 0 && op.smooth_alpha <= 1)) {
    c.fail_value("smooth_alpha must lie in [0, 1], got " + to_text(op.smooth_alpha));
  }
  const RowView rows = output_rows(op, data);
  Shape expected(data[0]);
  if (op.multi_output) {
    expected.push_back(rows.inner);
  } else if (op.preserve_shape) {
    expected = Shape();
    for (int i = 0; i + 1 < data.ndim(); ++i) expected.push_back(data[i]);
  }
  const Shape& label = c.shape(1);
  const bool one_each =
      label.is_known() && !label.empty() && label[0] == data[0] && label.size() == rows.outer * rows.inner;
  if (label != data && !one_each) c.expect_shape(1, expected);
  if (label == data && c.dtype(1) != c.dtype(0)) c.fail_dtype("label probabilities need the data's dtype");
}

int64_t row_grain(int64_t row) { return std::max<int64_t>(1, exp_grain / std::max<int64_t>(1, row)); }

}  // namespace

constinit const OpDef op::SoftmaxOutput::def = make_op_def<op::SoftmaxOutput>();
constinit const OpDef op::BackwardSoftmaxOutput::def = make_op_def<op::BackwardSoftmaxOutput>();
constinit const OpDef op::SoftmaxCrossEntropy::def = make_op_def<op::SoftmaxCrossEntropy>();
constinit const OpDef op::BackwardSoftmaxCrossEntropy::def = make_op_def<op::BackwardSoftmaxCrossEntropy>();

void op::SoftmaxOutput::infer(InferContext& c) const {
  check_label(*this, c);
  c.set_output(c.shape(0), c.dtype());
}

IndexUse op::SoftmaxOutput::index_use(std::span<const TensorView> inputs) const {
  if (inputs[1].shape == inputs[0].shape) return {};  // probabilities
  return {1, output_rows(*this, inputs[0].shape).n, use_ignore ? std::optional(ignore_label) : std::nullopt};
}

void op::SoftmaxOutput::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const op::BackwardSoftmaxOutput op{grad_scale,     ignore_label,  multi_output, use_ignore,
                                     preserve_shape, normalization, out_grad,     smooth_alpha};
  g.set(0, out_grad ? nd._backward_SoftmaxOutput(g.output(), g.input(1), g.head(), op)
                    : nd._backward_SoftmaxOutput(g.output(), g.input(1), op));
}

void run_cpu(const op::SoftmaxOutput& op, KernelContext& c) {
  softmax_forward(SoftmaxKind::plain, output_rows(op, c.in(0).shape), 1, c.in(0), nullptr, c.out(), c.run);
}

void op::BackwardSoftmaxOutput::infer(InferContext& c) const {
  check_label(*this, c);
  if (out_grad && (c.shape(2) != c.shape(0) || c.dtype(2) != c.dtype(0))) {
    c.fail("head must be like the output: " + c.describe_inputs());
  }
  c.set_output(c.shape(0), c.dtype());
}

void run_cpu(const op::BackwardSoftmaxOutput& op, KernelContext& c) {
  const TensorView y = c.in(0), label = c.in(1), dx = c.out();
  const RowView rows = output_rows(op, y.shape);
  const int64_t positions = rows.outer * rows.inner;
  const void* head = op.out_grad ? c.in(2).data : nullptr;
  if (dx.size() == 0) return;
  if (label.shape == y.shape) {
    c.run.parallel_for(dx.size(), exp_grain, [&](int64_t begin, int64_t end) {
      scaled_difference(y.dtype, op.grad_scale, y.data, label.data, head, dx.data, begin, end);
    });
    return;
  }
  const int64_t* labels = read_labels(label, c.run);
  const int64_t ignored = int64_t(op.ignore_label);
  const OutputGradient f = output_gradient(op, rows, label.shape);
  double scale = f.scale;
  if (op.normalization == Normalization::valid) {
    const int64_t dropped = std::count(labels, labels + positions, ignored);  // also without use_ignore, as in MXNet
    scale /= double(std::max<int64_t>(1, positions - dropped));
  }
  // first every class as if it were not the label, then the labels' own classes and the ignored rows
  const int64_t row = rows.n * rows.inner;
  c.run.parallel_for(rows.outer, row_grain(row), [&](int64_t begin, int64_t end) {
    scaled_shift(y.dtype, scale, f.spread, y.data, head, dx.data, begin * row, end * row);
    dispatch_float("SoftmaxOutput", y.dtype, [&]<class T>() {
      using A = accumulate_t<T>;
      for (int64_t p = begin * rows.inner; p < end * rows.inner; ++p) {
        const int64_t at = p / rows.inner * row + p % rows.inner, k = labels[p];
        if (op.use_ignore && k == ignored) {
          for (int64_t j = 0; j < rows.n; ++j) dx.as<T>()[at + j * rows.inner] = T(A(0));
        } else if (k >= 0 && k < rows.n) {
          // taken from dx, since y may share its memory
          const int64_t i = at + k * rows.inner;
          const A h = head ? A(static_cast<const T*>(head)[i]) : A(1);
          dx.as<T>()[i] = T(A(dx.as<T>()[i]) + A(scale * f.pick) * h);
        }
      }
    });
  });
}

void op::SoftmaxCrossEntropy::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 2);
  c.expect_shape(1, Shape(c.shape(0)[0]));
  if (c.shape(0)[1] == 0) c.fail("needs at least one class, got " + c.shape(0).str());
  c.set_output(Shape(1), c.dtype());
}

void op::SoftmaxCrossEntropy::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._backward_softmax_cross_entropy(g.head(), g.input(0), g.input(1)));
}

void run_cpu(const op::SoftmaxCrossEntropy&, KernelContext& c) {
  const TensorView x = c.in(0);
  const int64_t n = x.shape[0], classes = x.shape[1];
  const int64_t* labels = read_labels(c.in(1), c.run);
  TensorView log_p = x;
  log_p.data = c.run.workspace(std::max<size_t>(1, x.bytes()));
  softmax_forward(SoftmaxKind::log, {n, classes, 1}, 1, x, nullptr, log_p, c.run);
  dispatch_float("softmax_cross_entropy", x.dtype, [&]<class T>() {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum -= double(accumulate_t<T>(log_p.as<T>()[i * classes + std::clamp<int64_t>(labels[i], 0, classes - 1)]));
    }
    c.out().as<T>()[0] = T(accumulate_t<T>(sum));
  });
}

void op::BackwardSoftmaxCrossEntropy::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_shape(0, Shape(1));
  c.expect_ndim(1, 2);
  c.expect_shape(2, Shape(c.shape(1)[0]));
  if (c.dtype(0) != c.dtype(1)) c.fail_dtype("head and data must have one dtype");
  c.set_output(c.shape(1), c.dtype(1));
}

void run_cpu(const op::BackwardSoftmaxCrossEntropy&, KernelContext& c) {
  const TensorView x = c.in(1), dx = c.out();
  const int64_t n = x.shape[0], classes = x.shape[1];
  if (dx.size() == 0) return;
  const int64_t* labels = read_labels(c.in(2), c.run);
  softmax_forward(SoftmaxKind::plain, {n, classes, 1}, 1, x, nullptr, dx, c.run);
  dispatch_float("softmax_cross_entropy", x.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const A head = A(c.in(0).as<T>()[0]);
    c.run.parallel_for(n, row_grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T& p = dx.as<T>()[i * classes + std::clamp<int64_t>(labels[i], 0, classes - 1)];
        p = T(A(p) - A(1));
      }
      scaled_shift(x.dtype, double(head), 0, dx.data, nullptr, dx.data, begin * classes, end * classes);
    });
  });
}

}  // namespace kaon
