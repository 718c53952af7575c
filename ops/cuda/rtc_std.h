// The parts of C++'s library that the element functions use, for NVRTC, which has none of it.
#pragma once

#if !__has_include(<type_traits>)

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;

namespace std {

using ::size_t;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = is_same_v<T, bool> || is_same_v<T, int8_t> || is_same_v<T, uint8_t> ||
                                      is_same_v<T, int16_t> || is_same_v<T, uint16_t> || is_same_v<T, int32_t> ||
                                      is_same_v<T, uint32_t> || is_same_v<T, int64_t> || is_same_v<T, uint64_t>;
template <class T>
inline constexpr bool is_signed_v = T(-1) < T(0);

template <bool condition, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool condition, class A, class B>
using conditional_t = typename conditional<condition, A, B>::type;

template <class T>
struct numeric_limits {
  // of reals
  static T infinity() { return T(__int_as_float(0x7f800000)); }
  static T quiet_NaN() { return T(__int_as_float(0x7fc00000)); }
  // of integers
  static constexpr T max() { return is_signed_v<T> ? T((uint64_t(1) << (8 * sizeof(T) - 1)) - 1) : T(-1); }
  static constexpr T min() { return is_signed_v<T> ? T(-max() - 1) : T(0); }
};

// For the tables of names, which kernels do not read.
class string_view {
 public:
  constexpr string_view() = default;
  constexpr string_view(const char* text) : text_(text) {}

 private:
  const char* text_ = nullptr;
};
template <class T, size_t n>
struct array {
  T items[n];
  constexpr const T& operator[](size_t i) const { return items[i]; }
};

}  // namespace std

#else

#include <math.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#endif
