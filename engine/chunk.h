// Chunk: a piece of memory with its var. Arrays that share memory share one.
#pragma once

#include "kaon/engine/block_pool.h"
#include "kaon/engine/device.h"
#include "kaon/engine/engine.h"

namespace kaon {

// The memory is taken when an operator first asks for it, so pending operations hold none.
struct Chunk : RefCounted<Chunk>, Pooled {
  Chunk(size_t bytes, Device device, Engine& engine)
      : bytes(bytes), device(device), engine(&engine), limits(engine.active_limits()) {
    if (limits) limits->take(bytes);
  }
  // Wraps memory that `owner` keeps alive.
  Chunk(void* data, size_t bytes, Device device, Engine& engine, void* owner, void (*drop)(void*) noexcept)
      : data(data), bytes(bytes), device(device), engine(&engine), owner(owner), drop(drop) {}
  ~Chunk() {
    if (drop) {
      drop(owner);
    } else if (data) {
      free_data();
    }
    if (limits) limits->give(bytes);
  }

  // The memory. Called by the operator that holds a grant on `var`; in debug builds one that has not declared the array
  // is refused. When there is none within the limit, other work is finished first and what is cached is given back;
  // then throws MemoryError with the operators that hold most.
  void* ensure() {
#ifndef NDEBUG
    check_declared();
#endif
    if (!data) allocate();
    return data;
  }

  // Frees memory of its own until ensure() is called again. Called by the operator that holds a write grant.
  void give_back() {
    if (data && !drop) free_data();
  }

  Var var;
  void* data = nullptr;
  size_t bytes = 0;
  Device device;
  Engine* engine;
  void* owner = nullptr;
  void (*drop)(void*) noexcept = nullptr;
  const IntrusivePtr<Limits> limits;
  const char* holder = nullptr;  // the operator that took the memory, where that is counted

 private:
  void check_declared() const;
  void allocate();
  void free_data() noexcept;
};

}  // namespace kaon
