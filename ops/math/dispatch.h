// From a run-time dtype to a template argument.
#pragma once

#include <type_traits>

#include "kaon/engine/error.h"
#include "kaon/ops/dtype.h"

namespace kaon::ops {

[[noreturn]] void fail_unsupported_dtype(const char* op, DType dtype);

// Calls f.template operator()<T>() with the C++ type of a floating dtype. Throws TypeError for others.
template <class F>
decltype(auto) dispatch_float(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::float16: return f.template operator()<float16>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    default: fail_unsupported_dtype(op, dtype);
  }
}

// The same for every dtype but bool.
template <class F>
decltype(auto) dispatch_number(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::uint8: return f.template operator()<uint8_t>();
    case DType::int8: return f.template operator()<int8_t>();
    case DType::uint16: return f.template operator()<uint16_t>();
    case DType::int16: return f.template operator()<int16_t>();
    case DType::uint32: return f.template operator()<uint32_t>();
    case DType::int32: return f.template operator()<int32_t>();
    case DType::uint64: return f.template operator()<uint64_t>();
    case DType::int64: return f.template operator()<int64_t>();
    default: return dispatch_float(op, dtype, f);
  }
}

// The same with signed types for unsigned integers: for kernels that give both the same bits, as sums and products do.
template <class F>
decltype(auto) dispatch_signed(const char* op, DType dtype, F&& f) {
  switch (as_signed(dtype)) {
    case DType::int8: return f.template operator()<int8_t>();
    case DType::int16: return f.template operator()<int16_t>();
    case DType::int32: return f.template operator()<int32_t>();
    case DType::int64: return f.template operator()<int64_t>();
    default: return dispatch_float(op, dtype, f);
  }
}

// And for every dtype.
template <class F>
decltype(auto) dispatch_all(const char* op, DType dtype, F&& f) {
  if (dtype == DType::boolean) return f.template operator()<bool>();
  return dispatch_number(op, dtype, f);
}

// Dispatches by element width only, for kernels that move elements whatever their dtype.
template <class F>
decltype(auto) dispatch_width(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 8: return f.template operator()<uint64_t>();
    case 4: return f.template operator()<uint32_t>();
    case 2: return f.template operator()<uint16_t>();
    default: return f.template operator()<uint8_t>();
  }
}

// The type that a kernel accumulates in: float for 16-bit floats, itself otherwise.
template <class T>
struct Accumulate {
  using type = T;
};
template <>
struct Accumulate<float16> {
  using type = float;
};
template <>
struct Accumulate<bfloat16> {
  using type = float;
};
template <class T>
using accumulate_t = typename Accumulate<T>::type;

// The same, but the widest type of its kind for integers: uint64_t holds what int64_t does not.
template <class T>
using wide_t = std::conditional_t<is_floating(dtype_of<T>), accumulate_t<T>,
                                  std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;

// The type that sums and products wrap in.
template <class T>
using sum_t = std::conditional_t<is_floating(dtype_of<T>), accumulate_t<T>,
                                 std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

}  // namespace kaon::ops
