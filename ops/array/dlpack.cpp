#include "kaon/ops/dlpack.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "kaon/engine/device/backend.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/dlpack_structs.h"

namespace kaon::dlpack {

using namespace ops;

namespace {

namespace dl = ops::dlpack;

dl::DataType data_type(DType t) {
  const auto bits = uint8_t(8 * size_of(t));
  switch (t) {
    case DType::boolean: return {dl::boolean, bits, 1};
    case DType::bfloat16: return {dl::bfloat, bits, 1};
    case DType::float16:
    case DType::float32:
    case DType::float64: return {dl::floating, bits, 1};
    default: return {is_unsigned(t) ? dl::unsigned_integer : dl::integer, bits, 1};
  }
}

DType dtype_of_tensor(const dl::DataType& type) {
  for (const DType t : all_dtypes) {
    const dl::DataType ours = data_type(t);
    if (type.code == ours.code && type.bits == ours.bits && type.lanes == 1) return t;
  }
  throw TypeError(fmt::format("[dlpack] elements of type code {} with {} bits and {} lanes have no dtype here",
                              type.code, type.bits, type.lanes));
}

Device device_of(const dl::Device& device) {
  const bool is_host = device.type == dl::on_cpu || device.type == dl::on_cuda_host;
  if (!is_host && device.type != dl::on_cuda) {
    throw DeviceError(
        fmt::format("[dlpack] expected a tensor of the CPU (1) or of CUDA (2, 3), got device type {}", device.type));
  }
  return is_host ? cpu() : gpu(int(device.id));
}

// Throws ValueError unless the elements are one after another.
void check_row_major(const dl::Tensor& t, const Shape& shape) {
  if (!t.strides || shape.size() == 0) return;
  int64_t expected = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) {
      throw ValueError(
          fmt::format("[dlpack] stride {} of axis {} of a tensor of shape {}: expected {}, as row-major "
                      "arrays have; make it contiguous first",
                      t.strides[i], i, shape.str(), expected));
    }
    expected *= t.shape[i];
  }
}

// `Managed` is one of the two structs.
template <class Managed>
NDArray take(Managed* managed) {
  if (!managed) throw ValueError("[dlpack] null is no tensor");
  const dl::Tensor& t = managed->tensor;
  const DType dtype = dtype_of_tensor(t.dtype);
  if (t.ndim < 0 || t.ndim > Shape::max_ndim) {
    throw ValueError(
        fmt::format("[dlpack] a tensor of {} dimensions: arrays have at most {}", t.ndim, Shape::max_ndim));
  }
  Shape shape;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] < 0) throw ValueError(fmt::format("[dlpack] dimension {} of axis {}", t.shape[i], i));
    shape.push_back(t.shape[i]);
  }
  check_row_major(t, shape);
  char* data = static_cast<char*>(t.data);
  return NDArray::from_blob(
      data ? data + t.byte_offset : data, shape, dtype,
      [managed] {
        if (managed->deleter) managed->deleter(managed);
      },
      device_of(t.device));
}

// What a tensor made here keeps.
template <class Managed>
struct Export {
  NDArray array;
  std::vector<int64_t> shape, strides;
  Managed managed{};
};

template <class Managed>
Managed* give(const NDArray& array) {
  array.wait_to_read();
  auto made = std::make_unique<Export<Managed>>();
  made->array = array;
  const Shape& shape = array.shape();
  made->shape.assign(shape.begin(), shape.end());
  made->strides.resize(made->shape.size());
  int64_t stride = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    made->strides[size_t(i)] = stride;
    stride *= shape[i];
  }
  const Device device = array.device();
  made->managed.tensor = {.data = array.size() ? array.node().data() : nullptr,
                          .device = {device.type == DeviceType::cpu ? dl::on_cpu : dl::on_cuda,
                                     device.type == DeviceType::cpu ? 0 : int32_t(device.index)},
                          .ndim = shape.ndim(),
                          .dtype = data_type(array.dtype()),
                          .shape = made->shape.data(),
                          .strides = made->strides.data(),
                          .byte_offset = 0};
  array.node().buffer->is_programs.store(true, std::memory_order_relaxed);
  made->managed.manager = made.get();
  made->managed.deleter = [](Managed* self) { delete static_cast<Export<Managed>*>(self->manager); };
  return &made.release()->managed;
}

}  // namespace

NDArray from(DLManagedTensor* tensor) { return take(tensor); }

NDArray from(DLManagedTensorVersioned* tensor) {
  if (tensor && tensor->version.major != 1) {
    throw ValueError(fmt::format("[dlpack] expected major version 1, got {}", tensor->version.major));
  }
  if (tensor && tensor->flags & dl::is_read_only) {
    throw ValueError("[dlpack] the tensor is read-only, and arrays can be written; copy it first");
  }
  return take(tensor);
}

DLManagedTensor* to(const NDArray& array) { return give<DLManagedTensor>(array); }

DLManagedTensorVersioned* to_versioned(const NDArray& array) {
  auto* tensor = give<DLManagedTensorVersioned>(array);
  tensor->version = {1, 0};
  tensor->flags = 0;
  return tensor;
}

}  // namespace kaon::dlpack
