// What one call of attention works on: sizes, which keys a query sees, the mask. A light header, for both devices.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/math/philox.h"
#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

struct AttentionSizes {
  int64_t batch, heads, kv_heads, n, m, dim, value_dim;  // n queries, m keys
  double scale;
  CausalMask causal;

  // From op::ScaledDotProductAttention or its gradient.
  template <class Op>
  AttentionSizes(const Op& op, const Shape& query, const Shape& key, const Shape& value)
      : batch(query[0]),
        heads(query[1]),
        kv_heads(key[1]),
        n(query[2]),
        m(key[2]),
        dim(query[3]),
        value_dim(value[3]),
        scale(op.scale.value_or(dim > 0 ? 1 / std::sqrt(double(dim)) : 1.0)),
        causal(op.causal) {}

  KAON_HOST_DEVICE int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 0; }  // heads that share keys
  // Query i sees the keys before this one, of `length`.
  KAON_HOST_DEVICE int64_t visible(int64_t i, int64_t length) const {
    const int64_t most = causal == CausalMask::none         ? length
                         : causal == CausalMask::upper_left ? i + 1
                                                            : i + 1 + length - n;
    return most < 0 ? 0 : most < length ? most : length;
  }
  // The first query that sees key j; n for none.
  KAON_HOST_DEVICE int64_t first_query(int64_t j, int64_t length) const {
    const int64_t first = causal == CausalMask::none ? 0 : causal == CausalMask::upper_left ? j : j - length + n;
    return first < 0 ? 0 : first < n ? first : n;
  }
};

// The mask of a call, or none.
struct AttentionMask {
  const void* data = nullptr;
  bool is_boolean = false;
  int64_t strides[4] = {};  // in elements; 0 where it broadcasts

  AttentionMask() = default;
  explicit AttentionMask(const TensorView& mask) : data(mask.data), is_boolean(mask.dtype == DType::boolean) {
    int64_t stride = 1;
    for (int axis = 3, i = mask.shape.ndim() - 1; i >= 0; --axis, --i) {
      strides[axis] = mask.shape[i] == 1 ? 0 : stride;
      stride *= mask.shape[i];
    }
  }
  // The offset of the mask of sample b, head h, query i and key j.
  KAON_HOST_DEVICE int64_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
  }
};

// Which weights a call drops. Weight j of row i, of all heads' queries, is decided by word i row_words + j of a draw.
struct AttentionDropout {
  static constexpr int words = 5;  // of `drawn`: seed and offset of the draw, 0 where nothing was dropped

  RandomKey key;
  uint32_t threshold = 0;  // words below it drop; 0: none does
  double factor = 1;       // of the others
  int64_t row_words = 0;   // whole blocks of the generator

  KAON_HOST_DEVICE bool is_on() const { return threshold > 0; }
  KAON_HOST_DEVICE double factor_of(int64_t row, int64_t j) const {
    if (!is_on()) return 1;
    const uint64_t word = uint64_t(row * row_words + j);
    return random_block(key.seed, key.offset, word / 4).v[word % 4] < threshold ? 0 : factor;
  }
  KAON_HOST_DEVICE void save(uint32_t* drawn) const {
    drawn[0] = uint32_t(key.seed), drawn[1] = uint32_t(key.seed >> 32);
    drawn[2] = uint32_t(key.offset), drawn[3] = uint32_t(key.offset >> 32);
    drawn[4] = is_on();
  }
  KAON_HOST_DEVICE void load(const uint32_t* drawn) {
    key = {drawn[0] | uint64_t(drawn[1]) << 32, drawn[2] | uint64_t(drawn[3]) << 32};
    if (drawn[4] == 0) threshold = 0, factor = 1;
  }
};
// Of a call with m keys that drops with probability p, and with `key`, which load() replaces.
AttentionDropout attention_dropout(double p, int64_t m, RandomKey key);

// A number of keys as one in [0, most]. NaN counts as 0.
template <class T>
KAON_HOST_DEVICE int64_t cut_valid_length(T length, int64_t most) {
  const int64_t n = to_index(length);
  return length != length || n < 0 ? 0 : n > most ? most : n;
}

}  // namespace kaon::ops
