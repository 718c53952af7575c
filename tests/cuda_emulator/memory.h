// Device memory and pinned host memory. Device memory comes from address space of its own, which is never used twice:
// so a pointer into it is known, and what touches freed memory faults. So does code of the host that touches device
// memory, where the processor has protection keys. Fresh memory holds NaN, and red zones lie around each block.
// Thread safety: under the emulator's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace kaon_emulator {

struct Block {
  size_t bytes = 0;
  int device = -1;  // -1: pinned host memory
};

// Lets this thread touch device memory while it lives, or keeps it from it.
class DeviceAccess {
 public:
  explicit DeviceAccess(bool is_allowed = true);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  int before_ = 0;
};

class Memory {
 public:
  static Memory& get();
  int key() const { return key_; }           // of protection; -1: there is none
  void* allocate(int device, size_t bytes);  // null when there is none; does not count
  void* allocate_pinned(size_t bytes);
  // Complains about an overwritten red zone; false then.
  bool free(void* block);
  // The block that begins here; null if none does.
  const Block* block_at(const void* pointer) const;
  // The block that [pointer, pointer + bytes) lies in. is_wrong: it lies partly outside, or in freed device memory.
  // Null and not wrong: memory of the host that is not pinned.
  const Block* find(const void* pointer, size_t bytes, bool& is_wrong) const;
  // Of all blocks of a device; complains and returns false if one has been overwritten.
  bool check_red_zones(int device) const;

 private:
  Memory();
  bool check(uintptr_t begin, const Block& block) const;
  std::map<uintptr_t, Block> blocks_;
  uintptr_t arena_ = 0, next_ = 0, arena_end_ = 0;
  int key_;
};

}  // namespace kaon_emulator
