#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/reduce/kernels/reduce_kernels.cpp"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
#include "kaon/ops/reduce/kernels/reduce_kernels.h"

#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements as accumulators: Lanes(d) of them from p.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as(D d, const T* p) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double> && !std::is_same_v<T, double>) {
    return hn::PromoteTo(d, load(hn::Rebind<float, D>(), p));
  } else {
    return load(d, p);
  }
}

template <Combine C, class D, class V>
HWY_INLINE V add_in(D d, V acc, V x) {
  if constexpr (C == Combine::sum) {
    return hn::Add(acc, x);
  } else if constexpr (C == Combine::prod) {
    return hn::Mul(acc, x);
  } else if constexpr (C == Combine::max) {
    return hn::IfThenElse(hn::Or(hn::Gt(x, acc), hn::IsNaN(x)), x, acc);
  } else if constexpr (C == Combine::min) {
    return hn::IfThenElse(hn::Or(hn::Lt(x, acc), hn::IsNaN(x)), x, acc);
  } else if constexpr (C == Combine::nan_sum) {
    return hn::Add(acc, hn::IfThenZeroElse(hn::IsNaN(x), x));
  } else if constexpr (C == Combine::nan_prod) {
    return hn::Mul(acc, hn::IfThenElse(hn::IsNaN(x), hn::Set(d, hn::TFromD<D>(1)), x));
  } else if constexpr (C == Combine::sum_abs) {
    return hn::Add(acc, hn::Abs(x));
  } else {
    return hn::MulAdd(x, x, acc);
  }
}

// Two accumulators into one.
template <Combine C, class D, class V>
HWY_INLINE V merge_in(D d, V a, V b) {
  if constexpr (C == Combine::max || C == Combine::min) {
    return add_in<C>(d, a, b);
  } else if constexpr (C == Combine::prod || C == Combine::nan_prod) {
    return hn::Mul(a, b);
  } else {
    return hn::Add(a, b);
  }
}

// The same where neither is a NaN, in fewer instructions; a NaN in acc stays on x86, whose instructions return the
// second operand then, and of equal numbers too.
template <Combine C, class V>
HWY_INLINE V add_number(V acc, V x) {
  if constexpr (C == Combine::max) {
    return hn::Max(x, acc);
  } else {
    return hn::Min(x, acc);
  }
}
// False where one of them is a NaN; also for infinities of both signs, whose sum is one.
template <class D, class V>
HWY_INLINE bool are_numbers(D d, V a, V b, V c, V e) {
  return hn::AllFalse(d, hn::IsNaN(hn::Add(hn::Add(a, b), hn::Add(c, e))));
}
// Whether add_number does as add_in for accumulators that hold anything.
template <Combine C>
constexpr bool has_add_number = HWY_ARCH_X86 && (C == Combine::max || C == Combine::min);

// Four vectors into four accumulators.
template <Combine C, class D, class V>
HWY_INLINE void add_four(D d, V x0, V x1, V x2, V x3, V& a0, V& a1, V& a2, V& a3) {
  if constexpr (has_add_number<C>) {
    if (HWY_LIKELY(are_numbers(d, x0, x1, x2, x3))) {
      a0 = add_number<C>(a0, x0), a1 = add_number<C>(a1, x1);
      a2 = add_number<C>(a2, x2), a3 = add_number<C>(a3, x3);
      return;
    }
  }
  a0 = add_in<C>(d, a0, x0), a1 = add_in<C>(d, a1, x1);
  a2 = add_in<C>(d, a2, x2), a3 = add_in<C>(d, a3, x3);
}

template <class T, class Acc, Combine C>
void float_runs(const void* data, size_t n, size_t count, size_t stride, void* out) {
  const hn::ScalableTag<Acc> d;
  const hn::CappedTag<Acc, 1> d1;
  const size_t lanes = hn::Lanes(d);
  const auto identity = hn::Set(d, identity_of<Acc>(C));
  for (size_t i = 0; i < count; ++i) {
    const T* p = static_cast<const T*>(data) + i * stride;
    size_t k = 0;
    Acc total = identity_of<Acc>(C);
    if (n >= lanes) {
      auto a0 = identity, a1 = identity, a2 = identity, a3 = identity;
      for (; k + 4 * lanes <= n; k += 4 * lanes) {
        const auto x0 = load_as(d, p + k), x1 = load_as(d, p + k + lanes), x2 = load_as(d, p + k + 2 * lanes),
                   x3 = load_as(d, p + k + 3 * lanes);
        add_four<C>(d, x0, x1, x2, x3, a0, a1, a2, a3);
      }
      for (; k + lanes <= n; k += lanes) a0 = add_in<C>(d, a0, load_as(d, p + k));
      if (C == Combine::max || C == Combine::min) {  // which may see an element twice
        if (k < n) a1 = add_in<C>(d, a1, load_as(d, p + n - lanes));
        k = n;
      }
      HWY_ALIGN Acc lane[HWY_MAX_BYTES / sizeof(Acc)];
      hn::Store(merge_in<C>(d, merge_in<C>(d, a0, a1), merge_in<C>(d, a2, a3)), d, lane);
      for (size_t half = lanes / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; ++j) lane[j] = merge(C, lane[j], lane[j + half]);
      }
      total = lane[0];
    }
    if (k < n) {
      auto tail = hn::Set(d1, identity_of<Acc>(C));
      for (; k < n; ++k) tail = add_in<C>(d1, tail, load_as(d1, p + k));
      total = merge(C, total, hn::GetLane(tail));
    }
    static_cast<Acc*>(out)[i] = total;
  }
}

template <class T, class Acc, Combine C>
void float_rows(const void* data, size_t width, size_t rows, size_t stride, void* out) {
  const hn::ScalableTag<Acc> d;
  const hn::CappedTag<Acc, 1> d1;
  const size_t lanes = hn::Lanes(d);
  const T* base = static_cast<const T*>(data);
  Acc* acc = static_cast<Acc*>(out);
  const auto identity = hn::Set(d, identity_of<Acc>(C));
  size_t j = 0;
  const auto keep = [&](auto a0, auto a1, auto a2, auto a3, Acc* to) HWY_ATTR {
    hn::StoreU(merge_in<C>(d, hn::LoadU(d, to), a0), d, to);
    hn::StoreU(merge_in<C>(d, hn::LoadU(d, to + lanes), a1), d, to + lanes);
    hn::StoreU(merge_in<C>(d, hn::LoadU(d, to + 2 * lanes), a2), d, to + 2 * lanes);
    hn::StoreU(merge_in<C>(d, hn::LoadU(d, to + 3 * lanes), a3), d, to + 3 * lanes);
  };
  // Longer pieces of each row are fetched ahead.
  for (; j + 8 * lanes <= width; j += 8 * lanes) {
    auto a0 = identity, a1 = identity, a2 = identity, a3 = identity;
    auto b0 = identity, b1 = identity, b2 = identity, b3 = identity;
    const T* p = base + j;
    for (size_t r = 0; r < rows; ++r, p += stride) {
      const T* const q = p + 4 * lanes;
      add_four<C>(d, load_as(d, p), load_as(d, p + lanes), load_as(d, p + 2 * lanes), load_as(d, p + 3 * lanes), a0, a1,
                  a2, a3);
      add_four<C>(d, load_as(d, q), load_as(d, q + lanes), load_as(d, q + 2 * lanes), load_as(d, q + 3 * lanes), b0, b1,
                  b2, b3);
    }
    keep(a0, a1, a2, a3, acc + j);
    keep(b0, b1, b2, b3, acc + j + 4 * lanes);
  }
  for (; j + 4 * lanes <= width; j += 4 * lanes) {
    auto a0 = identity, a1 = identity, a2 = identity, a3 = identity;
    const T* p = base + j;
    for (size_t r = 0; r < rows; ++r, p += stride) {
      add_four<C>(d, load_as(d, p), load_as(d, p + lanes), load_as(d, p + 2 * lanes), load_as(d, p + 3 * lanes), a0, a1,
                  a2, a3);
    }
    keep(a0, a1, a2, a3, acc + j);
  }
  auto columns = [&](auto tag) {
    auto a = hn::Set(tag, identity_of<Acc>(C));
    const T* p = base + j;
    for (size_t r = 0; r < rows; ++r, p += stride) a = add_in<C>(tag, a, load_as(tag, p));
    hn::StoreU(merge_in<C>(tag, hn::LoadU(tag, acc + j), a), tag, acc + j);
  };
  for (; j + lanes <= width; j += lanes) columns(d);
  for (; j < width; ++j) columns(d1);
}

template <class T, class Acc, Combine C>
RunKernels make() {
  return {std::is_same_v<Acc, float> ? AccType::f32 : AccType::f64, float_runs<T, Acc, C>, float_rows<T, Acc, C>};
}

template <class T>
RunKernels for_type(Combine combine) {
  using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
  switch (combine) {
    case Combine::sum: return make<T, Acc, Combine::sum>();
    case Combine::prod: return make<T, Acc, Combine::prod>();
    case Combine::max: return make<T, Acc, Combine::max>();
    case Combine::min: return make<T, Acc, Combine::min>();
    case Combine::nan_sum: return make<T, Acc, Combine::nan_sum>();
    case Combine::nan_prod: return make<T, Acc, Combine::nan_prod>();
    case Combine::sum_abs: return make<T, double, Combine::sum_abs>();
    case Combine::sum_squares: return make<T, double, Combine::sum_squares>();  // squares of float32 overflow float32
  }
  return {};
}

RunKernels float_kernels(DType dtype, Combine combine) {
  switch (dtype) {
    case DType::float64: return for_type<double>(combine);
    case DType::float16: return for_type<float16>(combine);
    case DType::bfloat16: return for_type<bfloat16>(combine);
    default: return for_type<float>(combine);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {

HWY_EXPORT(float_kernels);

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;

template <class T, Combine C>
void integer_runs(const void* data, size_t n, size_t count, size_t stride, void* out) {
  for (size_t i = 0; i < count; ++i) {
    const T* p = static_cast<const T*>(data) + i * stride;
    Wide<T> acc = identity_of<Wide<T>>(C);
    for (size_t k = 0; k < n; ++k) acc = merge(C, acc, Wide<T>(p[k]));
    static_cast<Wide<T>*>(out)[i] = acc;
  }
}

template <class T, Combine C>
void integer_rows(const void* data, size_t width, size_t rows, size_t stride, void* out) {
  Wide<T>* acc = static_cast<Wide<T>*>(out);
  for (size_t r = 0; r < rows; ++r) {
    const T* p = static_cast<const T*>(data) + r * stride;
    for (size_t j = 0; j < width; ++j) acc[j] = merge(C, acc[j], Wide<T>(p[j]));
  }
}

template <class T>
RunKernels integer_kernels(Combine combine) {
  constexpr AccType acc = std::is_same_v<T, uint64_t> ? AccType::u64 : AccType::i64;
  switch (combine) {
    case Combine::max: return {acc, integer_runs<T, Combine::max>, integer_rows<T, Combine::max>};
    case Combine::min: return {acc, integer_runs<T, Combine::min>, integer_rows<T, Combine::min>};
    case Combine::prod:
    case Combine::nan_prod: return {acc, integer_runs<T, Combine::prod>, integer_rows<T, Combine::prod>};
    default: return {acc, integer_runs<T, Combine::sum>, integer_rows<T, Combine::sum>};
  }
}

}  // namespace

RunKernels run_kernels(DType dtype, Combine combine) {
  switch (dtype) {
    case DType::uint8:
    case DType::boolean: return integer_kernels<uint8_t>(combine);
    case DType::int8: return integer_kernels<int8_t>(combine);
    case DType::uint16: return integer_kernels<uint16_t>(combine);
    case DType::int16: return integer_kernels<int16_t>(combine);
    case DType::uint32: return integer_kernels<uint32_t>(combine);
    case DType::int32: return integer_kernels<int32_t>(combine);
    case DType::uint64: return integer_kernels<uint64_t>(combine);
    case DType::int64: return integer_kernels<int64_t>(combine);
    default: return HWY_DYNAMIC_DISPATCH(float_kernels)(dtype, combine);
  }
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
