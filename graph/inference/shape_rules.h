// The rules of shapes that are known in part, by operator: what follows from some dimensions of a call's inputs and
// outputs for the others, in both directions. Where every input is known, the operator's infer says what the outputs
// are, and no rule is asked.
//
// A rule is an overload of learn(), or membership in one of the lists. An operator without either learns nothing until
// its inputs are known.
#pragma once

#include "kaon/graph/inference/facts.h"
#include "kaon/graph/inference/rule_lists.h"

namespace kaon::graph {

// All inputs and outputs have one shape.
using OneShape =
    ops::OpList<op::Clip, op::ClipBackward, op::Cast, op::AmpCast, op::AddN, op::HardSigmoid, op::Polygamma,
                op::Quadratic, op::RoundSte, op::SignSte, op::GradientMultiplier, op::UnitLoss, op::Activation,
                op::BackwardActivation, op::HardShrink, op::SoftShrink, op::Celu, op::Threshold, op::DivSqrtDim,
                op::SoftmaxActivation, op::L2Normalization, op::LRN, op::MakeLoss, op::Reverse, op::Shuffle,
                op::RandomUniformLike, op::RandomNormalLike, op::RandomGammaLike, op::RandomExponentialLike,
                op::RandomPoissonLike, op::RandomNegativeBinomialLike, op::RandomGeneralizedNegativeBinomialLike,
                op::FullLike, op::NanToNum, op::BitwiseNot, op::NumpyLogicalNot, op::Around, op::Roll, op::Scan,
                op::SGDUpdate, op::SGDMomUpdate, op::NAGMomUpdate, op::SignSGDUpdate, op::SignumUpdate,
                op::RMSPropUpdate, op::RMSPropAlexUpdate, op::FtrlUpdate, op::FTMLUpdate, op::AdamUpdate,
                op::MPSGDUpdate, op::MPSGDMomUpdate, op::MPNAGMomUpdate, op::LambUpdatePhase1>;

// Input 0 and output 0 have one shape, from which the shapes of weights, lengths and statistics follow.
using KeepsShape =
    ops::OpList<op::LeakyReLU, op::Dropout, op::LayerNorm, op::InstanceNorm, op::GroupNorm, op::RMSNorm, op::Softmax,
                op::Softmin, op::LogSoftmax, op::IdentityAttachKLSparseReg, op::SliceAssignScalar>;

// Each dimension of the results is one of an input's, or constant.
using CopiesDimensions = ops::OpList<op::Norm, op::ArgMax, op::ArgMin, op::ArgMaxChannel, op::MoveAxis, op::IndexArray>;

// The results follow from the inputs by sums, products and quotients of dimensions.
using FollowsInputs = ops::OpList<
    op::Moments, op::DeformableConvolution, op::ModulatedDeformableConvolution, op::Im2col, op::MaxPoolIndices,
    op::BilinearResize2D, op::AdaptiveAvgPooling2D, op::DepthToSpace, op::SpaceToDepth, op::BoxIou, op::ROIPooling,
    op::GridGenerator, op::SpatialTransformer, op::Correlation, op::LinalgPotrf, op::LinalgPotri, op::LinalgInverse,
    op::LinalgDet, op::LinalgSumLogDiag, op::SampleUniform, op::SampleNormal, op::SampleGamma, op::SampleExponential,
    op::SamplePoisson, op::SampleNegativeBinomial, op::SampleGeneralizedNegativeBinomial, op::SampleMultinomial,
    op::Fft, op::Ifft, op::CountSketch, op::QuantizeV2, op::Quantize, op::Dequantize, op::Requantize, op::QuantizedConv,
    op::QuantizedFullyConnected, op::QuantizedPooling, op::QuantizedAct, op::QuantizedFlatten, op::MultiBoxPrior,
    op::ShapeArray, op::SizeArray, op::ArangeLike, op::CTCLoss, op::SelfAttentionQK, op::SelfAttentionValue,
    op::EncoderDecoderQK, op::EncoderDecoderValue, op::MultiSumSq, op::AllFinite, op::MultiAllFinite>;

// --- elementwise operators and reductions (shape_rules_elementwise.cpp)

// Of two arrays: one shape under a name that does not broadcast, else dimensions matched from the right.
void learn_broadcast(ShapeFacts& f);
template <ops::UnaryKind K>
void learn(const op::Unary<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::UnaryBackwardKind K>
void learn(const op::UnaryBackward<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::ScalarKind K>
void learn(const op::Scalar<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::PlainActivation K>
void learn(const op::Plain<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::NumberKind K>
void learn(const op::IsKind<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::Comparison K>
void learn(const op::CompareNumber<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::BitsKind K>
void learn(const op::BitsScalar<K>&, ShapeFacts& f) {
  f.all_same();
}
template <ops::BinaryKind K>
void learn(const op::Binary<K>&, ShapeFacts& f) {
  learn_broadcast(f);
}
template <ops::Comparison K>
void learn(const op::Compare<K>&, ShapeFacts& f) {
  learn_broadcast(f);
}
template <ops::BitsKind K>
void learn(const op::Bits<K>&, ShapeFacts& f) {
  learn_broadcast(f);
}
template <ops::RealKind K>
void learn(const op::Real<K>&, ShapeFacts& f) {
  learn_broadcast(f);
}
inline void learn(const op::TrueDivide&, ShapeFacts& f) { learn_broadcast(f); }
inline void learn(const op::FloorDivide&, ShapeFacts& f) { learn_broadcast(f); }
void learn(const op::Where&, ShapeFacts& f);
void learn(const op::AmpMulticast&, ShapeFacts& f);
template <ops::ReduceKind K>
void learn(const op::Reduce<K>&, ShapeFacts& f) {
  f.copies_dimensions();
}
void learn(const op::Tril&, ShapeFacts& f);
void learn(const op::Triu&, ShapeFacts& f);
void learn(const op::TopK&, ShapeFacts& f);
void learn(const op::Sort&, ShapeFacts& f);
void learn(const op::ArgSort&, ShapeFacts& f);
void learn(const op::CumSum&, ShapeFacts& f);

// --- shapes, parts and sequences of arrays (shape_rules_movement.cpp)

void learn(const op::ExpandDims&, ShapeFacts& f);
void learn(const op::Transpose&, ShapeFacts& f);
void learn(const op::SwapAxis&, ShapeFacts& f);
void learn(const op::Reshape&, ShapeFacts& f);
void learn(const op::ReshapeLike&, ShapeFacts& f);
void learn(const op::Flatten&, ShapeFacts& f);
void learn(const op::Squeeze&, ShapeFacts& f);
void learn(const op::Slice&, ShapeFacts& f);
void learn(const op::SliceAssign&, ShapeFacts& f);
void learn(const op::SliceAxis&, ShapeFacts& f);
void learn(const op::SliceLike&, ShapeFacts& f);
void learn(const op::Concat&, ShapeFacts& f);
void learn(const op::RnnParamConcat&, ShapeFacts& f);
void learn(const op::Stack&, ShapeFacts& f);
void learn(const op::SliceChannel&, ShapeFacts& f);
void learn(const op::SplitV2&, ShapeFacts& f);
void learn(const op::Repeat&, ShapeFacts& f);
void learn(const op::Tile&, ShapeFacts& f);
void learn(const op::Pad&, ShapeFacts& f);
void learn(const op::BroadcastTo&, ShapeFacts& f);
void learn(const op::BroadcastAxis&, ShapeFacts& f);
void learn(const op::BroadcastLike&, ShapeFacts& f);

// --- indexing, products, recurrent layers (shape_rules_indexing.cpp)

void learn(const op::Take&, ShapeFacts& f);
void learn(const op::Embedding&, ShapeFacts& f);
void learn(const op::SparseEmbedding&, ShapeFacts& f);
void learn(const op::OneHot&, ShapeFacts& f);
void learn(const op::Pick&, ShapeFacts& f);
void learn(const op::BatchTake&, ShapeFacts& f);
void learn(const op::GatherNd&, ShapeFacts& f);
void learn(const op::ScatterNd&, ShapeFacts& f);
void learn(const op::SequenceMask&, ShapeFacts& f);
void learn(const op::SequenceReverse&, ShapeFacts& f);
void learn(const op::SequenceLast&, ShapeFacts& f);
void learn(const op::Dot&, ShapeFacts& f);
void learn(const op::BatchDot&, ShapeFacts& f);
void learn(const op::LinalgGemm2&, ShapeFacts& f);
void learn(const op::RNN&, ShapeFacts& f);

// --- layers (shape_rules_layers.cpp)

void learn(const op::FullyConnected&, ShapeFacts& f);
void learn(const op::Convolution&, ShapeFacts& f);
void learn(const op::Deconvolution&, ShapeFacts& f);
void learn(const op::Pooling&, ShapeFacts& f);
void learn(const op::UpSampling&, ShapeFacts& f);
void learn(const op::BatchNorm&, ShapeFacts& f);
void learn(const op::BatchNormWithReLU&, ShapeFacts& f);
void learn(const op::SyncBatchNorm&, ShapeFacts& f);
void learn(const op::SoftmaxOutput&, ShapeFacts& f);
template <RegressionKind K>
void learn(const op::RegressionOutput<K>&, ShapeFacts& f) {
  f.all_same(1, 1);
}
void learn(const op::SVMOutput&, ShapeFacts& f);
void learn(const op::BilinearSampler&, ShapeFacts& f);

// --- by definition

using ShapeRule = void (*)(const void* attrs, ShapeFacts& facts);
// nullptr: the operator has no rule. Thread safety: any thread.
ShapeRule shape_rule(const OpDef& def);

// The shape of a node that makes an array of numbers from attributes, where its program left dimensions open: MXNet's
// zeros(shape=(0, n)), whose 0 is taken from what the array is combined with if zeros are open. nullopt: nothing is.
std::optional<Shape> open_shape(const SymbolNode& node, bool zeros_are_open);
// Writes the shape that was found into the attributes of such a node.
void close_shape(const OpDef& def, void* attrs, const Shape& shape);

}  // namespace kaon::graph
