// boolean_mask: a function and no operator, since the shape of its result depends on values.
#include <fmt/format.h>

#include <vector>

#include "kaon/engine/error.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/operator/value_dependent.h"

namespace kaon::ops {

NDArray boolean_mask(const NDArray& data, const NDArray& index, int axis, const std::source_location& site) {
  expect_values("boolean_mask");
  const Shape &shape = data.shape(), &which = index.shape();
  const int at = normalize_axis(axis, shape.ndim(), "boolean_mask");
  if (which.ndim() != 1 || which[0] != shape[at]) {
    throw ShapeError(fmt::format("[boolean_mask] index must have shape ({},), for axis {} of data {}, got {}",
                                 shape[at], at, shape.str(), which.str()));
  }
  std::vector<int64_t> positions;
  const std::vector<double> values = index.asvector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) positions.push_back(int64_t(i));  // NaN too
  }
  const Shape count(positions.size());
  const NDArray chosen = nd.array(positions, count, {.dtype = DType::int64, .device = data.device()});
  return nd.take(In<NDArray>(data, site), chosen, {.axis = at});
}

}  // namespace kaon::ops
