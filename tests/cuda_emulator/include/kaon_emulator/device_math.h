// CUDA's functions of numbers that C++ has not: bits, conversions, fast mathematics, cached loads.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Global, as in CUDA, for numbers of one type.
#define KAON_EMULATOR_MIN_MAX(type)                            \
  constexpr type min(type a, type b) { return b < a ? b : a; } \
  constexpr type max(type a, type b) { return a < b ? b : a; }
KAON_EMULATOR_MIN_MAX(int)
KAON_EMULATOR_MIN_MAX(unsigned)
KAON_EMULATOR_MIN_MAX(long)
KAON_EMULATOR_MIN_MAX(unsigned long)
KAON_EMULATOR_MIN_MAX(long long)
KAON_EMULATOR_MIN_MAX(unsigned long long)
#undef KAON_EMULATOR_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Bits

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t(y) << 32 | x;
  unsigned picked = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = unsigned(bytes >> 8 * (selector >> 4 * i & 7)) & 0xff;
    picked |= (selector >> 4 * i & 8 ? (byte & 0x80 ? 0xffu : 0) : byte) << 8 * i;
  }
  return picked;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
  return c;
}

inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }

// Rounding: CUDA's conversions saturate, and give 0 for NaN.

namespace kaon_emulator {
template <class To, class From>
To saturating(From x) {
  if (x != x) return To(0);
  constexpr To least = std::numeric_limits<To>::lowest(), greatest = std::numeric_limits<To>::max();
  return x <= From(least) ? least : x >= From(greatest) ? greatest : To(x);
}
}  // namespace kaon_emulator

inline int __float2int_rn(float x) { return kaon_emulator::saturating<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return kaon_emulator::saturating<int>(std::trunc(x)); }
inline int __float2int_rd(float x) { return kaon_emulator::saturating<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return kaon_emulator::saturating<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return kaon_emulator::saturating<unsigned>(std::nearbyint(x)); }
inline unsigned __float2uint_rz(float x) { return kaon_emulator::saturating<unsigned>(std::trunc(x)); }
inline int __double2int_rn(double x) { return kaon_emulator::saturating<int>(std::nearbyint(x)); }
inline int __double2int_rz(double x) { return kaon_emulator::saturating<int>(std::trunc(x)); }
inline long long __double2ll_rn(double x) { return kaon_emulator::saturating<long long>(std::nearbyint(x)); }
inline long long __double2ll_rz(double x) { return kaon_emulator::saturating<long long>(std::trunc(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// Mathematics

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1 / cbrtf(x); }
inline double rcbrt(double x) { return 1 / cbrt(x); }
inline double sinpi(double x) { return sin(M_PI * std::remainder(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * std::remainder(x, 2.0)); }
inline float sinpif(float x) { return float(sinpi(x)); }
inline float cospif(float x) { return float(cospi(x)); }
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
inline double normcdf(double x) { return erfc(-x * M_SQRT1_2) / 2; }
inline float normcdff(float x) { return float(normcdf(x)); }

// Macros, because glibc declares functions of these names.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Loads and stores that say how they are cached

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
