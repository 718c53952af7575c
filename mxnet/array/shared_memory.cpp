#include "kaon/mxnet/array/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kaon/mxnet/array/host_copy.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::mxnet {

namespace {

[[noreturn]] void fail(const char* what, size_t bytes) {
  throw MemoryError(fmt::format("[shared memory] {} of {} bytes: {}", what, bytes, std::strerror(errno)));
}

size_t bytes_of(const Shape& shape, DType dtype) { return std::max<size_t>(size_t(shape.size()) * size_of(dtype), 1); }

// The memory behind a descriptor as an array, which unmaps it at its end.
NDArray map(int descriptor, const Shape& shape, DType dtype, Device device) {
  const size_t bytes = bytes_of(shape, dtype);
  struct stat file {};
  if (fstat(descriptor, &file) != 0) fail("cannot look at a descriptor", bytes);
  if (size_t(file.st_size) < bytes) {
    throw MemoryError(fmt::format("[shared memory] expected {} bytes, got {}", bytes, file.st_size));
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) fail("cannot map memory", bytes);
  try {
    return NDArray::from_blob(
        memory, shape, dtype, [memory, bytes] { munmap(memory, bytes); }, device);
  } catch (...) {
    munmap(memory, bytes);
    throw;
  }
}

}  // namespace

SharedMemory::~SharedMemory() { close(descriptor); }

std::unique_ptr<ArrayObject> in_shared_memory(const Shape& shape, DType dtype, Context context) {
  const size_t bytes = bytes_of(shape, dtype);
  const int descriptor = memfd_create("kaon", MFD_CLOEXEC);
  if (descriptor < 0) fail("cannot make memory", bytes);
  auto shared = std::make_shared<SharedMemory>(descriptor);
  if (ftruncate(descriptor, off_t(bytes)) != 0) fail("cannot make memory", bytes);
  auto object = std::make_unique<ArrayObject>(map(descriptor, shape, dtype, context.device()), context);
  object->shared = std::move(shared);
  return object;
}

}  // namespace kaon::mxnet

using namespace kaon;
using namespace kaon::mxnet;

int MXNDArrayGetSharedMemHandle(NDArrayHandle handle, int* shared_pid, int* shared_id) {
  return guard([&] {
    ArrayObject& object = array_of(handle);
    const NDArray& array = dense_of(object, "to shared memory");
    if (!object.shared) {  // a copy of the values
      auto copy = in_shared_memory(array.shape(), array.dtype(), {ContextKind::cpu_shared, 0});
      read_values(array, copy->array.node().data());
      object.shared = copy->shared;
    } else {
      array.wait_to_read();
    }
    *shared_pid = int(getpid());
    *shared_id = object.shared->descriptor;
  });
}

int MXNDArrayCreateFromSharedMemEx(int, int shared_id, const int* shape, int ndim, int dtype, NDArrayHandle* out) {
  return guard([&] {
    const SharedMemory received(shared_id);  // the memory stays mapped without it
    Shape dims;
    for (int i = 0; i < ndim; ++i) dims.push_back(shape[i]);
    const Context context{ContextKind::cpu_shared, 0};
    *out = new_handle(map(shared_id, dims, DType(dtype), context.device()), context);
  });
}
