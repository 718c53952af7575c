// GpuMemory: what a Chunk on a GPU has beside its address: where streams use it.
#pragma once

#include "kaon/engine/buffer/chunk.h"
#include "kaon/engine/device/gpu.h"

namespace kaon {

// Thread safety: as its Chunk.
struct GpuMemory {
  explicit GpuMemory(Gpu& gpu) : gpu(gpu) {}
  ~GpuMemory() { free(); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  // Of a chunk on a GPU.
  static GpuMemory& of(const Chunk& chunk) { return *static_cast<GpuMemory*>(chunk.owner); }
  // For the operation that is being launched. Throws MemoryError; StateError when none is.
  void* allocate(size_t bytes);
  void free() noexcept;  // whoever gets it next comes after those who use it

  Gpu& gpu;
  StreamUse use;
  void* block = nullptr;
  size_t bytes = 0;
  // of memory that somebody else owns, in place of the pool's
  std::shared_ptr<void> lent;
};

}  // namespace kaon
