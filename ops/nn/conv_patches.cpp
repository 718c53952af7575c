#include "kaon/ops/nn/conv_patches.h"

#include <algorithm>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/ops/nn/onednn.h"
#include "kaon/ops/nn/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv_patches.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void add_to(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const auto lanes = int64_t(hn::Lanes(d)), lanes4 = int64_t(hn::Lanes(d4));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  for (; i + lanes4 <= n; i += lanes4) hn::StoreU(hn::Add(hn::LoadU(d4, to + i), hn::LoadU(d4, from + i)), d4, to + i);
  for (; i < n; ++i) to[i] += from[i];
}

// One row of results: every patch is added to its place in the image.
void ScatterRow(const ConvGeometry& g, const float* HWY_RESTRICT patches, float* HWY_RESTRICT image, int64_t row) {
  const int64_t run = g.kernel[1] * g.in_channels, line = g.in[1] * g.in_channels;
  float* const top = image + row * g.stride[0] * line;
  for (int64_t x = 0; x < g.out[1]; ++x) {
    for (int64_t ky = 0; ky < g.kernel[0]; ++ky, patches += run) {
      add_to(patches, top + ky * line + x * g.stride[1] * g.in_channels, run);
    }
  }
}

// to[j] += from[i * columns + j] for all rows i.
void AddRows(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) add_to(from + i * columns, to, columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon {

HWY_EXPORT(ScatterRow);
HWY_EXPORT(AddRows);

namespace {

void gather_row(const ConvGeometry& g, const float* image, int64_t row, float* patches) {
  const int64_t run = g.kernel[1] * g.in_channels, line = g.in[1] * g.in_channels;
  const float* const top = image + row * g.stride[0] * line;
  for (int64_t x = 0; x < g.out[1]; ++x) {
    for (int64_t ky = 0; ky < g.kernel[0]; ++ky, patches += run) {
      std::memcpy(patches, top + ky * line + x * g.stride[1] * g.in_channels, size_t(run) * sizeof(float));
    }
  }
}

// Row-major C (m, n) = op(A) B + beta C, all dense.
void multiply(bool transpose_a, int64_t m, int64_t n, int64_t k, const float* a, const float* b, float beta, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', 'N', m, n, k, 1.f, a, transpose_a ? m : k, b, n, beta, c, n);
  if (status != dnnl_success) throw Error("[Convolution] oneDNN: sgemm failed");
}

// Calls body(first row, rows, memory for their patches) for blocks of the rows of results of all images.
template <class Body>
void for_each_block(const ConvGeometry& g, int64_t images, Body&& body) {
  constexpr int64_t cached = 64 * 1024;  // floats
  const int64_t row = g.out[1] * g.taps() * g.in_channels, all = images * g.out[0];
  const int64_t most = std::clamp<int64_t>(cached / row, 1, all);
  const Scratch patches(size_t(most * row) * sizeof(float));
  for (int64_t first = 0; first < all; first += most) {
    body(first, std::min(most, all - first), patches.as<float>());
  }
}

}  // namespace

bool patches_fit(const ConvGeometry& g) {
  if (g.axes != 2 || g.groups != 1 || g.taps() == 1 || g.out_positions() == 0) return false;
  for (size_t i : {0, 1}) {
    if (g.pad[i] != 0 || g.dilate[i] != 1) return false;
  }
  return true;
}

// Measured on AVX-512 for 20 to 50 channels, 5 x 5 taps: a patch costs as much beside the product as 5 to 6 filters in
// it. With at most four channels oneDNN has other kernels.
bool patches_pay(const ConvGeometry& g, int64_t vector_channels) {
  if (!patches_fit(g) || g.in_channels <= 4) return false;
  const double full = double((vector_channels + 15) / 16 * 16) / double(vector_channels);
  return 1.1 + 5.5 / double(g.out_channels) < full;
}

void data_from_patches(const ConvGeometry& g, int64_t images, const float* dy, const float* w, float* dx) {
  const int64_t patch = g.taps() * g.in_channels, image = g.in_positions() * g.in_channels;
  const onednn::SingleThreadTeam team;
  std::fill_n(dx, images * image, 0.f);
  for_each_block(g, images, [&](int64_t first, int64_t rows, float* patches) {
    multiply(false, rows * g.out[1], patch, g.out_channels, dy + first * g.out[1] * g.out_channels, w, 0, patches);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      HWY_DYNAMIC_DISPATCH(ScatterRow)
      (g, patches + i * g.out[1] * patch, dx + row / g.out[0] * image, row % g.out[0]);
    }
  });
}

void weights_from_patches(const ConvGeometry& g, int64_t images, const float* dy, const float* x, float* dw,
                          float* db) {
  const int64_t patch = g.taps() * g.in_channels, image = g.in_positions() * g.in_channels;
  const onednn::SingleThreadTeam team;
  for_each_block(g, images, [&](int64_t first, int64_t rows, float* patches) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      gather_row(g, x + row / g.out[0] * image, row % g.out[0], patches + i * g.out[1] * patch);
    }
    multiply(true, g.out_channels, patch, rows * g.out[1], dy + first * g.out[1] * g.out_channels, patches,
             first == 0 ? 0 : 1, dw);
  });
  if (!db) return;
  std::fill_n(db, g.out_channels, 0.f);
  HWY_DYNAMIC_DISPATCH(AddRows)(dy, db, images * g.out_positions(), g.out_channels);
}

}  // namespace kaon
#endif
