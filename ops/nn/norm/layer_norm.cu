#include "kaon/ops/nn/norm/norm.h"

#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/reduce/kernels/rows.cuh"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct Add {
  __device__ T operator()(T a, T b) const { return a + b; }
};

template <class T>
struct Forward {
  using A = accumulate_t<T>;
  double eps;
  bool per_row;  // gamma and beta
  const T *x, *gamma, *beta;
  T* y;
  A *mean, *std;  // each may be null

  __device__ void operator()(const cuda::RowPlan& p, int64_t row) const {
    const bool exists = row < p.rows;
    const int64_t n = exists ? p.n : 0, first = exists ? p.first(row) : 0;
    A held[cuda::RowPlan::held];
    A sum = 0, squares = 0;
    p.for_lane(n, [&](int64_t j, int h) {
      const A v = A(x[first + j * p.inner]);
      if (h >= 0) held[h] = v;
      sum += v;
    });
    const auto value = [&](int64_t j, int h) { return h >= 0 ? held[h] : A(x[first + j * p.inner]); };
    const A center = cuda::all_reduce(p.team, sum, Add<A>()) / A(p.n);
    p.for_lane(n, [&](int64_t j, int h) {
      const A v = value(j, h) - center;
      squares += v * v;
    });
    const A deviation = row_deviation(cuda::all_reduce(p.team, squares, Add<A>()), p.n, eps);
    const A inverse = A(1) / deviation;
    p.for_lane(n, [&](int64_t j, int h) {
      const int64_t k = per_row ? row : j;
      y[first + j * p.inner] = T((value(j, h) - center) * inverse * A(gamma[k]) + A(beta[k]));
    });
    if (!exists || p.team.lane(threadIdx.x) != 0) return;
    if (mean) mean[row] = center;
    if (std) std[row] = deviation;
  }
};

template <class A>
struct TwoSums {
  A first, second;
};
template <class A>
struct AddTwo {
  __device__ TwoSums<A> operator()(const TwoSums<A>& a, const TwoSums<A>& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

template <class T>
struct DataGradient {
  using A = accumulate_t<T>;
  bool per_row;  // gamma
  const T *head, *x, *gamma;
  const A *mean, *std;
  T* dx;

  __device__ void operator()(const cuda::RowPlan& p, int64_t row) const {
    const bool exists = row < p.rows;
    const int64_t n = exists ? p.n : 0, first = exists ? p.first(row) : 0;
    const A center = exists ? mean[row] : A(0), inverse = A(1) / (exists ? std[row] : A(1));
    A slopes[cuda::RowPlan::held], normals[cuda::RowPlan::held];
    TwoSums<A> sums{0, 0};
    const auto slope_at = [&](int64_t j) { return A(head[first + j * p.inner]) * A(gamma[per_row ? row : j]); };
    const auto normal_at = [&](int64_t j) { return (A(x[first + j * p.inner]) - center) * inverse; };
    p.for_lane(n, [&](int64_t j, int h) {
      const A slope = slope_at(j), normal = normal_at(j);
      if (h >= 0) slopes[h] = slope, normals[h] = normal;
      sums.first += slope;
      sums.second += slope * normal;
    });
    sums = cuda::all_reduce(p.team, sums, AddTwo<A>());
    const A mean1 = sums.first / A(p.n), mean2 = sums.second / A(p.n);
    p.for_lane(n, [&](int64_t j, int h) {
      const A slope = h >= 0 ? slopes[h] : slope_at(j), normal = h >= 0 ? normals[h] : normal_at(j);
      dx[first + j * p.inner] = T((slope - mean1 - normal * mean2) * inverse);
    });
  }
};

// The gradients of gamma and beta: sums over the rows, or over each row.
template <class T>
struct AffineGradient {
  using A = accumulate_t<T>;
  using Acc = TwoSums<A>;
  using Fold = AffineGradient;
  bool per_row;
  const T *head, *x;
  const A *mean, *std;
  T *dgamma, *dbeta;  // each may be null

  __device__ Acc identity() const { return {0, 0}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const { return AddTwo<A>()(a, b); }
  __device__ Acc add(const Acc& acc, int64_t at, int64_t k, int64_t j) const {
    const int64_t row = per_row ? k : j;
    const A h = A(head[at]);
    return {acc.first + h * (A(x[at]) - mean[row]) / std[row], acc.second + h};
  }
  __device__ void store(int64_t k, const Acc& acc) const {
    if (dgamma) dgamma[k] = T(acc.first);
    if (dbeta) dbeta[k] = T(acc.second);
  }
};

// The axis in the middle.
struct AxisView {
  int64_t outer, n, inner;
  AxisView(const Shape& s, int axis) {
    const int at = normalize_axis(axis, s.ndim(), "LayerNorm");
    outer = s.product(0, at), n = s[at], inner = s.product(at + 1, s.ndim());
  }
  cuda::RowPlan rows() const { return {outer, n, inner}; }
};

}  // namespace

void run_cuda(const op::LayerNorm& op, KernelContext& c) {
  const AxisView v(c.in(0).shape, op.axis);
  dispatch_float("LayerNorm", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    cuda::for_rows(c, v.rows(),
                   Forward<T>{op.eps, c.in(1).shape.ndim() > 1, c.in(0).as<T>(), c.in(1).as<T>(), c.in(2).as<T>(),
                              c.out(0).as<T>(), c.out(1).as<A>(), c.out(2).as<A>()});
  });
}

void run_cuda(const op::BackwardLayerNorm& op, KernelContext& c) {
  const AxisView v(c.in(1).shape, op.axis);
  dispatch_float("_backward_LayerNorm", c.in(1).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const bool per_row = c.in(2).shape.ndim() > 1;
    const T *head = c.in(0).as<T>(), *x = c.in(1).as<T>();
    const A *mean = c.in(3).as<A>(), *std = c.in(4).as<A>();
    if (c.out(1).data || c.out(2).data) {
      const ReduceDim dims[] = {{v.outer, !per_row}, {v.n, per_row}, {v.inner, !per_row}};
      cuda::reduce(c, AffineGradient<T>{per_row, head, x, mean, std, c.out(1).as<T>(), c.out(2).as<T>()}, dims);
    }
    if (c.out(0).data && c.out(0).size() > 0) {
      cuda::for_rows(c, v.rows(), DataGradient<T>{per_row, head, x, c.in(2).as<T>(), mean, std, c.out(0).as<T>()});
    }
  });
}

}  // namespace kaon
