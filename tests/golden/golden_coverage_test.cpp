// What the golden data hold: every operator that MXNet or PyTorch knows, every attribute, the shapes and dtypes that
// faults hide behind.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "kaon/ops/operator/registry.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_coverage_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace {

using NameSet = std::set<std::string>;

const std::vector<GoldenCase>& all_cases() {
  static const auto* all = [] {
    auto* list = new std::vector<GoldenCase>;
    for (const auto& file : golden_files()) {
      for (GoldenCase& c : load_golden(file)) list->push_back(std::move(c));
    }
    return list;
  }();
  return *all;
}

std::string operator_of(const GoldenCase& c) {
  const OpDef* def = find_op(c.op);
  return def ? std::string(def->name()) : "unknown: " + c.op;
}

// Operators without golden data, and why.
const std::map<std::string, std::string> left_out{
    {"_random_uniform", "random"},
    {"_random_normal", "random"},
    {"_random_randint", "random"},
    {"_sample_multinomial", "random"},
    {"_random_gamma", "random"},
    {"_random_exponential", "random"},
    {"_random_poisson", "random"},
    {"_random_negative_binomial", "random"},
    {"_random_generalized_negative_binomial", "random"},
    {"_random_uniform_like", "random"},
    {"_random_normal_like", "random"},
    {"_random_gamma_like", "random"},
    {"_random_exponential_like", "random"},
    {"_random_poisson_like", "random"},
    {"_random_negative_binomial_like", "random"},
    {"_random_generalized_negative_binomial_like", "random"},
    {"_sample_uniform", "random"},
    {"_sample_normal", "random"},
    {"_sample_gamma", "random"},
    {"_sample_exponential", "random"},
    {"_sample_poisson", "random"},
    {"_sample_negative_binomial", "random"},
    {"_sample_generalized_negative_binomial", "random"},
    {"_sample_unique_zipfian", "random"},
    {"_npi_gumbel", "random"},
    {"_npi_logistic", "random"},
    {"_npi_exponential", "random"},
    {"_npi_rayleigh", "random"},
    {"_npi_pareto", "random"},
    {"_npi_weibull", "random"},
    {"_npi_normal", "random"},
    {"_npi_normal_n", "random"},
    {"_npi_uniform", "random"},
    {"_npi_uniform_n", "random"},
    {"_npi_gamma", "random"},
    {"_npi_bernoulli", "random"},
    {"_image_random_flip_left_right", "random"},
    {"_image_random_flip_top_bottom", "random"},
    {"_image_random_color_jitter", "random"},
    {"_image_random_lighting", "random"},
    {"_npi_laplace", "random, and MXNet has none"},
    {"_shuffle", "random"},
    {"_sum_to", "Kaon's own: gradients of broadcasting operators"},
    {"_reshape_to", "Kaon's own: gradients of reshapes"},
    {"_pooling_along", "Kaon's own: second derivatives of Pooling"},
    {"_order", "Kaon's own: part of topk and others"},
    {"_triangle", "Kaon's own: part of linalg_trmm, and of gradients"},
    {"_scan", "Kaon's own: part of _np_cumsum"},
    {"_difference", "Kaon's own: part of _npi_diff"},
    {"_product_scan", "Kaon's own: part of cumprod"},
    {"_extreme_scan", "Kaon's own: part of cummax and cummin"},
    {"_scatter_set_nd", "MXNet has it in place only; part of scatter_nd and index_copy"},
    {"_resample", "Kaon's own: part of BilinearResize2D and others"},
    {"_box_suppress", "Kaon's own: part of box_nms and MultiBoxDetection"},
    {"_box_take", "Kaon's own: part of box_nms and MultiBoxDetection"},
    {"_bipartite_pairs", "Kaon's own: part of bipartite_matching"},
    {"_sample_images", "Kaon's own: part of BilinearSampler, SpatialTransformer and deformable convolutions"},
    {"_plane_take", "Kaon's own: gradient of max_unpool"},
    {"_proposal_rows", "Kaon's own: part of Proposal and MultiProposal"},
    {"_proposal_rois", "Kaon's own: part of Proposal and MultiProposal"},
    {"_multibox_rows", "Kaon's own: part of MultiBoxDetection"},
    {"_rnn_parameters", "Kaon's own: part of RNN"},
    {"_rnn_scan", "Kaon's own: part of RNN"},
    {"_ctc_loss_of_logs", "Kaon's own: part of CTCLoss"},
    {"_contrib_quantize_asym", "MXNet's ends the process"},
    {"_sg_mkldnn_conv", "a node of files: golden_quantized_test.cpp"},
    {"_sg_mkldnn_fully_connected", "a node of files: golden_quantized_test.cpp"},
    {"_fused_quantized_conv", "Kaon's own: part of _sg_mkldnn_conv"},
    {"_fused_quantized_fully_connected", "Kaon's own: part of _sg_mkldnn_fully_connected"},
    {"_npi_powerd", "random"},
    {"random_truncated_normal", "random"},
    {"random_dirichlet", "random"},
    {"_npi_choice", "random"},
    {"_npi_multinomial", "random"},
    {"Custom", "runs operators of the program"},
    {"_kaon_multi_update2", "Kaon's own: all rules, by the trainings"},
    {"_kaon_multi_update3", "Kaon's own: all rules, by the trainings"},
    {"_kaon_multi_update4", "Kaon's own: all rules, by the trainings"},
    {"_kaon_multi_update5", "Kaon's own: all rules, by the trainings"},
    {"_kaon_multi_update6", "Kaon's own: all rules, by the trainings"},
    {"_kaon_gradient_factor", "Kaon's own: by the scaled steps"},
    {"_kaon_loss_scale", "Kaon's own: by the scaled steps"},
    {"_kaon_multi_add", "Kaon's own: by the scaled steps"},
};

// Attributes that no case sets, and why: choices of another library, forms of old files, what Kaon refuses.
const NameSet attributes_left_out{"Convolution workspace",
                                  "Convolution cudnn_tune",
                                  "Convolution cudnn_off",
                                  "Convolution __post_ops__",
                                  "FullyConnected __post_ops__",
                                  "Deconvolution workspace",
                                  "Deconvolution cudnn_tune",
                                  "Deconvolution cudnn_off",
                                  "Pooling cudnn_off",
                                  "BatchNorm output_mean_var",
                                  "BatchNorm cudnn_off",
                                  "BatchNorm min_calib_range",
                                  "BatchNorm max_calib_range",
                                  "LayerNorm output_mean_var",
                                  "_contrib_BatchNormWithReLU output_mean_var",
                                  "_contrib_BatchNormWithReLU cudnn_off",
                                  "_contrib_BatchNormWithReLU min_calib_range",
                                  "_contrib_BatchNormWithReLU max_calib_range",
                                  "_contrib_SparseEmbedding sparse_grad",
                                  "_np_reshape order",
                                  "_npx_reshape order",
                                  "softmin use_length",
                                  "log_softmax use_length",
                                  "Reshape target_shape",
                                  "Reshape keep_highest",
                                  "Embedding sparse_grad",
                                  "_arange infer_range",
                                  "norm out_dtype",
                                  "UpSampling workspace",
                                  "Dropout mode",
                                  "scaled_dot_product_attention dropout",
                                  "GroupNorm output_mean_var",
                                  "SequenceReverse axis",
                                  "_linalg_potrf lower",
                                  "_linalg_potri lower",
                                  "_contrib_SyncBatchNorm ndev",
                                  "_contrib_SyncBatchNorm output_mean_var",
                                  "_contrib_arange_like ctx",
                                  "_contrib_dequantize out_type",
                                  "_contrib_quantized_batch_norm axis",
                                  "_contrib_quantized_batch_norm output_mean_var",
                                  "_image_resize interp",
                                  "Pooling dilation",
                                  "_contrib_DeformableConvolution workspace",
                                  "_contrib_DeformableConvolution layout",
                                  "_contrib_ModulatedDeformableConvolution workspace",
                                  "_contrib_ModulatedDeformableConvolution layout",
                                  "_contrib_ModulatedDeformableConvolution im2col_step",
                                  "all_finite init_output",
                                  "multi_all_finite init_output",
                                  "_npi_mean initial",
                                  "_npi_dsplit squeeze_axis",
                                  "_npi_hsplit axis",
                                  "_npi_insert_scalar start",
                                  "_npi_insert_scalar step",
                                  "_npi_insert_scalar stop",
                                  "_npi_insert_slice int_ind",
                                  "_npi_insert_tensor int_ind",
                                  "_npi_insert_tensor start",
                                  "_npi_insert_tensor step",
                                  "_npi_insert_tensor stop",
                                  "_npi_lcm_scalar is_int",
                                  "_npi_pad reflect_type",
                                  "_npi_pinv hermitian",
                                  "_npi_pinv_scalar_rcond hermitian"};

// Operators of float32 and float64 alone: LAPACK's, and sequences of events.
const NameSet without_float16{
    "_linalg_det",     "_linalg_gelqf", "_linalg_inverse", "_linalg_potrf", "_linalg_potri",          "_linalg_trsm",
    "_linalg_slogdet", "_linalg_syevd", "_npi_solve",      "_npi_svd",      "_contrib_hawkesll",      "_npi_eig",
    "_npi_eigh",       "_npi_eigvals",  "_npi_eigvalsh",   "_npi_pinv",     "_npi_pinv_scalar_rcond", "_npi_tensorinv",
    "_npi_tensorsolve"};

}  // namespace

TEST_CASE("golden: every operator has data, or a reason why not", "[golden]") {
  std::map<std::string, int> counts;
  for (const GoldenCase& c : all_cases()) ++counts[operator_of(c)];
  for (const OpDef* def : all_op_defs()) {
    const std::string name(def->name());
    INFO(name);
    const bool is_gradient = name.starts_with("_backward_");  // taken in the cases of its operator
    const bool is_left_out = left_out.contains(name) || is_gradient;
    CHECK(counts.contains(name) != is_left_out);
    if (!is_left_out) CHECK(counts[name] >= 20);
    if (is_gradient) CHECK(!def->traits.in_mxnet);
  }
  for (const auto& [name, reason] : left_out) {
    INFO(name << ": " << reason);
    CHECK(find_op(name) != nullptr);
  }
}

TEST_CASE("golden: every attribute is set to another value than its default", "[golden]") {
  NameSet set;
  for (const GoldenCase& c : all_cases()) {
    const OpDef* def = find_op(c.op);
    REQUIRE(def);
    Attributes attrs(*def);
    for (const auto& [name, text] : c.attributes) REQUIRE(def->read(attrs.edit(), name, text) == 0);
    def->write(attrs.get(), [&](std::string_view name, const std::string&, bool is_default) {
      if (!is_default) set.insert(fmt::format("{} {}", def->name(), name));
    });
  }
  NameSet missing;
  for (const OpDef* def : all_op_defs()) {
    const std::string name(def->name());
    if (left_out.contains(name) || name.starts_with("_backward_")) continue;
    const Attributes attrs(*def);
    def->write(attrs.get(), [&](std::string_view attribute, const std::string&, bool) {
      const std::string both = fmt::format("{} {}", name, attribute);
      if (!set.contains(both)) missing.insert(both);
    });
  }
  CHECK(missing == attributes_left_out);
}

TEST_CASE("golden: gradients, dtypes, sizes of zero and one and special values are among the cases", "[golden]") {
  std::map<std::string, std::map<std::string, int>> seen;
  for (const GoldenCase& c : all_cases()) {
    auto& of = seen[operator_of(c)];
    for (const Golden& g : c.gradients) of["gradient"] += g.wanted.defined();
    for (const NDArray& x : c.inputs) {
      ++of[std::string(name_of(x.dtype()))];
      of["nothing"] += x.size() == 0;
      of["batch of one"] += x.ndim() > 0 && x.shape()[0] == 1;
      of["more than 128"] += x.size() > 128;
      if (!is_floating(x.dtype())) continue;
      for (double v : x.asvector<double>()) of["special"] += !std::isfinite(v);
    }
  }
  std::map<std::string, int> operators;
  for (const auto& [name, of] : seen) {
    const OpDef* def = find_op(name);
    INFO(name);
    if (def->traits.inputs.size() == 0) continue;
    static const std::set<std::string> of_integers{"left_shift", "right_shift", "_npi_lcm", "_npi_lcm_scalar"};
    const bool is_of_levels = def->traits.name.starts_with("_contrib_calibrate") || name.find("quantize") != name.npos;
    const bool is_narrow = name.find("mp_") != name.npos || name == "multi_lars";  // beside or in float32 alone
    if (name != "one_hot" && !is_narrow && !is_of_levels && !name.starts_with("_npi_bitwise") &&
        !of_integers.contains(name)) {
      for (const char* dtype : {"float32", "float64"}) CHECK(of.contains(dtype));
      CHECK(of.contains("float16") != without_float16.contains(name));
    }
    for (const auto& [what, n] : of) operators[what] += n > 0;
  }
  CHECK(operators["gradient"] > 120);
  CHECK(operators["nothing"] > 110);
  CHECK(operators["batch of one"] > 150);
  CHECK(operators["more than 128"] > 130);
  CHECK(operators["special"] > 100);
  CHECK(operators["bfloat16"] > 130);
  for (const char* dtype : {"int32", "int64", "uint8", "int8"}) CHECK(operators[dtype] > 70);
  CHECK(operators["bool"] > 15);
}

}  // namespace golden_coverage_test
