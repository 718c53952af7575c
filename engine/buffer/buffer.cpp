#include "kaon/engine/buffer/buffer.h"

#include <fmt/format.h>

#include <utility>

#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/buffer/packed_cache.h"
#include "kaon/engine/memory/shortage.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/storage.h"

namespace kaon::engine {
namespace {

// Larger arrays count in largest_holders(). Counting costs little beside writing that much memory.
constexpr size_t counted_from = 64 * 1024;

const char* running_operator() {
  const OpNode* op = t_running ? t_running->op : thread_context().op;
  return op ? op->label.name : "the program";
}

}  // namespace

void Buffer::check_declared() const {
  if (!t_running || t_running->engine != engine->impl() || !t_running->op->counted) return;
  const OpNode& op = *t_running->op;
  if (op.access_to(var)) return;
  throw StateError(fmt::format("[{}] the operation touches an array of {} bytes that it has not declared;{}",
                               op.label.name, bytes, describe(op.label)));
}

void Buffer::drop_packed() noexcept { engine::drop_packed(*this); }

void Buffer::take_gpu() {
  owner = new GpuMemory(Gpu::of(device));
  drop = [](void* memory) noexcept { delete static_cast<GpuMemory*>(memory); };
}

void Buffer::allocate() {
  if (is_on_gpu()) {
    try {
      data = GpuMemory::of(*this).allocate(bytes);
    } catch (const MemoryError& e) {
      throw_memory_error([&] { return e.what() + largest_holders(); });
    }
  } else {
    data = engine->impl()->memory.allocate(bytes);
  }
  if (bytes < counted_from) return;
  const char* by = running_operator();
  if (add_held(by, bytes)) holder = by;
}

void Buffer::free_data() noexcept {
  void* block = std::exchange(data, nullptr);
  if (is_on_gpu()) {
    GpuMemory::of(*this).free();
  } else {
    Storage::cpu().free(block, bytes);
  }
  if (holder) subtract_held(std::exchange(holder, nullptr), bytes);
}

}  // namespace kaon::engine
