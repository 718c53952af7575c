#include "kaon/graph/autograd.h"

#include <fmt/format.h>

#include <queue>
#include <unordered_map>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_attributes.h"

namespace kaon::autograd {

// One recorded call.
struct TapeNode : RefCounted<TapeNode>, Pooled {
  const char* name;
  uint64_t sequence;  // callers come after callees
  std::unique_ptr<GradFunction> function;
  std::vector<NDArray> inputs;
  std::vector<NDArray> heads;  // during backward: what has arrived at each output
  bool released = false;
  void destroy();
};

namespace {

// The history of an array: which call made it, or the gradient attached to it.
struct History : Annotation {
  IntrusivePtr<TapeNode> node;
  uint32_t output = 0;
  GradReq req = GradReq::null;
  NDArray grad;
  uint64_t stamp = 0;  // of the last store
  bool is_recorded() const override { return node || req != GradReq::null; }
};

History* history_of(const NDArray& a) {
  return a.defined() ? dynamic_cast<History*>(a.node().annotation.get()) : nullptr;
}

std::atomic<uint64_t> g_sequence{0};

// An operator's grad rule as a GradFunction.
class OpGradFunction final : public GradFunction {
 public:
  OpGradFunction(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs, std::span<NDArray> outputs)
      : def_(def), attrs_(def, attrs) {
    for (const NDArray* i : inputs) inputs_.push_back(*i);
    for (const NDArray& o : outputs) outputs_.push_back(o.detach());  // the array itself would keep this node alive
  }

  void backward(std::span<const NDArray> heads, std::span<const bool> wanted, std::span<NDArray> inputs) override {
    Context context(*this, heads, wanted, inputs);
    def_.grad(attrs_.get(), context);
  }
  void release() override {
    inputs_.clear();
    outputs_.clear();
  }

 private:
  class Context final : public GradContext {
   public:
    Context(OpGradFunction& f, std::span<const NDArray> heads, std::span<const bool> wanted, std::span<NDArray> result)
        : f_(f), heads_(heads), wanted_(wanted), result_(result), zeros_(heads.size()) {}
    int num_inputs() const override { return int(f_.inputs_.size()); }
    const NDArray& input(int i) const override { return f_.inputs_[size_t(i)]; }
    const NDArray& output(int i) const override { return f_.outputs_[size_t(i)]; }
    const NDArray& head(int i) const override {
      if (has_head(i)) return heads_[size_t(i)];
      NDArray& z = zeros_[size_t(i)];
      if (!z.defined()) z = nd.zeros_like(output(i));
      return z;
    }
    bool has_head(int i) const override { return heads_[size_t(i)].defined(); }
    bool wants(int i) const override { return wanted_[size_t(i)]; }
    void set(int i, NDArray g) override { result_[size_t(i)] = std::move(g); }

   private:
    OpGradFunction& f_;
    std::span<const NDArray> heads_;
    std::span<const bool> wanted_;
    std::span<NDArray> result_;
    mutable std::vector<NDArray> zeros_;
  };

  const OpDef& def_;
  Attributes attrs_;
  std::vector<NDArray> inputs_, outputs_;
};

class Tape final : public Interceptor {
 public:
  void after(OpCall& call) override {
    if (!call.def.grad) return;
    bool any = false;
    for (const NDArray* i : call.inputs) any = any || wants_gradient(*i);
    if (!any) return;
    record_call(call.def.name().data(), std::make_unique<OpGradFunction>(call.def, call.attrs, call.inputs, call.outputs),
                call.inputs, call.outputs);
  }
};

}  // namespace

void TapeNode::destroy() {
  // Long chains of calls are freed one by one, not by nested destructors.
  static thread_local std::vector<TapeNode*>* pending = nullptr;
  if (pending) {
    pending->push_back(this);
    return;
  }
  std::vector<TapeNode*> list{this};
  pending = &list;
  while (!list.empty()) {
    TapeNode* n = list.back();
    list.pop_back();
    delete n;
  }
  pending = nullptr;
}

Interceptor* tape() {
  static auto* instance = new Tape;
  return instance;
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

void record_call(const char* name, std::unique_ptr<GradFunction> function, std::span<const NDArray* const> inputs,
                 std::span<NDArray> outputs) {
  IntrusivePtr<TapeNode> node(new TapeNode);
  node->name = name;
  node->sequence = g_sequence.fetch_add(1, std::memory_order_relaxed) + 1;
  node->function = std::move(function);
  for (const NDArray* i : inputs) node->inputs.push_back(*i);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(outputs[i].dtype())) continue;
    IntrusivePtr<History> h(new History);
    h->node = node;
    h->output = uint32_t(i);
    outputs[i].node().annotation = h;
  }
  node->heads.resize(outputs.size());
}

namespace {

// Runs the recorded calls backwards, newest first. Gradients of leaves are collected by the callback.
class BackwardPass {
 public:
  explicit BackwardPass(bool retain) : retain_(retain) {}

  void add_head(const NDArray& array, NDArray gradient) { send(array, std::move(gradient)); }

  void run() {
    while (!queue_.empty()) {
      IntrusivePtr<TapeNode> node = queue_.top().node;
      queue_.pop();
      if (node->released) {
        throw StateError(fmt::format(
            "[backward] the recorded values of [{}] have been freed by an earlier backward(); pass retain_graph to the first one",
            node->name));
      }
      size_t n = node->inputs.size();
      std::unique_ptr<bool[]> wanted(new bool[n]);
      std::vector<NDArray> gradients(n);
      for (size_t i = 0; i < n; ++i) wanted[i] = wants_gradient(node->inputs[i]) || wanted_extra(node->inputs[i]);
      std::vector<NDArray> heads = std::move(node->heads);
      node->heads.assign(heads.size(), NDArray());
      node->function->backward(heads, {wanted.get(), n}, gradients);
      for (size_t i = 0; i < n; ++i) {
        if (wanted[i] && gradients[i].defined()) send(node->inputs[i], std::move(gradients[i]));
      }
      if (!retain_) {
        node->released = true;
        node->function->release();
        node->inputs.clear();
      }
    }
  }

  // Gradients of arrays that were asked for by name, recorded or not.
  std::unordered_map<const ArrayNode*, NDArray> asked;
  struct Leaf {
    IntrusivePtr<History> history;
    NDArray gradient;
  };
  std::unordered_map<const History*, Leaf> leaves;

 private:
  struct Entry {
    IntrusivePtr<TapeNode> node;
    bool operator<(const Entry& o) const { return node->sequence < o.node->sequence; }
  };

  bool wanted_extra(const NDArray& a) const { return asked.count(a.ptr().get()) != 0; }

  static void accumulate(NDArray& sum, NDArray g) { sum = sum.defined() ? nd.elemwise_add(sum, g) : std::move(g); }

  void send(const NDArray& array, NDArray gradient) {
    if (auto it = asked.find(array.ptr().get()); it != asked.end()) accumulate(it->second, gradient);
    History* h = history_of(array);
    if (!h) return;
    if (h->node) {
      bool first = true;
      for (const NDArray& g : h->node->heads) first = first && !g.defined();
      accumulate(h->node->heads[h->output], std::move(gradient));
      if (first) queue_.push({h->node});
    } else if (h->req != GradReq::null) {
      Leaf& leaf = leaves[h];
      leaf.history = IntrusivePtr<History>(h);
      accumulate(leaf.gradient, std::move(gradient));
    }
  }

  bool retain_;
  std::priority_queue<Entry> queue_;
};

void start(BackwardPass& pass, std::span<const NDArray> heads, std::span<const NDArray> head_grads) {
  if (!head_grads.empty() && head_grads.size() != heads.size()) {
    throw ValueError(fmt::format("[backward] {} heads but {} head gradients", heads.size(), head_grads.size()));
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    if (!wants_gradient(heads[i])) {
      throw StateError(
          "[backward] this array is not part of a recorded computation: compute it inside autograd::record from arrays with "
          "attach_grad(); to go backward twice, pass retain_graph the first time");
    }
    bool given = !head_grads.empty() && head_grads[i].defined();
    if (given && head_grads[i].shape() != heads[i].shape()) {
      throw ShapeError(fmt::format("[backward] the head gradient has shape {}, the head {}", head_grads[i].shape().str(),
                                   heads[i].shape().str()));
    }
    pass.add_head(heads[i], given ? head_grads[i] : nd.ones_like(heads[i]));
  }
}

// Puts a new gradient where the user sees it.
void store(History& h, NDArray gradient) {
  h.stamp = g_sequence.fetch_add(1, std::memory_order_relaxed) + 1;
  if (gradient.dtype() != h.grad.dtype()) gradient = gradient.astype(h.grad.dtype());
  if (h.req == GradReq::add) {
    h.grad += gradient;
    return;
  }
  // Nobody else holds the old array: taking the new one in its place saves a copy and cannot be seen. The new one
  // must be nobody's either (an operator may hand its head through as the gradient).
  const ArrayNode& old = h.grad.node();
  const ArrayNode& fresh = gradient.node();
  if (old.use_count() == 1 && old.chunk->use_count() == 1 && fresh.use_count() == 1 && !fresh.annotation) {
    h.grad = std::move(gradient);
  } else {
    h.grad.assign(gradient);
  }
}

}  // namespace

void backward(std::span<const NDArray> heads, std::span<const NDArray> head_grads, bool retain_graph, std::source_location) {
  ModeScope mode(false, true);
  BackwardPass pass(retain_graph);
  start(pass, heads, head_grads);
  pass.run();
  for (auto& [h, leaf] : pass.leaves) store(*leaf.history, std::move(leaf.gradient));
}

std::vector<NDArray> grad(std::span<const NDArray> heads, std::span<const NDArray> variables, std::span<const NDArray> head_grads,
                          bool retain_graph, bool create_graph, std::source_location) {
  ModeScope mode(create_graph, true);
  BackwardPass pass(retain_graph || create_graph);
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!wants_gradient(variables[i])) {
      throw StateError(fmt::format(
          "[grad] variable {} does not require a gradient: call attach_grad() on it before the computation is recorded", i));
    }
    pass.asked[variables[i].ptr().get()];
  }
  start(pass, heads, head_grads);
  pass.run();
  std::vector<NDArray> result;
  for (const NDArray& v : variables) {
    NDArray& g = pass.asked[v.ptr().get()];
    result.push_back(g.defined() ? g : nd.zeros_like(v));
  }
  return result;
}

}  // namespace kaon::autograd

// --- the members of NDArray that deal with gradients

namespace kaon {

void NDArray::attach_grad(GradReq req) {
  if (!is_floating(dtype())) {
    throw TypeError(fmt::format("[attach_grad] gradients need a floating dtype, got {}", name_of(dtype())));
  }
  if (req == GradReq::null) {
    node().annotation = nullptr;
    return;
  }
  IntrusivePtr<autograd::History> h(new autograd::History);
  h->req = req;
  autograd::ModeScope mode(false, false);
  h->grad = nd.zeros_like(*this);
  node().annotation = h;
}

NDArray NDArray::grad() const {
  autograd::History* h = autograd::history_of(*this);
  return h ? h->grad : NDArray();
}

void NDArray::backward(std::source_location site) const { autograd::backward(std::span(this, 1), {}, false, site); }
void NDArray::backward(const NDArray& head, bool retain_graph, std::source_location site) const {
  autograd::backward(std::span(this, 1), std::span(&head, 1), retain_graph, site);
}

}  // namespace kaon
