#include "kaon/ops/operator/usual_name.h"

#include <algorithm>
#include <iterator>

namespace kaon::ops {

namespace {

struct OtherName {
  std::string_view other, usual;
};

// By the first of the two. Those of arrays of any storage are what they are for dense ones.
// clang-format off
constexpr OtherName other_names[] = {
    {"BatchNorm_v1", "BatchNorm"}, {"Convolution_v1", "Convolution"}, {"Pooling_v1", "Pooling"},
    {"_Hypot", "_hypot"}, {"_crop_assign", "_slice_assign"}, {"_crop_assign_scalar", "_slice_assign_scalar"},
    {"_identity_with_attr_like_rhs", "reshape_like"}, {"_np_copy", "_copy"}, {"_np_repeat", "repeat"},
    {"_np_squeeze", "squeeze"}, {"_np_transpose", "transpose"},
    {"_npi_abs", "abs"}, {"_npi_absolute", "abs"}, {"_npi_add_scalar", "_plus_scalar"},
    {"_npi_arange", "_arange"}, {"_npi_arccos", "arccos"}, {"_npi_arccosh", "arccosh"}, {"_npi_arcsin", "arcsin"},
    {"_npi_arcsinh", "arcsinh"}, {"_npi_arctan", "arctan"}, {"_npi_arctanh", "arctanh"}, {"_npi_argsort", "argsort"},
    {"_npi_broadcast_to", "broadcast_to"}, {"_npi_cast", "Cast"}, {"_npi_cbrt", "cbrt"}, {"_npi_ceil", "ceil"}, {"_npi_cholesky", "_linalg_potrf"},
    {"_npi_clip", "clip"}, {"_npi_concatenate", "Concat"}, {"_npi_cos", "cos"}, {"_npi_cosh", "cosh"},
    {"_npi_degrees", "degrees"}, {"_npi_det", "_linalg_det"}, {"_npi_exp", "exp"},
    {"_npi_expand_dims", "expand_dims"}, {"_npi_expm1", "expm1"}, {"_npi_fix", "fix"}, {"_npi_flip", "reverse"},
    {"_npi_floor", "floor"}, {"_npi_full", "_full"}, {"_npi_gather_nd", "gather_nd"},
    {"_npi_hypot", "broadcast_hypot"}, {"_npi_hypot_scalar", "_hypot_scalar"}, {"_npi_inv", "_linalg_inverse"}, {"_npi_linspace", "_linspace"},
    {"_npi_log", "log"}, {"_npi_log10", "log10"}, {"_npi_log1p", "log1p"}, {"_npi_log2", "log2"},
    {"_npi_maximum", "broadcast_maximum"}, {"_npi_maximum_scalar", "_maximum_scalar"},
    {"_npi_minimum", "broadcast_minimum"}, {"_npi_minimum_scalar", "_minimum_scalar"},
    {"_npi_mod_scalar", "_mod_scalar"}, {"_npi_multiply_scalar", "_mul_scalar"},
    {"_npi_negative", "negative"}, {"_npi_ones", "_ones"}, {"_npi_power_scalar", "_power_scalar"}, {"_npi_radians", "radians"}, {"_npi_random_randint", "_random_randint"},
    {"_npi_reciprocal", "reciprocal"}, {"_npi_rint", "rint"}, {"_npi_rmod_scalar", "_rmod_scalar"},
    {"_npi_rnn_param_concat", "_rnn_param_concat"}, {"_npi_rpower_scalar", "_rpower_scalar"},
    {"_npi_rsubtract_scalar", "_rminus_scalar"}, {"_npi_shuffle", "_shuffle"}, {"_npi_sign", "sign"},
    {"_npi_sin", "sin"}, {"_npi_sinh", "sinh"}, {"_npi_slice", "slice"}, {"_npi_slice_assign", "_slice_assign"},
    {"_npi_slice_assign_scalar", "_slice_assign_scalar"}, {"_npi_slogdet", "_linalg_slogdet"}, {"_npi_sort", "sort"},
    {"_npi_sqrt", "sqrt"}, {"_npi_square", "square"}, {"_npi_stack", "stack"}, {"_npi_subtract_scalar", "_minus_scalar"}, {"_npi_swapaxes", "SwapAxis"}, {"_npi_take", "take"},
    {"_npi_tan", "tan"}, {"_npi_tanh", "tanh"}, {"_npi_tile", "tile"}, {"_npi_trunc", "trunc"},
    {"_npi_zeros", "_zeros"}, {"_npx__image_adjust_lighting", "_image_adjust_lighting"},
    {"_npx__image_crop", "_image_crop"}, {"_npx__image_flip_left_right", "_image_flip_left_right"},
    {"_npx__image_flip_top_bottom", "_image_flip_top_bottom"}, {"_npx__image_normalize", "_image_normalize"},
    {"_npx__image_random_brightness", "_image_random_brightness"},
    {"_npx__image_random_color_jitter", "_image_random_color_jitter"},
    {"_npx__image_random_contrast", "_image_random_contrast"},
    {"_npx__image_random_flip_left_right", "_image_random_flip_left_right"},
    {"_npx__image_random_flip_top_bottom", "_image_random_flip_top_bottom"},
    {"_npx__image_random_hue", "_image_random_hue"}, {"_npx__image_random_lighting", "_image_random_lighting"},
    {"_npx__image_random_saturation", "_image_random_saturation"}, {"_npx__image_resize", "_image_resize"},
    {"_npx__image_to_tensor", "_image_to_tensor"}, {"_npx_activation", "Activation"},
    {"_npx_arange_like", "_contrib_arange_like"}, {"_npx_batch_dot", "batch_dot"}, {"_npx_batch_flatten", "Flatten"},
    {"_npx_batch_norm", "BatchNorm"}, {"_npx_cast", "Cast"}, {"_npx_convolution", "Convolution"},
    {"_npx_deconvolution", "Deconvolution"}, {"_npx_dropout", "Dropout"}, {"_npx_embedding", "Embedding"},
    {"_npx_erf", "erf"}, {"_npx_erfinv", "erfinv"}, {"_npx_fully_connected", "FullyConnected"},
    {"_npx_gamma", "gamma"}, {"_npx_gammaln", "gammaln"}, {"_npx_gather_nd", "gather_nd"},
    {"_npx_layer_norm", "LayerNorm"}, {"_npx_leaky_relu", "LeakyReLU"}, {"_npx_log_softmax", "log_softmax"},
    {"_npx_multibox_detection", "_contrib_MultiBoxDetection"}, {"_npx_multibox_prior", "_contrib_MultiBoxPrior"},
    {"_npx_multibox_target", "_contrib_MultiBoxTarget"}, {"_npx_one_hot", "one_hot"}, {"_npx_pick", "pick"},
    {"_npx_pooling", "Pooling"}, {"_npx_relu", "relu"}, {"_npx_reshape_like", "reshape_like"}, {"_npx_rnn", "RNN"},
    {"_npx_roi_pooling", "ROIPooling"}, {"_npx_sequence_mask", "SequenceMask"}, {"_npx_shape_array", "shape_array"},
    {"_npx_sigmoid", "sigmoid"}, {"_npx_slice", "slice"}, {"_npx_smooth_l1", "smooth_l1"},
    {"_npx_softmax", "softmax"}, {"_npx_topk", "topk"},
    {"_scatter_elemwise_div", "elemwise_div"}, {"_scatter_minus_scalar", "_minus_scalar"},
    {"_scatter_plus_scalar", "_plus_scalar"}, {"cast_storage", "_copy"}, {"crop", "slice"}, {"random_normal", "_random_normal"},
    {"random_randint", "_random_randint"}, {"random_uniform", "_random_uniform"},
    {"sample_multinomial", "_sample_multinomial"},
};

// With _sparse_ in front: names for arrays of any storage, which is dense here.
constexpr std::string_view sparse_names[] = {
    "ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput", "LogisticRegressionOutput",
    "MAERegressionOutput", "_contrib_round_ste", "_contrib_sign_ste", "abs", "adam_update", "add_n", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "broadcast_add", "broadcast_div", "broadcast_minus",
    "broadcast_mul", "broadcast_plus", "broadcast_sub", "cbrt", "ceil", "clip", "concat", "cos", "cosh", "degrees",
    "dot", "elemwise_add", "elemwise_div", "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor", "ftrl_update", "gamma",
    "gammaln", "log", "log10", "log1p", "log2", "make_loss", "mean", "negative", "norm", "radians", "relu", "rint",
    "round", "rsqrt", "sgd_mom_update", "sgd_update", "sigmoid", "sign", "sin", "sinh", "slice", "sqrt", "square",
    "stop_gradient", "sum", "tan", "tanh", "trunc", "where", "zeros_like",
};
// clang-format on

constexpr std::string_view sparse = "_sparse_";

}  // namespace

std::string_view usual_name(std::string_view name) {
  if (name.starts_with(sparse)) {
    const std::string_view rest = name.substr(sparse.size());
    if (std::binary_search(std::begin(sparse_names), std::end(sparse_names), rest)) return rest;
  }
  const auto at = std::lower_bound(std::begin(other_names), std::end(other_names), name,
                                   [](const OtherName& a, std::string_view b) { return a.other < b; });
  return at != std::end(other_names) && at->other == name ? at->usual : name;
}

std::vector<std::string> other_names_of_operators() {
  std::vector<std::string> all;
  for (const OtherName& n : other_names) all.emplace_back(n.other);
  for (std::string_view n : sparse_names) all.push_back(std::string(sparse) + std::string(n));
  return all;
}

}  // namespace kaon::ops
