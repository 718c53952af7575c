#include "kaon/graph/autograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/graph/ir/destroy_in_turn.h"
#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/ir/history.h"
#include "kaon/graph/ir/tape.h"
#include "kaon/ops/array/row_gradient.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/array/small_array.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/operator/interceptor.h"
#include "kaon/ops/operator/op_attributes.h"

namespace kaon::autograd {

using namespace graph;

namespace {

std::atomic<uint64_t> g_sequence{0};
uint64_t next_in_sequence() { return g_sequence.fetch_add(1, std::memory_order_relaxed) + 1; }

std::atomic<bool> g_records_integers{false};

}  // namespace

bool has_gradient(DType dtype) { return is_floating(dtype) || g_records_integers.load(std::memory_order_relaxed); }
void record_integers(bool yes) { g_records_integers.store(yes, std::memory_order_relaxed); }

NDArray recorded_output(const NDArray& output, size_t i, TapeNode* node) {
  NDArray recorded = output.detach();
  if (has_gradient(recorded.dtype())) {
    IntrusivePtr<History> h(new History);
    h->node = IntrusivePtr<TapeNode>(node);
    h->output = uint32_t(i);
    recorded.node().annotation = h;
  }
  return recorded;
}

namespace {

// An operator's grad rule as a GradFunction.
class OpGradFunction final : public GradFunction {
 public:
  OpGradFunction(const OpCall& call) : def_(call.def), attrs_(call.def, call.attrs), site_(call.site) {
    inputs_.reserve(call.inputs.size());
    outputs_.reserve(call.outputs.size());
    for (const NDArray* i : call.inputs) inputs_.emplace_back(*i);
    for (const NDArray& o : call.outputs) outputs_.emplace_back(o.detach());  // o itself would be a reference cycle
  }

  void backward(const GradCall& call) override {
    Context context(*this, call);
    def_.grad(attrs_.get(), context);
  }
  NDArray own_head(size_t i) const override {
    const bool is_own = !outputs_.empty() && def_.traits_of(attrs_.get()).ignores_head;
    return is_own ? filled_like(outputs_[i].array, 0) : NDArray();
  }
  Operator recorded_operator() const override {
    Operator call{.def = &def_, .attrs = attrs_.get()};
    for (const SavedArray& i : inputs_) call.inputs.push_back(i.array.ptr().get());
    return call;
  }
  void release() override {
    inputs_.clear();
    outputs_.clear();
  }

 private:
  class Context final : public RowGradContext {
   public:
    Context(OpGradFunction& f, const GradCall& call) : f_(f), call_(call), zeros_(call.heads.size()) {
      // When gradients are recorded themselves, the outputs must be on the tape again.
      if (!is_recording()) return;
      for (size_t i = 0; i < f.outputs_.size(); ++i) {
        recorded_.push_back(recorded_output(f.outputs_[i].array, i, f.node));
      }
    }
    int num_inputs() const override { return int(f_.inputs_.size()); }
    const NDArray& input(int i) const override {
      const SavedArray& saved = f_.inputs_[size_t(i)];
      if (saved.is_changed()) f_.report("input", i, saved);
      return saved.array;
    }
    const NDArray& output(int i) const override {
      const SavedArray& saved = f_.outputs_[size_t(i)];
      if (saved.is_changed()) f_.report("output", i, saved);
      return recorded_.empty() ? saved.array : recorded_[size_t(i)];
    }
    const NDArray& input_like(int i) const override { return f_.inputs_[size_t(i)].array; }
    const NDArray& head(int i) const override {
      if (has_head(i)) return call_.heads[size_t(i)];
      NDArray& z = zeros_[size_t(i)];
      if (!z.defined()) z = nd.zeros_like(f_.outputs_[size_t(i)].array);
      return z;
    }
    bool has_head(int i) const override { return call_.heads[size_t(i)].defined(); }
    bool wants(int i) const override { return call_.wanted[size_t(i)]; }
    void set(int i, NDArray g) override { call_.gradients[size_t(i)] = std::move(g); }
    bool takes_rows(int i) const override {
      const History* h = f_.node->inputs[size_t(i)].get();
      return call_.rows && h && h->takes_rows();
    }
    void set_rows(int i, NDArray values, NDArray indices) override {
      call_.rows->push_back({size_t(i), std::move(values), std::move(indices)});
    }
    void set_rows_read(int i, NDArray indices) override { set_rows(i, NDArray(), std::move(indices)); }

   private:
    OpGradFunction& f_;
    const GradCall& call_;
    PooledVector<NDArray> recorded_;
    mutable PooledVector<NDArray> zeros_;
  };

  void report(const char* kind, int i, const SavedArray& saved) const {
    report_changed(def_.name(), fmt::format("{} {}", kind, i), saved, site_);
  }

  const OpDef& def_;
  Attributes attrs_;
  std::source_location site_;
  PooledVector<SavedArray> inputs_, outputs_;
};

// For an operator whose derivative is zero: recorded as any other, so that backward() from it gives zeros.
class FlatGradFunction final : public GradFunction {
 public:
  explicit FlatGradFunction(const OpCall& call) : def_(call.def), attrs_(call.def, call.attrs) {}
  void backward(const GradCall&) override {}
  void release() override {}
  Operator recorded_operator() const override { return {.def = &def_, .attrs = attrs_.get()}; }

 private:
  const OpDef& def_;
  Attributes attrs_;
};

// For an operator that has a derivative, but no rule for it: throws at the backward.
class RefusedGradFunction final : public GradFunction {
 public:
  explicit RefusedGradFunction(const OpDef& def) : def_(def) {}
  void backward(const GradCall&) override { refuse_gradient(def_); }
  void release() override {}

 private:
  const OpDef& def_;
};

class Tape final : public Interceptor {
 public:
  Tape() : Interceptor(false) {}
  void on_call(OpCall& call) override {
    bool any = false;
    for (const NDArray* i : call.inputs) any = any || wants_gradient(*i);
    if (!any) return;
    std::unique_ptr<GradFunction> function;
    if (call.def.traits.flat) {
      function = std::make_unique<FlatGradFunction>(call);
    } else if (lacks_gradient(call.def)) {
      function = std::make_unique<RefusedGradFunction>(call.def);
    } else {
      function = std::make_unique<OpGradFunction>(call);
    }
    record_call(call.def.name().data(), std::move(function), call.inputs, call.outputs);
  }
};

}  // namespace

History::~History() = default;
void TapeNode::destroy() { destroy_in_turn(this); }

Interceptor* tape() {
  static constinit MadeOnce<Tape> instance;
  return &instance.get([] { return new Tape; });
}

bool is_recording() { return thread_context().recording; }
bool is_training() { return thread_context().training; }

bool wants_gradient(const NDArray& array) {
  History* h = history_of(array);
  return h && h->is_recorded();
}

uint64_t gradient_stamp(const NDArray& array) {
  History* h = history_of(array);
  return h ? h->stamp : 0;
}
void stamp_gradient(const NDArray& array) {
  if (History* h = history_of(array); h && h->grad.defined()) h->stamp = next_in_sequence();
}

void record_call(const char* name, std::unique_ptr<GradFunction> function, std::span<const NDArray* const> inputs,
                 std::span<NDArray> outputs) {
  IntrusivePtr<TapeNode> node(new TapeNode);
  node->name = name;
  node->sequence = next_in_sequence();
  node->training = is_training();
  node->function = std::move(function);
  node->function->node = node.get();
  node->inputs.reserve(inputs.size());
  for (const NDArray* i : inputs) {
    History* h = history_of(*i);
    node->inputs.emplace_back(h && h->is_recorded() ? h : nullptr);
  }
  node->heads.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!has_gradient(outputs[i].dtype())) continue;
    IntrusivePtr<History> h(new History);
    h->node = i + 1 == outputs.size() ? std::move(node) : node;
    h->output = uint32_t(i);
    outputs[i].node().annotation = std::move(h);
  }
}

namespace {

// Whether `array` shares memory with one of `others`.
bool shares_memory(const NDArray& array, std::span<const NDArray> others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const NDArray& o) { return o.defined() && o.ptr()->buffer == array.ptr()->buffer; });
}

[[noreturn]] void refuse_released(const TapeNode& node) {
  throw StateError(fmt::format(
      "[backward] the recorded values of [{}] have been freed by an earlier backward(); pass retain_graph to "
      "the first one",
      node.name));
}

// Runs the recorded calls backwards, newest first, and collects the gradients of arrays that have one attached.
class BackwardPass {
 public:
  BackwardPass(std::span<const NDArray> heads, std::span<const NDArray> head_grads, bool retain);
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;
  ~BackwardPass() {  // after an error: clears the state that it has left in the tape
    for (; !queue_.empty(); queue_.pop()) {
      TapeNode& node = *queue_.top().node;
      node.queued = false;
      node.heads.assign(node.heads.size(), NDArray());
    }
  }

  // An undefined gradient is zero. It travels on: the attached gradients in which it ends are overwritten too.
  void send(History* h, NDArray gradient) {
    if (!h) return;
    if (auto it = asked.find(h); it != asked.end()) accumulate(it->second, gradient);
    if (h->node) {
      NDArray& head = h->node->heads[h->output];
      if (!gradient.defined() && !head.defined()) gradient = h->node->function->own_head(h->output);
      accumulate(head, std::move(gradient));
      if (!std::exchange(h->node->queued, true)) queue_.push({h->node});
    } else if (h->req != GradReq::null) {
      Leaf& leaf = leaves[h];
      leaf.history = IntrusivePtr<History>(h);
      accumulate(leaf.gradient, std::move(gradient));
    }
  }

  void run() {
    for (size_t i = 0; i < heads_.size(); ++i) {
      bool given = !head_grads_.empty() && head_grads_[i].defined();
      send(history_of(heads_[i]), given ? head_grads_[i] : filled_like(heads_[i], 1));
    }
    while (!queue_.empty()) {
      IntrusivePtr<TapeNode> node = queue_.top().node;
      queue_.pop();
      node->queued = false;
      PooledVector<NDArray> heads = std::move(node->heads);
      node->heads.assign(heads.size(), NDArray());
      if (node->released) refuse_released(*node);
      size_t n = node->inputs.size();
      SmallArray<bool> wanted(n);
      SmallArray<NDArray> gradients(n);
      for (size_t i = 0; i < n; ++i) wanted[i] = bool(node->inputs[i]);
      if (std::any_of(heads.begin(), heads.end(), [](const NDArray& h) { return h.defined(); })) {
        if (node->function->writes_in_place()) offer_targets(*node, gradients.span());
        thread_context().training = node->training;
        std::vector<RowPart> rows;
        node->function->backward({.heads = heads,
                                  .wanted = wanted.span(),
                                  .gradients = gradients.span(),
                                  .rows = will_store ? &rows : nullptr,
                                  .retain = retain_});
        for (RowPart& part : rows) {
          if (part.values.defined() && shares_memory(part.values, head_grads_)) part.values = part.values.copy();
          leaves[node->inputs[part.input].get()].rows.emplace_back(std::move(part.values), std::move(part.indices));
        }
      }
      for (size_t i = 0; i < n; ++i) send(node->inputs[i].get(), std::move(gradients[i]));
      if (!retain_) {
        node->released = true;
        node->function->release();
        node->inputs.clear();
      }
    }
  }

  // Gradients of arrays that were asked for by name, recorded or not.
  std::unordered_map<const History*, NDArray> asked;
  bool will_store = false;  // `leaves` go into the attached gradients
  struct Leaf {
    IntrusivePtr<History> history;
    NDArray gradient;
    std::vector<std::pair<NDArray, NDArray>> rows;
  };
  std::unordered_map<const History*, Leaf> leaves;

 private:
  struct Entry {
    IntrusivePtr<TapeNode> node;
    bool operator<(const Entry& o) const { return node->sequence < o.node->sequence; }
  };

  static void accumulate(NDArray& sum, NDArray g) {
    if (g.defined()) sum = sum.defined() ? nd.elemwise_add(sum, g) : std::move(g);
  }

  // Offers attached gradients that will be overwritten, and have got nothing yet, to the last call of a backward() as
  // its outputs. An earlier call must not write them: a later one may have saved such a gradient as its input, or fail.
  void offer_targets(const TapeNode& node, std::span<NDArray> gradients) const {
    bool is_last = queue_.empty() &&
                   std::none_of(node.inputs.begin(), node.inputs.end(), [](const auto& h) { return h && h->node; });
    if (!is_last || !will_store) return;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const History* h = node.inputs[i].get();
      if (!h || h->req != GradReq::write || h->takes_rows() || leaves.count(h) || shares_memory(h->grad, head_grads_))
        continue;
      auto here = node.inputs.begin() + std::ptrdiff_t(i);
      if (std::find(node.inputs.begin(), here, node.inputs[i]) == here) gradients[i] = h->grad;
    }
  }

  std::span<const NDArray> heads_, head_grads_;
  bool retain_;
  std::priority_queue<Entry> queue_;
};

BackwardPass::BackwardPass(std::span<const NDArray> heads, std::span<const NDArray> head_grads, bool retain)
    : heads_(heads), head_grads_(head_grads), retain_(retain) {
  if (!head_grads.empty() && head_grads.size() != heads.size()) {
    throw ValueError(fmt::format("[backward] {} heads but {} head gradients", heads.size(), head_grads.size()));
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    if (!wants_gradient(heads[i])) {
      if (const History* h = history_of(heads[i]); h && h->node) refuse_released(*h->node);
      throw StateError(
          "[backward] this array is not part of a recorded computation: compute it inside autograd::record from arrays "
          "with "
          "attach_grad()");
    }
    if (head_grads.empty() || !head_grads[i].defined()) continue;
    if (head_grads[i].shape() != heads[i].shape()) {
      throw ShapeError(fmt::format("[backward] the head gradient has shape {}, the head {}",
                                   head_grads[i].shape().str(), heads[i].shape().str()));
    }
    if (head_grads[i].dtype() != heads[i].dtype()) {
      throw TypeError(fmt::format("[backward] the head gradient has dtype {}, the head {}",
                                  name_of(head_grads[i].dtype()), name_of(heads[i].dtype())));
    }
    if (head_grads[i].device() != heads[i].device()) {
      throw DeviceError(fmt::format("[backward] the head gradient is on {}, the head on {}",
                                    head_grads[i].device().str(), heads[i].device().str()));
    }
    check_same_engine(*heads[i].node().buffer, *head_grads[i].node().buffer, "backward");
  }
}

// Before anything is stored.
void check_storage(const History& h, const NDArray& gradient) {
  if (!h.rows || !gradient.defined()) return;
  throw StateError(
      fmt::format("[backward] a dense gradient has arrived at an array {} whose gradient is row_sparse: only an "
                  "Embedding with sparse_grad that reads it as it is, outside of loops and branches, gives rows of one",
                  h.rows->shape.str()));
}

// Stores a new gradient into the attached one.
void store(History& h, NDArray gradient, std::vector<std::pair<NDArray, NDArray>> rows) {
  h.stamp = next_in_sequence();
  if (h.rows_read) {
    if (h.req == GradReq::write) h.rows_read->indices.clear();
    for (auto& [values, indices] : rows) {
      if (values.defined()) {
        const NDArray whole =
            nd._backward_take(values, indices, {.shape = h.grad.shape(), .axis = 0, .mode = IndexMode::clip});
        gradient = gradient.defined() ? nd.elemwise_add(gradient, whole) : whole;
      }
      h.rows_read->indices.push_back(std::move(indices));
    }
  }
  if (h.rows) {
    if (h.req == GradReq::write) h.rows->parts.clear();
    for (auto& part : rows) h.rows->parts.push_back(std::move(part));
    return;
  }
  if (!gradient.defined()) {
    if (h.req == GradReq::write) h.grad.assign(0);
    return;
  }
  if (gradient.ptr() == h.grad.ptr()) return;  // written directly
  if (gradient.dtype() != h.grad.dtype()) gradient = gradient.astype(h.grad.dtype());
  if (h.req == GradReq::add) {
    h.grad += gradient;
    return;
  }
  // With no other reference to the old array, replacing it by the new one saves a copy and is invisible. The new one
  // must have no other reference either (an operator may return its head as the gradient).
  const ArrayNode& old = h.grad.node();
  const ArrayNode& fresh = gradient.node();
  if (old.use_count() == 1 && old.buffer->use_count() == 1 && fresh.use_count() == 1 &&
      fresh.buffer->use_count() == 1 && !fresh.annotation) {
    h.grad = std::move(gradient);
  } else {
    h.grad.assign(gradient);
  }
}

// Calls fn; an error that it throws says where the user called.
template <class F>
auto called_at(const std::source_location& site, F&& fn) {
  try {
    return fn();
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(describe_call({"backward", site})));
  }
}
}  // namespace

void backward(std::span<const NDArray> heads, std::span<const NDArray> head_grads, bool retain_graph,
              std::source_location site) {
  called_at(site, [&] {
    BackwardPass pass(heads, head_grads, retain_graph);
    pass.will_store = true;
    EngineScope scope(heads.empty() ? Engine::current() : heads[0].engine());
    ModeScope mode(false, true);
    pass.run();
    // A gradient that shares memory with a head gradient may be an attached gradient, which another store overwrites.
    for (auto& [h, leaf] : pass.leaves) {
      if (leaf.gradient.defined() && shares_memory(leaf.gradient, head_grads)) leaf.gradient = leaf.gradient.copy();
    }
    for (const auto& [h, leaf] : pass.leaves) check_storage(*leaf.history, leaf.gradient);
    for (auto& [h, leaf] : pass.leaves) store(*leaf.history, std::move(leaf.gradient), std::move(leaf.rows));
  });
}

std::vector<NDArray> grad(std::span<const NDArray> heads, std::span<const NDArray> variables,
                          std::span<const NDArray> head_grads, bool retain_graph, bool create_graph,
                          std::source_location site) {
  return called_at(site, [&] {
    BackwardPass pass(heads, head_grads, retain_graph || create_graph);
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!wants_gradient(variables[i])) {
        throw StateError(
            fmt::format("[grad] variable {} does not require a gradient: call attach_grad() on it before the "
                        "computation is recorded",
                        i));
      }
      pass.asked[history_of(variables[i])];
    }
    EngineScope scope(heads.empty() ? Engine::current() : heads[0].engine());
    ModeScope mode(create_graph, true);
    pass.run();
    std::vector<NDArray> result;
    for (const NDArray& v : variables) {
      const NDArray& g = pass.asked[history_of(v)];
      if (!g.defined()) {
        result.push_back(nd.zeros_like(v));
      } else {  // a rule may return its head as the gradient, even of several inputs
        result.push_back(shares_memory(g, result) || shares_memory(g, head_grads) ? g.copy() : g);
      }
    }
    return result;
  });
}

}  // namespace kaon::autograd

namespace kaon::graph {

bool GradFunction::passes_on(size_t i) const { return node->inputs[i] && node->inputs[i]->node; }

}  // namespace kaon::graph
