// Which operators have a gradient, which one that is zero, and which none. An operator that is new in a list here is a
// decision: a rule that is forgotten would otherwise be a refusal at the first backward, or a gradient that is lost.
#include <catch2/catch.hpp>

#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/op_table.h"

namespace gradient_kinds_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace {

using NameSet = std::set<std::string>;

// Steps, constants, positions, comparisons; BlockGrad by its meaning.
const NameSet flat{"sign",
                   "floor",
                   "ceil",
                   "round",
                   "rint",
                   "trunc",
                   "fix",
                   "logical_not",
                   "zeros_like",
                   "ones_like",
                   "BlockGrad",
                   "broadcast_equal",
                   "broadcast_not_equal",
                   "broadcast_greater",
                   "broadcast_greater_equal",
                   "broadcast_lesser",
                   "broadcast_lesser_equal",
                   "broadcast_logical_and",
                   "broadcast_logical_or",
                   "broadcast_logical_xor",
                   "_equal_scalar",
                   "_not_equal_scalar",
                   "_greater_scalar",
                   "_greater_equal_scalar",
                   "_lesser_scalar",
                   "_lesser_equal_scalar",
                   "_logical_and_scalar",
                   "_logical_or_scalar",
                   "_logical_xor_scalar",
                   "argmax",
                   "argmin",
                   "argmax_channel",
                   "one_hot",
                   "_ravel_multi_index",
                   "_unravel_index",
                   "_sample_uniform",
                   "_sample_normal",
                   "_sample_gamma",
                   "_sample_exponential",
                   "_sample_poisson",
                   "_sample_negative_binomial",
                   "_sample_generalized_negative_binomial",
                   "_contrib_box_iou",
                   "_contrib_box_decode",
                   "_contrib_box_encode",
                   "_box_suppress",
                   "_bipartite_pairs",
                   "_contrib_MultiBoxPrior",
                   "_contrib_MultiBoxTarget",
                   "_multibox_rows",
                   "_proposal_rows",
                   "_proposal_rois",
                   "all_finite",
                   "multi_all_finite",
                   "_np_any",
                   "_np_all",
                   "_histogram",
                   "_extreme_scan",
                   "searchsorted",
                   "_npi_isnan",
                   "_npi_isinf",
                   "_npi_isfinite",
                   "_npi_isposinf",
                   "_npi_isneginf",
                   "_npi_bitwise_and",
                   "_npi_bitwise_or",
                   "_npi_bitwise_xor",
                   "left_shift",
                   "right_shift",
                   "_npi_lcm",
                   "_npi_eig",
                   "_contrib_quantize",
                   "_contrib_quantize_v2",
                   "_contrib_quantize_asym",
                   "_contrib_dequantize",
                   "_contrib_requantize",
                   "_contrib_calibrate_entropy",
                   "_contrib_quantized_concat",
                   "_contrib_quantized_elemwise_add",
                   "_contrib_quantized_elemwise_mul",
                   "_contrib_quantized_batch_norm",
                   "_contrib_quantized_pooling",
                   "_contrib_quantized_conv",
                   "_contrib_quantized_fully_connected",
                   "_fused_quantized_conv",
                   "_fused_quantized_fully_connected"};

// Kernels of gradient rules without a rule of their own, updates of weights, and shuffle, as in MXNet.
const NameSet refused{"_backward_PReLU_gamma",
                      "_backward_SoftmaxActivation",
                      "_backward_SoftmaxOutput",
                      "_backward_softmax_cross_entropy",
                      "_backward_RegressionOutput",
                      "_backward_MakeLoss",
                      "_backward_nansum",
                      "_backward_prod",
                      "_backward_box_take",
                      "_backward_ROIPooling",
                      "_backward_sample_images_data",
                      "_backward_sample_images_positions",
                      "_backward_Correlation",
                      "_backward_PSROIPooling",
                      "_backward_DeformablePSROIPooling_data",
                      "_backward_DeformablePSROIPooling_trans",
                      "_backward_RROIAlign",
                      "_backward_rnn_scan",
                      "_backward_scaled_dot_product_attention",
                      "cache_append",
                      "_backward_product_scan",
                      "_backward_hawkesll",
                      "_shuffle",
                      "sgd_update",
                      "sgd_mom_update",
                      "adam_update",
                      "mp_sgd_update",
                      "mp_sgd_mom_update",
                      "nag_mom_update",
                      "mp_nag_mom_update",
                      "signsgd_update",
                      "signum_update",
                      "rmsprop_update",
                      "rmspropalex_update",
                      "ftrl_update",
                      "ftml_update",
                      "_adamw_update",
                      "_mp_adamw_update",
                      "_sparse_adagrad_update",
                      "_contrib_group_adagrad_update",
                      "lamb_update_phase2",
                      "mp_lamb_update_phase2",
                      "multi_sgd_update",
                      "multi_mp_sgd_update",
                      "multi_sgd_mom_update",
                      "multi_mp_sgd_mom_update",
                      "preloaded_multi_sgd_update",
                      "preloaded_multi_mp_sgd_update",
                      "preloaded_multi_sgd_mom_update",
                      "preloaded_multi_mp_sgd_mom_update",
                      "_multi_adamw_update",
                      "_multi_mp_adamw_update",
                      "_multi_lamb_update",
                      "_multi_mp_lamb_update",
                      "reset_arrays",
                      "lamb_update_phase1",
                      "mp_lamb_update_phase1",
                      "multi_sum_sq",
                      "multi_lars",
                      "_kaon_multi_update2",
                      "_kaon_multi_update3",
                      "_kaon_multi_update4",
                      "_kaon_multi_update5",
                      "_kaon_multi_update6",
                      "_kaon_gradient_factor",
                      "_kaon_loss_scale",
                      "_kaon_multi_add"};

}  // namespace

TEST_CASE("gradient kinds: each operator has a gradient, a derivative that is zero, or refuses: which is a decision",
          "[op_table]") {
  NameSet without, zero;
  for (const OpDef* def : all_op_defs()) {
    const bool has_inputs = def->num_inputs(Attributes(*def).get()) != 0;
    if (def->compose) continue;  // that of its parts
    if (def->grad) {
      CHECK_FALSE(def->traits.flat);
    } else if (has_inputs) {
      (def->traits.flat ? zero : without).insert(std::string(def->name()));
    }
  }
  CHECK(minus(zero, flat) == NameSet{});
  CHECK(minus(flat, zero) == NameSet{});
  CHECK(minus(without, refused) == NameSet{});
  CHECK(minus(refused, without) == NameSet{});
}

}  // namespace gradient_kinds_test
