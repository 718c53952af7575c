#include "kaon/ops/nn/conv/kernels/conv_winograd.h"

#include <algorithm>
#include <utility>

#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/kernels/packed_weights.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/conv/kernels/winograd.h"

namespace kaon::ops {
namespace {

// A second cache holds the transformed weights.
bool has_few_weights(const ConvGeometry& g) { return g.in_channels * g.out_channels <= 128 * 128; }

int64_t tiles_of(const ConvGeometry& g, int64_t size) {
  return g.batch * ((g.out[0] + size - 1) / size) * ((g.out[1] + size - 1) / size);
}

// The weights of larger tiles take twice the memory. If they do not fit into the cache, enough positions must use each.
int64_t tile_size(const ConvGeometry& g) { return has_few_weights(g) || g.batch * g.out_positions() >= 250 ? 4 : 2; }

winograd::Images images_of(const TensorView& view, int64_t channels, int64_t height, int64_t width) {
  const int64_t positions = height * width, image = channels * positions;
  float* const data = view.as<float>();
  if (view.layout == Layout::blocked16) return {data, height, width, image, winograd::block, 16 * positions};
  return {data, height, width, image, channels, winograd::block};
}

}  // namespace

bool winograd_pays(const ConvGeometry& g) {
  if (g.axes != 2 || g.groups != 1) return false;
  for (size_t i : {0, 1}) {
    if (g.kernel[i] != 3 || g.stride[i] != 1 || g.dilate[i] != 1) return false;
  }
  if (g.in_channels % winograd::block != 0 || g.out_channels % winograd::block != 0) return false;
  if (std::min(g.in_channels, g.out_channels) < 32) return false;
  // tiles that are half full at least, and positions enough for the larger weights
  const int64_t size = tile_size(g), positions = g.batch * g.out_positions();
  return tiles_of(g, size) * size * size <= 2 * positions && (has_few_weights(g) || positions >= 40);
}

// Measured on a core with 2 MB of second-level cache: blocks of 20 to 28 tiles are fastest, which use each weight for
// two groups of tiles and stay in that cache themselves. Few tiles make fewer, for work for several threads, where
// reading the weights once for each block is cheap; else there are slices, whose inputs are transformed once for each.
WinogradPartition winograd_partition(const ConvGeometry& g) {
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

WinogradPartitions::WinogradPartitions(const ConvGeometry& g) {
  const auto add = [&](const WinogradPartition& partition) {
    const auto end = all.begin() + count;
    if (std::find(all.begin(), end, partition) == end) *end = partition, ++count;
  };
  add(winograd_partition(g));
  for (int64_t slices : {1, 2, 4}) {
    if (slices > winograd::panels(g.out_channels)) break;
    for (int64_t tiles : {28, 14}) {
      for (int64_t size : {4, 2}) add({size, (tiles_of(g, size) + tiles - 1) / tiles, slices});
    }
  }
}

WinogradPlan::WinogradPlan(const ConvGeometry& g, const WinogradPartition& with)
    : partition(with),
      given(onednn::plain({g.out_channels, g.in_channels, 3, 3})),
      transformed(onednn::plain(
          {winograd::panels(g.out_channels), winograd::points(with.tile), g.in_channels, winograd::panel})) {
  if (!g.weights_channels_last) return;
  const onednn::Desc taps_last = std::exchange(given, onednn::channels_last({g.out_channels, g.in_channels, 3, 3}));
  to_taps_last = onednn::make_reorder(given, taps_last);
}

void winograd_forward(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& x,
                      const float* w, const TensorView& y, const Epilogue<float>& epilogue) {
  const WinogradPartition& partition = plan.partition;
  const auto transform = [&](const float* from, float* to) {
    const Scratch arranged(plan.to_taps_last ? size_t(g.weights()) * sizeof(float) : 0);
    if (plan.to_taps_last) {
      plan.to_taps_last.run(from, arranged.as<float>());
      from = arranged.as<float>();
    }
    winograd::transform_weights(from, partition.tile, g.in_channels, g.out_channels, to);
  };
  const PackedWeights weights(c, plan.given, plan.transformed, transform, w);
  const winograd::Images in = images_of(x, g.in_channels, g.in[0], g.in[1]);
  const winograd::Images out = images_of(y, g.out_channels, g.out[0], g.out[1]);
  const int64_t tiles = tiles_of(g, partition.tile), panels = winograd::panels(g.out_channels);
  const int64_t points = winograd::points(partition.tile), panel_weights = points * g.in_channels * winograd::panel;
  c.run.parallel_for(partition.blocks * partition.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i / partition.slices, slice = i % partition.slices;
      const int64_t first = tiles * block / partition.blocks, count = tiles * (block + 1) / partition.blocks - first;
      const winograd::Tiles some{partition.tile, first, count, g.pad[0], g.pad[1]};
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

}  // namespace kaon::ops
