#include "kaon/graph/inference/type_rules.h"

#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/inference/control_flow_rules.h"

namespace kaon::graph {

namespace {
constexpr DType number(QuantType type) { return type == QuantType::uint8 ? DType::uint8 : DType::int8; }
}  // namespace

void learn(const op::Arange& o, TypeFacts& f) { f.is(f.out(), o.dtype); }

void learn(const op::Cast& o, TypeFacts& f) { f.is(f.out(), o.dtype); }

void learn(const op::AmpCast& o, TypeFacts& f) {
  if (!f.in()) return;
  const bool converts = ops::is_half(*f.in()) || f.in() == DType::float32;
  f.is(f.out(), converts ? o.dtype : *f.in());
}

void learn(const op::Where&, TypeFacts& f) { f.all_same(1); }
void learn(const op::OneHot& o, TypeFacts& f) { f.is(f.out(), o.dtype); }

namespace {
void learn_embedding(DType dtype, TypeFacts& f) {
  f.same(f.in(1), f.out());
  f.like(f.in(1), dtype);
  f.same(f.in(1), f.out());
}
}  // namespace

void learn(const op::Embedding& o, TypeFacts& f) { learn_embedding(o.dtype, f); }
void learn(const op::SparseEmbedding& o, TypeFacts& f) { learn_embedding(o.dtype, f); }

void learn(const op::BatchTake&, TypeFacts& f) {
  f.same(f.in(), f.out());
  f.like(f.in(1), DType::int32);
}

void learn(const op::ScatterSetNd&, TypeFacts& f) { f.all_same(0, 2); }

void learn(const op::IndexCopy&, TypeFacts& f) {
  f.same(f.in(0), f.out());
  f.same(f.in(2), f.out());
  f.same(f.in(0), f.out());
}

void learn(const op::ArgSort& o, TypeFacts& f) { f.is(f.out(), o.dtype); }

void learn(const op::TopK& o, TypeFacts& f) {
  if (o.ret_typ == TopKReturn::indices) return f.is(f.out(), o.dtype);
  f.same(f.in(), f.out());
  if (o.ret_typ == TopKReturn::both) f.is(f.out(1), o.dtype);
}

namespace {
void learn_softmax(const std::optional<DType>& dtype, TypeFacts& f) {
  if (dtype) {
    f.is(f.out(), *dtype);
    f.like(f.in(), *dtype);
  } else {
    f.same(f.in(), f.out());
  }
}
}  // namespace

void learn(const op::Softmax& o, TypeFacts& f) { learn_softmax(o.dtype, f); }
void learn(const op::Softmin& o, TypeFacts& f) { learn_softmax(o.dtype, f); }
void learn(const op::LogSoftmax& o, TypeFacts& f) { learn_softmax(o.dtype, f); }

void learn(const op::Norm& o, TypeFacts& f) { o.out_dtype ? f.is(f.out(), *o.out_dtype) : f.same(f.in(), f.out()); }
void learn(const op::CumSum&, TypeFacts& f) { f.by_infer(); }

namespace {
// Parameters and statistics of 16-bit data are of float32 unless the program has made them otherwise.
void learn_batch_norm(TypeFacts& f) {
  f.same(f.in(), f.out());
  if (!f.in()) return;
  const DType wide = ops::is_half(*f.in()) ? DType::float32 : *f.in();
  std::optional<DType> given;
  for (int i = 1; i < f.num_inputs() && !given; ++i) given = f.in(i);
  for (int i = 1; i < f.num_inputs(); ++i) f.is(f.in(i), given.value_or(wide));
  for (int i = 1; i < f.num_outputs(); ++i) f.is(f.out(i), given.value_or(wide));
}
}  // namespace

void learn(const op::BatchNorm&, TypeFacts& f) { learn_batch_norm(f); }
void learn(const op::BatchNormWithReLU&, TypeFacts& f) { learn_batch_norm(f); }
void learn(const op::SyncBatchNorm&, TypeFacts& f) { learn_batch_norm(f); }

void learn(const op::LayerNorm&, TypeFacts& f) {
  f.all_same(0, -1, 1);
  if (!f.in()) return;
  for (int i = 1; i < f.num_outputs(); ++i) f.is(f.out(i), ops::is_half(*f.in()) ? DType::float32 : *f.in());
}

void learn(const op::RNN& o, TypeFacts& f) {
  f.all_same(0, f.num_inputs() - int(o.use_sequence_length));
  if (o.use_sequence_length) f.like(f.in(f.num_inputs() - 1), f.in());
}

void learn(const op::SampleMultinomial& o, TypeFacts& f) {
  f.is(f.out(), o.dtype);
  if (f.num_outputs() > 1) f.same(f.in(), f.out(1));
}

namespace {
void ranges_are_float32(TypeFacts& f, int first_input, int first_output) {
  for (int i = first_input; i < f.num_inputs(); ++i) f.is(f.in(i), DType::float32);
  for (int i = first_output; i < f.num_outputs(); ++i) f.is(f.out(i), DType::float32);
}
}  // namespace

void learn(const op::Quantize& o, TypeFacts& f) {
  f.is(f.in(), DType::float32);
  f.is(f.out(), number(o.out_type));
  ranges_are_float32(f, 1, 1);
}

void learn(const op::QuantizeV2& o, TypeFacts& f) {
  f.like(f.in(), DType::float32);
  ranges_are_float32(f, 1, 1);
  o.out_type == QuantType::automatic ? f.by_infer() : f.is(f.out(), number(o.out_type));
}

void learn(const op::Dequantize& o, TypeFacts& f) {
  f.is(f.out(), o.out_type);
  ranges_are_float32(f, 1, 1);
}

void learn(const op::QuantizeAsym&, TypeFacts& f) {
  f.like(f.in(), DType::float32);
  f.is(f.out(), DType::uint8);
  ranges_are_float32(f, 1, 1);
}

void learn(const op::Requantize& o, TypeFacts& f) {
  f.is(f.in(), DType::int32);
  ranges_are_float32(f, 1, 1);
  o.out_type == QuantType::automatic ? f.by_infer() : f.is(f.out(), number(o.out_type));
}

namespace {
void learn_quantized(TypeFacts& f) {
  f.same(f.in(), f.out());
  ranges_are_float32(f, 1, 1);
}
}  // namespace

void learn(const op::QuantizedAct&, TypeFacts& f) { learn_quantized(f); }
void learn(const op::QuantizedFlatten&, TypeFacts& f) { learn_quantized(f); }
void learn(const op::QuantizedPooling&, TypeFacts& f) { learn_quantized(f); }

void learn(const op::QuantizedBatchNorm&, TypeFacts& f) {
  ranges_are_float32(f, 1, 1);
  f.is(f.out(), DType::int8);
}

void learn(const op::QuantizedEmbedding&, TypeFacts& f) {
  f.is(f.in(1), DType::int8);
  f.same(f.in(1), f.out());
  ranges_are_float32(f, 2, 1);
}

void learn(const op::QuantizedConcat& o, TypeFacts& f) {
  ranges_are_float32(f, o.num_args, 1);
  bool is_unsigned = true;
  for (int i = 0; i < o.num_args; ++i) {
    if (!f.in(i)) return;
    is_unsigned = is_unsigned && f.in(i) == DType::uint8;
  }
  f.is(f.out(), is_unsigned ? DType::uint8 : DType::int8);
}

// Calibrated, both requantise their results.
void learn(const op::QuantizedElemwiseAdd& o, TypeFacts& f) {
  ranges_are_float32(f, 2, 1);
  if (!o.min_calib_range || !o.max_calib_range) return f.is(f.out(), DType::int32);
  if (!f.in(0) || !f.in(1)) return;
  const bool is_unsigned = f.in(0) == DType::uint8 && f.in(1) == DType::uint8;
  f.is(f.out(), is_unsigned ? DType::uint8 : DType::int8);
}

void learn(const op::QuantizedElemwiseMul& o, TypeFacts& f) {
  ranges_are_float32(f, 2, 1);
  const bool is_calibrated = o.min_calib_range && o.max_calib_range;
  f.is(f.out(), o.enable_float_output ? DType::float32 : is_calibrated ? DType::int8 : DType::int32);
}

namespace {
// Data and weight, perhaps a bias, then the ranges of each.
void learn_quantized_layer(bool no_bias, TypeFacts& f) {
  f.is(f.in(1), DType::int8);
  f.is(f.out(), DType::int32);
  ranges_are_float32(f, no_bias ? 2 : 3, 1);
}
}  // namespace

void learn(const op::QuantizedConv& o, TypeFacts& f) { learn_quantized_layer(o.no_bias, f); }
void learn(const op::QuantizedFullyConnected& o, TypeFacts& f) { learn_quantized_layer(o.no_bias, f); }

void learn(const op::ScaledDotProductAttention&, TypeFacts& f) { f.all_same(0, 3, 1); }

void learn(const op::MPLambUpdatePhase1&, TypeFacts& f) {
  f.all_same(0, 2, 0);
  ranges_are_float32(f, 2, 0);
}

void learn(const op::FullLike& o, TypeFacts& f) { o.dtype ? f.is(f.out(), *o.dtype) : f.same(f.in(), f.out()); }

namespace {

template <class Op>
TypeRule type_rule_of() {
  // As values: clang 16 takes those of MultiUpdate, a template, for no constants.
  const OpTraits& traits = ops::def_of<Op>().traits;
  if constexpr (requires(const Op& o, TypeFacts& f) { learn(o, f); }) {
    return [](const void* attrs, TypeFacts& f) { learn(*static_cast<const Op*>(attrs), f); };
  }
  if (makes_arrays(traits)) return [](const void*, TypeFacts& f) { f.by_infer(); };
  if constexpr (is_in<Op>(LikeFirst{})) {
    return [](const void*, TypeFacts& f) { f.all_same(0, 1); };
  } else if constexpr (is_in<Op>(LikeFirstAndOthers{})) {
    return [](const void*, TypeFacts& f) {
      f.all_same(0, 1);
      for (int i = 1; i < f.num_inputs(); ++i) f.like(f.in(i), f.in());
    };
  } else if constexpr (is_in<Op>(ComputedType{})) {
    return [](const void*, TypeFacts& f) { f.by_infer(); };
  } else if constexpr (is_in<Op>(Float32Results{})) {
    return [](const void*, TypeFacts& f) { f.is(f.out(), DType::float32); };
  } else if constexpr (is_in<Op>(Int64Results{})) {
    return [](const void*, TypeFacts& f) { f.is(f.out(), DType::int64); };
  } else if constexpr (is_in<Op>(BooleanResults{})) {
    return [](const void*, TypeFacts& f) { f.is(f.out(), DType::boolean); };
  } else if constexpr (is_in<Op>(OneTypeUnlessBoolean{})) {
    return [](const void*, TypeFacts& f) { f.in() == DType::boolean ? f.by_infer() : f.all_same(); };
  }
  if ((traits.in_mxnet || traits.pointwise) && !is_in<Op>(NothingFollows{})) {
    return [](const void*, TypeFacts& f) { f.all_same(); };
  }
  return [](const void*, TypeFacts&) {};
}

}  // namespace

TypeRule type_rule(const OpDef& def) {
  using Rules = std::unordered_map<const OpDef*, TypeRule>;
  static constinit MadeOnce<const Rules> made;
  const Rules& rules = made.get([] {
    auto* all = new Rules;
    ops::for_each_op([&]<class Op>() { (*all)[&ops::def_of<Op>()] = type_rule_of<Op>(); });
    return all;
  });
  if (is_control_flow(def)) return [](const void*, TypeFacts& f) { learn_control_flow(f); };
  const auto found = rules.find(&def);
  return found == rules.end() ? [](const void*, TypeFacts&) {} : found->second;
}

}  // namespace kaon::graph
