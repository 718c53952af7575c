// What MXNet's files say of a graph beyond its nodes, so that a symbol is written as MXNet writes it.
#pragma once

#include <memory>

#include "kaon/graph/files/symbol_file.h"

namespace kaon::mxnet {

// `numpy_shape`: the file says that a 0 in a shape is a size.
std::shared_ptr<const graph::SymbolFileInfo> written_info(const std::vector<SymbolEntry>& heads, bool numpy_shape);

}  // namespace kaon::mxnet
