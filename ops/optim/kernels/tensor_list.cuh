// Many tensors in one launch: their addresses are arguments of the kernel, and each block works on a part of one
// tensor.
#pragma once

#include "kaon/ops/cuda/elementwise.cuh"

namespace kaon::cuda {

inline constexpr int64_t list_part = 4096;  // elements per block

// Up to `most` tensors of `arrays` arrays each, all of one type.
template <int arrays>
struct TensorList {
  static constexpr int most = arrays <= 2 ? 48 : 32;  // kernels take 4 KB of arguments
  int count = 0;
  int number[most];    // of the tensor among all
  bool aligned[most];  // its arrays, to 16 bytes
  int64_t size[most];
  unsigned first_block[most + 1] = {};
  void* array[most][arrays];

  // Host code.
  bool is_full() const { return count == most; }
  void add(int which, int64_t elements, void* const* from) {
    number[count] = which;
    size[count] = elements;
    aligned[count] = true;
    for (int k = 0; k < arrays; ++k) {
      array[count][k] = from[k];
      aligned[count] = aligned[count] && reinterpret_cast<uintptr_t>(from[k]) % 16 == 0;
    }
    first_block[count + 1] = first_block[count] + unsigned((elements + list_part - 1) / list_part);
    ++count;
  }
  unsigned blocks() const { return first_block[count]; }

  // The tensor of this block.
  __device__ int tensor() const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_block[middle] <= blockIdx.x) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  // The first element of this block's part of the tensor.
  __device__ int64_t begin(int tensor) const { return int64_t(blockIdx.x - first_block[tensor]) * list_part; }
};

}  // namespace kaon::cuda
