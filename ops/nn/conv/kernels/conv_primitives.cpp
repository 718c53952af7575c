#include "kaon/ops/nn/conv/kernels/conv_primitives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "kaon/engine/error.h"
#include "kaon/ops/kernels/onednn_versions.h"
#include "kaon/ops/nn/conv/kernels/conv_direct.h"
#include "kaon/ops/nn/conv/kernels/conv_patches.h"

namespace kaon {
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

// Layouts that a primitive may work in; none: left to oneDNN.
struct Candidate {
  std::optional<ImageLayout> in, out;
};

// In the order in which they are tried; the first with a fast implementation is used. Measured on AVX-512 machines:
// channels_last is best in general, since the conversion costs less than the row-major kernels lose.
// LeNet's first convolution (1 to 20 channels, 64 images) in us, channels_last / blocked / row-major: forward 424 / 316
// / 544, weight gradient 600 / 324 / 1266; a conversion between the first two takes 85, so the weight gradient alone
// gains.
std::span<const Candidate> candidates(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out) {
  constexpr auto rm = ImageLayout::row_major, cl = ImageLayout::channels_last, blocked = ImageLayout::blocked16;
  static constexpr Candidate general[] = {{cl, cl}, {{}, {}}, {rm, rm}};
  static constexpr Candidate first_layer[] = {{{}, {}}, {cl, cl}, {rm, rm}};
  static constexpr Candidate as_it_is[] = {{rm, rm}, {cl, cl}, {{}, {}}};
  static constexpr Candidate in_blocks[] = {{blocked, blocked}, {cl, cl}, {{}, {}}, {rm, rm}};
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

// One primitive and the layouts it works in.
struct Made {
  onednn::Primitive run;
  ImageLayout in{}, out{};
  Desc weights, plain_weights;
  bool reference = false;
};

enum class Kernels { all, fast };  // with oneDNN's reference kernels, or without

// The input rows that results [out, out + out_rows) of the first spatial axis need.
struct Rows {
  int64_t out, out_rows, in, in_rows, pad_before, pad_after;
};

// Splits the first spatial axis into `parts` of about one size; empty when a part would read nothing but the border.
std::vector<Rows> rows_of_parts(const ConvGeometry& g, int64_t parts) {
  std::vector<Rows> all;
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

// The primitive for `images` images in one candidate's layouts; nothing when oneDNN has none. `weights`: their layout,
// or null to let oneDNN choose. `rows`: null for all.
std::optional<Made> try_make(ConvKind kind, const ConvGeometry& g, int64_t images, const Candidate& candidate,
                             bool bias, const Desc* weights, const Rows* rows = nullptr,
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
    made.weights = inner_w, made.plain_weights = onednn::plain(weight_dims);
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

// The first candidate that is not a reference implementation; a reference one when there is no other.
Made make_first(ConvKind kind, const ConvGeometry& g, int64_t images, std::span<const Candidate> order, bool bias,
                Kernels kernels) {
  std::optional<Made> last_resort;
  for (const Candidate& candidate : order) {
    std::optional<Made> made = try_make(kind, g, images, candidate, bias, nullptr, nullptr, kernels);
    if (made && !made->reference) return std::move(*made);
    if (made && !last_resort) last_resort = std::move(made);
  }
  if (!last_resort) throw Error("[Convolution] oneDNN has no implementation for these sizes");
  return std::move(*last_resort);
}

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

// Images per piece; where these are single ones, slices of the output channels, or parts of the first spatial axis.
// Fixed by the sizes.
struct ConvCut {
  int64_t piece = 1, slices = 1, parts = 1;
  friend bool operator==(const ConvCut&, const ConvCut&) = default;
};

ConvCut cut_by_rules(ConvKind kind, const ConvGeometry& g) {
  const int64_t slices = kind == ConvKind::forward ? output_slices(g) : 1;
  return {slices > 1 ? 1 : images_per_piece(kind, g), slices};
}

// Every partition that may pay, the one of the rules first.
struct Cuts {
  std::array<ConvCut, 16> all{};
  int count = 0;

  Cuts(ConvKind kind, const ConvGeometry& g) {
    add(cut_by_rules(kind, g));
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
  void add(const ConvCut& cut) {
    if (count == 0 || cut != all[0]) all[size_t(count++)] = cut;
  }
};

// Which algorithm, in which layouts inside, in which pieces.
struct Way {
  ConvAlgorithm algorithm = ConvAlgorithm::onednn;
  WinogradCut winograd{};  // partition of that algorithm, which uses none of the members below
  ConvCut cut{};
  std::span<const Candidate> order{};  // of oneDNN's
  bool is_chosen = false;              // by the caller: no other way may be tried
};

// Whether the direct algorithm is faster than the others, by measurement.
bool direct_pays(ConvKind kind, const ConvGeometry& g, ImageLayout out) {
  if (kind == ConvKind::backward_data || !direct_fits(g) || out == ImageLayout::blocked16) return false;
  const bool as_it_lies = out == ImageLayout::channels_last;
  if (kind == ConvKind::forward) return as_it_lies && direct_pays_forward(g);
  return direct_pays_backward_weight(g) && (as_it_lies || g.in_channels > 4);
}

// Parts of an image keep the kernel's full width of channels, and are contiguous with channels last. Their results
// should still be in cache for the next computation; parts of a few rows lose more than they gain.
void take_parts(Way& way, const ConvGeometry& g) {
  constexpr int64_t cached = 100'000, rows = 7;
  const int64_t by_cache = g.out_positions() * g.out_channels / cached;
  const int64_t parts = by_cache > 4 ? by_cache : pieces_of_image(g, std::min<int64_t>(g.out[0] / rows, 4));
  if (parts > 1) way.cut = {1, 1, std::min(parts, g.out[0])};
}

Way way_by_rules(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out, bool winograd) {
  const bool is_row_major = in == ImageLayout::row_major || out == ImageLayout::row_major;
  if (winograd && kind == ConvKind::forward && !is_row_major && winograd_pays(g)) {
    return {.algorithm = ConvAlgorithm::winograd, .winograd = winograd_cut(g)};
  }
  Way way{.cut = cut_by_rules(kind, g), .order = candidates(kind, g, in, out)};
  if (kind == ConvKind::backward_data && patches_pay(g)) way.algorithm = ConvAlgorithm::patches;
  // pixels whose channels are not consecutive are copied first; that must pay
  const bool cheap_copy = in == out || g.in_channels <= 4;
  const bool can_have_parts = kind == ConvKind::forward && out != ImageLayout::row_major && cheap_copy &&
                              (out == ImageLayout::channels_last || g.taps() > 1) && g.groups == 1;
  // with few positions and many weights slices of channels are better: each thread reads its own weights only
  if (can_have_parts && g.out_positions() >= 150) take_parts(way, g);
  if (way.cut.slices == 1 && way.cut.parts == 1 && direct_pays(kind, g, out)) way.algorithm = ConvAlgorithm::direct;
  return way;
}

constexpr Candidate inner_layouts[] = {{ImageLayout::channels_last, ImageLayout::channels_last},
                                       {ImageLayout::blocked16, ImageLayout::blocked16},
                                       {ImageLayout::row_major, ImageLayout::row_major},
                                       {{}, {}}};

Error no_variant() { return Error("[Convolution] there is no implementation of this variant"); }

// The algorithms besides oneDNN's, numbered after its layouts.
struct OtherAlgorithms {
  std::array<ConvAlgorithm, 2> all{};
  int count = 0;

  OtherAlgorithms(ConvKind kind, const ConvGeometry& g, bool winograd) {
    if (kind != ConvKind::backward_data && direct_fits(g)) add(ConvAlgorithm::direct);
    if (kind == ConvKind::backward_data && patches_fit(g)) add(ConvAlgorithm::patches);
    if (kind == ConvKind::forward && winograd && winograd_pays(g)) add(ConvAlgorithm::winograd);
  }
  void add(ConvAlgorithm algorithm) { all[size_t(count++)] = algorithm; }
};

Way way_of_variant(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out, uint8_t variant) {
  constexpr size_t layouts = std::size(inner_layouts);
  const Cuts cuts(kind, g);
  const Variants variants{0, cuts.count};
  const auto number = size_t(variants.algorithm(variant)), cut = size_t(variants.cut(variant));
  Way way{.cut = cuts.all[cut], .is_chosen = true};
  if (number < layouts) {
    way.order = std::span(inner_layouts).subspan(number, 1);
    return way;
  }
  way.algorithm = OtherAlgorithms(kind, g, true).all[number - layouts];
  if (way.algorithm != ConvAlgorithm::winograd) {
    if (way.cut.slices > 1 || way.cut.parts > 1) throw no_variant();
    return way;
  }
  const WinogradCuts winograd(g);
  if (int(cut) >= winograd.count || in == ImageLayout::row_major || out == ImageLayout::row_major) throw no_variant();
  way.winograd = winograd.all[cut];
  way.cut = {};
  return way;
}

// The primitives of the parts, all with the weights in one layout; false where oneDNN has none.
bool make_parts(ConvSet& set, const ConvGeometry& g, const Way& way, bool bias, Made& first) {
  constexpr Candidate channels_last{ImageLayout::channels_last, ImageLayout::channels_last};
  for (const Rows& rows : rows_of_parts(g, way.cut.parts)) {
    const bool is_first = set.parts.empty();
    auto made = try_make(ConvKind::forward, g, 1, channels_last, bias, is_first ? nullptr : &first.weights, &rows,
                         Kernels::fast);
    if (!made) {
      set.parts.clear();
      return false;
    }
    set.parts.push_back({std::move(made->run), rows.out, rows.out_rows, rows.in, rows.in_rows});
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
  made.plain_weights = onednn::plain(dims);
  if (algorithm == ConvAlgorithm::direct && kind == ConvKind::forward) {
    static_assert(direct_block == 16);
    made.weights = Desc(dims, dnnl::memory::data_type::f32, Tag::Ohwi16o);
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
    const auto& [tile, blocks, in_slices] = winograd->cut;
    return fmt::format("winograd F({0}x{0}, 3x3) {1} in {2} blocks, {3} slices", tile, name_of(in), blocks, in_slices);
  }
  std::string text = algorithm == ConvAlgorithm::patches  ? "sgemm"
                     : algorithm == ConvAlgorithm::direct ? "direct"
                                                          : (parts.empty() ? full : parts[0].run).implementation();
  text += fmt::format(" {}", name_of(in));
  if (out != in) text += fmt::format(" to {}", name_of(out));
  if (!parts.empty()) text += fmt::format(" in {} parts", parts.size());
  return slices > 1 ? text + fmt::format(" in {} slices", slices) : text;
}

Variants conv_variants(ConvKind kind, const ConvGeometry& g, bool winograd) {
  return {int(std::size(inner_layouts)) + OtherAlgorithms(kind, g, winograd).count, Cuts(kind, g).count};
}

onednn::Held<ConvSet> conv_set(const KernelContext& c, ConvKind kind, const ConvGeometry& whole, ImageLayout in,
                               ImageLayout out, bool bias) {
  ConvGeometry g = whole;
  const Way way = c.variant ? way_of_variant(kind, g, in, out, c.variant) : way_by_rules(kind, g, in, out, c.winograd);
  g.out_channels /= way.cut.slices;
  onednn::Key key('c', kind, way.algorithm, c.variant, way.cut.slices, way.cut.parts, g.batch, g.groups, g.in_channels,
                  g.out_channels, g.axes, in, out, bias);
  for (const auto* values : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate, &g.pad}) {
    for (int64_t v : *values) key.add(v);
  }
  return onednn::obtain<ConvSet>(c, "Convolution", key, [&] {
    auto set = std::make_unique<ConvSet>();
    const auto& [algorithm, winograd, cut, order, is_chosen] = way;
    set->algorithm = algorithm;
    if (algorithm == ConvAlgorithm::winograd) {
      set->winograd.emplace(g, winograd);
      set->in = in, set->out = out;
      return set;
    }
    const bool is_own = algorithm != ConvAlgorithm::onednn;
    Made full;
    if (is_own) full = made_without_primitive(kind, g, algorithm);
    const bool has_parts = cut.parts > 1 && out != ImageLayout::row_major && make_parts(*set, g, way, bias, full);
    // where oneDNN has no fast kernel for them: as without
    const ConvCut pieces = cut.parts == 1 || has_parts ? cut : cut_by_rules(kind, g);
    set->slices = pieces.slices, set->piece = pieces.piece;
    if (cut.parts > 1) g.out_channels /= pieces.slices;
    if (is_chosen && cut.parts > 1 && !has_parts) throw no_variant();
    const Kernels kernels = is_chosen ? Kernels::fast : Kernels::all;
    if (!has_parts && !is_own) full = make_first(kind, g, set->piece, order, bias, kernels);
    const int64_t rest = has_parts || is_own ? 0 : g.batch % set->piece;
    if (rest) {
      // the last piece must use the layouts of the others; if oneDNN refuses, the batch is not split
      auto tail = try_make(kind, g, rest, {full.in, full.out}, bias, &full.weights, nullptr,
                           full.reference ? Kernels::all : Kernels::fast);
      if (tail && tail->reference == full.reference) {
        set->tail = std::move(tail->run);
      } else {
        set->piece = g.batch;
        full = make_first(kind, g, g.batch, order, bias, kernels);
      }
    }
    set->full = std::move(full.run);
    set->in = full.in, set->out = full.out;
    set->staged = int(!same_place(in, full.in, g.in_channels, g.in_positions())) +
                  int(!same_place(out, full.out, g.out_channels, g.out_positions()));
    set->weight_bytes = full.weights.get_size();
    if (full.weights != full.plain_weights) {
      if (kind == ConvKind::backward_weight) {
        set->to_plain = onednn::make_reorder(full.weights, full.plain_weights);
      } else {
        set->to_inner = onednn::make_reorder(full.plain_weights, full.weights);
      }
    }
    return set;
  });
}

}  // namespace kaon
