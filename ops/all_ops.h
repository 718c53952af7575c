// The one list of operators, by family. A test fails when an operator of Functions is missing here, or the reverse.
#pragma once

// elementwise
#include "kaon/engine/api.h"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/reduce/reduce.h"
// reduce
// movement
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/movement/movement.h"
// linalg
#include "kaon/ops/linalg/linalg.h"
// nn
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/dense/dense.h"
#include "kaon/ops/nn/norm/norm.h"
#include "kaon/ops/nn/pooling/pooling.h"
#include "kaon/ops/nn/softmax/softmax.h"
// init
#include "kaon/ops/init/init.h"
// optim
#include "kaon/ops/optim/optim.h"

namespace KAON_API kaon {

template <class... Ops>
struct OpList {};

using ElementwiseOps =
    OpList<op::Relu, op::Sigmoid, op::Tanh, op::Exp, op::Log, op::Sqrt, op::Rsqrt, op::Square, op::Abs, op::Sign,
           op::Negative, op::Reciprocal, op::Erf, op::Log1p, op::Expm1, op::Log2, op::Log10, op::Sin, op::Cos, op::Tan,
           op::Arcsin, op::Arccos, op::Arctan, op::Sinh, op::Cosh, op::Arcsinh, op::Arccosh, op::Arctanh, op::Floor,
           op::Ceil, op::Round, op::Rint, op::Trunc, op::Fix, op::Cbrt, op::Rcbrt, op::Softsign, op::SoftRelu, op::Gelu,
           op::LogicalNot, op::Degrees, op::Radians, op::Gamma, op::GammaLn, op::Digamma, op::Copy, op::BlockGrad,
           op::ZerosLike, op::OnesLike, op::BackwardRelu, op::BackwardSigmoid, op::BackwardTanh, op::BackwardGelu,
           op::BroadcastAdd, op::BroadcastSub, op::BroadcastMul, op::BroadcastDiv, op::BroadcastMod, op::BroadcastPower,
           op::BroadcastMaximum, op::BroadcastMinimum, op::BroadcastHypot, op::LogAddExp, op::BroadcastEqual,
           op::BroadcastNotEqual, op::BroadcastGreater, op::BroadcastGreaterEqual, op::BroadcastLesser,
           op::BroadcastLesserEqual, op::BroadcastLogicalAnd, op::BroadcastLogicalOr, op::BroadcastLogicalXor,
           op::PlusScalar, op::MinusScalar, op::RMinusScalar, op::MulScalar, op::DivScalar, op::RDivScalar,
           op::ModScalar, op::RModScalar, op::PowerScalar, op::RPowerScalar, op::MaximumScalar, op::MinimumScalar,
           op::HypotScalar, op::EqualScalar, op::NotEqualScalar, op::GreaterScalar, op::GreaterEqualScalar,
           op::LesserScalar, op::LesserEqualScalar, op::LogicalAndScalar, op::LogicalOrScalar, op::LogicalXorScalar,
           op::SmoothL1, op::Where, op::Clip, op::ClipBackward, op::Cast, op::AddN, op::SumTo, op::HardSigmoid,
           op::Polygamma>;
using ReduceOps =
    OpList<op::Sum, op::Mean, op::Prod, op::Max, op::Min, op::NanSum, op::NanProd, op::Norm, op::ArgMax, op::ArgMin,
           op::ArgMaxChannel, op::SumGrad, op::MaxGrad, op::NanSumGrad, op::ProdGrad, op::NormGrad>;
using MovementOps =
    OpList<op::Reshape, op::ReshapeLike, op::Flatten, op::ExpandDims, op::Squeeze, op::ReshapeTo, op::Transpose,
           op::SwapAxis, op::Slice, op::SliceAxis, op::SliceLike, op::SliceGrad, op::SliceAssign, op::SliceAssignScalar,
           op::Concat, op::Stack, op::SliceChannel, op::Repeat, op::Tile, op::Reverse, op::Pad, op::PadGrad,
           op::BroadcastTo, op::BroadcastAxis, op::BroadcastLike, op::SequenceMask, op::Take, op::TakeGrad,
           op::Embedding, op::Pick, op::PickGrad, op::BatchTake, op::OneHot, op::GatherNd, op::GatherNdGrad>;
using LinalgOps = OpList<op::Dot, op::BatchDot>;
using NnOps =
    OpList<op::FullyConnected, op::Convolution, op::ConvolutionBackwardData, op::ConvolutionBackwardWeight,
           op::Deconvolution, op::Pooling, op::BackwardPooling, op::PoolingAlong, op::BatchNorm, op::BackwardBatchNorm,
           op::LayerNorm, op::BackwardLayerNorm, op::Activation, op::BackwardActivation, op::LeakyReLU,
           op::BackwardLeakyReLU, op::BackwardPReLUGamma, op::Softmax, op::Softmin, op::LogSoftmax, op::BackwardSoftmax,
           op::BackwardLogSoftmax, op::SoftmaxActivation, op::BackwardSoftmaxActivation, op::SoftmaxOutput,
           op::BackwardSoftmaxOutput, op::SoftmaxCrossEntropy, op::BackwardSoftmaxCrossEntropy,
           op::LinearRegressionOutput, op::MAERegressionOutput, op::LogisticRegressionOutput,
           op::BackwardRegressionOutput, op::MakeLoss, op::BackwardMakeLoss, op::Dropout>;
using InitOps = OpList<op::Zeros, op::Ones, op::Full, op::Arange, op::Linspace, op::Eye, op::RandomUniform,
                       op::RandomNormal, op::RandomRandint, op::SampleMultinomial, op::Shuffle>;
using OptimOps = OpList<op::SGDUpdate, op::SGDMomUpdate, op::AdamUpdate, op::MultiSGDUpdate, op::MultiSGDMomUpdate,
                        op::MultiAdamUpdate, op::AllFinite>;

// Calls visit.template operator()<Op>() for every operator.
template <class Visit>
void for_each_op(Visit&& visit) {
  auto family = [&]<class... Ops>(OpList<Ops...>) { (visit.template operator()<Ops>(), ...); };
  family(ElementwiseOps{}), family(ReduceOps{}), family(MovementOps{}), family(LinalgOps{}), family(NnOps{});
  family(InitOps{}), family(OptimOps{});
}

}  // namespace kaon
