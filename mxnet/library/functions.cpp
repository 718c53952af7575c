// The two other ways in which MXNet lists functions: neither has any here.
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {
const char* no_names[] = {nullptr};
FunctionHandle no_functions[] = {nullptr};
}  // namespace

int MXListFunctions(uint32_t* out_size, FunctionHandle** out_array) {
  return guard([&] {
    *out_size = 0;
    *out_array = no_functions;
  });
}
int MXNetFuncListGlobalNames(int* out_size, const char*** out_array) {
  return guard([&] {
    *out_size = 0;
    *out_array = no_names;
  });
}
// MXNet gives null for a name that it does not have.
int MXNetFuncGetGlobal(const char*, MXNetFunctionHandle* out) {
  return guard([&] { *out = nullptr; });
}
