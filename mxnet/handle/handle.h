// Handles: the objects behind the pointers that the C functions give out, one for each handle.
#pragma once

#include <atomic>
#include <cstdint>

#include "kaon/ops/ndarray.h"

namespace kaon::mxnet {

// Counts the objects of a kind that exist: a program that frees its handles comes back to the count it began with.
template <class T>
class Counted {
 public:
  Counted() { live_.fetch_add(1, std::memory_order_relaxed); }
  Counted(const Counted&) : Counted() {}
  Counted& operator=(const Counted&) = default;
  ~Counted() { live_.fetch_sub(1, std::memory_order_relaxed); }
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
};

// An array. While `array` is undefined the handle is what MXNet calls "none": the first operator that writes it gives
// it shape, dtype and memory.
struct ArrayObject : Counted<ArrayObject> {
  explicit ArrayObject(NDArray array = {}) : array(std::move(array)) {
    if (this->array.defined()) context = Context::of(this->array.device());
  }
  ArrayObject(NDArray array, Context context) : array(std::move(array)), context(context) {}
  NDArray array;
  Context context;
};

// The object behind a handle. Throws ValueError for a null handle.
ArrayObject& array_of(void* handle);

}  // namespace kaon::mxnet
