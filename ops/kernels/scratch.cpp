#include "kaon/ops/kernels/scratch.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kaon/engine/memory/guarded_memory.h"

namespace kaon::ops {
namespace {

using engine::guards_pages;

constexpr size_t line = 64;
constexpr size_t largest_kept = size_t(64) << 20;

struct Free {
  void operator()(std::byte* p) const { guards_pages ? engine::guarded_free(p) : std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Kernels walk this memory in large steps, so it uses huge pages when the system has them.
Memory allocate(size_t bytes) {
  constexpr size_t huge_page = size_t(2) << 20;
  const size_t alignment = bytes < huge_page ? line : huge_page;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  Memory memory(
      static_cast<std::byte*>(guards_pages ? engine::guarded_allocate(bytes) : std::aligned_alloc(alignment, rounded)));
  if (!memory) throw std::bad_alloc();
  if (alignment == huge_page && !guards_pages) madvise(memory.get(), rounded, MADV_HUGEPAGE);
  return memory;
}

struct Arena {
  Memory memory;
  size_t capacity = 0;
  size_t used = 0;
  size_t wanted = 0;  // bytes that would have sufficed: the next outermost scope grows to this
};
thread_local Arena arena;

}  // namespace

Scratch::Scratch(size_t bytes) : mark_(arena.used) {
  bytes = line_aligned(std::max<size_t>(bytes, 1));
  arena.wanted = std::max(arena.wanted, std::min(arena.used + bytes, largest_kept));
  if (!guards_pages && arena.used == 0 && arena.capacity < arena.wanted) {
    arena.memory.reset();
    arena.capacity = 0;
    arena.memory = allocate(arena.wanted);
    arena.capacity = arena.wanted;
  }
  if (arena.used + bytes <= arena.capacity) {
    data_ = arena.memory.get() + arena.used;
    arena.used += bytes;
  } else {
    data_ = allocate(bytes).release();
    owned_ = true;
  }
}

Scratch::~Scratch() {
  if (owned_) {
    Free()(data_);
  } else {
    arena.used = mark_;
  }
}

}  // namespace kaon::ops
