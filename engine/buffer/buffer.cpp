#include "kaon/engine/buffer/buffer.h"

#include <fmt/format.h>

#include <memory>
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

IntrusivePtr<Buffer> Buffer::over(void* data, size_t bytes, Device device, Engine& engine,
                                  std::function<void()> release) {
  struct Release {
    std::function<void()> call;
    ~Release() {
      if (call) call();
    }
  };
  // Until a buffer has it, failing here must not release what the caller still has.
  auto owner = std::make_unique<Release>();
  IntrusivePtr<Buffer> buffer;
  if (device.type == DeviceType::cpu) {
    buffer = IntrusivePtr<Buffer>(new Buffer(data, bytes, device, engine, owner.get(),
                                             [](void* o) noexcept { delete static_cast<Release*>(o); }));
    owner.release()->call = std::move(release);
  } else {
    buffer = IntrusivePtr<Buffer>(new Buffer(bytes, device, engine));
    GpuMemory& memory = GpuMemory::of(*buffer);
    std::shared_ptr<Release> lent = std::move(owner);
    lent->call = std::move(release);
    memory.block = buffer->data = data;
    memory.bytes = bytes;
    memory.lent = std::move(lent);
  }
  buffer->is_programs.store(true, std::memory_order_relaxed);
  return buffer;
}

ProgramCall::ProgramCall() noexcept : is_inside_(t_running && !std::exchange(t_running->calls_program, true)) {}
ProgramCall::~ProgramCall() {
  if (is_inside_) t_running->calls_program = false;
}

void Buffer::check_declared() const {
  if (!t_running || t_running->calls_program || t_running->engine != engine->impl() || !t_running->op->counted) return;
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
