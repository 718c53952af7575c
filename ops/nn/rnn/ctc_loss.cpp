#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/rnn/kernels/ctc_paths.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void expect_ctc_inputs(InferContext& c) {
  c.expect_floating();
  c.expect_ndim(0, 3);
  c.expect_ndim(1, 2);
  const Shape data = c.shape(0), label = c.shape(1);
  if (label[0] != data[1] || label[1] > data[0]) {
    c.fail(fmt::format("label must have {} rows of at most {} labels: {}", data[1], data[0], c.describe_inputs()));
  }
  if (data[2] < 1) c.fail(fmt::format("data must have at least one class: {}", c.describe_inputs()));
  for (int i = 2; i < c.num_inputs(); ++i) c.expect_shape(i, Shape(data[1]));
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.dtype(i) == DType::boolean) c.fail_dtype("labels and lengths must be numbers, got bool");
  }
}

// The loss of one sequence; and its gradient, unless null, which is 0 before.
template <class T>
double one_loss(const CtcPaths<T>& p, T* gradient) {
  if (!p.fits()) return 0;
  const Scratch scratch(size_t((p.steps + 2) * p.places) * sizeof(double));
  double* const ways = scratch.as<double>();  // by step and place
  for (int64_t t = 0; t < p.steps; ++t) {
    double* const row = ways + t * p.places;
    for (int64_t place = 0; place < p.places; ++place) row[place] = p.forward(t, place, row - p.places);
  }
  const double total = p.total(ways + (p.steps - 1) * p.places);
  if (!gradient || total == ctc_never) return -total;
  double* after[2] = {ways + p.steps * p.places, ways + (p.steps + 1) * p.places};
  for (int64_t t = p.steps; t-- > 0;) {
    double* const now = after[t % 2];
    for (int64_t place = 0; place < p.places; ++place) {
      now[place] = p.backward(t, place, after[(t + 1) % 2]);
      const double log_share = ways[t * p.places + place] + now[place] - total;
      const int64_t k = p.class_of(place);
      if (log_share == ctc_never || k < 0 || k >= p.classes) continue;
      T& to = gradient[t * p.stride + k];
      to = T(double(to) - std::exp(log_share));
    }
  }
  return -total;
}

template <class T>
void losses(const op::CtcLossOfLogs& op, KernelContext& c) {
  const Shape &data = c.in(0).shape, &label = c.in(1).shape;
  const int64_t steps = data[0], batch = data[1], classes = data[2], most = label[1];
  const int64_t* const length = load_lengths(c, op.use_data_lengths ? &c.in(2) : nullptr, batch, steps);
  const int64_t* const counts = op.use_label_lengths ? load_lengths(c, &c.inputs.back(), batch, most) : nullptr;
  auto* const labels = static_cast<int64_t*>(c.run.workspace(size_t(batch * most + 1) * sizeof(int64_t)));
  T* const gradient = c.out(1).data ? c.out(1).as<T>() : nullptr;
  if (gradient) std::fill_n(gradient, c.in(0).size(), T(0));
  const bool is_first = op.blank_label == BlankLabel::first;
  dispatch_all("labels", c.in(1).dtype, [&]<class L>() {
    c.run.parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        int64_t* const own = labels + n * most;
        const int64_t count = read_labels(c.in(1).as<L>() + n * most, most, is_first ? int64_t(0) : int64_t(-1),
                                          counts ? counts[n] : int64_t(-1), own);
        const CtcPaths<T> paths{c.in(0).as<T>() + n * classes,
                                batch * classes,
                                classes,
                                is_first ? 0 : classes - 1,
                                length[n],
                                2 * count + 1,
                                own};
        const double loss = one_loss(paths, gradient ? gradient + n * classes : nullptr);
        if (c.out(0).data) c.out(0).as<T>()[n] = T(loss);
      }
    });
  });
}

}  // namespace

// --- CTCLoss

constinit const OpDef op::CTCLoss::def = make_op_def<op::CTCLoss>();

void op::CTCLoss::infer(InferContext& c) const {
  expect_ctc_inputs(c);
  c.set_output(Shape(c.shape(0)[1]), c.dtype());
}

void op::CTCLoss::compose(ComposeContext& c) const {
  const DType dtype = c.input().dtype();
  const bool is_narrow = dtype != DType::float32 && dtype != DType::float64;
  NDArray data = is_narrow ? nd.cast(c.input(), DType::float32) : c.input();
  // what is behind the end of a sequence, NaN perhaps, reaches no gradient
  if (use_data_lengths) data = nd.SequenceMask(data, c.input(2), {.use_sequence_length = true});
  const NDArray log_probs = nd.log_softmax(data);
  std::vector<const NDArray*> arrays{&log_probs};
  for (int i = 1; i < c.num_inputs(); ++i) arrays.push_back(&c.input(i));
  const NDArray loss = nd._ctc_loss_of_logs(
      arrays,
      {.use_data_lengths = use_data_lengths, .use_label_lengths = use_label_lengths, .blank_label = blank_label});
  c.set(is_narrow ? nd.cast(loss, dtype) : loss);
}

// --- _ctc_loss_of_logs

constinit const OpDef op::CtcLossOfLogs::def = make_op_def<op::CtcLossOfLogs>();

void op::CtcLossOfLogs::infer(InferContext& c) const {
  expect_ctc_inputs(c);
  if (c.dtype() != DType::float32 && c.dtype() != DType::float64) {
    c.fail_dtype(fmt::format("data must be float32 or float64, got {}", name_of(c.dtype())));
  }
  c.set_output(0, Shape(c.shape(0)[1]), c.dtype());
  c.set_output(1, c.shape(0), c.dtype());
}

void op::CtcLossOfLogs::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  if (g.has_head(1)) throw StateError("[_ctc_loss_of_logs] has no second derivative");
  if (!g.has_head(0)) return;
  const int64_t batch = g.input_like(0).shape()[1];
  g.set(0, nd._reshape_to(g.head(), {.shape = {1, batch, 1}}) * g.output(1));
}

void run_cpu(const op::CtcLossOfLogs& op, KernelContext& c) {
  if (c.in(0).dtype == DType::float64) {
    losses<double>(op, c);
  } else {
    losses<float>(op, c);
  }
}

}  // namespace kaon
