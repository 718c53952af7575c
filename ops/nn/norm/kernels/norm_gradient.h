// Gradients of the gradients of BatchNorm and LayerNorm, in operators, so that they have gradients too.
#pragma once

#include "kaon/ops/ndarray.h"
#include "kaon/ops/op.h"

namespace kaon::ops {

// A normalisation y = gamma z + beta with z = (x - mean) scale, and its gradient by a head h:
//   dx = scale (k - A(k) - z A(k z)), k = gamma h      A: the mean over elements that share statistics; 0 if fixed
//   dgamma = S(h z), dbeta = S(h)                      S: the sum over elements that share gamma and beta
// All arrays have one dtype; statistics and gamma have size 1 along the axes that share them.
struct NormBackward {
  NDArray head, x, gamma, mean, scale;  // gamma undefined: 1, and dgamma is 0
  NDArray varies;                       // 1 where mean and scale follow from x, 0 where not; undefined: 1
  Shape statistics_axes, affine_axes;
};
// The gradients of NormBackward's arrays when u, v, w arrive at dx, dgamma, dbeta (undefined: nothing arrives).
struct NormSecond {
  NDArray head, x, gamma, mean, scale;
};
NormSecond second_gradient(const NormBackward& f, const NDArray& u, const NDArray& v, const NDArray& w);

// The gradient of x from the gradients of the statistics.
NDArray through_statistics(const NormBackward& f, const NDArray& d_mean, const NDArray& d_scale);

// All axes of a shape of this many dimensions but one.
Shape axes_but(int ndim, int axis);

}  // namespace kaon::ops
