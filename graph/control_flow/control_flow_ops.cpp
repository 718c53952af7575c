#include "kaon/graph/control_flow/control_flow_ops.h"

#include <cstring>

#include "kaon/graph/control_flow/kept_values.h"
#include "kaon/graph/control_flow/nested_body.h"
#include "kaon/graph/ir/graph_tracer.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random_state.h"

namespace kaon {

using namespace graph;

namespace {

template <class Op, auto Member>
consteval OpDef make_def() {
  OpDef def = make_op_def<Op>();
  def.equal = [](const void* a, const void* b) {
    return static_cast<const Op*>(a)->*Member == static_cast<const Op*>(b)->*Member;
  };
  return def;
}

using ForeachOp = op::ControlFlowOp<ControlKind::foreach>;
using WhileOp = op::ControlFlowOp<ControlKind::while_loop>;
using CondOp = op::ControlFlowOp<ControlKind::cond>;

}  // namespace

template <>
constinit const OpDef ForeachOp::def = make_def<ForeachOp, &ForeachOp::program>();
template <>
constinit const OpDef WhileOp::def = make_def<WhileOp, &WhileOp::program>();
template <>
constinit const OpDef CondOp::def = make_def<CondOp, &CondOp::program>();
constinit const OpDef op::ControlFlowGrad::def = make_def<op::ControlFlowGrad, &op::ControlFlowGrad::request>();
constinit const OpDef op::ControlFlowKey::def = make_def<op::ControlFlowKey, &op::ControlFlowKey::training_only>();

}  // namespace kaon

namespace kaon::graph {

bool is_control_flow(const OpDef& op) { return &op == &ForeachOp::def || &op == &WhileOp::def || &op == &CondOp::def; }

const OpDef* find_control_flow(std::string_view name) {
  for (const OpDef* op : {&ForeachOp::def, &WhileOp::def, &CondOp::def}) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

ControlKind control_kind(const OpDef& op) {
  return &op == &ForeachOp::def ? ControlKind::foreach
         : &op == &WhileOp::def ? ControlKind::while_loop
                                : ControlKind::cond;
}

const ControlFlow& program_of(const OpDef& op, const void* attrs) {
  switch (control_kind(op)) {
    case ControlKind::foreach: return *static_cast<const ForeachOp*>(attrs)->program;
    case ControlKind::while_loop: return *static_cast<const WhileOp*>(attrs)->program;
    default: return *static_cast<const CondOp*>(attrs)->program;
  }
}

Draws find_draws(std::span<const Graph> graphs) {
  Draws draws;
  for (const Graph& g : graphs) {
    for (const Node& n : g.nodes) {
      if (!n.op) continue;
      const OpTraits& traits = n.op->traits_of(n.attrs.get());
      draws.any |= traits.random;
      draws.always |= traits.random && !traits.mode_dependent;
    }
  }
  return draws;
}

}  // namespace kaon::graph

namespace kaon {

template <ControlKind K>
void op::ControlFlowOp<K>::infer(InferContext& c) const {
  std::vector<TensorMeta> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back({c.shape(i), c.dtype(i)});
  const std::vector<TensorMeta> results = program->infer(inputs);
  for (size_t i = 0; i < results.size(); ++i) c.set_output(int(i), results[i].shape, results[i].dtype);
}

namespace {

// Where the program may still be changed, the loop returns what its gradient reads: `request` becomes one of that loop.
std::vector<NDArray> keep_values(ControlFlowGradient& request, GradContext& g, std::span<const TensorMeta> metas) {
  auto* tracer = dynamic_cast<GraphTracer*>(Interceptor::current());
  if (!tracer || !tracer->keeps) return {};
  std::vector<bool> wanted;
  for (Arrives a : request.gradients) wanted.push_back(a != Arrives::never);
  const auto loop = graph::keep_values(*request.program, request.heads, wanted, request.own, metas, *tracer->keeps);
  if (!loop) return {};
  const std::vector<TensorMeta> results = loop->program->infer(metas);
  const ForeachOp op{loop->program};
  const size_t before = request.heads.size();
  const std::vector<NDArray> more = tracer->add_outputs(tracer->value(g.output(0)), Attributes(ForeachOp::def, &op),
                                                        std::span(results).subspan(before));
  request.program = loop->program;
  request.heads.resize(results.size(), Arrives::never);
  request.kept = loop->results;
  std::vector<NDArray> kept;
  for (int r : loop->results) kept.push_back(size_t(r) < before ? g.output(r) : more[size_t(r) - before]);
  return kept;
}

}  // namespace

template <ControlKind K>
void op::ControlFlowOp<K>::grad(GradContext& g) const {
  std::vector<const NDArray*> inputs;
  std::vector<TensorMeta> metas;
  std::vector<bool> wanted;
  for (int i = 0; i < g.num_inputs(); ++i) {
    inputs.push_back(&g.input(i));
    metas.push_back({g.input_like(i).shape(), g.input_like(i).dtype()});
    wanted.push_back(g.wants(i) && is_floating(metas.back().dtype));
  }
  ControlFlowGradient request{.program = program, .gradients = {}, .heads = {}, .own = {}};
  if (const auto* tracer = dynamic_cast<GraphTracer*>(Interceptor::current())) request.own = tracer->own_inputs;
  std::vector<NDArray> presences;
  for (int i = 0; i < num_outputs(); ++i) {
    const bool arrives = g.has_head(i) && is_floating(g.output(i).dtype());
    const NDArray presence = arrives ? g.presence(i) : NDArray();
    request.heads.push_back(!arrives ? Arrives::never : presence.defined() ? Arrives::sometimes : Arrives::always);
    if (arrives) inputs.push_back(&g.head(i));
    if (presence.defined()) presences.push_back(presence);
  }
  for (const NDArray& p : presences) inputs.push_back(&p);
  request.gradients = find_arrivals(*program, request.heads, wanted, request.own, metas);
  const std::vector<NDArray> kept = keep_values(request, g, metas);
  for (const NDArray& k : kept) inputs.push_back(&k);
  const op::ControlFlowGrad op{intern_gradient(std::move(request))};
  if (op.num_outputs() == 0) return;
  std::vector<NDArray> results(static_cast<size_t>(op.num_outputs()));
  NDArray::apply(op::ControlFlowGrad::def, &op, inputs, results, std::source_location::current(), "");
  const std::vector<Arrives>& gradients = op.request->gradients;
  auto presence = results.begin() + op.num_gradients();
  for (size_t i = 0, next = 0; i < gradients.size(); ++i) {
    if (gradients[i] == Arrives::always) g.set(int(i), std::move(results[next++]));
    if (gradients[i] == Arrives::sometimes) g.set_sometimes(int(i), std::move(results[next++]), std::move(*presence++));
  }
}

namespace {

void run_cond(const ControlFlow& program, ControlFlowState& s, KernelContext& c) {
  s.outputs.clear();
  for (const TensorView& v : c.outputs) s.outputs.push_back(v.data);
  s.body(program, takes_first(c) ? 0 : 1, c).run(s.inputs, s.outputs, s.sources, key_of(program, c));
}

void run_loop_forward(const ControlFlow& program, ControlFlowState& s, KernelContext& c) {
  // A state has two places, the output being one; of a foreach the last iteration is known and writes that.
  const int64_t last = program.kind == ControlKind::foreach ? c.in(0).shape[0] - 1 : 0;
  s.places.clear();
  for (int j = 0; j < program.num_states; ++j) {
    const TensorView& result = c.outputs.data()[program.num_outputs + j];
    s.places.push_back(result.data);
    s.places.push_back(s.context.keep(result.bytes()));
  }
  auto row = [&](int i, int64_t k) -> void* {
    const TensorView& all = c.outputs.data()[i];
    return all.as<char>() + size_t(k * all.shape.product(1, all.shape.ndim())) * size_of(all.dtype);
  };
  const int64_t made =
      run_loop(program, s, c, row, [&](int j, int64_t k) { return s.places[size_t(2 * j + ((last - k) & 1))]; });
  for (int i = 0; i < program.num_outputs; ++i) {
    const TensorView& all = c.outputs.data()[i];
    char* rest = static_cast<char*>(row(i, made));
    if (size_t bytes = size_t(all.as<char>() + all.bytes() - rest)) std::memset(rest, 0, bytes);
  }
  for (int j = 0; j < program.num_states; ++j) {
    const TensorView& result = c.outputs.data()[program.num_outputs + j];
    const void* now = s.inputs[size_t(program.num_data + j)];
    if (now != result.data && result.bytes()) std::memcpy(result.data, now, result.bytes());
  }
}

}  // namespace

template <ControlKind K>
void run_cpu(const op::ControlFlowOp<K>& op, KernelContext& c) {
  std::unique_ptr<KernelState> local;
  auto& s = state_of<ControlFlowState>(c, local, *op.program);
  s.begin(*op.program, c);
  (K == ControlKind::cond ? run_cond : run_loop_forward)(*op.program, s, c);
}

void op::ControlFlowKey::infer(InferContext& c) const {
  static_assert(random::stream_draws == 4, "what a random operator with such an output draws");
  c.set_output(Shape(2), DType::int64);
}

void run_cpu(const op::ControlFlowKey& op, KernelContext& c) {
  const bool draws = c.training || !op.training_only;
  const RandomKey key = draws ? random::stream_of(c.random) : RandomKey{};
  c.out().as<int64_t>()[0] = int64_t(key.seed);
  c.out().as<int64_t>()[1] = int64_t(key.offset);
}

}  // namespace kaon
