#include "kaon/ops/nn/conv/kernels/conv_winograd.h"

#include <algorithm>
#include <utility>

#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/kernels/packed_weights.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/conv/kernels/conv_direct.h"
#include "kaon/ops/nn/conv/kernels/conv_gemm_col2im.h"
#include "kaon/ops/nn/conv/kernels/winograd.h"
#include "kaon/ops/nn/conv/kernels/winograd_gradient.h"

namespace kaon::ops {
namespace {

// A second cache holds the transformed weights.
bool has_few_weights(const ConvGeometry& g) { return g.in_channels * g.out_channels <= 128 * 128; }

int64_t taps_of(const ConvGeometry& g) { return g.kernel[0]; }  // along each axis

int64_t tiles_of(const ConvGeometry& g, int64_t size) {
  return g.batch * ((g.out[0] + size - 1) / size) * ((g.out[1] + size - 1) / size);
}

int64_t positions_of(const ConvGeometry& g) { return g.batch * g.out_positions(); }

// The weights of larger tiles take twice the memory. If they do not fit into the cache, enough positions must use each.
int64_t tile_size(const ConvGeometry& g) {
  return taps_of(g) == 3 && (has_few_weights(g) || positions_of(g) >= 250) ? 4 : 2;
}

// Of the gradient of the weights: the fewest products.
int64_t products_of(const ConvGeometry& g, int64_t size) {
  return tiles_of(g, size) * winograd::Filtering{size, taps_of(g)}.points();
}
int64_t tile_size_of_weights(const ConvGeometry& g) {
  return taps_of(g) == 3 && products_of(g, 4) <= products_of(g, 2) ? 4 : 2;
}

// The convolution that the gradient of the images is: of the results' gradient, with the taps reversed.
ConvGeometry reversed(const ConvGeometry& g) {
  ConvGeometry r = g;
  std::swap(r.in, r.out);
  std::swap(r.in_channels, r.out_channels);
  for (size_t i : {0, 1}) r.pad[i] = taps_of(g) - 1 - g.pad[i];
  return r;
}

// In floats.
struct FilterStrides {
  int64_t out, in, tap;
};
FilterStrides strides_of(const ConvGeometry& g) {
  const int64_t taps = g.taps();
  if (g.weights_channels_last) return {taps * g.in_channels, 1, g.in_channels};
  return {taps * g.in_channels, taps, 1};
}

winograd::Images images_of(const TensorView& view, int64_t channels, int64_t height, int64_t width) {
  const int64_t positions = height * width, image = channels * positions;
  float* const data = view.as<float>();
  if (view.layout == Layout::blocked16) return {data, height, width, image, winograd::block, 16 * positions};
  return {data, height, width, image, channels, winograd::block};
}

}  // namespace

bool winograd_fits(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out) {
  const int64_t taps = taps_of(g);
  if (g.axes != 2 || g.groups != 1 || (taps != 3 && taps != 5)) return false;
  for (size_t i : {0, 1}) {
    if (g.kernel[i] != taps || g.stride[i] != 1 || g.dilate[i] != 1) return false;
    if (kind == ConvKind::backward_data && g.pad[i] > taps - 1) return false;
  }
  if (in == ImageLayout::channels_last && out == ImageLayout::channels_last) return true;
  const bool full_blocks = g.in_channels % winograd::block == 0 && g.out_channels % winograd::block == 0;
  return full_blocks && in != ImageLayout::row_major && out != ImageLayout::row_major;
}

bool winograd_pays(ConvKind kind, const ConvGeometry& whole) {
  const ConvGeometry g = kind == ConvKind::backward_data ? reversed(whole) : whole;
  const int64_t positions = positions_of(g);
  if (taps_of(g) == 5) {
    return std::min(g.in_channels, g.out_channels) >= 16 && positions >= 64 &&
           products_of(g, 2) * 2 <= positions_of(whole) * whole.taps();
  }
  if (g.in_channels % winograd::block != 0 || g.out_channels % winograd::block != 0) return false;
  if (std::min(g.in_channels, g.out_channels) < 32) return false;
  if (kind == ConvKind::backward_weight) {
    return positions >= 64 && products_of(g, tile_size_of_weights(g)) * 2 <= positions * 9;
  }
  // tiles that are half full at least, and positions enough for the larger weights
  const int64_t size = tile_size(g), least = kind == ConvKind::forward && direct_pays_forward(g) ? 100 : 40;
  return tiles_of(g, size) * size * size <= 2 * positions && (has_few_weights(g) || positions >= least);
}

namespace {

// Of the gradient of the weights: blocks of these many channels of each side, whose sums of all points stay in the
// second cache beside the transformed images of so many tiles.
constexpr int64_t gradient_channels = 64, gradient_tiles = 24;

WinogradPartition partition_of_weights(const ConvGeometry& g, int64_t size) {
  constexpr int64_t enough = 16;
  const int64_t least_tiles = (taps_of(g) == 5 ? 5 : 2) * gradient_tiles;  // for which its sums are transformed
  const auto parts = [](int64_t channels) { return (channels + gradient_channels - 1) / gradient_channels; };
  const int64_t items = parts(g.in_channels) * parts(g.out_channels);
  const int64_t most = std::max<int64_t>(1, tiles_of(g, size) / least_tiles);
  return {.tile = size, .blocks = std::clamp<int64_t>((enough + items - 1) / items, 1, most)};
}

// Measured on a core with 2 MB of second-level cache: blocks of 20 to 28 tiles are fastest, which use each weight for
// two groups of tiles and stay in that cache themselves. Few tiles make fewer, for work for several threads, where
// reading the weights once for each block is cheap; else there are slices, whose inputs are transformed once for each.
WinogradPartition partition_of_images(const ConvGeometry& g) {
  constexpr int64_t tiles = 28, least_tiles = 12, least_channels = 256, enough = 8;
  WinogradPartition partition{.tile = tile_size(g)};
  const int64_t all = tiles_of(g, partition.tile);
  partition.blocks = std::max<int64_t>(1, (all + tiles / 2) / tiles);
  if (partition.blocks < enough && has_few_weights(g))
    partition.blocks = std::clamp<int64_t>(all / least_tiles, 1, enough);
  if (partition.blocks > 1) partition.blocks += partition.blocks % 2;
  partition.slices =
      std::clamp<int64_t>(g.out_channels / least_channels, 1, std::max<int64_t>(1, enough / partition.blocks));
  return partition;
}

}  // namespace

WinogradPartition winograd_partition(ConvKind kind, const ConvGeometry& g) {
  if (kind == ConvKind::backward_weight) return partition_of_weights(g, tile_size_of_weights(g));
  return partition_of_images(kind == ConvKind::backward_data ? reversed(g) : g);
}

WinogradPartitions::WinogradPartitions(ConvKind kind, const ConvGeometry& whole) {
  const auto add = [&](const WinogradPartition& partition) {
    const auto end = all.begin() + count;
    if (std::find(all.begin(), end, partition) == end) *end = partition, ++count;
  };
  add(winograd_partition(kind, whole));
  if (kind == ConvKind::backward_weight) {
    for (int64_t size : {4, 2}) {
      if (size == 2 || taps_of(whole) == 3) add(partition_of_weights(whole, size));
    }
    return;
  }
  const ConvGeometry g = kind == ConvKind::backward_data ? reversed(whole) : whole;
  for (int64_t slices : {1, 2, 4}) {
    if (slices > winograd::panels(g.out_channels)) break;
    for (int64_t tiles : {28, 14}) {
      for (int64_t size : {4, 2}) {
        if (size == 2 || taps_of(g) == 3) add({size, (tiles_of(g, size) + tiles - 1) / tiles, slices});
      }
    }
  }
}

WinogradPlan::WinogradPlan(ConvKind kind, const ConvGeometry& whole, const WinogradPartition& with) : partition(with) {
  if (kind == ConvKind::backward_weight) return;
  const ConvGeometry g = kind == ConvKind::backward_data ? reversed(whole) : whole;
  auto [out, in, tap] = strides_of(whole);
  if (kind == ConvKind::backward_data) std::swap(out, in);  // so that the two are kept apart
  const int64_t taps = taps_of(g), points = winograd::Filtering{with.tile, taps}.points();
  given = onednn::strided({g.out_channels, g.in_channels, taps, taps}, {out, in, taps * tap, tap});
  transformed = onednn::plain({winograd::panels(g.out_channels), points, g.in_channels, winograd::panel});
}

namespace {

// y = x * filters and then the epilogue.
void convolve(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& x,
              const winograd::Filters& filters, const float* w, const TensorView& y, const Epilogue<float>& epilogue) {
  const WinogradPartition& partition = plan.partition;
  const winograd::Filtering filtering{partition.tile, taps_of(g)};
  const int64_t tiles = tiles_of(g, partition.tile), panels = winograd::panels(g.out_channels);
  const int64_t points = filtering.points(), panel_weights = points * g.in_channels * winograd::panel;
  const auto transform = [&](const float*, float* to) {
    c.run.parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        winograd::transform_filters(filters, filtering, g.in_channels, g.out_channels, p, to + p * panel_weights);
    });
  };
  const PackedWeights weights(c, plan.given, plan.transformed, transform, w);
  const winograd::Images in = images_of(x, g.in_channels, g.in[0], g.in[1]);
  const winograd::Images out = images_of(y, g.out_channels, g.out[0], g.out[1]);
  c.run.parallel_for(partition.blocks * partition.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i / partition.slices, slice = i % partition.slices;
      const int64_t first = tiles * block / partition.blocks, count = tiles * (block + 1) / partition.blocks - first;
      const winograd::Tiles some{filtering, first, count, g.pad[0], g.pad[1]};
      const auto floats = size_t(points * winograd::input_stride(count, g.in_channels));
      const Scratch scratch((floats + size_t(points * winograd::product_stride(count))) * sizeof(float));
      float *const input = scratch.as<float>(), *const products = input + floats;
      winograd::transform_input(in, out, some, g.in_channels, input);
      for (int64_t p = panels * slice / partition.slices; p < panels * (slice + 1) / partition.slices; ++p) {
        winograd::multiply(input, weights.data() + p * panel_weights, some, g.in_channels, products);
        winograd::transform_output(products, out, some, p * winograd::panel, g.out_channels, epilogue);
      }
    }
  });
  if (epilogue.activation == FusedActivation::none || epilogue.activation == FusedActivation::relu) return;
  c.run.parallel_for(g.batch, 1, [&](int64_t begin, int64_t end) {
    float* const images = out.data + begin * out.image_stride;
    const int64_t n = (end - begin) * out.image_stride;
    finish_rows(images, n, images, n, 1, n, {.activation = epilogue.activation});
  });
}

// The sums over images and positions of each channel: in double, since there may be millions.
void sum_channels(KernelContext& c, const ConvGeometry& g, const winograd::Images& images, float* sums) {
  const int64_t positions = g.out_positions();
  c.run.parallel_for(winograd::in_blocks(g.out_channels) / winograd::block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t channels = std::min(winograd::block, g.out_channels - k * winograd::block);
      double all[winograd::block] = {};
      for (int64_t n = 0; n < g.batch; ++n) {
        const float* from = images.data + n * images.image_stride + k * images.block_stride;
        for (int64_t p = 0; p < positions; ++p, from += images.position_stride) {
          for (int64_t i = 0; i < channels; ++i) all[i] += double(from[i]);
        }
      }
      for (int64_t i = 0; i < channels; ++i) sums[k * winograd::block + i] = float(all[i]);
    }
  });
}

// These channels of the images.
winograd::Images from_channel(winograd::Images images, int64_t channel) {
  images.data += channel / winograd::block * images.block_stride;
  return images;
}

}  // namespace

void winograd_forward(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& x,
                      const float* w, const TensorView& y, const Epilogue<float>& epilogue) {
  const auto [out, in, tap] = strides_of(g);
  convolve(c, g, plan, x, {w, out, in, tap}, w, y, epilogue);
}

void winograd_backward_data(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& dy,
                            const float* w, const TensorView& dx) {
  const auto [out, in, tap] = strides_of(g);
  convolve(c, reversed(g), plan, dy, {w + (g.taps() - 1) * tap, in, out, -tap}, w, dx, {});
}

void winograd_backward_weight(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& dy,
                              const TensorView& x, float* dw, float* db) {
  const auto& [size, blocks, slices] = plan.partition;
  const winograd::Images in = images_of(x, g.in_channels, g.in[0], g.in[1]);
  const winograd::Images heads = images_of(dy, g.out_channels, g.out[0], g.out[1]);
  const FilterStrides strides = strides_of(g);
  const winograd::Filtering filtering{size, taps_of(g)};
  const int64_t all = tiles_of(g, size), points = filtering.points();
  const int64_t in_parts = (g.in_channels + gradient_channels - 1) / gradient_channels;
  const int64_t parts = in_parts * ((g.out_channels + gradient_channels - 1) / gradient_channels);
  // one partial result per block
  float* const results =
      blocks == 1 ? dw : static_cast<float*>(c.run.workspace(size_t(blocks * g.weights()) * sizeof(float)));
  c.run.parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) {
    const auto images = size_t(points * winograd::input_stride(gradient_tiles, gradient_channels));
    const auto sums = size_t(points * winograd::sum_stride(gradient_channels, gradient_channels));
    const Scratch scratch((2 * images + sums) * sizeof(float));
    float *const input = scratch.as<float>(), *const head = input + images, *const sum = head + images;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts, first = all * (i / parts) / blocks, last = all * (i / parts + 1) / blocks;
      const int64_t in_channel = part % in_parts * gradient_channels, channel = part / in_parts * gradient_channels;
      const int64_t in_channels = std::min(gradient_channels, g.in_channels - in_channel);
      const int64_t channels = std::min(gradient_channels, g.out_channels - channel);
      for (int64_t at = first; at < last; at += gradient_tiles) {
        const winograd::Tiles some{filtering, at, std::min(gradient_tiles, last - at), g.pad[0], g.pad[1]};
        winograd::transform_input(from_channel(in, in_channel), heads, some, in_channels, input);
        winograd::transform_heads(from_channel(heads, channel), some, channels, head);
        winograd::multiply_heads(input, head, some, in_channels, channels, at > first, sum);
      }
      float* const result = results + i / parts * g.weights() + channel * strides.out + in_channel * strides.in;
      winograd::transform_sums(sum, filtering, in_channels, channels, strides.out, strides.in, strides.tap, result);
    }
  });
  if (blocks > 1) {
    c.run.parallel_for(g.weights(), 1 << 12, [&](int64_t begin, int64_t end) {
      std::copy(results + begin, results + end, dw + begin);
      for (int64_t k = 1; k < blocks; ++k) add_rows(results + k * g.weights() + begin, dw + begin, 1, end - begin);
    });
  }
  if (db) sum_channels(c, g, heads, db);
}

}  // namespace kaon::ops
