// Arrays of the tensors in files.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/interchange/file/file_bytes.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::onnx::format {

namespace {

Shape shape_of(const std::vector<int64_t>& dims, const std::string& name) {
  if (dims.size() > size_t(Shape::max_ndim)) {
    throw IoError(
        fmt::format("[onnx] tensor {} has {} dimensions, at most {} are possible", name, dims.size(), Shape::max_ndim));
  }
  return Shape(std::span<const int64_t>(dims));
}

}  // namespace

int64_t Tensor::size() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Shape Tensor::shape() const { return shape_of(dims, name); }

NDArray Tensor::values() const {
  const auto dtype = dtype_of(type);
  if (!dtype)
    throw TypeError(fmt::format("[onnx] tensor {} has the element type {}, which no array has", name, name_of(type)));
  const Shape s = shape();
  const int64_t n = s.size();
  if (n == 0) return NDArray::empty(s, *dtype);
  const int bits = bits_of(type);
  if (bits < 8) {
    std::vector<uint8_t> codes(static_cast<size_t>(n));
    const bool packed = bytes.size() == size_t((n * bits + 7) / 8) && bits != 6;
    for (int64_t i = 0; i < n; ++i) {
      if (!packed) {
        codes[size_t(i)] = uint8_t(bytes[size_t(i)]);
        continue;
      }
      const int64_t bit = i * bits;  // the first element in the lowest bits
      codes[size_t(i)] = uint8_t(uint8_t(bytes[size_t(bit / 8)]) >> (bit % 8) & ((1 << bits) - 1));
    }
    return NDArray::from(codes.data(), codes.size(), s, DType::uint8);
  }
  // the mapping is private, so that writing to the array changes no file
  char* const data = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
  return interchange::array_over(data, s, *dtype, [this] { return [keeper = keeper] {}; });
}

NDArray dense(const SparseTensor& tensor) {
  const Shape s = shape_of(tensor.dims, tensor.values.name);
  const NDArray values = tensor.values.values();
  const std::vector<int64_t> indices = tensor.indices.values().asvector<int64_t>();
  const int64_t n = values.size(), size = s.size();
  if (tensor.indices.type != ElementType::int64 ||
      (int64_t(indices.size()) != n && int64_t(indices.size()) != n * s.ndim())) {
    throw IoError(
        fmt::format("[onnx] sparse tensor {}: {} indices of {} values", tensor.values.name, indices.size(), n));
  }
  if (size > (int64_t(1) << 26))
    throw IoError(fmt::format("[onnx] sparse tensor {} is too large: {}", tensor.values.name, s.str()));
  const size_t width = size_of(values.dtype());
  NDArray own = NDArray::empty(s, values.dtype());
  std::byte* const to = size ? static_cast<std::byte*>(own.node().data()) : nullptr;
  std::fill_n(to, size_t(size) * width, std::byte(0));
  const std::byte* from = tensor.values.bytes.data();
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0;
    if (int64_t(indices.size()) == n && tensor.indices.dims.size() == 1) {
      at = indices[size_t(i)];
    } else {
      for (int d = 0; d < s.ndim(); ++d) {
        const int64_t index = indices[size_t(i * s.ndim() + d)];
        if (index < 0 || index >= s[d]) at = -1;
        if (at >= 0) at = at * s[d] + index;
      }
    }
    if (at < 0 || at >= size)
      throw IoError(fmt::format("[onnx] sparse tensor {}: an index outside of {}", tensor.values.name, s.str()));
    std::memcpy(to + size_t(at) * width, from + size_t(i) * width, width);
  }
  return own;
}

}  // namespace kaon::onnx::format
