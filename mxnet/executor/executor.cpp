#include "kaon/mxnet/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/executor/output_storage.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

namespace {

// Without being recorded.
NDArray zeros(const TensorMeta& meta, Device device) {
  const autograd::ModeScope mode(false, false);
  const DeviceScope scope(device);
  return nd.zeros(meta.shape, {.dtype = meta.dtype});
}

void copy_to(const NDArray& from, NDArray& to) {
  const autograd::ModeScope mode(false, false);
  to.assign(Arg<NDArray>(from.detach(), no_site));
}

bool merges_by_environment() {
  const char* text = std::getenv("MXNET_ELIMINATE_COMMON_EXPR");
  return !text || std::string_view(text) != "0";
}

bool always_draws(const Symbol& symbol) {
  const std::vector<SymbolNode*> nodes = graph::topological_order(symbol.entries());
  return std::any_of(nodes.begin(), nodes.end(), [](const SymbolNode* n) {
    if (!n->op) return false;
    const OpTraits& traits = n->op->traits_of(n->attrs.get());
    return traits.random && !traits.mode_dependent;
  });
}

// Whether the operator's gradient depends on the head. If not, MXNet does not look at it, whatever its shape.
bool reads_head(const SymbolNode& node) {
  if (!node.op) return true;
  const OpTraits& traits = node.op->traits_of(node.attrs.get());
  return !traits.flat && !traits.ignores_head;
}

bool shares_memory(const NDArray& array, std::span<const NDArray* const> others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const NDArray* o) { return o->node().buffer == array.node().buffer; });
}

}  // namespace

Context ContextGroups::of(const SymbolNode& node) const {
  const auto name = node.text_attrs.find("__ctx_group__");
  if (name == node.text_attrs.end()) return general;
  const auto it = groups.find(name->second);
  return it == groups.end() ? general : it->second;
}

ExecutorObject& executor_of(void* handle) {
  if (!handle) throw ValueError("the handle of an executor is null");
  return *static_cast<ExecutorObject*>(handle);
}

ExecutorObject::ExecutorObject(const Symbol& symbol, ContextGroups contexts, Bindings arrays,
                               const std::vector<BoundArray>& before)
    : program_(symbol, options_of_environment(), "Executor"),
      contexts_(std::move(contexts)),
      arrays_(std::move(arrays)),
      always_draws_(always_draws(program_.symbol())),
      merges_equal_nodes_(merges_by_environment()) {
  bind_inputs();
  bind_outputs(before);
  bind_sparse_outputs();
}

NDArray in_memory_of(const NDArray& from, const Shape& shape) {
  const autograd::ModeScope mode(false, false);
  return first_elements(from.detach(), shape);
}

void ExecutorObject::bind_inputs() {
  std::map<std::string, Input> by_name;
  const std::vector<std::string> arguments = symbol().list_arguments(), states = symbol().list_auxiliary_states();
  const auto check = [](const char* what, size_t expected, size_t got) {
    if (expected == got) return;
    throw ValueError(fmt::format("[bind] the symbol has {} {}, got {} arrays", expected, what, got));
  };
  check("arguments", arguments.size(), arrays_.arguments.size());
  check("auxiliary states", states.size(), arrays_.states.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    Input& input = by_name[arguments[i]];
    input.bound = &arrays_.arguments[i];
    if (arrays_.requests[i] == GradReq::null || !arrays_.gradients[i].array.defined()) continue;
    input.gradient = &arrays_.gradients[i];
    input.request = arrays_.requests[i];
    wants_gradients_ = true;
  }
  for (size_t i = 0; i < states.size(); ++i) by_name[states[i]].bound = &arrays_.states[i];

  const Device device = contexts_.general.device();
  for (const std::string& name : program_.input_names()) {
    Input& input = inputs_.emplace_back(by_name.at(name));
    NDArray& array = input.bound->array;
    if (!array.defined()) throw ValueError(fmt::format("[bind] the array of '{}' has no memory", name));
    array = in_this_process(array);
    input.is_copy = array.device() != device;
    input.leaf = input.is_copy ? zeros({array.shape(), array.dtype()}, device) : array.detach();
    if (!input.gradient) continue;
    const NDArray& gradient = input.gradient->array;
    const bool direct = gradient.device() == device && gradient.dtype() == array.dtype();
    if (gradient.shape() != array.shape()) {
      throw ShapeError(
          fmt::format("[bind] '{}' has shape {}, its gradient {}", name, array.shape().str(), gradient.shape().str()));
    }
    if (direct) {
      input.leaf.attach_grad(input.request, gradient);
    } else {
      input.leaf.attach_grad(GradReq::write, zeros({array.shape(), array.dtype()}, device));
    }
    if (input.gradient->sparse) autograd::history_of(input.leaf)->rows_read = input.gradient->sparse->rows_read;
  }
}

void ExecutorObject::bind_outputs(const std::vector<BoundArray>& before) {
  std::vector<TensorMeta> metas;
  for (const Input& i : inputs_) metas.push_back({i.leaf.shape(), i.leaf.dtype()});
  const std::vector<TensorMeta> inferred = program_.infer(metas);
  for (size_t i = 0; i < inferred.size(); ++i) {
    const Context context = contexts_.of(*symbol().entries()[i].node);
    const NDArray old = i < before.size() ? before[i].array : NDArray();
    const bool fits = old.defined() && old.dtype() == inferred[i].dtype && old.device() == context.device() &&
                      old.size() >= inferred[i].shape.size();
    outputs_.push_back({fits ? in_memory_of(old, inferred[i].shape) : zeros(inferred[i], context.device()), context});
  }
}

void ExecutorObject::bind_sparse_outputs() {
  std::map<std::string_view, Input*> by_name;
  bool is_any = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    by_name[program_.input_names()[i]] = &inputs_[i];
    is_any = is_any || inputs_[i].bound->sparse;
  }
  const auto nodes = graph::topological_order(symbol().entries());
  is_any = is_any || std::ranges::any_of(nodes, [](const SymbolNode* n) { return n->op_name == "cast_storage"; });
  if (!is_any) return;
  const std::vector<OutputStorage> storages = output_storages(symbol(), [&](const SymbolNode& variable) {
    const Input& input = *by_name.at(variable.name);
    return input.bound->sparse ? input.bound->sparse->storage : ops::StorageType::dense;
  });
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (storages[i].storage == ops::StorageType::dense) continue;
    BoundArray& output = outputs_[i];
    output.sparse =
        nothing_stored(storages[i].storage, output.array.shape(), output.array.dtype(), output.context.device());
    Input* pattern = storages[i].pattern ? by_name.at(storages[i].pattern->name) : nullptr;
    sparse_outputs_.push_back({&output, pattern});
  }
}

void ExecutorObject::store_sparse_outputs() {
  const autograd::ModeScope mode(false, false);
  for (const SparseOutput& s : sparse_outputs_) {
    if (s.pattern) {
      assign_like(*s.output->sparse, s.output->array, *s.pattern->bound->sparse);
    } else {
      assign(*s.output->sparse, s.output->array);
    }
  }
}

std::vector<const NDArray*> ExecutorObject::fresh_inputs() {
  std::vector<const NDArray*> arrays;
  for (Input& input : inputs_) {
    if (input.bound->sparse) {
      ArrayObject object(input.bound->sparse, input.bound->context);
      copy_to(to_dense(object), input.bound->array);
    }
    if (input.is_copy) copy_to(input.bound->array, input.leaf);
    arrays.push_back(&input.leaf);
  }
  return arrays;
}

void ExecutorObject::run_monitored(const Symbol& program, std::span<const NDArray* const> inputs,
                                   std::span<NDArray> results) {
  NodeMonitor monitor = monitor_of(monitor_, monitor_all_, true, contexts_.general);
  if (autograd::is_recording()) monitor = backward_monitor_.emplace(program).noting(std::move(monitor));
  run_nodes(program, program_.input_names(), inputs, results, monitor);
}

// In the mode of the thread. `results` that are defined are filled where that can be.
void ExecutorObject::run(std::span<NDArray> results) {
  const DeviceScope scope(contexts_.general.device());
  const std::vector<const NDArray*> inputs = fresh_inputs();
  const std::vector<TensorMeta> metas = metas_of(inputs);
  if (monitor_) {
    run_monitored(program_.symbol_for(metas), inputs, results);
  } else if (results[0].defined()) {
    program_.graph_for(metas)->call_into(inputs, results, no_site, nullptr);
  } else {
    program_.graph_for(metas)->call(inputs, results, no_site);
  }
  for (const Input& input : inputs_) {  // states that the program has updated
    const bool is_state =
        input.bound >= arrays_.states.data() && input.bound < arrays_.states.data() + arrays_.states.size();
    if (is_state && input.is_copy) copy_to(input.leaf, input.bound->array);
    if (is_state && input.bound->sparse) {
      const autograd::ModeScope mode(false, false);
      assign(*input.bound->sparse, input.bound->array);
    }
  }
}

void ExecutorObject::record(bool training) {
  std::vector<NDArray> results(outputs_.size());
  {
    const autograd::ModeScope mode(true, training);
    run(results);
  }
  recorded_ = std::move(results);
}

void ExecutorObject::forward(bool training) {
  run_forward(training);
  store_sparse_outputs();
}

void ExecutorObject::run_forward(bool training) {
  recorded_.clear();  // so that its memory serves this run
  backward_monitor_.reset();
  has_run_ = true;
  trained_ = training;
  std::vector<NDArray> results;
  if (wants_gradients_ && (training || always_draws_)) {  // the backward must see what is drawn here
    record(training);
    results = recorded_;
  } else {
    const autograd::ModeScope mode(false, training);
    std::vector<const NDArray*> leaves;
    for (const Input& i : inputs_) leaves.push_back(&i.leaf);
    const bool in_place = !monitor_ && std::all_of(outputs_.begin(), outputs_.end(), [&](const BoundArray& o) {
      return o.array.device() == contexts_.general.device() && !shares_memory(o.array, leaves);
    });
    results.resize(outputs_.size());
    for (size_t i = 0; in_place && i < results.size(); ++i) results[i] = outputs_[i].array;
    run(results);
    if (in_place) return;
  }
  for (size_t i = 0; i < results.size(); ++i) copy_to(results[i], outputs_[i].array);
}

void ExecutorObject::clear_what_nothing_reached(const std::vector<uint64_t>& stamps) {
  const autograd::ModeScope mode(false, false);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    if (!input.gradient) continue;
    NDArray& gradient = input.gradient->array;
    const bool reached = autograd::gradient_stamp(input.leaf) != stamps[i];
    const NDArray own = input.leaf.grad();
    const bool direct = own.node().buffer == gradient.node().buffer;
    if (!reached) {
      if (input.request == GradReq::write) {
        gradient.assign(Arg<NDArray>(0.0, no_site));
        if (input.gradient->sparse && input.gradient->sparse->rows_read)
          input.gradient->sparse->rows_read->indices.clear();
      }
    } else if (!direct) {
      const NDArray arrived = own.as_in_context(gradient.device()).astype(gradient.dtype());
      gradient.assign(Arg<NDArray>(input.request == GradReq::add ? gradient + arrived : arrived, no_site));
    }
  }
}

void ExecutorObject::backward(std::vector<NDArray> heads, bool training) {
  if (!wants_gradients_) return;
  if (recorded_.empty()) record(has_run_ ? trained_ : training);
  std::vector<uint64_t> stamps;
  for (const Input& input : inputs_) stamps.push_back(input.gradient ? autograd::gradient_stamp(input.leaf) : 0);
  {
    std::vector<NDArray> from, gradients;
    std::vector<std::pair<size_t, NDArray>> monitored;
    for (size_t i = 0; i < recorded_.size(); ++i) {
      const NDArray& output = recorded_[i];
      if (!autograd::wants_gradient(output)) continue;
      NDArray head = i < heads.size() ? heads[i] : NDArray();
      const bool is_read = reads_head(*symbol().entries()[i].node);
      if (head.defined() && head.shape() != output.shape() && !is_read) head = {};
      const autograd::ModeScope mode(false, false);
      if (!head.defined()) head = nd.ones_like(output);
      gradients.push_back(head.detach().as_in_context(output.device()).astype(output.dtype()));
      from.push_back(output);
      if (is_read) monitored.emplace_back(i, gradients.back());
    }
    const autograd::ModeScope mode(false, training);
    if (!from.empty()) autograd::backward(from, gradients, true, no_site);
    if (monitor_ && backward_monitor_) backward_monitor_->report(monitor_, monitored, contexts_.general);
  }
  clear_what_nothing_reached(stamps);
}

void ExecutorObject::set_monitor(std::function<void(const MonitoredArray&)> call, bool all) {
  monitor_ = std::move(call);
  monitor_all_ = all;
}

size_t ExecutorObject::planned_bytes() {
  std::vector<NDArray> arrays, results(outputs_.size());
  std::vector<const NDArray*> pointers;
  const Device device = contexts_.general.device();
  for (const Input& input : inputs_) {
    arrays.push_back(zeros({input.leaf.shape(), input.leaf.dtype()}, device));
    if (input.gradient) arrays.back().attach_grad(GradReq::write);
  }
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const autograd::ModeScope mode(wants_gradients_, wants_gradients_);
  const DeviceScope scope(device);
  const auto graph = program_.graph_for(metas_of(pointers));
  graph->call(pointers, results, no_site);
  return graph->report()->arena_bytes();
}

}  // namespace kaon::mxnet
