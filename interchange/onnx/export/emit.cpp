#include "kaon/interchange/onnx/export/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/export/program.h"
#include "kaon/ops/op_def.h"

namespace kaon::onnx::exporting {

namespace {

Attribute attribute(std::string_view name, Attribute::Type type) {
  Attribute a;
  a.name = name;
  a.type = type;
  return a;
}

struct Since {
  std::string_view op_type;
  int64_t opset;
};

int64_t find(std::span<const Since> rows, std::string_view op_type, int64_t otherwise) {
  const auto at = std::ranges::find(rows, op_type, &Since::op_type);
  return at == rows.end() ? otherwise : at->opset;
}

// The operators of the standard that came after opset 17, the first that is written.
constexpr Since operators_since[] = {
    {"BitwiseAnd", 18},      {"BitwiseNot", 18},       {"BitwiseOr", 18},   {"BitwiseXor", 18},
    {"CenterCropPad", 18},   {"Col2Im", 18},           {"Mish", 18},        {"GroupNormalization", 18},
    {"DeformConv", 19},      {"AffineGrid", 20},       {"Gelu", 20},        {"ImageDecoder", 20},
    {"RegexFullMatch", 20},  {"StringConcat", 20},     {"StringSplit", 20}, {"Attention", 23},
    {"RotaryEmbedding", 23}, {"RMSNormalization", 23}, {"Swish", 24},       {"TensorScatter", 24},
};

// From which opset on an operator takes bfloat16 wherever it takes float32, where that is not its first one or 17;
// kNever: in none that is written. By the types in the schemas of onnx 1.23.
constexpr int64_t kNever = 99;
// clang-format off
constexpr Since bfloat16_since[] = {
    {"Acos", 22}, {"Acosh", 22}, {"Asin", 22}, {"Asinh", 22}, {"Atan", 22}, {"Atanh", 22}, {"AveragePool", 22},
    {"Bernoulli", 22}, {"Conv", 22}, {"ConvTranspose", 22}, {"Cos", 22}, {"Cosh", 22}, {"Det", 22}, {"Dropout", 22},
    {"Elu", 22}, {"EyeLike", 22}, {"GRU", 22}, {"GlobalAveragePool", 22}, {"GlobalLpPool", 22}, {"GlobalMaxPool", 22},
    {"GridSample", 22}, {"HardSigmoid", 22}, {"HardSwish", 22}, {"InstanceNormalization", 22}, {"LSTM", 22},
    {"LpNormalization", 22}, {"LpPool", 22}, {"MaxPool", 22}, {"MaxRoiPool", 22}, {"MaxUnpool", 22},
    {"Multinomial", 22}, {"NegativeLogLikelihoodLoss", 22}, {"RNN", 22}, {"RandomNormalLike", 22},
    {"RandomUniformLike", 22}, {"RoiAlign", 22}, {"Round", 22}, {"Selu", 22}, {"Sin", 22}, {"Sinh", 22},
    {"Softplus", 22}, {"Softsign", 22}, {"Tan", 22}, {"ThresholdedRelu", 22}, {"QuantizeLinear", 19}, {"IsInf", 20},
    {"ConstantOfShape", 20}, {"TopK", 24}, {"Celu", kNever}, {"Compress", kNever}, {"Einsum", kNever},
    {"OneHot", kNever}, {"Range", kNever}, {"Resize", kNever}, {"ReverseSequence", kNever}, {"Shrink", kNever},
    {"Unique", kNever},
};
// clang-format on

// Whether the output of an operator that reads bfloat16 has that dtype, as far as the operator alone says it.
bool keeps_dtype(std::string_view op_type, int output) {
  static constexpr std::string_view others[] = {"ArgMax",         "ArgMin",         "Cast",  "Equal", "Greater",
                                                "GreaterOrEqual", "IsInf",          "IsNaN", "Less",  "LessOrEqual",
                                                "NonZero",        "QuantizeLinear", "Shape", "Size"};
  static constexpr std::string_view with_numbers_behind[] = {"Dropout", "MaxPool", "TopK", "Unique"};
  if (output > 0 && std::ranges::find(with_numbers_behind, op_type) != std::end(with_numbers_behind)) return false;
  return std::ranges::find(others, op_type) == std::end(others);
}

}  // namespace

Attribute integer(std::string_view name, int64_t value) {
  Attribute a = attribute(name, Attribute::Type::integer);
  a.i = value;
  return a;
}
Attribute real(std::string_view name, double value) {
  Attribute a = attribute(name, Attribute::Type::float32);
  a.f = float(value);
  return a;
}
Attribute text(std::string_view name, std::string_view value) {
  Attribute a = attribute(name, Attribute::Type::string);
  a.s = value;
  return a;
}
Attribute integers(std::string_view name, const std::vector<int64_t>& values) {
  Attribute a = attribute(name, Attribute::Type::integers);
  a.integers = values;
  return a;
}

Attribute body(std::string_view name, std::shared_ptr<format::Graph> graph) {
  Attribute a = attribute(name, Attribute::Type::graph);
  a.graphs = {std::move(graph)};
  return a;
}

format::ValueInfo info_of(std::string_view name, const TensorMeta& meta) {
  format::ValueInfo info;
  info.name = name;
  info.type = format::element_type_of(meta.dtype);
  info.has_shape = true;
  for (int64_t d : meta.shape) info.dims.push_back({d, ""});
  return info;
}

std::string Builder::unique(std::string_view name) {
  std::string candidate(name);
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

std::vector<std::string> Builder::nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                        std::vector<Attribute> attributes, int outputs, std::string_view name,
                                        std::string_view domain) {
  require(find(operators_since, op_type, 17), op_type);
  const bool is_bfloat16 = std::ranges::any_of(inputs, [&](const auto& input) { return bfloat16_.contains(input); });
  if (const int64_t first = find(bfloat16_since, op_type, 0); is_bfloat16 && domain.empty() && first > opset_) {
    fail(fmt::format("the operator {} does not take bfloat16 at opset {}{}", op_type, opset_,
                     first == kNever ? "" : fmt::format(", but from {} on", first)));
  }
  format::Node node;
  node.op_type = op_type;
  node.domain = domain;
  node.inputs = inputs;
  node.attributes = std::move(attributes);
  node.name = unique(fmt::format("{}_{}", name, op_type));
  for (int i = 0; i < outputs; ++i)
    node.outputs.push_back(unique(outputs == 1 ? node.name + "_out" : fmt::format("{}_out{}", node.name, i)));
  for (int i = 0; i < outputs && is_bfloat16; ++i) {
    if (keeps_dtype(op_type, i)) bfloat16_.insert(node.outputs[size_t(i)]);
  }
  (bodies_.empty() ? graph_ : bodies_.back()).nodes.push_back(node);
  return node.outputs;
}

void Builder::require(int64_t opset, std::string_view what) const {
  if (opset <= opset_) return;
  fail(fmt::format("the operator {} came with opset {}: it is not written at opset {}", what, opset, opset_));
}

void Builder::fail(const std::string& what) const { throw ValueError(fmt::format("[onnx] {}{}", label_, what)); }

void Builder::open_graph(std::string_view name) { bodies_.emplace_back().name = unique(name); }

std::string Builder::body_input(std::string_view name, const TensorMeta& meta) {
  const std::string own = unique(name);
  bodies_.back().inputs.push_back(info_of(own, meta));
  set_dtype(own, meta.dtype);
  return own;
}

void Builder::set_body_outputs(const std::vector<std::string>& values, const std::vector<TensorMeta>& metas) {
  format::Graph& body = bodies_.back();
  for (size_t i = 0; i < values.size(); ++i) {
    format::Node identity;  // a value may be one of another graph, or there twice
    identity.op_type = "Identity";
    identity.inputs = {values[i]};
    identity.outputs = {unique("result")};
    identity.name = identity.outputs[0] + "_identity";
    body.outputs.push_back(info_of(identity.outputs[0], metas[i]));
    body.nodes.push_back(std::move(identity));
  }
}

std::shared_ptr<format::Graph> Builder::close_graph() {
  auto body = std::make_shared<format::Graph>(std::move(bodies_.back()));
  bodies_.pop_back();
  return body;
}

std::string Builder::Scope::label_of(std::string_view name, std::string_view op) {
  return fmt::format("node {} ({}): ", name, op);
}

void Builder::set_dtype(const std::string& value, DType dtype) {
  if (dtype == DType::bfloat16) {
    bfloat16_.insert(value);
  } else {
    bfloat16_.erase(value);
  }
}

std::string Builder::input(std::string_view name, const TensorMeta& meta) {
  const std::string own = unique(name);
  graph_.inputs.push_back(info_of(own, meta));
  set_dtype(own, meta.dtype);
  return own;
}

std::string Builder::initializer(const NDArray& values, std::string_view name) {
  const std::string own = unique(name);
  format::Tensor t;
  t.name = own;
  t.type = format::element_type_of(values.dtype());
  t.dims.assign(values.shape().begin(), values.shape().end());
  graph_.initializers.push_back(std::move(t));
  arrays_.push_back(values);
  set_dtype(own, values.dtype());
  return own;
}

std::string Builder::constant(const std::vector<int64_t>& values) {
  std::string& name = constants_[values];
  if (name.empty() || how_ == Constants::apart) {
    name = initializer(NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64),
                       "constant");
  }
  return name;
}

std::string Builder::scalar(double value, DType dtype) {
  return initializer(NDArray::from(&value, 1, Shape(), dtype), "number");
}

std::string Emit::node(std::string_view op_type, const std::vector<std::string>& inputs,
                       std::vector<Attribute> attributes) {
  return builder_.nodes(op_type, inputs, std::move(attributes), 1, node_.name)[0];
}

std::string Emit::runtime_node(std::string_view op_type, const std::vector<std::string>& inputs,
                               std::vector<Attribute> attributes) {
  return builder_.nodes(op_type, inputs, std::move(attributes), 1, node_.name, runtime_domain)[0];
}

std::string Emit::reshape(const std::string& x, const Shape& shape) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  const bool has_zero = std::find(dims.begin(), dims.end(), 0) != dims.end();
  std::vector<Attribute> attributes;
  if (has_zero) attributes.push_back(integer("allowzero", 1));
  return node("Reshape", {x, builder_.constant(dims)}, std::move(attributes));
}

std::string Emit::cast(const std::string& x, DType dtype) {
  const std::string y = node("Cast", {x}, {integer("to", int64_t(format::element_type_of(dtype)))});
  builder_.set_dtype(y, dtype);
  return y;
}

std::vector<std::string> Emit::nodes(std::string_view op_type, const std::vector<std::string>& inputs,
                                     std::vector<Attribute> attributes, int outputs) {
  return builder_.nodes(op_type, inputs, std::move(attributes), outputs, node_.name);
}

std::string Emit::transpose(const std::string& x, const std::vector<int64_t>& perm) {
  return std::ranges::is_sorted(perm) ? x : node("Transpose", {x}, {integers("perm", perm)});
}

std::string Emit::slice(const std::string& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return node("Slice", {x, builder_.constant({begin}), builder_.constant({end}), builder_.constant({axis}),
                        builder_.constant({step})});
}

std::string Emit::expand(const std::string& x, const Shape& shape) {
  return node("Expand", {x, builder_.constant({shape.begin(), shape.end()})});
}

std::string Emit::reduce(std::string_view op_type, const std::string& x, const std::vector<int64_t>& axes,
                         bool keepdims) {
  std::vector<std::string> inputs{x};
  std::vector<Attribute> attributes{integer("keepdims", keepdims)};
  if (opset() >= 18 || op_type == "ReduceSum") inputs.push_back(builder_.constant(axes));
  else attributes.push_back(integers("axes", axes));
  return node(op_type, inputs, std::move(attributes));
}

std::string Emit::array(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return builder_.initializer(NDArray::from(values.data(), values.size(), shape, dtype), "array");
}

std::string Emit::index(int i, IndexMode mode, int64_t n) {
  const std::string x = dtype(i) == DType::int64 ? in(i) : cast(in(i), DType::int64);
  if (mode == IndexMode::raise) return x;
  if (mode == IndexMode::wrap) return node("Mod", {x, number(double(n), DType::int64)});
  return node("Clip", {x, number(0, DType::int64), number(double(n - 1), DType::int64)});
}

void Emit::set_parts() {
  std::vector<std::string> names = write_parts(node_, builder_, inputs_);
  std::ranges::move(names, outputs_.begin());
}

void Emit::fail(const std::string& what) const {
  builder_.fail(fmt::format("of the operator {}, {} is not written", node_.op->name(), what));
}

std::vector<std::span<const WriterRow>> all_writers() {
  return {elementwise_writers(), numeric_writers(),   reduction_writers(), layer_writers(),
          convolution_writers(), movement_writers(),  indexing_writers(),  image_writers(),
          detection_writers(),   attention_writers(), recurrent_writers(), control_writers()};
}

Writer find_writer(const OpDef& op) {
  for (const std::span<const WriterRow> rows : all_writers()) {
    for (const WriterRow& row : rows) {
      if (row.op == &op) return row.write;
    }
  }
  return nullptr;
}

}  // namespace kaon::onnx::exporting
