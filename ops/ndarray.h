// NDArray: the tensor that users hold, and the arrays' arithmetic operators.
#pragma once

#include <fmt/format.h>

#include <coroutine>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/await.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/ops/arg.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/index.h"
#include "kaon/ops/view.h"

namespace KAON_API kaon {

class Engine;
struct OpDef;

namespace engine {
class Var;
}

namespace ops {
struct Annotation;
[[noreturn]] KAON_API void throw_not_scalar(const Shape& shape);
template <class T>
class HostAwaiter;
template <class T>
class ItemAwaiter;
}  // namespace ops

enum class GradReq : uint8_t { null, write, add };

// Arithmetic of arrays of one kind (NDArray, Symbol) with each other and with numbers, element by element. Two arrays
// broadcast and must have one dtype; comparisons give 0 and 1 in that dtype. Throws ShapeError for shapes that do not
// broadcast, TypeError for two dtypes and for arithmetic on bool, DeviceError for two devices or engines.
template <class A>
class ArrayOperators {
  friend A operator+(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::add, a, b); }
  friend A operator-(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::sub, a, b); }
  friend A operator*(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::mul, a, b); }
  friend A operator/(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::div, a, b); }
  friend A operator%(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::mod, a, b); }
  friend A operator==(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::equal, a, b); }
  friend A operator!=(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::not_equal, a, b); }
  friend A operator<(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::lesser, a, b); }
  friend A operator<=(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::lesser_equal, a, b); }
  friend A operator>(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::greater, a, b); }
  friend A operator>=(const Arg<A>& a, const Arg<A>& b) { return A::binary(ops::BinaryKind::greater_equal, a, b); }
  friend A operator-(const In<A>& a) { return A::negate(a); }
};

namespace ops {
// The part of an ArrayNode that does not change once it is made, apart from the annotation.
struct ArrayView : TensorMeta {
  inline ArrayView(const TensorMeta& meta, IntrusivePtr<Buffer> c, size_t offset);
  IntrusivePtr<Buffer> buffer;
  IntrusivePtr<Annotation> annotation;
  size_t offset;
};

// The object behind an NDArray: a shaped view of a Buffer. Views of one memory share the Buffer, hence order, failures
// and lifetime. In a trace `buffer` is null. Only its count, shape and dtype are for programs: ops/array/array_node.h
// has the other functions.
struct ArrayNode : ArrayView, RefCounted<ArrayNode> {
  inline ArrayNode(IntrusivePtr<Buffer> c, const Shape& s, DType t, size_t offset = 0);

  // An array with memory of its own that no other thread knows yet: {Buffer, ArrayNode, a few bytes of data} in one
  // block.
  static inline IntrusivePtr<ArrayNode> with_memory(const TensorMeta& meta, Device device, Engine& engine);

  size_t bytes() const { return size_t(shape.size()) * size_of(dtype); }
  inline bool covers_buffer() const;
  // For the operation that holds a grant.
  inline void* data() const;

  static inline void* operator new(size_t bytes);
  static void* operator new(size_t, void* place) noexcept { return place; }
  static inline void operator delete(void* block, size_t bytes) noexcept;
  void destroy() noexcept;

 private:
  inline ArrayNode(IntrusivePtr<Buffer> c, const TensorMeta& meta);
};
}  // namespace ops

// A handle: one pointer; a copy is the same array. Every operation on it is pushed to the engine and returns at once:
// only the functions marked "blocks" wait, and a push does while the engine is at its limit (EngineOptions). Shapes,
// dtypes and devices are checked at the call; a failure of the running operation is thrown by a later wait.
// A default-constructed handle holds no array: using it throws StateError.
// Thread safety: distinct handles: safe, also on the same array. One shared handle: like shared_ptr.
class NDArray : public ArrayOperators<NDArray> {
 public:
  NDArray() = default;
  explicit NDArray(engine::IntrusivePtr<ops::ArrayNode> node) : node_(std::move(node)) {}
  NDArray(const NDArray&) = default;
  NDArray(NDArray&&) = default;
  // Assigning rebinds the handle. Assigning to a temporary (x[0] = y) would change nothing, so it does
  // not compile: write x.slice_assign(...) or x.assign(...).
  NDArray& operator=(const NDArray&) & = default;
  NDArray& operator=(NDArray&&) & = default;

  // An array with undefined values, whose memory is allocated at its first use. Throws ShapeError for a shape that is
  // not known or too large, DeviceError for a GPU that does not exist.
  static NDArray empty(const Shape& shape, DType dtype = DType::float32, Device device = Device());

  // Copies and converts `count` values, row-major, before it returns. Throws ShapeError when they do not fill the
  // shape, MemoryError, DeviceError.
  template <class T>
  static NDArray from(const T* values, size_t count, const Shape& shape, DType dtype = DType::float32,
                      Device device = Device());

  // An array over memory of the program, without a copy: its elements are at `data`, row-major, on `device`. `release`
  // is called once no array or pending operation needs the memory, on any thread, and must not throw; without it the
  // memory must live until then. Between operations the program may write there itself: x.data<T>() says when. Throws
  // ShapeError as empty() does, ValueError for memory that is null or not aligned for the dtype, DeviceError.
  static NDArray from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release = {},
                           Device device = Device());
  template <class T>
  static NDArray from_blob(T* data, const Shape& shape, std::function<void()> release = {}, Device device = Device()) {
    return from_blob(data, shape, dtype_of<T>, std::move(release), device);
  }

  bool defined() const { return bool(node_); }         // whether the handle holds an array; never throws
  const Shape& shape() const { return node().shape; }  // its dimensions; none in Shape()
  DType dtype() const { return node().dtype; }         // of its elements
  Device device() const;                               // where its memory is; throws TraceError in a trace
  int64_t size() const { return shape().size(); }      // the number of elements; 1 without dimensions
  int ndim() const { return shape().ndim(); }          // the number of dimensions

  // --- views, which share memory with this array; copies while operators are recorded or traced

  // Row `index` along axis 0, of shape shape()[1:], (1,) for a 1-D array. A negative index counts from the end. Throws
  // IndexError.
  NDArray operator[](int64_t index) const;
  // Rows [begin, end) along axis 0. Negative positions count from the end, positions beyond an end are moved to it.
  // Throws IndexError for an array without dimensions.
  NDArray slice(int64_t begin, int64_t end, std::source_location site = std::source_location::current()) const;
  using I = Index<NDArray>;
  // Elements by NumPy's rules: x(0, range(1, 5, 2), ellipsis, newaxis), x(positions), x(mask). The result is a view
  // where its elements are one after another in memory and no array is among the indices, else a new array; without
  // dimensions left its shape is (1,). A mask's result has a shape that depends on values: it waits for the mask, and
  // throws TraceError in a trace. Throws IndexError for a position outside of the array (of an array of positions: when
  // it runs), for more indices than axes and for a mask of another shape, TypeError for an array of bool beside
  // another.
  NDArray operator()(const I& i0, const I& i1 = {}, const I& i2 = {}, const I& i3 = {}, const I& i4 = {},
                     const I& i5 = {}, const I& i6 = {}, const I& i7 = {}) const;
  // x[{3, 1}]: those rows along axis 0, copied.
  NDArray operator[](std::initializer_list<int64_t> rows) const;
  // The same elements to write to: x.at(mask) = 0, x.at(0, range(2)) += y. See ArrayPart.
  ArrayPart<NDArray> at(const I& i0, const I& i1 = {}, const I& i2 = {}, const I& i3 = {}, const I& i4 = {},
                        const I& i5 = {}, const I& i6 = {}, const I& i7 = {}) const {
    return {*this, {i0, i1, i2, i3, i4, i5, i6, i7}};
  }
  // The same elements under another shape, by MXNet's codes 0 -1 -2 -3 -4 (infer_reshape). Throws ShapeError.
  NDArray reshape(const Shape& shape, std::source_location site = std::source_location::current()) const;

  // --- new arrays
  NDArray copy() const;  // the same values in memory of its own
  // The values converted as nd.cast does, also when the dtype is the same. Throws TypeError for an unknown dtype.
  NDArray astype(DType dtype, std::source_location site = std::source_location::current()) const;
  // A copy on that device, or this array where it is there already. Throws DeviceError when the device does not exist.
  NDArray as_in_context(Device device, std::source_location site = std::source_location::current()) const;
  NDArray detach() const;  // a view without gradient history
  // The sum of all elements, of shape (1,); of bool in int64.
  NDArray sum(std::source_location site = std::source_location::current()) const;
  // The mean of all elements, of shape (1,); of bool in float32. Throws TypeError for integers.
  NDArray mean(std::source_location site = std::source_location::current()) const;
  NDArray transpose(std::source_location site = std::source_location::current()) const;  // axes in reverse order

  // --- writing in place. Throws StateError, while recording, when the array or the value is part of a recorded
  // computation, and DeviceError for a value of another engine.

  // Overwrites all elements with `value`: converted to this dtype, copied to this device, broadcast to this shape.
  // Throws ShapeError when it does not broadcast.
  NDArray& assign(const Arg<NDArray>& value);
  // x[begin:end] = value on the leading axes; positions as nd.slice has them. `value` is converted and broadcast to
  // the region. Throws ShapeError.
  NDArray& slice_assign(const Shape& begin, const Shape& end, const Arg<NDArray>& value);
  // Arithmetic in place. Throws ShapeError when the result has another shape than this array; else as + does.
  NDArray& operator+=(const Arg<NDArray>& b) { return update(ops::BinaryKind::add, b); }
  NDArray& operator-=(const Arg<NDArray>& b) { return update(ops::BinaryKind::sub, b); }  // as +=
  NDArray& operator*=(const Arg<NDArray>& b) { return update(ops::BinaryKind::mul, b); }  // as +=
  NDArray& operator/=(const Arg<NDArray>& b) { return update(ops::BinaryKind::div, b); }  // as +=
  NDArray& operator%=(const Arg<NDArray>& b) { return update(ops::BinaryKind::mod, b); }  // as +=
  // Converts, broadcasts, changes the device.
  void copyto(NDArray& destination, std::source_location site = std::source_location::current()) const {
    destination.assign(Arg<NDArray>(*this, site));
  }

  // --- waiting. Each throws the failure of the operator that was to write the array, DeviceError when its GPU has
  // failed, WouldDeadlock inside an operation without whose end the wait cannot end. A thread that blocks helps the
  // engine to execute.
  void wait_to_read() const;   // blocks until the writes pushed before are done
  void wait_to_write() const;  // blocks until the reads and writes pushed before are done
  // Blocks. The element, converted to T as nd.cast does. Throws ShapeError unless the size is 1, TraceError in a trace.
  // T: float, double, float16, bfloat16, bool, or an integer of 8 to 64 bits.
  template <class T>
  T asscalar(std::source_location site = std::source_location::current()) const;
  // Blocks. All elements, row-major, converted to T as asscalar does. Throws TraceError in a trace.
  template <class T>
  std::vector<T> asvector(std::source_location site = std::source_location::current()) const;
  // Blocks. The elements where they are, row-major: data<const float>() waits for the writes pushed before,
  // data<float>() for the reads too, and counts as a write. They may be used until the next operation that changes the
  // array is pushed (data<float>(): or reads it), while an array on this memory exists. T is the element type of the
  // dtype: float, double, float16, bfloat16, bool, or an integer of 8 to 64 bits. After co_await x, data<const T>()
  // does not block. Throws TypeError for another dtype, DeviceError for an array of a GPU, TraceError in a trace,
  // StateError for writing while recording, when the array is part of a recorded computation.
  template <class T>
  std::span<T> data(std::source_location site = std::source_location::current()) const& {
    void* elements = host_memory(dtype_of<std::remove_const_t<T>>, !std::is_const_v<T>, site);
    return {static_cast<T*>(elements), size_t(size())};
  }
  template <class T>
  std::span<T> data() const&& = delete;  // the memory would go with the array: give it a name
  // Blocks. Copies all elements, row-major, to a vector, array or span with elements of T, converted as asscalar does.
  // Throws ShapeError unless `out` has size() elements, TraceError in a trace. T: as asscalar.
  template <class R>
    requires requires(R& out) { std::span(out); }
  void copyto(R&& out, std::source_location site = std::source_location::current()) const {
    copy_elements(std::span<typename decltype(std::span(out))::element_type>(out), site);
  }
  // For coroutines, without blocking (engine/await.h): co_await x waits and throws as wait_to_read()
  // does, and gives x.
  engine::ReadyAwaiter<NDArray> operator co_await() const { return engine::ReadyAwaiter<NDArray>(*this); }
  // co_await x.item<T>() is asscalar without blocking. Throws ShapeError at the call. T: not bool.
  template <class T>
  ops::ItemAwaiter<T> item(std::source_location site = std::source_location::current()) const;
  // co_await x.host<T>() is asvector without blocking. T: not bool.
  template <class T>
  ops::HostAwaiter<T> host(std::source_location site = std::source_location::current()) const;
  template <class Token>
  auto async_wait(Token&& token) const;  // Asio completion token; defined in kaon/asio.h
  // For awaiters. True: launched GPU work that writes the array has not run yet; `work` is called on a thread of the
  // GPU once it has, with the GPU's failure or null, and must not wait. False: there is nothing to wait for.
  bool when_run(const std::function<void(std::exception_ptr)>& work) const;

  // --- gradients (implemented in graph/autograd.cpp)

  // Attaches a gradient of zeros of this shape and drops the recorded history of the array; req null drops both.
  // Throws TypeError unless the dtype is floating.
  void attach_grad(GradReq req = GradReq::write);
  // The same with an array of the program's: backward() writes its results to the memory of `gradient`, or adds them to
  // what that holds, and grad() gives that array. An array of integers may have such a gradient, which is zero where
  // derivatives are. Throws ShapeError, TypeError and DeviceError for a gradient unlike this array, ValueError for an
  // undefined one unless req is null.
  void attach_grad(GradReq req, const NDArray& gradient);
  NDArray grad() const;  // the attached gradient; an undefined handle when there is none
  // autograd::backward for this array, with a head gradient of ones, or `head` (of this shape, dtype and device). Does
  // not block.
  void backward(std::source_location site = std::source_location::current()) const;
  void backward(const NDArray& head, bool retain_graph = false,
                std::source_location site = std::source_location::current()) const;

  // --- for other layers

  // Calls an operator: checks inputs and shapes (throws at the call), makes outputs, pushes. `outs` gets the visible
  // outputs.
  static void apply(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs,
                    std::span<NDArray> outs, const std::source_location& site, std::string_view name);
  // Calls an operator with one output into an existing array, which must have the inferred shape (ShapeError) and
  // dtype (TypeError); nothing is recorded.
  static void apply_into(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs,
                         const NDArray& out, const std::source_location& site);
  static NDArray from_values(NDArray values, std::string_view) { return values; }  // a Symbol makes a constant of them
  static NDArray binary(ops::BinaryKind kind, const Arg<NDArray>& a, const Arg<NDArray>& b,
                        std::string_view name = {});                         // a kind b, as + does
  static NDArray negate(const In<NDArray>& a);                               // -a
  ops::ArrayNode& node() const;                                              // throws StateError on an undefined handle
  const engine::IntrusivePtr<ops::ArrayNode>& ptr() const { return node_; }  // null in an undefined handle
  engine::Var& var() const;  // orders the operations on the array's memory
  Engine& engine() const;    // Engine::ended() once the array's engine has ended

 private:
  NDArray& update(ops::BinaryKind kind, const Arg<NDArray>& b);
  NDArray& update_promoted(ops::BinaryKind kind, const Arg<NDArray>& b);
  engine::Buffer& buffer() const;  // throws TraceError in a trace, where arrays have no memory
  friend class ArrayPart<NDArray>;
  friend void assign_all(std::span<const NDArray>, std::span<const NDArray>, std::source_location);
  void check_writable(const char* op, const Arg<NDArray>& value) const;
  template <class T>
  void copy_elements(std::span<T> out, const std::source_location& site) const;
  void* host_memory(DType dtype, bool writes, const std::source_location& site) const;
  engine::IntrusivePtr<ops::ArrayNode> node_;
};

// How arrays are printed, with NumPy's meanings and defaults.
struct PrintOptions {
  int precision = 8;            // digits behind the point, at most; floats show as many as tell them apart
  int64_t threshold = 1000;     // of an array of more elements only the edges are shown
  int edge_items = 3;           // elements at each end of an axis of such an array
  int line_width = 75;          // characters
  bool suppress_small = false;  // no exponents because of small numbers
  bool dtype = false;           // "<NDArray 2x3 float32 @cpu(0)>"
};

// Copies each of `values` into the array of `targets` at its place as one operation: an operation that reads several of
// them, such as a call of a hybridized net, reads all old values or all new ones, whatever threads push meanwhile. When
// one of the values has failed, all targets fail. Throws ValueError for lists that differ in length, ShapeError and
// TypeError for a value of another shape or dtype, DeviceError for targets on several devices and for arrays of several
// engines, StateError as assign does. Thread safety: any thread.
KAON_API void assign_all(std::span<const NDArray> targets, std::span<const NDArray> values,
                         std::source_location site = std::source_location::current());

// Values as NumPy prints them, then "<NDArray 2x3 @cpu(0)>". Block and throw as asvector does. Without options: those
// of set_print_options, which hold for the process; any thread may set them.
KAON_API std::string to_string(const NDArray& array);
KAON_API std::string to_string(const NDArray& array, const PrintOptions& options);
KAON_API void set_print_options(const PrintOptions& options);
KAON_API PrintOptions print_options();
KAON_API std::ostream& operator<<(std::ostream& out, const NDArray& array);

// "(2, 3)", "float32", "cpu(0)".
inline std::string to_string(const Shape& shape) { return shape.str(); }
inline std::string to_string(DType dtype) { return std::string(name_of(dtype)); }
inline std::string to_string(Device device) { return device.str(); }
KAON_API std::ostream& operator<<(std::ostream& out, const Shape& shape);
KAON_API std::ostream& operator<<(std::ostream& out, DType dtype);
KAON_API std::ostream& operator<<(std::ostream& out, Device device);

namespace ops {
template <class T>
struct TextFormatter : fmt::formatter<std::string> {
  fmt::format_context::iterator format(const T& value, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(to_string(value), context);
  }
};
}  // namespace ops

}  // namespace kaon

#include "kaon/ops/host_read.h"

namespace KAON_API kaon {

template <class T>
ops::ItemAwaiter<T> NDArray::item(std::source_location site) const {
  if (size() != 1) ops::throw_not_scalar(shape());
  return ops::ItemAwaiter<T>(*this, site);
}
template <class T>
ops::HostAwaiter<T> NDArray::host(std::source_location site) const {
  return ops::HostAwaiter<T>(*this, site);
}

}  // namespace kaon

// {} prints them as operator<< does.
template <>
struct fmt::formatter<kaon::Shape> : kaon::ops::TextFormatter<kaon::Shape> {};
template <>
struct fmt::formatter<kaon::DType> : kaon::ops::TextFormatter<kaon::DType> {};
template <>
struct fmt::formatter<kaon::Device> : kaon::ops::TextFormatter<kaon::Device> {};
template <>
struct fmt::formatter<kaon::NDArray> : kaon::ops::TextFormatter<kaon::NDArray> {};
