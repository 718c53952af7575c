// nonzero and unique: functions and no operators, since the shapes of their results depend on values.
#include <algorithm>
#include <vector>

#include "kaon/ops/functions.h"
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
  std::vector<int64_t> positions;
  positions.reserve(size_t(std::count(found.begin(), found.end(), 1) * n));
  const int64_t length = shape.back();
  Shape at = Shape::filled(n, 0);
  for (int64_t row = 0; row < int64_t(found.size()); row += length) {
    for (int64_t i = 0; i < length; ++i) {
      if (!found[size_t(row + i)]) continue;
      at[n - 1] = i;
      positions.insert(positions.end(), at.begin(), at.end());
    }
    for (int d = n - 2; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
  }
  return index_array(positions, Shape(int64_t(positions.size()) / n, n), data.device());
}

// The array in order; where neighbours differ a new value begins.
std::vector<NDArray> unique(const NDArray& data, const std::source_location& site) {
  expect_values("unique");
  const bool is_bool = data.dtype() == DType::boolean;
  const NDArray numbers = is_bool ? nd.cast(In<NDArray>(data, site), DType::uint8) : data;
  const int64_t n = data.size();
  const NDArray flat = nd._reshape_to(In<NDArray>(numbers, site), {.shape = Shape(n)});
  std::vector<int64_t> order, first, count, which(static_cast<size_t>(n));
  if (n > 0) {
    const std::vector<NDArray> ordered = nd._order(flat, {});
    const NDArray values = nd.stop_gradient(ordered[0]);
    order = ordered[1].asvector<int64_t>(site);
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
  const Shape length(first.size());
  const NDArray index = index_array(first, length, data.device());
  const NDArray found = nd.take(flat, index);
  return {is_bool ? nd.cast(found, DType::boolean) : found, index, index_array(which, data.shape(), data.device()),
          index_array(count, length, data.device())};
}

}  // namespace kaon::ops
