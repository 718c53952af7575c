#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/signal/kernels/hawkes.h"
#include "kaon/ops/signal/signal.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::HawkesLL::def = make_op_def<op::HawkesLL>();
constinit const OpDef op::BackwardHawkesLL::def = make_op_def<op::BackwardHawkesLL>();

namespace {

constexpr int64_t hawkes_grain = 4096;  // events that one task walks along

// Returns the number of sequences and of kinds.
std::pair<int64_t, int64_t> check_sequences(InferContext& c) {
  c.expect_ndim(0, 2);
  c.expect_ndim(4, 2);
  const int64_t n = c.shape(0)[0], k = c.shape(0)[1];
  if (c.dtype() != DType::float32 && c.dtype() != DType::float64) {
    c.fail_dtype(fmt::format("lda must be float32 or float64, got {}", name_of(c.dtype())));
  }
  const Shape expected[] = {{n, k},   Shape(k), Shape(k), {n, k}, {n, c.shape(4)[1]}, {n, c.shape(4)[1]},
                            Shape(n), Shape(n)};
  for (int i = 1; i < 8; ++i) c.expect_input(i, expected[i], i == 5 ? DType::int32 : c.dtype());
  return {n, k};
}

template <class F>
void walk_all(KernelContext& c, const F& walk) {
  const int64_t n = c.in(0).shape[0];
  c.run.parallel_for(n, std::max<int64_t>(1, hawkes_grain / (c.in(0).shape[1] + c.in(4).shape[1] + 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) walk(i);
                     });
}

template <class F>
void in_float_or_double(const char* op, DType dtype, const F& f) {
  if (dtype == DType::float32) return f.template operator()<float>();
  if (dtype == DType::float64) return f.template operator()<double>();
  fail_unsupported_dtype(op, dtype);
}

}  // namespace

void op::HawkesLL::infer(InferContext& c) const {
  const auto [n, k] = check_sequences(c);
  c.set_output(0, Shape(n), c.dtype());
  c.set_output(1, {n, k}, c.dtype());
}

void op::HawkesLL::grad(GradContext& g) const {
  if (!(g.wants(0) || g.wants(1) || g.wants(2)) || !g.has_head(0)) return;
  const std::vector<NDArray> d = nd._backward_hawkesll(g.input(0), g.input(1), g.input(2), g.input(3), g.input(4),
                                                       g.input(5), g.input(6), g.input(7));
  const NDArray head = nd.expand_dims(g.head(0), 1);
  for (int i = 0; i < 3; ++i) {
    if (!g.wants(i)) continue;
    const NDArray each = d[size_t(i)] * head;
    g.set(i, i == 0 ? each : nd.sum(each, {.axis = Shape(0)}));
  }
}

void run_cpu(const op::HawkesLL&, KernelContext& c) {
  in_float_or_double("_contrib_hawkesll", c.in(0).dtype, [&]<class T>() {
    const auto array = [&](int output) {
      return static_cast<T*>(output > 0 && c.out(output).data ? c.out(output).data : c.run.workspace(c.in(0).bytes()));
    };
    walk_all(c, HawkesForward<T>{hawkes_call<T>(c), c.out(0).as<T>(), array(1), array(0)});
  });
}

void op::BackwardHawkesLL::infer(InferContext& c) const {
  const auto [n, k] = check_sequences(c);
  for (int i = 0; i < 3; ++i) c.set_output(i, {n, k}, c.dtype());
}

void run_cpu(const op::BackwardHawkesLL&, KernelContext& c) {
  in_float_or_double("_backward_hawkesll", c.in(0).dtype, [&]<class T>() {
    const auto array = [&] { return static_cast<T*>(c.run.workspace(c.in(0).bytes())); };
    const auto result = [&](int i) { return c.out(i).data ? c.out(i).as<T>() : array(); };
    walk_all(c, HawkesBackward<T>{hawkes_call<T>(c), result(0), result(1), result(2), array(), array(), array()});
  });
}

}  // namespace kaon
