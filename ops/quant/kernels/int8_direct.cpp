#include "kaon/ops/quant/kernels/int8_direct.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kaon::ops {

Int8Patch::Int8Patch(const ConvGeometry& g, int64_t level)
    : line((g.in[1] + 2 * g.pad[1]) * g.in_channels * level),
      rows(g.kernel[0]),
      columns(g.dilate[1] == 1 ? 1 : g.kernel[1]),
      length(g.kernel[1] / columns * g.in_channels * level),
      row_stride(g.dilate[0] * line),
      column_stride(g.dilate[1] * g.in_channels * level),
      step_y(g.stride[0] * line),
      step_x(g.stride[1] * g.in_channels * level) {}

size_t int8_packed_bytes(const Int8Patch& patch, int64_t filters) {
  return size_t((filters + int8_lanes - 1) / int8_lanes * int8_lanes * patch.runs() * patch.quads() * 4);
}

template <class T>
void int8_pack(const ConvGeometry& g, const int8_t* weights, int64_t block, std::byte* packed) {
  constexpr int64_t together = 4 / int64_t(sizeof(T));
  const Int8Patch patch(g, sizeof(T));
  const int64_t taps = g.taps(), channels = g.in_channels, length = patch.length / int64_t(sizeof(T));
  auto* to = reinterpret_cast<T*>(packed);
  for (int64_t begin = 0; begin < g.out_channels; begin += block) {
    const int64_t some = std::min(block, g.out_channels - begin);
    const int64_t lanes = (some + int8_lanes - 1) / int8_lanes * int8_lanes;
    for (int64_t run = 0; run < patch.runs(); ++run) {
      const int64_t tap = run * (taps / patch.runs());
      for (int64_t quad = 0; quad < patch.quads(); ++quad) {
        for (int64_t f = 0; f < lanes; ++f) {
          const int8_t* const from = weights + (begin + f) * channels * taps;
          for (int64_t i = quad * together; i < (quad + 1) * together; ++i) {
            *to++ = f < some && i < length ? from[i % channels * taps + tap + i / channels] : T(0);
          }
        }
      }
    }
  }
}
template void int8_pack<int8_t>(const ConvGeometry&, const int8_t*, int64_t, std::byte*);
template void int8_pack<int16_t>(const ConvGeometry&, const int8_t*, int64_t, std::byte*);

#if defined(__x86_64__)
namespace {

#define KAON_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define KAON_VNNI_INLINE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"), always_inline))

constexpr int most_pixels = 6;  // with four vectors of filters: 24 sums, 4 of weights and one of data stay in registers

using Pixels = std::array<const uint8_t*, most_pixels>;

// Calls f(0) to f(N - 1) with constants, so that arrays that it indexes stay in registers.
template <class F, size_t... i>
KAON_VNNI_INLINE inline void each(std::index_sequence<i...>, const F& f) {
  (f(std::integral_constant<size_t, i>()), ...);
}

// As an intrinsic the sum is copied before.
KAON_VNNI_INLINE inline void add_products(__m512i& sum, __m512i data, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(data), "v"(weights));
}

// The sums of P results, each with the patch at its pointer, by V vectors of filters.
template <size_t P, size_t V>
KAON_VNNI void tile(const Int8Patch& patch, const Pixels& pixels, const int8_t* w, const int32_t* start, int32_t* sums,
                    int64_t stride, __mmask16 last) {
  constexpr std::make_index_sequence<P> all_pixels;
  constexpr std::make_index_sequence<V> all_vectors;
  const auto lanes_of = [=](size_t v) KAON_VNNI_INLINE { return v == V - 1 ? last : __mmask16(0xffff); };
  __m512i s[P * V];
  each(all_vectors, [&](auto v) KAON_VNNI_INLINE {
    const __m512i from = start ? _mm512_maskz_loadu_epi32(lanes_of(v), start + v * 16) : _mm512_setzero_si512();
    each(all_pixels, [&](auto p) KAON_VNNI_INLINE { s[p * V + v] = from; });
  });
  const int64_t quads = patch.quads();
  for (int64_t r = 0; r < patch.rows; ++r) {
    for (int64_t c = 0; c < patch.columns; ++c) {
      const uint8_t* x[P];
      each(all_pixels,
           [&](auto p) KAON_VNNI_INLINE { x[p] = pixels[p] + r * patch.row_stride + c * patch.column_stride; });
      for (int64_t q = 0; q < quads; ++q, w += V * 64) {
        __m512i b[V];
        each(all_vectors, [&](auto v) KAON_VNNI_INLINE { b[v] = _mm512_loadu_si512(w + v * 64); });
        each(all_pixels, [&](auto p) KAON_VNNI_INLINE {
          int32_t four;
          std::memcpy(&four, x[p] + q * 4, 4);
          const __m512i a = _mm512_set1_epi32(four);
          each(all_vectors, [&](auto v) KAON_VNNI_INLINE { add_products(s[p * V + v], a, b[v]); });
        });
      }
    }
  }
  each(all_pixels, [&](auto p) KAON_VNNI_INLINE {
    each(all_vectors, [&](auto v) KAON_VNNI_INLINE {
      _mm512_mask_storeu_epi32(sums + int64_t(p) * stride + v * 16, lanes_of(v), s[p * V + v]);
    });
  });
}

using Tile = void (*)(const Int8Patch&, const Pixels&, const int8_t*, const int32_t*, int32_t*, int64_t, __mmask16);

template <size_t V>
constexpr std::array<Tile, most_pixels> tiles_of{tile<1, V>, tile<2, V>, tile<3, V>,
                                                 tile<4, V>, tile<5, V>, tile<6, V>};
constexpr std::array<const std::array<Tile, most_pixels>*, 4> tiles{&tiles_of<1>, &tiles_of<2>, &tiles_of<3>,
                                                                    &tiles_of<4>};

}  // namespace

bool has_int8_direct() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

void int8_direct(const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width, int64_t first,
                 int64_t count, int64_t filter, int64_t filters, const int32_t* start, int32_t* sums, int64_t stride) {
  const int64_t vectors = (filters + int8_lanes - 1) / int8_lanes;
  const auto last = __mmask16((1u << (filters - (vectors - 1) * int8_lanes)) - 1);
  const auto* const w = reinterpret_cast<const int8_t*>(packed) + filter * patch.runs() * patch.quads() * 4;
  const auto& by_pixels = *tiles[size_t(vectors - 1)];
  const int64_t blocks = (count + most_pixels - 1) / most_pixels;  // of about one size
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = count * b / blocks, n = count * (b + 1) / blocks - at;
    Pixels pixels;
    int64_t y = (first + at) / width, x = (first + at) % width;
    for (int64_t p = 0; p < n; ++p) {
      pixels[size_t(p)] = image + y * patch.step_y + x * patch.step_x;
      if (++x == width) x = 0, ++y;
    }
    by_pixels[size_t(n - 1)](patch, pixels, w, start ? start + filter : nullptr, sums + at * stride, stride, last);
  }
}
#else
bool has_int8_direct() { return false; }

void int8_direct(const Int8Patch&, const uint8_t*, const std::byte*, int64_t, int64_t, int64_t, int64_t, int64_t,
                 const int32_t*, int32_t*, int64_t) {}
#endif

}  // namespace kaon::ops
