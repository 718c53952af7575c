// Fusion of operators into the Convolution or FullyConnected before them.
#include <climits>
#include <optional>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/plan_ops/batch_norm_affine.h"
#include "kaon/ops/kernels/as_float32.h"

namespace kaon::graph::passes {
namespace {

// The common part of Convolution and FullyConnected. Inputs: data, weight, bias unless no_bias, then those of its
// post-ops.
struct Layer {
  bool no_bias = false;
  PostOps post_ops;
};

std::optional<Layer> layer_of(const Node& n) {
  auto read = [](const auto& op) { return Layer{op.no_bias, op.post_ops}; };
  if (n.op == &op::Convolution::def) return read(attributes<op::Convolution>(n));
  if (n.op == &op::FullyConnected::def) return read(attributes<op::FullyConnected>(n));
  return std::nullopt;
}

void set_layer(Node& n, const Layer& layer) {
  auto write = [&](auto op) {
    op.no_bias = layer.no_bias;
    op.post_ops = layer.post_ops;
    set_operator(n, op);
  };
  if (n.op == &op::Convolution::def) {
    write(attributes<op::Convolution>(n));
  } else {
    write(attributes<op::FullyConnected>(n));
  }
}

// The axis of a layer's result that has one entry per channel.
int channel_axis(const Node& layer) {
  const bool is_second =
      layer.op == &op::Convolution::def && !is_channels_last(attributes<op::Convolution>(layer).layout);
  return is_second ? 1 : layer.outputs[0].shape.ndim() - 1;
}

// Rewrites a graph so that layers take in their only readers.
class Fusion {
 public:
  Fusion(Graph g, bool training) : g_(std::move(g)), uses_(count_uses(g_)), updated_(updated_nodes(g_, training)) {}

  const Graph& graph() const { return g_; }
  bool is_used(ValueId v) const { return uses_[v.node][v.output] != 0; }
  // The layer whose result v is, if only `reader` needs it and the layer may run at the reader's place; else null.
  const Node* layer_for(const Node& reader, ValueId v) const {
    const Node& n = g_.nodes[v.node];
    bool free = layer_of(n) && n.phase == reader.phase && uses_[v.node][v.output] == 1;
    return free && !reads_updated(g_, n, updated_) && !reads_updated(g_, reader, updated_) ? &n : nullptr;
  }

  // layer_input(i): which input of node i is a layer that takes the node in, if any. take_in(out, node, input, layer)
  // makes the node the last step of that layer (a copy, its inputs those of `out`), which then has the node's place.
  template <class LayerInput, class TakeIn>
  Graph run(LayerInput&& layer_input, TakeIn&& take_in) const {
    const size_t size = g_.nodes.size();
    std::vector<std::optional<size_t>> input(size);
    std::vector<bool> moves(size, false);
    for (uint32_t i = 0; i < size; ++i) {
      if (g_.nodes[i].op) input[i] = layer_input(i);
      if (input[i]) moves[g_.nodes[i].inputs[*input[i]].node] = true;
    }
    Rewriter out(g_);
    for (uint32_t i = 0; i < size; ++i) {
      const Node& n = g_.nodes[i];
      if (input[i]) {
        Node layer = out.copy(n.inputs[*input[i]].node);
        take_in(out, n, *input[i], layer);
        out.replace(i, std::move(layer));
      } else if (!moves[i]) {
        out.keep(i);
      }
    }
    return out.finish();
  }

 private:
  Graph g_;
  std::vector<std::vector<uint32_t>> uses_;
  std::vector<bool> updated_;
};

FusedActivation activation_of(const Node& n) {
  return n.op->as_epilogue ? n.op->as_epilogue(n.attrs.get()) : FusedActivation::none;
}

bool is_sum_of_two(const Graph& g, const Node& n) {
  if (n.op != &op::BroadcastAdd::def && !(n.op == &op::AddN::def && n.inputs.size() == 2)) return false;
  return g.meta(n.inputs[0]) == n.outputs[0] && g.meta(n.inputs[1]) == n.outputs[0];
}

// Whether an array of this shape, broadcast to the layer's result, has one number per channel.
bool is_per_channel(const Node& layer, const Shape& shape) {
  const Shape& result = layer.outputs[0].shape;
  const int missing = result.ndim() - shape.ndim(), channel = channel_axis(layer) - missing;
  if (missing < 0 || channel < 0 || shape[channel] != result[channel_axis(layer)]) return false;
  return shape.size() == shape[channel];
}

}  // namespace

Graph dense_products(Graph g) {
  for (Node& n : g.nodes) {
    if (n.op != &op::Dot::def || g.meta(n.inputs[1]).shape.ndim() != 2) continue;
    const op::Dot& op = attributes<op::Dot>(n);
    const int64_t hidden = g.meta(n.inputs[1]).shape[0];
    if (op.transpose_a || !op.transpose_b || hidden > INT_MAX) continue;
    set_operator(n, op::FullyConnected{.num_hidden = int(hidden), .no_bias = true, .flatten = false});
  }
  return g;
}

Graph fuse_bias(Graph g, bool training) {
  const Fusion fusion(std::move(g), training);
  return fusion.run(
      [&](uint32_t i) -> std::optional<size_t> {
        const Node& n = fusion.graph().nodes[i];
        if (n.op != &op::BroadcastAdd::def) return std::nullopt;
        for (size_t k : {0, 1}) {
          const Node* layer = fusion.layer_for(n, n.inputs[k]);
          if (!layer || !layer_of(*layer)->no_bias || layer_of(*layer)->post_ops != PostOps()) continue;
          if (is_per_channel(*layer, fusion.graph().meta(n.inputs[1 - k]).shape)) return k;
        }
        return std::nullopt;
      },
      [](Rewriter& out, const Node& n, size_t input, Node& layer) {
        layer.inputs.push_back(out.now(n.inputs[1 - input]));  // whatever axes of 1 it has: kernels see its numbers
        set_layer(layer, {.no_bias = false, .post_ops = {}});
      });
}

Graph fold_batch_norm(Graph g, bool training) {
  // in training it updates its statistics, and so has no layer_for
  const Fusion fusion(std::move(g), training);
  return fusion.run(
      [&](uint32_t i) -> std::optional<size_t> {
        const Node& n = fusion.graph().nodes[i];
        if (n.op != &op::BatchNorm::def || fusion.is_used({i, 1}) || fusion.is_used({i, 2})) return std::nullopt;
        const Node* layer = fusion.layer_for(n, n.inputs[0]);
        if (!layer || layer_of(*layer)->post_ops != PostOps()) return std::nullopt;
        const int axis = attributes<op::BatchNorm>(n).axis, ndim = n.outputs[0].shape.ndim();
        if ((axis < 0 ? axis + ndim : axis) != channel_axis(*layer)) return std::nullopt;
        return 0;
      },
      [](Rewriter& out, const Node& n, size_t, Node& layer) {
        const op::BatchNorm& op = attributes<op::BatchNorm>(n);
        const bool no_bias = layer_of(layer)->no_bias;
        Node affine;
        set_operator(affine, op::BatchNormAffine{.eps = op.eps, .fix_gamma = op.fix_gamma, .no_bias = no_bias});
        affine.name = n.name + "_affine";
        affine.phase = n.phase;
        for (size_t k = 1; k < 5; ++k) affine.inputs.push_back(out.now(n.inputs[k]));
        if (!no_bias) affine.inputs.push_back(layer.inputs[2]);
        TensorMeta channels = n.outputs[1];
        if (is_half(channels.dtype)) channels.dtype = DType::float32;
        affine.outputs = {channels, channels};
        const uint32_t both = out.add(std::move(affine)).node;
        layer.inputs.resize(2);
        layer.inputs.push_back({both, 1});  // the bias
        layer.inputs.push_back({both, 0});
        set_layer(layer, {.post_ops = {.scale = true}});
      });
}

Graph fuse_sum(Graph g, bool training) {
  const Fusion fusion(std::move(g), training);
  return fusion.run(
      [&](uint32_t i) -> std::optional<size_t> {
        const Node& n = fusion.graph().nodes[i];
        if (!is_sum_of_two(fusion.graph(), n)) return std::nullopt;
        // the later of two layers: the other's result is there by then
        const size_t later = n.inputs[0].node > n.inputs[1].node ? 0 : 1;
        for (size_t k : {later, 1 - later}) {
          const Node* layer = fusion.layer_for(n, n.inputs[k]);
          if (!layer) continue;
          const PostOps post_ops = layer_of(*layer)->post_ops;
          if (!post_ops.addend && post_ops.activation == FusedActivation::none) return k;
        }
        return std::nullopt;
      },
      [](Rewriter& out, const Node& n, size_t input, Node& layer) {
        layer.inputs.push_back(out.now(n.inputs[1 - input]));
        Layer l = *layer_of(layer);
        l.post_ops.addend = true;
        set_layer(layer, l);
      });
}

Graph fuse_activation(Graph g, bool training) {
  const Fusion fusion(std::move(g), training);
  return fusion.run(
      [&](uint32_t i) -> std::optional<size_t> {
        const Node& n = fusion.graph().nodes[i];
        if (activation_of(n) == FusedActivation::none) return std::nullopt;
        const Node* layer = fusion.layer_for(n, n.inputs[0]);
        if (!layer || layer_of(*layer)->post_ops.activation != FusedActivation::none) return std::nullopt;
        return 0;
      },
      [](Rewriter&, const Node& n, size_t, Node& layer) {
        Layer l = *layer_of(layer);
        l.post_ops.activation = activation_of(n);
        set_layer(layer, l);
      });
}

}  // namespace kaon::graph::passes
