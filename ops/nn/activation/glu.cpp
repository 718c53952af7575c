// glu: one half of an array gates the other.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/activation/kernels/shape_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Glu::def = make_op_def<op::Glu>();

namespace {

constexpr int64_t kLongRun = 256;  // shorter runs are gathered to tiles: a call for each would cost more

// The elements of the result from `begin` to `end`. Each of its runs of m elements follows from 2 m elements of x,
// which are that run's and then its gate's.
template <class T>
void gate_runs(KernelContext& c, int64_t m, int64_t begin, int64_t end, bool stream) {
  const T* const x = c.in(0).as<const T>();
  T* const y = c.out().as<T>();
  const auto run = [&](const T* a, const T* b, int64_t n) {
    const void* const in[] = {a, b};
    run_piece(glu_kernels(), nullptr, c.out().dtype, in, 2, y + begin, size_t(n), stream);
    begin += n;
  };
  while (m >= kLongRun && begin < end) {
    const int64_t in_run = begin % m;
    const T* const a = x + 2 * (begin - in_run) + in_run;
    run(a, a + m, std::min(m - in_run, end - begin));
  }
  alignas(64) T tiles[2][pointwise_tile];
  while (begin < end) {
    const int64_t n = std::min(int64_t(pointwise_tile), end - begin);
    int64_t in_run = begin % m;
    const T* a = x + 2 * (begin - in_run) + in_run;
    for (int64_t i = 0; i < n;) {
      const int64_t count = std::min(m - in_run, n - i);
      for (int64_t j = 0; j < count; ++j) tiles[0][i + j] = a[j], tiles[1][i + j] = a[j + m];
      i += count, a += count + m, in_run = 0;
    }
    run(tiles[0], tiles[1], n);
  }
  if (stream) stream_flush();
}

}  // namespace

void op::Glu::infer(InferContext& c) const {
  c.expect_floating();
  Shape shape = c.shape(0);
  int64_t& size = shape[normalize_axis(axis, shape.ndim(), c.op())];
  if (size % 2 != 0) c.fail(fmt::format("axis {} of {} must have an even size", axis, c.shape(0).str()));
  size /= 2;
  c.set_output(shape, c.dtype());
}

void op::Glu::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const NDArray &x = g.input(0), &h = g.head();
  const int at = normalize_axis(axis, x.ndim(), "glu");
  const std::vector<NDArray> halves = nd.split(x, 2, {.axis = at});
  const NDArray gate = nd.sigmoid(halves[1]);
  g.set(0, nd.concat(op::Concat{.dim = at}, h * gate, nd._backward_sigmoid(h * halves[0], gate)));
}

void run_cpu(const op::Glu& op, KernelContext& c) {
  const Shape& out = c.out().shape;
  const int64_t n = out.size();
  if (n == 0) return;
  const int64_t m = out.product(normalize_axis(op.axis, out.ndim(), "glu"), out.ndim());
  const bool stream = m >= int64_t(pointwise_tile) && wants_stream(c.out().dtype, n, 2);
  dispatch_width(c.out().dtype, [&]<class T>() {
    if (n <= pointwise_grain) return gate_runs<T>(c, m, 0, n, false);
    c.run.parallel_for(n, pointwise_grain, [&](int64_t begin, int64_t end) { gate_runs<T>(c, m, begin, end, stream); });
  });
}

}  // namespace kaon
