#include "kaon/ops/quant/kernels/int8_conv.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kaon/engine/error.h"
#include "kaon/ops/kernels/onednn_versions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/quant/kernels/int8_amx.h"
#include "kaon/ops/quant/kernels/int8_direct.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"

namespace kaon::ops {
namespace {

using onednn::Desc;
using Dims = dnnl::memory::dims;
using dt = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

// Whether oneDNN's kernels sum exactly: all of them do with AVX-512's VNNI. A template, since not every version has
// every name.
template <class Isa>
bool has_exact_products(Isa isa) {
  if constexpr (requires { Isa::avx512_mic; }) {
    if (isa == Isa::avx512_mic || isa == Isa::avx512_mic_4ops) return false;
  }
  if constexpr (requires { Isa::avx2_vnni_2; }) {
    if (isa == Isa::avx2_vnni_2) return false;
  }
  switch (isa) {
    case Isa::all:
    case Isa::sse41:
    case Isa::avx:
    case Isa::avx2:
    case Isa::avx2_vnni:
    case Isa::avx512_core: return false;
    default: return true;
  }
}

// With the channels innermost.
Desc image_desc(int64_t channels, const ConvGeometry& g, std::array<int64_t, 3> size, int64_t rows, dt type) {
  size[0] = rows;
  Dims dims{1, channels};
  dims.insert(dims.end(), size.begin(), size.begin() + g.axes);
  return {dims, type, g.axes == 3 ? Tag::ndhwc : Tag::nhwc};
}

Dims weight_dims(const ConvGeometry& g) {
  Dims dims{g.out_channels / g.groups, g.in_channels / g.groups};
  dims.insert(dims.end(), g.kernel.begin(), g.kernel.begin() + g.axes);
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  return dims;
}

Desc plain_weights(const ConvGeometry& g) {
  const Dims dims = weight_dims(g);
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return {dims, dt::s8, strides};
}

// The primitive for these rows; nothing where oneDNN has only its reference kernel. `weights`: their layout, set by the
// first.
onednn::Primitive make_primitive(const ConvGeometry& g, const ConvRows& rows, bool is_signed, Desc& weights) {
  Dims stride, dilate, pad, pad_after;
  for (size_t i = 0; i < size_t(g.axes); ++i) {
    stride.push_back(g.stride[i]), dilate.push_back(g.dilate[i] - 1);
    pad.push_back(g.pad[i]), pad_after.push_back(g.pad[i]);
  }
  pad[0] = rows.pad_before, pad_after[0] = rows.pad_after;
  const Desc x = image_desc(g.in_channels, g, g.in, rows.in_rows, is_signed ? dt::s8 : dt::u8);
  const Desc y = image_desc(g.out_channels, g, g.out, rows.out_rows, dt::s32);
  const Desc w = weights.get_size() ? weights : Desc(weight_dims(g), dt::s8, Tag::any);
  try {
    const auto desc = onednn::describe<dnnl::convolution_forward>(
        onednn::engine(), onednn::attributes(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        x, w, y, stride, dilate, pad, pad_after);
    if (onednn::is_reference(desc.impl_info_str())) return {};
    weights = desc.weights_desc();
    return {"int8 convolution",
            desc,
            {{DNNL_ARG_SRC, desc.src_desc()}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, desc.dst_desc()}}};
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return {};
  }
}

// How an image is divided: it follows from the sizes alone. Into rows, so that there is work for threads and the sums
// of a part stay in the second cache; where there are few rows, into slices of the filters.
struct Division {
  int64_t parts = 1, slices = 1;
};
Division divide(const ConvGeometry& g) {
  constexpr double enough = 2e7;                // operations of a part, some 50 us
  constexpr int64_t cached = 131072, rows = 4;  // sums, and results per part along the first axis
  const int64_t by_work = std::clamp<int64_t>(int64_t(g.flops_per_image() / enough), 1,
                                              std::max<int64_t>(8 / std::max<int64_t>(g.batch, 1), 1));
  const int64_t by_cache = (g.out_positions() * g.out_channels + cached - 1) / cached;
  const int64_t parts = std::clamp<int64_t>(std::max(by_work, by_cache), 1, std::max<int64_t>(g.out[0] / rows, 1));
  if (parts >= by_work) return {parts, 1};
  int64_t slices = 1;
  while (g.groups == 1 && slices * 2 <= by_work && g.out_channels % (slices * 32) == 0) slices *= 2;
  return {1, slices};
}

// Of direct kernels, whose slices are whole blocks of filters: these first, for every part reads all weights of a
// slice.
Division divide_direct(const ConvGeometry& g, int64_t level) {
  constexpr double enough = 1e7;                    // operations of an item, some 25 us
  const int64_t cached = 262144 / level, rows = 2;  // levels of the data of a part, and results along the first axis
  const int64_t most = std::clamp<int64_t>(int64_t(g.flops_per_image() / enough), 1,
                                           std::max<int64_t>(8 / std::max<int64_t>(g.batch, 1), 1));
  Division d;
  while (d.slices * 2 <= most && g.out_channels % (d.slices * 2 * int8_filters) == 0) d.slices *= 2;
  while (d.slices * d.parts * 2 <= most) d.parts *= 2;
  d.parts = std::max(d.parts, (g.in_positions() * g.in_channels + cached - 1) / cached);
  d.parts = std::clamp<int64_t>(d.parts, 1, std::max<int64_t>(g.out[0] / rows, 1));
  return d;
}

std::unique_ptr<Int8ConvSet> make_set(const ConvGeometry& g, bool is_signed) {
  auto set = std::make_unique<Int8ConvSet>();
  const bool is_exact = has_exact_products(dnnl::get_effective_cpu_isa());
  if (g.weights() == 0) {
    set->kernel = Int8Kernel::dots;
  } else if (g.groups == 1 && g.axes == 2 && (!is_exact || has_int8_direct())) {
    set->kernel = !is_exact ? Int8Kernel::pairs : has_int8_amx(Int8Patch(g)) ? Int8Kernel::tiles : Int8Kernel::quads;
  } else if (!is_exact) {
    set->kernel = Int8Kernel::dots;
  }
  set->g = g;
  const Division division = set->is_direct() ? divide_direct(g, set->kernel == Int8Kernel::pairs ? 2 : 1) : divide(g);
  set->is_signed = is_signed, set->slices = division.slices;
  set->g.out_channels /= division.slices;
  std::vector<ConvRows> rows = rows_of_parts(g, division.parts);
  if (rows.empty()) rows = {{0, g.out[0], 0, g.in[0], g.pad[0], g.pad[0]}};
  Desc weights;
  for (const ConvRows& r : rows) {
    onednn::Primitive primitive;
    if (set->kernel == Int8Kernel::onednn) {
      primitive = make_primitive(set->g, r, is_signed, weights);
      if (!primitive) set->kernel = Int8Kernel::dots;
    }
    set->pieces.push_back({std::move(primitive), r});
  }
  if (set->is_direct()) return set;
  if (set->kernel == Int8Kernel::dots) {
    for (Int8Piece& piece : set->pieces) piece.run = {};
    set->patch = std::max<int64_t>(g.in_channels / g.groups * g.taps() + 31, 32) / 32 * 32;
  } else if (const Desc plain = plain_weights(set->g); plain != weights) {
    set->to_inner = onednn::make_reorder(plain, weights);
  }
  return set;
}

// The numbers under the window at position `at` of image rows with the channels innermost: (taps, channels of a group),
// zeros outside and up to the length of a patch.
template <class T>
void gather(const Int8ConvSet& set, const ConvRows& rows, const T* image, int64_t group, int64_t at, int16_t* patch) {
  const ConvGeometry& g = set.g;
  const int64_t channels = g.in_channels / g.groups;
  std::array<int64_t, 3> size = g.in, out = g.out, place{};
  size[0] = rows.in_rows, out[0] = rows.out_rows;
  for (int axis = g.axes; axis-- > 0;) place[size_t(axis)] = at % out[size_t(axis)], at /= out[size_t(axis)];
  int16_t* to = patch;
  for (int64_t tap = 0; tap < g.taps(); ++tap, to += channels) {
    int64_t rest = tap, pixel = 0, step = 1;
    bool is_inside = true;
    for (int axis = g.axes; axis-- > 0;) {
      const size_t a = size_t(axis);
      const int64_t pad = axis == 0 ? rows.pad_before : g.pad[a];
      const int64_t x = place[a] * g.stride[a] - pad + rest % g.kernel[a] * g.dilate[a];
      rest /= g.kernel[a];
      is_inside = is_inside && x >= 0 && x < size[a];
      pixel += x * step, step *= size[a];
    }
    std::fill_n(to, channels, int16_t(0));
    if (!is_inside) continue;
    const T* const from = image + pixel * g.in_channels + group * channels;
    std::copy_n(from, channels, to);
  }
  std::fill(to, patch + set.patch, int16_t(0));
}

template <class T>
void own_convolution(const Int8ConvSet& set, const ConvRows& rows, const T* image, const int16_t* filters,
                     int32_t* sums) {
  const ConvGeometry& g = set.g;
  const int64_t positions = rows.out_rows * (g.out_positions() / g.out[0]), per_group = g.out_channels / g.groups;
  Scratch memory(size_t(set.patch) * 2);
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t p = 0; p < positions; ++p) {
      gather(set, rows, image, group, p, memory.as<int16_t>());
      dot_products(memory.as<int16_t>(), filters + group * per_group * set.patch, set.patch, per_group,
                   sums + p * g.out_channels + group * per_group);
    }
  }
}

// The levels whose sums int8_direct computes: int8 is moved to uint8, which packed weights make up for.
constexpr uint8_t moved = 128;

// The rows of an image with their border, channels innermost, as uint8 or int16.
template <class T>
void stage(const Int8ConvSet& set, const ConvRows& rows, const uint8_t* x, bool in_rows, T* to) {
  constexpr bool is_wide = sizeof(T) > 1;
  const ConvGeometry& g = set.g;
  const int64_t channels = g.in_channels, width = g.in[1], line = width * channels, border = g.pad[1] * channels;
  const T nothing = set.is_signed && !is_wide ? moved : 0;
  Scratch turned(is_wide && !in_rows ? size_t(line) : 0);
  const auto fill = [&](int64_t levels) { to = std::fill_n(to, levels, nothing); };
  fill(rows.pad_before * (line + 2 * border));
  for (int64_t y = rows.in; y < rows.in + rows.in_rows; ++y) {
    fill(border);
    const uint8_t* from = x + y * line;
    if (!in_rows) {
      uint8_t* const row = is_wide ? turned.as<uint8_t>() : reinterpret_cast<uint8_t*>(to);
      transpose_bytes(x + y * width, g.in_positions(), row, channels, channels, width);
      from = row;
    }
    if (is_wide && set.is_signed) {
      to = std::copy_n(reinterpret_cast<const int8_t*>(from), line, to);
    } else if (!is_wide && set.is_signed) {
      to = std::transform(from, from + line, to, [](uint8_t level) { return T(level ^ moved); });
    } else {
      to = from == static_cast<const void*>(to) ? to + line : std::copy_n(from, line, to);
    }
    fill(border);
  }
  fill(rows.pad_after * (line + 2 * border));
}

// Some 64 positions by AMX: rows of a tile are positions of one row of the image, and two tiles share weights.
int64_t whole_rows(int64_t width) {
  if (width > 64 || width < 1) return 64;
  const int64_t rows = 64 / width, tiles = (width + 15) / 16;
  return (rows * tiles % 2 == 0 ? rows : rows + 1) * width;
}

// The sums of a part by a slice of the filters, by blocks that the first cache holds.
void direct_convolution(const Int8ConvSet& set, const ConvRows& rows, const uint8_t* x, bool in_rows,
                        const std::byte* packed, Int8Sums part, FunctionRef<void(const Int8Sums&)> finish) {
  const ConvGeometry& g = set.g;
  const Int8Patch patch = set.direct_patch();
  const bool has_tiles = set.kernel == Int8Kernel::tiles, has_pairs = set.kernel == Int8Kernel::pairs;
  const int64_t together = has_tiles ? whole_rows(g.out[1]) : 60;  // positions
  const bool in_place =
      in_rows && !has_pairs && !set.is_signed && g.pad[0] == 0 && g.pad[1] == 0 && patch.length % 4 == 0;
  Scratch staged(in_place ? 0 : size_t((rows.pad_before + rows.in_rows + rows.pad_after) * patch.line + int8_overread));
  if (in_place) {
    x += rows.in * patch.line;
  } else if (has_pairs) {
    stage(set, rows, x, in_rows, staged.as<int16_t>());
  } else {
    stage(set, rows, x, in_rows, staged.as<uint8_t>());
    x = staged.as<uint8_t>();
  }
  const auto* const start = set.is_signed && !has_pairs
                                ? reinterpret_cast<const int32_t*>(packed + int8_packed_bytes(patch, g.out_channels))
                                : nullptr;
  const int64_t block = has_tiles ? int8_amx_filters : has_pairs ? int8_lanes : int8_filters;
  Int8Tiles tiles;
  Scratch sums(size_t(std::min(together, part.positions) * block) * 4);
  const int64_t first = part.first, positions = part.positions, channel = part.channel;
  part.sums = sums.as<int32_t>();
  for (int64_t f = 0; f < g.out_channels; f += block) {
    part.channel = channel + f, part.channels = std::min(block, g.out_channels - f);
    for (int64_t at = 0; at < positions; at += together) {
      part.first = first + at, part.positions = std::min(together, positions - at);
      if (has_tiles) {
        const bool fetch = at == 0 && f + 2 * block <= g.out_channels;
        int8_amx(tiles, patch, x, packed, g.out[1], at, part.positions, f, part.channels, fetch, start, part.sums,
                 part.channels);
      } else if (has_pairs) {
        int8_direct_pairs(patch, staged.as<int16_t>(), packed, g.out[1], at, part.positions, f, part.channels,
                          part.sums, part.channels);
      } else {
        int8_direct(patch, x, packed, g.out[1], at, part.positions, f, part.channels, start, part.sums, part.channels);
      }
      finish(part);
    }
  }
}

}  // namespace

bool multiplies_int8(int axes, int64_t groups) {
  return (axes == 2 && groups == 1) || has_exact_products(dnnl::get_effective_cpu_isa());
}

std::string Int8ConvSet::implementation() const {
  switch (kernel) {
    case Int8Kernel::onednn: return pieces[0].run.implementation();
    case Int8Kernel::dots: return "int16";
    case Int8Kernel::pairs: return "direct:int16";
    case Int8Kernel::quads: return "direct:avx512_vnni";
    case Int8Kernel::tiles: return "direct:avx512_amx";
  }
  return "";
}

size_t Int8ConvSet::slice_bytes() const {
  if (is_direct()) return line_aligned(int8_packed_bytes(direct_patch(), g.out_channels) + size_t(g.out_channels) * 4);
  return patch > 0  ? line_aligned(size_t(g.out_channels * patch) * 2)
         : to_inner ? line_aligned(to_inner.desc(1).get_size())
                    : size_t(g.weights());
}

void Int8ConvSet::pack(const int8_t* weights, std::byte* packed) const {
  const int64_t channels = g.in_channels / g.groups, taps = g.taps();
  for (int64_t s = 0; s < slices; ++s, weights += g.weights(), packed += slice_bytes()) {
    if (kernel == Int8Kernel::pairs) {
      int8_pack<int16_t>(g, weights, int8_lanes, packed);
      continue;
    }
    if (is_direct()) {
      int8_pack<int8_t>(g, weights, kernel == Int8Kernel::tiles ? int8_lanes : int8_filters, packed);
      auto* const start = reinterpret_cast<int32_t*>(packed + int8_packed_bytes(Int8Patch(g), g.out_channels));
      for (int64_t o = 0; o < g.out_channels; ++o) {
        const int8_t* const filter = weights + o * channels * taps;
        start[o] = std::accumulate(filter, filter + channels * taps, int32_t(0)) * -int32_t(moved);
      }
      continue;
    }
    if (kernel == Int8Kernel::onednn) {
      if (to_inner) {
        to_inner.run(weights, packed);
      } else {
        std::memcpy(packed, weights, size_t(g.weights()));
      }
      continue;
    }
    auto* const to = reinterpret_cast<int16_t*>(packed);
    std::fill_n(to, g.out_channels * patch, int16_t(0));
    for (int64_t o = 0; o < g.out_channels; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) {
          to[o * patch + t * channels + c] = weights[(o * channels + c) * taps + t];
        }
      }
    }
  }
}

onednn::CacheHandle<Int8ConvSet> int8_conv_set(const KernelContext& c, const ConvGeometry& g, bool is_signed) {
  onednn::Key key('i', is_signed, g.batch, g.groups, g.in_channels, g.out_channels, g.axes);
  for (const auto* values : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate, &g.pad}) {
    for (int64_t v : *values) key.add(v);
  }
  return onednn::obtain<Int8ConvSet>(c, "int8 convolution", key, [&] { return make_set(g, is_signed); });
}

void int8_convolution(KernelContext& c, const Int8ConvSet& set, const void* data, bool in_rows, const std::byte* packed,
                      FunctionRef<void(const Int8Sums&)> finish) {
  const ConvGeometry& g = set.g;
  const int64_t in_row = g.in_positions() / g.in[0], out_row = g.out_positions() / g.out[0];
  const int64_t channels = g.in_channels, planes = g.in_positions();
  const auto pieces = int64_t(set.pieces.size());
  const bool is_staged = !in_rows && channels > 1 && planes > 1;
  c.run.parallel_for(g.batch * pieces * set.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t slice = item % set.slices, image = item / set.slices / pieces;
      const Int8Piece& piece = set.pieces[size_t(item / set.slices % pieces)];
      const ConvRows& rows = piece.rows;
      const int64_t pixels = rows.in_rows * in_row, positions = rows.out_rows * out_row;
      const uint8_t* x = static_cast<const uint8_t*>(data) + image * channels * planes;
      const std::byte* const weights = packed + size_t(slice) * set.slice_bytes();
      const Int8Sums part{nullptr, image, rows.out * out_row, positions, slice * g.out_channels, g.out_channels};
      if (set.is_direct()) {
        direct_convolution(set, rows, x, in_rows, weights, part, finish);
        continue;
      }
      Scratch staged(is_staged ? size_t(pixels * channels) : 0);
      if (is_staged) {
        transpose_bytes(x + rows.in * in_row, planes, staged.as<uint8_t>(), channels, channels, pixels);
        x = staged.as<uint8_t>();
      } else {
        x += rows.in * in_row * channels;
      }
      Scratch sums(size_t(positions * g.out_channels) * 4);
      if (set.kernel == Int8Kernel::onednn) {
        piece.run.run(x, weights, sums.data());
      } else if (set.is_signed) {
        own_convolution(set, rows, reinterpret_cast<const int8_t*>(x), reinterpret_cast<const int16_t*>(weights),
                        sums.as<int32_t>());
      } else {
        own_convolution(set, rows, x, reinterpret_cast<const int16_t*>(weights), sums.as<int32_t>());
      }
      Int8Sums whole = part;
      whole.sums = sums.as<int32_t>();
      finish(whole);
    }
  });
}

}  // namespace kaon::ops
