#include "kaon/mxnet/custom/callback_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/error.h"

namespace kaon::mxnet {

namespace {

using InstancePtr = std::shared_ptr<const CustomInstance>;

// The nodes of the process. A node stays; its instances, one for each set of shapes, go with the plan that runs it.
struct Nodes {
  struct Node {
    std::shared_ptr<const CustomProp> prop;
    std::map<std::string, InstancePtr> instances;
  };
  std::mutex mutex;
  std::map<int64_t, Node> nodes;
  int64_t last = 0;
  void lock() { mutex.lock(); }  // around a fork
  void unlock() { mutex.unlock(); }
};
Nodes& nodes() { return engine::ProcessWide<Nodes>::get(); }

std::shared_ptr<const CustomProp> prop_of(int64_t node) {
  const std::scoped_lock lock(nodes().mutex);
  const auto at = nodes().nodes.find(node);
  if (at == nodes().nodes.end()) throw StateError("[Custom] the node is none of this process");
  return at->second.prop;
}

InstancePtr instance_of(int64_t node, std::span<const TensorView> views) {
  std::string key;
  std::vector<TensorMeta> metas;
  for (const TensorView& v : views) {
    metas.push_back({v.shape, v.dtype});
    key += v.shape.str() + std::to_string(int(v.dtype));
  }
  const std::shared_ptr<const CustomProp> prop = prop_of(node);
  {
    const std::scoped_lock lock(nodes().mutex);
    const auto& instances = nodes().nodes.at(node).instances;
    if (const auto at = instances.find(key); at != instances.end()) return at->second;
  }
  InstancePtr made = prop->instance(cpu(0), metas);  // calls the program: without the lock
  const std::scoped_lock lock(nodes().mutex);
  return nodes().nodes.at(node).instances.emplace(key, std::move(made)).first->second;
}

// In the slot of a plan's node.
struct Holder final : ops::KernelState {
  explicit Holder(int64_t node) : node(node) {}
  ~Holder() override {
    std::map<std::string, InstancePtr> ended;  // destroyed without the lock: they call the program
    const std::scoped_lock lock(nodes().mutex);
    if (const auto at = nodes().nodes.find(node); at != nodes().nodes.end()) ended.swap(at->second.instances);
  }
  int64_t node;
};

// An array with memory of its own, which the program may keep beyond the operation.
struct OwnArray {
  explicit OwnArray(const TensorView& view, bool copies) : view(view) {
    const size_t bytes = std::max<size_t>(view.bytes(), 1);
    memory = std::shared_ptr<void>(::operator new(bytes, alignment), [](void* p) { ::operator delete(p, alignment); });
    if (copies && view.bytes()) std::memcpy(memory.get(), view.data, view.bytes());
    array = NDArray::from_blob(
        memory.get(), view.shape, view.dtype, [keep = memory] {}, cpu(0));
  }
  // Waits for what the program has pushed, and gives the values back.
  void give_back() const {
    array.wait_to_read();
    if (view.data && view.bytes()) std::memcpy(view.data, memory.get(), view.bytes());
  }
  static constexpr std::align_val_t alignment{64};
  TensorView view;
  std::shared_ptr<void> memory;
  NDArray array;
};

class OwnArrays {
 public:
  OwnArrays(std::span<const TensorView> views, bool copies) {
    for (const TensorView& v : views) {
      own_.emplace_back(v, copies);
      arrays_.push_back(own_.back().array);
    }
  }
  std::span<const NDArray> arrays() const { return arrays_; }
  void give_back() const {
    for (const OwnArray& a : own_) a.give_back();
  }

 private:
  std::vector<OwnArray> own_;
  std::vector<NDArray> arrays_;
};

int64_t new_node(std::shared_ptr<const CustomProp> prop) {
  const std::scoped_lock lock(nodes().mutex);
  nodes().nodes[++nodes().last].prop = std::move(prop);
  return nodes().last;
}

constexpr int most_states = 8;

}  // namespace

namespace op {

template <int num_states>
constinit const OpDef Callback<num_states>::def = make_op_def<Callback<num_states>>();
constinit const OpDef CallbackGradient::def = make_op_def<CallbackGradient>();

// What the call of the operator has inferred, again: a graph may be run with arrays of other shapes.
template <int num_states>
void Callback<num_states>::infer(InferContext& c) const {
  std::vector<TensorMeta> metas;
  for (int i = 0; i < inputs + states; ++i) {
    const int at = i < inputs ? states + i : i - inputs;  // the property has the states last
    metas.push_back({c.shape(at), c.dtype(at)});
  }
  std::vector<TensorMeta*> in;
  for (TensorMeta& m : metas) in.push_back(&m);
  std::vector<TensorMeta> out{size_t(outputs)};
  InferContext context(c.op(), traits, in, out);
  prop_of(node)->infer(context);
  for (int i = 0; i < outputs; ++i) c.set_output(i, out[size_t(i)].shape, out[size_t(i)].dtype);
}

template <int num_states>
void Callback<num_states>::grad(GradContext& c) const {
  std::vector<NDArray> arrays;
  for (int i = 0; i < outputs; ++i) arrays.push_back(c.head(i));
  for (int i = 0; i < inputs; ++i) arrays.push_back(c.input(states + i));
  for (int i = 0; i < outputs; ++i) arrays.push_back(c.output(i));
  for (int i = 0; i < states; ++i) arrays.push_back(c.input_like(i));  // as the forward has left them
  std::vector<const NDArray*> given;
  for (const NDArray& a : arrays) given.push_back(&a);
  const CallbackGradient gradient{node, inputs, states, outputs};
  std::vector<NDArray> results{size_t(inputs)};
  NDArray::apply(CallbackGradient::def, &gradient, given, results, std::source_location{}, {});
  for (int i = 0; i < inputs; ++i) {
    if (c.wants(states + i)) c.set(states + i, results[size_t(i)]);
  }
}

template <int num_states>
void run_cpu(const Callback<num_states>& op, KernelContext& c) {
  if (c.state && !*c.state) *c.state = std::make_unique<Holder>(op.node);
  const auto states = c.inputs.first(size_t(op.states)), inputs = c.inputs.subspan(size_t(op.states));
  const OwnArrays in(inputs, true), updated(states, true), out(c.outputs, false);
  const engine::ProgramCall call;
  instance_of(op.node, inputs)
      ->forward({.inputs = in.arrays(), .outputs = out.arrays(), .states = updated.arrays()}, c.training);
  out.give_back();
  updated.give_back();
}

void CallbackGradient::infer(InferContext& c) const {
  for (int i = 0; i < inputs; ++i) c.set_output(i, c.shape(outputs + i), c.dtype(outputs + i));
}

void run_cpu(const CallbackGradient& op, KernelContext& c) {
  const auto n_in = size_t(op.inputs), n_out = size_t(op.outputs);
  const auto inputs = c.inputs.subspan(n_out, n_in);
  const OwnArrays heads(c.inputs.first(n_out), true), in(inputs, true),
      out(c.inputs.subspan(n_out + n_in, n_out), true), states(c.inputs.subspan(2 * n_out + n_in), true),
      gradients(c.outputs, false);
  const engine::ProgramCall call;
  instance_of(op.node, inputs)
      ->backward({.inputs = in.arrays(),
                  .outputs = out.arrays(),
                  .states = states.arrays(),
                  .heads = heads.arrays(),
                  .gradients = gradients.arrays()},
                 c.training);
  gradients.give_back();
}

}  // namespace op

namespace {

template <int num_states = 0>
std::vector<NDArray> trace(const std::shared_ptr<const CustomProp>& prop, std::span<const NDArray* const> ordered) {
  if constexpr (num_states > most_states) {
    throw ValueError(fmt::format("[Custom] an operator of a graph may have {} states, got {}", most_states,
                                 prop->signature().updated));
  } else {
    if (prop->signature().updated != num_states) return trace<num_states + 1>(prop, ordered);
    const op::Callback<num_states> node{new_node(prop), prop->num_inputs(), prop->num_outputs()};
    std::vector<NDArray> results{size_t(node.outputs)};
    NDArray::apply(node.def, &node, ordered, results, std::source_location{}, {});
    return results;
  }
}

}  // namespace

std::vector<NDArray> trace_callback(const std::shared_ptr<const CustomProp>& prop,
                                    std::span<const NDArray* const> inputs) {
  const auto n = std::ptrdiff_t(prop->num_inputs());
  std::vector<const NDArray*> ordered(inputs.begin() + n, inputs.end());
  ordered.insert(ordered.end(), inputs.begin(), inputs.begin() + n);
  return trace(prop, ordered);
}

}  // namespace kaon::mxnet
