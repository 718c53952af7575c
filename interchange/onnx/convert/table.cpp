// The table of operators: the rows of every family.
#include <algorithm>

#include "kaon/interchange/onnx/convert/call.h"
#include "kaon/interchange/onnx/convert/families.h"

namespace kaon::onnx::convert {

std::vector<std::span<const Row>> all_rows() {
  return {elementwise_rows(),    activation_rows(),
          type_rows(),           quantization_rows(),
          shape_rows(),          movement_rows(),
          reduction_rows(),      indexing_rows(),
          product_rows(),        convolution_rows(),
          pooling_rows(),        normalization_rows(),
          recurrent_rows(),      attention_rows(),
          image_rows(),          signal_rows(),
          control_rows(),        sequence_rows(),
          loss_rows(),           random_rows(),
          detection_rows(),      text_rows(),
          gradient_rows(),       runtime_quantised_rows(),
          runtime_layer_rows(),  runtime_attention_rows(),
          runtime_weight_rows(), runtime_language_rows(),
          runtime_expert_rows(), tree_rows(),
          image_decoder_rows(),  classical_rows(),
          support_vector_rows(), runtime_recurrent_rows()};
}

Converter find_converter(std::string_view domain, std::string_view op_type, int64_t version) {
  const Row* best = nullptr;
  for (std::span<const Row> rows : all_rows()) {
    for (const Row& row : rows) {
      if (row.op_type != op_type || row.domain != domain || row.since > version) continue;
      if (!best || best->since < row.since) best = &row;
    }
  }
  return best ? best->convert : nullptr;
}

}  // namespace kaon::onnx::convert
