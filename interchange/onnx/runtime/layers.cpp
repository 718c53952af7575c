// Layers into which ONNX Runtime's optimiser joins the standard's: activations, products, normalisations.
#include <fmt/format.h>

#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

// x, and a bias for its last axis
Symbol with_bias(const Call& c, int bias) { return c.has(bias) ? sym.broadcast_add(c.x(), c.x(bias)) : c.x(); }

void bias_gelu(Call& c) { c.set(sym.gelu(with_bias(c, 1))); }

void fast_gelu(Call& c) {
  const Value x = Value::of(with_bias(c, 1));
  c.set(standard(c, "Gelu", {x}, {attribute("approximate", std::string_view("tanh"))}));
}

void quick_gelu(Call& c) { c.set(c.x() * sym.sigmoid(c.x() * c.real("alpha", 1.702f))); }

// The first axis behind the other ones of the batch, or all but the last one turned: what transBatch says.
Symbol with_batch(const Symbol& x, bool moves) {
  const int rank = rank_of(x);
  if (!moves || rank < 3) return x;
  std::vector<int64_t> axes;
  for (int i = 1; i < rank - 1; ++i) axes.push_back(i);
  axes.push_back(0);
  axes.push_back(rank - 1);
  return transposed(x, axes);
}

Symbol last_axes_turned(const Symbol& x, bool turns) {
  if (!turns || rank_of(x) < 2) return x;
  std::vector<int64_t> axes(size_t(rank_of(x)));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return transposed(x, axes);
}

void fused_matmul(Call& c) {
  const auto is_set = [&](std::string_view name) { return c.integer(name, 0) != 0; };
  const Symbol a = last_axes_turned(with_batch(c.x(0), is_set("transBatchA")), is_set("transA"));
  const Symbol b = last_axes_turned(with_batch(c.x(1), is_set("transBatchB")), is_set("transB"));
  const double alpha = c.real("alpha", 1);
  const Value y = a.entry().node == c.x(0).entry().node && b.entry().node == c.x(1).entry().node
                      ? standard(c, "MatMul", {c.input(0), c.input(1)})  // which knows weights
                      : Value::of(matmul(a, b));
  c.set(alpha == 1 ? y : Value::of(y.symbol * alpha));
}

// What a joined layer does with its result: the operator of that name, with up to three numbers.
Value with_activation(Call& c, const Value& x, const std::string& name, const std::vector<double>& numbers) {
  const auto number = [&](size_t i, const char* attribute_name) {
    std::vector<format::Attribute> all;
    if (i < numbers.size()) all.push_back(attribute(attribute_name, numbers[i]));
    return all;
  };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh" || name == "HardSwish" || name == "Softplus") {
    return standard(c, name, {x});
  }
  if (name == "LeakyRelu" || name == "Elu") return standard(c, name, {x}, number(0, "alpha"));
  if (name == "Clip" && numbers.size() == 2) return Value::of(sym.clip(x.symbol, numbers[0], numbers[1]));
  if (name == "HardSigmoid") {
    std::vector<format::Attribute> all = number(0, "alpha");
    for (format::Attribute& a : number(1, "beta")) all.push_back(std::move(a));
    return standard(c, name, {x}, all);
  }
  c.fail_supported(fmt::format("activation {} with {} numbers", name, numbers.size()));
}

// x, weight, bias, what is added before the activation
void fused_conv(Call& c) {
  std::vector<Value> inputs{c.input(0), c.input(1)};
  if (c.has(2)) inputs.push_back(c.input(2));
  Value y = standard(c, "Conv", inputs,
                     same_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (c.has(3)) y = standard(c, "Add", {y, c.input(3)});
  c.set(with_activation(c, y, c.text("activation", ""), c.reals("activation_params")));
}

void fused_gemm(Call& c) {
  std::vector<Value> inputs{c.input(0), c.input(1)};
  if (c.has(2)) inputs.push_back(c.input(2));
  const Value y = standard(c, "Gemm", inputs, same_attributes(c, {"alpha", "beta", "transA", "transB"}));
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (c.has(std::string_view(name))) numbers.push_back(c.real(name, 0));
  }
  c.set(with_activation(c, y, c.text("activation", ""), numbers));
}

std::vector<format::Attribute> epsilon_attribute(const Call& c, double otherwise) {
  return {attribute("epsilon", c.real("epsilon", otherwise))};
}

// The outputs of a normalisation of the sum of x and what a layer skipped, and, as output 3, the sum.
void set_skip(Call& c, int bias, bool simplified) {
  Symbol sum = sym.broadcast_add(c.x(0), c.x(1));
  if (c.has(bias)) sum = sym.broadcast_add(sum, c.x(bias));
  std::vector<Value> inputs{Value::of(sum), c.input(2)};
  if (simplified) {
    if (c.wants(2)) c.fail_supported("the output inv_std_var");
    c.set(0, standard(c, "RMSNormalization", inputs, epsilon_attribute(c, 1e-12f)));
  } else {
    if (c.has(3)) inputs.push_back(c.input(3));
    const int outputs = c.wants(1) || c.wants(2) ? 3 : 1;
    std::vector<Value> made = standard_all(c, "LayerNormalization", inputs, epsilon_attribute(c, 1e-12f), outputs);
    for (int i = 0; i < outputs; ++i) c.set(i, std::move(made[size_t(i)]));
  }
  c.set(3, sum);
}

// words, segments, embeddings of words, positions and segments, gamma, beta, mask, positions
void embed_layer_norm(Call& c) {
  if (c.rank() != 2) c.fail(fmt::format("words (batch, steps) expected, got {}", c.shape().str()));
  const int64_t batch = c.shape()[0], steps = c.shape()[1];
  const auto rows = [&](int table, const Symbol& index) {
    return sym.take(c.x(table), cast(index, DType::int64), {.axis = 0});
  };
  Symbol sum = rows(2, c.x(0));
  if (c.has(8)) {
    sum = sym.broadcast_add(sum, rows(3, c.x(8)));
  } else {
    if (steps > c.shape(3)[0]) c.fail(fmt::format("{} steps for {} positions", steps, c.shape(3)[0]));
    sum = sym.broadcast_add(sum, reshaped(slice_along(c.x(3), 0, 0, steps), Shape(1, steps, c.shape(3)[1])));
  }
  if (c.has(1)) sum = sum + rows(4, c.x(1));
  std::vector<Value> inputs{Value::of(sum), c.input(5), c.input(6)};
  c.set(0, standard(c, "LayerNormalization", inputs, epsilon_attribute(c, 1e-12f)));
  if (c.wants(1)) {  // how many words of each row count
    c.set(1, c.has(7) ? reshaped(sym.sum(cast(c.x(7), DType::int32), {.axis = Shape(1)}), Shape(batch))
                      : full(Shape(batch), 0, DType::int32));
  }
  c.set(2, sum);
}

void simplified_norm(Call& c) {
  if (c.wants(1)) c.fail_supported("the output inv_std_var");
  c.set(
      standard(c, "RMSNormalization", {c.input(0), c.input(1)}, same_attributes(c, {"axis", "epsilon", "stash_type"})));
}

constexpr Row runtime_layer_table[] = {
    {"Gelu", bias_gelu, 1, kMicrosoft},
    {"BiasGelu", bias_gelu, 1, kMicrosoft},
    {"FastGelu", fast_gelu, 1, kMicrosoft},
    {"QuickGelu", quick_gelu, 1, kMicrosoft},
    {"FusedMatMul", fused_matmul, 1, kMicrosoft},
    {"TransposeMatMul", fused_matmul, 1, kMicrosoft},
    {"FusedConv", fused_conv, 1, kMicrosoft},
    {"FusedGemm", fused_gemm, 1, kMicrosoft},
    {"SkipLayerNormalization", [](Call& c) { set_skip(c, 4, false); }, 1, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", [](Call& c) { set_skip(c, 3, true); }, 1, kMicrosoft},
    {"EmbedLayerNormalization", embed_layer_norm, 1, kMicrosoft},
    {"SimplifiedLayerNormalization", simplified_norm},  // without the domain, though not the standard's
};

}  // namespace

std::span<const Row> runtime_layer_rows() { return runtime_layer_table; }

}  // namespace kaon::onnx::convert
