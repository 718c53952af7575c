#include "kaon/ops/nn/conv/kernels/conv_strategy.h"

#include <array>
#include <iterator>

#include "kaon/ops/nn/conv/kernels/conv_direct.h"
#include "kaon/ops/nn/conv/kernels/conv_gemm_col2im.h"

namespace kaon::ops {
namespace {

// The first with a fast implementation is used. Measured on AVX-512 machines: channels_last is best in general, since
// the conversion costs less than the row-major kernels lose.
// LeNet's first convolution (1 to 20 channels, 64 images) in us, channels_last / blocked / row-major: forward 424 / 316
// / 544, weight gradient 600 / 324 / 1266; a conversion between the first two takes 85, so the weight gradient alone
// gains.
std::span<const ConvLayouts> layouts_to_try(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out) {
  constexpr auto rm = ImageLayout::row_major, cl = ImageLayout::channels_last, blocked = ImageLayout::blocked16;
  static constexpr ConvLayouts general[] = {{cl, cl}, {{}, {}}, {rm, rm}};
  static constexpr ConvLayouts first_layer[] = {{{}, {}}, {cl, cl}, {rm, rm}};
  static constexpr ConvLayouts as_it_is[] = {{rm, rm}, {cl, cl}, {{}, {}}};
  static constexpr ConvLayouts in_blocks[] = {{blocked, blocked}, {cl, cl}, {{}, {}}, {rm, rm}};
  const bool few_channels = g.groups == 1 && g.in_channels <= 4;
  if (few_channels && kind == ConvKind::backward_data) return as_it_is;
  if (few_channels && (out != cl || kind == ConvKind::backward_weight)) return first_layer;
  // the faster kernels of channels_last are worth two conversions only where every number is used often
  if ((in == blocked || out == blocked) && (g.taps() == 1 || g.in_channels < 128)) return in_blocks;
  const bool outside_rm = in == rm && out == rm;
  if (g.is_pointwise() && g.groups == 1) {
    if (kind == ConvKind::backward_weight && g.in_channels % 16 == 0 && g.out_channels % 16 == 0) return in_blocks;
    if (kind != ConvKind::backward_weight && outside_rm) return as_it_is;
  }
  return general;
}

// Whether the direct algorithm is faster than the others, by measurement.
bool direct_pays(ConvKind kind, const ConvGeometry& g, ImageLayout out) {
  if (kind == ConvKind::backward_data || !direct_fits(g) || out == ImageLayout::blocked16) return false;
  const bool as_it_lies = out == ImageLayout::channels_last;
  if (kind == ConvKind::forward) return as_it_lies && direct_pays_forward(g);
  return direct_pays_backward_weight(g) && (as_it_lies || g.in_channels > 4);
}

constexpr ConvLayouts inner_layouts[] = {{ImageLayout::channels_last, ImageLayout::channels_last},
                                         {ImageLayout::blocked16, ImageLayout::blocked16},
                                         {ImageLayout::row_major, ImageLayout::row_major},
                                         {{}, {}}};

// The algorithms besides oneDNN's, numbered after its layouts.
struct OtherAlgorithms {
  std::array<ConvAlgorithm, 2> all{};
  int count = 0;

  OtherAlgorithms(ConvKind kind, const ConvGeometry& g, bool winograd) {
    if (kind != ConvKind::backward_data && direct_fits(g)) add(ConvAlgorithm::direct);
    if (kind == ConvKind::backward_data && gemm_col2im_fits(g)) add(ConvAlgorithm::gemm_col2im);
    constexpr auto cl = ImageLayout::channels_last;
    if (winograd && winograd_fits(kind, g, cl, cl) && winograd_pays(kind, g)) add(ConvAlgorithm::winograd);
  }
  void add(ConvAlgorithm algorithm) { all[size_t(count++)] = algorithm; }
};

}  // namespace

Error no_conv_variant() { return Error("[Convolution] there is no implementation of this variant"); }

ConvStrategy ConvStrategy::by_rules(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out,
                                    bool winograd) {
  if (winograd && winograd_fits(kind, g, in, out) && winograd_pays(kind, g)) {
    return {.algorithm = ConvAlgorithm::winograd, .winograd = winograd_partition(kind, g)};
  }
  ConvStrategy strategy{.partition = ConvPartition::by_rules(kind, g), .layouts = layouts_to_try(kind, g, in, out)};
  if (kind == ConvKind::backward_data && gemm_col2im_pays(g)) strategy.algorithm = ConvAlgorithm::gemm_col2im;
  // pixels whose channels are not consecutive are copied first; that must pay
  const bool cheap_copy = in == out || g.in_channels <= 4;
  const bool can_have_parts = kind == ConvKind::forward && out != ImageLayout::row_major && cheap_copy &&
                              (out == ImageLayout::channels_last || g.taps() > 1) && g.groups == 1;
  const bool pays = direct_pays(kind, g, out), pays_divided = pays && direct_pays_divided(g);
  // with few positions and many weights slices of channels are better: each thread reads its own weights only
  if (can_have_parts && g.out_positions() >= 150) {
    // oneDNN is slow in parts of a few rows
    strategy.partition = strategy.partition.or_parts(g, pays_divided ? 3 : 7, pays_divided ? 8 : 4);
  }
  if (pays_divided || (pays && !strategy.partition.divides_images())) strategy.algorithm = ConvAlgorithm::direct;
  return strategy;
}

ConvStrategy ConvStrategy::of_variant(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out,
                                      uint8_t variant) {
  constexpr size_t by_onednn = std::size(inner_layouts);
  const ConvPartitions partitions(kind, g);
  const Variants variants{0, partitions.count};
  const auto number = size_t(variants.algorithm(variant)), partition = size_t(variants.partition(variant));
  ConvStrategy strategy{.partition = partitions.all[partition], .is_chosen = true};
  if (number < by_onednn) {
    strategy.layouts = std::span(inner_layouts).subspan(number, 1);
    return strategy;
  }
  strategy.algorithm = OtherAlgorithms(kind, g, true).all[number - by_onednn];
  if (strategy.algorithm != ConvAlgorithm::winograd) return strategy;
  const WinogradPartitions blocks(kind, g);
  if (int(partition) >= blocks.count || !winograd_fits(kind, g, in, out)) throw no_conv_variant();
  strategy.winograd = blocks.all[partition];
  strategy.partition = {};
  return strategy;
}

Variants conv_variants(ConvKind kind, const ConvGeometry& g, bool winograd) {
  return {int(std::size(inner_layouts)) + OtherAlgorithms(kind, g, winograd).count, ConvPartitions(kind, g).count};
}

}  // namespace kaon::ops
