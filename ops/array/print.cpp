// Arrays as text, in NumPy's layout (numpy.set_printoptions explains its options).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <ostream>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/host_read.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/ndarray.h"

namespace kaon {

using namespace ops;
namespace {

struct Defaults : WithMutex {
  PrintOptions options;
};
Defaults& defaults() { return ProcessWide<Defaults>::get(); }

// Which elements of an array are shown, as a tree of brackets.
class Brackets {
 public:
  Brackets(const Shape& shape, const PrintOptions& o) : shape_(shape), o_(o), is_short_(shape.size() > o.threshold) {
    if (shape.size()) collect(0, 0);
  }
  const std::vector<int64_t>& positions() const { return positions_; }

  // `items` are the texts of the elements at positions().
  std::string print(const std::vector<std::string>& items) const {
    if (items.empty()) return "[]";
    size_t next = 0;
    return shape_.empty() ? items[0] : rows(items, next, 0, o_.line_width);
  }

 private:
  // Whether the middle of an axis is left out.
  bool cuts(int axis) const { return is_short_ && shape_[axis] > 2 * int64_t(o_.edge_items); }

  // Calls item(i) for the shown indices of an axis, and gap() between them where some are left out.
  template <class Item, class Gap>
  void along(int axis, Item&& item, Gap&& gap) const {
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (cuts(axis) && i == o_.edge_items) {
        gap();
        i = shape_[axis] - o_.edge_items;
        if (i == shape_[axis]) return;
      }
      item(i);
    }
  }

  void collect(int axis, int64_t offset) {
    if (axis == shape_.ndim()) return positions_.push_back(offset);
    const int64_t stride = shape_.product(axis + 1, shape_.ndim());
    along(
        axis, [&](int64_t i) { collect(axis + 1, offset + i * stride); }, [] {});
  }

  // `width` is what is left of the line behind the brackets that will be closed.
  std::string rows(const std::vector<std::string>& items, size_t& next, int axis, int width) const {
    const std::string indent(size_t(axis) + 1, ' ');
    if (axis == shape_.ndim() - 1) return "[" + line(items, next, indent, width) + "]";
    std::string out;
    const std::string separator(size_t(shape_.ndim() - 1 - axis), '\n');
    const auto add = [&](const std::string& part) { out += (out.empty() ? "[" : separator + indent) + part; };
    along(
        axis, [&](int64_t) { add(rows(items, next, axis + 1, width - 1)); }, [&] { add("..."); });
    return out + "]";
  }

  // Elements of the last axis, in as many lines as they need.
  std::string line(const std::vector<std::string>& items, size_t& next, const std::string& indent, int width) const {
    std::string done, current = indent;
    const auto add = [&](const std::string& word) {
      const bool is_first = done.empty() && current == indent;
      const std::string separator = is_first ? "" : " ";
      if (current.size() > indent.size() && current.size() + 1 + word.size() > size_t(std::max(width - 1, 0))) {
        done += current.substr(0, current.find_last_not_of(' ') + 1) + "\n";
        current = indent + word;
      } else {
        current += separator + word;
      }
    };
    along(
        shape_.ndim() - 1, [&](int64_t) { add(items[next++]); }, [&] { add("..."); });
    return (done + current).substr(indent.size());
  }

  const Shape& shape_;
  const PrintOptions& o_;
  const bool is_short_;
  std::vector<int64_t> positions_;
};

void strip_zeros(std::string& digits) { digits.erase(digits.find_last_not_of('0') + 1); }

// The fewest digits that name a number among those of its type, with an exponent: "1.25e-05".
template <class T>
std::string shortest(T value) {
  if constexpr (sizeof(T) == 2) {
    for (int digits = 0;; ++digits) {
      const std::string text = fmt::format("{:.{}e}", float(value), digits);
      if (T(std::stof(text)).bits == value.bits) return text;
    }
  } else {
    char text[64];
    return {text, std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr};
  }
}

// A finite number in parts: integer, digits behind the point, exponent ("" or "+05").
struct Parts {
  std::string integer, fraction, exponent;
};

// Of "1.25e-05".
Parts in_parts(const std::string& text) {
  const size_t end = text.find('e'), point = std::min(text.find('.'), end);
  return {text.substr(0, point), point < end ? text.substr(point + 1, end - point - 1) : "", text.substr(end + 1)};
}

template <class T>
Parts scientific(T value, int precision) {
  Parts p = in_parts(shortest(value));
  if (p.fraction.size() > size_t(precision)) p = in_parts(fmt::format("{:.{}e}", double(value), precision));
  strip_zeros(p.fraction);
  return p;
}

template <class T>
Parts positional(T value, int precision) {
  const std::string text = shortest(value);
  const size_t e = text.find('e'), point = text.find('.');
  const int mantissa = point < e ? int(e - point - 1) : 0;  // digits behind the point
  const int digits = std::clamp(mantissa - std::stoi(text.substr(e + 1)), 0, precision);
  const std::string fixed = fmt::format("{:.{}f}", double(value), digits);
  const size_t at = std::min(fixed.find('.'), fixed.size());
  Parts p{fixed.substr(0, at), at < fixed.size() ? fixed.substr(at + 1) : "", ""};
  strip_zeros(p.fraction);
  return p;
}

template <class T>
std::vector<std::string> texts_of_floats(const std::vector<T>& values, const PrintOptions& o) {
  double largest = 0, smallest = INFINITY;
  for (const T value : values) {
    const double v = std::abs(double(value));
    if (!std::isfinite(v)) continue;
    largest = std::max(largest, v);
    if (v != 0) smallest = std::min(smallest, v);
  }
  const bool has_exponent =
      largest >= 1e8 || (!o.suppress_small && largest > 0 && (smallest < 1e-4 || largest / smallest > 1000));
  std::vector<Parts> parts(values.size());
  size_t left = 0, right = 0, exponent = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(double(values[i]))) continue;
    parts[i] = has_exponent ? scientific(values[i], o.precision) : positional(values[i], o.precision);
    left = std::max(left, parts[i].integer.size());
    right = std::max(right, parts[i].fraction.size());
    exponent = std::max(exponent, parts[i].exponent.size());
  }
  const size_t behind = right + 1 + (has_exponent ? exponent + 1 : 0);  // the point and what follows
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(double(values[i]))) {
      texts.push_back(fmt::format("{}", double(values[i])));
      if (std::isnan(double(values[i]))) texts.back() = "nan";
      left = std::max(left, texts.back().size() - std::min(texts.back().size(), behind));
      continue;
    }
    Parts& p = parts[i];
    if (has_exponent) {
      if (p.fraction.size() < right)
        p = in_parts(fmt::format("{:.{}e}", double(values[i]), right));  // more of its digits
      const std::string digits = std::string(exponent - p.exponent.size(), '0') + p.exponent.substr(1);
      texts.push_back(fmt::format("{}.{:0<{}}e{}{}", p.integer, p.fraction, right, p.exponent[0], digits));
    } else {
      texts.push_back(fmt::format("{}.{:<{}}", p.integer, p.fraction, right));
    }
  }
  for (std::string& t : texts) t.insert(0, left + behind - std::min(left + behind, t.size()), ' ');
  return texts;
}

template <class T>
std::vector<std::string> texts_of(const std::vector<T>& values, const PrintOptions& o) {
  if constexpr (is_floating(dtype_of<T>)) {
    return texts_of_floats(values, o);
  } else {
    std::vector<std::string> texts;
    size_t width = 0;
    for (const T value : values) {
      texts.push_back(std::is_same_v<T, bool> ? (value ? "True" : "False") : std::to_string(wide_t<T>(value)));
      width = std::max(width, texts.back().size());
    }
    if (std::is_same_v<T, bool>) width = 5;
    for (std::string& t : texts) t.insert(0, width - t.size(), ' ');
    return texts;
  }
}

}  // namespace

void set_print_options(const PrintOptions& options) {
  std::lock_guard lock(defaults().mutex);
  defaults().options = options;
}
PrintOptions print_options() {
  std::lock_guard lock(defaults().mutex);
  return defaults().options;
}

std::string to_string(const NDArray& array, const PrintOptions& options) {
  if (!array.defined()) return "<NDArray none>";
  const std::source_location site = std::source_location::current();
  check_not_tracing(site);
  const Brackets layout(array.shape(), options);
  std::string text;
  read_in_turn(on_host(array, site),
               [&](const ArrayNode& node) {
                 dispatch_all("print", node.dtype, [&]<class T>() {
                   std::vector<T> values;
                   for (const int64_t at : layout.positions()) values.push_back(static_cast<const T*>(node.data())[at]);
                   text = layout.print(texts_of(values, options));
                 });
               },
               {.name = "print", .site = site});
  const std::string dims = fmt::format("{}", fmt::join(array.shape(), "x"));
  const std::string dtype = options.dtype ? " " + to_string(array.dtype()) : "";
  return fmt::format("{}\n<NDArray {}{} @{}>", text, dims, dtype, array.device().str());
}

std::string to_string(const NDArray& array) { return to_string(array, print_options()); }

std::ostream& operator<<(std::ostream& out, const NDArray& array) { return out << to_string(array); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace kaon
