#include "kaon/ops/nn/conv/kernels/conv_partition.h"

#include <algorithm>
#include <cmath>

namespace kaon::ops {
namespace {

// A number of images near this one that divides the batch, if there is one, so that all pieces have one size.
int64_t even_piece(int64_t images, int64_t batch) {
  for (int64_t n = images; n <= images + images / 2; ++n) {
    if (batch % n == 0) return n;
  }
  for (int64_t n = images; n > images / 2; --n) {
    if (batch % n == 0) return n;
  }
  return images;
}

// Images per piece. Small pieces keep staged images in cache and give every thread work; a weight gradient adds arrays
// of the weights' size after each piece, so its pieces are few and large.
int64_t images_per_piece(ConvKind kind, const ConvGeometry& g) {
  const bool has_sum = kind == ConvKind::backward_weight;
  const double enough = has_sum ? std::max(8e6, 1024.0 * double(g.weights())) : 8e6;
  const double images = std::ceil(enough / std::max(1.0, g.flops_per_image()));
  const int64_t least = has_sum ? (g.batch + 15) / 16 : 1;
  return even_piece(std::clamp(int64_t(std::min(images, double(g.batch))), least, g.batch), g.batch);
}

// The parts per image, at most `most`: a small batch alone gives work to few threads. Each part must have enough work.
int64_t pieces_of_image(const ConvGeometry& g, int64_t most) {
  constexpr double enough = 6e6;  // floating-point operations, about 20 us: ten times the cost of a hand-over
  return std::clamp<int64_t>(int64_t(g.flops_per_image() / enough), 1, std::max<int64_t>(most / g.batch, 1));
}

// The number of slices of the output channels, of at least 32 each. With few positions per image oneDNN's kernel is
// slower on narrow slices, so there are two at most.
int64_t output_slices(const ConvGeometry& g) {
  const int64_t most = g.groups == 1 ? pieces_of_image(g, g.out_positions() < 100 ? 2 : 4) : 1;
  int64_t slices = 1;
  while (slices * 2 <= most && g.out_channels % (slices * 64) == 0) slices *= 2;
  return slices;
}

}  // namespace

ConvPartition ConvPartition::by_rules(ConvKind kind, const ConvGeometry& g) {
  const int64_t slices = kind == ConvKind::forward ? output_slices(g) : 1;
  return {slices > 1 ? 1 : images_per_piece(kind, g), slices};
}

// Parts of an image keep the kernel's full width of channels, and are contiguous with channels last.
ConvPartition ConvPartition::or_parts(const ConvGeometry& g, int64_t least_rows, int64_t most) const {
  constexpr int64_t cached = 100'000;
  const int64_t by_cache = g.out_positions() * g.out_channels / cached;
  const int64_t wanted = by_cache > most ? by_cache : pieces_of_image(g, std::min(g.out[0] / least_rows, most));
  return wanted > 1 ? ConvPartition{1, 1, std::min(wanted, g.out[0])} : *this;
}

ConvPartitions::ConvPartitions(ConvKind kind, const ConvGeometry& g) {
  add(ConvPartition::by_rules(kind, g));
  // weight gradients have a sum of the weights' size for each piece
  const int64_t least = kind == ConvKind::backward_weight ? (g.batch + 15) / 16 : 1;
  for (int64_t piece = least; piece < g.batch && piece <= 64 * least; piece *= 2) add({piece, 1});
  add({g.batch, 1});
  for (int64_t slices = 2; slices <= 8; slices *= 2) {
    const bool fits = kind == ConvKind::forward && g.groups == 1 && g.out_channels % (slices * 16) == 0;
    if (fits && slices * g.batch <= 8) add({1, slices});
    if (kind == ConvKind::forward && slices * g.batch <= 8) add({1, 1, slices});
  }
}

void ConvPartitions::add(const ConvPartition& partition) {
  if (count == 0 || partition != all[0]) all[size_t(count++)] = partition;
}

ConvRows all_rows(const ConvGeometry& g) { return {0, g.out[0], 0, g.in[0], g.pad[0], g.pad[0]}; }

std::vector<ConvRows> rows_of_parts(const ConvGeometry& g, int64_t parts) {
  std::vector<ConvRows> all;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t out = g.out[0] * i / parts, out_end = g.out[0] * (i + 1) / parts;
    const int64_t begin = out * g.stride[0] - g.pad[0];
    const int64_t end = (out_end - 1) * g.stride[0] - g.pad[0] + (g.kernel[0] - 1) * g.dilate[0] + 1;
    const int64_t in = std::max<int64_t>(begin, 0), in_end = std::min(end, g.in[0]);
    if (out == out_end || in >= in_end) return {};
    all.push_back({out, out_end - out, in, in_end - in, in - begin, end - in_end});
  }
  return all;
}

}  // namespace kaon::ops
