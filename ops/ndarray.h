// NDArray: the tensor that users hold, and the arrays' arithmetic operators.
#pragma once

#include <fmt/format.h>

#include <coroutine>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "kaon/engine/await.h"
#include "kaon/engine/buffer/chunk.h"
#include "kaon/ops/arg.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/binary_kind.h"

namespace kaon {

struct OpDef;
[[noreturn]] void throw_not_scalar(const Shape& shape);
template <class T> class HostAwaiter;
template <class T> class ItemAwaiter;
enum class GradReq : uint8_t { null, write, add };

// Arithmetic of arrays of one kind (NDArray, Symbol) with each other and with numbers. Arrays broadcast.
// Comparisons give 0 and 1 in the dtype of the left array.
template <class A>
class ArrayOperators {
  friend A operator+(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::add, a, b); }
  friend A operator-(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::sub, a, b); }
  friend A operator*(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::mul, a, b); }
  friend A operator/(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::div, a, b); }
  friend A operator%(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::mod, a, b); }
  friend A operator==(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::equal, a, b); }
  friend A operator!=(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::not_equal, a, b); }
  friend A operator<(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::lesser, a, b); }
  friend A operator<=(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::lesser_equal, a, b); }
  friend A operator>(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::greater, a, b); }
  friend A operator>=(const Arg<A>& a, const Arg<A>& b) { return A::binary(BinaryKind::greater_equal, a, b); }
  friend A operator-(const In<A>& a) { return A::negate(a); }
};

// A handle: one pointer; a copy is the same array. Every operation on it is pushed to the engine and
// returns at once; only the functions marked "blocks" wait. A default-constructed handle holds nothing.
// Thread safety: distinct handles: safe, also on the same array. One shared handle: like shared_ptr.
class NDArray : public ArrayOperators<NDArray> {
 public:
  NDArray() = default;
  explicit NDArray(IntrusivePtr<ArrayNode> node) : node_(std::move(node)) {}
  NDArray(const NDArray&) = default;
  NDArray(NDArray&&) = default;
  // Assigning rebinds the handle. Assigning to a temporary (x[0] = y) would change nothing, so it does
  // not compile: write x.slice_assign(...) or x.assign(...).
  NDArray& operator=(const NDArray&) & = default;
  NDArray& operator=(NDArray&&) & = default;

  // An array whose memory is taken when it is first written.
  static NDArray empty(const Shape& shape, DType dtype = DType::float32, Device device = Device());

  // Copies `count` values at once. Throws ShapeError when they do not fill the shape.
  template <class T>
  static NDArray from(const T* values, size_t count, const Shape& shape, DType dtype = DType::float32, Device device = Device());

  bool defined() const { return bool(node_); }
  const Shape& shape() const { return node().shape; }
  DType dtype() const { return node().dtype; }
  Device device() const { return chunk().device; }
  int64_t size() const { return shape().size(); }
  int ndim() const { return shape().ndim(); }

  // --- values that share memory with this array while nothing is recorded (views along axis 0)
  NDArray operator[](int64_t index) const;                   // row `index`; negative counts from the end
  NDArray slice(int64_t begin, int64_t end, std::source_location site = std::source_location::current())
      const;  // rows [begin, end), as nd.slice has them: those that are there
  NDArray reshape(const Shape& shape, std::source_location site = std::source_location::current()) const;  // MXNet's codes 0 -1 -2 -3 -4

  // --- values of their own
  NDArray copy() const;
  NDArray astype(DType dtype, std::source_location site = std::source_location::current()) const;
  NDArray as_in_context(Device device, std::source_location site = std::source_location::current()) const;  // itself where it is there
  NDArray detach() const;  // shares memory, has no gradient history
  NDArray sum(std::source_location site = std::source_location::current()) const;
  NDArray mean(std::source_location site = std::source_location::current()) const;
  NDArray transpose(std::source_location site = std::source_location::current()) const;

  // --- writing. Throws StateError on an array that is part of a recorded computation.
  NDArray& assign(const Arg<NDArray>& value);  // broadcast to this shape
  // x[begin:end] = value on the leading axes, the region being that of nd.slice; value is broadcast to it.
  NDArray& slice_assign(const Shape& begin, const Shape& end, const Arg<NDArray>& value);
  NDArray& operator+=(const Arg<NDArray>& b) { return update(BinaryKind::add, b); }
  NDArray& operator-=(const Arg<NDArray>& b) { return update(BinaryKind::sub, b); }
  NDArray& operator*=(const Arg<NDArray>& b) { return update(BinaryKind::mul, b); }
  NDArray& operator/=(const Arg<NDArray>& b) { return update(BinaryKind::div, b); }
  NDArray& operator%=(const Arg<NDArray>& b) { return update(BinaryKind::mod, b); }
  void copyto(NDArray& destination) const { destination.assign(*this); }

  // --- waiting. Each throws the error of the operator that should have written the array.
  void wait_to_read() const;   // blocks (helping the engine)
  void wait_to_write() const;  // blocks until earlier reads and writes are done
  // Blocks; the size must be 1. Converts.
  template <class T> T asscalar(std::source_location site = std::source_location::current()) const;
  // Blocks; row-major order. Converts.
  template <class T> std::vector<T> asvector(std::source_location site = std::source_location::current()) const;
  ReadyAwaiter<NDArray> operator co_await() const { return ReadyAwaiter<NDArray>(*this); }
  template <class T> ItemAwaiter<T> item(std::source_location site = std::source_location::current()) const;  // co_await: T
  template <class T> HostAwaiter<T> host(std::source_location site = std::source_location::current()) const;  // co_await: std::vector<T>
  template <class Token> auto async_wait(Token&& token) const;  // Asio completion token; defined in kaon/asio.h
  // For awaiters: what was launched on a GPU to write the array has not run yet, and `work` is called on a thread of the
  // GPU's when it has, with the GPU's failure or null. False: there is nothing to wait for. `work` must not wait.
  bool when_run(const std::function<void(std::exception_ptr)>& work) const;

  // --- gradients (implemented in graph/autograd.cpp)
  void attach_grad(GradReq req = GradReq::write);
  NDArray grad() const;  // undefined handle when no gradient is attached
  void backward(std::source_location site = std::source_location::current()) const;  // head gradient: ones
  void backward(const NDArray& head, bool retain_graph = false, std::source_location site = std::source_location::current()) const;

  // --- for other layers
  // Calls an operator: checks shapes (throws at the call), makes outputs, pushes. `outs` gets the visible outputs.
  static void apply(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs, std::span<NDArray> outs,
                    const std::source_location& site, std::string_view name);
  // Calls an operator with one output into an existing array of the inferred shape and dtype; nothing is recorded.
  static void apply_into(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs, const NDArray& out,
                         const std::source_location& site);
  static NDArray from_values(NDArray values, std::string_view) { return values; }
  static NDArray binary(BinaryKind kind, const Arg<NDArray>& a, const Arg<NDArray>& b);
  static NDArray negate(const In<NDArray>& a);
  ArrayNode& node() const;  // throws StateError on an undefined handle
  const IntrusivePtr<ArrayNode>& ptr() const { return node_; }
  Var& var() const { return chunk().var; }
  Engine& engine() const { return *chunk().engine; }  // Engine::ended() when its own has ended

 private:
  NDArray& update(BinaryKind kind, const Arg<NDArray>& b);
  Chunk& chunk() const;  // throws TraceError in a trace, where arrays have no memory
  void check_writable(const char* op, const Arg<NDArray>& value) const;
  IntrusivePtr<ArrayNode> node_;
};

// Values, then "<NDArray 2x3 @cpu(0)>". Blocks.
std::string to_string(const NDArray& array);
std::ostream& operator<<(std::ostream& out, const NDArray& array);

}  // namespace kaon

#include "kaon/ops/host_read.h"

namespace kaon {

template <class T>
ItemAwaiter<T> NDArray::item(std::source_location site) const {
  if (size() != 1) throw_not_scalar(shape());
  return ItemAwaiter<T>(*this, site);
}
template <class T>
HostAwaiter<T> NDArray::host(std::source_location site) const {
  return HostAwaiter<T>(*this, site);
}

}  // namespace kaon

// {} prints an array as operator<< does.
template <>
struct fmt::formatter<kaon::NDArray> : fmt::formatter<std::string> {
  fmt::format_context::iterator format(const kaon::NDArray& array, fmt::format_context& context) const;
};
