#include "kaon/interchange/onnx/block/fixed_shapes.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "kaon/engine/error.h"

namespace kaon::onnx::block {

namespace {

struct Size {
  int64_t size;
  std::string input;
  size_t axis;
};

void fix(format::ValueInfo& info, const std::map<std::string, Size>& sizes, const std::optional<Shape>& shape) {
  if (info.kind != format::ValueInfo::Kind::tensor) return;
  bool is_changed = false;
  if (shape && !info.has_shape) {
    info.has_shape = is_changed = true;
    info.dims.assign(size_t(shape->ndim()), {});
  }
  const bool is_known = shape && info.dims.size() == size_t(shape->ndim());
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    format::Dimension& d = info.dims[axis];
    if (d.value >= 0) continue;
    const auto named = sizes.find(d.name);
    if (named == sizes.end() && !is_known) continue;
    d = {is_known ? (*shape)[int(axis)] : named->second.size, ""};
    is_changed = true;
  }
  if (is_changed) info.as_read.reset();  // else what was read is written
}

}  // namespace

void fix_shapes(format::Graph& graph, const std::vector<std::optional<Shape>>& inputs,
                const std::vector<std::optional<Shape>>& outputs) {
  std::map<std::string, Size> sizes;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const format::ValueInfo& info = graph.inputs[i];
    for (size_t axis = 0; inputs[i] && info.has_shape && axis < info.dims.size(); ++axis) {
      const format::Dimension& d = info.dims[axis];
      if (d.value >= 0 || d.name.empty()) continue;
      const int64_t size = (*inputs[i])[int(axis)];
      const auto [first, is_new] = sizes.emplace(d.name, Size{size, info.name, axis});
      if (is_new || first->second.size == size) continue;
      throw ShapeError(fmt::format("[onnx] the dimension {} is {} on axis {} of {} and {} on axis {} of {}", d.name,
                                   first->second.size, first->second.axis, first->second.input, size, axis, info.name));
    }
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) fix(graph.inputs[i], sizes, inputs[i]);
  for (size_t i = 0; i < graph.outputs.size(); ++i) fix(graph.outputs[i], sizes, outputs[i]);
  for (format::ValueInfo& info : graph.value_infos) fix(info, sizes, std::nullopt);
}

}  // namespace kaon::onnx::block
