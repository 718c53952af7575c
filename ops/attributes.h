// Attributes as text, as MXNet's files have them ("(3, 3)", "True", "relu"), and back. Fields may be int, int64_t,
// float, double, bool, Shape, OptionalShape, DType, Device, Word, FloatTuple, IntTuple, an enum with enum_names(E), or
// optional of these.
#pragma once

#include <bit>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"
#include "kaon/engine/error.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/op.h"
#include "kaon/ops/shape.h"

namespace KAON_API kaon {
namespace ops {

// The text that MXNet's own writer gives: floats as Python's repr, tuples with ", ".
KAON_API std::string to_text(int64_t value);
KAON_API std::string to_text(double value);
KAON_API std::string to_text(float value);
KAON_API std::string to_text(bool value);
inline std::string to_text(Flag value) { return to_text(bool(value)); }
KAON_API std::string to_text(const Shape& value);
KAON_API std::string to_text(const OptionalShape& value);
KAON_API std::string to_text(const FloatTuple& value);
KAON_API std::string to_text(const IntTuple& value);
KAON_API std::string to_text(DType value);
inline std::string to_text(int value) { return to_text(int64_t(value)); }

// Reads the texts that MXNet's readers accept. False when the text is malformed. Independent of the locale.
KAON_API bool from_text(std::string_view text, int64_t& value);
KAON_API bool from_text(std::string_view text, int& value);
KAON_API bool from_text(std::string_view text, double& value);
KAON_API bool from_text(std::string_view text, float& value);
KAON_API bool from_text(std::string_view text, bool& value);
inline bool from_text(std::string_view text, Flag& value) {
  bool given = false;
  if (!from_text(text, given)) return false;
  return value = given, true;
}
KAON_API bool from_text(std::string_view text, Shape& value);
KAON_API bool from_text(std::string_view text, OptionalShape& value);
KAON_API bool from_text(std::string_view text, FloatTuple& value);
KAON_API bool from_text(std::string_view text, IntTuple& value);
KAON_API bool from_text(std::string_view text, DType& value);

// "cpu(0)", "gpu(1)". MXNet's pinned and shared host memory is cpu here; "" is the default device.
inline std::string to_text(Device value) { return value.str(); }
inline bool from_text(std::string_view text, Device& value) {
  if (text.empty()) return value = Device(), true;
  const size_t open = text.find('(');
  if (open == text.npos || text.back() != ')') return false;
  const std::string_view kind = text.substr(0, open), number = text.substr(open + 1, text.size() - open - 2);
  uint8_t index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc() || end != number.data() + number.size()) return false;
  if (kind != "cpu" && kind != "gpu" && kind != "cpu_pinned" && kind != "cpu_shared") return false;
  value = {kind == "gpu" ? DeviceType::gpu : DeviceType::cpu, kind == "cpu" || kind == "gpu" ? index : uint8_t(0)};
  return true;
}

inline std::string to_text(const Word& value) { return value.text; }
inline bool from_text(std::string_view text, Word& value) { return value.text = engine::intern(text), true; }

// Whether an operator computes the same with both: floats by their bits, for 0 and -0 differ and a NaN equals itself.
template <class T>
bool same_value(const T& a, const T& b) {
  if constexpr (std::same_as<T, double>) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  } else if constexpr (std::same_as<T, float>) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  } else {
    return a == b;
  }
}
template <class T>
bool same_value(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || same_value(*a, *b));
}

// An enum attribute declares `constexpr std::array<std::string_view, N> enum_names(E)` beside it;
// enumerators count from 0 in that order.
template <class E>
  requires(std::is_enum_v<E> && !std::same_as<E, DType>)
std::string to_text(E value) { return std::string(enum_names(E{})[size_t(value)]); }
template <class E>
  requires(std::is_enum_v<E> && !std::same_as<E, DType>)
bool from_text(std::string_view text, E& value) {
  constexpr auto names = enum_names(E{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) {
      value = E(i);
      return true;
    }
  }
  return false;
}

template <class T>
std::string to_text(const std::optional<T>& value) {
  return value ? to_text(*value) : "None";
}
template <class T>
bool from_text(std::string_view text, std::optional<T>& value) {
  if (text == "None" || text.empty()) {
    value.reset();
    return true;
  }
  T v{};
  if (!from_text(text, v)) return false;
  value = v;
  return true;
}

}  // namespace ops
}  // namespace kaon
