// What the recurrence and its gradient share on the CPU: the pieces of a step, bounds of the cell, checks.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/nn/rnn/kernels/rnn_bounds.h"
#include "kaon/ops/nn/rnn/kernels/rnn_rows.h"
#include "kaon/ops/nn/rnn/kernels/rnn_sizes.h"

namespace kaon::ops {

inline int64_t pieces_of(int64_t total, int64_t part) { return (total + part - 1) / part; }

// Units of the state that a piece of a step makes: by the sizes alone, at most 16 pieces of 2 MFLOP or more. All in
// double, where RepeatedGemm has one piece.
template <class T>
int64_t units_of_piece(const RnnSizes& s) {
  if (std::is_same_v<T, double>) return std::max<int64_t>(1, s.hidden);
  const double flops = 2.0 * double(s.batch) * double(s.gate_columns()) * double(s.result);
  const auto pieces = int64_t(std::clamp(flops / 2e6, 1.0, 16.0));
  return std::max<int64_t>(1, (pieces_of(s.hidden, pieces) + 15) / 16 * 16);
}

// body(piece) for the pieces of a product; a small product wakes no other thread.
template <class Product, class Body>
void in_pieces(RunContext& run, const Product& product, Body&& body) {
  if (!product.is_split()) return body(0);
  run.parallel_for(product.pieces(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

template <class T, class Op>
CellBounds<T> cell_bounds(const Op& op) {
  CellBounds<T> b;
  b.are_given = op.clip_min.has_value();
  if (b.are_given) b.low = T(*op.clip_min), b.high = T(*op.clip_max);
  if constexpr (requires { op.clip_nan; }) b.nan_is_low = op.clip_nan;
  return b;
}

// The attributes that RNN, and the recurrence and its gradient, share.
template <class Op>
void expect_scan(const InferContext& c, const Op& op) {
  if (op.projected && op.mode != RnnMode::lstm) c.fail_value("a projection is for mode lstm");
  if (op.clip_min.has_value() != op.clip_max.has_value()) c.fail_value("clip_min and clip_max come together");
}

// The first n inputs have one floating dtype; sequence lengths, the last input, are numbers, one for each sequence.
inline void expect_scan_dtypes(InferContext& c, int n, bool use_sequence_length, int64_t batch) {
  c.expect_floating();
  for (int i = 0; i < n + int(!use_sequence_length); ++i) {
    if (c.dtype(i) != c.dtype()) {
      c.fail_dtype(fmt::format("inputs must have one dtype, got {} and {}", name_of(c.dtype()), name_of(c.dtype(i))));
    }
  }
  if (!use_sequence_length) return;
  c.expect_shape(n, Shape(batch));
  if (c.dtype(n) == DType::boolean) c.fail_dtype("sequence_length must be numbers, got bool");
}

}  // namespace kaon::ops
