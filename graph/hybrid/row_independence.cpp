#include "kaon/graph/hybrid/row_independence.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon {
namespace {

// The kind of a value's first dimension.
enum class First : uint8_t { other, rows, hidden };

// A node at least one of whose inputs has rows.
struct Call {
  const Graph& graph;
  const Node& node;
  const std::vector<std::vector<First>>& first;

  int num_inputs() const { return int(node.inputs.size()); }
  const Shape& shape(int i = 0) const { return graph.meta(node.inputs[size_t(i)]).shape; }
  int ndim(int i = 0) const { return shape(i).ndim(); }
  bool rows(int i) const {
    const ValueId v = node.inputs[size_t(i)];
    return first[v.node][v.output] == First::rows;
  }
  bool all_rows() const { return count_rows() == num_inputs(); }
  bool only_first_rows() const { return rows(0) && count_rows() == 1; }
  int count_rows() const {
    int n = 0;
    for (int i = 0; i < num_inputs(); ++i) n += int(rows(i));
    return n;
  }
  bool is_first(int64_t axis, int dims) const { return normalize_axis(axis, dims, node.op->name().data()) == 0; }
  bool names_first(const Shape& axes, int dims) const {
    return std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return is_first(a, dims); });
  }
  // Broadcasting from the right: rows are aligned with rows, or with a single row.
  bool aligned() const {
    const int dims = node.outputs[0].shape.ndim();
    for (int i = 0; i < num_inputs(); ++i) {
      if (rows(i) ? ndim(i) != dims : ndim(i) == dims && shape(i)[0] != 1) return false;
    }
    return true;
  }
};

// Whether row i of the first output follows from row i of the inputs that have rows, and from the whole of the others.
// The output's number of rows is checked by its shape.
using Rule = bool (*)(const Call&);

template <class Op>
const Op& attributes(const Call& c) {
  return passes::attributes<Op>(c.node);
}

// Rules of one form. An operator along one axis, a reduction, a region of a slice, a layer with parameters.
template <class Op>
bool along_axis(const Call& c) {
  return c.all_rows() && !c.is_first(attributes<Op>(c).axis, c.ndim());
}
template <class Op>
bool along_optional_axis(const Call& c) {
  const auto& axis = attributes<Op>(c).axis;
  return axis && !c.is_first(*axis, c.ndim());
}
template <class Op>
bool along_axes(const Call& c) {
  const Shape& axes = attributes<Op>(c).axis;
  return !axes.empty() && !c.names_first(axes, c.ndim());
}
template <class Op>
bool reduces(const Call& c) {
  const Op& op = attributes<Op>(c);
  return (reduced_axes(op.axis, op.exclude, c.ndim(), c.node.op->name().data()) & 1) == 0;
}
template <class Op>
bool whole_first_axis(const Call& c) {
  const Op& op = attributes<Op>(c);
  return c.all_rows() && !op.begin.empty() && op.begin[0].value_or(0) == 0 && (op.end.empty() || !op.end[0]) &&
         (op.step.empty() || op.step[0].value_or(1) == 1);
}
bool layer(const Call& c) { return c.only_first_rows() && c.ndim() >= 2; }
bool all_rows_of_many(const Call& c) { return c.all_rows() && c.ndim() >= 2; }
bool all_rows(const Call& c) { return c.all_rows(); }
bool first_has_rows(const Call& c) { return c.rows(0); }

using Rules = std::unordered_map<const OpDef*, Rule>;
Rules make_rules() {
  return {
      {&Sum::def, reduces<Sum>},
      {&Mean::def, reduces<Mean>},
      {&Prod::def, reduces<Prod>},
      {&Max::def, reduces<Max>},
      {&Min::def, reduces<Min>},
      {&NanSum::def, reduces<NanSum>},
      {&NanProd::def, reduces<NanProd>},
      {&Norm::def, along_axes<Norm>},
      {&ArgMax::def, along_optional_axis<ArgMax>},
      {&ArgMin::def, along_optional_axis<ArgMin>},
      {&ArgMaxChannel::def, all_rows_of_many},
      {&Softmax::def, along_axis<Softmax>},
      {&Softmin::def, along_axis<Softmin>},
      {&LogSoftmax::def, along_axis<LogSoftmax>},
      {&SoftmaxActivation::def, all_rows_of_many},
      {&SoftmaxOutput::def, all_rows_of_many},
      {&LinearRegressionOutput::def, all_rows},
      {&MAERegressionOutput::def, all_rows},
      {&LogisticRegressionOutput::def, all_rows},
      {&MakeLoss::def, all_rows},
      {&Dropout::def, all_rows},
      {&LeakyReLU::def, [](const Call& c) { return c.only_first_rows() && (c.num_inputs() == 1 || c.ndim() >= 2); }},
      {&FullyConnected::def, layer},
      {&Convolution::def, layer},
      {&Deconvolution::def, layer},
      {&Pooling::def, layer},
      {&BatchNorm::def, [](const Call& c) { return layer(c) && !c.is_first(attributes<BatchNorm>(c).axis, c.ndim()); }},
      {&LayerNorm::def, [](const Call& c) { return layer(c) && !c.is_first(attributes<LayerNorm>(c).axis, c.ndim()); }},
      {&Embedding::def, [](const Call& c) { return c.only_first_rows(); }},
      {&Take::def,
       [](const Call& c) {
         return c.count_rows() == 1 && c.rows(1) == c.is_first(attributes<Take>(c).axis, c.ndim());
       }},
      {&Pick::def, along_axis<Pick>},
      {&BatchTake::def, all_rows},
      {&OneHot::def, all_rows},
      {&Concat::def, [](const Call& c) { return c.all_rows() && !c.is_first(attributes<Concat>(c).dim, c.ndim()); }},
      {&Stack::def, [](const Call& c) { return c.all_rows() && !c.is_first(attributes<Stack>(c).axis, c.ndim() + 1); }},
      {&SliceChannel::def, along_axis<SliceChannel>},
      {&Repeat::def, along_optional_axis<Repeat>},
      {&Tile::def,
       [](const Call& c) {
         const Shape& reps = attributes<Tile>(c).reps;
         return reps.ndim() < c.ndim() || (reps.ndim() == c.ndim() && reps[0] == 1);
       }},
      {&Reverse::def, along_axes<Reverse>},
      {&Pad::def,
       [](const Call& c) {
         const Shape& width = attributes<Pad>(c).pad_width;
         return width[0] == 0 && width[1] == 0;
       }},
      {&BroadcastAxis::def, along_axes<BroadcastAxis>},
      {&BroadcastTo::def,
       [](const Call& c) {
         const Shape& shape = attributes<BroadcastTo>(c).shape;
         return shape.ndim() == c.ndim() && shape[0] == 0;
       }},
      {&BroadcastLike::def,
       [](const Call& c) { return c.all_rows() && c.ndim() == c.ndim(1) && !attributes<BroadcastLike>(c).lhs_axes; }},
      {&Transpose::def,
       [](const Call& c) {
         const Shape& axes = attributes<Transpose>(c).axes;
         return !axes.empty() && c.is_first(axes[0], c.ndim());
       }},
      {&SwapAxis::def,
       [](const Call& c) {
         const auto& op = attributes<SwapAxis>(c);
         return !c.is_first(op.dim1, c.ndim()) && !c.is_first(op.dim2, c.ndim());
       }},
      {&Slice::def, whole_first_axis<Slice>},
      {&SliceAxis::def, along_axis<SliceAxis>},
      {&SliceLike::def,
       [](const Call& c) {
         const Shape& axes = attributes<SliceLike>(c).axes;
         return c.rows(0) && !axes.empty() && !c.names_first(axes, c.ndim());
       }},
      {&SliceAssign::def, whole_first_axis<SliceAssign>},
      {&SliceAssignScalar::def, whole_first_axis<SliceAssignScalar>},
      // The same bytes: with the same number of rows each row keeps its own.
      {&Reshape::def, first_has_rows},
      {&ReshapeLike::def, first_has_rows},
      {&Flatten::def, first_has_rows},
      {&ExpandDims::def, first_has_rows},
      {&Squeeze::def, first_has_rows},
      {&ReshapeTo::def, first_has_rows},
      {&Dot::def,
       [](const Call& c) { return c.only_first_rows() && c.ndim() >= 2 && !attributes<Dot>(c).transpose_a; }},
      {&BatchDot::def, all_rows},
      {&SequenceMask::def,
       [](const Call& c) {
         const auto& op = attributes<SequenceMask>(c);
         return c.all_rows() && (!op.use_sequence_length || op.axis == 1);
       }},
      // a condition of one dimension chooses rows
      {&Where::def, [](const Call& c) { return c.all_rows() || (c.ndim() == c.ndim(1) && c.aligned()); }},
  };
}

const Rules& rules() {
  static constinit MadeOnce<const Rules> made;
  return made.get([] { return new Rules(make_rules()); });
}

bool keeps_rows(const Call& c) {
  const OpTraits& traits = c.node.op->traits_of(c.node.attrs.get());
  if (draws_numbers(*c.node.op, c.node.attrs.get(), false) || passes::updates_inputs(c.node, false)) return false;
  const auto rule = rules().find(c.node.op);
  return rule != rules().end() ? rule->second(c) : traits.pointwise && c.aligned();
}

Graph with_rows(const Symbol& program, const std::vector<std::string>& names, std::vector<TensorMeta> metas,
                size_t num_data, int64_t rows) {
  Graph g = Graph::from_symbol(program, names);
  for (size_t i = 0; i < num_data; ++i) metas[i].shape[0] = rows;
  infer_graph(g, metas);
  return g;
}

}  // namespace

std::vector<bool> prove_rows_independent(const Symbol& program, const std::vector<std::string>& input_names,
                                         const std::vector<TensorMeta>& inputs, size_t num_data, int64_t rows,
                                         const std::string& who) {
  auto mixes = [&](const Node& n, const std::string& why) {
    throw ShapeError(
        fmt::format("[{}] policy bucket needs rows that do not depend on each other, but node {} ({}) {}; use "
                    "PlanPolicy::retrace",
                    who, n.name, n.op ? n.op->name() : "input", why));
  };
  const Graph g = with_rows(program, input_names, inputs, num_data, rows);
  Graph more;
  try {
    more = with_rows(program, input_names, inputs, num_data, rows + 1);
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(" with one row more, which policy bucket tries"));
  }
  std::vector<std::vector<First>> first;
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    first.emplace_back(n.outputs.size(), First::other);
    if (n.is_input() && i < num_data) first[i][0] = First::rows;  // inputs have the first numbers
    auto is = [&](First f) {
      return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return first[v.node][v.output] == f; });
    };
    if (is(First::hidden)) mixes(n, "uses a statistic, of which nothing is known");
    if (!is(First::rows)) continue;
    if (!keeps_rows({g, n, first})) mixes(n, "mixes them, or is not known to keep them apart");
    const int visible = n.op->visible_outputs(n.attrs.get());
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      first[i][k] = int(k) < visible ? First::rows : First::hidden;
      Shape a = n.outputs[k].shape, b = more.nodes[i].outputs[k].shape;
      if (first[i][k] == First::hidden) continue;
      const bool has_rows = a.ndim() > 0 && a.ndim() == b.ndim() && a[0] == rows && b[0] == rows + 1;
      if (has_rows) b[0] = rows;
      if (!has_rows || !(a == b)) {
        mixes(n, fmt::format("makes {} of {} rows and {} of {}", n.outputs[k].shape.str(), rows,
                             more.nodes[i].outputs[k].shape.str(), rows + 1));
      }
    }
  }
  std::vector<bool> result;
  for (ValueId v : g.outputs) {
    if (first[v.node][v.output] == First::hidden) mixes(g.nodes[v.node], "returns a statistic");
    result.push_back(first[v.node][v.output] == First::rows);
  }
  return result;
}

}  // namespace kaon
