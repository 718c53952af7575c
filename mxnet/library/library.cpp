// What the library is: its operators' names and arguments.
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/table/operator_table.h"

using namespace kaon;
using namespace kaon::mxnet;

const char* MXGetLastError() { return last_error(); }

int MXListAllOpNames(uint32_t* out_size, const char*** out_array) {
  return guard([&] {
    const std::vector<const char*>& names = operator_names();
    *out_size = uint32_t(names.size());
    *out_array = const_cast<const char**>(names.data());
  });
}

int NNGetOpHandle(const char* op_name, OpHandle* op_out) {
  return guard([&] {
    const OperatorInfo* info = find_operator(op_name);
    if (!info) refuse("NNGetOpHandle", "MXNet has no such operator");
    *op_out = const_cast<OperatorInfo*>(info);
  });
}

int MXSymbolGetAtomicSymbolInfo(AtomicSymbolCreator creator, const char** name, const char** description,
                                uint32_t* num_args, const char*** arg_names, const char*** arg_type_infos,
                                const char*** arg_descriptions, const char** key_var_num_args,
                                const char** return_type) {
  return guard([&] {
    OperatorInfo& info = *static_cast<OperatorInfo*>(creator);
    *name = info.name.c_str();
    *description = "";
    *num_args = uint32_t(info.c_names.size());
    *arg_names = info.c_names.data();
    *arg_type_infos = info.c_types.data();
    *arg_descriptions = info.c_descriptions.data();
    *key_var_num_args = info.num_args_key.c_str();
    if (return_type) *return_type = nullptr;
  });
}
