#include "kaon/ops/math/convert_values.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/convert_tile.h"
#include "kaon/ops/math/dispatch_cast.h"
#include "kaon/ops/math/tile.h"

namespace kaon::ops {
namespace {

constexpr size_t tile = 1024;  // elements: the buffer stays in L1

template <class From, class To>
constexpr std::optional<PlainConversion> plain_conversion() {
  using P = PlainConversion;
  constexpr auto is = []<class A, class B>() { return std::is_same_v<From, A> && std::is_same_v<To, B>; };
  if (is.template operator()<float, double>()) return P::float32_to_float64;
  if (is.template operator()<double, float>()) return P::float64_to_float32;
  if (is.template operator()<int32_t, float>()) return P::int32_to_float32;
  if (is.template operator()<int32_t, double>()) return P::int32_to_float64;
  if (is.template operator()<int32_t, int64_t>()) return P::int32_to_int64;
  if (is.template operator()<int64_t, int32_t>()) return P::int64_to_int32;
  return {};
}

// 16-bit floats go through float32, whose conversions are vectors.
template <class To, class From>
void convert_tile(const From* from, To* to, size_t n) {
  if constexpr (is_half_type<From>) {
    float wide[tile];
    half_to_float32(dtype_of<From>)(from, wide, n);
    convert_tile<To, float>(wide, to, n);
  } else if constexpr (is_half_type<To> && !std::is_same_v<From, float>) {
    float wide[tile];
    for (size_t i = 0; i < n; ++i) wide[i] = before_half(from[i]);
    convert_tile<To, float>(wide, to, n);
  } else if constexpr (is_half_type<To>) {
    float32_to_half(dtype_of<To>)(from, to, n);
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, int32_t>) {
    float32_to_int32(from, to, n);
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, int8_t>) {
    float32_to_int8(from, to, n);
  } else if constexpr (std::is_same_v<From, uint8_t> && std::is_same_v<To, float>) {
    uint8_to_float32(from, to, n);
  } else if constexpr (constexpr auto plain = plain_conversion<From, To>(); plain) {
    convert_plainly(*plain, from, to, n);
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  }
}

}  // namespace

void convert_values(DType from, const void* in, DType to, void* out, size_t n) {
  if (n == 0) return;
  dispatch_cast(
      "cast", from, to,
      [&]<class From, class To>() {
        for (size_t i = 0; i < n; i += tile) {
          convert_tile(static_cast<const From*>(in) + i, static_cast<To*>(out) + i, std::min(tile, n - i));
        }
      },
      [&] { std::memcpy(out, in, n * size_of(to)); });
}

}  // namespace kaon::ops
