// The epilogue that Convolution and FullyConnected apply to their results while these are in cache.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kaon/ops/op.h"

namespace kaon::ops {

// PostOps as the attribute's text: "scale+addend+relu", "none".
std::string to_text(const PostOps& post_ops);
bool from_text(std::string_view text, PostOps& post_ops);

// y = activation(scale x + shift + addend) with a scale and a shift per channel. NaN stays NaN. T: float, double.
template <class T>
struct Epilogue {
  const T* scale = nullptr;   // null: 1; comes with a shift
  const T* shift = nullptr;   // null: 0
  const T* addend = nullptr;  // null: 0; has y's layout, and may be y
  FusedActivation activation = FusedActivation::none;

  bool is_empty() const { return !shift && !addend && activation == FusedActivation::none; }
  // The part for a block that begins at this channel and element.
  Epilogue at(int64_t channel, int64_t element) const {
    return {scale ? scale + channel : nullptr, shift ? shift + channel : nullptr, addend ? addend + element : nullptr,
            activation};
  }
  // The shift as the bias of a product that adds it itself; null when that cannot be.
  const T* take_bias() { return scale ? nullptr : std::exchange(shift, nullptr); }
  // True: relu is the whole epilogue, which is then removed here and done by the kernel that computes x.
  bool take_relu() {
    if (scale || shift || addend || activation != FusedActivation::relu) return false;
    activation = FusedActivation::none;
    return true;
  }
};

// The epilogue of a layer whose inputs are data, weight, bias (unless no_bias) and those that `post_ops` adds.
template <class T>
Epilogue<T> layer_epilogue(const KernelContext& c, bool no_bias, const PostOps& post_ops) {
  int next = 2;
  const auto input = [&](bool given) { return given ? c.in(next++).template as<T>() : nullptr; };
  Epilogue<T> e;
  e.shift = input(!no_bias);
  e.scale = input(post_ops.scale);
  e.addend = input(post_ops.addend);
  e.activation = post_ops.activation;
  return e;
}

// Rows of one value per channel: y[i * stride + j] from x[i * x_stride + j]. x may be y.
void finish_rows(const float* x, int64_t x_stride, float* y, int64_t stride, int64_t rows, int64_t channels,
                 const Epilogue<float>& e);
void finish_rows(const double* x, int64_t x_stride, double* y, int64_t stride, int64_t rows, int64_t channels,
                 const Epilogue<double>& e);
// Planes of one channel each, plane i of channel i % channels. x may be y.
void finish_planes(const float* x, float* y, int64_t planes, int64_t channels, int64_t positions,
                   const Epilogue<float>& e);
void finish_planes(const double* x, double* y, int64_t planes, int64_t channels, int64_t positions,
                   const Epilogue<double>& e);

}  // namespace kaon::ops
