// bincount: a function and no operator, since the shape of its result depends on values.
#include <fmt/format.h>

#include <algorithm>
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

// The number of counts for these numbers.
template <class T>
int64_t count_length(const T* x, int64_t n, int64_t minlength) {
  const auto [least, largest] = std::minmax_element(x, x + n);
  if (*least < T(0) || wide_t<T>(*largest) >= wide_t<T>(most)) {
    throw ValueError(fmt::format("[bincount] needs numbers below 2^31 that are not negative, got {}",
                                 *least < T(0) ? *least : *largest));
  }
  return std::max(minlength, int64_t(*largest) + 1);
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
        length = count_length(x, n, minlength);
        if (weights) return;
        counts.assign(size_t(length), 0);
        for (int64_t i = 0; i < n; ++i) ++counts[size_t(x[i])];
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
