// The sums over the paths of CTC, for both devices. All probabilities are logarithms.
#pragma once

#include <math.h>

#include "kaon/ops/nn/rnn/kernels/rnn_sizes.h"

namespace kaon::ops {

constexpr double ctc_never = -std::numeric_limits<double>::infinity();  // the logarithm of 0

// log(e^a + e^b + e^c). NaN goes through.
KAON_HOST_DEVICE inline double log_sum(double a, double b, double c = ctc_never) {
  double most = a > b ? a : b;
  if (c > most) most = c;
  if (most == ctc_never) return a + b + c;
  const auto part = [&](double x) { return x == most ? 1.0 : x == ctc_never ? 0.0 : ::exp(x - most); };
  return most + ::log(part(a) + part(b) + part(c));
}

// One sequence: its labels with a blank before, between and after them are places 0 to 2 L. A path is at one place in
// each step; from a step to the next it stays, moves to the next place, or skips a blank between different labels.
template <class T>
struct CtcPaths {
  const T* log_probs;  // of this sequence: class k of step t at [t * stride + k]
  int64_t stride, classes, blank;
  int64_t steps, places;
  const int64_t* labels;  // the class of place 2 i + 1 is labels[i]

  KAON_HOST_DEVICE int64_t class_of(int64_t place) const { return place % 2 == 0 ? blank : labels[place / 2]; }
  KAON_HOST_DEVICE double at(int64_t t, int64_t place) const {
    const int64_t k = class_of(place);
    return k < 0 || k >= classes ? ctc_never : double(log_probs[t * stride + k]);
  }
  // Whether a path may go to this place from the one two before.
  KAON_HOST_DEVICE bool may_skip(int64_t place) const {
    return place % 2 == 1 && place > 1 && labels[place / 2] != labels[place / 2 - 1];
  }
  // Of all ways to `place` in step t, with the class of that step, from those in the step before.
  KAON_HOST_DEVICE double forward(int64_t t, int64_t place, const double* before) const {
    if (t == 0) return place < 2 ? at(0, place) : ctc_never;
    const double sum = log_sum(before[place], place > 0 ? before[place - 1] : ctc_never,
                               may_skip(place) ? before[place - 2] : ctc_never);
    return sum + at(t, place);
  }
  // Of all ways from `place` in step t to the end, without the class of that step, from those of the step after.
  KAON_HOST_DEVICE double backward(int64_t t, int64_t place, const double* after) const {
    if (t == steps - 1) return place + 2 >= places ? 0.0 : ctc_never;
    const auto from = [&](int64_t next) { return after[next] + at(t + 1, next); };
    return log_sum(from(place), place + 1 < places ? from(place + 1) : ctc_never,
                   place + 2 < places && may_skip(place + 2) ? from(place + 2) : ctc_never);
  }
  // Of all paths, from forward() of the last step.
  KAON_HOST_DEVICE double total(const double* last) const {
    return places > 1 ? log_sum(last[places - 1], last[places - 2]) : last[0];
  }
  // Whether any path fits: a blank is needed between equal labels.
  KAON_HOST_DEVICE bool fits() const {
    int64_t needed = places / 2;
    for (int64_t i = 1; i < places / 2; ++i) needed += labels[i] == labels[i - 1];
    return steps > 0 && needed <= steps;
  }
};

// The labels of a row of L numbers, and their number: until the first that is `padding`, or `given` of them unless -1.
template <class L>
KAON_HOST_DEVICE int64_t read_labels(const L* row, int64_t most, int64_t padding, int64_t given, int64_t* labels) {
  int64_t n = 0;
  for (; n < most; ++n) {
    labels[n] = to_index(row[n]);
    if (given < 0 ? labels[n] == padding : n >= given) break;
  }
  return n;
}

}  // namespace kaon::ops
