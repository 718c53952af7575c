// Device memory and pinned host memory. Device memory comes from address space of its own, which is never used twice:
// so a pointer into it is known, and what touches freed memory faults. Fresh memory holds NaN, and red zones lie around
// each block. Thread safety: under the emulator's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace kaon_emulator {

struct Block {
  size_t bytes = 0;
  int device = -1;  // -1: pinned host memory
};

class Memory {
 public:
  static Memory& get();
  void* allocate(int device, size_t bytes);  // null when there is none; does not count
  void* allocate_pinned(size_t bytes);
  // Complains about an overwritten red zone; false then.
  bool free(void* block);
  // The block that begins here; null if none does.
  const Block* block_at(const void* pointer) const;
  // The block that [pointer, pointer + bytes) lies in. is_wrong: it lies partly outside, or in freed device memory. Null
  // and not wrong: memory of the host that is not pinned.
  const Block* find(const void* pointer, size_t bytes, bool& is_wrong) const;
  // Of all blocks of a device; complains and returns false if one has been overwritten.
  bool check_red_zones(int device) const;

 private:
  Memory();
  bool check(uintptr_t begin, const Block& block) const;
  std::map<uintptr_t, Block> blocks_;
  uintptr_t arena_ = 0, next_ = 0, arena_end_ = 0;
};

}  // namespace kaon_emulator
