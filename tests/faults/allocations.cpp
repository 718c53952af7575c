#include "allocations.h"

#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>

#include "moments.h"

namespace kaon::test {
namespace {

constinit std::atomic<long> g_left{0};  // until one fails; 0: none is going to
constinit std::atomic<bool> g_goes_on{false};
constinit std::atomic<bool> g_has_failed{false};
constinit std::atomic<long> g_alive{0};
constinit std::atomic<uint32_t> g_round{1};   // every_thread_has_memory() begins another one
constinit thread_local uint32_t t_lacks = 0;  // the round in which this thread has no memory
constinit thread_local bool t_is_asking = false;

// Libraries that end the process, or use a null pointer, when they get no memory.
constexpr std::string_view delicate[] = {"libdnnl", "libgomp", "libgcc_s", "ld-linux", "libc.so"};
struct Range {
  uintptr_t begin = 0, end = 0;
};
constinit std::array<Range, 16> g_ranges{};
constinit size_t g_num_ranges = 0;

int add_ranges(dl_phdr_info* info, size_t, void*) {
  const std::string_view name = info->dlpi_name;
  if (std::none_of(std::begin(delicate), std::end(delicate),
                   [&](std::string_view d) { return name.find(d) != name.npos; })) {
    return 0;
  }
  Range r{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    r.begin = std::min(r.begin, begin);
    r.end = std::max(r.end, begin + info->dlpi_phdr[i].p_memsz);
  }
  if (g_num_ranges < g_ranges.size()) g_ranges[g_num_ranges++] = r;
  return 0;
}

// Is this allocation made by one of them, or by what it calls?
bool is_delicate() {
  void* frames[64];
  const int n = backtrace(frames, 64);
  // main() and threads begin in the C library: the outermost frames do not count
  for (int i = 0; i < n - 3; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(frames[i]);
    for (size_t k = 0; k < g_num_ranges; ++k) {
      if (at >= g_ranges[k].begin && at < g_ranges[k].end) return true;
    }
  }
  return false;
}

bool is_to_fail() noexcept {
  moment();
  if (t_is_asking) return false;
  bool fails = t_lacks == g_round.load(std::memory_order_relaxed);
  if (!fails) {
    long left = g_left.load(std::memory_order_relaxed);
    if (left == 0) return false;
    while (left > 1 && !g_left.compare_exchange_weak(left, left - 1)) {
    }
    if (left != 1) return false;
    fails = true;
  }
  t_is_asking = true;
  fails = !is_delicate();
  t_is_asking = false;
  if (!fails) return false;
  if (t_lacks != g_round.load(std::memory_order_relaxed)) {
    g_has_failed.store(true);
    if (!g_goes_on.load()) {
      long one = 1;
      if (!g_left.compare_exchange_strong(one, 0)) return false;  // another thread had it
    }
  }
  return true;
}

// Before main: the first backtrace loads a library.
[[maybe_unused]] const bool g_is_ready = [] {
  is_delicate();
  dl_iterate_phdr(add_ranges, nullptr);
  return true;
}();

}  // namespace

FailingAllocations::FailingAllocations(long n, Lack lack) {
  g_has_failed = false;
  g_goes_on = lack == Lack::from_then_on;
  g_left = n;
}
void FailingAllocations::stop() noexcept { g_left = 0; }
bool FailingAllocations::has_failed() noexcept { return g_has_failed; }

NoMemoryHere::NoMemoryHere() noexcept { t_lacks = g_round; }
NoMemoryHere::~NoMemoryHere() { t_lacks = 0; }
void lose_memory_of_this_thread() noexcept { t_lacks = g_round; }
void every_thread_has_memory() noexcept { ++g_round; }

long allocations_alive() noexcept { return g_alive; }

}  // namespace kaon::test

using kaon::test::g_alive;
using kaon::test::is_to_fail;

// The program's malloc takes the place of the library's; operator new calls it.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* p);
}

namespace {
template <class Take>
void* counted(Take take) {
  void* p = is_to_fail() ? nullptr : take();
  if (p) {
    g_alive.fetch_add(1, std::memory_order_relaxed);
  } else {
    errno = ENOMEM;
  }
  return p;
}
}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  return counted([&] { return __libc_malloc(bytes); });
}
void* calloc(size_t n, size_t bytes) {
  return counted([&] { return __libc_calloc(n, bytes); });
}
void* realloc(void* p, size_t bytes) {
  if (is_to_fail()) {
    errno = ENOMEM;
    return nullptr;
  }
  void* made = __libc_realloc(p, bytes);
  if (!p && made) g_alive.fetch_add(1, std::memory_order_relaxed);
  if (p && !made && bytes == 0) g_alive.fetch_sub(1, std::memory_order_relaxed);
  return made;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return counted([&] { return __libc_memalign(alignment, bytes); });
}
void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* p = counted([&] { return __libc_memalign(alignment, bytes); });
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) {
  if (p) g_alive.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(p);
}
}
