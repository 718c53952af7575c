#include "kaon/graph/files/mxnet_terms.h"

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/functions.h"

namespace kaon::graph {
namespace {

// x (batch, heads, steps, size) as (batch heads, steps, size), and back with the heads of `like`.
Symbol join_heads(const Symbol& x) { return sym.reshape(x, {-3, 0, 0}); }
Symbol split_heads(const Symbol& x, const Symbol& like) {
  return sym.reshape_like(x, like, {.lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0, .rhs_end = 2});
}

// What the mask says in numbers, if it is a cast of them to bool.
SymbolEntry mask_in_numbers(const SymbolNode& node) {
  const bool is_cast =
      node.op == &op::Cast::def && static_cast<const op::Cast*>(node.attrs.get())->dtype == DType::boolean;
  return is_cast ? node.inputs[0] : SymbolEntry{};
}

// 1 where a query may look, (1, 1, steps, other steps).
Symbol causal_mask(CausalMask causal, const Symbol& query, const Symbol& key) {
  const auto steps = [&](const Symbol& x) {  // counted in float32, whatever x holds
    const Symbol places = sym.arange_like(sym.cast(sym.slice_axis(x, 3, 0, 1), DType::float32), {.axis = 2});
    return causal == CausalMask::upper_left ? places : -sym.reverse(places, 0);
  };
  return sym.broadcast_greater_equal(sym.reshape(steps(query), {1, 1, -1, 1}), sym.reshape(steps(key), {1, 1, 1, -1}));
}

SymbolEntry attention(const SymbolNode& node, const std::vector<SymbolEntry>& inputs) {
  const auto& op = *static_cast<const op::ScaledDotProductAttention*>(node.attrs.get());
  const auto meta = [&](size_t i) { return node.inputs[i].node->outputs[node.inputs[i].output]; };
  const Shape query_shape = meta(0).shape, key_shape = meta(1).shape;
  if (!query_shape.is_known() || !key_shape.is_known() || query_shape[1] != key_shape[1]) return {};
  if (op.use_valid_length) return {};
  const SymbolEntry numbers = op.use_mask ? mask_in_numbers(*inputs[3].node) : SymbolEntry{};
  if (op.use_mask && !numbers.node) return {};
  const NameScope scope(node.name + "_");
  const Symbol query(inputs[0]), scaled = op.scale ? query * *op.scale : sym.div_sqrt_dim(query);
  Symbol weights = sym.batch_dot(join_heads(scaled), join_heads(Symbol(inputs[1])), {.transpose_b = true});
  const auto dropped = [&](const Symbol& w) { return op.dropout > 0 ? sym.Dropout(w, {.p = op.dropout}) : w; };
  if (op.use_mask || op.causal != CausalMask::none) {
    const DType dtype = meta(0).dtype;
    Symbol mask = op.use_mask ? sym.cast(Symbol(numbers), dtype) : Symbol();
    if (op.causal != CausalMask::none) {
      const Symbol before = sym.cast(causal_mask(op.causal, query, Symbol(inputs[1])), dtype);
      mask = mask.defined() ? sym.broadcast_mul(mask, before) : before;
    }
    // subtracted from masked scores: their exp is 0, and float16 can hold it
    const Symbol far_below = (mask - 1) * (dtype == DType::float16 ? 3e4 : 1e30);
    weights = sym.softmax(sym.broadcast_add(split_heads(weights, query), far_below));
    weights = join_heads(dropped(sym.broadcast_mul(weights, mask)));  // a query that may look nowhere gets 0
  } else {
    weights = dropped(sym.softmax(weights));
  }
  return split_heads(sym.batch_dot(weights, join_heads(Symbol(inputs[2]))), query).entry();
}

}  // namespace

Symbol in_mxnet_terms(const Symbol& program) {
  return with_replaced(program, [](const SymbolNode& node, const std::vector<SymbolEntry>& inputs) {
    return node.op == &op::ScaledDotProductAttention::def ? attention(node, inputs) : SymbolEntry{};
  });
}

}  // namespace kaon::graph
