// Which operators are computed in which precision. What MXNet 1.9.1 has in its lists for float16 is here for bfloat16
// too; attention, RMSNorm and logsumexp are Kaon's.
#include "kaon/gluon/util/amp.h"

namespace kaon::amp {

const std::vector<std::string>& list_lp16_ops() {
  static const std::vector<std::string> names = {"Convolution", "Deconvolution", "FullyConnected", "RNN",
                                                 "scaled_dot_product_attention"};
  return names;
}

const std::vector<std::string>& list_fp32_ops() {
  static const std::vector<std::string> names = {
      // functions that leave the range of float16, or whose steep parts ask for its digits
      "exp", "expm1", "log", "log10", "log1p", "log2", "logsumexp", "square", "reciprocal", "rsqrt", "rcbrt", "cosh",
      "sinh", "tan", "arccos", "arcsin", "arctanh", "erfinv", "gamma", "gammaln", "broadcast_power", "_power",
      "_power_scalar", "_rpower_scalar", "_rdiv_scalar", "broadcast_hypot", "_hypot", "_hypot_scalar", "smooth_l1",
      // sums and products of many elements
      "sum", "nansum", "prod", "nanprod", "mean", "norm", "moments", "khatri_rao", "softmax", "log_softmax", "softmin",
      "SoftmaxActivation", "_contrib_count_sketch", "_contrib_fft",
      // normalisation
      "InstanceNorm", "LayerNorm", "GroupNorm", "RMSNorm", "L2Normalization", "LRN", "_contrib_SyncBatchNorm",
      // linear algebra
      "_linalg_gelqf", "_linalg_gemm", "_linalg_gemm2", "_linalg_potrf", "_linalg_potri", "_linalg_sumlogdiag",
      "_linalg_syevd", "_linalg_syrk", "_linalg_trmm", "_linalg_trsm", "_linalg_makediag", "_linalg_extractdiag",
      "_linalg_maketrian", "_linalg_extracttrian", "_linalg_inverse", "_linalg_det", "_linalg_slogdet",
      // losses and output layers
      "SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput",
      "softmax_cross_entropy", "CTCLoss", "MakeLoss", "make_loss", "IdentityAttachKLSparseReg", "_contrib_hawkesll",
      // places in images, orders
      "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget",
      "_contrib_DeformableConvolution", "_contrib_DeformablePSROIPooling", "argsort", "topk"};
  return names;
}

const std::vector<std::string>& list_widest_type_cast() {
  static const std::vector<std::string> names = {"elemwise_add",
                                                 "elemwise_sub",
                                                 "elemwise_mul",
                                                 "elemwise_div",
                                                 "broadcast_add",
                                                 "broadcast_sub",
                                                 "broadcast_mul",
                                                 "broadcast_div",
                                                 "broadcast_mod",
                                                 "broadcast_maximum",
                                                 "broadcast_minimum",
                                                 "broadcast_equal",
                                                 "broadcast_not_equal",
                                                 "broadcast_greater",
                                                 "broadcast_greater_equal",
                                                 "broadcast_lesser",
                                                 "broadcast_lesser_equal",
                                                 "broadcast_logical_and",
                                                 "broadcast_logical_or",
                                                 "broadcast_logical_xor",
                                                 "_maximum",
                                                 "_minimum",
                                                 "_mod",
                                                 "_equal",
                                                 "_not_equal",
                                                 "_greater",
                                                 "_greater_equal",
                                                 "_lesser",
                                                 "_lesser_equal",
                                                 "_logical_and",
                                                 "_logical_or",
                                                 "_logical_xor",
                                                 "_scatter_elemwise_div",
                                                 "add_n",
                                                 "Concat",
                                                 "stack",
                                                 "where",
                                                 "dot",
                                                 "batch_dot",
                                                 "_contrib_interleaved_matmul_selfatt_qk",
                                                 "_contrib_interleaved_matmul_selfatt_valatt",
                                                 "_contrib_interleaved_matmul_encdec_qk",
                                                 "_contrib_interleaved_matmul_encdec_valatt",
                                                 "Correlation",
                                                 "_contrib_MultiProposal",
                                                 "_contrib_Proposal",
                                                 "_contrib_PSROIPooling",
                                                 "_contrib_ROIAlign",
                                                 "_contrib_box_iou",
                                                 "_contrib_box_nms",
                                                 "_random_pdf_dirichlet",
                                                 "_random_pdf_exponential",
                                                 "_random_pdf_gamma",
                                                 "_random_pdf_generalized_negative_binomial",
                                                 "_random_pdf_negative_binomial",
                                                 "_random_pdf_normal",
                                                 "_random_pdf_poisson",
                                                 "_random_pdf_uniform"};
  return names;
}

const std::vector<ConditionalOp>& list_conditional_fp32_ops() {
  static const std::vector<ConditionalOp> all = {{"Activation", "act_type", {"softrelu"}},
                                                 {"LeakyReLU", "act_type", {"elu", "selu"}}};
  return all;
}

}  // namespace kaon::amp
