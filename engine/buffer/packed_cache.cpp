#include "kaon/engine/buffer/packed_cache.h"

#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/memory/shortage.h"

namespace kaon::engine {
namespace {

using Kept = std::vector<std::shared_ptr<const PackedData>>;

// Chosen by address, so that operations on different weights do not contend for one lock.
struct Shard {
  std::mutex mutex;
  std::unordered_map<const Buffer*, Kept> kept;
};

std::array<Shard, 16>& shards() { return ProcessWide<Shards<Shard>>::get().all; }

Shard& shard_of(const Buffer& buffer) { return shards()[reinterpret_cast<uintptr_t>(&buffer) / 64 % shards().size()]; }

[[maybe_unused]] const bool g_is_droppable = (add_droppable_cache(drop_packed), true);

std::shared_ptr<const PackedData> find(const Kept& kept, FunctionRef<bool(const PackedData&)> is_it) {
  for (const auto& d : kept) {
    if (is_it(*d)) return d;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const PackedData> find_or_pack(Buffer& buffer, FunctionRef<bool(const PackedData&)> is_it,
                                               FunctionRef<std::shared_ptr<const PackedData>()> make) {
  Shard& shard = shard_of(buffer);
  Kept outdated;  // destroyed outside the lock
  {
    std::lock_guard lock(shard.mutex);
    if (buffer.var.packed_state() == Var::PackedState::holds) {
      if (auto found = find(shard.kept[&buffer], is_it)) return found;
    } else {
      if (buffer.var.packed_state() == Var::PackedState::outdated) outdated = std::exchange(shard.kept[&buffer], {});
      buffer.var.set_packed();
    }
  }
  // not under the lock: it allocates, and may run other operations to free memory. The read grant excludes writes.
  std::shared_ptr<const PackedData> made = make();
  if (!made) return nullptr;
  std::lock_guard lock(shard.mutex);
  Kept& kept = shard.kept[&buffer];
  if (auto found = find(kept, is_it)) return found;
  kept.push_back(made);
  return made;
}

void drop_packed() noexcept {
  for (Shard& shard : shards()) {
    std::unordered_map<const Buffer*, Kept> dropped;
    std::lock_guard lock(shard.mutex);
    dropped.swap(shard.kept);
  }
}

void drop_packed(const Buffer& buffer) noexcept {
  Shard& shard = shard_of(buffer);
  Kept dropped;
  std::lock_guard lock(shard.mutex);
  if (const auto at = shard.kept.find(&buffer); at != shard.kept.end()) {
    dropped = std::move(at->second);
    shard.kept.erase(at);
  }
}

}  // namespace kaon::engine
