// Executors used: runs, outputs, monitors, and what they say of themselves.
#include <fmt/format.h>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/executor/equal_nodes.h"
#include "kaon/mxnet/executor/executor.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/node/copy_graph.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

int MXExecutorForward(ExecutorHandle handle, int is_train) {
  return guard([&] { executor_of(handle).forward(is_train != 0); });
}

int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len, NDArrayHandle* head_grads, int is_train) {
  return guard([&] {
    std::vector<NDArray> heads;
    for (uint32_t i = 0; i < len; ++i) {
      heads.push_back(head_grads[i] ? to_dense(array_of(head_grads[i])) : NDArray());
    }
    executor_of(handle).backward(std::move(heads), is_train != 0);
  });
}

int MXExecutorOutputs(ExecutorHandle handle, uint32_t* out_size, NDArrayHandle** out) {
  return guard([&] {
    std::vector<void*>& handles = returned().handles;
    handles.clear();
    for (const BoundArray& a : executor_of(handle).outputs()) {
      handles.push_back(a.sparse ? new ArrayObject(a.sparse, a.context) : new_handle(a.array, a.context));
    }
    *out_size = uint32_t(handles.size());
    *out = handles.data();
  });
}

int MXExecutorFree(ExecutorHandle handle) {
  return guard([&] { delete static_cast<ExecutorObject*>(handle); });
}

int MXExecutorPrint(ExecutorHandle handle, const char** out_str) {
  return guard([&] {
    ExecutorObject& executor = executor_of(handle);
    const size_t megabytes = executor.planned_bytes() >> 20;
    returned().text = fmt::format("{}Total {} MB allocated\nTotal 0 TempSpace resource requested\n",
                                  describe(executor.symbol()), megabytes);
    *out_str = returned().text.c_str();
  });
}

int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle* out) {
  return guard([&] {
    const ExecutorObject& executor = executor_of(handle);
    *out = new SymbolObject(executor.merges_equal_nodes() ? without_equal_nodes(executor.symbol())
                                                          : copy_graph(executor.symbol()));
  });
}

int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle, ExecutorMonitorCallback callback, void* callback_handle,
                                   bool monitor_all) {
  return guard([&] {
    std::function<void(const MonitoredArray&)> call;
    if (callback) {
      call = [=](const MonitoredArray& a) { callback(a.name.c_str(), a.handle, callback_handle); };
    }
    executor_of(handle).set_monitor(std::move(call), monitor_all);
  });
}
