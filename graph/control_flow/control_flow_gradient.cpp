// The backward of control flow: the gradient of one iteration as a graph, run from the last iteration to the first.
#include <algorithm>
#include <array>
#include <cstring>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/control_flow/kept_values.h"
#include "kaon/graph/control_flow/nested_body.h"
#include "kaon/graph/control_flow/rounds.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/op_def.h"

namespace kaon::graph {

namespace {

// The gradient of a graph for the heads that arrive, in the form of with_gradient(). Before its outputs, if numbers are
// drawn again, come the graph's own, so that all its random nodes stay and draw the same numbers. After its inputs come
// the kept values.
struct Joint {
  NestedBody body;
  Arrivals arrives;  // by input of the graph
};

std::vector<bool> wanted_values(const ControlFlowGradient& r, std::span<const TensorMeta> metas) {
  std::vector<bool> wanted;
  for (Arrives a : r.gradients) wanted.push_back(a != Arrives::never);
  return wanted_values(*r.program, std::move(wanted), metas);
}

Joint make_joint(const ControlFlowGradient& r, size_t graph, const Arrivals& heads, bool adds,
                 const ControlFlowState& s, const KernelContext& c) {
  const std::vector<bool> wanted = wanted_values(r, s.metas);
  GradientForm form{
      .heads = heads, .sums = sums_of(*r.program, wanted, adds), .own = own_values(*r.program, r.own), .reports = true};
  if (!r.kept) form.keeps = c.training;  // loops inside return more than the values that this one has kept
  Graph g = with_gradient(passes::drop_dropout(r.program->inferred(graph, s.metas), c.training), wanted, form);
  if (r.kept) g = read_kept(g, *r.kept);
  if (!r.draws_again()) g.outputs.erase(g.outputs.begin(), g.outputs.begin() + g.num_forward_outputs);
  g.num_forward_outputs = uint32_t(g.outputs.size());
  for (Node& n : g.nodes) n.phase = Phase::forward;
  return {NestedBody(std::move(g), c.training, c.exact), std::move(form.arrives)};
}

struct GradState : ControlFlowState {
  Sequence<Arrivals> rounds;  // of a loop: the heads
  std::vector<Joint> joints;  // by round
  std::optional<Joint> branches[2];
  const ControlFlowGradient& r;
  std::vector<bool> wanted;         // by input of the body
  std::vector<size_t> kept_states;  // by state: which of r.kept has it after each iteration; its size: none

  // Of one run.
  std::vector<std::array<void*, 2>> targets;      // of the gradients, by input of the body
  std::vector<std::array<uint8_t, 2>> presences;  // whether they have arrived; used in turn like the targets of states
  std::vector<uint8_t> arrived;                   // the same, in any iteration
  std::vector<const TensorView*> given, given_presences;  // the node's heads by result; see read_heads()
  std::vector<void*> kept;                                // the states before each iteration, computed again
  std::vector<void*> scratch;                             // for results of the body that are not needed

  GradState(const ControlFlowGradient& request, const KernelContext& c)
      : ControlFlowState(*request.program, c), r(request), wanted(wanted_values(request, metas)) {
    if (!r.program->is_loop()) return;
    if (r.kept) find_kept_states();
    rounds = find_rounds(*r.program, r.heads, most_iterations(*r.program, c.in(0).shape), [&](const Arrivals& heads) {
      joints.push_back(make_joint(r, 0, heads, !joints.empty(), *this, c));
      return joints.back().arrives;
    });
  }
  const Joint& joint(int64_t round) const { return joints[rounds.index(round)]; }
  const Arrivals& heads(int64_t round) const { return rounds.values[rounds.index(round)]; }

  void find_kept_states() {
    const std::vector<ValueId>& outputs = r.program->graphs[0].outputs;
    for (int j = 0; j < r.program->num_states; ++j) {
      const ValueId after = outputs[size_t(r.program->num_outputs + j)];
      const auto found =
          std::find_if(r.kept->begin(), r.kept->end(), [&](int k) { return outputs[size_t(k)] == after; });
      kept_states.push_back(size_t(found - r.kept->begin()));
    }
  }

  // Runs a joint on `inputs`. What it computes again has the bits of the forward: kernels pack the same constants.
  void run(const Joint& joint, const RandomKey& key) {
    if (!sources.empty()) sources.resize(inputs.size());
    joint.body.run(inputs, outputs, sources, key);
  }

  // Appends the places of what `joint` reports, which presences[i][turn] tells afterwards, to the outputs of a run.
  void add_reports(const Joint& joint, size_t turn) {
    for (size_t i = 0; i < joint.arrives.size(); ++i) {
      presences[i][turn] = joint.arrives[i] == Arrives::always;
      if (joint.arrives[i] == Arrives::sometimes) outputs.push_back(&presences[i][turn]);
    }
  }
};

// Where the operator puts whether gradient i has arrived, for each that does so sometimes.
template <class Fn>
void for_each_report(const ControlFlowGradient& r, const KernelContext& c, Fn&& fn) {
  const auto& gradients = r.gradients;
  size_t next = gradients.size() - size_t(std::count(gradients.begin(), gradients.end(), Arrives::never));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == Arrives::sometimes) *c.outputs[next++].as<uint8_t>() = fn(i);
  }
}

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
  for (size_t i = 0; s.r.draws_again() && i < s.results.size(); ++i) {
    s.outputs.push_back(s.context.keep(bytes_of(s.results[i])));
  }
  const auto num_gradients = std::count(s.wanted.begin(), s.wanted.end(), true);
  for (const TensorView& v : c.outputs.first(size_t(num_gradients))) s.outputs.push_back(v.data);
  s.presences.assign(s.wanted.size(), {});
  s.add_reports(*joint, 0);
  s.run(*joint, key_of(p, c));
  for_each_report(s.r, c, [&](size_t i) { return s.presences[i][0]; });
}

class LoopBackward {
 public:
  LoopBackward(GradState& s, const KernelContext& c) : s_(s), c_(c), p_(*s.r.program) {}

  void run() {
    s_.scratch.clear();
    for (const TensorMeta& m : s_.results) s_.scratch.push_back(s_.context.keep(bytes_of(m)));
    const int64_t n = s_.r.kept ? c_.in(0).shape[0] : replay();
    place_gradients();
    read_heads();
    const size_t values = size_t(p_.num_values());
    s_.presences.assign(values, {});
    s_.arrived.assign(values, 0);
    const RandomKey key = key_of(p_, c_);
    for (int64_t k = n; k-- > 0;) {
      const int64_t round = n - 1 - k;
      const Joint& joint = s_.joint(round);
      s_.inputs.resize(values);
      point_at_row(p_, s_, c_, k);
      for (int j = 0; j < p_.num_states; ++j) s_.inputs[size_t(p_.num_data + j)] = state_before(j, k);
      add_heads(round, k);
      for (size_t i = first_captured(); round > 0 && i < values; ++i) {
        if (s_.wanted[i]) s_.inputs.push_back(place(i, k + 1));
      }
      for (size_t i = 0; s_.r.kept && i < s_.r.kept->size(); ++i) s_.inputs.push_back(kept_row(i, k));
      s_.outputs.clear();
      if (s_.r.draws_again()) s_.outputs.insert(s_.outputs.end(), s_.scratch.begin(), s_.scratch.end());
      for (size_t i = 0; i < values; ++i) {
        if (s_.wanted[i]) s_.outputs.push_back(place(i, k));
      }
      s_.add_reports(joint, size_t(k & 1));
      s_.run(joint, {key.seed, key.offset + uint64_t(k) * s_.draws});
      for (size_t i = 0; i < values; ++i) s_.arrived[i] |= s_.presences[i][size_t(k & 1)];
    }
    if (n == 0) hand_through();
    for_each_report(s_.r, c_, [&](size_t i) -> uint8_t {
      if (!is_state(i)) return s_.arrived[i];
      return n > 0 ? s_.presences[i][0] : head_arrives(result_of(i));
    });
  }

 private:
  size_t first_captured() const { return size_t(p_.num_data + p_.num_states); }
  bool is_state(size_t i) const { return i >= size_t(p_.num_data) && i < first_captured(); }
  // The result in which state i ends.
  size_t result_of(size_t i) const { return size_t(p_.num_outputs) + i - size_t(p_.num_data); }

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

  // The rows of the kept results are the node's last inputs.
  void* kept_row(size_t i, int64_t k) const {
    const TensorView& all = c_.inputs[c_.inputs.size() - s_.r.kept->size() + i];
    return all.as<char>() + size_t(k * all.shape.product(1, all.shape.ndim())) * size_of(all.dtype);
  }
  // A state that no gradient reads is not kept: any place will do.
  void* state_before(int j, int64_t k) const {
    if (!s_.r.kept) return s_.kept[size_t(k * p_.num_states + j)];
    const size_t i = s_.kept_states[size_t(j)];
    return k == 0 || i == s_.r.kept->size() ? c_.inputs[size_t(p_.num_data + j)].data : kept_row(i, k - 1);
  }

  // Data: a row of the result. Others: two places in turn, the first iteration's is the result.
  void place_gradients() {
    s_.targets.clear();
    size_t next = 0;
    for (size_t i = 0; i < s_.wanted.size(); ++i) {
      const size_t bytes = bytes_of(s_.metas[i]);
      const bool is_result = s_.r.gradients[i] != Arrives::never;
      void* first = is_result ? c_.outputs[next++].data : s_.wanted[i] ? s_.context.keep(bytes) : nullptr;
      void* second = s_.wanted[i] && i >= size_t(p_.num_data) ? s_.context.keep(bytes) : nullptr;
      s_.targets.push_back({first, second});
    }
  }
  void* place(size_t i, int64_t k) const {
    if (i < size_t(p_.num_data)) return static_cast<char*>(s_.targets[i][0]) + size_t(k) * bytes_of(s_.metas[i]);
    return s_.targets[i][k & 1];
  }

  // The node's heads and their presences, by result; null where none arrives, or one does in every run.
  void read_heads() {
    const Arrivals& heads = s_.r.heads;
    s_.given.assign(heads.size(), nullptr);
    s_.given_presences.assign(heads.size(), nullptr);
    size_t given = size_t(p_.num_inputs());
    for (size_t i = 0; i < heads.size(); ++i) {
      if (heads[i] != Arrives::never) s_.given[i] = &c_.inputs[given++];
    }
    for (size_t i = 0; i < heads.size(); ++i) {
      if (heads[i] == Arrives::sometimes) s_.given_presences[i] = &c_.inputs[given++];
    }
  }
  bool head_arrives(size_t i) const {
    const TensorView* presence = s_.given_presences[i];
    return presence ? *presence->as<uint8_t>() != 0 : s_.given[i] != nullptr;
  }

  // Gradients of the results of iteration k, and their presences: of outputs a row of the node's heads; of states the
  // gradients that the next iteration has computed, or the node's heads for the last iteration.
  void add_heads(int64_t round, int64_t k) {
    const Arrivals& heads = s_.heads(round);
    auto is_computed = [&](size_t i) { return round > 0 && i >= size_t(p_.num_outputs); };
    auto state_of = [&](size_t i) { return size_t(p_.num_data) + i - size_t(p_.num_outputs); };
    for (size_t i = 0; i < heads.size(); ++i) {
      if (heads[i] == Arrives::never) continue;
      if (is_computed(i)) {
        s_.inputs.push_back(place(state_of(i), k + 1));
        continue;
      }
      const TensorView& view = *s_.given[i];
      const bool has_rows = i < size_t(p_.num_outputs);
      const size_t row = has_rows ? size_t(view.shape.product(1, view.shape.ndim())) * size_of(view.dtype) : 0;
      s_.inputs.push_back(view.as<char>() + size_t(k) * row);
    }
    for (size_t i = 0; i < heads.size(); ++i) {
      if (heads[i] != Arrives::sometimes) continue;
      s_.inputs.push_back(is_computed(i) ? &s_.presences[state_of(i)][size_t((k + 1) & 1)]
                                         : s_.given_presences[i]->data);
    }
  }

  // Without iterations the states are the first ones, and nothing else was read.
  void hand_through() {
    for (size_t i = size_t(p_.num_data); i < s_.wanted.size(); ++i) {
      const size_t bytes = bytes_of(s_.metas[i]);
      if (s_.r.gradients[i] == Arrives::never || bytes == 0) continue;
      const TensorView* head = is_state(i) ? s_.given[result_of(i)] : nullptr;
      head ? void(std::memcpy(s_.targets[i][0], head->data, bytes)) : void(std::memset(s_.targets[i][0], 0, bytes));
    }
  }

  GradState& s_;
  const KernelContext& c_;
  const ControlFlow& p_;
};

}  // namespace

}  // namespace kaon::graph

namespace kaon {

using namespace graph;

int op::ControlFlowGrad::num_inputs() const {
  const auto& heads = request->heads;
  const auto arriving = heads.size() - size_t(std::count(heads.begin(), heads.end(), Arrives::never));
  return request->program->num_inputs() + int(arriving) +
         int(std::count(heads.begin(), heads.end(), Arrives::sometimes)) +
         (request->kept ? int(request->kept->size()) : 0);
}
int op::ControlFlowGrad::num_gradients() const {
  const auto& gradients = request->gradients;
  return int(gradients.size()) - int(std::count(gradients.begin(), gradients.end(), Arrives::never));
}
int op::ControlFlowGrad::num_outputs() const {
  const auto& gradients = request->gradients;
  return num_gradients() + int(std::count(gradients.begin(), gradients.end(), Arrives::sometimes));
}

void op::ControlFlowGrad::infer(InferContext& c) const {
  int next = 0;
  for (size_t i = 0; i < request->gradients.size(); ++i) {
    if (request->gradients[i] != Arrives::never) c.set_output(next++, c.shape(int(i)), c.dtype(int(i)));
  }
  while (next < num_outputs()) c.set_output(next++, Shape(1), DType::uint8);
}

void run_cpu(const op::ControlFlowGrad& op, KernelContext& c) {
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
