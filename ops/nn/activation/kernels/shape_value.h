// Values of activations, for both devices. T: float, double.
#pragma once

#include <math.h>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/activation/activation.h"

namespace kaon::ops {

template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::Silu&, T x) {
  return x / (T(1) + T(::exp(-x)));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::Mish&, T x) {
  return x * T(::tanh(x > T(30) ? x : T(::log1p(::exp(x)))));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::LogSigmoid&, T x) {
  return (x > T(0) ? T(0) : x) - T(::log1p(::exp(-::fabs(x))));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::HardSwish&, T x) {
  return x * hard_sigmoid_value<T>(x, T(1.0 / 6), T(0.5));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::TanhShrink&, T x) {
  return x - T(::tanh(x));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::HardShrink& op, T x) {
  const T lambd = T(op.lambd);
  return x <= lambd && x >= -lambd ? T(0) : x;
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::SoftShrink& op, T x) {
  const T lambd = T(op.lambd), away = x > T(0) ? x - lambd : x + lambd;
  return x <= lambd && x >= -lambd ? T(0) : away;
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::Celu& op, T x) {
  const T alpha = T(op.alpha);
  return x > T(0) ? x : alpha * T(::expm1(x / alpha));
}
template <class T>
KAON_HOST_DEVICE inline T shape_value(const op::Threshold& op, T x) {
  return x <= T(op.threshold) ? T(op.value) : x;
}

// a gated by b.
template <class T>
KAON_HOST_DEVICE inline T glu_value(T a, T b) {
  return a * unary_value<UnaryKind::sigmoid, T>(b);
}

}  // namespace kaon::ops
