// Bits and common multiples of integers.
#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/elementwise/kernels/broadcast.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/numeric/kernels/bits_kernels.h"
#include "kaon/ops/numeric/kernels/bits_value.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon::ops {

namespace {

constexpr bool is_shift(BitsKind kind) { return kind == BitsKind::left_shift || kind == BitsKind::right_shift; }

void expect_bits(InferContext& c, bool shift) {
  if (is_floating(c.dtype()) || (shift && c.dtype() == DType::boolean)) {
    c.fail_dtype(fmt::format("needs integers{}, got {}", shift ? "" : " or bool", name_of(c.dtype())));
  }
}

template <BitsKind K, class T>
void typed(const void*, const void* const* in, void* out, size_t n) {
  const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
  if constexpr (K == BitsKind::left_shift && sizeof(T) == 4) {
    return left_shift_words(static_cast<const uint32_t*>(in[0]), static_cast<const uint32_t*>(in[1]),
                            static_cast<uint32_t*>(out), n);
  }
  if constexpr (K == BitsKind::bit_and || K == BitsKind::bit_or || K == BitsKind::bit_xor) {
    bits_of_bytes(K, a, b, y, n * sizeof(T));
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = bits_value<K>(a[i], b[i]);
  }
}

template <BitsKind K>
constexpr PointwiseKernels make_kernels() {
  PointwiseKernels k;
  k.set_integers<!is_shift(K) && K != BitsKind::lcm>([]<class T>() -> TypedFn { return &typed<K, T>; });
  if constexpr (!is_shift(K)) k.boolean() = &typed<K, uint8_t>;
  return k;
}

template <BitsKind K>
constexpr PointwiseKernels kernels_of = make_kernels<K>();

const PointwiseKernels& bits_kernels(BitsKind kind) {
  switch (kind) {
    case BitsKind::bit_and: return kernels_of<BitsKind::bit_and>;
    case BitsKind::bit_or: return kernels_of<BitsKind::bit_or>;
    case BitsKind::bit_xor: return kernels_of<BitsKind::bit_xor>;
    case BitsKind::left_shift: return kernels_of<BitsKind::left_shift>;
    case BitsKind::lcm: return kernels_of<BitsKind::lcm>;
    default: return kernels_of<BitsKind::right_shift>;
  }
}

}  // namespace

void infer_bits(BitsKind kind, InferContext& c) {
  c.expect_same_dtype();
  expect_bits(c, is_shift(kind));
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), c.dtype());
}

void run_bits(BitsKind kind, KernelContext& c) { run_broadcast(bits_kernels(kind), nullptr, c); }

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

template <BitsKind K>
constinit const OpDef op::Bits<K>::def = make_op_def<op::Bits<K>>();
template <BitsKind K>
constinit const OpDef op::BitsScalar<K>::def = make_op_def<op::BitsScalar<K>>();
constinit const OpDef op::BitwiseNot::def = make_op_def<op::BitwiseNot>();

template <BitsKind K>
void op::BitsScalar<K>::infer(InferContext& c) const {
  expect_bits(c, false);
  expect_holds(c, "scalar", scalar, c.dtype());
  if (scalar != std::trunc(scalar)) c.fail_value(fmt::format("scalar must be a whole number, got {}", scalar));
  c.set_output(c.shape(0), c.dtype());
}

template <BitsKind K>
void op::BitsScalar<K>::compose(ComposeContext& c) const {
  const NDArray number = nd.full({1}, scalar, {.dtype = c.input().dtype()});
  c.set(nd._reshape_to(nd.call(Bits<K>{}, c.input(), number), {.shape = c.output().shape}));
}

void op::BitwiseNot::infer(InferContext& c) const {
  expect_bits(c, false);
  c.set_output(c.shape(0), c.dtype());
}

void op::BitwiseNot::compose(ComposeContext& c) const {
  const DType t = c.input().dtype();
  const NDArray ones = t == DType::boolean ? nd.ones({1}, {.dtype = t}) : nd.zeros({1}, {.dtype = t}) - 1;
  const NDArray turned = nd.bitwise_xor(c.input(), ones);
  c.set(nd._reshape_to(turned, {.shape = c.output().shape}));
}

template struct op::Bits<BitsKind::bit_and>;
template struct op::Bits<BitsKind::bit_or>;
template struct op::Bits<BitsKind::bit_xor>;
template struct op::Bits<BitsKind::left_shift>;
template struct op::Bits<BitsKind::right_shift>;
template struct op::Bits<BitsKind::lcm>;
template struct op::BitsScalar<BitsKind::bit_and>;
template struct op::BitsScalar<BitsKind::bit_or>;
template struct op::BitsScalar<BitsKind::bit_xor>;
template struct op::BitsScalar<BitsKind::lcm>;

}  // namespace kaon
