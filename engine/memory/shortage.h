// When memory is short: caches that can go, and which operators hold the most.
#pragma once

#include <cstddef>
#include <string>

namespace kaon::engine {

// Caches that later operations can fill again. `drop` is called when there is no memory. Thread safety: any thread.
void add_droppable_cache(void (*drop)() noexcept);
void drop_caches() noexcept;

// Bytes of large arrays by the operator that allocated them, for the text of a MemoryError. Thread safety: any thread.
// False: there is no memory for counting, and nothing has changed. `holder` lives as long as the process.
bool add_held(const char* holder, size_t bytes) noexcept;
void subtract_held(const char* holder, size_t bytes) noexcept;
std::string largest_holders();  // "; largest holders: dot 4096 bytes, relu 128 bytes", or empty

}  // namespace kaon::engine
