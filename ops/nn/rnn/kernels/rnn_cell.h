// The cells of recurrent layers on single numbers, for CUDA. kernels/rnn_rows.cpp has the same formulae on vectors.
#pragma once

#include "kaon/ops/math/scalar_math.h"

namespace kaon::ops {

template <class A>
KAON_HOST_DEVICE A sigmoid_of(A x) {
  return unary_value<UnaryKind::sigmoid>(x);
}
template <class A>
KAON_HOST_DEVICE A tanh_of(A x) {
  return unary_value<UnaryKind::tanh>(x);
}

struct CellClip {
  double low = 0, high = 0;
  bool is_given = false, nan_is_low = false;
};

template <class A>
struct LstmUnit {
  A in, forget, value, out, cell;

  // From the gates' sums and the c before.
  KAON_HOST_DEVICE static LstmUnit step(A i, A f, A g, A o, A before, const CellClip& clip) {
    LstmUnit u{sigmoid_of(i), sigmoid_of(f), tanh_of(g), sigmoid_of(o), A(0)};
    u.cell = u.forget * before + u.in * u.value;
    if (!clip.is_given) return u;
    if (u.cell != u.cell) {
      if (clip.nan_is_low) u.cell = A(clip.low);
    } else {
      u.cell = u.cell < A(clip.low) ? A(clip.low) : u.cell > A(clip.high) ? A(clip.high) : u.cell;
    }
    return u;
  }
  KAON_HOST_DEVICE A output() const { return out * tanh_of(cell); }
  // The gradients of the sums, from that of the output; d_cell becomes that of the c before.
  KAON_HOST_DEVICE void back(A head, A before, const CellClip& clip, A& d_cell, A (&d)[4]) const {
    const A squashed = tanh_of(cell);
    A g = head * out * (A(1) - squashed * squashed) + d_cell;
    if (clip.is_given && (cell <= A(clip.low) || cell >= A(clip.high))) g = A(0);
    d[0] = g * value * in * (A(1) - in);
    d[1] = g * before * forget * (A(1) - forget);
    d[2] = g * in * (A(1) - value * value);
    d[3] = head * squashed * out * (A(1) - out);
    d_cell = g * forget;
  }
};

template <class A>
struct GruUnit {
  A reset, update, value, recurrent;  // recurrent: the biased recurrent sum of the new value

  KAON_HOST_DEVICE static GruUnit step(A xr, A xz, A xn, A hr, A hz, A hn) {
    GruUnit u{sigmoid_of(xr + hr), sigmoid_of(xz + hz), A(0), hn};
    u.value = tanh_of(xn + u.reset * hn);
    return u;
  }
  KAON_HOST_DEVICE A output(A before) const { return value + update * (before - value); }
  // The gradients of the gates' sums, of the recurrent sum of the new value, and of the state past the gates.
  KAON_HOST_DEVICE void back(A head, A before, A (&d)[3], A& d_recurrent, A& d_before) const {
    d[2] = head * (A(1) - update) * (A(1) - value * value);
    d[1] = head * (before - value) * update * (A(1) - update);
    d[0] = d[2] * recurrent * reset * (A(1) - reset);
    d_recurrent = d[2] * reset;
    d_before = head * update;
  }
};

template <class A>
KAON_HOST_DEVICE A plain_unit(bool relu, A sum) {
  return relu ? (sum < A(0) ? A(0) : sum) : tanh_of(sum);
}
template <class A>
KAON_HOST_DEVICE A plain_unit_back(bool relu, A y, A head) {
  return relu ? (y > A(0) ? head : A(0)) : head * (A(1) - y * y);
}

}  // namespace kaon::ops
