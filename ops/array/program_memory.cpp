// Arrays over memory of the program, and the program's access to the memory of arrays.
#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "kaon/engine/device/backend.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/checked_size.h"

namespace kaon {

using namespace ops;

NDArray NDArray::from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release, Device device) {
  check_new_array("from_blob", shape, dtype, device);
  const size_t element = size_of(dtype), bytes = size_t(shape.size()) * element;
  if (!data && bytes) throw ValueError(fmt::format("[from_blob] no memory for an array of shape {}", shape.str()));
  if (reinterpret_cast<uintptr_t>(data) % element) {
    throw ValueError(fmt::format("[from_blob] the memory at {} is not aligned for {}: expected a multiple of {} bytes",
                                 data, name_of(dtype), element));
  }
  static double nothing;  // null means to a buffer that it has no memory yet
  if (!data) data = &nothing;
  auto buffer = Buffer::over(data, bytes, device, Engine::current(), std::move(release));
  return NDArray(IntrusivePtr<ArrayNode>(new ArrayNode(std::move(buffer), shape, dtype)));
}

void* NDArray::host_memory(DType dtype, bool writes, const std::source_location& site) const {
  Buffer& b = buffer();
  if (node().dtype != dtype) {
    throw TypeError(fmt::format("[data] the array has dtype {}, asked for elements of {}; use astype",
                                name_of(node().dtype), name_of(dtype)));
  }
  if (b.device.type != DeviceType::cpu) {
    throw DeviceError(fmt::format("[data] the array is on {}; use as_in_context(cpu())", b.device.str()));
  }
  if (writes) {
    check_writable("data", Arg<NDArray>(0.0, site));
    b.note_write(site);
    // an operation, after which nothing holds on to what was derived from the values
    engine().push({kaon::write(b.var)}, [](RunContext&) {}, {.label = {"data", site, thread_context().block_path}});
    engine().wait(b.var, AccessMode::update);
  } else if (!engine().read_now(b.var, [] {})) {
    engine().wait(b.var);
  }
  return size() ? node().data() : nullptr;
}

}  // namespace kaon
