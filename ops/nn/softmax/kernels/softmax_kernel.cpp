#include "kaon/ops/nn/softmax/kernels/softmax_kernel.h"

#include <algorithm>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/convert_values.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/softmax/kernels/softmax_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

// Columns of an inner block: one item of work when the softmax does not run over the last axis.
#ifndef KAON_SOFTMAX_BLOCK
#define KAON_SOFTMAX_BLOCK 64
#endif

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// Calls f(vector, position, lanes that count) over a contiguous row. Lanes that do not count read `pad`.
template <class T, class F>
HWY_INLINE void for_row(const T* row, int64_t n, accumulate_t<T> pad, F f) {
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(load(d, row + i), i, lanes);
  if (i < n) {
    const auto valid = hn::FirstN(d, size_t(n - i));
    f(hn::IfThenElse(valid, load_n(d, row + i, size_t(n - i)), hn::Set(d, pad)), i, n - i);
  }
}

template <class D, class T>
HWY_INLINE void store_some(D d, hn::Vec<D> v, T* p, int64_t count) {
  if (count == int64_t(hn::Lanes(d))) {
    store(d, v, p);
  } else {
    store_n(d, v, p, size_t(count));
  }
}

// One contiguous row of n elements. A NaN reaches the sum, hence every element, whatever the maximum is. `powers` has
// room for the row, which may be that of the result; log_kind needs none. Differences are scaled, and not the numbers,
// which might overflow.
template <class In, class Out, class A>
void forward_row(bool log_kind, double scale, const In* in, A* powers, Out* out, int64_t n) {
  const Lane<In> d;
  const A lowest = -std::numeric_limits<A>::infinity();
  const auto sign = constant(d, scale < 0 ? -1 : 1), s = constant(d, std::abs(scale));
  // padding stays at -inf whatever the sign of the scale
  const A pad = scale < 0 ? -lowest : lowest;
  auto top = hn::Set(d, lowest);
  for_row(in, n, pad, [&](auto v, int64_t, int64_t) HWY_ATTR { top = hn::Max(hn::Mul(v, sign), top); });
  const auto max = hn::MaxOfLanes(d, top);
  auto sum = hn::Zero(d);
  for_row(in, n, pad, [&](auto v, int64_t i, int64_t count) HWY_ATTR {
    const auto e = exp_below(d, hn::Mul(hn::Sub(hn::Mul(v, sign), max), s));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, size_t(count)), e));
    if (!log_kind) store_some(d, e, powers + i, count);
  });
  const auto total = hn::SumOfLanes(d, sum);
  if (log_kind) {
    const auto shift = log(d, total);
    for_row(in, n, pad, [&](auto v, int64_t i, int64_t count) HWY_ATTR {
      store_some(d, hn::Sub(hn::Mul(hn::Sub(hn::Mul(v, sign), max), s), shift), out + i, count);
    });
    return;
  }
  const auto factor = hn::Div(constant(d, 1), total);
  for_row(powers, n, 0,
          [&](auto e, int64_t i, int64_t count) HWY_ATTR { store_some(d, hn::Mul(e, factor), out + i, count); });
}

// `width` neighbouring columns of one outer index, at most KAON_SOFTMAX_BLOCK; neighbours along n are `stride` apart.
template <class In, class Out>
void forward_columns(bool log_kind, double scale, const In* in, Out* out, int64_t n, int64_t stride, int64_t width) {
  using A = accumulate_t<In>;
  const Lane<In> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto sign = constant(d, scale < 0 ? -1 : 1), s = constant(d, std::abs(scale));
  // Row by row, with what is known of the columns beside: a column by itself would read a line of memory for few
  // numbers.
  HWY_ALIGN A tops[KAON_SOFTMAX_BLOCK + hn::MaxLanes(d)], sums[KAON_SOFTMAX_BLOCK + hn::MaxLanes(d)];
  const auto for_vectors = [&](auto f) HWY_ATTR {
    for (int64_t c = 0; c < width; c += lanes) f(c, std::min(lanes, width - c));
  };
  const auto value = [&](int64_t k, int64_t c, int64_t count) HWY_ATTR {
    const In* p = in + k * stride + c;
    return hn::Mul(count == lanes ? load(d, p) : load_n(d, p, size_t(count)), sign);
  };
  for_vectors([&](int64_t c, int64_t) HWY_ATTR {
    hn::Store(hn::Set(d, -std::numeric_limits<A>::infinity()), d, tops + c);
    hn::Store(hn::Zero(d), d, sums + c);
  });
  for (int64_t k = 0; k < n; ++k) {
    for_vectors([&](int64_t c, int64_t count)
                    HWY_ATTR { hn::Store(hn::Max(value(k, c, count), hn::Load(d, tops + c)), d, tops + c); });
  }
  constexpr bool keeps = std::is_same_v<In, Out> && std::is_same_v<A, Out>;  // exponentials, in the result
  for (int64_t k = 0; k < n; ++k) {
    for_vectors([&](int64_t c, int64_t count) HWY_ATTR {
      const auto e = exp_below(d, hn::Mul(hn::Sub(value(k, c, count), hn::Load(d, tops + c)), s));
      hn::Store(hn::Add(hn::Load(d, sums + c), e), d, sums + c);
      if constexpr (keeps) {
        if (!log_kind) store_some(d, e, out + k * stride + c, count);
      }
    });
  }
  for_vectors([&](int64_t c, int64_t) HWY_ATTR {
    const auto sum = hn::Load(d, sums + c);
    hn::Store(log_kind ? log(d, sum) : hn::Div(constant(d, 1), sum), d, sums + c);
  });
  for (int64_t k = 0; k < n; ++k) {
    for_vectors([&](int64_t c, int64_t count) HWY_ATTR {
      Out* const to = out + k * stride + c;
      const auto last = hn::Load(d, sums + c);
      if constexpr (keeps) {
        if (!log_kind) {
          const auto e = count == lanes ? load(d, to) : load_n(d, to, size_t(count));
          return store_some(d, hn::Mul(e, last), to, count);
        }
      }
      const auto z = hn::Mul(hn::Sub(value(k, c, count), hn::Load(d, tops + c)), s);
      store_some(d, log_kind ? hn::Sub(z, last) : hn::Mul(exp_below(d, z), last), to, count);
    });
  }
}

// The same of columns of which the first length[c] elements count: each goes through a row.
template <class In, class Out>
void forward_short_columns(bool log_kind, double scale, const In* in, const int64_t* length, Out* out, const RowView& r,
                           int64_t width) {
  using A = accumulate_t<In>;
  const Scratch from(size_t(r.n) * sizeof(In)), powers(size_t(r.n) * sizeof(A)), to(size_t(r.n) * sizeof(Out));
  In* const column = from.as<In>();
  Out* const result = to.as<Out>();
  for (int64_t c = 0; c < width; ++c) {
    const int64_t n = std::clamp<int64_t>(length[c], 0, r.n);
    for (int64_t k = 0; k < n; ++k) column[k] = in[k * r.inner + c];
    forward_row(log_kind, scale, column, powers.as<A>(), result, n);
    std::fill(result + n, result + r.n, Out(0.0f));
    for (int64_t k = 0; k < r.n; ++k) out[k * r.inner + c] = result[k];
  }
}

// e^v of logarithms of probabilities, which are 0 or less but for what a caller makes up.
template <class D, class V>
HWY_INLINE V probability(D d, V v) {
  return HWY_LIKELY(hn::AllTrue(d, hn::Le(v, hn::Zero(d)))) ? exp_below(d, v) : exp(d, v);
}

template <class T>
void backward_row(bool log_kind, double scale, const T* head, const T* y, T* dx, int64_t n) {
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto add = [&](auto sum, auto h, auto v)
                       HWY_ATTR { return log_kind ? hn::Add(sum, h) : hn::MulAdd(h, v, sum); };
  auto sum = hn::Zero(d), second = sum, third = sum, fourth = sum;  // each waits for its last addition
  int64_t begin = 0;
  for (; begin + 4 * lanes <= n; begin += 4 * lanes) {
    const T *const h = head + begin, *const v = y + begin;
    sum = add(sum, load(d, h), load(d, v)), second = add(second, load(d, h + lanes), load(d, v + lanes));
    third = add(third, load(d, h + 2 * lanes), load(d, v + 2 * lanes));
    fourth = add(fourth, load(d, h + 3 * lanes), load(d, v + 3 * lanes));
  }
  for_row(head + begin, n - begin, 0, [&](auto h, int64_t i, int64_t count) HWY_ATTR {
    const T* const v = y + begin + i;
    sum = add(sum, h, count == lanes ? load(d, v) : load_n(d, v, size_t(count)));
  });
  sum = hn::Add(hn::Add(sum, second), hn::Add(third, fourth));
  const auto total = hn::SumOfLanes(d, sum);
  const auto s = constant(d, scale);
  map(
      size_t(n), dx,
      [&](auto tag, auto h, auto v) HWY_ATTR {
        return log_kind ? hn::Mul(s, hn::NegMulAdd(probability(tag, v), total, h))
                        : hn::Mul(hn::Mul(s, v), hn::Sub(h, total));
      },
      head, y);
}

template <class T>
void backward_columns(bool log_kind, double scale, const T* head, const T* y, T* dx, int64_t n, int64_t stride,
                      int64_t width) {
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto s = constant(d, scale);
  for (int64_t c = 0; c < width; c += lanes) {
    const int64_t count = std::min(lanes, width - c);
    const auto value = [&](const T* p, int64_t k) HWY_ATTR {
      p += k * stride + c;
      return count == lanes ? load(d, p) : load_n(d, p, size_t(count));
    };
    auto sum = hn::Zero(d);
    for (int64_t k = 0; k < n; ++k) {
      sum = log_kind ? hn::Add(sum, value(head, k)) : hn::MulAdd(value(head, k), value(y, k), sum);
    }
    for (int64_t k = 0; k < n; ++k) {
      const auto h = value(head, k), v = value(y, k);
      const auto g =
          log_kind ? hn::Mul(s, hn::NegMulAdd(probability(d, v), sum, h)) : hn::Mul(hn::Mul(s, v), hn::Sub(h, sum));
      store_some(d, g, dx + k * stride + c, count);
    }
  }
}

// Items [begin, end): rows when inner is 1, else blocks of columns.
template <class F>
void for_columns(const RowView& r, int64_t begin, int64_t end, F f) {
  const int64_t blocks = (r.inner + KAON_SOFTMAX_BLOCK - 1) / KAON_SOFTMAX_BLOCK;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = item % blocks * KAON_SOFTMAX_BLOCK;
    f(item / blocks * r.n * r.inner + first, std::min<int64_t>(KAON_SOFTMAX_BLOCK, r.inner - first));
  }
}

template <class In, class Out>
void forward(bool log_kind, const RowView& r, double scale, const In* in, const int64_t* length, Out* out,
             int64_t begin, int64_t end) {
  if (r.inner != 1) {
    return for_columns(r, begin, end, [&](int64_t at, int64_t width) HWY_ATTR {
      if (length) {
        const int64_t* own = length + at / (r.n * r.inner) * r.inner + at % r.inner;
        return forward_short_columns(log_kind, scale, in + at, own, out + at, r, width);
      }
      forward_columns(log_kind, scale, in + at, out + at, r.n, r.inner, width);
    });
  }
  using A = accumulate_t<In>;
  constexpr bool keeps = std::is_same_v<A, Out>;  // 16-bit results would round the exponentials
  const Scratch scratch(keeps || log_kind ? 0 : size_t(r.n) * sizeof(A));
  for (int64_t row = begin; row < end; ++row) {
    const int64_t n = length ? std::clamp<int64_t>(length[row], 0, r.n) : r.n;
    A* powers = scratch.as<A>();
    if constexpr (keeps) powers = out + row * r.n;
    forward_row(log_kind, scale, in + row * r.n, powers, out + row * r.n, n);
    std::fill(out + row * r.n + n, out + (row + 1) * r.n, Out(0.0f));
  }
}

void SoftmaxForward(bool log_kind, const RowView& r, double scale, DType in_type, const void* in, const int64_t* length,
                    DType out_type, void* out, int64_t begin, int64_t end) {
  dispatch_float("softmax", in_type, [&]<class T>() {
    const T* from = static_cast<const T*>(in);
    if constexpr (sizeof(T) == 2) {
      if (out_type == DType::float32) {
        return forward(log_kind, r, scale, from, length, static_cast<float*>(out), begin, end);
      }
    }
    forward(log_kind, r, scale, from, length, static_cast<T*>(out), begin, end);
  });
}

void SoftmaxBackward(bool log_kind, const RowView& r, double scale, DType type, const void* head, const void* y,
                     void* dx, int64_t begin, int64_t end) {
  dispatch_float("softmax", type, [&]<class T>() {
    const T *h = static_cast<const T*>(head), *v = static_cast<const T*>(y);
    T* g = static_cast<T*>(dx);
    if (r.inner != 1) {
      return for_columns(r, begin, end, [&](int64_t at, int64_t width) HWY_ATTR {
        backward_columns(log_kind, scale, h + at, v + at, g + at, r.n, r.inner, width);
      });
    }
    for (int64_t row = begin; row < end; ++row) {
      backward_row(log_kind, scale, h + row * r.n, v + row * r.n, g + row * r.n, r.n);
    }
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {
HWY_EXPORT(SoftmaxForward);
HWY_EXPORT(SoftmaxBackward);

// Work items of a RowView and how many of them make a piece.
int64_t items(const RowView& r) {
  if (r.n == 0) return 0;
  return r.inner == 1 ? r.outer : r.outer * ((r.inner + KAON_SOFTMAX_BLOCK - 1) / KAON_SOFTMAX_BLOCK);
}
int64_t item_grain(const RowView& r) {
  const int64_t width = r.inner == 1 ? 1 : KAON_SOFTMAX_BLOCK;
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, r.n * width));
}

void convert_all(const TensorView& from, const TensorView& to, RunContext& run) {
  run.parallel_for(from.size(), 1 << 15, [&](int64_t begin, int64_t end) {
    convert_values(from.dtype, from.as<char>() + size_t(begin) * size_of(from.dtype), to.dtype,
                   to.as<char>() + size_t(begin) * size_of(to.dtype), size_t(end - begin));
  });
}
}  // namespace

void softmax_forward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& in,
                     const TensorView* length, const TensorView& out, RunContext& run) {
  const DType computed = is_half(in.dtype) ? DType::float32 : in.dtype;
  if (size_of(out.dtype) > size_of(computed)) {  // of numbers in the result's dtype, in its memory
    convert_all(in, out, run);
    return softmax_forward(kind, rows, scale, out, length, out, run);
  }
  if (out.dtype != in.dtype && out.dtype != computed) {
    const TensorView wide{run.workspace(std::max<size_t>(1, size_t(out.size()) * size_of(computed))), out.shape,
                          computed};
    softmax_forward(kind, rows, scale, in, length, wide, run);
    return convert_all(wide, out, run);
  }
  int64_t* counts = nullptr;
  if (length) {
    counts = static_cast<int64_t*>(run.workspace(sizeof(int64_t) * size_t(std::max<int64_t>(1, length->size()))));
    dispatch_all("softmax", length->dtype, [&]<class T>() {
      for (int64_t i = 0; i < length->size(); ++i) counts[i] = convert<int64_t>(length->as<T>()[i]);
    });
  }
  run.parallel_for(items(rows), item_grain(rows), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SoftmaxForward)
    (kind == SoftmaxKind::log, rows, scale, in.dtype, in.data, counts, out.dtype, out.data, begin, end);
  });
}

void softmax_backward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& head,
                      const TensorView& output, const TensorView& grad, RunContext& run) {
  run.parallel_for(items(rows), item_grain(rows), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SoftmaxBackward)
    (kind == SoftmaxKind::log, rows, scale, grad.dtype, head.data, output.data, grad.data, begin, end);
  });
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
