#include "kaon/graph/plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <tuple>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/operator/checked_kernel.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {

Verification::Verification(Graph program, const Graph& planned, bool training, bool exact)
    : program_(std::move(program)), planned_(planned), training_(training), exact_(exact) {
  find_same_values();
  note_inputs();
  uint64_t drawn = 0;
  for (const Node& n : program_.nodes) {
    random_offsets_.push_back(drawn);
    if (n.op && draws_numbers(*n.op, n.attrs.get(), training)) drawn += random_draws(n.outputs[0].shape);
    if (n.constant.defined()) n.constant.wait_to_read();
    constants_.push_back(n.constant.defined() ? n.constant.node().data() : nullptr);
  }
}

// Values are matched by origin, the outputs by their order, whatever passes have done to the nodes before them.
void Verification::find_same_values() {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  std::map<Key, ValueId> by_origin;
  gradient_begins_ = program_.nodes.size();
  for (uint32_t i = 0; i < program_.nodes.size(); ++i) {
    for (const Provenance& o : program_.nodes[i].provenance) {
      by_origin.emplace(Key(o.node, o.step, o.result), ValueId{i, o.output});
      if (o.step != 0) gradient_begins_ = std::min<size_t>(gradient_begins_, i);
    }
  }
  for (const Node& n : planned_.nodes) same_.emplace_back(n.outputs.size());
  const auto uses = count_uses(planned_);
  for (size_t i = 0; i < planned_.outputs.size(); ++i) {
    const ValueId v = planned_.outputs[i];
    same_[v.node][v.output] = {program_.outputs[i]};
  }
  for (uint32_t i = 0; i < planned_.nodes.size(); ++i) {
    for (const Provenance& o : planned_.nodes[i].provenance) {
      const auto found = by_origin.find(Key(o.node, o.step, o.result));
      if (found == by_origin.end() || uses[i][o.output] == 0) continue;  // a value without readers need not be written
      auto& same = same_[i][o.output];
      if (std::find(same.begin(), same.end(), found->second) == same.end()) same.push_back(found->second);
    }
  }
}

void Verification::note_inputs() {
  const size_t inputs = program_.inputs.size();
  input_of_.assign(program_.nodes.size(), none);
  for (uint32_t i = 0; i < inputs; ++i) input_of_[program_.inputs[i]] = i;
  updated_by_.assign(inputs, none);
  for (auto& r : reads_) r.assign(inputs, false);
  auto input_at = [&](ValueId v) { return input_of_[passes::root(program_, v).node]; };
  for (uint32_t k = 0; k < program_.nodes.size(); ++k) {
    const Node& n = program_.nodes[k];
    if (!n.op || n.op->traits.view) continue;
    for (uint32_t i = 0; i < n.inputs.size(); ++i) {
      const uint32_t input = input_at(n.inputs[i]);
      if (input == none) continue;
      reads_[size_t(n.phase)][input] = true;
      const bool updates =
          passes::updates_inputs(n, training_) && is_mutated(n.op->traits, int(i), int(n.inputs.size()));
      if (updates) updated_by_[input] = k;
    }
    has_update_ = has_update_ || (n.outputs.empty() && n.op->traits.mutates != 0);
  }
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const Phase phase = i < program_.num_forward_outputs ? Phase::forward : Phase::backward;
    if (const uint32_t input = input_at(program_.outputs[i]); input != none) reads_[size_t(phase)][input] = true;
  }
}

// --- one call

Shadow::Shadow(const Verification& verification) : verification_(&verification) {
  for (const Node& n : program().nodes) {
    values_.emplace_back(n.outputs.size());
    is_plans_.emplace_back(n.outputs.size(), false);
  }
}

// Memory of this run's own: an operation may not take that of arrays that it has not declared.
Shadow::Buffer Shadow::make_buffer(const TensorMeta& meta) {
  constexpr std::align_val_t line{64};
  const size_t bytes = std::max<size_t>(size_t(meta.shape.size()) * size_of(meta.dtype), 1);
  return Buffer(static_cast<std::byte*>(::operator new(bytes, line)), [](std::byte* p) { ::operator delete(p, line); });
}

void Shadow::begin(Phase phase, std::span<ArrayNode* const> arrays, RandomKey key) {
  phase_ = phase;
  next_ = 0;
  writes_.clear();
  inputs_.clear();
  for (ArrayNode* a : arrays) inputs_.push_back(a ? a->data() : nullptr);
  updated_.assign(inputs_.size(), {});
  before_.assign(inputs_.size(), {});
  if (phase == Phase::backward) return;  // which updates nothing, and draws nothing
  key_ = key;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (verification_->updated_by_[i] == Verification::none || !inputs_[i]) continue;
    for (auto* copies : {&updated_, &before_}) {
      (*copies)[i] = make_buffer(*arrays[i]);
      std::memcpy((*copies)[i].get(), inputs_[i], arrays[i]->bytes());
    }
  }
}

ValueId Shadow::root(ValueId v) const { return passes::root(program(), v); }

void* Shadow::data(ValueId v) const {
  const ValueId r = root(v);
  const Node& n = program().nodes[r.node];
  if (n.op) return values_[r.node][r.output].get();
  if (n.constant.defined()) return const_cast<void*>(verification_->constants_[r.node]);
  const uint32_t input = verification_->input_of_[r.node];
  return updated_[input] ? updated_[input].get() : inputs_[input];
}

// Runs the nodes of this phase before `end` in the program's order, on which the readers of updated arrays depend.
void Shadow::advance(size_t end, RunContext& run) {
  for (; next_ < end && !failure_; ++next_) {
    const Node& n = program().nodes[next_];
    if (!n.op || n.op->traits.view || n.phase != phase_) continue;
    try {
      evaluate(uint32_t(next_), run);
    } catch (...) {  // the plan will run the same operator, and its error is the one to report
      failure_ = add_context(std::current_exception(), fmt::format(" in node {} ({})", n.name, n.op->name()));
    }
  }
}

void Shadow::evaluate(uint32_t node, RunContext& run) {
  const Node& n = program().nodes[node];
  std::vector<TensorView> views;
  for (ValueId v : n.inputs) {
    const TensorMeta& m = program().meta(v);
    views.push_back({data(v), m.shape, m.dtype});
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) {
    values_[node][k] = make_buffer(n.outputs[k]);
    views.push_back({values_[node][k].get(), n.outputs[k].shape, n.outputs[k].dtype});
  }
  const std::span<const TensorView> all(views);
  const bool draws = draws_numbers(*n.op, n.attrs.get(), verification_->training_);
  KernelContext kernel{
      .inputs = all.first(n.inputs.size()),
      .outputs = all.subspan(n.inputs.size()),
      .run = run,
      .random = draws ? RandomKey{key_.seed, key_.offset + verification_->random_offsets_[node]} : RandomKey{},
      .training = verification_->training_};
  run_on_cpu(*n.op, n.attrs.get(), kernel);
  run.free_workspace();
}

namespace {

// The values in row-major order: in place, or copied to `room`.
const void* row_major(const TensorView& view, std::vector<float>& room) {
  if (view.layout == Layout::row_major || view.size() == 0) return view.data;
  const Shape& s = view.shape;
  room.resize(size_t(view.size()));
  convert_images(view.as<float>(), image_layout(view.layout), room.data(), ImageLayout::row_major, s[0], s[1],
                 s[2] * s[3]);
  return room.data();
}

// "relu0 (relu)"
std::string describe(const Node& n) {
  return fmt::format("{} ({})", n.name, n.op ? n.op->name() : n.is_input() ? "input" : "constant");
}

}  // namespace

std::string Shadow::name_of(ValueId v) const {
  return (v.output ? fmt::format("output {} of ", v.output) : "") + describe(program().nodes[v.node]);
}

void Shadow::compare(uint32_t planned, ValueId v, const TensorView& got) {
  if (!data(v)) return;  // of the backward, and merged with a value of the forward
  const TensorMeta& meta = program().meta(v);
  if (meta.shape != got.shape || meta.dtype != got.dtype) {
    throw VerifyError(fmt::format("[verify] {} is {} {} imperatively, {} {} in the plan", name_of(v), meta.shape.str(),
                                  kaon::name_of(meta.dtype), got.shape.str(), kaon::name_of(got.dtype)));
  }
  const bool is_gradient = v.node >= verification_->gradient_begins_;
  std::vector<float> room;
  const void* is = row_major(got, room);
  const Bounds bounds = verification_->exact_ ? Bounds() : bounds_for(meta.dtype, is_gradient);
  if (const auto difference = find_difference(meta, data(v), is, bounds)) {
    throw VerifyError(fmt::format("[verify] {} is not as in the imperative run, {}; the plan has it from node {}",
                                  name_of(v), *difference, describe(verification_->planned_.nodes[planned])));
  }
  const ValueId r = root(v);
  const Node& owner = program().nodes[r.node];
  if (!owner.op || owner.phase != phase_ || is_plans_[r.node][r.output]) return;
  if (got.size() != 0) std::memcpy(values_[r.node][r.output].get(), is, got.bytes());
  is_plans_[r.node][r.output] = true;
}

void Shadow::check_inputs(uint32_t node, const TensorView* inputs, RunContext& run) {
  const Graph& plan = verification_->planned_;
  const Node& reader = plan.nodes[node];
  for (size_t i = 0; i < reader.inputs.size(); ++i) {
    const ValueId source = passes::root(plan, reader.inputs[i]);
    const auto& same = verification_->same_[source.node][source.output];
    if (plan.nodes[source.node].constant.defined()) {
      const TensorMeta& m = plan.meta(source);
      check(source, {inputs[i].data, m.shape, m.dtype}, run);
    } else if (!same.empty() && is_plans_[root(same[0]).node][root(same[0]).output]) {
      check_kept(reader, source, inputs[i]);
    }
  }
}

// Checks that the plan's value has not been overwritten before its reader.
void Shadow::check_kept(const Node& reader, ValueId source, const TensorView& is) const {
  const ValueId v = verification_->same_[source.node][source.output][0];
  std::vector<float> room;
  const auto difference = find_difference({is.shape, is.dtype}, data(v), row_major(is, room), {});
  if (!difference) return;
  const auto* begin = is.as<const std::byte>();
  const auto* end = begin + is.bytes();
  const auto by = std::find_if(writes_.rbegin(), writes_.rend(),
                               [&](const Write& w) { return w.node != source.node && w.begin < end && begin < w.end; });
  throw VerifyError(fmt::format(
      "[verify] {} was overwritten by {} before {} has read it, {}", name_of(v),
      by == writes_.rend() ? "something outside of the plan" : describe(verification_->planned_.nodes[by->node]),
      describe(reader), *difference));
}

void Shadow::check_outputs(uint32_t node, const TensorView* outputs, RunContext& run) {
  for (uint32_t k = 0; k < verification_->same_[node].size(); ++k) {
    const auto* begin = outputs[k].as<const std::byte>();
    writes_.push_back({begin, begin + outputs[k].bytes(), node});
    check({node, k}, outputs[k], run);
  }
}

void Shadow::check(ValueId planned, const TensorView& got, RunContext& run) {
  for (ValueId v : verification_->same_[planned.node][planned.output]) {
    const uint32_t owner = root(v).node, input = verification_->input_of_[owner];
    // an updated input that is returned is returned as the operators leave it
    const bool is_updated = input != Verification::none && updated_[input];
    advance(is_updated ? program().nodes.size() : owner + 1, run);
    if (failure_) return;
    compare(planned.node, v, got);
  }
}

void Shadow::finish(RunContext& run) {
  advance(program().nodes.size(), run);
  if (failure_) {
    if (is_checking()) std::rethrow_exception(failure_);  // what the plan does not look for
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& e) {
      throw VerifyError(fmt::format("[verify] the imperative run fails where the plan does not: {}", e.what()));
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!updated_[i]) continue;
    const Node& input = program().nodes[program().inputs[i]];
    const TensorMeta& meta = input.outputs[0];
    const Bounds bounds = verification_->exact_ ? Bounds() : bounds_for(meta.dtype, verification_->has_update_);
    if (const auto difference = find_difference(meta, updated_[i].get(), inputs_[i], bounds)) {
      const Node& n = program().nodes[verification_->updated_by_[i]];
      throw VerifyError(fmt::format("[verify] {} ({}) does not update {} as in the imperative run, {}", n.name,
                                    n.op->name(), input.name, *difference));
    }
  }
}

void Shadow::undo() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!before_[i]) continue;
    const TensorMeta& meta = program().nodes[program().inputs[i]].outputs[0];
    std::memcpy(inputs_[i], before_[i].get(), size_t(meta.shape.size()) * size_of(meta.dtype));
  }
}

}  // namespace kaon::graph
