#include "kaon/mxnet/custom/callback_node.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "kaon/engine/base/process_wide.h"
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

// Traits with the last inputs updated in place, by how many inputs there are of either kind.
const OpTraits& traits_with_states(const OpTraits& usual, int inputs, int states) {
  if (states == 0) return usual;
  struct Made {
    std::mutex mutex;
    std::map<std::pair<int, int>, std::unique_ptr<OpTraits>> traits;
    void lock() { mutex.lock(); }
    void unlock() { mutex.unlock(); }
  };
  Made& made = engine::ProcessWide<Made>::get();
  const std::scoped_lock lock(made.mutex);
  std::unique_ptr<OpTraits>& traits = made.traits[{inputs, states}];
  if (!traits) {
    traits = std::make_unique<OpTraits>(usual);
    for (int i = inputs; i < std::min(inputs + states, 32); ++i) traits->mutates |= uint32_t(1) << i;
  }
  return *traits;
}

}  // namespace

int64_t new_callback_node(std::shared_ptr<const CustomProp> prop) {
  const std::scoped_lock lock(nodes().mutex);
  nodes().nodes[++nodes().last].prop = std::move(prop);
  return nodes().last;
}

namespace op {

constinit const OpDef Callback::def = make_op_def<Callback>();
constinit const OpDef CallbackGradient::def = make_op_def<CallbackGradient>();

const OpTraits& Callback::traits_of() const { return traits_with_states(traits, inputs, states); }

void Callback::infer(InferContext& c) const { prop_of(node)->infer(c); }

void Callback::grad(GradContext& c) const {
  std::vector<NDArray> arrays;
  for (int i = 0; i < outputs; ++i) arrays.push_back(c.head(i));
  for (int i = 0; i < inputs; ++i) arrays.push_back(c.input(i));
  for (int i = 0; i < outputs; ++i) arrays.push_back(c.output(i));
  for (int i = 0; i < states; ++i) arrays.push_back(c.input_like(inputs + i));  // as the forward has left them
  std::vector<const NDArray*> given;
  for (const NDArray& a : arrays) given.push_back(&a);
  const CallbackGradient gradient{node, inputs, states, outputs};
  std::vector<NDArray> results{size_t(inputs)};
  NDArray::apply(CallbackGradient::def, &gradient, given, results, std::source_location{}, {});
  for (int i = 0; i < inputs; ++i) {
    if (c.wants(i)) c.set(i, results[size_t(i)]);
  }
}

void CallbackGradient::infer(InferContext& c) const {
  for (int i = 0; i < inputs; ++i) c.set_output(i, c.shape(outputs + i), c.dtype(outputs + i));
}

void run_cpu(const Callback& op, KernelContext& c) {
  if (c.state && !*c.state) *c.state = std::make_unique<Holder>(op.node);
  const auto inputs = c.inputs.first(size_t(op.inputs)), states = c.inputs.subspan(size_t(op.inputs));
  const OwnArrays in(inputs, true), updated(states, true), out(c.outputs, false);
  instance_of(op.node, inputs)
      ->forward({.inputs = in.arrays(), .outputs = out.arrays(), .states = updated.arrays()}, c.training);
  out.give_back();
  updated.give_back();
}

void run_cpu(const CallbackGradient& op, KernelContext& c) {
  const auto n_in = size_t(op.inputs), n_out = size_t(op.outputs);
  const auto inputs = c.inputs.subspan(n_out, n_in);
  const OwnArrays heads(c.inputs.first(n_out), true), in(inputs, true),
      out(c.inputs.subspan(n_out + n_in, n_out), true), states(c.inputs.subspan(2 * n_out + n_in), true),
      gradients(c.outputs, false);
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

}  // namespace kaon::mxnet
