// summary: a table of a net's layers, their output shapes and numbers of parameters.
#pragma once

#include <string>

#include "kaon/gluon/block.h"

namespace kaon::gluon {

namespace detail {
// `call` gives the block's result for a Symbol.
std::string summarize(const Block& block, FunctionRef<Symbol(const Symbol&)> call, const Shape& input, DType dtype);
}  // namespace detail

// Traces the block on an input of this shape; nothing runs. Completes the shapes of parameters, as a first forward
// does. The rows are the blocks in the order in which their calls end, the first of several; then those that were not
// called. Sequentials have none.
template <class B>
std::string summary(const B& block, const Shape& input, DType dtype = DType::float32) {
  return detail::summarize(
      block, [&](const Symbol& data) -> Symbol { return block(data); }, input, dtype);
}

}  // namespace kaon::gluon
