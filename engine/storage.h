// Memory of arrays: a caching allocator, and Chunk, the piece of memory that arrays share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kaon/engine/block_pool.h"
#include "kaon/engine/device.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/engine/var.h"

namespace kaon {

class Engine;

struct StorageStats {
  size_t live = 0;    // bytes handed out
  size_t cached = 0;  // bytes kept for reuse
  size_t peak = 0;    // highest live so far
};

// Size classes (four per doubling), each with a free list; what was freed is handed out again, since a fresh page
// costs more than most operators. Blocks are 64-byte aligned; those from 1 MiB up lie on 2 MB pages where the
// system gives them. Thread safety: any thread.
class Storage {
 public:
  static Storage& cpu();

  // Never null, also for 0 bytes. Throws MemoryError (requested, live, limit) after giving back what is cached.
  void* allocate(size_t bytes);
  void free(void* block, size_t bytes) noexcept;  // `bytes` as allocated
  void trim() noexcept;                           // gives cached memory back to the system
  void set_limit(size_t bytes) noexcept;          // of live bytes; 0: none
  StorageStats stats() const noexcept;

 private:
  struct Impl;
  Storage();
  Impl* impl_;
};

// Memory with its var. The memory is taken when an operator first asks for it, so pending operations hold none.
struct Chunk : RefCounted<Chunk>, Pooled {
  Chunk(size_t bytes, Device device, Engine& engine) : bytes(bytes), device(device), engine(&engine) {}
  // Wraps memory that `owner` keeps alive.
  Chunk(void* data, size_t bytes, Device device, Engine& engine, void* owner, void (*drop)(void*) noexcept)
      : data(data), bytes(bytes), device(device), engine(&engine), owner(owner), drop(drop) {}
  ~Chunk() {
    if (drop) {
      drop(owner);
    } else if (data) {
      Storage::cpu().free(data, bytes);
    }
  }

  // The memory. Called by the operator that holds a grant on `var`.
  void* ensure() {
    if (!data) data = Storage::cpu().allocate(bytes);
    return data;
  }

  // Frees memory of its own until ensure() is called again. Called by the operator that holds a write grant.
  void give_back() {
    if (data && !drop) Storage::cpu().free(std::exchange(data, nullptr), bytes);
  }

  Var var;
  void* data = nullptr;
  size_t bytes = 0;
  Device device;
  Engine* engine;
  void* owner = nullptr;
  void (*drop)(void*) noexcept = nullptr;
};

}  // namespace kaon
