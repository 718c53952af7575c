#include "kaon/ops/quant/kernels/quant_tiles.h"

#include <algorithm>
#include <cstring>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/quant/kernels/quant_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"
#include "kaon/ops/quant/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE void Widen(const void* levels, float scale, float* HWY_RESTRICT to, size_t n) {
  const T* const from = static_cast<const T*>(levels);
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(AsFloats(d, from + i), hn::Set(d, scale)), d, to + i);
  });
}

void LevelsToFloats(DType from, const void* levels, float scale, float* to, size_t n) {
  switch (from) {
    case DType::int8: return Widen<int8_t>(levels, scale, to, n);
    case DType::uint8: return Widen<uint8_t>(levels, scale, to, n);
    default: return Widen<int32_t>(levels, scale, to, n);
  }
}

template <class T>
HWY_INLINE void Narrow(const float* HWY_RESTRICT from, float scale, void* levels, size_t n) {
  T* const to = static_cast<T*>(levels);
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    using D = decltype(d);
    auto x = hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale));
    if constexpr (sizeof(T) == 1) {
      StoreLevels(d, x, to + i);
    } else {
      const hn::RebindToSigned<D> di;
      const auto most = hn::Set(d, 2147483648.f);
      x = hn::IfThenElseZero(hn::Eq(x, x), x);
      const auto nearest = hn::NearestInt(hn::Max(hn::Min(x, hn::Set(d, 2147483520.f)), hn::Neg(most)));
      const auto is_over = hn::RebindMask(di, hn::Ge(x, most));
      hn::StoreU(hn::IfThenElse(is_over, hn::Set(di, INT32_MAX), nearest), di, to + i);
    }
  });
}

void FloatsToLevels(const float* from, float scale, DType to, void* levels, size_t n) {
  switch (to) {
    case DType::int8: return Narrow<int8_t>(from, scale, levels, n);
    case DType::uint8: return Narrow<uint8_t>(from, scale, levels, n);
    default: return Narrow<int32_t>(from, scale, levels, n);
  }
}

void AddScaled(const float* HWY_RESTRICT from, float scale, bool fused, float* HWY_RESTRICT sums, size_t n) {
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, from + i), s = hn::LoadU(d, sums + i), f = hn::Set(d, scale);
    hn::StoreU(fused ? hn::MulAdd(x, f, s) : hn::Add(s, hn::Mul(x, f)), d, sums + i);
  });
}

template <class T>
HWY_INLINE void AddTyped(const void* lhs, float lhs_scale, const void* rhs, float rhs_scale, void* sum, size_t n) {
  const T *const a = static_cast<const T*>(lhs), *const b = static_cast<const T*>(rhs);
  T* const to = static_cast<T*>(sum);
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    StoreLevels(
        d,
        hn::Add(hn::Mul(AsFloats(d, a + i), hn::Set(d, lhs_scale)), hn::Mul(AsFloats(d, b + i), hn::Set(d, rhs_scale))),
        to + i);
  });
}

void AddLevels(DType t, const void* lhs, float lhs_scale, const void* rhs, float rhs_scale, void* sum, size_t n) {
  if (t == DType::int8) return AddTyped<int8_t>(lhs, lhs_scale, rhs, rhs_scale, sum, n);
  AddTyped<uint8_t>(lhs, lhs_scale, rhs, rhs_scale, sum, n);
}

void MultiplyLevels(const int8_t* lhs, const int8_t* rhs, float scale, bool truncated, float* HWY_RESTRICT to,
                    size_t n) {
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    const auto y = hn::Mul(hn::Mul(AsFloats(d, lhs + i), AsFloats(d, rhs + i)), hn::Set(d, scale));
    hn::StoreU(truncated ? hn::Trunc(y) : y, d, to + i);
  });
}

void FloatsToAsymmetric(const float* HWY_RESTRICT from, float scale, float shift, uint8_t* HWY_RESTRICT levels,
                        size_t n) {
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    const auto y = hn::Add(hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale)), hn::Set(d, shift));
    StoreLevels(d, hn::Floor(hn::Add(y, hn::Set(d, 0.5f))), levels + i);
  });
}

void ReluFloats(float* y, size_t n) {
  for_each_vector<float>(int64_t(n), [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, y + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x), d, y + i);
  });
}

// What a filter's sums are.
template <class D>
HWY_INLINE hn::Vec<D> FinishedSums(D d, const int32_t* sums, const int32_t* bias, const float* scale) {
  auto y = AsFloats(d, sums);
  if (bias) y = hn::Add(y, AsFloats(d, bias));
  return scale ? hn::Mul(y, hn::LoadU(d, scale)) : y;
}

void SumsToFloats(const int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, const float* scale,
                  float* to) {
  for (int64_t r = 0; r < rows; ++r, sums += channels, to += channels) {
    for_each_vector<float>(channels, [&](auto d, int64_t c) HWY_ATTR {
      hn::StoreU(FinishedSums(d, sums + c, bias ? bias + c : nullptr, scale ? scale + c : nullptr), d, to + c);
    });
  }
}

// A vector of channels at a time, whose bias and scale stay in registers.
template <class T>
HWY_INLINE void NarrowSums(const int32_t* sums, int64_t rows, int64_t channels, LevelsOfSums how, T* to,
                           int64_t stride) {  // a copy of `how`, which stores of bytes cannot change
  for_each_vector<float>(channels, [&](auto d, int64_t c) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto bias = how.bias ? hn::LoadU(di, how.bias + c) : hn::Zero(di);
    const auto whole_bias = how.whole ? bias : hn::Zero(di);
    const auto number_bias = hn::ConvertTo(d, how.whole ? hn::Zero(di) : bias);
    const auto scale = hn::LoadU(d, how.scale + c), zero = hn::Set(d, how.zero);
    for (int64_t r = 0; r < rows; ++r) {
      auto y = hn::ConvertTo(d, hn::Add(hn::LoadU(di, sums + r * channels + c), whole_bias));
      y = hn::Mul(hn::Add(y, number_bias), scale);
      if (how.relu) y = hn::Max(y, hn::Zero(d));
      if (how.zero != 0) y = hn::Add(hn::Round(y), zero);
      StoreLevels(d, y, to + r * stride + c);
    }
  });
}

void SumsToLevels(const int32_t* sums, int64_t rows, int64_t channels, const LevelsOfSums& how, void* levels,
                  int64_t stride) {
  if (how.dtype == DType::int8) return NarrowSums(sums, rows, channels, how, static_cast<int8_t*>(levels), stride);
  NarrowSums(sums, rows, channels, how, static_cast<uint8_t*>(levels), stride);
}

void FinishSums(int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, bool relu) {
  for (int64_t r = 0; r < rows; ++r, sums += channels) {
    for_each_vector<int32_t>(channels, [&](auto d, int64_t c) HWY_ATTR {
      auto y = hn::LoadU(d, sums + c);
      if (bias) y = hn::Add(y, hn::LoadU(d, bias + c));
      if (relu) y = hn::Max(y, hn::Zero(d));
      hn::StoreU(y, d, sums + c);
    });
  }
}

void TransposeBytes(const uint8_t* HWY_RESTRICT from, int64_t from_stride, uint8_t* HWY_RESTRICT to, int64_t to_stride,
                    int64_t rows, int64_t columns) {
  int64_t done_rows = 0, done_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  if (rows == 3 && to_stride == 3) {  // pictures
    const hn::ScalableTag<uint8_t> all;
    const auto lanes = int64_t(hn::Lanes(all));
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      const uint8_t* const p = from + j;
      hn::StoreInterleaved3(hn::LoadU(all, p), hn::LoadU(all, p + from_stride), hn::LoadU(all, p + 2 * from_stride),
                            all, to + 3 * j);
    }
    from += j, to += 3 * j, columns -= j;
  }
  // 16 x 16 at a time: four rounds, each of which interleaves the two halves of the rows
  const hn::Full128<uint8_t> d;
  done_rows = rows / 16 * 16, done_columns = columns / 16 * 16;
  for (int64_t i = 0; i < done_rows; i += 16) {
    for (int64_t j = 0; j < done_columns; j += 16) {
      hn::Vec<decltype(d)> a[16], b[16];
      for (int64_t k = 0; k < 16; ++k) a[k] = hn::LoadU(d, from + (i + k) * from_stride + j);
      for (int round = 0; round < 4; ++round) {
        for (int k = 0; k < 8; ++k) {
          b[2 * k] = hn::InterleaveLower(d, a[k], a[k + 8]);
          b[2 * k + 1] = hn::InterleaveUpper(d, a[k], a[k + 8]);
        }
        for (int k = 0; k < 16; ++k) a[k] = b[k];
      }
      for (int64_t k = 0; k < 16; ++k) hn::StoreU(a[k], d, to + (j + k) * to_stride + i);
    }
  }
#endif
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < done_rows ? done_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
  }
}

void DotProducts(const int16_t* HWY_RESTRICT patch, const int16_t* HWY_RESTRICT filters, int64_t length, int64_t count,
                 int32_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t f = 0; f < count; ++f, filters += length) {
    int32_t sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += int32_t(patch[i]) * filters[i];
    out[f] = sum;
  }
#else
  const hn::CappedTag<int16_t, 32> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  const auto lanes = int64_t(hn::Lanes(d));
  const auto sum_of = [&](auto even, auto odd) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(dw, hn::Add(even, odd))); };
  int64_t f = 0;
  for (; f + 4 <= count; f += 4) {  // four filters share what is loaded of the patch
    const int16_t* const w = filters + f * length;
    auto s0 = hn::Zero(dw), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
    for (int64_t i = 0; i < length; i += lanes) {
      const auto x = hn::LoadU(d, patch + i);
      s0 = hn::ReorderWidenMulAccumulate(dw, x, hn::LoadU(d, w + i), s0, t0);
      s1 = hn::ReorderWidenMulAccumulate(dw, x, hn::LoadU(d, w + length + i), s1, t1);
      s2 = hn::ReorderWidenMulAccumulate(dw, x, hn::LoadU(d, w + 2 * length + i), s2, t2);
      s3 = hn::ReorderWidenMulAccumulate(dw, x, hn::LoadU(d, w + 3 * length + i), s3, t3);
    }
    out[f] = sum_of(s0, t0), out[f + 1] = sum_of(s1, t1), out[f + 2] = sum_of(s2, t2), out[f + 3] = sum_of(s3, t3);
  }
  for (; f < count; ++f) {
    auto s = hn::Zero(dw), t = s;
    for (int64_t i = 0; i < length; i += lanes) {
      s = hn::ReorderWidenMulAccumulate(dw, hn::LoadU(d, patch + i), hn::LoadU(d, filters + f * length + i), s, t);
    }
    out[f] = sum_of(s, t);
  }
#endif
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(LevelsToFloats);
HWY_EXPORT(FloatsToLevels);
HWY_EXPORT(AddScaled);
HWY_EXPORT(AddLevels);
HWY_EXPORT(MultiplyLevels);
HWY_EXPORT(FloatsToAsymmetric);
HWY_EXPORT(ReluFloats);
HWY_EXPORT(SumsToLevels);
HWY_EXPORT(SumsToFloats);
HWY_EXPORT(FinishSums);
HWY_EXPORT(TransposeBytes);
HWY_EXPORT(DotProducts);

void levels_to_floats(DType from, const void* levels, float scale, float* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(LevelsToFloats)(from, levels, scale, to, n);
}
void floats_to_levels(const float* from, float scale, DType to, void* levels, size_t n) {
  HWY_DYNAMIC_DISPATCH(FloatsToLevels)(from, scale, to, levels, n);
}
void add_scaled(const float* from, float scale, bool fused, float* sums, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(from, scale, fused, sums, n);
}
void add_levels(DType t, const void* lhs, float lhs_scale, const void* rhs, float rhs_scale, void* sum, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddLevels)(t, lhs, lhs_scale, rhs, rhs_scale, sum, n);
}
void multiply_levels(const int8_t* lhs, const int8_t* rhs, float scale, bool truncated, float* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(MultiplyLevels)(lhs, rhs, scale, truncated, to, n);
}
void floats_to_asymmetric(const float* from, float scale, float shift, uint8_t* levels, size_t n) {
  HWY_DYNAMIC_DISPATCH(FloatsToAsymmetric)(from, scale, shift, levels, n);
}
void sums_to_levels(const int32_t* sums, int64_t rows, int64_t channels, const LevelsOfSums& how, void* levels,
                    int64_t stride) {
  HWY_DYNAMIC_DISPATCH(SumsToLevels)(sums, rows, channels, how, levels, stride);
}
void relu_floats(float* y, size_t n) { HWY_DYNAMIC_DISPATCH(ReluFloats)(y, n); }
void sums_to_floats(const int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, const float* scale,
                    float* to) {
  HWY_DYNAMIC_DISPATCH(SumsToFloats)(sums, rows, channels, bias, scale, to);
}
void finish_sums(int32_t* sums, int64_t rows, int64_t channels, const int32_t* bias, bool relu) {
  HWY_DYNAMIC_DISPATCH(FinishSums)(sums, rows, channels, bias, relu);
}
void transpose_bytes(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride, int64_t rows,
                     int64_t columns) {
  HWY_DYNAMIC_DISPATCH(TransposeBytes)(from, from_stride, to, to_stride, rows, columns);
}
void dot_products(const int16_t* patch, const int16_t* filters, int64_t length, int64_t count, int32_t* out) {
  HWY_DYNAMIC_DISPATCH(DotProducts)(patch, filters, length, count, out);
}

void rescale_levels(RunContext& run, DType from, const void* in, float scale, DType to, void* out, int64_t n) {
  const size_t from_size = size_of(from), to_size = size_of(to);
  const char* const source = static_cast<const char*>(in);
  char* const target = static_cast<char*>(out);
  run.parallel_for(n, 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += int64_t(quant_tile)) {
      const size_t count = std::min(quant_tile, size_t(end - i));
      const void* const here = source + size_t(i) * from_size;
      if (from == DType::float32) {
        floats_to_levels(static_cast<const float*>(here), scale, to, target + size_t(i) * to_size, count);
      } else if (to == DType::float32) {
        levels_to_floats(from, here, scale, static_cast<float*>(static_cast<void*>(target)) + i, count);
      } else {
        float tile[quant_tile];
        levels_to_floats(from, here, scale, tile, count);
        floats_to_levels(tile, 1, to, target + size_t(i) * to_size, count);
      }
    }
  });
}

}  // namespace kaon::ops
#endif
