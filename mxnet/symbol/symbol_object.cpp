#include "kaon/mxnet/symbol/symbol_object.h"

namespace kaon::mxnet {

SymbolObject& symbol_of(void* handle) {
  if (!handle) throw ValueError("the handle of a symbol is null");
  return *static_cast<SymbolObject*>(handle);
}

}  // namespace kaon::mxnet
