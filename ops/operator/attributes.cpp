#include "kaon/ops/attributes.h"

#include <cmath>
#include <limits>

namespace kaon::ops {

namespace {

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// std::from_chars takes no leading '+'.
std::string_view drop_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

// Python's repr: the fewest digits that read back as the same value, an exponent below 1e-4 and from 1e16 on.
template <class T>
std::string repr(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, size_t(end - buffer));
  const size_t e = text.find('e');
  std::string sign, digits;
  for (char c : text.substr(0, e)) {
    if (c == '-') {
      sign = "-";
    } else if (c != '.') {
      digits += c;
    }
  }
  int exponent = 0;
  std::string_view exponent_text = drop_plus(text.substr(e + 1));
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) return sign + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  const size_t whole = size_t(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

template <class T>
bool read_float(std::string_view text, T& value) {
  text = drop_plus(trim(text));
  T v{};
  auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (ptr != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range && std::same_as<T, float>) {
    double wide = 0;  // 1e-50 and 1e50 in a float attribute become 0 and inf, as strtof has it
    if (!read_float(text, wide)) return false;
    v = T(wide);
  } else if (error != std::errc()) {
    return false;
  }
  value = v;
  return true;
}

// Calls add(entry text) for each entry of "(1, 2)", "[1, 2]", "(1,)", "()" or a lone "1".
template <class Add>
bool read_tuple(std::string_view text, Add&& add) {
  text = trim(text);
  if (text.empty()) return false;
  if (text == "None") return true;
  const char close = text.front() == '(' ? ')' : text.front() == '[' ? ']' : '\0';
  if (!close) return add(text);
  if (text.size() < 2 || text.back() != close) return false;
  text = trim(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (!add(trim(text.substr(0, comma)))) return false;
    if (comma == std::string_view::npos) break;
    text = trim(text.substr(comma + 1));
  }
  return true;
}

template <class T>
std::string tuple_text(const NumberTuple<T>& value) {
  std::string text = "(";
  for (int i = 0; i < value.size(); ++i) {
    if (i) text += ", ";
    text += to_text(value[i]);
  }
  return text + (value.size() == 1 ? ",)" : ")");
}

template <class T>
bool read_numbers(std::string_view text, NumberTuple<T>& value) {
  NumberTuple<T> numbers;
  const bool good = read_tuple(text, [&](std::string_view entry) {
    T v = 0;
    return from_text(entry, v) && numbers.push_back(v);
  });
  if (good) value = numbers;
  return good;
}

}  // namespace

std::string to_text(int64_t value) { return std::to_string(value); }
std::string to_text(double value) { return repr(value); }
std::string to_text(float value) { return repr(value); }
std::string to_text(bool value) { return value ? "True" : "False"; }
std::string to_text(DType value) { return std::string(name_of(value)); }
std::string to_text(const Shape& value) { return value.ndim() < 0 ? "None" : value.str(); }

std::string to_text(const OptionalShape& value) {
  std::string text = "(";
  for (int i = 0; i < value.ndim(); ++i) {
    if (i) text += ", ";
    text += value[i] ? std::to_string(*value[i]) : "None";
  }
  return text + (value.ndim() == 1 ? ",)" : ")");
}

std::string to_text(const FloatTuple& value) { return tuple_text(value); }
std::string to_text(const IntTuple& value) { return tuple_text(value); }

bool from_text(std::string_view text, int64_t& value) {
  text = drop_plus(trim(text));
  if (text.ends_with('L')) text.remove_suffix(1);  // Python 2's long
  int64_t v = 0;
  auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || ptr != text.data() + text.size()) return false;
  value = v;
  return true;
}

bool from_text(std::string_view text, int& value) {
  int64_t v = 0;
  if (!from_text(text, v) || v < std::numeric_limits<int>::min() || v > std::numeric_limits<int>::max()) return false;
  value = int(v);
  return true;
}

bool from_text(std::string_view text, double& value) { return read_float(text, value); }
bool from_text(std::string_view text, float& value) { return read_float(text, value); }

bool from_text(std::string_view text, bool& value) {
  text = trim(text);
  const bool yes = text == "True" || text == "true" || text == "1";
  if (!yes && text != "False" && text != "false" && text != "0") return false;
  value = yes;
  return true;
}

bool from_text(std::string_view text, Shape& value) {
  Shape shape;
  const bool good = read_tuple(text, [&](std::string_view entry) {
    int64_t v = 0;
    if (shape.ndim() == Shape::max_ndim || !from_text(entry, v)) return false;
    shape.push_back(v);
    return true;
  });
  if (good) value = shape;
  return good;
}

bool from_text(std::string_view text, OptionalShape& value) {
  OptionalShape shape;
  const bool good = read_tuple(text, [&](std::string_view entry) {
    std::optional<int64_t> v;
    if (shape.ndim() == Shape::max_ndim || entry.empty() || !from_text(entry, v)) return false;
    shape.push_back(v);
    return true;
  });
  if (good) value = shape;
  return good;
}

bool from_text(std::string_view text, FloatTuple& value) { return read_numbers(text, value); }
bool from_text(std::string_view text, IntTuple& value) { return read_numbers(text, value); }

bool from_text(std::string_view text, DType& value) {
  text = trim(text);
  for (DType t : all_dtypes) {
    if (name_of(t) == text) {
      value = t;
      return true;
    }
  }
  return false;
}

}  // namespace kaon::ops
