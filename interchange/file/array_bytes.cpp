#include "kaon/interchange/file/array_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <source_location>
#include <unordered_set>

#include "kaon/engine/error.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/host_read.h"

namespace kaon::interchange {

void with_bytes(const NDArray& given, engine::FunctionRef<void(std::string_view)> use) {
  const NDArray array = ops::on_host(given, std::source_location::current());
  std::exception_ptr failure;
  const auto read = [&](const ops::ArrayNode& node) {
    try {
      use(node.bytes() ? std::string_view(static_cast<const char*>(node.data()), node.bytes()) : std::string_view());
    } catch (...) {
      failure = std::current_exception();
    }
  };
  ops::read_in_turn(array, read, {"save"});
  if (failure) std::rethrow_exception(failure);
}

void check_arrays(const NamedArrays& arrays, std::string_view caller) {
  std::unordered_set<std::string_view> seen;
  for (const auto& [name, array] : arrays) {
    if (name.empty()) throw ValueError(fmt::format("[{}] expected a name for each array, got an empty one", caller));
    if (!array.defined()) throw ValueError(fmt::format("[{}] '{}' is an undefined array", caller, name));
    if (!seen.insert(name).second) throw ValueError(fmt::format("[{}] two arrays are named '{}'", caller, name));
  }
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = uint8_t(text[i]);
    const size_t length = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    if (length == 0 || text.size() - i < length) return false;
    uint32_t code = length == 1 ? first : first & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = uint8_t(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    const bool is_short = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (is_short || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

void gather(const char* first, const Shape& shape, const int64_t* strides, size_t element, char* out) {
  if (shape.size() == 0) return;
  const int last = shape.ndim() - 1;
  const int64_t inner = last < 0 ? 1 : shape[last], step = last < 0 ? 0 : strides[last] * int64_t(element);
  int64_t at[Shape::max_ndim] = {};
  for (int64_t rows = shape.size() / inner; rows > 0; --rows) {
    const char* from = first;
    for (int k = 0; k < last; ++k) from += at[k] * strides[k] * int64_t(element);
    if (step == int64_t(element)) {
      std::memcpy(out, from, size_t(inner) * element);
      out += size_t(inner) * element;
    } else {
      for (int64_t i = 0; i < inner; ++i, from += step, out += element) std::memcpy(out, from, element);
    }
    for (int k = last - 1; k >= 0 && ++at[k] == shape[k]; --k) at[k] = 0;
  }
}

void swap_bytes(char* data, size_t count, size_t element) {
  if (element < 2) return;
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * element, data + (i + 1) * element);
}

}  // namespace kaon::interchange
