// The structs of DLPack's ABI, version 1.0 (dmlc.github.io/dlpack), with its names: programs pass them between
// libraries that each have a declaration of their own.
#pragma once

#include <cstdint>

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace kaon::ops::dlpack {

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, id;
};
constexpr int32_t on_cpu = 1, on_cuda = 2, on_cuda_host = 3;
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
enum Code : uint8_t { integer = 0, unsigned_integer = 1, floating = 2, bfloat = 4, boolean = 6 };
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
constexpr uint64_t is_read_only = 1;

}  // namespace kaon::ops::dlpack

struct DLManagedTensor {
  kaon::ops::dlpack::Tensor tensor;
  void* manager;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  kaon::ops::dlpack::Version version;
  void* manager;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  kaon::ops::dlpack::Tensor tensor;
};
