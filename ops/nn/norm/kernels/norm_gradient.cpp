#include "kaon/ops/nn/norm/kernels/norm_gradient.h"

#include "kaon/ops/functions.h"

namespace kaon::ops {
namespace {

NDArray sum_over(const NDArray& a, const Shape& axes) {
  return axes.empty() ? a : nd.sum(a, {.axis = axes, .keepdims = true});
}
void add_to(NDArray& sum, const NDArray& a) { sum = sum.defined() ? sum + a : a; }

int64_t count_over(const Shape& shape, const Shape& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= shape[int(a)];
  return n;
}

// The mean over the elements that share statistics; 0 if these are fixed.
NDArray mean_over(const NormBackward& f, const NDArray& a) {
  const NDArray mean = sum_over(a, f.statistics_axes) / double(count_over(f.x.shape(), f.statistics_axes));
  return f.varies.defined() ? mean * f.varies : mean;
}

}  // namespace

// With L = sum(u dx) + sum(v dgamma) + sum(w dbeta), once mean and scale are held: the derivative by z is
// q = v h - scale (u A(k z) + k A(u z)), and x, mean and scale reach L through z.
NormSecond second_gradient(const NormBackward& f, const NDArray& u, const NDArray& v, const NDArray& w) {
  const bool by_gamma = v.defined() && f.gamma.defined();
  const NDArray centred = f.x - f.mean;
  const NDArray z = centred * f.scale;
  NormSecond g;
  NDArray q;
  if (u.defined()) {
    const NDArray k = f.gamma.defined() ? f.head * f.gamma : f.head;
    const NDArray u_z = mean_over(f, u * z), k_z = mean_over(f, k * z);
    const NDArray by_k = f.scale * (u - mean_over(f, u) - z * u_z);
    g.head = f.gamma.defined() ? f.gamma * by_k : by_k;
    if (f.gamma.defined()) g.gamma = sum_over(f.head * by_k, f.affine_axes);
    q = -(f.scale * (u * k_z + k * u_z));
    g.scale = sum_over(u * (k - mean_over(f, k) - z * k_z), f.statistics_axes);
  }
  if (by_gamma) {
    add_to(g.head, v * z);
    add_to(q, v * f.head);
  }
  if (w.defined()) add_to(g.head, nd.broadcast_like(w, f.head));
  if (!q.defined()) return g;
  g.x = q * f.scale;
  g.mean = -sum_over(g.x, f.statistics_axes);
  add_to(g.scale, sum_over(q * centred, f.statistics_axes));
  return g;
}

// d mean / dx = 1 / n, d scale / dx = -scale^3 (x - mean) / n.
NDArray through_statistics(const NormBackward& f, const NDArray& d_mean, const NDArray& d_scale) {
  NDArray sum;
  if (d_scale.defined()) add_to(sum, -(d_scale * f.scale * f.scale * f.scale * (f.x - f.mean)));
  if (d_mean.defined()) add_to(sum, nd.broadcast_like(d_mean, f.x));
  sum = sum / double(count_over(f.x.shape(), f.statistics_axes));
  return f.varies.defined() ? sum * f.varies : sum;
}

Shape axes_but(int ndim, int axis) {
  Shape axes;
  for (int i = 0; i < ndim; ++i) {
    if (i != axis) axes.push_back(i);
  }
  return axes;
}

}  // namespace kaon::ops
