// Storage: a caching allocator for the memory of arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/engine/api.h"

namespace KAON_API kaon {

namespace engine {
enum class ForkOrder : uint8_t;
template <class T, ForkOrder order>
class ProcessWide;
}  // namespace engine

struct StorageStats {
  size_t live = 0;      // bytes handed out, as rounded to the size of their block
  size_t cached = 0;    // bytes kept for reuse
  size_t reserved = 0;  // bytes taken from the system: live + cached when nothing is being allocated or freed
  size_t peak = 0;      // highest live so far
};

// Size classes (four per doubling), each with a free list; freed blocks are reused, since a fresh page costs more than
// most operators. Blocks are 64-byte aligned; those from 1 MiB up use 2 MB pages when the system has them. Once the
// system has refused memory, most freed blocks go back to it, since the rest of the process needs memory too. Thread
// safety: any thread.
class Storage {
 public:
  static Storage& cpu();

  // Never null, also for 0 bytes. Gives cached memory back before it throws MemoryError (requested, live, cached,
  // limit).
  void* allocate(size_t bytes);
  void* try_allocate(size_t bytes) noexcept;      // the same, but nullptr
  void free(void* block, size_t bytes) noexcept;  // `bytes` as allocated
  void trim() noexcept;                           // gives cached memory back to the system
  // The system's memory, not counted here. Gives cached memory back when the system has none; nullptr: still none.
  void* from_system(size_t alignment, size_t bytes) noexcept;
  void set_limit(size_t bytes) noexcept;  // of live bytes; 0: none
  StorageStats stats() const noexcept;

 private:
  struct Impl;
  template <class T, engine::ForkOrder order>
  friend class engine::ProcessWide;
  Storage();
  void lock();
  void unlock();
  Impl* impl_;
};

}  // namespace kaon
