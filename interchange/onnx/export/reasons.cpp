// Why operators are not written.
#include "kaon/interchange/onnx/export/program.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

namespace {

struct Reason {
  std::string_view prefix;  // of names
  std::string_view text;
};

// The first line whose prefix fits counts.
constexpr Reason reasons[] = {
    {"_backward_", "it is part of a gradient, and a model predicts"},
    {"_block_dequantize", "it is part of a gradient, and a model predicts"},
    {"_pooling_along", "it is part of a gradient, and a model predicts"},
    {"_contrib_hawkesll", "ONNX has no such loss"},
    {"_ctc_loss", "ONNX has no such loss"},
    {"_linalg_", "ONNX has no factorisations of matrices and no systems of equations"},
    {"_npi_svd", "ONNX has no factorisations of matrices and no systems of equations"},
    {"_npi_eig", "ONNX has no factorisations of matrices and no systems of equations"},
    {"_npi_solve", "ONNX has no factorisations of matrices and no systems of equations"},
    {"gamma", "ONNX has no gamma function"},
    {"gammaln", "ONNX has no gamma function"},
    {"digamma", "ONNX has no gamma function"},
    {"polygamma", "ONNX has no gamma function"},
    {"erfinv", "ONNX has no inverse of erf"},
    {"_npi_lcm", "ONNX has no common multiples"},
    {"_histogram", "ONNX has no histogram"},
    {"_contrib_quantize", "nets of int8 are not: save the float32 net, which other tools quantise"},
    {"_contrib_dequantize", "nets of int8 are not: save the float32 net, which other tools quantise"},
    {"_contrib_requantize", "nets of int8 are not: save the float32 net, which other tools quantise"},
    {"_contrib_calibrate", "nets of int8 are not: save the float32 net, which other tools quantise"},
    {"_fused_quantized", "nets of int8 are not: save the float32 net, which other tools quantise"},
    {"_contrib_MultiBoxTarget", "it makes the targets of training"},
    {"_contrib_box_encode", "it makes the targets of training"},
    {"_bipartite_pairs", "it makes the targets of training"},
    {"_contrib_PSROIPooling", "ONNX has no such regions of interest"},
    {"_contrib_DeformablePSROIPooling", "ONNX has no such regions of interest"},
    {"_contrib_RROIAlign", "ONNX has no such regions of interest"},
    {"Correlation", "ONNX has no correlation of two images"},
    {"all_finite", "it guards the steps of training"},
    {"multi_all_finite", "it guards the steps of training"},
    {"multi_sum_sq", "it guards the steps of training"},
    {"multi_lars", "it guards the steps of training"},
    {"_kaon_", "it guards the steps of training"},
};

}  // namespace

std::string reason_of(const OpDef& op) {
  const OpTraits& traits = op.traits;
  for (const Reason& r : reasons) {
    if (traits.name.starts_with(r.prefix)) return std::string(r.text);
  }
  if (traits.random) return "ONNX draws no such random numbers";
  if (traits.mutates != 0) return "it changes its inputs, which a model cannot";
  return "ONNX has no such operator";
}

}  // namespace kaon::onnx::exporting
