// What operators do not say about themselves, by fact: `program "operator facts*" -s` prints it. A name that is new in
// a list here is a decision: a fact that is forgotten would otherwise cost time, or have a net refused, without a word.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/plan_ops/batch_norm_affine.h"
#include "kaon/graph/plan_ops/fused_kernel.h"
#include "kaon/graph/plan_ops/fused_pointwise.h"
#include "kaon/graph/plan_ops/pad_rows.h"
#include "kaon/graph/plan_ops/rematerialize_batch_norm.h"
#include "kaon/graph/plan_ops/reorder.h"
#include "kaon/ops/fused/vector_program.h"
#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"
#include "kaon/ops/operator/op_attributes.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/ops/quant/kernels/block_dense.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/integer_values.h"
#include "kaon/tests/ops/table/op_table.h"

namespace operator_facts_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

using NameSet = std::set<std::string>;

NameSet names(const char* text) {
  std::istringstream words(text);
  NameSet out;
  for (std::string name; words >> name;) out.insert(name);
  return out;
}

NameSet operator+(NameSet a, NameSet b) {
  a.merge(b);
  return a;
}

// Those of all_ops.h but for composite ones, and those that exist in graphs only.
std::vector<const OpDef*> every_operator() {
  std::vector<const OpDef*> defs = all_op_defs();
  std::erase_if(defs, [](const OpDef* def) { return def->compose; });  // no graph has them
  defs.insert(defs.end(), {&op::Reorder::def,
                           &op::RematerializeBatchNorm::def,
                           &op::BatchNormAffine::def,
                           &op::PadRows::def,
                           &op::TakeRows::def,
                           &op::IntegerConv::def,
                           &op::IntegerDense::def,
                           &op::IntegerQuantize::def,
                           &op::IntegerDequantize::def,
                           &op::IntegerAdd::def,
                           &op::IntegerMaxPool::def,
                           &op::BlockQuantizedDense::def,
                           &op::BlockDequantize::def,
                           &op::FusedPointwise::def,
                           &op::FusedKernel::def,
                           &op::ControlFlowOp<ControlKind::foreach>::def,
                           &op::ControlFlowOp<ControlKind::while_loop>::def,
                           &op::ControlFlowOp<ControlKind::cond>::def,
                           &op::ControlFlowGrad::def,
                           &op::ControlFlowKey::def});
  return defs;
}

// Operators about which no fact is known: kernels of gradients, arrays from nothing, updates of weights.
const NameSet nothing = names(R"(
    _backward_DeformablePSROIPooling_data _backward_DeformablePSROIPooling_trans _backward_PSROIPooling
    _contrib_DeformablePSROIPooling _contrib_PSROIPooling _proposal_rois ROIPooling _backward_ROIPooling
    _backward_box_take _contrib_MultiBoxPrior _contrib_calibrate_entropy _contrib_quantize _contrib_quantize_asym
    _contrib_quantize_v2 _contrib_quantized_concat _contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul
    _contrib_requantize _backward_LayerNorm _backward_MakeLoss _backward_RegressionOutput _backward_SoftmaxActivation
    _backward_SoftmaxOutput _backward_gather_nd _backward_log_softmax _backward_max _backward_nansum _backward_norm
    _backward_pad _backward_pick _backward_prod _backward_slice _backward_softmax _backward_softmax_cross_entropy
    _backward_take _scatter_set_nd gather_nd softmax_cross_entropy _arange _eye _full _linspace _ones _random_normal
    _random_randint _random_uniform _sample_multinomial _shuffle _random_exponential _random_gamma
    _random_generalized_negative_binomial _random_negative_binomial _random_poisson _sample_exponential _sample_gamma
    _sample_generalized_negative_binomial _sample_negative_binomial _sample_normal _sample_poisson _sample_uniform
    _sample_unique_zipfian _zeros _adamw_update _contrib_group_adagrad_update _kaon_multi_update2 _kaon_multi_update3
    _kaon_gradient_factor _kaon_loss_scale _kaon_multi_add _kaon_multi_update4 _kaon_multi_update5 _kaon_multi_update6 _mp_adamw_update _multi_adamw_update
    _multi_lamb_update _multi_mp_adamw_update _multi_mp_lamb_update _sparse_adagrad_update adam_update all_finite
    ftml_update ftrl_update lamb_update_phase1 lamb_update_phase2 mp_lamb_update_phase1 mp_lamb_update_phase2
    mp_nag_mom_update mp_sgd_mom_update mp_sgd_update multi_all_finite multi_lars multi_mp_sgd_mom_update
    multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update multi_sum_sq nag_mom_update
    preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_sgd_mom_update
    preloaded_multi_sgd_update reset_arrays rmsprop_update rmspropalex_update sgd_mom_update sgd_update signsgd_update
    signum_update _backward_control_flow _cond _control_flow_key _foreach _while_loop _batch_norm_affine _fused_kernel
    _pad_rows _take_rows
    _block_dequantize cache_append _backward_product_scan IdentityAttachKLSparseReg _contrib_hawkesll
    _backward_hawkesll)");

// Reductions, products and layers, which read much for what they give; losses; and gradients. BatchNorm and Dropout are
// computed again in another way, by the pass `rematerialize`.
const NameSet kept = nothing + names(R"(
    Correlation GridGenerator _backward_Correlation _backward_RROIAlign _backward_max_pool_indices
    _backward_sample_images_data _backward_sample_images_positions _contrib_RROIAlign _plane_take _proposal_rows
    _sample_images max_pool_indices max_unpool _contrib_dequantize _contrib_quantized_batch_norm
    _contrib_quantized_pooling _contrib_quantized_conv _contrib_quantized_fully_connected _fused_quantized_conv
    _fused_quantized_fully_connected _integer_conv _integer_dense
    _block_quantized_dense _bipartite_pairs _box_suppress _box_take
    _contrib_MultiBoxTarget
    _contrib_box_decode _contrib_box_encode _contrib_box_iou _multibox_rows _backward_ROIAlign _contrib_ROIAlign
    _order argmax argmax_channel argmin max mean min nanprod nansum norm prod sum Convolution Deconvolution
    FullyConnected batch_dot dot _linalg_det _linalg_gelqf _linalg_inverse _linalg_potrf _linalg_potri _linalg_slogdet
    _linalg_syevd _linalg_trsm _npi_solve _npi_svd BatchNorm Dropout LinearRegressionOutput LogisticRegressionOutput
    MAERegressionOutput MakeLoss SoftmaxOutput _backward_BatchNorm _backward_Convolution_data
    _backward_Convolution_weight _backward_PReLU_gamma _backward_Pooling _backward_sum _pooling_along _slice_assign
    _slice_assign_scalar batch_take one_hot _ravel_multi_index _scan _unravel_index _backward_rnn_scan
    _ctc_loss_of_logs _rnn_scan _backward_scaled_dot_product_attention rotary_embedding scaled_dot_product_attention
    _fused_pointwise _rematerialize_batch_norm _np_any _np_all _histogram _product_scan _extreme_scan searchsorted
    put_along_axis SVMOutput _contrib_fft _contrib_ifft
    _npi_eig index_add)");

// All that are neither pointwise nor repeat their input.
const NameSet not_fused = nothing + names(R"(
    Correlation GridGenerator _backward_Correlation _backward_RROIAlign _backward_max_pool_indices
    _backward_sample_images_data _backward_sample_images_positions _contrib_RROIAlign _plane_take _proposal_rows
    _sample_images max_pool_indices max_unpool _contrib_dequantize _contrib_quantized_batch_norm
    _contrib_quantized_pooling _contrib_quantized_conv _contrib_quantized_fully_connected _fused_quantized_conv
    _fused_quantized_fully_connected _integer_conv _integer_dense
    _block_quantized_dense _integer_add _integer_dequantize _integer_max_pool
    _integer_quantize _bipartite_pairs _box_suppress _box_take
    _contrib_MultiBoxTarget
    _contrib_box_decode _contrib_box_encode _contrib_box_iou _multibox_rows _backward_ROIAlign _contrib_ROIAlign
    _order _sum_to argmax argmax_channel argmin max mean min nanprod nansum norm prod sum Flatten Reshape _reshape_to
    expand_dims reshape_like squeeze Concat Pad SliceChannel SwapAxis broadcast_like repeat reverse slice slice_axis
    slice_like stack tile transpose _slice_assign _slice_assign_scalar Embedding SequenceMask batch_take one_hot pick
    take _ravel_multi_index _scan _unravel_index col2im im2col Convolution Deconvolution FullyConnected batch_dot dot
    _linalg_det _linalg_gelqf _linalg_inverse _linalg_potrf _linalg_potri _linalg_slogdet _linalg_syevd _linalg_trsm
    _npi_solve _npi_svd _linalg_extracttrian _linalg_maketrian _triangle BatchNorm Dropout LayerNorm Pooling
    SoftmaxActivation _resample log_softmax softmax softmin LinearRegressionOutput LogisticRegressionOutput
    MAERegressionOutput MakeLoss SoftmaxOutput _backward_BatchNorm _backward_Convolution_data
    _backward_Convolution_weight _backward_PReLU_gamma _backward_Pooling _pooling_along _backward_rnn_scan
    _ctc_loss_of_logs _rnn_parameters _rnn_scan _backward_scaled_dot_product_attention rotary_embedding
    scaled_dot_product_attention _fused_pointwise _rematerialize_batch_norm _reorder _np_any _np_all _histogram
    _product_scan _extreme_scan searchsorted put_along_axis take_along_axis _npi_tril triu _np_roll _difference
    _npi_isnan _npi_isinf _npi_isfinite _npi_isposinf _npi_isneginf _npi_nan_to_num _npi_bitwise_and _npi_bitwise_or
    _npi_bitwise_xor left_shift right_shift SVMOutput _contrib_fft _contrib_ifft
    _npi_eig _npi_lcm index_add glu)");

// The policy `bucket` is for predictions, without gradients; it pads before other passes run.
const NameSet mixes_rows = nothing + names(R"(
    _backward_Correlation _backward_RROIAlign _backward_sample_images_data _backward_sample_images_positions
    _contrib_RROIAlign _backward_ROIAlign _contrib_ROIAlign _sum_to _ravel_multi_index _unravel_index _linalg_inverse
    _linalg_potrf _linalg_potri _npi_solve _backward_BatchNorm _backward_Convolution_data _backward_Convolution_weight
    _backward_PReLU_gamma _backward_Pooling _backward_sum _pooling_along _backward_rnn_scan _ctc_loss_of_logs
    _rnn_parameters _rnn_scan _backward_scaled_dot_product_attention _fused_pointwise _rematerialize_batch_norm
    _reorder _histogram)");

// Bound by the bytes that they read and write; of pointwise operators and views that is understood.
const NameSet cheap = nothing + names(R"(
    GridGenerator _backward_max_pool_indices _plane_take _proposal_rows max_pool_indices max_unpool
    _contrib_dequantize _contrib_quantized_batch_norm _contrib_quantized_pooling _bipartite_pairs _box_suppress
    _box_take _contrib_MultiBoxTarget _contrib_box_decode _contrib_box_encode _contrib_box_iou _multibox_rows
    _integer_add _integer_dequantize _integer_max_pool _integer_quantize
    _backward_sum _order _sum_to argmax argmax_channel argmin max mean min nanprod nansum norm prod sum Concat Pad
    SliceChannel SwapAxis broadcast_axis broadcast_like broadcast_to repeat reverse slice slice_axis slice_like stack
    tile transpose _slice_assign _slice_assign_scalar Embedding SequenceMask batch_take one_hot pick take
    _ravel_multi_index _scan _unravel_index col2im im2col BatchNorm Dropout LayerNorm Pooling SoftmaxActivation
    _resample log_softmax softmax softmin LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss
    SoftmaxOutput _backward_BatchNorm _backward_PReLU_gamma _backward_Pooling _pooling_along _fused_pointwise
    _rematerialize_batch_norm _reorder _ctc_loss_of_logs _rnn_parameters rotary_embedding _linalg_extracttrian
    _linalg_maketrian _triangle Deconvolution _np_any _np_all _histogram _product_scan _extreme_scan searchsorted
    put_along_axis take_along_axis _npi_tril triu _np_roll _difference _npi_isnan _npi_isinf _npi_isfinite
    _npi_isposinf _npi_isneginf _npi_nan_to_num _npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor left_shift
    right_shift SVMOutput
    _npi_lcm index_add glu)");

// Images are copied to row-major before them. Views keep that layout.
const NameSet row_major = nothing + names(R"(
    Correlation GridGenerator _backward_Correlation _backward_RROIAlign _backward_max_pool_indices
    _backward_sample_images_data _backward_sample_images_positions _contrib_RROIAlign _plane_take _proposal_rows
    _sample_images max_pool_indices max_unpool _contrib_dequantize _contrib_quantized_batch_norm
    _contrib_quantized_pooling _contrib_quantized_conv _contrib_quantized_fully_connected _fused_quantized_conv
    _fused_quantized_fully_connected _integer_dense
    _block_quantized_dense _bipartite_pairs _box_suppress _box_take
    _contrib_MultiBoxTarget
    _contrib_box_decode _contrib_box_encode _contrib_box_iou _multibox_rows _backward_ROIAlign _contrib_ROIAlign
    _backward_sum _order _sum_to argmax argmax_channel argmin max mean min nanprod nansum norm prod sum Concat Pad
    SliceChannel SwapAxis broadcast_axis broadcast_like broadcast_to repeat reverse slice slice_axis slice_like stack
    tile transpose _slice_assign _slice_assign_scalar Embedding SequenceMask batch_take one_hot pick take
    _ravel_multi_index _scan _unravel_index col2im im2col Deconvolution FullyConnected batch_dot dot _linalg_det
    _linalg_gelqf _linalg_inverse _linalg_potrf _linalg_potri _linalg_slogdet _linalg_syevd _linalg_trsm _npi_solve
    _npi_svd _linalg_extracttrian _linalg_maketrian _triangle Dropout LayerNorm SoftmaxActivation log_softmax softmax
    softmin _backward_rnn_scan _ctc_loss_of_logs _rnn_parameters _rnn_scan _backward_scaled_dot_product_attention
    rotary_embedding scaled_dot_product_attention LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput
    MakeLoss SoftmaxOutput _np_any _np_all _histogram _product_scan _extreme_scan searchsorted put_along_axis
    take_along_axis _npi_tril triu _np_roll _difference _npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor left_shift
    right_shift SVMOutput _contrib_fft _contrib_ifft
    _npi_eig _npi_lcm index_add glu)");

struct Fact {
  const char* what;
  bool (*is_known)(const OpDef& def, const OpTraits& traits);
  const NameSet& without;
};

const Fact facts[] = {
    {"not computed again by the option mirror",
     [](const OpDef&, const OpTraits& t) { return !t.random && (t.pointwise || t.view || t.recomputable); }, kept},
    {"no step of fused programs on the CPU", [](const OpDef& d, const OpTraits&) { return d.fused_forms != nullptr; },
     not_fused},
    {"no expression in fused kernels on GPUs",
     [](const OpDef& d, const OpTraits&) { return d.cuda_expression != nullptr; }, not_fused},
    {"not known to keep rows apart, and refused by the policy bucket",
     [](const OpDef& d, const OpTraits& t) { return d.keeps_rows || t.pointwise; }, mixes_rows},
    {"taken for cheap, without an estimate of its arithmetic",
     [](const OpDef& d, const OpTraits& t) { return d.flops || t.pointwise || t.view; }, cheap},
    {"takes row-major images only", [](const OpDef& d, const OpTraits& t) { return d.traits.any_layout || t.view; },
     row_major},
};

}  // namespace

TEST_CASE("operator facts: what an operator does not say about itself is a decision") {
  for (const Fact& fact : facts) {
    NameSet without;
    for (const OpDef* def : every_operator()) {
      const Attributes attrs(*def);
      if (!fact.is_known(*def, def->traits_of(attrs.get()))) without.insert(std::string(def->name()));
    }
    INFO(fact.what << ": " << fmt::format("{}", fmt::join(without, " ")));
    CHECK(minus(without, fact.without) == NameSet{});
    CHECK(minus(fact.without, without) == NameSet{});
  }
}

TEST_CASE("operator facts: layers take up four activations") {
  NameSet activations;
  for (const OpDef* def : every_operator()) {
    if (def->as_epilogue && def->as_epilogue(Attributes(*def).get()) != FusedActivation::none) {
      activations.insert(std::string(def->name()));
    }
  }
  CHECK(activations == names("Activation relu sigmoid tanh"));
}

TEST_CASE("operator facts: an operator that can be fused has a step and an expression, whatever its kind") {
  const std::vector<std::string> in{"x0", "x1", "x2"};
  const std::vector<DType> dtypes(3, DType::float32);
  for (const OpDef* def : every_operator()) {
    if (!def->fused_forms || !def->cuda_expression) continue;
    INFO(def->name());
    const Attributes attrs(*def);
    const FusedForms forms = vector_forms(*def, attrs.get());
    CHECK((forms.one || forms.right || forms.three || forms.copies || forms.tile));
    const auto expression = def->cuda_expression(attrs.get(), {.in = in, .dtypes = dtypes, .dtype = DType::float32});
    REQUIRE(expression);
    CHECK_THAT(expression->text, Catch::Matchers::Contains("x0"));
  }
}

}  // namespace operator_facts_test
