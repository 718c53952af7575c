#include "kaon/ops/nn/scratch.h"

#include <algorithm>
#include <memory>
#include <new>

namespace kaon {
namespace {

constexpr std::align_val_t line{64};
constexpr size_t largest_kept = size_t(32) << 20;

struct Free {
  void operator()(std::byte* p) const { ::operator delete(p, line); }
};

struct Arena {
  std::unique_ptr<std::byte, Free> memory;
  size_t capacity = 0;
  size_t used = 0;
  size_t wanted = 0;  // what would have sufficed: the next outermost scope grows to it
};
thread_local Arena arena;

}  // namespace

Scratch::Scratch(size_t bytes) : mark_(arena.used) {
  bytes = line_aligned(std::max<size_t>(bytes, 1));
  arena.wanted = std::max(arena.wanted, std::min(arena.used + bytes, largest_kept));
  if (arena.used == 0 && arena.capacity < arena.wanted) {
    arena.memory.reset();
    arena.capacity = 0;
    arena.memory.reset(static_cast<std::byte*>(::operator new(arena.wanted, line)));
    arena.capacity = arena.wanted;
  }
  if (arena.used + bytes <= arena.capacity) {
    data_ = arena.memory.get() + arena.used;
    arena.used += bytes;
  } else {
    data_ = static_cast<std::byte*>(::operator new(bytes, line));
    owned_ = true;
  }
}

Scratch::~Scratch() {
  if (owned_) {
    ::operator delete(data_, line);
  } else {
    arena.used = mark_;
  }
}

}  // namespace kaon
