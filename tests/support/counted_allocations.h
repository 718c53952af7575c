// Counts what a program asks of malloc. To be included by one source of a program, which it gives a malloc of its own;
// operator new calls that. Not beside sanitizers, which have theirs.
#pragma once

#include <cstdlib>  // says whether the library is glibc

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KAON_COUNTS_ALLOCATIONS 1

#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <vector>

namespace kaon::test::allocations {

// All threads are counted while it is true.
inline constinit std::atomic<bool> counting{false};
inline constinit std::atomic<long> count{0};
// While it is true, a thread that asks for memory is not counted from then on.
inline constinit std::atomic<bool> ignoring_threads{false};

// Where one was asked for.
struct Asker {
  static constexpr int most_frames = 48;
  void* frames[most_frames];
  int size = 0;
};
inline Asker askers[8];  // the first of the count

struct Library {
  uintptr_t begin, end;
};
inline std::vector<Library> ignored_libraries;

// What libraries whose file names begin so, and what they call, ask for is not counted from now on. Returns whether any
// is loaded. Not while it counts.
inline bool ignore_libraries(std::initializer_list<std::string_view> names) {
  void* frame;
  backtrace(&frame, 1);  // the first one loads a library
  ignored_libraries.clear();
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        std::string_view name = info->dlpi_name;
        name.remove_prefix(name.rfind('/') + 1);
        const auto& names = *static_cast<const std::initializer_list<std::string_view>*>(data);
        if (std::none_of(names.begin(), names.end(), [&](auto n) { return name.starts_with(n); })) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          ignored_libraries.push_back({begin, begin + info->dlpi_phdr[i].p_memsz});
        }
        return 0;
      },
      &names);
  return !ignored_libraries.empty();
}

inline bool is_ignored(const Asker& asker) {
  return std::any_of(asker.frames, asker.frames + asker.size, [](const void* frame) {
    const auto at = reinterpret_cast<uintptr_t>(frame);
    return std::any_of(ignored_libraries.begin(), ignored_libraries.end(),
                       [&](const Library& l) { return at >= l.begin && at < l.end; });
  });
}

inline void record() {
  static thread_local bool is_ignored_thread = false;
  if (ignoring_threads.load(std::memory_order_relaxed)) is_ignored_thread = true;
  if (is_ignored_thread || !counting.load(std::memory_order_relaxed)) return;
  static thread_local bool is_recording = false;  // backtrace itself allocates
  if (is_recording) return;
  is_recording = true;
  Asker asker;
  asker.size = backtrace(asker.frames, Asker::most_frames);
  if (!is_ignored(asker)) {
    const long place = count.fetch_add(1, std::memory_order_relaxed);
    if (place < long(std::size(askers))) askers[place] = asker;
  }
  is_recording = false;
}

// Whether a call of malloc is counted. Starts the count again.
inline bool is_working() {
  count = 0;
  counting = true;
  void* (*volatile ask)(size_t) = std::malloc;  // volatile: else no call may remain
  std::free(ask(100));
  counting = false;
  return count.exchange(0) == 1;
}

}  // namespace kaon::test::allocations

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept { return kaon::test::allocations::record(), __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) noexcept { return kaon::test::allocations::record(), __libc_calloc(n, bytes); }
void* realloc(void* p, size_t bytes) noexcept { return kaon::test::allocations::record(), __libc_realloc(p, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return kaon::test::allocations::record(), __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  kaon::test::allocations::record();
  *out = __libc_memalign(alignment, bytes);
  return *out || !bytes ? 0 : ENOMEM;
}
}

#endif
