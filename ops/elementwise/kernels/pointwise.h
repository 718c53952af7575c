// Runs pointwise kernels over whole arrays: splits them into pieces, converts 16-bit floats, streams large outputs.
#pragma once

#include <array>
#include <type_traits>

#include "kaon/ops/math/tile.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The same as TileFn for one other dtype.
using TypedFn = void (*)(const void* attrs, const void* const* in, void* out, size_t n);

// The kernels of one pointwise operator. Entries of dtypes that infer refuses are nullptr.
struct PointwiseKernels {
  TileFn float32 = nullptr;
  TypedFn float64 = nullptr;
  std::array<TypedFn, size_t(DType::uint64) + 1> integers{};  // and of bool, by dtype

  // make.template operator()<T>() is the kernel of integers T. `shared`: that of signed integers is for unsigned ones
  // too, as it gives the same bits.
  template <bool shared = false, class Make>
  constexpr void set_integers(const Make& make) {
    const auto set = [&]<class Signed, class Unsigned>(Signed, Unsigned) {
      integers[size_t(dtype_of<Signed>)] = make.template operator()<Signed>();
      integers[size_t(dtype_of<Unsigned>)] = make.template operator()<std::conditional_t<shared, Signed, Unsigned>>();
    };
    set(int8_t(), uint8_t());
    set(int16_t(), uint16_t());
    set(int32_t(), uint32_t());
    set(int64_t(), uint64_t());
  }
  constexpr TypedFn& boolean() { return integers[size_t(DType::boolean)]; }
  TypedFn typed(DType dtype) const {  // not for the 16- and 32-bit floats
    return dtype == DType::float64 ? float64 : integers[size_t(dtype)];
  }
};

inline constexpr size_t pointwise_tile = 1024;         // elements: the buffers of a tile stay in L1
inline constexpr int64_t pointwise_grain = 64 * 1024;  // elements per piece
inline constexpr int max_pointwise_inputs = 16;

// n elements of `dtype`: out = op(in...). All arrays are dense and in the same order.
void run_pointwise(const PointwiseKernels& kernels, const void* attrs, DType dtype, const void* const* in, int inputs,
                   void* out, int64_t n, RunContext& run);

// The same for all inputs and output 0 of a kernel call.
void run_pointwise(const PointwiseKernels& kernels, const void* attrs, KernelContext& c);

// One piece on this thread. `stream`: write a float32 output past the caches; stream_flush() after the last piece.
void run_piece(const PointwiseKernels& kernels, const void* attrs, DType dtype, const void* const* in, int inputs,
               void* out, size_t n, bool stream);

// Whether an output of n elements is so large that it should be stored past the caches.
bool wants_stream(DType dtype, int64_t n, int inputs);

}  // namespace kaon::ops
