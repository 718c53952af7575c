// The likelihood of a sequence of events under Hawkes' process, for both devices: one thread walks along a sequence.
#pragma once

#include <cmath>
#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// The arrays of a call: k kinds of events, at most t events.
template <class T>
struct HawkesCall {
  int64_t k, t;
  const T *lda, *alpha, *beta, *state, *lags;
  const int32_t* marks;
  const T *valid_length, *max_time;
};

// Walks along sequence i. Of each kind it keeps in `sums` the decayed sum of its events, in `times` the time of the
// last one, and in `slopes`, if given, the derivative of the sum by beta. visit(kind, interval, sum, slope, decay,
// is_event) is called for each stretch between events of a kind: at an event before it counts, and at max_time. False:
// a mark is no kind.
template <class T, class Visit>
KAON_HOST_DEVICE inline bool walk_events(const HawkesCall<T>& c, int64_t i, T* sums, T* times, T* slopes,
                                         const Visit& visit) {
  for (int64_t m = 0; m < c.k; ++m) {
    sums[m] = c.state[i * c.k + m], times[m] = T(0);
    if (slopes) slopes[m] = T(0);
  }
  const auto pass = [&](int64_t m, T until, bool is_event) {
    const T interval = until - times[m], decay = T(::exp(-c.beta[m] * interval));
    visit(m, interval, sums[m], slopes ? slopes[m] : T(0), decay, is_event);
    if (slopes) slopes[m] = decay * (slopes[m] - interval * sums[m]);
    sums[m] = sums[m] * decay + T(is_event ? 1 : 0);
    times[m] = until;
  };
  const T length = c.valid_length[i];
  T time = 0;
  for (int64_t j = 0; j < c.t && T(j) < length; ++j) {
    const int64_t m = c.marks[i * c.t + j];
    if (m < 0 || m >= c.k) return false;
    time += c.lags[i * c.t + j];
    pass(m, time, true);
  }
  for (int64_t m = 0; m < c.k; ++m) pass(m, c.max_time[i], false);
  return true;
}

template <class T>
struct HawkesForward {
  HawkesCall<T> call;
  T *likelihood, *sums, *times;  // sums is the output `state`
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const HawkesCall<T>& c = call;
    T* const own = sums + i * c.k;
    T total = 0;
    const bool is_valid = walk_events<T>(c, i, own, times + i * c.k, nullptr,
                                         [&](int64_t m, T interval, T sum, T, T decay, bool is_event) {
                                           const T rate = c.lda[i * c.k + m], a = c.alpha[m];
                                           if (is_event) total += T(::log(rate + a * c.beta[m] * sum * decay));
                                           total -= rate * interval + a * sum * (T(1) - decay);
                                         });
    likelihood[i] = is_valid ? total : T(NAN);
    for (int64_t m = 0; !is_valid && m < c.k; ++m) own[m] = T(NAN);
  }
};

template <class T>
struct HawkesBackward {
  HawkesCall<T> call;
  T *lda, *alpha, *beta, *sums, *times, *slopes;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const HawkesCall<T>& c = call;
    const int64_t first = i * c.k;
    for (int64_t m = first; m < first + c.k; ++m) lda[m] = alpha[m] = beta[m] = T(0);
    const bool is_valid = walk_events<T>(c, i, sums + first, times + first, slopes + first,
                                         [&](int64_t m, T interval, T sum, T slope, T decay, bool is_event) {
                                           const T a = c.alpha[m], b = c.beta[m],
                                                   by_beta = decay * (slope - interval * sum);
                                           if (is_event) {  // the logarithm of the rate
                                             const T rate = c.lda[first + m] + a * b * sum * decay;
                                             lda[first + m] += T(1) / rate;
                                             alpha[first + m] += b * sum * decay / rate;
                                             beta[first + m] += a * (sum * decay + b * by_beta) / rate;
                                           }
                                           lda[first + m] -= interval;
                                           alpha[first + m] -= sum * (T(1) - decay);
                                           beta[first + m] -= a * (slope - by_beta);
                                         });
    for (int64_t m = first; !is_valid && m < first + c.k; ++m) lda[m] = alpha[m] = beta[m] = T(NAN);
  }
};

// The arrays of views in the order of the operator's inputs.
template <class T, class Context>
HawkesCall<T> hawkes_call(const Context& c) {
  return {c.in(0).shape[1],         c.in(4).shape[1],         c.in(0).template as<T>(), c.in(1).template as<T>(),
          c.in(2).template as<T>(), c.in(3).template as<T>(), c.in(4).template as<T>(), c.in(5).template as<int32_t>(),
          c.in(6).template as<T>(), c.in(7).template as<T>()};
}

}  // namespace kaon::ops
