// Memory between pages that nobody may touch. A build with KAON_GUARD_PAGES gives every array and every scratch block
// some of its own: a read or write beyond them, or after they are freed, ends the process. This also checks code that a
// library generates at run time, which AddressSanitizer does not.
#pragma once

#include <cstddef>

namespace kaon::engine {

#ifdef KAON_GUARD_PAGES
constexpr bool guards_pages = true;
#else
constexpr bool guards_pages = false;
#endif

// 64-byte aligned, filled with 0xa5. The last line of three blocks in four ends at such a page, every fourth block
// begins at one. nullptr: the system has refused it; each block takes up to three of Linux's `vm.max_map_count`.
// Thread safety: any thread.
void* guarded_allocate(size_t bytes) noexcept;
// Ends the process, and says where, if something has been written into the rest of the block's pages.
void guarded_free(void* block) noexcept;

}  // namespace kaon::engine
