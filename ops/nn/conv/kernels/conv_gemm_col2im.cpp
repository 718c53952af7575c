#include "kaon/ops/nn/conv/kernels/conv_gemm_col2im.h"

#include <algorithm>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/conv/kernels/conv_gemm_col2im.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
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

// Sums of a vector of columns, with four independent accumulators.
template <class D>
HWY_INLINE int64_t add_columns(D d, const float* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t rows,
                               int64_t columns, int64_t first) {
  const auto lanes = int64_t(hn::Lanes(d));
  for (; first + lanes <= columns; first += lanes) {
    auto a = hn::LoadU(d, to + first), b = hn::Zero(d), c = b, e = b;
    const float* row = from + first;
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, row += 4 * columns) {
      a = hn::Add(a, hn::LoadU(d, row));
      b = hn::Add(b, hn::LoadU(d, row + columns));
      c = hn::Add(c, hn::LoadU(d, row + 2 * columns));
      e = hn::Add(e, hn::LoadU(d, row + 3 * columns));
    }
    for (; i < rows; ++i, row += columns) a = hn::Add(a, hn::LoadU(d, row));
    hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, to + first);
  }
  return first;
}

void AddRows(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t rows, int64_t columns) {
  int64_t first = add_columns(hn::ScalableTag<float>(), from, to, rows, columns, 0);
  first = add_columns(hn::CappedTag<float, 4>(), from, to, rows, columns, first);
  add_columns(hn::CappedTag<float, 1>(), from, to, rows, columns, first);
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ScatterRow);
HWY_EXPORT(AddRows);

namespace {

// Row-major C (m, n) = A B, all dense.
void multiply(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
  const dnnl_status_t status = dnnl_sgemm('N', 'N', m, n, k, 1.f, a, k, b, n, 0.f, c, n);
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

bool gemm_col2im_fits(const ConvGeometry& g) {
  if (g.axes != 2 || g.groups != 1 || g.taps() == 1 || g.out_positions() == 0) return false;
  for (size_t i : {0, 1}) {
    if (g.pad[i] != 0 || g.dilate[i] != 1) return false;
  }
  return true;
}

// Measured on AVX-512 for 20 to 50 channels, 5 x 5 taps: a patch costs as much beside the product as 5 to 6 filters in
// it. With at most four channels oneDNN has other kernels.
bool gemm_col2im_pays(const ConvGeometry& g) {
  if (!gemm_col2im_fits(g) || g.in_channels <= 4) return false;
  const double full = double((g.in_channels + 15) / 16 * 16) / double(g.in_channels);
  return 1.1 + 5.5 / double(g.out_channels) < full;
}

void gemm_col2im_backward_data(const ConvGeometry& g, int64_t images, const float* dy, const float* w, float* dx) {
  const int64_t patch = g.taps() * g.in_channels, image = g.in_positions() * g.in_channels;
  const onednn::SingleThreadTeam team;
  std::fill_n(dx, images * image, 0.f);
  for_each_block(g, images, [&](int64_t first, int64_t rows, float* patches) {
    multiply(rows * g.out[1], patch, g.out_channels, dy + first * g.out[1] * g.out_channels, w, patches);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      HWY_DYNAMIC_DISPATCH(ScatterRow)
      (g, patches + i * g.out[1] * patch, dx + row / g.out[0] * image, row % g.out[0]);
    }
  });
}

void add_rows(const float* from, float* to, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(AddRows)(from, to, rows, columns);
}

}  // namespace kaon::ops
#endif
