#include "kaon/ops/nn/softmax/kernels/softmax_kernel.h"

#include "kaon/ops/reduce/kernels/rows.cuh"

namespace kaon::cuda {
namespace {

// The largest of some numbers, and the sum of e^(scale (number - largest)), scale > 0. A NaN is in the sum only.
template <class A>
struct Exponentials {
  A top, sum;

  __device__ static Exponentials none() { return {-std::numeric_limits<A>::infinity(), A(0)}; }
  __device__ void add(A v, A scale) {
    if (v > top) {
      sum = sum * ::exp((top - v) * scale) + A(1);
      top = v;
    } else {
      sum += v == top ? A(1) : ::exp((v - top) * scale);  // both may be -inf
    }
  }
  __device__ A sum_from(A new_top, A scale) const {
    return top == new_top ? sum : sum * ::exp((top - new_top) * scale);
  }
};

template <class In, class Out>
struct Forward {
  using A = std::conditional_t<std::is_same_v<Out, double>, double, accumulate_t<In>>;  // the wider one
  bool log_kind;
  A scale;
  const int64_t* length;  // null: all
  const In* in;
  Out* out;

  __device__ void operator()(const RowPlan& p, int64_t row) const {
    const bool exists = row < p.rows;
    const int64_t first = exists ? p.first(row) : 0;
    int64_t n = exists ? p.n : 0;
    if (exists && length) n = length[row] < 0 ? 0 : length[row] < n ? length[row] : n;
    const A sign = scale < A(0) ? A(-1) : A(1), s = sign * scale;  // differences are scaled: numbers might overflow
    A held[RowPlan::held];
    auto acc = Exponentials<A>::none();
    p.for_lane(n, [&](int64_t j, int h) {
      const A v = A(in[first + j * p.inner]) * sign;
      if (h >= 0) held[h] = v;
      acc.add(v, s);
    });
    acc = all_reduce(p.team, acc, [s](const Exponentials<A>& a, const Exponentials<A>& b) {
      const A top = a.top > b.top ? a.top : b.top;
      return Exponentials<A>{top, a.sum_from(top, s) + b.sum_from(top, s)};
    });
    const A sum = acc.sum + (acc.top - acc.top);  // NaN where the largest is infinite
    const A last = log_kind ? ::log(sum) : A(1) / sum;
    p.for_lane(n, [&](int64_t j, int h) {
      const A z = ((h >= 0 ? held[h] : A(in[first + j * p.inner]) * sign) - acc.top) * s;
      out[first + j * p.inner] = Out(log_kind ? z - last : ::exp(z) * last);
    });
    if (!exists) return;
    for (int64_t j = n + p.team.lane(threadIdx.x); j < p.n; j += p.team.lanes()) out[first + j * p.inner] = Out(0.0f);
  }
};

template <class T>
struct Backward {
  using A = accumulate_t<T>;
  bool log_kind;
  A scale;
  const T *head, *y;
  T* dx;

  __device__ void operator()(const RowPlan& p, int64_t row) const {
    const int64_t n = row < p.rows ? p.n : 0, first = n > 0 ? p.first(row) : 0;
    A heads[RowPlan::held], outputs[RowPlan::held];
    A total = 0;
    p.for_lane(n, [&](int64_t j, int h) {
      const A g = A(head[first + j * p.inner]), v = A(y[first + j * p.inner]);
      if (h >= 0) heads[h] = g, outputs[h] = v;
      total += log_kind ? g : g * v;
    });
    total = all_reduce(p.team, total, [](A a, A b) { return a + b; });
    p.for_lane(n, [&](int64_t j, int h) {
      const int64_t at = first + j * p.inner;
      const A g = h >= 0 ? heads[h] : A(head[at]), v = h >= 0 ? outputs[h] : A(y[at]);
      dx[at] = T(log_kind ? scale * (g - ::exp(v) * total) : scale * v * (g - total));
    });
  }
};

struct Whole {
  NumberArray from;
  int64_t of_nan;
  int64_t* to;
  __device__ void operator()(int64_t i) const { to[i] = from.integer(i, of_nan); }
};

}  // namespace

const int64_t* whole_numbers(const TensorView& from, int64_t of_nan, KernelContext& c) {
  const size_t n = size_t(std::max<int64_t>(1, from.size()));
  int64_t* const to = static_cast<int64_t*>(c.run.workspace(n * sizeof(int64_t)));
  for_each(c, from.size(), Whole{NumberArray(from), of_nan, to});
  return to;
}

void softmax_forward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& in,
                     const TensorView* length, const TensorView& out, KernelContext& c) {
  if (out.size() == 0) return;
  const RowPlan plan(rows.outer, rows.n, rows.inner);
  const int64_t* const counts = length ? whole_numbers(*length, 0, c) : nullptr;
  dispatch_float("softmax", in.dtype, [&]<class In>() {
    dispatch_float("softmax", out.dtype, [&]<class Out>() {
      using F = Forward<In, Out>;
      for_rows(c, plan, F{kind == SoftmaxKind::log, typename F::A(scale), counts, in.as<In>(), out.as<Out>()});
    });
  });
}

void softmax_backward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& head,
                      const TensorView& output, const TensorView& grad, KernelContext& c) {
  if (grad.size() == 0) return;
  const RowPlan plan(rows.outer, rows.n, rows.inner);
  dispatch_float("softmax", grad.dtype, [&]<class T>() {
    for_rows(c, plan,
             Backward<T>{kind == SoftmaxKind::log, accumulate_t<T>(scale), head.as<T>(), output.as<T>(), grad.as<T>()});
  });
}

}  // namespace kaon::cuda
