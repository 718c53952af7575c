#include <fmt/format.h>

#include <cstring>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"
#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/numpy/npy_format.h"

namespace kaon::interchange {
namespace {

std::string_view npy_name(DType dtype) {
  switch (dtype) {
    case DType::float32: return "<f4";
    case DType::float64: return "<f8";
    case DType::float16: return "<f2";
    case DType::bfloat16: return "<V2";
    case DType::uint8: return "|u1";
    case DType::int8: return "|i1";
    case DType::uint16: return "<u2";
    case DType::int16: return "<i2";
    case DType::uint32: return "<u4";
    case DType::int32: return "<i4";
    case DType::uint64: return "<u8";
    case DType::int64: return "<i8";
    case DType::boolean: return "|b1";
  }
  return {};
}

// Padded, so that the elements begin at a multiple of 64 bytes.
std::string header_of(const NDArray& array, const npy::SaveOptions& options) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", npy_name(array.dtype()),
                                 options.fortran_order ? "True" : "False", array.shape().str());
  const size_t head = options.version == 1 ? 10 : 12;
  text.append((64 - (head + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  const auto length = uint32_t(text.size());
  std::string all = "\x93NUMPY";
  all += char(options.version);
  all += '\0';
  all.append(reinterpret_cast<const char*>(&length), options.version == 1 ? 2 : 4);
  return all + text;
}

}  // namespace

void check_npy(const NDArray& array, const npy::SaveOptions& options) {
  if (!array.defined()) throw ValueError("[npy::save] the array is undefined");
  if (options.version < 1 || options.version > 3) {
    throw ValueError(fmt::format("[npy::save] version must be 1, 2 or 3, got {}", options.version));
  }
}

void write_npy(const NDArray& array, const npy::SaveOptions& options,
               engine::FunctionRef<void(std::string_view, std::string_view)> sink) {
  const std::string header = header_of(array, options);
  const Shape& shape = array.shape();
  if (!options.fortran_order || shape.ndim() < 2) {
    return with_bytes(array, [&](std::string_view bytes) { sink(header, bytes); });
  }
  // the elements of the transposed array, one after another
  const int n = shape.ndim();
  Shape reversed = shape;
  int64_t strides[Shape::max_ndim] = {};
  int64_t stride = 1;
  for (int i = n - 1; i >= 0; --i) {
    reversed[n - 1 - i] = shape[i];
    strides[n - 1 - i] = stride;
    stride *= shape[i];
  }
  with_bytes(array, [&](std::string_view bytes) {
    std::string turned(bytes.size(), '\0');
    gather(bytes.data(), reversed, strides, size_of(array.dtype()), turned.data());
    sink(header, turned);
  });
}

}  // namespace kaon::interchange

namespace kaon::npy {

using namespace interchange;

void save(const std::filesystem::path& file, const NDArray& array, const SaveOptions& options) {
  check_npy(array, options);
  engine::AtomicFile out(file);
  write_npy(array, options, [&](std::string_view header, std::string_view bytes) {
    out.write(header.data(), header.size());
    out.write(bytes.data(), bytes.size());
  });
  out.commit();
}

std::string save_to_bytes(const NDArray& array, const SaveOptions& options) {
  check_npy(array, options);
  std::string all;
  write_npy(array, options, [&](std::string_view header, std::string_view bytes) {
    all += header;
    all += bytes;
  });
  return all;
}

}  // namespace kaon::npy
