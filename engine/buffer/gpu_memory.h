// GpuMemory: a Buffer's memory on a GPU, and which streams use it.
#pragma once

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/device/gpu.h"

namespace kaon::engine {

// Thread safety: as its Buffer.
struct GpuMemory {
  explicit GpuMemory(Gpu& gpu) : gpu(gpu) {}
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  // The memory of a buffer that is on a GPU.
  static GpuMemory& of(const Buffer& buffer) { return *static_cast<GpuMemory*>(buffer.owner); }
  // Allocates for the operation that is being launched. Throws MemoryError; StateError outside of a launch.
  void* allocate(size_t bytes);
  void free() noexcept;  // its next user is ordered after its present ones

  Gpu& gpu;
  StreamUse use;
  void* block = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> lent;  // the owner of memory that is not the pool's

 private:
  void give_lent_back() noexcept;  // once the launched work that uses it has run
};

}  // namespace kaon::engine
