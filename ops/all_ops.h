// The one list of operators, by family. A test fails when an operator of Functions is missing here, or the reverse.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/analysis/analysis.h"
#include "kaon/ops/custom/custom.h"
#include "kaon/ops/distribution/distribution.h"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/image/image.h"
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/init/init.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/movement/movement.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/dense/dense.h"
#include "kaon/ops/nn/detection/detection.h"
#include "kaon/ops/nn/norm/norm.h"
#include "kaon/ops/nn/pooling/pooling.h"
#include "kaon/ops/nn/region/region.h"
#include "kaon/ops/nn/resize/resize.h"
#include "kaon/ops/nn/rnn/rnn.h"
#include "kaon/ops/nn/softmax/softmax.h"
#include "kaon/ops/nn/spatial/spatial.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/optim/optim.h"
#include "kaon/ops/quant/quant.h"
#include "kaon/ops/random/random.h"
#include "kaon/ops/reduce/reduce.h"
#include "kaon/ops/search/search.h"
#include "kaon/ops/signal/signal.h"
#include "kaon/ops/statistics/statistics.h"

namespace KAON_API kaon {

namespace ops {
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"  // where an operator is a template, its source has the def
#endif
template <class Op>
const OpDef& def_of() {
  return Op::def;
}
#ifdef __clang__
#pragma clang diagnostic pop
#endif

template <class... Ops>
struct OpList {};
}  // namespace ops

namespace op {

using ElementwiseOps =
    ops::OpList<Relu, Sigmoid, Tanh, Exp, Log, Sqrt, Rsqrt, Square, Abs, Sign, Negative, Reciprocal, Erf, Log1p, Expm1,
                Log2, Log10, Sin, Cos, Tan, Arcsin, Arccos, Arctan, Sinh, Cosh, Arcsinh, Arccosh, Arctanh, Floor, Ceil,
                Round, Rint, Trunc, Fix, Cbrt, Rcbrt, Softsign, SoftRelu, Gelu, LogicalNot, Degrees, Radians, Gamma,
                GammaLn, Digamma, Copy, BlockGrad, ZerosLike, OnesLike, BackwardRelu, BackwardSigmoid, BackwardTanh,
                BackwardGelu, BroadcastAdd, BroadcastSub, BroadcastMul, BroadcastDiv, BroadcastMod, BroadcastPower,
                BroadcastMaximum, BroadcastMinimum, BroadcastHypot, LogAddExp, BroadcastEqual, BroadcastNotEqual,
                BroadcastGreater, BroadcastGreaterEqual, BroadcastLesser, BroadcastLesserEqual, BroadcastLogicalAnd,
                BroadcastLogicalOr, BroadcastLogicalXor, PlusScalar, MinusScalar, RMinusScalar, MulScalar, DivScalar,
                RDivScalar, ModScalar, RModScalar, PowerScalar, RPowerScalar, MaximumScalar, MinimumScalar, HypotScalar,
                EqualScalar, NotEqualScalar, GreaterScalar, GreaterEqualScalar, LesserScalar, LesserEqualScalar,
                LogicalAndScalar, LogicalOrScalar, LogicalXorScalar, SmoothL1, Where, Clip, ClipBackward, Cast, AddN,
                SumTo, HardSigmoid, Polygamma, Erfinv, Quadratic, RoundSte, SignSte, GradientMultiplier, UnitLoss,
                AmpCast, AmpMulticast>;
using ReduceOps = ops::OpList<Sum, Mean, Prod, Max, Min, NanSum, NanProd, Norm, ArgMax, ArgMin, ArgMaxChannel, SumGrad,
                              MaxGrad, NanSumGrad, ProdGrad, NormGrad, Order, TopK, Sort, ArgSort, Scan, CumSum>;
using MovementOps =
    ops::OpList<Reshape, NumpyReshape, NpxReshape, ReshapeLike, Flatten, ExpandDims, Squeeze, ReshapeTo, Transpose,
                SwapAxis, Slice, SliceAxis, SliceLike, SliceGrad, SliceAssign, SliceAssignScalar, Concat, Stack,
                SliceChannel, Repeat, Tile, Reverse, Pad, PadGrad, BroadcastTo, BroadcastAxis, BroadcastLike,
                SequenceMask, Take, TakeGrad, Embedding, SparseEmbedding, Pick, PickGrad, BatchTake, OneHot, GatherNd,
                GatherNdGrad, SequenceLast, SequenceReverse, SplitV2, DepthToSpace, SpaceToDepth, Diag, ScatterSetNd,
                ScatterNd, IndexCopy, IndexArray, RavelMultiIndex, UnravelIndex>;
using NumericOps =
    ops::OpList<IsNan, IsInf, IsFinite, IsPosInf, IsNegInf, BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift, RightShift,
                Lcm, BitwiseAndScalar, BitwiseOrScalar, BitwiseXorScalar, LcmScalar, BitwiseNot, NanToNum,
                BroadcastWhere, WhereScalarX, WhereScalarY, WhereScalars, Arctan2, Copysign, Fmod, Fmax, Fmin, Ldexp,
                Arctan2Scalar, RArctan2Scalar, CopysignScalar, RCopysignScalar, LdexpScalar, RLdexpScalar, TrueDivide,
                TrueDivideScalar, RTrueDivideScalar, FloorDivide, CompareEqual, CompareNotEqual, CompareGreater,
                CompareGreaterEqual, CompareLess, CompareLessEqual, CompareEqualScalar, CompareNotEqualScalar,
                CompareGreaterScalar, CompareGreaterEqualScalar, CompareLessScalar, CompareLessEqualScalar,
                NumpyLogicalNot>;
using StatisticsOps = ops::OpList<Any, All, NumpySum, NumpyMean, NumpyProd, NumpyMax, NumpyMin, NumpyArgMax,
                                  NumpyArgMin, Var, Std, LogSumExp, Quantile, Percentile, Median, Histogram, IsClose,
                                  AllClose, ProductScan, ProductScanGrad, ExtremeScan, CumProd, CumMax, CumMin>;
using SearchOps = ops::OpList<SearchSorted, TakeAlongAxis, PutAlongAxis, IndexAdd, Tril, Triu, Roll, Rot90, Difference,
                              Diff, MoveAxis, Meshgrid>;
using NumpyOps =
    ops::OpList<PromotingAdd, PromotingSubtract, PromotingMultiply, PromotingMod, PromotingPower, ColumnStack, HStack,
                VStack, DStack, AtLeast1d, AtLeast2d, AtLeast3d, HSplit, DSplit, NumpyDiag, DiagFlat, Diagonal, Trace,
                DiagIndicesFrom, Blackman, Hamming, Hanning, NumpyEye, Identity, Indices, LogSpace, FullLike,
                MaskAssignScalar, Delete, InsertScalar, InsertSlice, InsertTensor, NumpyPad>;
using AnalysisOps =
    ops::OpList<Around, Polyval, Interp, IsIn, EDiff1d, Average, NanMean, NanMax, NanMin, Cov, NumpyDot, Cross,
                NumpyNorm, LinalgNorm, Pinv, PinvScalarRcond, TensorInv, TensorSolve, Eigh, Eigvalsh, Eigvals>;
using LinalgOps =
    ops::OpList<Dot, BatchDot, KhatriRao, LinalgGemm, LinalgGemm2, LinalgSyrk, LinalgTrmm, Matmul, Tensordot,
                TensordotIntAxes, Outer, Kron, Einsum, LinalgPotrf, LinalgPotri, LinalgTrsm, LinalgSolve, LinalgInverse,
                LinalgDet, LinalgSlogdet, LinalgGelqf, LinalgSyevd, LinalgSvd, Eig, LinalgSumLogDiag, LinalgExtractDiag,
                LinalgMakeDiag, LinalgExtractTrian, LinalgMakeTrian, Triangle>;
using NnOps = ops::OpList<
    FullyConnected, Convolution, ConvolutionBackwardData, ConvolutionBackwardWeight, Deconvolution, Pooling,
    BackwardPooling, PoolingAlong, BatchNorm, BackwardBatchNorm, LayerNorm, BackwardLayerNorm, Activation,
    BackwardActivation, LeakyReLU, BackwardLeakyReLU, BackwardPReLUGamma, Softmax, Softmin, LogSoftmax, BackwardSoftmax,
    BackwardLogSoftmax, SoftmaxActivation, BackwardSoftmaxActivation, SoftmaxOutput, BackwardSoftmaxOutput,
    SoftmaxCrossEntropy, BackwardSoftmaxCrossEntropy, LinearRegressionOutput, MAERegressionOutput,
    LogisticRegressionOutput, BackwardRegressionOutput, MakeLoss, BackwardMakeLoss, Dropout, Resample, BilinearResize2D,
    AdaptiveAvgPooling2D, UpSampling, Crop, SyncBatchNorm, InstanceNorm, GroupNorm, L2Normalization, LRN, RMSNorm,
    Moments, SelfAttentionQK, SelfAttentionValue, EncoderDecoderQK, EncoderDecoderValue, DivSqrtDim,
    ScaledDotProductAttention, BackwardScaledDotProductAttention, CacheAppend, RotaryEmbedding, RNN, RnnParamConcat,
    RnnParameters, RnnScan, BackwardRnnScan, CTCLoss, CtcLossOfLogs, Im2col, Col2im, Silu, Mish, LogSigmoid, HardSwish,
    TanhShrink, HardShrink, SoftShrink, Celu, Threshold, Glu, BatchNormWithReLU, SVMOutput, IdentityAttachKLSparseReg>;
using SignalOps = ops::OpList<Fft, Ifft, CountSketch, HawkesLL, BackwardHawkesLL>;
using CustomOps = ops::OpList<Custom>;
using DetectionOps = ops::OpList<BoxNms, BoxSuppress, BoxTake, BackwardBoxTake, BoxIou, BoxDecode, BoxEncode,
                                 BipartiteMatching, BipartitePairs, MultiBoxPrior, MultiBoxDetection, MultiBoxRows,
                                 MultiBoxTarget, ROIAlign, BackwardROIAlign, ROIPooling, BackwardROIPooling>;
using QuantOps =
    ops::OpList<Quantize, QuantizeV2, QuantizeAsym, Dequantize, Requantize, CalibrateEntropy, QuantizedAct,
                QuantizedFlatten, QuantizedEmbedding, QuantizedConcat, QuantizedElemwiseAdd, QuantizedElemwiseMul,
                QuantizedBatchNorm, QuantizedPooling, QuantizedConv, QuantizedFullyConnected, SgConv,
                FusedQuantizedConv, SgFullyConnected, FusedQuantizedFullyConnected>;
using SpatialOps =
    ops::OpList<SampleImages, BackwardSampleImagesData, BackwardSampleImagesPositions, GridGenerator, BilinearSampler,
                SpatialTransformer, Correlation, BackwardCorrelation, DeformableConvolution,
                ModulatedDeformableConvolution, MaxPoolIndices, MaxUnpool, BackwardMaxPoolIndices, PlaneTake,
                PSROIPooling, BackwardPSROIPooling, DeformablePSROIPooling, BackwardDeformablePSROIPoolingData,
                BackwardDeformablePSROIPoolingTrans, RROIAlign, BackwardRROIAlign, Proposal, MultiProposal,
                ProposalRows, ProposalRois>;
using ImageOps = ops::OpList<ImageToTensor, ImageNormalize, ImageCrop, ImageResize, ImageFlipLeftRight,
                             ImageFlipTopBottom, ImageRandomFlipLeftRight, ImageRandomFlipTopBottom,
                             ImageRandomBrightness, ImageRandomContrast, ImageRandomSaturation, ImageRandomHue,
                             ImageRandomColorJitter, ImageAdjustLighting, ImageRandomLighting>;
using InitOps = ops::OpList<Zeros, Ones, Full, Arange, Linspace, Eye, ArangeLike, ShapeArray, SizeArray>;
using RandomOps = ops::OpList<RandomUniform, RandomNormal, RandomRandint, RandomGamma, RandomExponential, RandomPoisson,
                              RandomNegativeBinomial, RandomGeneralizedNegativeBinomial, RandomUniformLike,
                              RandomNormalLike, RandomGammaLike, RandomExponentialLike, RandomPoissonLike,
                              RandomNegativeBinomialLike, RandomGeneralizedNegativeBinomialLike, SampleUniform,
                              SampleNormal, SampleGamma, SampleExponential, SamplePoisson, SampleNegativeBinomial,
                              SampleGeneralizedNegativeBinomial, SampleMultinomial, Shuffle, SampleUniqueZipfian>;
using DistributionOps =
    ops::OpList<PdfUniform, PdfNormal, PdfGamma, PdfExponential, PdfPoisson, PdfNegativeBinomial,
                PdfGeneralizedNegativeBinomial, PdfDirichlet, RandomGumbel, RandomLogistic, RandomLaplace,
                RandomScaledExponential, RandomRayleigh, RandomPareto, RandomWeibull, RandomNormalOf, RandomNormalN,
                RandomUniformOf, RandomUniformN, RandomGammaOf, RandomBernoulli, RandomPower, RandomTruncatedNormal,
                RandomDirichlet, RandomChoice, RandomMultinomial>;
using OptimOps =
    ops::OpList<SGDUpdate, MPSGDUpdate, SGDMomUpdate, MPSGDMomUpdate, NAGMomUpdate, MPNAGMomUpdate, SignSGDUpdate,
                SignumUpdate, RMSPropUpdate, RMSPropAlexUpdate, FtrlUpdate, FTMLUpdate, AdamUpdate, AdamWUpdate,
                MPAdamWUpdate, SparseAdagradUpdate, GroupAdagradUpdate, LambUpdatePhase1, MPLambUpdatePhase1,
                LambUpdatePhase2, MPLambUpdatePhase2, MultiSGDUpdate, MultiMPSGDUpdate, MultiSGDMomUpdate,
                MultiMPSGDMomUpdate, PreloadedMultiSGDUpdate, PreloadedMultiMPSGDUpdate, PreloadedMultiSGDMomUpdate,
                PreloadedMultiMPSGDMomUpdate, MultiAdamWUpdate, MultiMPAdamWUpdate, MultiLambUpdate, MultiMPLambUpdate,
                MultiUpdate2, MultiUpdate3, MultiUpdate4, MultiUpdate5, MultiUpdate6, GradientFactor, LossScale,
                MultiSumSq, MultiLars, AllFinite, MultiAllFinite, ResetArrays, MultiAdd>;

}  // namespace op

namespace ops {
// Calls visit.template operator()<Op>() for every operator.
template <class Visit>
void for_each_op(Visit&& visit) {
  auto family = [&]<class... Ops>(OpList<Ops...>) { (visit.template operator()<Ops>(), ...); };
  family(op::ElementwiseOps{}), family(op::ReduceOps{}), family(op::MovementOps{}), family(op::LinalgOps{}),
      family(op::NnOps{});
  family(op::NumericOps{}), family(op::StatisticsOps{}), family(op::SearchOps{}), family(op::NumpyOps{}),
      family(op::AnalysisOps{});
  family(op::DetectionOps{}), family(op::SpatialOps{}), family(op::QuantOps{}), family(op::SignalOps{}),
      family(op::CustomOps{}), family(op::ImageOps{}), family(op::InitOps{}), family(op::RandomOps{}),
      family(op::DistributionOps{}), family(op::OptimOps{});
}
}  // namespace ops

}  // namespace kaon
