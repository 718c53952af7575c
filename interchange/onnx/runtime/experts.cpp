// Mixtures of experts: each row goes through the k experts that a router chooses for it.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/packed_weights.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

// One of an expert's products, of all experts: weight (experts, outputs, inputs), bias (experts, outputs) or none.
struct ExpertProduct {
  Symbol weight, bias;
  bool is_there() const { return weight.defined(); }
};

// How much each expert counts for each row (rows, experts): the shares of the k largest, 0 for others; `of_chosen`: of
// these alone.
Symbol routed(const Call& c, const Symbol& scores, bool of_chosen) {
  const int64_t k = c.integer("k", 1), experts = shape_of(scores)[1];
  if (k < 1 || k > experts) c.fail(fmt::format("k is {} of {} experts", k, experts));
  if (c.integer("use_sparse_mixer", 0) != 0) c.fail_supported("use_sparse_mixer");
  const Symbol shares = sym.softmax(cast(scores, DType::float32));
  const Symbol chosen = shares * sym.topk(shares, {.axis = 1, .k = int(k), .ret_typ = TopKReturn::mask});
  if (!of_chosen) return chosen;
  return sym.broadcast_div(chosen, sym.sum(chosen, {.axis = Shape(1), .keepdims = true}));
}

Symbol product_of(const Call& c, const Symbol& x, const ExpertProduct& p, const char* name) {
  const Shape &xs = shape_of(x), &ws = shape_of(p.weight);
  if (ws.ndim() != 3 || ws[0] != xs[0] || ws[2] != xs[2]) {
    c.fail(fmt::format("{} of shape {} for {} experts of {} inputs", name, ws.str(), xs[0], xs[2]));
  }
  const Symbol y = sym.batch_dot(x, cast(p.weight, dtype_of(x)), {.transpose_b = true});
  if (!p.bias.defined()) return y;
  if (shape_of(p.bias) != Shape(ws[0], ws[1])) {
    c.fail(fmt::format("the bias of {} has shape {}", name, shape_of(p.bias).str()));
  }
  return sym.broadcast_add(y, cast(reshaped(p.bias, Shape(ws[0], 1, ws[1])), dtype_of(x)));
}

// gate sigmoid(alpha gate) (up + beta), both bounded
Symbol swiglu(const Call& c, Symbol gate, Symbol up) {
  if (c.integer("swiglu_limit_after_activation", 0) != 0) c.fail_supported("swiglu_limit_after_activation");
  if (c.has("swiglu_limit")) {
    const double limit = c.real("swiglu_limit", 0);
    gate = sym.clip(gate, -std::numeric_limits<double>::infinity(), limit);
    up = sym.clip(up, -limit, limit);
  }
  return gate * sym.sigmoid(gate * c.real("activation_alpha", 1)) * (up + c.real("activation_beta", 0));
}

// What the first product, and the third where there is one, become for the second. h: (experts, rows, outputs).
Symbol activated(Call& c, const Symbol& h, const Symbol& third) {
  const std::string type = c.text("activation_type", "relu");
  const int64_t fusion = c.integer("swiglu_fusion", 0), width = shape_of(h)[2];
  if (type == "swiglu") {
    if (fusion == 0 && third.defined()) return swiglu(c, h, third);
    if (fusion == 1 && width % 2 == 0) return swiglu(c, slice_along(h, 2, 0, width, 2), slice_along(h, 2, 1, width, 2));
    if (fusion == 2 && width % 2 == 0) {
      return swiglu(c, slice_along(h, 2, 0, width / 2), slice_along(h, 2, width / 2, width));
    }
    c.fail_supported(fmt::format("swiglu_fusion {} of {} numbers", fusion, width));
  }
  Symbol y;
  if (type == "relu") y = sym.relu(h);
  else if (type == "gelu")
    y = standard(c, "Gelu", {Value::of(h)}, {attribute("approximate", std::string_view("tanh"))}).symbol;
  else if (type == "silu") y = sym.silu(h);
  else if (type == "identity") y = h;
  else c.fail_supported("activation_type " + type);
  return third.defined() ? y * third : y;
}

// All experts for all rows: their results are added, as the router has it.
void mix(Call& c, const std::array<ExpertProduct, 3>& products, bool of_chosen) {
  if (c.rank() != 2 && c.rank() != 3) c.fail(fmt::format("input of shape {}", c.shape().str()));
  const int64_t hidden = c.shape().back(), rows = c.shape().size() / std::max<int64_t>(1, hidden);
  const Shape& ws = shape_of(products[0].weight);
  if (c.rank(1) != 2 || ws.ndim() != 3 || c.shape(1) != Shape(rows, ws[0])) {
    c.fail(fmt::format("router_probs of shape {} for {} rows and fc1_experts_weights of shape {}", c.shape(1).str(),
                       rows, ws.str()));
  }
  const int64_t experts = ws[0];
  const Symbol weights = reshaped(sym.transpose(routed(c, c.x(1), of_chosen)), Shape(experts, rows, 1));
  const Symbol x =
      broadcast(reshaped(cast(c.x(), DType::float32), Shape(1, rows, hidden)), Shape(experts, rows, hidden));
  const Symbol third = products[2].is_there() ? product_of(c, x, products[2], "fc3_experts_weights") : Symbol();
  const Symbol h = activated(c, product_of(c, x, products[0], "fc1_experts_weights"), third);
  const Symbol y = product_of(c, h, products[1], "fc2_experts_weights");
  const Symbol sum = sym.sum(sym.broadcast_mul(y, weights), {.axis = Shape(0)});
  if (shape_of(sum).back() != hidden) c.fail(fmt::format("results of shape {}", shape_of(sum).str()));
  c.set(cast(reshaped(sum, c.shape()), c.dtype()));
}

// input, router_probs, weights and bias of the first, second and third product
void mixture(Call& c) {
  std::array<ExpertProduct, 3> products;
  for (int i = 0; i < 3; ++i) {
    const int at = 2 + 2 * i;
    if (!c.has(at)) continue;
    products[size_t(i)].weight = c.x(at);
    if (c.has(at + 1)) products[size_t(i)].bias = c.x(at + 1);
  }
  if (!products[0].is_there() || !products[1].is_there()) c.fail("fc1 and fc2 expected");
  mix(c, products, c.integer("normalize_routing_weights", 0) != 0);
}

// The weight (experts, outputs, inputs) of packed numbers, scales and zero points by row or by block of inputs.
Symbol packed_experts(const Call& c, int i, int zeros, int64_t bits, int64_t block) {
  const Shape& s = c.shape(i);
  if (s.ndim() != 3 || c.dtype(i) != DType::uint8) c.fail(fmt::format("input {} of shape {}", i, s.str()));
  const int64_t experts = s[0], outputs = s[1], inputs = s[2] * 8 / bits;
  const int64_t size = block > 0 ? block : inputs, blocks = size > 0 ? inputs / size : 0;
  const Shape beside(experts, outputs, blocks, 1);
  if (inputs % size != 0 || c.shape(i + 1).size() != experts * outputs * blocks) {
    c.fail(
        fmt::format("scales of shape {} for weights of shape {} in blocks of {}", c.shape(i + 1).str(), s.str(), size));
  }
  const Symbol scale = reshaped(cast(c.x(i + 1), DType::float32), beside);
  Symbol zero = full(Shape(1, 1, 1, 1), double(1 << (bits - 1)), DType::float32);
  if (c.has(zeros)) {
    const bool by_block = c.rank(zeros) == 3;  // else all rows' zero points are packed together
    const int64_t count = by_block ? blocks : outputs;
    const Symbol codes = unpacked(c.x(zeros), bits);
    const int last = rank_of(codes) - 1;
    if (shape_of(codes)[last] < count || shape_of(codes).size() / shape_of(codes)[last] * count != beside.size()) {
      c.fail(fmt::format("zero points of shape {}", c.shape(zeros).str()));
    }
    zero = reshaped(slice_along(codes, last, 0, count), beside);
  }
  const Symbol codes = reshaped(unpacked(c.x(i), bits), Shape(experts, outputs, blocks, size));
  const Symbol w = sym.broadcast_mul(sym.broadcast_sub(codes, zero), scale);
  return reshaped(w, Shape(experts, outputs, inputs));
}

// input, router_probs, packed weights, scales and bias of the three products, their zero points
void quantised_mixture(Call& c) {
  if (c.text("quant_type", "int") != "int") c.fail_supported("quant_type " + c.text("quant_type", ""));
  if (c.integer("weights_prepacked", 0) > 0) c.fail_supported("weights_prepacked");
  for (int i = 14; i <= 20; ++i) {
    if (c.has(i)) c.fail_supported(fmt::format("input {}", i));
  }
  const int64_t same = c.integer("expert_weight_bits", 4), block = c.integer("block_size", 0);
  constexpr const char* names[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
  std::array<ExpertProduct, 3> products;
  for (int i = 0; i < 3; ++i) {
    const int at = 2 + 3 * i;
    if (!c.has(at)) continue;
    const int64_t bits = c.integer(names[i], same);
    if (bits != 2 && bits != 4 && bits != 8) c.fail_supported(fmt::format("{} {}", names[i], bits));
    products[size_t(i)].weight =
        c.conversion().once(c, {at, at + 1, 11 + i}, fmt::format("experts of {} bits, blocks of {}", bits, block),
                            [&] { return packed_experts(c, at, 11 + i, bits, block); });
    if (c.has(at + 2)) products[size_t(i)].bias = c.x(at + 2);
  }
  if (!products[0].is_there() || !products[1].is_there()) c.fail("fc1 and fc2 expected");
  mix(c, products, true);  // whatever normalize_routing_weights says, as ONNX Runtime does
}

constexpr Row runtime_expert_table[] = {
    {"MoE", mixture, 1, kMicrosoft},
    {"QMoE", quantised_mixture, 1, kMicrosoft},
};

}  // namespace

std::span<const Row> runtime_expert_rows() { return runtime_expert_table; }

}  // namespace kaon::onnx::convert
