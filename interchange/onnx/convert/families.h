// The families of operators, each in a file of operators/: what the table is made of.
#pragma once

#include <span>

namespace kaon::onnx::convert {

struct Row;

std::span<const Row> elementwise_rows();
std::span<const Row> activation_rows();
std::span<const Row> type_rows();
std::span<const Row> quantization_rows();
std::span<const Row> shape_rows();
std::span<const Row> movement_rows();
std::span<const Row> reduction_rows();
std::span<const Row> indexing_rows();
std::span<const Row> product_rows();
std::span<const Row> convolution_rows();
std::span<const Row> pooling_rows();
std::span<const Row> normalization_rows();
std::span<const Row> recurrent_rows();
std::span<const Row> attention_rows();
std::span<const Row> image_rows();
std::span<const Row> detection_rows();
std::span<const Row> image_decoder_rows();
std::span<const Row> signal_rows();
std::span<const Row> control_rows();
std::span<const Row> sequence_rows();
std::span<const Row> loss_rows();
std::span<const Row> random_rows();
std::span<const Row> text_rows();
std::span<const Row> gradient_rows();
// ai.onnx.ml, in ml/
std::span<const Row> tree_rows();
std::span<const Row> classical_rows();
std::span<const Row> support_vector_rows();
// ONNX Runtime's own, each in a file of runtime/
std::span<const Row> runtime_quantised_rows();
std::span<const Row> runtime_recurrent_rows();
std::span<const Row> runtime_layer_rows();
std::span<const Row> runtime_attention_rows();
std::span<const Row> runtime_weight_rows();
std::span<const Row> runtime_language_rows();
std::span<const Row> runtime_expert_rows();

}  // namespace kaon::onnx::convert
