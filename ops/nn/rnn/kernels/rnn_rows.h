// The cells of recurrent layers on the CPU: one step of one sequence, for units that are neighbours. One table of
// functions per element type for the running processor.
#pragma once

#include <cstdint>
#include <limits>

namespace kaon::ops {

// What bounds c of an lstm. NaN is below every bound with `nan_is_low`, and else stays.
template <class T>
struct CellBounds {
  T low = -std::numeric_limits<T>::infinity(), high = std::numeric_limits<T>::infinity();
  bool are_given = false, nan_is_low = false;
};

// Gate k of unit j is element j + k * stride; the parameter after a pointer is its stride. `saved` may be null.
template <class T>
struct RnnRows {
  // x + sums give the gates; c is updated; h and the saved i, f, g, o, c are written.
  void (*lstm)(int64_t n, const T* x, int64_t x_stride, const T* sums, int64_t sums_stride, const CellBounds<T>& bounds,
               T* c, T* h, T* saved, int64_t saved_stride);
  // h from the state before; bias is added to sums. Saved: r, z, n, and the biased sum of n.
  void (*gru)(int64_t n, const T* x, int64_t x_stride, const T* sums, int64_t sums_stride, const T* bias,
              int64_t bias_stride, const T* before, T* h, T* saved, int64_t saved_stride);
  void (*plain)(int64_t n, bool relu, const T* x, const T* sums, T* h);
  // h of an lstm from what was saved
  void (*lstm_output)(int64_t n, const T* saved, int64_t saved_stride, T* h);
  // From the gradient `head` of h, and of c: the gradients of the gates' inputs. d_c becomes that of c before the step.
  void (*lstm_backward)(int64_t n, const T* saved, int64_t saved_stride, const T* c_before, const T* head,
                        const CellBounds<T>& bounds, T* d_c, T* d_gates, int64_t d_stride);
  // d_sums: of the recurrent sums; d_before: what flows to the state before the step past the gates.
  void (*gru_backward)(int64_t n, const T* saved, int64_t saved_stride, const T* before, const T* head, T* d_gates,
                       T* d_sums, int64_t d_stride, T* d_before);
  void (*plain_backward)(int64_t n, bool relu, const T* h, const T* head, T* d_gates);
};

template <class T>
const RnnRows<T>& rnn_rows();
template <>
const RnnRows<float>& rnn_rows();
template <>
const RnnRows<double>& rnn_rows();

}  // namespace kaon::ops
