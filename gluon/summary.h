// summary: a table of a net's layers, their output shapes and numbers of parameters.
#pragma once

#include <string>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon {

namespace detail {
// `call` gives the block's result for a Symbol.
KAON_API std::string summarize(const Block& block, engine::FunctionRef<Symbol(const Symbol&)> call, const Shape& input,
                               DType dtype);
}  // namespace detail

// Traces the block on an input of this shape; nothing runs. Completes the shapes of parameters, as a first forward
// does. One row per block, in the order in which their (first) calls end; then the blocks that were not called.
// Sequentials have no row.
template <class B>
std::string summary(const B& block, const Shape& input, DType dtype = DType::float32) {
  return detail::summarize(
      block, [&](const Symbol& data) -> Symbol { return block(data); }, input, dtype);
}

}  // namespace gluon
}  // namespace kaon
