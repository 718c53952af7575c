#include "kaon/ops/host_read.h"

#include <fmt/format.h>

#include "kaon/engine/device/backend.h"
#include "kaon/ops/math/convert_values.h"
#include "kaon/ops/operator/copy_to.h"

namespace kaon::ops {

void check_not_tracing(const std::source_location& site) {
  if (!thread_context().tracing) return;
  const char* block = thread_context().block_path;
  throw TraceError(
      fmt::format("[asscalar] a value is read at {} while block {} is traced: it would be frozen into the plan. "
                  "Compute with operators, or call hybridize(false)",
                  describe(site), block ? block : "(none)"));
}

void throw_not_scalar(const Shape& shape) {
  throw ShapeError(fmt::format("[asscalar] the array must have one element, got shape {}", shape.str()));
}

NDArray on_host(const NDArray& array, const std::source_location& site) {
  return array.device().type == DeviceType::cpu ? array : copy_to(array, Device(), site);
}

void read_in_turn(const NDArray& array, FunctionRef<void(const ArrayNode&)> read, const OpLabel& label) {
  const ArrayNode& node = array.node();
  if (array.engine().is_gone()) {
    array.engine().read_now(array.var(), [&] { read(node); });
    return;
  }
  array.engine().wait(array.var());  // throws WouldDeadlock before an operation refers to `read`
  Var done;
  array.engine().push({kaon::read(array.var()), write(done)}, [&](RunContext&) { read(node); }, {.label = label});
  array.engine().wait(done);
}

namespace {

// Converts the elements of an array whose memory may be read to To. `out` has elements of the same width.
template <class To>
void convert_elements(const ArrayNode& node, void* out) {
  convert_values(node.dtype, node.data(), dtype_of<To>, out, size_t(node.shape.size()));
}

template <class To, class T>
void push_copy(const NDArray& given, T* out, Var& done, const std::source_location& site) {
  check_not_tracing(site);
  const NDArray array = on_host(given, site);
  if (array.engine().is_gone()) {  // nothing can be pushed, and nothing is pending
    array.engine().read_now(array.var(), [&] { convert_elements<To>(array.node(), out); });
    return;
  }
  PushOptions options{.label = {"copy_to_host", site, thread_context().block_path}};
  array.engine().push(
      {read(array.var()), write(done)}, [node = array.ptr(), out](RunContext&) { convert_elements<To>(*node, out); },
      options);
}

}  // namespace

template <class T>
void push_host_copy(const NDArray& array, T* out, Var& done, const std::source_location& site) {
  push_copy<T>(array, out, done, site);
}

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

namespace {
// Blocks until the elements of the array are at `out`.
template <class T, class Element>
void read_elements(const NDArray& given, Element* out, const std::source_location& site) {
  check_not_tracing(site);
  const NDArray array = on_host(given, site);
  Engine& engine = given.engine();
  if (engine.read_now(array.var(), [&] { convert_elements<T>(array.node(), out); })) return;
  engine.wait(array.var());  // throws WouldDeadlock before an operation refers to `out`
  Var done;
  push_copy<T>(array, out, done, site);
  engine.wait(done, AccessMode::read);
}
}  // namespace

template <class T>
std::vector<T> NDArray::asvector(std::source_location site) const {
  using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  std::vector<Element> values(static_cast<size_t>(size()));
  read_elements<T>(*this, values.data(), site);
  if constexpr (std::is_same_v<T, bool>) {
    return {values.begin(), values.end()};
  } else {
    return values;
  }
}

template <class T>
void NDArray::copy_elements(std::span<T> out, const std::source_location& site) const {
  if (int64_t(out.size()) != size()) {
    throw ShapeError(fmt::format("[copyto] an array of shape {} has {} elements, got room for {}", shape().str(),
                                 size(), out.size()));
  }
  read_elements<T>(*this, out.data(), site);
}

template <class T>
T NDArray::asscalar(std::source_location site) const {
  if (size() != 1) throw_not_scalar(shape());
  return T(asvector<T>(site).front());
}

template <class T>
NDArray NDArray::from(const T* values, size_t count, const Shape& shape, DType dtype, Device device) {
  if (!shape.is_known() || size_t(shape.size()) != count) {
    throw ShapeError(fmt::format("[array] {} values do not fill shape {}", count, shape.str()));
  }
  if (device.type != DeviceType::cpu) {
    check_device(device, "array");
    return copy_to(from(values, count, shape, dtype), device, std::source_location::current());
  }
  NDArray a = NDArray::empty(shape, dtype, device);
  // No other thread knows the array, so its memory may be filled without an operation.
  convert_values(dtype_of<T>, values, dtype, a.node().data(), count);
  return a;
}

#define KAON_HOST_READ(T)                                                                   \
  template std::vector<T> NDArray::asvector<T>(std::source_location) const;                 \
  template T NDArray::asscalar<T>(std::source_location) const;                              \
  template void NDArray::copy_elements<T>(std::span<T>, const std::source_location&) const; \
  template NDArray NDArray::from<T>(const T*, size_t, const Shape&, DType, Device);         \
  template void ops::push_host_copy<T>(const NDArray&, T*, Var&, const std::source_location&);
KAON_HOST_READ(float)
KAON_HOST_READ(double)
KAON_HOST_READ(float16)
KAON_HOST_READ(bfloat16)
KAON_HOST_READ(int8_t)
KAON_HOST_READ(uint8_t)
KAON_HOST_READ(int16_t)
KAON_HOST_READ(uint16_t)
KAON_HOST_READ(int32_t)
KAON_HOST_READ(uint32_t)
KAON_HOST_READ(int64_t)
KAON_HOST_READ(uint64_t)
#undef KAON_HOST_READ
template std::vector<bool> NDArray::asvector<bool>(std::source_location) const;
template bool NDArray::asscalar<bool>(std::source_location) const;
template void NDArray::copy_elements<bool>(std::span<bool>, const std::source_location&) const;
template NDArray NDArray::from<bool>(const bool*, size_t, const Shape&, DType, Device);

}  // namespace kaon
