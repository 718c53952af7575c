// What the recurrence and its gradient share on the CPU: the pieces of a step, bounds of the cell, checks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kaon/engine/block_pool.h"
#include "kaon/ops/nn/rnn/kernels/rnn_bounds.h"
#include "kaon/ops/nn/rnn/kernels/rnn_rows.h"
#include "kaon/ops/nn/rnn/kernels/rnn_sizes.h"
#include "kaon/ops/nn/rnn/kernels/step_loop.h"

namespace kaon::ops {

inline int64_t pieces_of(int64_t total, int64_t part) { return (total + part - 1) / part; }

// Units of the state that a piece of a step makes: by the sizes alone, at most 16 pieces of 2 MFLOP or more, or where
// there is one row, which reads the weight for one product, of 256 KB. All in double, where RepeatedGemm has one piece.
template <class T>
int64_t units_of_piece(const RnnSizes& s) {
  if (std::is_same_v<T, double>) return std::max<int64_t>(1, s.hidden);
  const double weights = double(s.gate_columns()) * double(s.result);
  const double pieces = s.batch == 1 ? weights / (1 << 16) : 2.0 * double(s.batch) * weights / 2e6;
  return std::max<int64_t>(1, (pieces_of(s.hidden, int64_t(std::clamp(pieces, 1.0, 16.0))) + 15) / 16 * 16);
}

// The same for the gradient. A row times a weight whose columns are cut: whole panels of those.
template <class T>
int64_t units_of_gradient(const RnnSizes& s) {
  if (s.batch != 1) return units_of_piece<T>(s);
  const int64_t panel = 128, most = std::max(s.hidden, s.result);
  if (s.gate_columns() * s.result < int64_t(1) << 16) return std::max<int64_t>(1, most);
  return (pieces_of(most, 16) + panel - 1) / panel * panel;
}

// The pieces of a loop over steps with this product, and with this one more in each step if there is one.
template <class Product>
int64_t pieces_of_step(const Product& product, const std::optional<Product>& more) {
  return std::max(product.pieces(), more ? more->pieces() : 1);
}

// Asks for the memory of `blocks` rows of n numbers, `stride` apart, to be read or written soon.
template <class T>
void fetch_to_read(const T* p, int64_t n, int64_t blocks = 1, int64_t stride = 0) {
  for (int64_t k = 0; p && k < blocks; ++k) {
    for (int64_t i = 0; i < n; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(p + k * stride + i);
  }
}
constexpr int64_t rows_ahead = 2;  // that are fetched while another row is computed
template <class T>
void fetch_to_write(const T* p, int64_t n, int64_t blocks = 1, int64_t stride = 0) {
  for (int64_t k = 0; p && k < blocks; ++k) {
    for (int64_t i = 0; i < n; i += 64 / int64_t(sizeof(T))) engine::prefetch_for_write(p + k * stride + i);
  }
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
