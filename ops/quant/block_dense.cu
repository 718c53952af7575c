// Dense layers of weights of a few bits on CUDA: few rows of data straight from the codes, a warp for each result; more
// of them by cuBLASLt, on weights that are unpacked for the call.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/quant/kernels/block_dense.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t most_direct_rows = 16;

__device__ float real_at(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::float64: return float(static_cast<const double*>(data)[i]);
    case DType::float16: return float(static_cast<const float16*>(data)[i]);
    case DType::bfloat16: return float(static_cast<const bfloat16*>(data)[i]);
    default: return static_cast<const float*>(data)[i];
  }
}

// Weight, scales and zero points, as op::BlockQuantizedDense has them.
struct Blocks {
  int bits = 4;
  int64_t block = 0, rows = 0, columns = 0, blocks = 0, row_bytes = 0, zero_bytes = 0;
  const uint8_t* codes = nullptr;
  const void *scales = nullptr, *zeros = nullptr;  // zeros null: 2^(bits - 1)
  DType scale_dtype = DType::float32, zero_dtype = DType::float32;

  // `first`: the weight's input.
  Blocks(const KernelContext& c, int first, int64_t its_columns, int its_bits, int64_t its_block, bool has_zeros)
      : bits(its_bits), block(its_block), rows(c.in(first).shape[0]), columns(its_columns) {
    blocks = (columns + block - 1) / block;
    row_bytes = blocks * block * bits / 8, zero_bytes = (blocks * bits + 7) / 8;
    codes = c.in(first).as<const uint8_t>();
    scales = c.in(first + 1).data, scale_dtype = c.in(first + 1).dtype;
    if (has_zeros) zeros = c.in(first + 2).data, zero_dtype = c.in(first + 2).dtype;
  }
  __device__ int code(const uint8_t* row, int64_t j) const {
    const int in_a_byte = 8 / bits;
    return row[j / in_a_byte] >> (j % in_a_byte * bits) & ((1 << bits) - 1);
  }
  __device__ float scale(int64_t row, int64_t b) const { return real_at(scales, scale_dtype, row * blocks + b); }
  __device__ float zero(int64_t row, int64_t b) const {
    if (!zeros) return float(1 << (bits - 1));
    if (zero_dtype != DType::uint8) return real_at(zeros, zero_dtype, row * blocks + b);
    return float(code(static_cast<const uint8_t*>(zeros) + row * zero_bytes, b));
  }
};

// Bytes [at, at + 4), the first lowest.
__device__ uint32_t word_at(const uint8_t* at) {
  if (reinterpret_cast<uintptr_t>(at) % 4 == 0) return *reinterpret_cast<const uint32_t*>(at);
  return uint32_t(at[0]) | uint32_t(at[1]) << 8 | uint32_t(at[2]) << 16 | uint32_t(at[3]) << 24;
}

template <class T>
struct UnpackFn {
  Blocks w;
  T* out;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / w.columns, j = i % w.columns, b = j / w.block;
    out[i] = T((float(w.code(w.codes + row * w.row_bytes, j)) - w.zero(row, b)) * w.scale(row, b));
  }
};

// Result i of (m, rows) by the threads of a warp, each of which takes words of four bytes of the codes.
template <class T>
__global__ void direct_kernel(Blocks w, const T* x, const T* bias, T* y, int64_t results) {
  constexpr unsigned all_lanes = 0xffffffffu;
  const int64_t step = cuda::item_step() / 32;
  const int lane = int(threadIdx.x % 32), in_a_word = 32 / w.bits;
  for (int64_t i = cuda::first_item() / 32; i < results; i += step) {
    const int64_t row = i % w.rows;
    const T* const own = x + i / w.rows * w.columns;
    const uint8_t* const codes = w.codes + row * w.row_bytes;
    float total = 0;
    for (int64_t j = int64_t(lane) * in_a_word; j < w.columns; j += 32 * in_a_word) {
      const int64_t b = j / w.block, end = j + in_a_word < w.columns ? j + in_a_word : w.columns;
      const float zero = w.zero(row, b);
      const uint32_t word = word_at(codes + j * w.bits / 8);
      float sum = 0;
      for (int64_t k = j; k < end; ++k) {
        const uint32_t code = word >> (int(k - j) * w.bits) & ((1u << w.bits) - 1);
        sum += (float(code) - zero) * float(own[k]);
      }
      total += sum * w.scale(row, b);
    }
    for (int distance = 16; distance > 0; distance /= 2) total += __shfl_xor_sync(all_lanes, total, distance);
    if (lane == 0) y[i] = T(bias ? total + float(bias[row]) : total);
  }
}

template <class T>
void multiply_blocks(KernelContext& c, const Blocks& w, const T* bias) {
  const int64_t results = c.out().size(), m = results / w.rows;
  if (m <= most_direct_rows) {
    cuda::launch(c, direct_kernel<T>, cuda::blocks_for(results * 32), unsigned(cuda::block), w, c.in(0).as<const T>(),
                 bias, c.out().as<T>(), results);
    return;
  }
  auto* const unpacked = static_cast<T*>(c.run.workspace(size_t(w.rows * w.columns) * sizeof(T)));
  cuda::for_each(c, w.rows * w.columns, UnpackFn<T>{w, unpacked});
  cuda::multiply(c, {.a = c.in(0).data,
                     .b = unpacked,
                     .c = c.out().data,
                     .dtype = c.out().dtype,
                     .m = m,
                     .n = w.rows,
                     .k = w.columns,
                     .transpose_b = true,
                     .epilogue = {.shift = bias}});
}

}  // namespace

void run_cuda(const op::BlockQuantizedDense& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const Blocks w(c, 1, c.in(0).shape.back(), op.bits, op.block_size, op.has_zeros);
  const void* const bias = op.no_bias ? nullptr : c.in(3 + int(op.has_zeros)).data;
  switch (c.out().dtype) {
    case DType::float16: return multiply_blocks(c, w, static_cast<const float16*>(bias));
    case DType::bfloat16: return multiply_blocks(c, w, static_cast<const bfloat16*>(bias));
    default: return multiply_blocks(c, w, static_cast<const float*>(bias));
  }
}

void run_cuda(const op::BlockDequantize& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const Blocks w(c, 0, op.columns, op.bits, op.block_size, op.has_zeros);
  cuda::for_each(c, c.out().size(), UnpackFn<float>{w, c.out().as<float>()});
}

}  // namespace kaon
