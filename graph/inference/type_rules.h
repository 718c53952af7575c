// The rules of dtypes, by operator: what follows from some dtypes of a call's inputs and outputs for the others, in
// both directions, without shapes. A rule is an overload of learn() or membership in one of the lists. The inputs and
// outputs of every other operator of MXNet's have one dtype, and so have those of pointwise operators; nothing follows
// for the parts of other operators.
#pragma once

#include "kaon/graph/inference/facts.h"
#include "kaon/graph/inference/rule_lists.h"

namespace kaon::graph {

// Input 0 and the outputs have one dtype; the others are indices, lengths, labels or conditions of any dtype.
using LikeFirst =
    ops::OpList<op::Take, op::TakeGrad, op::Pick, op::PickGrad, op::GatherNd, op::GatherNdGrad, op::ScatterNd,
                op::ReshapeLike, op::BroadcastLike, op::SliceLike, op::TakeAlongAxis, op::PutAlongAxis, op::IndexAdd,
                op::InsertTensor, op::MaskAssignScalar, op::RotaryEmbedding, op::CountSketch, op::HawkesLL>;

// The same, and the others are like input 0 where nothing says more.
using LikeFirstAndOthers = ops::OpList<op::SequenceMask, op::SequenceLast, op::SequenceReverse, op::SoftmaxOutput,
                                       op::SVMOutput, op::CTCLoss, op::SoftmaxCrossEntropy>;

// The dtypes of the results are what infer makes of those of all inputs, and nothing follows in the other direction:
// NumPy's operators promote.
using ComputedType =
    ops::OpList<op::AmpMulticast, op::PromotingAdd, op::PromotingSubtract, op::PromotingMultiply, op::PromotingMod,
                op::PromotingPower, op::TrueDivide, op::TrueDivideScalar, op::RTrueDivideScalar, op::FloorDivide,
                op::BroadcastWhere, op::WhereScalarX, op::WhereScalarY, op::WhereScalars, op::NumpySum, op::NumpyMean,
                op::NumpyProd, op::Var, op::Std, op::Median, op::Quantile, op::Percentile, op::Average, op::CumProd,
                op::CumMax, op::CumMin, op::Histogram, op::AllClose, op::Eigh, op::Eigvalsh, op::Eigvals,
                op::DiagIndicesFrom, op::RandomNormalOf, op::RandomNormalN, op::RandomUniformOf, op::RandomUniformN,
                op::RandomGammaOf, op::RandomBernoulli, op::RandomMultinomial, op::RandomGumbel, op::RandomLogistic,
                op::RandomLaplace, op::RandomScaledExponential, op::RandomRayleigh, op::RandomPareto, op::RandomWeibull,
                op::RandomPower, op::SampleUniform, op::SampleNormal, op::SampleGamma, op::SampleExponential,
                op::SamplePoisson, op::SampleNegativeBinomial, op::SampleGeneralizedNegativeBinomial>;

// The results are of this dtype whatever the inputs are.
using Float32Results = ops::OpList<op::AllFinite, op::MultiAllFinite, op::MultiSumSq, op::ImageToTensor>;
using Int64Results = ops::OpList<op::ShapeArray, op::SizeArray, op::IndexArray, op::NumpyArgMax, op::NumpyArgMin,
                                 op::SearchSorted, op::RandomChoice>;
using BooleanResults =
    ops::OpList<op::IsNan, op::IsInf, op::IsFinite, op::IsPosInf, op::IsNegInf, op::CompareEqual, op::CompareNotEqual,
                op::CompareGreater, op::CompareGreaterEqual, op::CompareLess, op::CompareLessEqual,
                op::CompareEqualScalar, op::CompareNotEqualScalar, op::CompareGreaterScalar,
                op::CompareGreaterEqualScalar, op::CompareLessScalar, op::CompareLessEqualScalar, op::NumpyLogicalNot,
                op::Any, op::All, op::IsClose, op::IsIn>;

// One dtype but for sums and indices of booleans.
using OneTypeUnlessBoolean = ops::OpList<op::Sum, op::Mean, op::Prod, op::Max, op::Min, op::NanSum, op::NanProd,
                                         op::ArgMax, op::ArgMin, op::ArgMaxChannel>;

// Nothing follows: their dtypes are what a quantiser has decided.
using NothingFollows = ops::OpList<op::SgConv, op::SgFullyConnected>;

// Operators that make arrays of their attributes' dtype.
void learn(const op::Arange&, TypeFacts& f);
inline bool makes_arrays(const OpTraits& traits) { return traits.inputs.size() == 0 && !traits.variadic; }

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
void learn(const op::QuantizeAsym&, TypeFacts& f);
void learn(const op::Dequantize&, TypeFacts& f);
void learn(const op::Requantize&, TypeFacts& f);
void learn(const op::QuantizedAct&, TypeFacts& f);
void learn(const op::QuantizedFlatten&, TypeFacts& f);
void learn(const op::QuantizedPooling&, TypeFacts& f);
void learn(const op::QuantizedEmbedding&, TypeFacts& f);
void learn(const op::QuantizedConcat&, TypeFacts& f);
void learn(const op::QuantizedElemwiseAdd&, TypeFacts& f);
void learn(const op::QuantizedElemwiseMul&, TypeFacts& f);
void learn(const op::QuantizedBatchNorm&, TypeFacts& f);
void learn(const op::QuantizedConv&, TypeFacts& f);
void learn(const op::QuantizedFullyConnected&, TypeFacts& f);
void learn(const op::ScaledDotProductAttention&, TypeFacts& f);
void learn(const op::MPLambUpdatePhase1&, TypeFacts& f);
void learn(const op::FullLike&, TypeFacts& f);

using TypeRule = void (*)(const void* attrs, TypeFacts& facts);
// Thread safety: any thread.
TypeRule type_rule(const OpDef& def);

}  // namespace kaon::graph
