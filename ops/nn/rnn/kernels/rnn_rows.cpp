#include "kaon/ops/nn/rnn/kernels/rnn_rows.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/rnn/kernels/rnn_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// Calls f(position, read, write) for each vector of n elements: read(pointer) and write(value, pointer) move as many
// elements as there are left.
template <class T, class F>
HWY_INLINE void for_units(int64_t n, F f) {
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    f(
        i, [&](const T* p) HWY_ATTR { return load(d, p); }, [&](hn::Vec<Lane<T>> v, T* p) HWY_ATTR { store(d, v, p); });
  }
  if (i == n) return;
  const size_t rest = size_t(n - i);
  f(
      i, [&](const T* p) HWY_ATTR { return load_n(d, p, rest); },
      [&](hn::Vec<Lane<T>> v, T* p) HWY_ATTR { store_n(d, v, p, rest); });
}

template <class T>
void LstmRow(int64_t n, const T* x, int64_t xs, const T* sums, int64_t ss, const CellBounds<T>& bounds, T* c, T* h,
             T* saved, int64_t saved_stride) {
  const Lane<T> d;
  const auto low = hn::Set(d, bounds.low), high = hn::Set(d, bounds.high);
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto sum = [&](int64_t k) HWY_ATTR { return hn::Add(read(x + j + k * xs), read(sums + j + k * ss)); };
    const auto in = sigmoid(d, sum(0)), forget = sigmoid(d, sum(1)), value = tanh(d, sum(2)), out = sigmoid(d, sum(3));
    auto cell = hn::MulAdd(forget, read(c + j), hn::Mul(in, value));
    if (bounds.are_given) {
      const auto inside = hn::Min(hn::Max(cell, low), high);
      const auto is_nan = hn::IsNaN(cell);
      cell = hn::IfThenElse(is_nan, bounds.nan_is_low ? low : cell, inside);
    }
    write(cell, c + j);
    write(hn::Mul(out, tanh(d, cell)), h + j);
    if (!saved) return;
    T* const to = saved + j;
    write(in, to), write(forget, to + saved_stride), write(value, to + 2 * saved_stride);
    write(out, to + 3 * saved_stride), write(cell, to + 4 * saved_stride);
  });
}

template <class T>
void GruRow(int64_t n, const T* x, int64_t xs, const T* sums, int64_t ss, const T* bias, int64_t bs, const T* before,
            T* h, T* saved, int64_t saved_stride) {
  const Lane<T> d;
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto sum = [&](int64_t k) HWY_ATTR { return hn::Add(read(sums + j + k * ss), read(bias + j + k * bs)); };
    const auto reset = sigmoid(d, hn::Add(read(x + j), sum(0)));
    const auto update = sigmoid(d, hn::Add(read(x + j + xs), sum(1)));
    const auto recurrent = sum(2);
    const auto value = tanh(d, hn::MulAdd(reset, recurrent, read(x + j + 2 * xs)));
    // (1 - z) n + z h
    write(hn::MulAdd(update, hn::Sub(read(before + j), value), value), h + j);
    if (!saved) return;
    T* const to = saved + j;
    write(reset, to), write(update, to + saved_stride), write(value, to + 2 * saved_stride);
    write(recurrent, to + 3 * saved_stride);
  });
}

template <class T>
void PlainRow(int64_t n, bool relu, const T* x, const T* sums, T* h) {
  const Lane<T> d;
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto sum = hn::Add(read(x + j), read(sums + j));
    // not Max, which may lose a NaN
    write(relu ? hn::IfThenElse(hn::Lt(sum, hn::Zero(d)), hn::Zero(d), sum) : tanh(d, sum), h + j);
  });
}

template <class T>
void LstmOutput(int64_t n, const T* saved, int64_t saved_stride, T* h) {
  const Lane<T> d;
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    write(hn::Mul(read(saved + j + 3 * saved_stride), tanh(d, read(saved + j + 4 * saved_stride))), h + j);
  });
}

template <class T>
void LstmRowBackward(int64_t n, const T* saved, int64_t ss, const T* c_before, const T* head,
                     const CellBounds<T>& bounds, T* d_c, T* d_gates, int64_t ds) {
  const Lane<T> d;
  const auto one = constant(d, 1);
  const auto low = hn::Set(d, bounds.low), high = hn::Set(d, bounds.high);
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto in = read(saved + j), forget = read(saved + j + ss), value = read(saved + j + 2 * ss);
    const auto out = read(saved + j + 3 * ss), cell = read(saved + j + 4 * ss);
    const auto squashed = tanh(d, cell), g = read(head + j);
    auto g_cell = hn::MulAdd(hn::Mul(g, out), hn::NegMulAdd(squashed, squashed, one), read(d_c + j));
    if (bounds.are_given) {
      g_cell = hn::IfThenZeroElse(hn::Or(hn::Le(cell, low), hn::Ge(cell, high)), g_cell);
    }
    const auto slope = [&](auto y) HWY_ATTR { return hn::Mul(y, hn::Sub(one, y)); };
    T* const to = d_gates + j;
    write(hn::Mul(hn::Mul(g_cell, value), slope(in)), to);
    write(hn::Mul(hn::Mul(g_cell, read(c_before + j)), slope(forget)), to + ds);
    write(hn::Mul(hn::Mul(g_cell, in), hn::NegMulAdd(value, value, one)), to + 2 * ds);
    write(hn::Mul(hn::Mul(g, squashed), slope(out)), to + 3 * ds);
    write(hn::Mul(g_cell, forget), d_c + j);
  });
}

template <class T>
void GruRowBackward(int64_t n, const T* saved, int64_t ss, const T* before, const T* head, T* d_gates, T* d_sums,
                    int64_t ds, T* d_before) {
  const Lane<T> d;
  const auto one = constant(d, 1);
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto reset = read(saved + j), update = read(saved + j + ss), value = read(saved + j + 2 * ss);
    const auto recurrent = read(saved + j + 3 * ss), g = read(head + j);
    const auto slope = [&](auto y) HWY_ATTR { return hn::Mul(y, hn::Sub(one, y)); };
    const auto g_value = hn::Mul(hn::Mul(g, hn::Sub(one, update)), hn::NegMulAdd(value, value, one));
    const auto g_update = hn::Mul(hn::Mul(g, hn::Sub(read(before + j), value)), slope(update));
    const auto g_reset = hn::Mul(hn::Mul(g_value, recurrent), slope(reset));
    write(g_reset, d_gates + j), write(g_update, d_gates + j + ds), write(g_value, d_gates + j + 2 * ds);
    write(g_reset, d_sums + j), write(g_update, d_sums + j + ds);
    write(hn::Mul(g_value, reset), d_sums + j + 2 * ds);
    write(hn::Mul(g, update), d_before + j);
  });
}

template <class T>
void PlainRowBackward(int64_t n, bool relu, const T* h, const T* head, T* d_gates) {
  const Lane<T> d;
  for_units<T>(n, [&](int64_t j, auto read, auto write) HWY_ATTR {
    const auto y = read(h + j), g = read(head + j);
    write(relu ? hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), g) : hn::Mul(g, hn::NegMulAdd(y, y, constant(d, 1))),
          d_gates + j);
  });
}

template <class T>
constexpr RnnRows<T> rows{LstmRow<T>,         GruRow<T>,         PlainRow<T>,        LstmOutput<T>,
                          LstmRowBackward<T>, GruRowBackward<T>, PlainRowBackward<T>};

}  // namespace

const RnnRows<float>* RowsFloat() { return &rows<float>; }
const RnnRows<double>* RowsDouble() { return &rows<double>; }

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {
HWY_EXPORT(RowsFloat);
HWY_EXPORT(RowsDouble);
}  // namespace

template <>
const RnnRows<float>& rnn_rows<float>() {
  return *HWY_DYNAMIC_DISPATCH(RowsFloat)();
}
template <>
const RnnRows<double>& rnn_rows<double>() {
  return *HWY_DYNAMIC_DISPATCH(RowsDouble)();
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
