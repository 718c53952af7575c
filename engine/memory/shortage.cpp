#include "kaon/engine/memory/shortage.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/engine/base/process_wide.h"

namespace kaon::engine {
namespace {

struct Caches : WithMutex {
  std::vector<void (*)() noexcept> drop;
};
Caches& caches() { return ProcessWide<Caches>::get(); }

struct Holders : WithMutex {
  std::map<std::string_view, size_t> bytes;
};
Holders& holders() { return ProcessWide<Holders>::get(); }

}  // namespace

void add_droppable_cache(void (*drop)() noexcept) {
  std::lock_guard lock(caches().mutex);
  caches().drop.push_back(drop);
}

void drop_caches() noexcept {
  for (size_t i = 0;; ++i) {
    void (*drop)() noexcept = nullptr;
    {
      std::lock_guard lock(caches().mutex);
      if (i >= caches().drop.size()) return;
      drop = caches().drop[i];
    }
    drop();
  }
}

bool add_held(const char* holder, size_t bytes) noexcept {
  std::lock_guard lock(holders().mutex);
  try {
    holders().bytes[holder] += bytes;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void subtract_held(const char* holder, size_t bytes) noexcept {
  std::lock_guard lock(holders().mutex);
  holders().bytes.find(holder)->second -= bytes;
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

}  // namespace kaon::engine
