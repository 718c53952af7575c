// Kernels that move elements without looking at them: by width alone, up to 16 bytes at a time.
#pragma once

#include "kaon/ops/cuda/launch.cuh"

namespace kaon::cuda {

struct alignas(16) Bytes16 {
  uint64_t low, high;
};

// Calls f.template operator()<T>() with a type of `width` bytes: 1, 2, 4, 8, 16.
template <class F>
void by_width(size_t width, F&& f) {
  switch (width) {
    case 16: return f.template operator()<Bytes16>();
    case 8: return f.template operator()<uint64_t>();
    case 4: return f.template operator()<uint32_t>();
    case 2: return f.template operator()<uint16_t>();
    default: return f.template operator()<uint8_t>();
  }
}

// Elements of `width` bytes with these bits, one after the other, as one T.
template <class T>
T repeated(uint64_t bits, size_t width) {
  for (size_t have = width; have < 8; have *= 2) {
    bits = (bits & ((uint64_t(1) << 8 * have) - 1)) | bits << 8 * have;
  }
  if constexpr (sizeof(T) == 16) {
    return {bits, bits};
  } else {
    return T(bits);
  }
}

template <class T, class Map>
struct Indexed {
  const T* in;
  T* out;
  T otherwise;
  Map map;
  __device__ void operator()(int64_t i) const {
    const int64_t from = map(i);
    out[i] = from >= 0 ? in[from] : otherwise;
  }
};

// out[i] = in[map(i)], or `otherwise` where map(i) is -1, for i < n. Elements have `width` bytes; `bits` are those of
// `otherwise`, of an element of `bits_width` bytes. `in` may be `out` if map(i) is i or -1.
// Map: `__device__ int64_t operator()(int64_t) const`.
template <class Map>
void index_copy(KernelContext& c, size_t width, int64_t n, const void* in, void* out, const Map& map, uint64_t bits = 0,
                size_t bits_width = 8) {
  by_width(width, [&]<class T>() {
    for_each(c, n,
             Indexed<T, Map>{static_cast<const T*>(in), static_cast<T*>(out), repeated<T>(bits, bits_width), map});
  });
}

}  // namespace kaon::cuda
