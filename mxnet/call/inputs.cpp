#include "kaon/mxnet/call/inputs.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/host_read.h"

namespace kaon::mxnet {

using namespace ops;

Context context_of_call(Texts texts, std::span<ArrayObject* const> inputs, std::span<ArrayObject* const> outputs) {
  if (!inputs.empty()) {
    const Context c = inputs[0]->context;
    return {c.kind == ContextKind::gpu ? ContextKind::gpu : ContextKind::cpu, c.index};
  }
  if (!outputs.empty() && outputs[0]->array.defined()) return outputs[0]->context;
  const std::string_view named = find_text(texts, "ctx");
  return named.empty() || named == "None" ? Context() : Context::named(named);
}

NDArray in_this_process(const NDArray& array) {
  if (engine::fork_count() == 0 || !array.defined() || !array.engine().is_gone()) return array;
  NDArray own = NDArray::empty(array.shape(), array.dtype(), array.device());
  read_in_turn(array,
               [&](const ArrayNode& node) {
                 // no other thread knows the new array yet
                 if (node.bytes() > 0) std::memcpy(own.node().data(), node.data(), node.bytes());
               },
               {"read", no_site});
  return own;
}

NDArray first_elements(const NDArray& from, const Shape& shape) {
  if (from.shape() == shape) return from;
  const int64_t size = shape.size();
  if (size > from.size()) {
    throw ShapeError(
        fmt::format("an array of shape {} does not fit into the memory of one of {}", shape.str(), from.shape().str()));
  }
  const NDArray flat = from.reshape(Shape(from.size()), no_site);
  return (size == from.size() ? flat : flat.slice(0, size, no_site)).reshape(shape, no_site);
}

Inputs::Inputs(std::span<ArrayObject* const> given, Context context) {
  arrays_.reserve(given.size());
  copies_.reserve(given.size());
  const Device device = context.device();
  for (const ArrayObject* x : given) {
    const NDArray* array = &x->array;
    if (array->defined()) {
      if (engine::fork_count() > 0 && array->engine().is_gone()) array = &copies_.emplace_back(in_this_process(*array));
      const Device own = array->device();
      if (own != device && own.type == DeviceType::cpu && device.type == DeviceType::cpu) {
        if (array != &x->array) {
          copies_.back() = array->as_in_context(device, no_site);
        } else {
          array = &copies_.emplace_back(array->as_in_context(device, no_site));
        }
      }
    }
    arrays_.push_back(array);
  }
}

}  // namespace kaon::mxnet
