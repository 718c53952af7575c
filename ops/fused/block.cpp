#include "kaon/ops/fused/block.h"

#include <unordered_map>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/elementwise/add_n.h"
#include "kaon/ops/elementwise/binary.h"
#include "kaon/ops/elementwise/cast.h"
#include "kaon/ops/elementwise/hard_sigmoid.h"
#include "kaon/ops/elementwise/kernels/binary_kernels.h"
#include "kaon/ops/elementwise/kernels/select_kernels.h"
#include "kaon/ops/elementwise/kernels/unary_kernels.h"
#include "kaon/ops/elementwise/polygamma.h"
#include "kaon/ops/elementwise/scalar.h"
#include "kaon/ops/elementwise/select.h"
#include "kaon/ops/elementwise/unary.h"
#include "kaon/ops/fused/block_kernels.h"
#include "kaon/ops/nn/activation/kernels/activation_kernel.h"

namespace kaon {
namespace {

using NumbersOf = BlockNumbers (*)(const void* attrs);
struct Entry {
  BlockForms forms;
  NumbersOf numbers;  // may be null
};
using FormMap = std::unordered_map<const OpDef*, Entry>;

template <class Op>
BlockNumbers scalar_of(const void* attrs) {
  return {float(static_cast<const Op*>(attrs)->scalar)};
}
template <class Op>
BlockNumbers bounds_of(const void* attrs) {
  const Op& op = *static_cast<const Op*>(attrs);
  return {float(op.a_min), float(op.a_max)};
}

template <int n, class F>
void for_each_index(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (f.template operator()<I>(), ...); }
  (std::make_integer_sequence<int, n>());
}

void activation_backward_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  const auto& op = *static_cast<const BackwardActivation*>(attrs);
  activation_backward(op.act_type, DType::float32, in[0], in[1], out, 0, int64_t(n));
}
void leaky_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  const auto& op = *static_cast<const LeakyReLU*>(attrs);
  leaky_forward(op.act_type, op.slope, DType::float32, in[0], out, 0, int64_t(n));
}
void leaky_backward_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  const auto& op = *static_cast<const BackwardLeakyReLU*>(attrs);
  leaky_backward(op.act_type, op.slope, DType::float32, in[0], in[1], out, 0, int64_t(n));
}

BlockForms unary_forms(UnaryKind kind) {
  BlockForms forms{{.one = block_kernels().unary[size_t(kind)]}, unary_kernels(kind).float32};
  forms.copies = kind == UnaryKind::identity || kind == UnaryKind::stop_gradient;
  return forms;
}

FormMap make_map() {
  const BlockKernels& k = block_kernels();
  FormMap map;
  const auto add = [&](const OpDef& def, const BlockForms& forms, NumbersOf numbers = nullptr) {
    map.emplace(&def, Entry{forms, numbers});
  };
  for_each_index<unary_kinds>([&]<int I>() { add(Unary<UnaryKind(I)>::def, unary_forms(UnaryKind(I))); });
  for_each_index<unary_backward_kinds>([&]<int I>() {
    add(UnaryBackward<UnaryBackwardKind(I)>::def,
        {k.unary_backward[I], unary_backward_kernels(UnaryBackwardKind(I)).float32});
  });
  for_each_index<binary_kinds>([&]<int I>() {
    add(Binary<BinaryKind(I)>::def, {k.binary[I], binary_kernels(BinaryKind(I)).float32, true});
  });
  for_each_index<scalar_kinds>([&]<int I>() {
    using Op = Scalar<ScalarKind(I)>;
    add(Op::def, {{.one = k.scalar[I]}, scalar_kernels(ScalarKind(I)).float32}, &scalar_of<Op>);
  });
  add(AddN::def, {k.binary[size_t(BinaryKind::add)], nullptr, false, false, true});
  add(Where::def, {{.three = k.where}, select_tiles().where});
  add(Clip::def, {{.one = k.clip}, select_tiles().clip}, &bounds_of<Clip>);
  add(ClipBackward::def, {k.clip_backward, select_tiles().clip_backward}, &bounds_of<ClipBackward>);
  add(Cast::def, unary_forms(UnaryKind::identity));
  add(HardSigmoid::def, {{}, &hard_sigmoid_tile});
  add(Polygamma::def, {{}, &polygamma_tile});
  add(BackwardActivation::def, {{}, &activation_backward_tile});
  add(LeakyReLU::def, {{}, &leaky_tile});
  add(BackwardLeakyReLU::def, {{}, &leaky_backward_tile});
  return map;
}

BlockForms activation_forms(ActivationType type) {
  switch (type) {
    case ActivationType::relu: return unary_forms(UnaryKind::relu);
    case ActivationType::sigmoid: return unary_forms(UnaryKind::sigmoid);
    case ActivationType::tanh: return unary_forms(UnaryKind::tanh);
    case ActivationType::softrelu: return unary_forms(UnaryKind::softrelu);
    case ActivationType::softsign: return unary_forms(UnaryKind::softsign);
  }
  return {};
}

}  // namespace

BlockForms block_forms(const OpDef& def, const void* attrs) {
  static constinit MadeOnce<const FormMap> made;
  const FormMap& map = made.get([] { return new FormMap(make_map()); });
  if (&def == &Activation::def) return activation_forms(static_cast<const Activation*>(attrs)->act_type);
  if (&def == &PowerScalar::def) {
    const float power = float(static_cast<const PowerScalar*>(attrs)->scalar);
    if (power == 2.0f) return unary_forms(UnaryKind::square);
    if (power == 0.5f) return {{.one = block_kernels().root}};
  }
  const auto found = map.find(&def);
  if (found == map.end()) return {};
  BlockForms forms = found->second.forms;
  if (found->second.numbers) forms.numbers = found->second.numbers(attrs);
  return forms;
}

const BlockMoves& block_moves() { return block_kernels().moves; }

}  // namespace kaon
