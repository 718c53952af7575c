// Which operators have a gradient, which one that is zero, and which none. An operator that is new in a list here is a
// decision: a rule that is forgotten would otherwise be a refusal at the first backward, or a gradient that is lost.
#include <catch2/catch.hpp>

#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/op_table.h"

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
                   "_kaon_all_finite"};

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
                      "_backward_rnn_scan",
                      "_shuffle",
                      "sgd_update",
                      "sgd_mom_update",
                      "adam_update",
                      "_kaon_multi_sgd_update",
                      "_kaon_multi_sgd_mom_update",
                      "_kaon_multi_adam_update"};

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
