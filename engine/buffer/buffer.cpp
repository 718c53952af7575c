#include "kaon/engine/buffer/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/buffer/packed_cache.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/storage.h"

namespace kaon {
namespace {

// Bytes of large arrays by the operator that allocated them, for the message of a MemoryError. Counting costs little
// beside writing that much memory.
constexpr size_t counted_from = 64 * 1024;
struct Holders : WithMutex {
  std::map<std::string_view, size_t> bytes;
};
Holders& holders() { return ProcessWide<Holders>::get(); }

const char* running_operator() {
  const OpNode* op = t_running ? t_running->op : thread_context().op;
  return op ? op->label.name : "the program";
}

std::string largest_holders() {
  std::vector<std::pair<size_t, std::string_view>> sorted;
  {
    std::lock_guard lock(holders().mutex);
    for (const auto& [name, bytes] : holders().bytes) {
      if (bytes > 0) sorted.emplace_back(bytes, name);
    }
  }
  std::sort(sorted.rbegin(), sorted.rend());
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < 5; ++i) {
    text += fmt::format("{} {} {} bytes", i ? "," : "; largest holders:", sorted[i].second, sorted[i].first);
  }
  return text;
}

}  // namespace

void Buffer::check_declared() const {
  if (!t_running || t_running->engine != engine->impl() || !t_running->op->counted) return;
  const OpNode& op = *t_running->op;
  if (op.access_to(var)) return;
  throw StateError(fmt::format("[{}] the operation touches an array of {} bytes that it has not declared;{}",
                               op.label.name, bytes, describe(op.label)));
}

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
    data = engine->impl()->allocate(bytes);
  }
  if (bytes < counted_from) return;
  std::lock_guard lock(holders().mutex);
  try {
    const char* by = running_operator();
    holders().bytes[by] += bytes;
    holder = by;
  } catch (const std::bad_alloc&) {  // it is not counted
  }
}

void Buffer::free_data() noexcept {
  void* block = std::exchange(data, nullptr);
  if (is_on_gpu()) {
    GpuMemory::of(*this).free();
  } else {
    Storage::cpu().free(block, bytes);
  }
  if (!holder) return;
  std::lock_guard lock(holders().mutex);
  holders().bytes.find(std::exchange(holder, nullptr))->second -= bytes;
}

void* Engine::Impl::allocate(size_t bytes) {
  if (void* data = Storage::cpu().try_allocate(bytes)) return data;
  drop_packed();
  if (void* data = allocate_after_others(bytes)) return data;
  try {
    return Storage::cpu().allocate(bytes);
  } catch (const MemoryError& e) {
    throw_memory_error([&] { return e.what() + largest_holders(); });
  }
}

void* Engine::Impl::allocate_after_others(size_t bytes) {
  // An operation run here while another one waits for memory may have to wait as well, on the same stack: bounded.
  constexpr int deepest = 8;
  static thread_local int t_depth = 0;
  static thread_local std::chrono::steady_clock::time_point until;  // of the outermost one
  if (t_depth == deepest) return nullptr;
  if (t_depth++ == 0) until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  void* data = nullptr;
  const int own = t_slot_of == this ? 1 : 0;
  for (bool others = true; others && !data && std::chrono::steady_clock::now() < until;) {
    others = help([] { return false; });
    if (!others) {
      // operations on other threads may free memory, unless they wait for it like this one
      lacking.fetch_add(own);
      if (active.load() - spinning.load() > lacking.load()) {
        others = true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      lacking.fetch_sub(own);
    }
    data = Storage::cpu().try_allocate(bytes);
  }
  --t_depth;
  return data;
}

}  // namespace kaon
