// CachedOp: a symbol that is called like an operator, which hybridized blocks do.
#include <fmt/format.h>

#include <atomic>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/call/call.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/program/monitor.h"
#include "kaon/mxnet/program/program.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

struct CachedOpObject : Counted<CachedOpObject> {
  CachedOpObject(const Symbol& symbol, const HybridizeOptions& options) : program(symbol, options, "CachedOp") {}
  Program program;
  CachedOpMonitorCallback hook = nullptr;
  bool hook_all = false;
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

// The others (data_indices, inline_limit ...) say how MXNet schedules.
HybridizeOptions options_of(int count, const char** keys, const char** values) {
  HybridizeOptions options;
  for (int i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key == "static_alloc") options.static_alloc = flag(keys[i], values[i]);
    if (key == "static_shape") options.static_shape = flag(keys[i], values[i]);
  }
  return options;
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
  if (!op.hook) {
    program.graph_for(metas)->call(inputs, results, no_site);
    return results;
  }
  const auto call = [&](const MonitoredArray& a) { op.hook(a.name.c_str(), a.node.op_name.c_str(), a.handle); };
  run_nodes(program.symbol_for(metas), program.input_names(), inputs, results,
            monitor_of(call, op.hook_all, false, context));
  return results;
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
  return guard([&] { *out = new CachedOpObject(symbol_of(handle).symbol, options_of(num_flags, keys, vals)); });
}

int MXFreeCachedOp(CachedOpHandle handle) {
  return guard([&] { delete static_cast<CachedOpObject*>(handle); });
}

int MXCachedOpRegisterOpHook(CachedOpHandle handle, CachedOpMonitorCallback callback, bool monitor_all) {
  return guard([&] {
    CachedOpObject& op = cached_op_of(handle);
    op.hook = callback;
    op.hook_all = monitor_all;
  });
}

int MXInvokeCachedOpEx(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                       NDArrayHandle** outputs, const int** out_stypes) {
  return guard([&] {
    const std::vector<ArrayObject*> given = arrays_of(inputs, num_inputs);
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
