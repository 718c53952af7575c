// CachedOp: a symbol that is called like an operator, which hybridized blocks do.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/call/call.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/program/backward_monitor.h"
#include "kaon/mxnet/program/program.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

struct Flags {
  HybridizeOptions options;
  int64_t inline_limit = 0;
};

int64_t count_operators(const Symbol& symbol) {
  return std::ranges::count_if(graph::topological_order(symbol.entries()),
                               [](const SymbolNode* n) { return is_operator(*n); });
}

// What a program is told of each operator. A block registers its hook before each call, with another function.
struct Hook {
  CachedOpMonitorCallback call = nullptr;  // null: none
  bool all = false;                        // of its inputs too
};

struct CachedOpObject : Counted<CachedOpObject> {
  CachedOpObject(const Symbol& symbol, const Flags& flags)
      : program(symbol, flags.options, "CachedOp"),
        is_inlined(!flags.options.static_alloc && count_operators(program.symbol()) <= flags.inline_limit) {}
  Program program;
  const bool is_inlined;  // its operators are recorded one by one, in place of the whole
  const std::shared_ptr<Hook> hook = std::make_shared<Hook>();  // recorded calls refer to it
};

CachedOpObject& cached_op_of(void* handle) {
  if (!handle) throw ValueError("the handle of a CachedOp is null");
  return *static_cast<CachedOpObject*>(handle);
}

bool flag(const char* key, const char* value) {
  bool on = false;
  if (!ops::from_text(std::string_view(value), on)) {
    throw ValueError(fmt::format("[CachedOp] expected True or False as {}, got '{}'", key, value));
  }
  return on;
}

// MXNet has no winograd and no autotune. The others (data_indices, forward_bulk_size ...) say how it schedules.
Flags flags_of(int count, const char** keys, const char** values) {
  Flags flags;
  flags.options = options_of_environment();
  for (int i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key == "static_alloc") flags.options.static_alloc = flag(keys[i], values[i]);
    if (key == "static_shape") flags.options.static_shape = flag(keys[i], values[i]);
    if (key == "winograd") flags.options.winograd = flag(keys[i], values[i]);
    if (key == "autotune") flags.options.autotune = flag(keys[i], values[i]);
    if (key == "inline_limit" && !ops::from_text(std::string_view(values[i]), flags.inline_limit)) {
      throw ValueError(fmt::format("[CachedOp] expected a number as inline_limit, got '{}'", values[i]));
    }
  }
  return flags;
}

// Calls the hook with outputs, and with the gradients of inputs as long as the CachedOp exists. MXNet names these
// gradients differently from those of executors.
NodeMonitor monitor_of_hook(const std::shared_ptr<const Hook>& hook, Context context) {
  const auto call = [hook](const MonitoredArray& a) { hook->call(a.name.c_str(), a.node.op_name.c_str(), a.handle); };
  NodeMonitor monitor = monitor_of(call, hook->all, false, context);
  monitor.before = [before = std::move(monitor.before), kept = std::weak_ptr(hook), context](
                       const SymbolNode& node, std::span<NDArray> inputs) {
    if (before) before(node, inputs);
    for (size_t i = inputs.size(); i-- > 0;) {  // backwards, so that the gradient of the first arrives first
      if (!autograd::is_recording() || !autograd::wants_gradient(inputs[i])) continue;
      const auto note = [kept, context, name = fmt::format("{}_backward_{}", node.name, i),
                         op = "_backward_" + node.op_name](const NDArray& gradient) {
        const std::shared_ptr<const Hook> hook = kept.lock();
        if (hook && hook->call) hook->call(name.c_str(), op.c_str(), new_handle(gradient.detach(), context));
      };
      inputs[i] = noting_gradient(inputs[i], note);
    }
  };
  return monitor;
}

std::vector<NDArray> run(CachedOpObject& op, std::span<const NDArray* const> inputs, Context context) {
  Program& program = op.program;
  if (inputs.size() != program.input_names().size()) {
    throw ValueError(
        fmt::format("[CachedOp] CachedOp requires {} inputs but got {}", program.input_names().size(), inputs.size()));
  }
  std::vector<NDArray> results(program.num_outputs());
  const DeviceScope scope(context.device());
  const std::vector<TensorMeta> metas = metas_of(inputs);
  if (!op.hook->call && !program.depends_on_values() && !(op.is_inlined && autograd::is_recording())) {
    program.graph_for(metas)->call(inputs, results, no_site);
    return results;
  }
  NodeMonitor monitor;
  if (op.hook->call) monitor = monitor_of_hook(op.hook, context);
  run_nodes(program.symbol_for(metas), program.input_names(), inputs, results, monitor);
  return results;
}

// A plan reads dense arrays: those that stand for the sparse ones among `given`.
std::vector<ArrayObject> dense_ones(std::span<ArrayObject*> given) {
  std::vector<ArrayObject> made;
  if (std::ranges::none_of(given, [](const ArrayObject* x) { return x->sparse != nullptr; })) return made;
  made.reserve(given.size());
  for (ArrayObject*& object : given) {
    if (object->sparse) object = &made.emplace_back(to_dense(*object), object->context);
  }
  return made;
}

void return_results(std::vector<NDArray> results, Context context, int* num_outputs, NDArrayHandle** outputs) {
  std::vector<std::unique_ptr<ArrayObject>> made;
  for (NDArray& a : results) made.push_back(std::make_unique<ArrayObject>(std::move(a), context));
  std::vector<void*>& handles = returned().handles;
  handles.clear();
  for (auto& m : made) handles.push_back(m.release());
  *num_outputs = int(handles.size());
  *outputs = handles.data();
}

}  // namespace

int MXCreateCachedOpEx(SymbolHandle handle, int num_flags, const char** keys, const char** vals, CachedOpHandle* out) {
  return guard([&] { *out = new CachedOpObject(symbol_of(handle).symbol, flags_of(num_flags, keys, vals)); });
}

int MXFreeCachedOp(CachedOpHandle handle) {
  return guard([&] { delete static_cast<CachedOpObject*>(handle); });
}

int MXCachedOpRegisterOpHook(CachedOpHandle handle, CachedOpMonitorCallback callback, bool monitor_all) {
  return guard([&] { *cached_op_of(handle).hook = {callback, monitor_all}; });
}

int MXInvokeCachedOpEx(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                       NDArrayHandle** outputs, const int** out_stypes) {
  return guard([&] {
    std::vector<ArrayObject*> given = arrays_of(inputs, num_inputs);
    const std::vector<ArrayObject> made = dense_ones(given);
    const Context context = context_of_call({}, given, {});
    const Inputs arrays(given, context);
    std::vector<NDArray> results = run(cached_op_of(handle), arrays.arrays(), context);
    returned().numbers.assign(results.size() + 1, 0);  // every result is dense
    *out_stypes = returned().numbers.data();
    if (!*outputs) return return_results(std::move(results), context, num_outputs, outputs);
    const std::vector<ArrayObject*> targets = arrays_of(*outputs, *num_outputs);
    if (targets.size() != results.size()) {
      throw ValueError(
          fmt::format("[CachedOp] has {} outputs, got {} arrays for them", results.size(), targets.size()));
    }
    for (size_t i = 0; i < targets.size(); ++i) put_result(*targets[i], results[i], context);
  });
}
