#include "kaon/engine/memory/guarded_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"

namespace kaon::engine {
namespace {

constexpr size_t line = 64;
constexpr int filling = 0xa5;

struct Pages {
  std::byte *begin, *end;  // those that may be touched
  size_t bytes;            // of the block
};
struct Blocks : WithMutex {
  std::unordered_map<void*, Pages> pages;
  size_t count = 0;
};
Blocks& blocks() { return ProcessWide<Blocks>::get(); }

size_t guard_bytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}
size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void unmap(const Pages& p) { munmap(p.begin - guard_bytes(), size_t(p.end - p.begin) + 2 * guard_bytes()); }

// The first byte of these that has been written to.
const std::byte* find_written(const std::byte* begin, const std::byte* end) {
  const auto* found = std::find_if(begin, end, [](std::byte b) { return b != std::byte(filling); });
  return found == end ? nullptr : found;
}

}  // namespace

void* guarded_allocate(size_t bytes) noexcept {
  const size_t lines = rounded_up(std::max<size_t>(bytes, 1), line), own = rounded_up(lines, guard_bytes());
  void* all = mmap(nullptr, own + 2 * guard_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all) + guard_bytes();
  const Pages pages{begin, begin + own, bytes};
  try {
    if (mprotect(begin, own, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(begin, filling, own);
    std::lock_guard lock(blocks().mutex);
    std::byte* const block = ++blocks().count % 4 == 0 ? begin : pages.end - lines;
    blocks().pages.emplace(block, pages);
    return block;
  } catch (const std::bad_alloc&) {
    unmap(pages);
    return nullptr;
  }
}

void guarded_free(void* block) noexcept {
  if (!block) return;
  Pages pages;
  {
    std::lock_guard lock(blocks().mutex);
    const auto found = blocks().pages.find(block);
    if (found == blocks().pages.end()) {
      fmt::print(stderr, "[memory] {} is freed, which is no block, or has been freed before\n", block);
      std::abort();
    }
    pages = found->second;
    blocks().pages.erase(found);
  }
  auto* const first = static_cast<std::byte*>(block);
  const std::byte* written = find_written(pages.begin, first);
  if (!written) written = find_written(first + pages.bytes, pages.end);
  if (written) {
    fmt::print(stderr, "[memory] byte {} of a block of {} bytes has been written to\n", written - first, pages.bytes);
    std::abort();
  }
  unmap(pages);
}

}  // namespace kaon::engine
