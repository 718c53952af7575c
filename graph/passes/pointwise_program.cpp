// From a group of pointwise nodes to the program that computes it on the CPU.
#include <algorithm>
#include <cstring>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/passes/pointwise_target.h"
#include "kaon/graph/plan_ops/fused_pointwise.h"
#include "kaon/ops/operator/fused_forms.h"
#include "kaon/ops/reduce/kernels/axes.h"

namespace kaon::graph::passes {
namespace {

struct PointwiseProgram {
  op::FusedPointwise op;
  std::vector<ValueId> inputs, outputs;  // in the program's order; output 0 is stored last
};

// A value of the group or one that it reads.
struct Operand {
  ValueId id;
  Shape stride{};            // along the dimensions of the whole, 0 where it repeats; empty: element by element
  bool inside = false;       // computed here
  bool is_output = false;    // and used elsewhere
  uint32_t uses = 0;         // steps that are still to read it
  uint32_t reduced = 0;      // number of reductions of it
  uint32_t last_reader = 0;  // the last member that reads it
  int number = -1;           // its number in memory; -1: in registers only
};

// The dimensions of the whole, as few as the inputs that repeat allow.
void set_dimensions(VectorProgram& p, const Shape& whole, std::span<Operand* const> broadcast) {
  for (int i = 0; i < whole.ndim(); ++i) {
    if (whole[i] == 1) continue;
    const int last = std::max(0, p.num_dims - 1);
    bool merges = p.num_dims > 0;
    for (size_t k = 0; k < broadcast.size(); ++k) {
      merges = merges && p.stride[k][last] == broadcast[k]->stride[i] * whole[i];
    }
    const int at = merges ? last : p.num_dims++;
    p.size[at] = whole[i] * (merges ? p.size[at] : 1);
    for (size_t k = 0; k < broadcast.size(); ++k) p.stride[k][at] = broadcast[k]->stride[i];
  }
}

template <class Op>
std::optional<VectorReduction> reduction_by(const Graph& g, const Node& n, Combine combine, int64_t& row) {
  if (n.op != &Op::def) return {};
  const Op& op = attributes<Op>(n);
  const Shape& in = g.meta(n.inputs[0]).shape;
  const uint32_t mask = reduced_axes(op.axis, op.exclude, in.ndim(), n.op->name().data());
  bool kept = false;  // a dimension after this one
  row = 1;
  for (int i = in.ndim(); i-- > 0;) {
    if (in[i] == 1) continue;
    if (!(mask & bit(i))) {
      kept = true;
    } else if (kept) {
      return {};
    } else {
      row *= in[i];
    }
  }
  if (row < 2) return {};
  return VectorReduction{combine, n.op == &op::Mean::def};
}

// How a node reduces the last dimensions of its input, and how many elements it makes one.
std::optional<VectorReduction> reduction_of(const Graph& g, const Node& n, int64_t& row) {
  if (auto r = reduction_by<op::Sum>(g, n, Combine::sum, row)) return r;
  if (auto r = reduction_by<op::Mean>(g, n, Combine::sum, row)) return r;
  if (auto r = reduction_by<op::Max>(g, n, Combine::max, row)) return r;
  return reduction_by<op::Min>(g, n, Combine::min, row);
}

// Keeps the latest value in registers, and in a slot each value that is used later.
class Builder {
 public:
  Builder(const Graph& graph, std::span<const uint32_t> members, const std::vector<std::vector<uint32_t>>& uses)
      : graph_(graph) {
    int64_t row;
    for (uint32_t m : members) {
      (reduction_of(graph, graph.nodes[m], row) ? reductions_ : members_).push_back(m);
    }
    for (uint32_t m : members_) operands_.push_back({.id = {m, 0}, .inside = true});
    for (uint32_t r : reductions_) ++find(graph.nodes[r].inputs[0])->reduced;
    for (uint32_t m : members_) {
      for (ValueId v : graph.nodes[m].inputs) {
        const Shape stride = strides_of(graph, graph.nodes[m], v);
        if (!find(v, stride)) operands_.push_back({.id = v, .stride = stride});
        Operand& o = *find(v, stride);
        ++o.uses;
        o.last_reader = m;
      }
    }
    for (Operand& o : operands_) {
      dies_here_.push_back(uses[o.id.node][o.id.output] == o.uses + o.reduced);
      o.is_output = o.inside && !dies_here_.back();
    }
  }

  std::optional<PointwiseProgram> build() {
    if (!place_arrays()) return {};
    for (uint32_t m : members_) compute(graph_.nodes[m], *find({m, 0}));
    step(vector_moves().end);
    if (exceeded_) return {};
    program().num_slots = uint8_t(num_slots_);
    // Pieces of about the same time; a tile costs as much as a dozen steps in registers.
    const int64_t cost = program().num_steps + 11 * num_tiles_;
    program().grain = std::max<int64_t>(8, 64 * 24 / std::max<int64_t>(24, cost)) * 1024;
    return std::move(result_);
  }

 private:
  VectorProgram& program() { return result_.op.program; }

  Operand* find(ValueId v, const Shape& stride = {}) {
    auto found = std::find_if(operands_.begin(), operands_.end(),
                              [&](const Operand& o) { return o.id == v && o.stride == stride; });
    return found == operands_.end() ? nullptr : &*found;
  }

  // Numbers inputs and outputs as VectorStep says. Output 0, the last one, may take the memory of an input that dies
  // here and that no member after that output reads: members that only feed a reduction may follow all outputs.
  bool place_arrays() {
    const Shape& whole = graph_.meta({members_[0], 0}).shape;
    std::vector<Operand*> dense, broadcast, uniform, outputs;
    for (Operand& o : operands_) {
      if (o.is_output) outputs.push_back(&o);
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      Operand& o = operands_[i];
      if (o.inside) continue;
      if (o.stride.empty()) {
        const bool is_overwritten =
            dies_here_[i] && graph_.nodes[o.id.node].op && !outputs.empty() && o.last_reader <= outputs.back()->id.node;
        dense.insert(is_overwritten ? dense.begin() : dense.end(), &o);
        result_.op.takes_over = result_.op.takes_over || is_overwritten;
      } else {
        (graph_.meta(o.id).shape.size() == 1 ? uniform : broadcast).push_back(&o);
      }
    }
    using P = VectorProgram;
    if (dense.size() + broadcast.size() + uniform.size() > P::max_inputs || broadcast.size() > P::max_broadcast ||
        outputs.size() > P::max_outputs || reductions_.size() > P::max_reduced) {
      return false;
    }
    if (!outputs.empty()) std::rotate(outputs.begin(), outputs.end() - 1, outputs.end());  // the last one first
    program().num_dense = uint8_t(dense.size());
    program().num_broadcast = uint8_t(broadcast.size());
    program().num_outputs = uint8_t(outputs.size());
    program().num_reduced = uint8_t(reductions_.size());
    program().num_uniform = uint8_t(uniform.size());
    int next = 0;
    for (const auto* inputs : {&dense, &broadcast}) {
      for (Operand* o : *inputs) result_.inputs.push_back(o->id), o->number = next++;
    }
    first_output_ = next;
    next += int(outputs.size());
    for (Operand* o : outputs) result_.outputs.push_back(o->id);
    first_reduced_ = next;
    next += int(reductions_.size());
    for (size_t k = 0; k < reductions_.size(); ++k) {
      int64_t row;
      program().reductions[k] = *reduction_of(graph_, graph_.nodes[reductions_[k]], row);
      if (program().row != 0 && program().row != row) return false;
      program().row = row;
      result_.outputs.push_back({reductions_[k], 0});
      result_.op.reduced[k] = graph_.meta({reductions_[k], 0}).shape;
    }
    for (Operand* o : uniform) result_.inputs.push_back(o->id), o->number = next++;
    first_slot_ = next;
    set_dimensions(program(), whole, broadcast);
    result_.op.shape = whole;
    return true;
  }

  VectorStep* step(StepFn run, std::initializer_list<int> operands = {}, const StepNumbers& numbers = {}) {
    if (program().num_steps == VectorProgram::max_steps) {
      exceeded_ = true;
      return &program().steps[0];
    }
    VectorStep& s = program().steps[program().num_steps++];
    s.run = run;
    std::copy(operands.begin(), operands.end(), s.operand);
    s.numbers = numbers;
    return &s;
  }

  int take_slot() {
    const auto free = std::find(slot_used_, slot_used_ + VectorProgram::max_slots, false);
    if (free == slot_used_ + VectorProgram::max_slots) {
      exceeded_ = true;
      return first_slot_;
    }
    *free = true;
    num_slots_ = std::max(num_slots_, int(free - slot_used_) + 1);
    return first_slot_ + int(free - slot_used_);
  }

  void read(Operand& o) {
    if (--o.uses == 0 && o.number >= first_slot_) {
      slot_used_[o.number - first_slot_] = false;
      o.number = -1;
    }
  }

  void to_memory(Operand& o) {
    if (o.number < 0) step(vector_moves().store, {o.number = take_slot()});
  }

  // The registers are about to change.
  void leave_registers() {
    if (held_ && held_->uses > 0) to_memory(*held_);
  }

  void hold(Operand& o) {
    if (held_ == &o) return;
    leave_registers();
    step(vector_moves().load, {o.number});
    held_ = &o;
  }

  void compute(const Node& n, Operand& result) {
    std::vector<Operand*> in;
    for (ValueId v : n.inputs) in.push_back(find(v, strides_of(graph_, n, v)));
    const FusedForms forms = vector_forms(*n.op, n.attrs.get());
    if (forms.copies || (forms.sums && in.size() == 1)) {
      hold(*in[0]);
      read(*in[0]);
      leave_registers();
    } else if (forms.sums) {
      two(forms, *in[0], *in[1]);
      for (size_t k = 2; k < in.size(); ++k) {
        step(forms.right, {in[k]->number});
        read(*in[k]);
      }
    } else if (forms.one) {
      hold(*in[0]);
      read(*in[0]);
      leave_registers();
      step(forms.one, {}, forms.numbers);
    } else if (forms.right) {
      two(forms, *in[0], *in[1]);
    } else {
      through_memory(forms, n, in, result);
    }
    held_ = &result;
    if (result.is_output) {
      const auto at = std::find(result_.outputs.begin(), result_.outputs.end(), result.id);
      step(vector_moves().store_output, {first_output_ + int(at - result_.outputs.begin())});
    }
    for (size_t k = 0; result.reduced > 0 && k < reductions_.size(); ++k) {
      if (graph_.nodes[reductions_[k]].inputs[0] == result.id) {
        step(vector_moves().store, {first_reduced_ + int(k)});
      }
    }
  }

  void two(const FusedForms& forms, Operand& a, Operand& b) {
    const bool left = held_ == &b && held_ != &a;
    Operand &in_registers = left ? b : a, &in_memory = left ? a : b;
    hold(in_registers);
    read(in_registers);
    leave_registers();
    step(left ? forms.left : forms.right, {in_memory.number}, forms.numbers);
    held_ = nullptr;
    read(in_memory);
  }

  void through_memory(const FusedForms& forms, const Node& n, const std::vector<Operand*>& in, Operand& result) {
    if (held_ && std::find(in.begin(), in.end(), held_) != in.end()) to_memory(*held_);
    leave_registers();
    VectorStep* s = step(forms.three ? forms.three : vector_moves().tile);
    for (size_t k = 0; k < in.size(); ++k) s->operand[k] = uint8_t(in[k]->number);
    for (Operand* o : in) read(*o);
    if (forms.three) return;
    ++num_tiles_;
    s->tile = forms.tile;
    std::memcpy(s->attrs, n.attrs.get(), n.op->attrs_size);
    result.number = take_slot();
    s->result = uint8_t(result.number);
    if (result.uses == 0) slot_used_[result.number - first_slot_] = false;
  }

  const Graph& graph_;
  std::vector<uint32_t> members_, reductions_;
  std::vector<Operand> operands_;
  std::vector<bool> dies_here_;  // by operand
  PointwiseProgram result_{};
  Operand* held_ = nullptr;  // the value in the registers
  int first_output_ = 0, first_reduced_ = 0, first_slot_ = 0, num_slots_ = 0, num_tiles_ = 0;
  bool slot_used_[VectorProgram::max_slots] = {};
  bool exceeded_ = false;
};

// Float32, one output, no state, known to vector_forms().
bool is_block_operator(const Graph& graph, const Node& n) {
  if (!n.op || n.outputs.size() != 1 || n.inputs.empty()) return false;
  const OpTraits& traits = n.op->traits_of(n.attrs.get());
  const FusedForms forms = vector_forms(*n.op, n.attrs.get());
  const bool has_step = forms.one || forms.right || forms.three || forms.copies ||
                        (forms.tile && n.op->attrs_size <= VectorStep::attrs_bytes);
  if (!has_step || !(traits.pointwise || forms.broadcasts)) return false;
  if (traits.random || traits.mutates || traits.mode_dependent) return false;
  const Layout layout = n.layouts.empty() ? Layout::row_major : n.layouts[0];
  const TensorMeta& out = n.outputs[0];
  if (out.dtype != DType::float32 || out.shape.size() == 0) return false;
  const bool repeats = forms.broadcasts && layout == Layout::row_major;
  return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
    const TensorMeta& in = graph.meta(v);
    return in.dtype == DType::float32 && graph.layout(v) == layout && (in.shape == out.shape || repeats);
  });
}

// A sum, mean, max or min of float32 over the last dimensions.
bool is_block_reduction(const Graph& graph, const Node& n) {
  int64_t row;
  return n.op && n.inputs.size() == 1 && n.outputs.size() == 1 && n.outputs[0].dtype == DType::float32 &&
         n.outputs[0].shape.size() > 0 && graph.layout(n.inputs[0]) == Layout::row_major && reduction_of(graph, n, row);
}

constexpr PointwiseTarget vector_programs{
    .computes = is_block_operator,
    .reduces = is_block_reduction,
    .num_outputs = [](const Graph& g, std::span<const uint32_t> members,
                      const std::vector<std::vector<uint32_t>>& uses) -> std::optional<size_t> {
      const auto program = Builder(g, members, uses).build();
      return program ? std::optional(program->outputs.size()) : std::nullopt;
    },
    .fuse =
        [](const Graph& g, std::span<const uint32_t> members, const std::vector<std::vector<uint32_t>>& uses) {
          PointwiseProgram p = *Builder(g, members, uses).build();
          return FusedGroup{&op::FusedPointwise::def, Attributes(op::FusedPointwise::def, &p.op), std::move(p.inputs),
                            std::move(p.outputs)};
        }};

}  // namespace

Graph fuse_pointwise(Graph g) { return fuse_groups(g, vector_programs); }

}  // namespace kaon::graph::passes
