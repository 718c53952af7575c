#include "kaon/ops/nn/conv/kernels/conv_primitives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/ops/kernels/onednn_versions.h"
#include "kaon/ops/nn/conv/kernels/conv_direct.h"

namespace kaon::ops {
namespace {

using onednn::Desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

Dims image_dims(int64_t images, int64_t channels, const std::array<int64_t, 3>& size, int axes) {
  Dims d{images, channels};
  d.insert(d.end(), size.begin(), size.begin() + axes);
  return d;
}

Desc image_desc(const Dims& dims, ImageLayout layout) {
  switch (layout) {
    case ImageLayout::channels_last: return onednn::channels_last(dims);
    case ImageLayout::blocked16:
      return Desc(dims, dnnl::memory::data_type::f32, dims.size() == 5 ? Tag::nCdhw16c : Tag::nChw16c);
    case ImageLayout::row_major: break;
  }
  return onednn::plain(dims);
}

std::optional<ImageLayout> layout_of(const Desc& desc, const Dims& dims) {
  for (ImageLayout l : {ImageLayout::row_major, ImageLayout::channels_last, ImageLayout::blocked16}) {
    if (desc == image_desc(dims, l)) return l;
  }
  return std::nullopt;
}

const char* name_of(ImageLayout layout) {
  switch (layout) {
    case ImageLayout::row_major: return "nchw";
    case ImageLayout::channels_last: return "nhwc";
    case ImageLayout::blocked16: return "nChw16c";
  }
  return "";
}

Dims without(const std::array<int64_t, 3>& values, int axes, int64_t less) {
  Dims d(values.begin(), values.begin() + axes);
  for (int64_t& v : d) v -= less;
  return d;
}

// The weights as they are given.
Desc given_weights(const ConvGeometry& g) {
  Dims dims = image_dims(g.out_channels / g.groups, g.in_channels / g.groups, g.kernel, g.axes);
  const size_t first = g.groups > 1 ? 2 : 1;  // the axis of inputs
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  if (!g.weights_channels_last) return onednn::plain(dims);
  Dims strides(dims.size());
  int64_t next = 1;
  const auto add = [&](size_t axis) { strides[axis] = std::exchange(next, next * dims[axis]); };
  add(first);
  for (size_t axis = dims.size(); --axis > first;) add(axis);
  for (size_t axis = first; axis-- > 0;) add(axis);
  return onednn::strided(dims, strides);
}

// One primitive and the layouts it works in.
struct Made {
  onednn::Primitive run;
  ImageLayout in{}, out{};
  Desc weights, given_weights;
  bool reference = false;
};

// Whether this is one of oneDNN's kernels that write behind their scratchpad: of gradients of weights of 1 x 1 with
// strides, where images have their channels last and less than a block of them (oneDNN's issue 6035; up to 3.12).
bool writes_too_far(ConvKind kind, const ConvGeometry& g, ImageLayout in, std::string_view implementation) {
  constexpr int64_t largest_block = 16;
  return kind == ConvKind::backward_weight && in == ImageLayout::channels_last &&
         std::ranges::any_of(g.stride, [](int64_t s) { return s > 1; }) && g.in_channels / g.groups < largest_block &&
         implementation.find("1x1") != implementation.npos;
}

enum class Kernels { all, fast };  // with oneDNN's reference kernels, or without

// The primitive for `images` images in one candidate's layouts; nothing when oneDNN has none. `weights`: their layout,
// or null to let oneDNN choose. `rows`: null for all.
std::optional<Made> try_make(ConvKind kind, const ConvGeometry& g, int64_t images, const ConvLayouts& candidate,
                             bool bias, const Desc* weights, const ConvRows* rows = nullptr,
                             Kernels kernels = Kernels::all) {
  Dims in_dims = image_dims(images, g.in_channels, g.in, g.axes);
  Dims out_dims = image_dims(images, g.out_channels, g.out, g.axes);
  Dims weight_dims = image_dims(g.out_channels / g.groups, g.in_channels / g.groups, g.kernel, g.axes);
  if (g.groups > 1) weight_dims.insert(weight_dims.begin(), g.groups);
  const Dims stride = without(g.stride, g.axes, 0), dilate = without(g.dilate, g.axes, 1);
  Dims pad = without(g.pad, g.axes, 0), pad_after = pad;
  if (rows) {
    in_dims[2] = rows->in_rows, out_dims[2] = rows->out_rows;
    pad[0] = rows->pad_before, pad_after[0] = rows->pad_after;
  }
  const Desc x = candidate.in ? image_desc(in_dims, *candidate.in) : onednn::any(in_dims);
  const Desc y = candidate.out ? image_desc(out_dims, *candidate.out) : onednn::any(out_dims);
  const Desc w = weights ? *weights : onednn::any(weight_dims);
  const Desc b = bias ? onednn::plain({g.out_channels}) : Desc();
  using Arguments = std::vector<onednn::Primitive::Argument>;
  Made made;
  const auto finish = [&](const char* what, const auto& desc, const Desc& inner_x, const Desc& inner_y,
                          const Desc& inner_w, Arguments args) -> std::optional<Made> {
    // images of one channel have two layouts at once: choose the requested one
    const auto in = candidate.in ? candidate.in : layout_of(inner_x, in_dims);
    const auto out = candidate.out ? candidate.out : layout_of(inner_y, out_dims);
    if (!in || !out) return std::nullopt;
    made.in = *in, made.out = *out;
    made.weights = inner_w, made.given_weights = given_weights(g);
    if (writes_too_far(kind, g, *in, desc.impl_info_str())) return std::nullopt;
    made.reference = onednn::is_reference(desc.impl_info_str());
    if (made.reference && kernels == Kernels::fast) return std::nullopt;
    made.run = onednn::Primitive(what, desc, std::move(args));
    return std::move(made);
  };
  try {
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    const dnnl::engine& engine = onednn::engine();
    const dnnl::primitive_attr attributes = onednn::attributes();
    // gradients take a forward primitive as a hint, which must exist in the same layouts
    const auto forward = onednn::describe<dnnl::convolution_forward>(
        engine, attributes, dnnl::prop_kind::forward_training, algorithm, x,
        kind == ConvKind::forward ? w : onednn::any(weight_dims), b, y, stride, dilate, pad, pad_after);
    if (kind == ConvKind::forward) {
      Arguments args{{DNNL_ARG_SRC, forward.src_desc()},
                     {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                     {DNNL_ARG_DST, forward.dst_desc()}};
      if (bias) args.push_back({DNNL_ARG_BIAS, b});
      return finish("convolution", forward, forward.src_desc(), forward.dst_desc(), forward.weights_desc(), args);
    }
    if (kind == ConvKind::backward_data) {
      const auto desc = onednn::describe_gradient<dnnl::convolution_backward_data>(
          engine, attributes, forward, algorithm, x, w, y, stride, dilate, pad, pad_after);
      return finish("convolution backward data", desc, desc.diff_src_desc(), desc.diff_dst_desc(), desc.weights_desc(),
                    {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                     {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                     {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}});
    }
    const auto desc = onednn::describe_gradient<dnnl::convolution_backward_weights>(
        engine, attributes, forward, algorithm, x, w, b, y, stride, dilate, pad, pad_after);
    Arguments args{{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                   {DNNL_ARG_SRC, desc.src_desc()},
                   {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}};
    if (bias) args.push_back({DNNL_ARG_DIFF_BIAS, b});
    return finish("convolution backward weight", desc, desc.src_desc(), desc.diff_dst_desc(), desc.diff_weights_desc(),
                  args);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return std::nullopt;
  }
}

// The first candidate that is not a reference implementation; a reference one when there is no other and `kernels`
// admits it.
Made make_first(ConvKind kind, const ConvGeometry& g, int64_t images, std::span<const ConvLayouts> order, bool bias,
                Kernels kernels) {
  for (Kernels admitted : {Kernels::fast, Kernels::all}) {
    if (admitted == Kernels::all && kernels == Kernels::fast) break;
    for (const ConvLayouts& candidate : order) {
      if (auto made = try_make(kind, g, images, candidate, bias, nullptr, nullptr, admitted)) return std::move(*made);
    }
  }
  throw Error("[Convolution] oneDNN has no implementation for these sizes");
}

// The parts, and their primitives with the weights of all in one layout; false where oneDNN has none.
bool make_parts(ConvSet& set, const ConvGeometry& g, const ConvStrategy& strategy, bool bias, Made& first) {
  constexpr ConvLayouts channels_last{ImageLayout::channels_last, ImageLayout::channels_last};
  for (const ConvRows& rows : rows_of_parts(g, strategy.partition.parts)) {
    if (strategy.algorithm == ConvAlgorithm::direct) {
      set.parts.push_back({rows, {}});
      continue;
    }
    const bool is_first = set.parts.empty();
    auto made = try_make(ConvKind::forward, g, 1, channels_last, bias, is_first ? nullptr : &first.weights, &rows,
                         Kernels::fast);
    if (!made) {
      set.parts.clear();
      return false;
    }
    set.parts.push_back({rows, std::move(made->run)});
    if (is_first) first = std::move(*made);
  }
  return !set.parts.empty();
}

// The layouts of an algorithm of our own: there is no primitive.
Made made_without_primitive(ConvKind kind, const ConvGeometry& g, ConvAlgorithm algorithm) {
  Made made;
  made.in = made.out = ImageLayout::channels_last;
  const Dims dims = image_dims(g.out_channels, g.in_channels, g.kernel, g.axes);
  const int64_t channels = g.in_channels, filters = g.out_channels;
  made.given_weights = given_weights(g);
  if (algorithm == ConvAlgorithm::direct && kind == ConvKind::forward) {
    static_assert(direct_block == 16);
    const int64_t taps = g.taps(), block = direct_channels(g), blocks = channels / block;
    if (blocks == 1) {
      made.weights = Desc(dims, dnnl::memory::data_type::f32, Tag::Ohwi16o);
    } else {
      // (block of filters, filter, block of channels, channel, tap)
      const Dims split{filters / 16, 16, blocks, block, taps};
      const int64_t row = taps * channels, channel = g.weights_channels_last ? 1 : taps;
      made.given_weights =
          onednn::strided(split, {16 * row, row, block * channel, channel, g.weights_channels_last ? channels : 1});
      made.weights = onednn::strided(split, {16 * row, 1, 16 * taps * block, 16, 16 * block});
    }
  } else if (algorithm == ConvAlgorithm::direct && direct_filters_last(g)) {
    made.weights = onednn::strided(dims, {1, filters, g.kernel[1] * channels * filters, channels * filters});
  } else {
    made.weights = onednn::strided(dims, {g.taps() * channels, 1, g.kernel[1] * channels, channels});
  }
  return made;
}

}  // namespace

std::string ConvSet::implementation() const {
  if (algorithm == ConvAlgorithm::winograd) {
    const auto& [tile, blocks, in_slices] = winograd->partition;
    return fmt::format("winograd F({0}x{0}, 3x3) {1} in {2} blocks, {3} slices", tile, name_of(in), blocks, in_slices);
  }
  std::string text = algorithm == ConvAlgorithm::gemm_col2im ? "sgemm"
                     : algorithm == ConvAlgorithm::direct    ? "direct"
                                                             : (parts.empty() ? full : parts[0].run).implementation();
  text += fmt::format(" {}", name_of(in));
  if (out != in) text += fmt::format(" to {}", name_of(out));
  if (!parts.empty()) text += fmt::format(" in {} parts", parts.size());
  return slices > 1 ? text + fmt::format(" in {} slices", slices) : text;
}

onednn::CacheHandle<ConvSet> conv_set(const KernelContext& c, ConvKind kind, const ConvGeometry& whole, ImageLayout in,
                                      ImageLayout out, bool bias) {
  ConvGeometry g = whole;
  const ConvStrategy strategy = c.variant ? ConvStrategy::of_variant(kind, g, in, out, c.variant)
                                          : ConvStrategy::by_rules(kind, g, in, out, c.winograd);
  g.out_channels /= strategy.partition.slices;
  onednn::Key key('c', kind, strategy.algorithm, c.variant, strategy.partition.slices, strategy.partition.parts,
                  g.batch, g.groups, g.in_channels, g.out_channels, g.axes, g.weights_channels_last, in, out, bias);
  for (const auto* values : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate, &g.pad}) {
    for (int64_t v : *values) key.add(v);
  }
  return onednn::obtain<ConvSet>(c, "Convolution", key, [&] {
    auto set = std::make_unique<ConvSet>();
    const auto& [algorithm, winograd, partition, layouts, is_chosen] = strategy;
    set->algorithm = algorithm;
    if (algorithm == ConvAlgorithm::winograd) {
      set->winograd.emplace(kind, g, winograd);
      set->in = in, set->out = out;
      return set;
    }
    const bool is_own = algorithm != ConvAlgorithm::onednn;
    Made full;
    const bool has_parts =
        partition.parts > 1 && out != ImageLayout::row_major && make_parts(*set, g, strategy, bias, full);
    // where oneDNN has no fast kernel for them, or one would read the border alone: as without
    const ConvPartition pieces = partition.parts == 1 || has_parts ? partition : ConvPartition::by_rules(kind, g);
    set->slices = pieces.slices, set->piece = pieces.images;
    if (partition.parts > 1) g.out_channels /= pieces.slices;
    if (is_own) full = made_without_primitive(kind, g, algorithm);
    if (is_chosen && partition.parts > 1 && !has_parts) throw no_conv_variant();
    const Kernels kernels = is_chosen ? Kernels::fast : Kernels::all;
    if (!has_parts && !is_own) full = make_first(kind, g, set->piece, layouts, bias, kernels);
    const int64_t rest = has_parts || is_own ? 0 : g.batch % set->piece;
    if (rest) {
      // the last piece must use the layouts of the others; if oneDNN refuses, the batch is not split
      auto tail = try_make(kind, g, rest, {full.in, full.out}, bias, &full.weights, nullptr,
                           full.reference ? Kernels::all : Kernels::fast);
      if (tail && tail->reference == full.reference) {
        set->tail = std::move(tail->run);
      } else {
        set->piece = g.batch;
        full = make_first(kind, g, g.batch, layouts, bias, kernels);
      }
    }
    set->full = std::move(full.run);
    set->in = full.in, set->out = full.out;
    set->staged = int(!same_place(in, full.in, g.in_channels, g.in_positions())) +
                  int(!same_place(out, full.out, g.out_channels, g.out_positions()));
    set->weight_bytes = full.weights.get_size();
    if (full.weights != full.given_weights) {
      if (kind == ConvKind::backward_weight) {
        set->to_given = onednn::make_reorder(full.weights, full.given_weights);
      } else {
        set->to_inner = onednn::make_reorder(full.given_weights, full.weights);
      }
    }
    return set;
  });
}

}  // namespace kaon::ops
