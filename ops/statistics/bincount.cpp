// bincount: a function and no operator, since the shape of its result depends on values.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "kaon/engine/error.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/host_read.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/operator/value_dependent.h"

namespace kaon::ops {

namespace {

constexpr int64_t most = int64_t(1) << 31;

// The numbers are refused: says which is wrong.
template <class T>
[[noreturn]] void refuse(const T* x, int64_t n) {
  const auto [least, largest] = std::minmax_element(x, x + n);
  throw ValueError(fmt::format("[bincount] needs numbers below 2^31 that are not negative, got {}",
                               *least < T(0) ? *least : *largest));
}

// All bits that are set in some number. Vectors do this faster than they find the largest.
template <class T>
uint64_t bits_of(const T* x, int64_t n) {
  T bits = 0;
  for (int64_t i = 0; i < n; ++i) bits = T(bits | x[i]);
  return uint64_t(int64_t(bits));
}

// How often each number from 0 to the largest occurs.
template <class T>
std::vector<int64_t> count_numbers(const T* x, int64_t n, uint64_t bits) {
  // Equal neighbours are counted in different tables, or each would wait for the one before it.
  constexpr int64_t tables = 4, largest_table = 1 << 12;
  const auto most_values = int64_t(std::bit_ceil(bits + 1));
  std::vector<int64_t> counts;
  if (most_values > largest_table) {
    counts.resize(size_t(*std::max_element(x, x + n)) + 1);
    for (int64_t i = 0; i < n; ++i) ++counts[size_t(x[i])];
    return counts;
  }
  counts.resize(size_t(tables * most_values));
  int64_t i = 0;
  for (; i + tables <= n; i += tables) {
    for (int64_t t = 0; t < tables; ++t) ++counts[size_t(t * most_values + int64_t(x[i + t]))];
  }
  for (; i < n; ++i) ++counts[size_t(x[i])];
  for (int64_t v = 0; v < most_values; ++v) {
    for (int64_t t = 1; t < tables; ++t) counts[size_t(v)] += counts[size_t(t * most_values + v)];
  }
  int64_t length = most_values;
  while (length > 0 && counts[size_t(length - 1)] == 0) --length;
  counts.resize(size_t(length));
  return counts;
}

}  // namespace

NDArray bincount(const NDArray& data, const NDArray* weights, int64_t minlength, const std::source_location& site) {
  expect_values("bincount");
  if (data.ndim() != 1) throw ShapeError(fmt::format("[bincount] needs a 1-D array, got {}", data.shape().str()));
  if (is_floating(data.dtype()) || data.dtype() == DType::boolean) {
    throw TypeError(fmt::format("[bincount] needs integers, got {}; use cast", name_of(data.dtype())));
  }
  if (weights && weights->shape() != data.shape()) {
    throw ShapeError(
        fmt::format("[bincount] weights must have shape {}, got {}", data.shape().str(), weights->shape().str()));
  }
  if (minlength < 0) throw ValueError(fmt::format("[bincount] minlength must not be negative, got {}", minlength));
  std::vector<int64_t> counts;
  int64_t length = minlength;
  const auto count = [&](const ArrayNode& node) {
    dispatch_number("bincount", node.dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) {
        const T* const x = static_cast<const T*>(node.data());
        const int64_t n = node.shape.size();
        const uint64_t bits = bits_of(x, n);  // of a negative number the highest is set
        if (bits >= uint64_t(most)) refuse(x, n);
        if (weights) {
          length = std::max(minlength, int64_t(*std::max_element(x, x + n)) + 1);
        } else {
          counts = count_numbers(x, n, bits);
          length = std::max(minlength, int64_t(counts.size()));
        }
      }
    });
  };
  if (data.size() > 0) read_in_turn(on_host(data, site), count, {"bincount", site, nullptr});
  if (data.size() > 0 && weights) return nd._backward_take(*weights, data, {.shape = Shape(length)});
  if (weights) return nd.zeros({length}, {.dtype = weights->dtype(), .device = data.device()});
  counts.resize(size_t(length), 0);
  return nd.array(counts, {length}, {.dtype = DType::int64, .device = data.device()});
}

}  // namespace kaon::ops
