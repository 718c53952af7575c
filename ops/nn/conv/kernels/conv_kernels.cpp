#include "kaon/ops/nn/conv/kernels/conv_kernels.h"

#include <algorithm>

#include "kaon/ops/array/small_array.h"
#include "kaon/ops/kernels/packed_weights.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/conv/kernels/conv_direct.h"
#include "kaon/ops/nn/conv/kernels/conv_gemm_col2im.h"
#include "kaon/ops/nn/conv/kernels/conv_primitives.h"

namespace kaon::ops {
namespace {

// Images in blocks of 16 channels, none of them partly filled.
void finish_blocks(const float* from, float* to, int64_t images, int64_t channels, int64_t positions,
                   const Epilogue<float>& epilogue) {
  if (from == to && epilogue.is_empty()) return;
  for (int64_t row = 0; row < images * channels; row += 16) {
    const int64_t at = row * positions;
    finish_rows(from + at, 16, to + at, 16, positions, 16, epilogue.at(row % channels, at));
  }
}

// One image tensor of a piece: used in place, or staged in the layout of the primitive.
class Images {
 public:
  Images(const TensorView& view, ImageLayout inner, int64_t channels, int64_t positions)
      : outside_(image_layout(view.layout)),
        inner_(inner),
        channels_(channels),
        positions_(positions),
        data_(view.as<float>()),
        staged_(!same_place(outside_, inner, channels, positions)) {}

  size_t staging_bytes(int64_t images) const {
    return staged_ ? line_aligned(floats(inner_, images) * sizeof(float)) : 0;
  }
  // The address of images [first, first + images) for the primitive: `staging` or the tensor itself.
  float* place(int64_t first, std::byte* staging) const {
    return staged_ ? reinterpret_cast<float*>(staging) : outside(first);
  }
  void bring_in(int64_t first, int64_t images, std::byte* staging) const {
    if (staged_) convert_images(outside(first), outside_, place(first, staging), inner_, images, channels_, positions_);
  }
  void carry_out(int64_t first, int64_t images, std::byte* staging) const {
    if (staged_) convert_images(place(first, staging), inner_, outside(first), outside_, images, channels_, positions_);
  }
  // Stores images [first, first + images) of the tensor from `from`, in the same layout, through the epilogue.
  void finish(const float* from, int64_t first, int64_t images, const Epilogue<float>& epilogue) const {
    float* const to = outside(first);
    const Epilogue<float> e = epilogue.at(0, to - data_);
    switch (outside_) {
      case ImageLayout::row_major: return finish_planes(from, to, images * channels_, channels_, positions_, e);
      case ImageLayout::channels_last:
        return finish_rows(from, channels_, to, channels_, images * positions_, channels_, e);
      case ImageLayout::blocked16: return finish_blocks(from, to, images, channels_, positions_, e);
    }
  }
  // Stores channels [channel, channel + channels) of image `image` from `from`, in the same layout.
  void finish_slice(const float* from, int64_t image, int64_t channel, int64_t channels,
                    const Epilogue<float>& epilogue) const {
    float* const to = outside(image) + (outside_ == ImageLayout::channels_last ? channel : channel * positions_);
    const Epilogue<float> e = epilogue.at(channel, to - data_);
    switch (outside_) {
      case ImageLayout::row_major: return finish_planes(from, to, channels, channels, positions_, e);
      case ImageLayout::channels_last: return finish_rows(from, channels, to, channels_, positions_, channels, e);
      case ImageLayout::blocked16: return finish_blocks(from, to, 1, channels, positions_, e);
    }
  }
  // Stores positions [first, first + positions) of image `image` from `from`, an image of just these in the layout of
  // the primitive; neither is row-major.
  void finish_part(const float* from, int64_t image, int64_t first, int64_t positions,
                   const Epilogue<float>& epilogue) const {
    const auto blocked = ImageLayout::blocked16;
    float* const to = outside(image) + position_offset(outside_, channels_, first);
    const int64_t step = inner_ == blocked || outside_ == blocked ? 16 : channels_;
    for (int64_t c = 0; c < channels_; c += step) {
      const float* const x = from + (inner_ == blocked ? c * positions : c);
      float* const y = to + (outside_ == blocked ? c * positions_ : c);
      finish_rows(x, inner_ == blocked ? 16 : channels_, y, outside_ == blocked ? 16 : channels_, positions, step,
                  epilogue.at(c, y - data_));
    }
  }
  // These positions in the layout of the primitive: in `staging` where parts_are_staged().
  const float* part(int64_t image, int64_t first, int64_t positions, float* staging) const {
    const float* const from = outside(image) + position_offset(outside_, channels_, first);
    if (!parts_are_staged()) return from;
    convert_positions(from, outside_, positions_, staging, inner_, positions, channels_, positions);
    return staging;
  }
  bool parts_are_staged() const { return staged_ || inner_ != ImageLayout::channels_last; }
  size_t part_bytes(int64_t positions) const {
    return line_aligned(size_t(image_floats(inner_, channels_, positions)) * sizeof(float));
  }
  ImageLayout outside_layout() const { return outside_; }
  // The same tensor from image `first` on, lying elsewhere.
  Images moved(float* data, int64_t first) const {
    Images m = *this;
    m.data_ = data, m.first_ = first;
    return m;
  }
  size_t bytes(int64_t images) const { return floats(outside_, images) * sizeof(float); }
  float* outside(int64_t first) const { return data_ + floats(outside_, first - first_); }

 private:
  size_t floats(ImageLayout layout, int64_t images) const {
    return size_t(images * image_floats(layout, channels_, positions_));
  }

  ImageLayout outside_, inner_;
  int64_t channels_, positions_;
  float* data_;
  int64_t first_ = 0;  // the image at data_
  bool staged_;
};

// Calls body(primitive, first image, images, number of the piece) for every piece.
template <class Body>
void for_each_piece(KernelContext& c, const ConvSet& set, int64_t batch, Body&& body) {
  c.run.parallel_for(batch, set.piece, [&](int64_t begin, int64_t end) {
    const int64_t images = end - begin;
    body(images == set.piece ? set.full : set.tail, begin, images, begin / set.piece);
  });
}

// The products of a piece by the algorithm of `set`, plus the bias unless it is null.
struct Products {
  const ConvSet& set;
  const float* bias;
  bool direct_relu;

  // y from x and w, of the images that `conv` takes, or of these rows of each image. channel: the first one of y in the
  // bias.
  void compute(const ConvGeometry& g, const onednn::Primitive& conv, const ConvRows& rows, int64_t images,
               const float* x, const float* w, float* y, int64_t channel = 0) const {
    const float* const shift = bias ? bias + channel : nullptr;
    if (set.algorithm == ConvAlgorithm::direct) {
      for (int64_t i = 0; i < images; ++i) {
        direct_forward(g, rows, x + i * g.in_positions() * g.in_channels, w, shift, direct_relu,
                       y + i * g.out_positions() * g.out_channels);
      }
    } else if (shift) {
      conv.run(x, w, y, shift);
    } else {
      conv.run(x, w, y);
    }
  }
};

// Every image in parts of its first spatial axis. With `apart` the products may not be written to the result first.
void forward_in_parts(KernelContext& c, const ConvGeometry& g, const ConvSet& set, const Images& in,
                      const Images& result, const float* w, const Products& sums, const Epilogue<float>& epilogue,
                      bool apart) {
  const PackedWeights weights(c, set.to_inner, w);
  const int64_t in_row = g.in_positions() / g.in[0], out_row = g.out_positions() / g.out[0];  // positions
  const auto parts = int64_t(set.parts.size());
  apart = apart || result.parts_are_staged();
  c.run.parallel_for(g.batch * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [rows, run] = set.parts[size_t(i % parts)];
      const int64_t image = i / parts, first = rows.out * out_row, positions = rows.out_rows * out_row;
      const size_t in_bytes = in.parts_are_staged() ? in.part_bytes(rows.in_rows * in_row) : 0;
      const Scratch staging(in_bytes + (apart ? result.part_bytes(positions) : 0));
      const float* const data = in.part(image, rows.in * in_row, rows.in_rows * in_row, staging.as<float>());
      float* const products =
          apart ? reinterpret_cast<float*>(staging.data() + in_bytes) : result.outside(image) + first * g.out_channels;
      sums.compute(g, run, rows, 1, data, weights.data(), products);
      result.finish_part(products, image, first, positions, epilogue);
    }
  });
}

// Every piece in slices of its output channels. The products of a slice are kept apart from the result, of which they
// are no whole piece. The pieces divide the batch.
void forward_in_slices(KernelContext& c, const ConvGeometry& g, const ConvSet& set, const Images& in,
                       const Images& result, const float* w, const Products& sums, const Epilogue<float>& epilogue) {
  const int64_t channels = g.out_channels / set.slices, positions = g.out_positions();
  ConvGeometry of_slice = g;
  of_slice.out_channels = channels;
  SmallArray<PackedWeights> weights(size_t(set.slices), [&](size_t slice) {
    return PackedWeights(c, set.to_inner, w + int64_t(slice) * (g.weights() / set.slices));
  });
  const int64_t pieces = g.batch / set.piece;
  const size_t in_bytes = in.staging_bytes(set.piece);
  auto* const staged = in_bytes ? static_cast<std::byte*>(c.run.workspace(in_bytes * size_t(pieces))) : nullptr;
  if (staged) {
    c.run.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) in.bring_in(i * set.piece, set.piece, staged + in_bytes * size_t(i));
    });
  }
  const int64_t image_products = image_floats(set.out, channels, positions);
  const size_t products_bytes = line_aligned(size_t(set.piece * image_products) * sizeof(float));
  const bool converted = !same_place(set.out, result.outside_layout(), channels, positions);
  const size_t slice_bytes = converted ? size_t(channels * positions) * sizeof(float) : 0;
  c.run.parallel_for(pieces * set.slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = i / set.slices, slice = i % set.slices;
      const Scratch staging(products_bytes + slice_bytes);
      float* const products = staging.as<float>();
      const float* const data = in.place(piece * set.piece, staged + in_bytes * size_t(piece));
      sums.compute(of_slice, set.full, all_rows(g), set.piece, data, weights[size_t(slice)].data(), products,
                   slice * channels);
      for (int64_t k = 0; k < set.piece; ++k) {
        const float* image = products + k * image_products;
        if (converted) {
          auto* const to = reinterpret_cast<float*>(staging.data() + products_bytes);
          convert_images(image, set.out, to, result.outside_layout(), 1, channels, positions);
          image = to;
        }
        result.finish_slice(image, piece * set.piece + k, slice * channels, channels, epilogue);
      }
    }
  });
}

}  // namespace

void conv_forward(KernelContext& c, const ConvGeometry& g, const TensorView& x, const float* w, const TensorView& y,
                  Epilogue<float> epilogue) {
  if (g.batch == 0) return;
  const bool has_bias = !epilogue.scale && epilogue.shift,
             in_place = epilogue.addend && epilogue.addend == y.as<float>();
  const auto set = conv_set(c, ConvKind::forward, g, image_layout(x.layout), image_layout(y.layout), has_bias);
  if (set->algorithm == ConvAlgorithm::winograd) return winograd_forward(c, g, *set->winograd, x, w, y, epilogue);
  const float* const bias = epilogue.take_bias();
  const Products sums{*set, bias, set->algorithm == ConvAlgorithm::direct && epilogue.take_relu()};
  const Images in(x, set->in, g.in_channels, g.in_positions());
  const Images result(y, set->out, g.out_channels, g.out_positions());
  if (!set->parts.empty()) return forward_in_parts(c, g, *set, in, result, w, sums, epilogue, in_place);
  if (set->slices > 1) return forward_in_slices(c, g, *set, in, result, w, sums, epilogue);
  const PackedWeights weights(c, set->to_inner, w);
  for_each_piece(c, *set, g.batch, [&](const onednn::Primitive& conv, int64_t first, int64_t images, int64_t) {
    const size_t in_bytes = in.staging_bytes(images), out_bytes = result.staging_bytes(images);
    const Scratch staging(in_bytes + out_bytes + (in_place ? result.bytes(images) : 0));
    std::byte* const out_staging = staging.data() + in_bytes;
    // the products need other memory when y holds the addend
    const Images out = in_place ? result.moved(reinterpret_cast<float*>(out_staging + out_bytes), first) : result;
    in.bring_in(first, images, staging.data());
    const float* const data = in.place(first, staging.data());
    sums.compute(g, conv, all_rows(g), images, data, weights.data(), out.place(first, out_staging));
    out.carry_out(first, images, out_staging);
    result.finish(out.outside(first), first, images, epilogue);
  });
}

void conv_backward_data(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const float* w,
                        const TensorView& dx) {
  if (g.batch == 0) return;
  const auto set = conv_set(c, ConvKind::backward_data, g, image_layout(dx.layout), image_layout(dy.layout), false);
  if (set->algorithm == ConvAlgorithm::winograd) return winograd_backward_data(c, g, *set->winograd, dy, w, dx);
  const Images in(dx, set->in, g.in_channels, g.in_positions());
  const Images out(dy, set->out, g.out_channels, g.out_positions());
  const PackedWeights weights(c, set->to_inner, w);
  for_each_piece(c, *set, g.batch, [&](const onednn::Primitive& conv, int64_t first, int64_t images, int64_t) {
    const size_t out_bytes = out.staging_bytes(images);
    const Scratch staging(out_bytes + in.staging_bytes(images));
    std::byte* const in_staging = staging.data() + out_bytes;
    out.bring_in(first, images, staging.data());
    const float* const head = out.place(first, staging.data());
    if (set->algorithm == ConvAlgorithm::gemm_col2im) {
      gemm_col2im_backward_data(g, images, head, weights.data(), in.place(first, in_staging));
    } else {
      conv.run(head, weights.data(), in.place(first, in_staging));
    }
    in.carry_out(first, images, in_staging);
  });
}

void conv_backward_weight(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const TensorView& x, float* dw,
                          float* db) {
  if (g.batch == 0) {
    std::fill_n(dw, g.weights(), 0.f);
    if (db) std::fill_n(db, g.out_channels, 0.f);
    return;
  }
  const auto set =
      conv_set(c, ConvKind::backward_weight, g, image_layout(x.layout), image_layout(dy.layout), db != nullptr);
  if (set->algorithm == ConvAlgorithm::winograd) return winograd_backward_weight(c, g, *set->winograd, dy, x, dw, db);
  const Images in(x, set->in, g.in_channels, g.in_positions());
  const Images out(dy, set->out, g.out_channels, g.out_positions());
  // one partial result per piece, weights and then bias; the first is summed into
  const int64_t pieces = (g.batch + set->piece - 1) / set->piece;
  const size_t weight_bytes = line_aligned(set->weight_bytes);
  const size_t part_bytes = weight_bytes + line_aligned(size_t(g.out_channels) * sizeof(float));
  const bool in_place = pieces == 1 && !set->to_given;
  std::byte* const parts = in_place ? nullptr : static_cast<std::byte*>(c.run.workspace(part_bytes * size_t(pieces)));
  const auto part = [&](int64_t piece) { return parts + part_bytes * size_t(piece); };
  const auto weight_part = [&](int64_t piece) { return in_place ? dw : reinterpret_cast<float*>(part(piece)); };
  const auto bias_part = [&](int64_t piece) {
    return pieces == 1 ? db : reinterpret_cast<float*>(part(piece) + weight_bytes);
  };
  for_each_piece(c, *set, g.batch, [&](const onednn::Primitive& conv, int64_t first, int64_t images, int64_t piece) {
    const size_t out_bytes = out.staging_bytes(images);
    const Scratch staging(out_bytes + in.staging_bytes(images));
    std::byte* const in_staging = staging.data() + out_bytes;
    out.bring_in(first, images, staging.data());
    in.bring_in(first, images, in_staging);
    const float* const head = out.place(first, staging.data());
    const float* const data = in.place(first, in_staging);
    if (set->algorithm == ConvAlgorithm::direct) {
      direct_backward_weight(g, images, head, data, weight_part(piece));
      if (!db) return;
      std::fill_n(bias_part(piece), g.out_channels, 0.f);
      add_rows(head, bias_part(piece), images * g.out_positions(), g.out_channels);
    } else if (db) {
      conv.run(head, data, weight_part(piece), bias_part(piece));
    } else {
      conv.run(head, data, weight_part(piece));
    }
  });
  if (in_place) return;
  float* const sum = set->to_given ? weight_part(0) : dw;
  if (pieces > 1) {
    c.run.parallel_for(int64_t(set->weight_bytes / sizeof(float)), 1 << 12, [&](int64_t begin, int64_t end) {
      if (sum != weight_part(0)) std::copy(weight_part(0) + begin, weight_part(0) + end, sum + begin);
      for (int64_t piece = 1; piece < pieces; ++piece)
        add_rows(weight_part(piece) + begin, sum + begin, 1, end - begin);
    });
    if (db) {
      std::copy_n(bias_part(0), g.out_channels, db);
      for (int64_t piece = 1; piece < pieces; ++piece) add_rows(bias_part(piece), db, 1, g.out_channels);
    }
  }
  if (set->to_given) set->to_given.run(sum, dw);
}

}  // namespace kaon::ops
