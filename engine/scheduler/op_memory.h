// OpMemory: memory for operations, from the storage; when that has none, other operations finish first.
#pragma once

#include <cstddef>

#include "kaon/engine/engine.h"

namespace kaon::engine {

// Thread safety: any thread.
class OpMemory {
 public:
  explicit OpMemory(Engine::Impl& engine) : engine_(engine) {}

  void* allocate(size_t bytes);  // throws MemoryError naming the largest holders

 private:
  void* allocate_after_others(size_t bytes);  // nullptr when their ends do not free enough

  Engine::Impl& engine_;
};

}  // namespace kaon::engine
