// The rules of dtypes, by operator: what follows from some dtypes of a call's inputs and outputs for the others, in
// both directions, without shapes. A rule is an overload of learn() or membership in one of the lists; the inputs and
// outputs of every other operator have one dtype.
#pragma once

#include "kaon/graph/inference/facts.h"
#include "kaon/graph/inference/rule_lists.h"

namespace kaon::graph {

// Input 0 and the outputs have one dtype; the others are indices, lengths, labels or conditions of any dtype.
using LikeFirst = ops::OpList<op::Take, op::TakeGrad, op::Pick, op::PickGrad, op::GatherNd, op::GatherNdGrad,
                              op::ScatterNd, op::ReshapeLike, op::BroadcastLike, op::SliceLike>;

// The same, and the others are like input 0 where nothing says more.
using LikeFirstAndOthers = ops::OpList<op::SequenceMask, op::SequenceLast, op::SequenceReverse, op::SoftmaxOutput,
                                       op::SVMOutput, op::CTCLoss, op::SoftmaxCrossEntropy>;

// The dtypes of the results are computed from those of all inputs.
using ComputedType = ops::OpList<op::AmpMulticast>;

// Numbers of float32 whatever the inputs are.
using Float32Results = ops::OpList<op::AllFinite, op::MultiAllFinite, op::MultiSumSq>;

// Numbers of int64.
using Int64Results = ops::OpList<op::ShapeArray, op::SizeArray, op::IndexArray>;

// Operators that make arrays of their attributes' dtype.
void learn(const op::Arange&, TypeFacts& f);
template <class Op>
concept MakesArrays = Op::traits.inputs.size() == 0 && !Op::traits.variadic;

void learn(const op::Cast&, TypeFacts& f);
void learn(const op::AmpCast&, TypeFacts& f);
void learn(const op::Where&, TypeFacts& f);
void learn(const op::OneHot&, TypeFacts& f);
void learn(const op::Embedding&, TypeFacts& f);
void learn(const op::SparseEmbedding&, TypeFacts& f);
void learn(const op::BatchTake&, TypeFacts& f);
void learn(const op::ScatterSetNd&, TypeFacts& f);
void learn(const op::IndexCopy&, TypeFacts& f);
void learn(const op::ArgSort&, TypeFacts& f);
void learn(const op::TopK&, TypeFacts& f);
void learn(const op::Softmax&, TypeFacts& f);
void learn(const op::Softmin&, TypeFacts& f);
void learn(const op::LogSoftmax&, TypeFacts& f);
void learn(const op::Norm&, TypeFacts& f);
void learn(const op::CumSum&, TypeFacts& f);
void learn(const op::BatchNorm&, TypeFacts& f);
void learn(const op::BatchNormWithReLU&, TypeFacts& f);
void learn(const op::SyncBatchNorm&, TypeFacts& f);
void learn(const op::LayerNorm&, TypeFacts& f);
void learn(const op::RNN&, TypeFacts& f);
void learn(const op::SampleMultinomial&, TypeFacts& f);
void learn(const op::QuantizeV2&, TypeFacts& f);
void learn(const op::Quantize&, TypeFacts& f);
void learn(const op::Dequantize&, TypeFacts& f);

using TypeRule = void (*)(const void* attrs, TypeFacts& facts);
// Thread safety: any thread.
TypeRule type_rule(const OpDef& def);

}  // namespace kaon::graph
