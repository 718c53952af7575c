// ThreadContext: engine, device, priority, recording, modes and block path of this thread or coroutine. And EngineRef,
// a reference to an engine that may end before it. DeviceScope: where arrays are made. PriorityScope: what runs first.
#pragma once

#include <atomic>
#include <cstdint>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"

namespace KAON_API kaon {

class Engine;
struct OpLabel;

enum class Priority : uint8_t { high, normal, low };

namespace engine {
class MemoryBudget;
struct OpNode;

// Holds the address of an engine. Places are never freed: an engine that ends leaves its place to a later one with
// another number.
struct EnginePlace {
  explicit EnginePlace(Engine& (*ended)()) : ended(ended) {}
  Engine& (*const ended)();  // what a reference is to whose engine has ended
  std::atomic<Engine*> engine{nullptr};
  std::atomic<uint32_t> number{0};  // of the engine that is here now
};

// A dereference costs two loads and a comparison; nothing is counted. Once the engine has ended, the reference is to
// Engine::ended(). Ending an engine while another thread uses its arrays is a data race of the program.
// Thread safety: immutable: any thread.
class EngineRef {
 public:
  constexpr EngineRef() noexcept = default;  // to none
  EngineRef(EnginePlace& place, uint32_t number) noexcept : place_(&place), number_(number) {}
  explicit operator bool() const noexcept { return place_ != nullptr; }
  Engine& get() const {
    // relaxed: the program orders an engine's end and the uses of its arrays
    if (place_->number.load(std::memory_order_relaxed) != number_) [[unlikely]]
      return place_->ended();
    return *place_->engine.load(std::memory_order_relaxed);
  }
  Engine& operator*() const { return get(); }
  Engine* operator->() const { return &get(); }
  friend bool operator==(const EngineRef& a, const EngineRef& b) noexcept {
    return a.place_ == b.place_ && a.number_ == b.number_;
  }

 private:
  EnginePlace* place_ = nullptr;
  uint32_t number_ = 0;
};

// A coroutine saves it at every suspension and restores it when it resumes, on whatever thread.
struct ThreadContext {
  EngineRef engine{};           // none: the process default
  Device device{};              // default device of creation functions
  void* interceptor = nullptr;  // ops::Interceptor: the tape or the tracer that sees calls
  bool recording = false;
  bool training = false;
  const char* block_path = nullptr;    // path of the running block
  const OpLabel* composing = nullptr;  // of the operator whose parts are being called: their operations bear it
  bool tracing = false;                // a block is being traced: its arrays have no values
  bool promotes = false;               // operators bring arrays of several dtypes to one (ops/promotion/)
  Priority priority = Priority::normal;
  bool in_task = false;            // a push must not block: the coroutine's next suspension point waits instead
  MemoryBudget* budget = nullptr;  // of the innermost EngineScope::with_budget; nullptr: the engine's
  Engine* op_engine = nullptr;     // of the operation that this coroutine is part of
  const OpNode* op = nullptr;      // that operation; nullptr in when_any, whose losers may outlive it
};

inline thread_local constinit ThreadContext t_context{};

KAON_THREAD_LOCAL_READ inline ThreadContext& thread_context() {
#ifdef __clang__
  asm volatile("");  // without it clang merges two calls
#endif
  return t_context;
}
}  // namespace engine

// The device of this thread's, or coroutine's, innermost DeviceScope; cpu(0) outside. While a block runs it is that of
// the block's first argument, as in MXNet. Nothing blocks.
inline Device current_device() { return engine::thread_context().device; }

// While it exists, functions that make arrays on this thread or coroutine make them on `device` unless they are told
// another one. MXNet's `with mx.gpu(0):`. Thread safety: one thread; one coroutine, which may suspend meanwhile.
class DeviceScope {
 public:
  explicit DeviceScope(Device device) : outer_(current_device()) { engine::thread_context().device = device; }
  ~DeviceScope() { engine::thread_context().device = outer_; }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device outer_;
};

// While it exists, what this thread or coroutine pushes has this priority, unless the push says another one: of the
// operations that are ready, an engine's threads take those of the highest first. One that runs is not interrupted, and
// GPUs take their work in the order in which it was pushed.
//
//     PriorityScope scope(Priority::high);
//     NDArray scores = net(request);  // before the operations of a training that have not begun
//
// Thread safety: one thread; one coroutine, which may suspend meanwhile.
class PriorityScope {
 public:
  explicit PriorityScope(Priority priority) : outer_(engine::thread_context().priority) {
    engine::thread_context().priority = priority;
  }
  ~PriorityScope() { engine::thread_context().priority = outer_; }
  PriorityScope(const PriorityScope&) = delete;
  PriorityScope& operator=(const PriorityScope&) = delete;

 private:
  Priority outer_;
};

}  // namespace kaon
