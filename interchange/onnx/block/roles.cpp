#include "kaon/interchange/onnx/block/roles.h"

namespace kaon::onnx::block {

namespace {

// Names of initializers that only ever are running statistics.
void add_statistics(const std::vector<format::Node>& nodes, std::set<std::string>& to) {
  for (const format::Node& n : nodes) {
    if (n.op_type != "BatchNormalization" || n.inputs.size() < 5) continue;
    to.insert(n.inputs[3]);
    to.insert(n.inputs[4]);
  }
}

void add_weights(const std::vector<format::Node>& nodes, std::set<std::string>& weights,
                 std::set<std::string>& others) {
  for (const format::Node& n : nodes) {
    const auto* turns = n.find("transB");
    const bool is_product =
        n.domain.empty() && (n.op_type == "MatMul" || (n.op_type == "Gemm" && (!turns || turns->i == 0)));
    for (size_t i = 0; i < n.inputs.size(); ++i) (is_product && i == 1 ? weights : others).insert(n.inputs[i]);
    for (const auto& a : n.attributes) {
      for (const auto& g : a.graphs) {
        std::set<std::string> inside;  // values there are looked up by name
        add_weights(g->nodes, inside, others);
        others.merge(inside);
      }
    }
  }
}

// Initializers that are scales of quantised tensors: what is made of them when a model is converted is no function of
// them, so that they are constants.
void add_scales(const std::vector<format::Node>& nodes, std::set<std::string>& to) {
  for (const format::Node& n : nodes) {
    const bool reads_scales = n.op_type.starts_with("QLinear") || n.op_type.ends_with("quantizeLinear") ||
                              n.op_type == "QuantizeLinear" || n.op_type == "QGemm";
    if (n.op_type == "QMoE") {
      for (size_t i : {3, 6, 9}) {
        if (i < n.inputs.size()) to.insert(n.inputs[i]);
      }
    }
    if (n.op_type == "DynamicQuantizeLSTM") {
      for (size_t i : {8, 10}) {
        if (i < n.inputs.size()) to.insert(n.inputs[i]);
      }
    }
    const bool reads_packed = n.op_type == "MatMulNBits" || n.op_type == "GatherBlockQuantized";
    if (!reads_scales && !reads_packed) continue;
    for (size_t i = 1; i < n.inputs.size() && !(reads_packed && i > 4); ++i) to.insert(n.inputs[i]);
  }
}

}  // namespace

Roles roles_of(const std::vector<format::Node>& nodes) {
  Roles roles;
  add_statistics(nodes, roles.statistics);
  add_weights(nodes, roles.factors, roles.others);
  add_scales(nodes, roles.scales);
  return roles;
}

}  // namespace kaon::onnx::block
