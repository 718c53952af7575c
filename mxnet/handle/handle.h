// Handles: the objects behind the pointers that the C functions give out, one for each handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/ops/ndarray.h"

namespace kaon::mxnet {

// Counts the objects of a kind that exist, and those of all kinds: a program that frees its handles comes back to the
// count it began with.
namespace detail {
inline std::atomic<int64_t> all_live{0};
}
template <class T>
class Counted {
 public:
  Counted() {
    live_.fetch_add(1, std::memory_order_relaxed);
    detail::all_live.fetch_add(1, std::memory_order_relaxed);
  }
  Counted(const Counted&) : Counted() {}
  Counted& operator=(const Counted&) = default;
  ~Counted() {
    live_.fetch_sub(1, std::memory_order_relaxed);
    detail::all_live.fetch_sub(1, std::memory_order_relaxed);
  }
  static int64_t live() { return live_.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<int64_t> live_{0};
};

// The device that a program has named. MXNet has kinds of host memory (cpu_pinned, cpu_shared) that are ordinary host
// memory here; arrays keep the name.
enum class ContextKind : int { cpu = 1, gpu = 2, cpu_pinned = 3, cpu_shared = 5 };
struct Context {
  ContextKind kind = ContextKind::cpu;
  int index = 0;
  Device device() const { return kind == ContextKind::gpu ? gpu(index) : cpu(index); }
  static Context of(Device device) {
    return {device.type == DeviceType::gpu ? ContextKind::gpu : ContextKind::cpu, int(device.index)};
  }
  // Throws ValueError for a kind or an index that MXNet does not have.
  static Context numbered(int kind, int index);
  // "gpu(1)", "cpu_pinned(0)". Throws ValueError.
  static Context named(std::string_view text);
  friend bool operator==(const Context&, const Context&) = default;
};

struct SparseArray;  // handle/sparse_array.h

// Memory that another process can map: a file of the system's without a name.
struct SharedMemory;

// An array. While `array` is undefined and `sparse` is null, the handle is what MXNet calls "none": the first operator
// that writes it gives it shape, dtype and memory.
struct ArrayObject : Counted<ArrayObject> {
  explicit ArrayObject(NDArray array = {}) : array(std::move(array)) {
    if (this->array.defined()) context = Context::of(this->array.device());
  }
  ArrayObject(NDArray array, Context context) : array(std::move(array)), context(context) {}
  ArrayObject(std::shared_ptr<SparseArray> sparse, Context context);
  bool is_none() const { return !array.defined() && !sparse; }
  // As MXNet counts kinds of storage: -1 none, 0 dense, 1 row_sparse, 2 csr.
  int storage_number() const;
  NDArray array;  // dense
  std::shared_ptr<SparseArray> sparse;
  Context context;
  std::shared_ptr<SharedMemory> shared;  // of cpu_shared: where `array` is
};

// The object behind a handle. Throws ValueError for a null handle.
ArrayObject& array_of(void* handle);
// Its dense array. Throws ValueError where it is sparse or none; `what` begins the message.
const NDArray& dense_of(const ArrayObject& object, const char* what);
std::vector<ArrayObject*> arrays_of(void* const* handles, int count);

// A new handle, which is its receiver's.
inline void* new_handle(NDArray array, Context context) { return new ArrayObject(std::move(array), context); }

// The place that operations and errors name: a program in another language does not say its line.
inline constexpr std::source_location no_site{};

}  // namespace kaon::mxnet
