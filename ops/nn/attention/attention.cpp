#include "kaon/ops/nn/attention/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr bool is_scores(AttentionPart p) { return p == AttentionPart::selfatt_qk || p == AttentionPart::encdec_qk; }
constexpr bool is_self(AttentionPart p) { return p == AttentionPart::selfatt_qk || p == AttentionPart::selfatt_valatt; }

// The numbers of one head in x (steps, batch, heads `kinds` d): d.
int64_t head_size(const InferContext& c, int input, int heads, int kinds) {
  c.expect_ndim(input, 3);
  const int64_t width = c.shape(input)[2];
  if (heads < 1 || width % (int64_t(heads) * kinds) != 0) {
    c.fail_value(fmt::format("heads must be positive, and {} heads must divide {} numbers; inputs: {}",
                             kinds == 1 ? std::to_string(heads) : fmt::format("{} times {}", kinds, heads), width,
                             c.describe_inputs()));
  }
  return width / heads / kinds;
}

// The kind-th of `kinds` in x (steps, batch, heads kinds d): (batch heads, steps, d).
NDArray by_head(const NDArray& x, int heads, int kinds, int kind) {
  const Shape& s = x.shape();
  const int64_t rows = s[1] * heads, d = s[2] / heads / kinds;
  NDArray part = nd._reshape_to(x, {.shape = {s[0], rows, kinds, d}});
  if (kinds > 1) part = nd.slice_axis(part, 2, kind, kind + 1);
  return nd.transpose(nd._reshape_to(part, {.shape = {s[0], rows, d}}), {1, 0, 2});
}

}  // namespace

template <AttentionPart P>
constinit const OpDef op::InterleavedMatmul<P>::def = make_op_def<op::InterleavedMatmul<P>>();

template <AttentionPart P>
void op::InterleavedMatmul<P>::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  // keys and values are the last input of qk and the first of valatt
  constexpr int kinds = is_self(P) ? 3 : 2, at = P == AttentionPart::encdec_qk ? 1 : 0;
  const int64_t d = head_size(c, at, heads, kinds);
  const Shape keys = c.shape(at);
  const int64_t rows = keys[1] * heads;
  if constexpr (is_scores(P)) {
    if constexpr (!is_self(P)) {
      if (head_size(c, 0, heads, 1) != d || c.shape(0)[1] != keys[1]) {
        c.fail(
            fmt::format("queries and keys must have one batch and heads of one size; inputs: {}", c.describe_inputs()));
      }
    }
    c.set_output({rows, is_self(P) ? keys[0] : c.shape(0)[0], keys[0]}, c.dtype());
  } else {
    c.expect_ndim(1, 3);
    const int64_t steps = is_self(P) ? keys[0] : c.shape(1)[1];
    c.expect_shape(1, {rows, steps, keys[0]});
    c.set_output({steps, keys[1], heads * d}, c.dtype());
  }
}

template <AttentionPart P>
void op::InterleavedMatmul<P>::compose(ComposeContext& c) const {
  constexpr int kinds = is_self(P) ? 3 : 2;
  if constexpr (is_scores(P)) {
    const NDArray queries = by_head(c.input(0), heads, is_self(P) ? 3 : 1, 0);
    const NDArray keys = by_head(c.input(is_self(P) ? 0 : 1), heads, kinds, is_self(P) ? 1 : 0);
    const auto d = double(queries.shape()[2]);
    c.set(nd.batch_dot(d > 0 ? queries / std::sqrt(d) : queries, keys, {.transpose_b = true}));
  } else {
    const NDArray values = by_head(c.input(0), heads, kinds, kinds - 1);
    const NDArray result = nd.transpose(nd.batch_dot(c.input(1), values), {1, 0, 2});
    c.set(nd._reshape_to(result, {.shape = c.output().shape}));
  }
}

template struct op::InterleavedMatmul<AttentionPart::selfatt_qk>;
template struct op::InterleavedMatmul<AttentionPart::selfatt_valatt>;
template struct op::InterleavedMatmul<AttentionPart::encdec_qk>;
template struct op::InterleavedMatmul<AttentionPart::encdec_valatt>;

constinit const OpDef op::DivSqrtDim::def = make_op_def<op::DivSqrtDim>();

void op::DivSqrtDim::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  c.set_output(c.shape(0), c.dtype());
}

void op::DivSqrtDim::compose(ComposeContext& c) const {
  const auto length = double(c.input().shape().back());
  c.set(length > 0 ? c.input() / std::sqrt(length) : c.input());
}

}  // namespace kaon
