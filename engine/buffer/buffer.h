// Buffer: a block of memory with its var. Arrays that share memory share one.
#pragma once

#include <atomic>
#include <functional>
#include <source_location>

#include "kaon/engine/block_pool.h"
#include "kaon/engine/device.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/memory/memory_budget.h"
#include "kaon/engine/operation/var.h"

namespace kaon::engine {

// The memory is allocated when an operator first needs it, so pending operations hold none.
struct Buffer : RefCounted<Buffer> {
  static constexpr size_t block_unit = 16;
  // A pooled block that contains a Buffer, an object of the same lifetime, and memory for a few bytes.
  struct Home {
    void* block;
    size_t block_bytes;  // whole units
    void* memory;
    size_t memory_bytes;
  };

  Buffer(size_t bytes, Device device, Engine& engine)
      : bytes(bytes), engine(engine.ref()), device(device), budget(engine.active_budget()) {
    if (budget) budget->take(bytes);
    if (is_on_gpu()) take_gpu();
  }
  // In a pooled block; starts with one reference.
  Buffer(size_t bytes, Device device, Engine& engine, const Home& home)
      : RefCounted(1),
        bytes(bytes),
        engine(engine.ref()),
        device(device),
        offset_in_block(uint8_t(reinterpret_cast<char*>(this) - static_cast<char*>(home.block))),
        block_units(uint8_t(home.block_bytes / block_unit)),
        budget(engine.active_budget()) {
    if (budget) budget->take(bytes);
    if (is_on_gpu()) [[unlikely]] {
      take_gpu();
    } else if (bytes <= home.memory_bytes) {
      data = home.memory;
      drop = [](void*) noexcept {};
    }
  }
  // Wraps memory that `owner` keeps alive.
  Buffer(void* data, size_t bytes, Device device, Engine& engine, void* owner, void (*drop)(void*) noexcept)
      : data(data), bytes(bytes), engine(engine.ref()), device(device), owner(owner), drop(drop) {}
  // Memory of the program on a device, which is there already; `release`, if any, is called once nothing needs it.
  static IntrusivePtr<Buffer> over(void* data, size_t bytes, Device device, Engine& engine,
                                   std::function<void()> release);
  ~Buffer() {
    if (var.packed_state() != Var::PackedState::none) drop_packed();
    if (drop) {
      drop(owner);
    } else if (data) {
      free_data();
    }
    if (budget) budget->give(bytes);
  }

  // The memory. Called by the operator that holds a grant on `var`; debug builds refuse one that has not declared the
  // array. When the limit leaves none, finishes other work and gives cached memory back first; then throws MemoryError
  // with the operators that hold most.
  void* ensure() {
#ifndef NDEBUG
    check_declared();
#endif
    if (!data) allocate();
    return data;
  }

  // The same with at least that many bytes; a smaller memory is replaced and its contents are lost.
  void* ensure(size_t at_least) {
    if (at_least > bytes) {
      give_back();
      bytes = at_least;
    }
    return ensure();
  }

  // Frees memory of its own until ensure() is called again. Called by the operator that holds a write grant.
  void give_back() {
    if (data && (!drop || is_on_gpu())) free_data();
  }

  bool is_on_gpu() const noexcept { return device.type != DeviceType::cpu; }

  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void* block, size_t bytes) noexcept { pool_free(block, bytes); }
  void destroy() noexcept {
    void* b = block();
    const size_t size = block_bytes();
    this->~Buffer();
    pool_free(b, size);
  }

  // Called for each pushed operation that changes memory which a recorded computation may have read; not for the one
  // that fills a new array. Thread safety: any thread. Of writes that several threads push at once, one may go
  // uncounted, never all.
  void note_write(const std::source_location& site) noexcept {
    num_writes_.store(num_writes() + 1, std::memory_order_relaxed);
    last_write_.store(site, std::memory_order_relaxed);
  }
  uint32_t num_writes() const noexcept { return num_writes_.load(std::memory_order_relaxed); }
  std::source_location last_write() const noexcept { return last_write_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> num_writes_{0};  // next to the reference count

 public:
  Var var;
  void* data = nullptr;
  size_t bytes = 0;
  [[no_unique_address]] EngineRef engine;
  Device device;  // in the reference's padding, as the next two
  const uint8_t offset_in_block = 0;
  const uint8_t block_units = sizeof(Buffer) / block_unit;
  void* owner = nullptr;  // of a GPU: GpuMemory
  void (*drop)(void*) noexcept = nullptr;
  const IntrusivePtr<MemoryBudget> budget;
  const char* holder = nullptr;          // the operator that allocated the memory, if that is counted
  std::atomic<bool> is_programs{false};  // the program may write there between operations, unseen
  size_t block_bytes() const noexcept { return block_units * block_unit; }
  void* block() { return reinterpret_cast<char*>(this) - offset_in_block; }

 private:
  std::atomic<std::source_location> last_write_{};

  void check_declared() const;
  void take_gpu();
  void drop_packed() noexcept;
  void allocate();
  void free_data() noexcept;
};

// While it lives, the operation that this thread runs calls the program, which may touch any array after waiting for
// it: debug builds accept arrays that the operation has not declared.
class ProgramCall {
 public:
  ProgramCall() noexcept;
  ~ProgramCall();
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

 private:
  bool is_inside_;
};

}  // namespace kaon::engine
