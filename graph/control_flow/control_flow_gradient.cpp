// The backward of control flow: the gradient of one iteration as a graph, run from the last iteration to the first.
#include <algorithm>
#include <array>
#include <cstring>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/control_flow/nested_body.h"
#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/op_def.h"

namespace kaon {
namespace {

using Mask = std::vector<bool>;

// The gradient of a graph for the heads that arrive. Inputs: the graph's, those heads, then, with `adds`, the sums to
// which the gradients of captured values are added. Outputs: the gradients; before them, if numbers are drawn, the
// graph's own, so that all its random nodes stay and draw the same numbers.
struct Joint {
  NestedBody body;
  Mask reached;  // by input of the graph: whether it has a gradient
};

Mask wanted_values(const ControlFlowGradient& r, std::span<const TensorMeta> metas) {
  Mask wanted(r.wanted.begin(), r.wanted.begin() + r.program->num_values());
  for (int j = r.program->num_data; r.program->is_loop() && j < r.program->num_data + r.program->num_states; ++j) {
    wanted[size_t(j)] = is_floating(metas[size_t(j)].dtype);  // for earlier iterations
  }
  return wanted;
}

Joint make_joint(const ControlFlowGradient& r, size_t graph, const Mask& heads, bool adds, const ControlFlowState& s,
                 const KernelContext& c) {
  const Mask wanted = wanted_values(r, s.metas);
  GradientForm form{.heads = heads};
  if (adds) {
    form.sums = wanted;
    std::fill_n(form.sums.begin(), r.program->num_data + r.program->num_states, false);
  }
  Graph g = with_gradient(passes::drop_dropout(r.program->inferred(graph, s.metas), c.training), wanted, form);
  if (!r.program->is_random) g.outputs.erase(g.outputs.begin(), g.outputs.begin() + g.num_forward_outputs);
  g.num_forward_outputs = uint32_t(g.outputs.size());
  for (Node& n : g.nodes) n.phase = Phase::forward;
  return {NestedBody(std::move(g), c.training, c.exact), std::move(form.reached)};
}

struct GradState : ControlFlowState {
  std::vector<Joint> joints;  // of a loop: for the last iteration, the one before it, ... until they are all alike
  std::optional<Joint> branches[2];
  const ControlFlowGradient& r;

  GradState(const ControlFlowGradient& request, const KernelContext& c)
      : ControlFlowState(*request.program, c), r(request) {
    if (!r.program->is_loop()) return;
    wanted = wanted_values(r, metas);
    const size_t data = size_t(r.program->num_data), outputs = size_t(r.program->num_outputs);
    Mask heads = r.heads;
    joints.push_back(make_joint(r, 0, heads, false, *this, c));
    for (;;) {
      Mask next = heads;
      for (size_t j = 0; j < size_t(r.program->num_states); ++j) {
        const bool arrives = joints.back().reached[data + j];
        // a state that has a gradient once keeps one, perhaps zeros: else two states that swap would never converge
        next[outputs + j] = arrives || (joints.size() > 1 && heads[outputs + j]);
      }
      if (joints.size() > 1 && next == heads) break;
      heads = std::move(next);
      joints.push_back(make_joint(r, 0, heads, true, *this, c));
      masks.push_back(heads);
    }
  }
  const Joint& joint(int64_t round) const { return joints[std::min(size_t(round), joints.size() - 1)]; }
  const Mask& heads(int64_t round) const {
    return round == 0 ? r.heads : masks[std::min(size_t(round), joints.size() - 1) - 1];
  }
  std::vector<Mask> masks;  // of joints[1] and on

  // State of a loop's run.
  Mask wanted;                                // by input of the body
  std::vector<std::array<void*, 2>> targets;  // of the gradients, by input of the body
  std::vector<void*> kept;                    // the states before each iteration
  std::vector<void*> scratch;                 // for results of the body that are not needed
};

void run_branch(GradState& s, const KernelContext& c) {
  const ControlFlow& p = *s.r.program;
  const size_t taken = takes_first(c) ? 0 : 1;
  std::optional<Joint>& joint = s.branches[taken];
  if (!joint) {
    joint.emplace(make_joint(s.r, taken, s.r.heads, false, s, c));
    joint->body.begin(s.context);
  }
  for (size_t i = size_t(p.num_inputs()); i < c.inputs.size(); ++i) s.inputs.push_back(c.inputs[i].data);
  s.outputs.clear();
  for (size_t i = 0; p.is_random && i < s.results.size(); ++i) {
    s.outputs.push_back(s.context.keep(bytes_of(s.results[i])));
  }
  for (const TensorView& v : c.outputs) s.outputs.push_back(v.data);
  joint->body.run(s.inputs, s.outputs, {}, key_of(p, c));
}

class LoopBackward {
 public:
  LoopBackward(GradState& s, const KernelContext& c) : s_(s), c_(c), p_(*s.r.program) {}

  void run() {
    s_.scratch.clear();
    for (const TensorMeta& m : s_.results) s_.scratch.push_back(s_.context.keep(bytes_of(m)));
    const int64_t n = replay();
    place_gradients();
    const size_t values = size_t(p_.num_values());
    const RandomKey key = key_of(p_, c_);
    for (int64_t k = n; k-- > 0;) {
      const int64_t round = n - 1 - k;
      const Mask& heads = s_.heads(round);
      s_.inputs.resize(values);
      point_at_row(p_, s_, c_, k);
      std::copy_n(s_.kept.begin() + k * p_.num_states, p_.num_states, s_.inputs.begin() + p_.num_data);
      add_heads(heads, round, k);
      for (size_t i = first_captured(); round > 0 && i < values; ++i) {
        if (s_.wanted[i]) s_.inputs.push_back(place(i, k + 1));
      }
      s_.outputs.clear();
      if (p_.is_random) s_.outputs.insert(s_.outputs.end(), s_.scratch.begin(), s_.scratch.end());
      for (size_t i = 0; i < values; ++i) {
        if (s_.wanted[i]) s_.outputs.push_back(place(i, k));
      }
      s_.joint(round).body.run(s_.inputs, s_.outputs, {}, {key.seed, key.offset + uint64_t(k) * s_.draws});
    }
    if (n == 0) hand_through();
  }

 private:
  size_t first_captured() const { return size_t(p_.num_data + p_.num_states); }

  // Runs the forward again and keeps the states before each iteration.
  int64_t replay() {
    s_.kept.assign(s_.inputs.begin() + p_.num_data, s_.inputs.begin() + p_.num_data + p_.num_states);
    if (p_.num_states == 0 && p_.kind == ControlKind::foreach) return c_.in(0).shape[0];
    auto output_at = [&](int i, int64_t) { return s_.scratch[size_t(i)]; };
    auto state_at = [&](int j, int64_t) {
      s_.kept.push_back(s_.context.keep(bytes_of(s_.metas[size_t(p_.num_data + j)])));
      return s_.kept.back();
    };
    return run_loop(p_, s_, c_, output_at, state_at);
  }

  // Data: a row of the result. Others: two places in turn, the first iteration's is the result.
  void place_gradients() {
    s_.targets.clear();
    size_t next = 0;
    for (size_t i = 0; i < s_.wanted.size(); ++i) {
      const size_t bytes = bytes_of(s_.metas[i]);
      const bool is_result = s_.r.wanted[i];
      void* first = is_result ? c_.outputs[next++].data : s_.wanted[i] ? s_.context.keep(bytes) : nullptr;
      void* second = s_.wanted[i] && i >= size_t(p_.num_data) ? s_.context.keep(bytes) : nullptr;
      s_.targets.push_back({first, second});
    }
  }
  void* place(size_t i, int64_t k) const {
    if (i < size_t(p_.num_data)) return static_cast<char*>(s_.targets[i][0]) + size_t(k) * bytes_of(s_.metas[i]);
    return s_.targets[i][k & 1];
  }

  // Gradients of the results of iteration k: of outputs a row of the node's heads; of states the gradients that the
  // next iteration has computed, or the node's heads for the last iteration.
  void add_heads(const Mask& heads, int64_t round, int64_t k) {
    size_t given = size_t(p_.num_inputs());
    for (size_t i = 0; i < heads.size(); ++i) {
      const TensorView* view = s_.r.heads[i] ? &c_.inputs[given++] : nullptr;
      if (!heads[i]) continue;
      if (i < size_t(p_.num_outputs)) {
        const size_t row = size_t(view->shape.product(1, view->shape.ndim())) * size_of(view->dtype);
        s_.inputs.push_back(view->as<char>() + size_t(k) * row);
      } else if (round == 0) {
        s_.inputs.push_back(view->data);
      } else {
        s_.inputs.push_back(place(size_t(p_.num_data) + i - size_t(p_.num_outputs), k + 1));
      }
    }
  }

  // Without iterations the states are the first ones, and nothing else was read.
  void hand_through() {
    size_t given = size_t(p_.num_inputs());
    std::vector<const TensorView*> heads(s_.r.heads.size());
    for (size_t i = 0; i < heads.size(); ++i) {
      if (s_.r.heads[i]) heads[i] = &c_.inputs[given++];
    }
    for (size_t i = size_t(p_.num_data); i < s_.wanted.size(); ++i) {
      if (!s_.r.wanted[i]) continue;
      const size_t bytes = bytes_of(s_.metas[i]);
      const TensorView* head = i < first_captured() ? heads[size_t(p_.num_outputs) + i - size_t(p_.num_data)] : nullptr;
      if (bytes == 0) continue;
      head ? void(std::memcpy(s_.targets[i][0], head->data, bytes)) : void(std::memset(s_.targets[i][0], 0, bytes));
    }
  }

  GradState& s_;
  const KernelContext& c_;
  const ControlFlow& p_;
};

}  // namespace

int ControlFlowGrad::num_inputs() const {
  return request->program->num_inputs() + int(std::count(request->heads.begin(), request->heads.end(), true));
}
int ControlFlowGrad::num_outputs() const {
  return int(std::count(request->wanted.begin(), request->wanted.end(), true));
}

void ControlFlowGrad::infer(InferContext& c) const {
  int next = 0;
  for (size_t i = 0; i < request->wanted.size(); ++i) {
    if (request->wanted[i]) c.set_output(next++, c.shape(int(i)), c.dtype(int(i)));
  }
}

void run_cpu(const ControlFlowGrad& op, KernelContext& c) {
  std::unique_ptr<KernelState> local;
  auto& s = state_of<GradState>(c, local, *op.request);
  s.inputs.resize(size_t(op.request->program->num_values()));
  s.begin(*op.request->program, c);
  for (Joint& j : s.joints) j.body.begin(s.context);
  for (auto& j : s.branches) {
    if (j) j->body.begin(s.context);
  }
  if (op.request->program->is_loop()) {
    LoopBackward(s, c).run();
  } else {
    run_branch(s, c);
  }
}

}  // namespace kaon
