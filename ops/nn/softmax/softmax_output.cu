#include "kaon/ops/nn/softmax/softmax.h"

#include "kaon/ops/nn/softmax/kernels/softmax_call.h"
#include "kaon/ops/reduce/kernels/rows.cuh"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t no_class = INT64_MIN;  // for a NaN label

// Rows of y with the gradient by the label of each.
template <class T>
struct LabelGradient {
  using A = accumulate_t<T>;
  OutputGradient f;
  const double* divisor;  // of f.scale; null: 1
  const T* factor;        // of everything; null: 1
  const int64_t* labels;
  int64_t ignored;
  bool use_ignore, clip;  // clip: a label outside the classes names the nearest one
  const T *y, *head;      // head null: 1
  T* dx;

  __device__ void operator()(const cuda::RowPlan& p, int64_t row) const {
    if (row >= p.rows) return;
    const int64_t first = p.first(row);
    int64_t label = labels[row];
    const bool drop = use_ignore && label == ignored;
    if (clip) label = label < 0 ? 0 : label < p.n ? label : p.n - 1;
    A scale = A(divisor ? f.scale / *divisor : f.scale);
    if (factor) scale *= A(*factor);
    const A spread = A(f.spread), pick = A(f.pick);
    p.for_lane(p.n, [&](int64_t j, int) {
      const int64_t at = first + j * p.inner;
      const A shifted = A(y[at]) - spread + (j == label ? pick : A(0));
      dx[at] = T(drop ? A(0) : shifted * scale * (head ? A(head[at]) : A(1)));
    });
  }
};

// How many labels count, at least 1.
struct CountLabels {
  using Acc = int64_t;
  using Fold = CountLabels;
  const int64_t* labels;
  int64_t ignored;
  double* out;
  __device__ int64_t identity() const { return 0; }
  __device__ int64_t add(int64_t acc, int64_t at, int64_t, int64_t) const { return acc + (labels[at] != ignored); }
  __device__ int64_t merge(int64_t a, int64_t b) const { return a + b; }
  __device__ void store(int64_t, int64_t acc) const { *out = double(acc > 0 ? acc : 1); }
};

struct Difference {
  double scale;
  template <class A>
  __device__ A operator()(A y, A label) const {
    return (y - label) * A(scale);
  }
  template <class A>
  __device__ A operator()(A y, A label, A head) const {
    return (y - label) * A(scale) * head;
  }
};

struct Sum {
  using Acc = double;
  using Fold = Sum;
  cuda::RealTarget out;
  __device__ double identity() const { return 0; }
  __device__ double merge(double a, double b) const { return a + b; }
  __device__ void store(int64_t k, double acc) const { out.set(k, acc); }
};
// -log p of the rows' labels.
template <class T>
struct LabelLoss : Sum {
  const T* log_p;
  const int64_t* labels;
  int64_t classes;
  __device__ double add(double acc, int64_t row, int64_t, int64_t) const {
    const int64_t k = labels[row] < 0 ? 0 : labels[row] < classes ? labels[row] : classes - 1;
    return acc - double(accumulate_t<T>(log_p[row * classes + k]));
  }
};

}  // namespace

void run_cuda(const op::SoftmaxOutput& op, KernelContext& c) {
  cuda::softmax_forward(SoftmaxKind::plain, output_rows(op, c.in(0).shape), 1, c.in(0), nullptr, c.out(), c);
}

void run_cuda(const op::BackwardSoftmaxOutput& op, KernelContext& c) {
  const TensorView &y = c.in(0), &label = c.in(1), &dx = c.out();
  if (dx.size() == 0) return;
  const RowView rows = output_rows(op, y.shape);
  const bool probabilities = label.shape == y.shape;
  const int64_t ignored = int64_t(op.ignore_label);
  const int64_t* const labels = probabilities ? nullptr : cuda::whole_numbers(label, no_class, c);
  double* divisor = nullptr;
  if (!probabilities && op.normalization == Normalization::valid) {  // also without use_ignore, as in MXNet
    divisor = static_cast<double*>(c.run.workspace(sizeof(double)));
    const ReduceDim positions[] = {{rows.outer * rows.inner, true}};
    cuda::reduce(c, CountLabels{labels, ignored, divisor}, positions);
  }
  dispatch_float("SoftmaxOutput", y.dtype, [&]<class T>() {
    const T* const head = op.out_grad ? c.in(2).as<T>() : nullptr;
    if (!probabilities) {
      const OutputGradient f = output_gradient(op, rows, label.shape);
      cuda::for_rows(
          c, cuda::RowPlan(rows.outer, rows.n, rows.inner),
          LabelGradient<T>{f, divisor, nullptr, labels, ignored, op.use_ignore, false, y.as<T>(), head, dx.as<T>()});
    } else if (head) {
      cuda::elementwise(c, dx.size(), Difference{op.grad_scale}, dx.as<T>(), y.as<T>(), label.as<T>(), head);
    } else {
      cuda::elementwise(c, dx.size(), Difference{op.grad_scale}, dx.as<T>(), y.as<T>(), label.as<T>());
    }
  });
}

void run_cuda(const op::SoftmaxCrossEntropy&, KernelContext& c) {
  const TensorView& x = c.in(0);
  const int64_t n = x.shape[0], classes = x.shape[1];
  const int64_t* const labels = cuda::whole_numbers(c.in(1), no_class, c);
  TensorView log_p = x;
  log_p.data = c.run.workspace(std::max<size_t>(1, x.bytes()));
  cuda::softmax_forward(SoftmaxKind::log, {n, classes, 1}, 1, x, nullptr, log_p, c);
  dispatch_float("softmax_cross_entropy", x.dtype, [&]<class T>() {
    const ReduceDim rows[] = {{n, true}};
    cuda::reduce(c, LabelLoss<T>{{cuda::RealTarget(c.out())}, log_p.as<T>(), labels, classes}, rows);
  });
}

void run_cuda(const op::BackwardSoftmaxCrossEntropy&, KernelContext& c) {
  const TensorView &x = c.in(1), &dx = c.out();
  if (dx.size() == 0) return;
  const RowView rows{x.shape[0], x.shape[1], 1};
  const int64_t* const labels = cuda::whole_numbers(c.in(2), no_class, c);
  cuda::softmax_forward(SoftmaxKind::plain, rows, 1, x, nullptr, dx, c);
  dispatch_float("softmax_cross_entropy", x.dtype, [&]<class T>() {
    cuda::for_rows(c, cuda::RowPlan(rows.outer, rows.n, rows.inner),
                   LabelGradient<T>{
                       {1, 0, -1}, nullptr, c.in(0).as<T>(), labels, 0, false, true, dx.as<T>(), nullptr, dx.as<T>()});
  });
}

}  // namespace kaon
