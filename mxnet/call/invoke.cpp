// MXImperativeInvokeEx.
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/call/call.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"

using namespace kaon;
using namespace kaon::mxnet;

int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                         NDArrayHandle** outputs, int num_params, const char** param_keys, const char** param_vals,
                         const int** out_stypes) {
  return guard([&] {
    const OperatorInfo& info = *static_cast<const OperatorInfo*>(creator);
    const OwnTexts texts = texts_of(num_params, param_keys, param_vals);
    const std::vector<ArrayObject*> given = arrays_of(inputs, num_inputs);
    Returned& lists = returned();
    if (*outputs && *num_outputs > 0) {
      const std::vector<ArrayObject*> targets = arrays_of(*outputs, *num_outputs);
      call_operator(info, texts, given, targets);
      lists.numbers.clear();
      for (const ArrayObject* x : targets) lists.numbers.push_back(x->storage_number());
    } else {
      Results results = call_operator(info, texts, given);
      lists.handles.clear();
      lists.numbers.clear();
      for (auto& r : results) {
        lists.numbers.push_back(r->storage_number());
        lists.handles.push_back(r.release());
      }
      *num_outputs = int(lists.handles.size());
      lists.handles.push_back(nullptr);  // an empty list has an address too
      *outputs = lists.handles.data();
    }
    lists.numbers.push_back(0);
    *out_stypes = lists.numbers.data();
  });
}
