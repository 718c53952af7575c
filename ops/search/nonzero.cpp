// nonzero and unique: functions and no operators, since the shapes of their results depend on values.
#include <algorithm>
#include <utility>
#include <vector>

#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/host_read.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/operator/value_dependent.h"

namespace kaon::ops {

namespace {

NDArray index_array(const std::vector<int64_t>& values, const Shape& shape, Device device) {
  return nd.array(values, shape, {.dtype = DType::int64, .device = device});
}

}  // namespace

NDArray nonzero(const NDArray& data, const std::source_location& site) {
  expect_values("nonzero");
  const NDArray mask = data.dtype() == DType::boolean ? data : nd.cast(In<NDArray>(data, site), DType::boolean);
  const std::vector<uint8_t> found = mask.asvector<uint8_t>(site);
  const Shape shape = data.ndim() == 0 ? Shape(1) : data.shape();
  const int n = shape.ndim();
  std::vector<int64_t> positions(size_t(std::count(found.begin(), found.end(), 1) * n));
  int64_t* next = positions.data();
  const int64_t length = shape.back();
  Shape at = Shape::filled(n, 0);
  for (int64_t row = 0; row < int64_t(found.size()); row += length) {
    for (int64_t i = 0; i < length; ++i) {
      if (!found[size_t(row + i)]) continue;
      for (int d = 0; d < n - 1; ++d) next[d] = at[d];
      next[n - 1] = i;
      next += n;
    }
    for (int d = n - 2; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
  }
  return index_array(positions, Shape(int64_t(positions.size()) / n, n), data.device());
}

namespace {

// What unique says of an array beside its values.
struct Occurrences {
  std::vector<int64_t> first, count, which;
};

// Of integers that are close together: by a table of those from the smallest to the largest. False for others.
template <class T>
bool find_in_table(const T* x, int64_t n, Occurrences& o) {
  T least = x[0], largest = x[0];
  for (int64_t i = 1; i < n; ++i) least = std::min(least, x[i]), largest = std::max(largest, x[i]);
  const uint64_t span = uint64_t(largest) - uint64_t(least);
  if (span > uint64_t(std::max<int64_t>(n, 256))) return false;
  const auto value = [&](int64_t i) { return size_t(uint64_t(x[i]) - uint64_t(least)); };
  std::vector<int64_t> count(size_t(span) + 1), number(size_t(span) + 1, -1);  // number: first of all where each occurs
  for (int64_t i = 0; i < n; ++i) {
    if (count[value(i)]++ == 0) number[value(i)] = i;
  }
  for (size_t v = 0; v <= span; ++v) {
    if (count[v] == 0) continue;
    o.first.push_back(std::exchange(number[v], int64_t(o.first.size())));
    o.count.push_back(count[v]);
  }
  o.which.resize(size_t(n));
  for (int64_t i = 0; i < n; ++i) o.which[size_t(i)] = number[value(i)];
  return true;
}

}  // namespace

// The array in order; where neighbours differ a new value begins. Or integers, by a table.
std::vector<NDArray> unique(const NDArray& data, const std::source_location& site) {
  expect_values("unique");
  const bool is_bool = data.dtype() == DType::boolean;
  const NDArray numbers = is_bool ? nd.cast(In<NDArray>(data, site), DType::uint8) : data;
  const int64_t n = data.size();
  const NDArray flat = nd._reshape_to(In<NDArray>(numbers, site), {.shape = Shape(n)});
  Occurrences o;
  bool is_found = n == 0;
  if (n > 0 && !is_floating(numbers.dtype())) {
    read_in_turn(on_host(numbers, site),
                 [&](const ArrayNode& node) {
                   dispatch_number("unique", node.dtype, [&]<class T>() {
                     if constexpr (std::is_integral_v<T>)
                       is_found = find_in_table(static_cast<const T*>(node.data()), n, o);
                   });
                 },
                 {"unique", site, nullptr});
  }
  if (!is_found) {
    auto& [first, count, which] = o;
    which.resize(size_t(n));
    const std::vector<NDArray> ordered = nd._order(flat, {});
    const NDArray values = nd.stop_gradient(ordered[0]);
    const std::vector<int64_t> order = ordered[1].asvector<int64_t>(site);
    std::vector<uint8_t> begins{1};
    if (n > 1) {
      const NDArray a = nd.slice_axis(values, 0, 0, n - 1), b = nd.slice_axis(values, 0, 1, n);
      const NDArray differ = nd.logical_and(a != b, a == a);  // what follows a NaN is one
      const std::vector<uint8_t> rest = nd.cast(differ, DType::boolean).asvector<uint8_t>(site);
      begins.insert(begins.end(), rest.begin(), rest.end());
    }
    for (int64_t i = 0; i < n; ++i) {
      if (begins[size_t(i)]) first.push_back(order[size_t(i)]), count.push_back(0);
      ++count.back();
      which[size_t(order[size_t(i)])] = int64_t(first.size()) - 1;
    }
  }
  const Shape length(o.first.size());
  const NDArray index = index_array(o.first, length, data.device());
  const NDArray found = nd.take(flat, index);
  return {is_bool ? nd.cast(found, DType::boolean) : found, index, index_array(o.which, data.shape(), data.device()),
          index_array(o.count, length, data.device())};
}

}  // namespace kaon::ops
