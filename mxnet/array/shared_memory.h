// Arrays in memory that other processes can map: DataLoader's workers send them so.
#pragma once

#include <memory>

#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

struct SharedMemory {
  explicit SharedMemory(int descriptor) : descriptor(descriptor) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  const int descriptor;
};

// A new array of undefined values. Throws MemoryError, with the system's reason.
std::unique_ptr<ArrayObject> in_shared_memory(const Shape& shape, DType dtype, Context context);

}  // namespace kaon::mxnet
