// Caches of the layers over cuBLASLt and cuDNN.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "kaon/engine/device/cuda/check.h"
#include "kaon/ops/view.h"

namespace kaon::cuda {

// The device that this thread launches on.
inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "device");
  return device;
}

// One T for each device, made by the first thread that asks. Thread safety: any thread.
template <class T>
class PerDevice {
 public:
  T& of(int device) {
    std::lock_guard lock(mutex_);
    return values_[device];
  }

 private:
  std::mutex mutex_;
  std::map<int, T> values_;
};

// The key of a choice: device, sizes, dtype, alignments. Unused places are 0.
using Key = std::array<int64_t, 32>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0;
    for (int64_t v : key) h = (h ^ uint64_t(v)) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
    return h;
  }
};

// Objects by key; all are dropped when there are too many. Thread safety: any thread.
template <class T>
class BoundedCache {
 public:
  // make() returns a shared_ptr<const T>. Two threads may make the same object at once.
  template <class Make>
  std::shared_ptr<const T> obtain(const Key& key, Make&& make) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
    }
    std::shared_ptr<const T> made = make();
    std::lock_guard lock(mutex_);
    if (values_.size() >= most) values_.clear();
    return values_.emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr size_t most = 4096;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const T>, KeyHash> values_;
};

// Scratch memory as NVIDIA's libraries want it: at a multiple of 256 bytes. Null for 0 bytes.
inline void* library_workspace(KernelContext& c, size_t bytes) {
  constexpr uintptr_t unit = 256;
  if (bytes == 0) return nullptr;
  const auto at = reinterpret_cast<uintptr_t>(c.run.workspace(bytes + unit));
  return reinterpret_cast<void*>((at + unit - 1) / unit * unit);
}

}  // namespace kaon::cuda
