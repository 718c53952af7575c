#include "memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "device.h"

namespace kaon_emulator {
namespace {

constexpr size_t arena_bytes = size_t(4) << 40, page = 4096;
constexpr size_t red_zone = 256;  // before a block; behind it up to the end of the page, and at least as much
constexpr unsigned char red = 0xA5;

size_t with_red_zones(size_t bytes) { return (bytes + 2 * red_zone + page - 1) / page * page; }

}  // namespace

DeviceAccess::DeviceAccess(bool is_allowed) {
  const int key = Memory::get().key();
  if (key < 0) return;
  before_ = pkey_get(key);
  pkey_set(key, is_allowed ? 0 : PKEY_DISABLE_ACCESS);
}
DeviceAccess::~DeviceAccess() {
  if (const int key = Memory::get().key(); key >= 0) pkey_set(key, before_);
}

Memory& Memory::get() {
  static auto* memory = new Memory;
  return *memory;
}

// Without a key this is an mprotect() like any.
Memory::Memory() : key_(pkey_alloc(0, PKEY_DISABLE_ACCESS)) {
  void* arena = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) std::abort();
  arena_ = next_ = reinterpret_cast<uintptr_t>(arena);
  arena_end_ = arena_ + arena_bytes;
}

void* Memory::allocate(int device, size_t bytes) {
  const size_t whole = with_red_zones(bytes);
  if (arena_end_ - next_ < whole) return nullptr;
  auto* begin = reinterpret_cast<unsigned char*>(next_);
  if (pkey_mprotect(begin, whole, PROT_READ | PROT_WRITE, key_) != 0) return nullptr;
  const DeviceAccess access;
  next_ += whole;
  std::memset(begin, red, red_zone);
  std::memset(begin + red_zone, 0xFF, bytes);
  std::memset(begin + red_zone + bytes, red, whole - red_zone - bytes);
  blocks_[reinterpret_cast<uintptr_t>(begin) + red_zone] = {bytes, device};
  return begin + red_zone;
}

void* Memory::allocate_pinned(size_t bytes) {
  void* block = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (block) {
    std::memset(block, 0xFF, bytes);
    blocks_[reinterpret_cast<uintptr_t>(block)] = {bytes, -1};
  }
  return block;
}

bool Memory::free(void* block) {
  const auto at = blocks_.find(reinterpret_cast<uintptr_t>(block));
  const bool is_whole = at->second.device < 0 || check(at->first, at->second);
  if (at->second.device < 0) {
    std::free(block);
  } else {
    void* begin = static_cast<unsigned char*>(block) - red_zone;
    const size_t whole = with_red_zones(at->second.bytes);
    madvise(begin, whole, MADV_DONTNEED);
    mprotect(begin, whole, PROT_NONE);
  }
  blocks_.erase(at);
  return is_whole;
}

const Block* Memory::block_at(const void* pointer) const {
  const auto at = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  return at == blocks_.end() ? nullptr : &at->second;
}

const Block* Memory::find(const void* pointer, size_t bytes, bool& is_wrong) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  is_wrong = address >= arena_ && address < arena_end_;
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  const size_t offset = address - begin;
  if (offset < block.bytes) is_wrong = bytes > block.bytes - offset;
  return offset < block.bytes && !is_wrong ? &block : nullptr;
}

bool Memory::check(uintptr_t begin, const Block& block) const {
  const DeviceAccess access;
  const auto* data = reinterpret_cast<const unsigned char*>(begin);
  const size_t behind = with_red_zones(block.bytes) - red_zone - block.bytes;
  const auto is_red = [&](const unsigned char* zone, size_t bytes) {
    return zone[0] == red && std::memcmp(zone, zone + 1, bytes - 1) == 0;
  };
  if (is_red(data - red_zone, red_zone) && is_red(data + block.bytes, behind)) return true;
  Emulator::get().complain(fmt::format("memory beside a block of {} bytes at {} of device {} has been overwritten",
                                       block.bytes, static_cast<const void*>(data), block.device));
  return false;
}

bool Memory::check_red_zones(int device) const {
  for (const auto& [begin, block] : blocks_) {
    if (block.device == device && !check(begin, block)) return false;
  }
  return true;
}

}  // namespace kaon_emulator

using namespace kaon_emulator;

namespace {

cudaError_t allocate(Device& device, void** block, size_t bytes) {
  *block = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > Emulator::get().memory_limit || device.allocated > Emulator::get().memory_limit - bytes) {
    return cudaErrorMemoryAllocation;
  }
  *block = Memory::get().allocate(device.index, bytes);
  if (!*block) return cudaErrorMemoryAllocation;
  device.allocated += bytes;
  return cudaSuccess;
}

// The device whose block begins at `block`; null after a complaint.
Device* owner(const void* block, const char* call) {
  const Block* found = Memory::get().block_at(block);
  if (!found || found->device < 0) {
    Emulator::get().complain(fmt::format("{}({}): no block of device memory begins there", call, block));
    return nullptr;
  }
  return Emulator::get().device(found->device);
}

void release(Device& device, void* block) {
  const size_t bytes = Memory::get().block_at(block)->bytes;
  if (!Memory::get().free(block)) device.fail(cudaErrorIllegalAddress);
  device.allocated -= bytes;
}

}  // namespace

cudaError_t cudaMalloc(void** block, size_t bytes) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  return failed(allocate(*device, block, bytes));
}

// Waits for the device, as CUDA's does.
cudaError_t cudaFree(void* block) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (!block) return cudaSuccess;
  if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  Device* device = owner(block, "cudaFree");
  if (!device) return failed(cudaErrorInvalidValue);
  device->wait(lock);
  if (device->error != cudaSuccess) return failed(device->error);
  if (!owner(block, "cudaFree")) return failed(cudaErrorInvalidValue);
  release(*device, block);
  return failed(device->error);
}

// Memory that streams have yet to free counts until they have; where it lacks, this waits for it.
cudaError_t cudaMallocAsync(void** block, size_t bytes, cudaStream_t handle) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (stream->capture) return failed(cudaErrorNotSupported);  // CUDA has memory nodes; Kaon uses none
  Device& device = *stream->device;
  error = allocate(device, block, bytes);
  if (error == cudaErrorMemoryAllocation) {
    device.wait(lock);
    error = allocate(device, block, bytes);
  }
  return failed(error);
}

cudaError_t cudaFreeAsync(void* block, cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (stream->capture) return failed(cudaErrorNotSupported);
  if (!block) return cudaSuccess;
  Device* device = owner(block, "cudaFreeAsync");
  if (!device) return failed(cudaErrorInvalidValue);
  return failed(enqueue(stream, [device, block] {
    std::lock_guard lock(Emulator::get().mutex);
    if (owner(block, "cudaFreeAsync")) {
      release(*device, block);
    } else {
      device->fail(cudaErrorIllegalAddress);
    }
  }));
}

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  *block = bytes ? Memory::get().allocate_pinned(bytes) : nullptr;
  return failed(bytes && !*block ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocHost(void** block, size_t bytes) { return cudaHostAlloc(block, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* block) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  if (!block) return cudaSuccess;
  if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  const auto is_pinned = [&] {
    const Block* found = Memory::get().block_at(block);
    return found && found->device < 0;
  };
  if (!is_pinned()) {
    Emulator::get().complain(fmt::format("cudaFreeHost({}): no block of pinned memory begins there", block));
    return failed(cudaErrorInvalidValue);
  }
  for (int i = 0; i < Emulator::get().device_count(); ++i) Emulator::get().device(i)->wait(lock);
  if (!is_pinned()) return failed(cudaErrorInvalidValue);
  Memory::get().free(block);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  *total = Emulator::get().memory_limit;
  *free = *total > device->allocated ? *total - device->allocated : 0;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  bool is_wrong = false;
  const Block* block = Memory::get().find(pointer, 1, is_wrong);
  void* address = const_cast<void*>(pointer);
  if (!block) {
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, is_wrong ? nullptr : address};
  } else if (block->device < 0) {
    *attributes = {cudaMemoryTypeHost, 0, address, address};
  } else {
    *attributes = {cudaMemoryTypeDevice, block->device, address, nullptr};
  }
  return cudaSuccess;
}
