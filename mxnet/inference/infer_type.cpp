// Dtypes that follow from those of some inputs of a symbol, without shapes. An unknown dtype is -1.
#include "kaon/graph/inference/infer.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/inference/inferred.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

using Type = std::optional<DType>;

void give(std::vector<int>& kept, const std::vector<Type>& types, uint32_t* size, const int** data) {
  kept.clear();
  for (const Type& t : types) kept.push_back(t ? int(*t) : -1);
  *size = uint32_t(kept.size());
  kept.push_back(0);  // so that an empty list has an address too
  *data = kept.data();
}

}  // namespace

int MXSymbolInferType(SymbolHandle sym, uint32_t num_args, const char** keys, const int* arg_type_data,
                      uint32_t* in_type_size, const int** in_type_data, uint32_t* out_type_size,
                      const int** out_type_data, uint32_t* aux_type_size, const int** aux_type_data, int* complete) {
  return guard([&] {
    const Symbol& symbol = symbol_of(sym).symbol;
    const std::vector<std::string> names = input_names(symbol, num_args, keys);
    DTypes known;
    for (uint32_t i = 0; i < num_args; ++i) {
      if (arg_type_data[i] == -1) continue;
      const DType type = DType(arg_type_data[i]);
      if (arg_type_data[i] < 0 || arg_type_data[i] > 127 || !ops::is_valid(type)) {
        throw ValueError("[infer_type] there is no dtype " + std::to_string(arg_type_data[i]));
      }
      known[names[i]] = type;
    }
    const Inferred<Type> found = with_operator_named([&](const graph::SymbolNode** failed) {
      return results<Type>(symbol, graph::infer_types(symbol.entries(), known, {.closes = false, .failed = failed}));
    });
    static thread_local std::vector<int> arguments, outputs, auxiliary;
    give(arguments, found.arguments, in_type_size, in_type_data);
    give(outputs, found.outputs, out_type_size, out_type_data);
    give(auxiliary, found.auxiliary_states, aux_type_size, aux_type_data);
    *complete = found.all([](const Type& t) { return t.has_value(); });
  });
}

int MXSymbolInferTypePartial(SymbolHandle sym, uint32_t num_args, const char** keys, const int* arg_type_data,
                             uint32_t* in_type_size, const int** in_type_data, uint32_t* out_type_size,
                             const int** out_type_data, uint32_t* aux_type_size, const int** aux_type_data,
                             int* complete) {
  const int rc = MXSymbolInferType(sym, num_args, keys, arg_type_data, in_type_size, in_type_data, out_type_size,
                                   out_type_data, aux_type_size, aux_type_data, complete);
  *complete = 1;  // as far as it goes
  return rc;
}
