#include "kaon/gluon/util/array_lists.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"

namespace kaon::gluon {
namespace {

int64_t axis_of(const NDArray& data, int axis) {
  const int ndim = data.ndim(), at = axis < 0 ? axis + ndim : axis;
  if (at < 0 || at >= ndim) {
    throw ShapeError(fmt::format("[split_data] there is no axis {} in data of shape {}", axis, data.shape().str()));
  }
  return at;
}

// The sums of the squares of all elements of arrays on one device.
NDArray sum_of_squares(const std::vector<NDArray>& arrays) { return nd.sum(nd.multi_sum_sq(arrays)); }

}  // namespace

std::vector<NDArray> split_data(const NDArray& data, int64_t num_slice, const SplitOptions& options) {
  if (num_slice < 1) throw ValueError(fmt::format("[split_data] num_slice must be positive, got {}", num_slice));
  const int axis = int(axis_of(data, options.batch_axis));
  const int64_t size = data.shape()[axis];
  if (options.even_split && size % num_slice != 0) {
    throw ValueError(
        fmt::format("[split_data] data of shape {} cannot be cut into {} equal slices along axis {}: take batches of a "
                    "multiple of {}, or even_split = false",
                    data.shape().str(), num_slice, axis, num_slice));
  }
  std::vector<NDArray> slices;
  for (int64_t i = 0, begin = 0; i < num_slice; ++i) {
    const int64_t end = begin + size / num_slice + (i < size % num_slice);
    slices.push_back(axis == 0 ? data.slice(begin, end) : nd.slice_axis(data, axis, begin, end));
    begin = end;
  }
  return slices;
}

std::vector<NDArray> split_and_load(const NDArray& data, std::span<const Device> devices, const SplitOptions& options) {
  if (devices.empty()) throw ValueError("[split_and_load] there are no devices");
  std::vector<NDArray> slices = split_data(data, int64_t(devices.size()), options);
  for (size_t i = 0; i < slices.size(); ++i) slices[i] = slices[i].as_in_context(devices[i]);
  return slices;
}

NDArray clip_global_norm(std::span<const NDArray> arrays, double max_norm) {
  if (arrays.empty()) throw ValueError("[clip_global_norm] there are no arrays");
  if (!(max_norm >= 0))
    throw ValueError(fmt::format("[clip_global_norm] max_norm must be 0 or more, got {}", max_norm));
  std::vector<std::pair<Device, std::vector<NDArray>>> groups;
  for (const NDArray& a : arrays) {
    auto group = std::ranges::find(groups, a.device(), &std::pair<Device, std::vector<NDArray>>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {a.device(), {}});
    group->second.push_back(a);
  }
  const Device first = groups[0].first;
  NDArray sum = sum_of_squares(groups[0].second);
  for (size_t i = 1; i < groups.size(); ++i) sum = sum + sum_of_squares(groups[i].second).as_in_context(first);
  const NDArray norm = nd.sqrt(sum);
  // not minimum(), to which a NaN is no number
  const NDArray scale = nd.where(norm <= max_norm, nd.ones_like(norm), max_norm / (norm + 1e-8));
  for (auto& [device, group] : groups) {
    const NDArray here = scale.as_in_context(device);
    for (NDArray& a : group) a *= a.dtype() == here.dtype() ? here : nd.cast(here, a.dtype());
  }
  return norm;
}

NDArray clip_global_norm(const ParameterDict& parameters, double max_norm) {
  std::vector<NDArray> gradients;
  for (const Parameter& p : parameters) {
    if (p.grad_req() != GradReq::null) gradients.push_back(p.grad());
  }
  return clip_global_norm(gradients, max_norm);
}

}  // namespace kaon::gluon
