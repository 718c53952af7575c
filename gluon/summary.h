// summary: a table of a net's layers, their output shapes and numbers of parameters.
#pragma once

#include <string>

#include "kaon/gluon/block.h"

namespace kaon::gluon {

namespace detail {
// `output` is the traced result of the block.
std::string summarize(const Block& block, const Symbol& output, const Shape& input);
}  // namespace detail

// Traces the block on an input of this shape; nothing runs. Completes the shapes of parameters, as a first forward
// does. The rows are the blocks in the order in which they end, without the Sequentials.
template <class B>
std::string summary(const B& block, const Shape& input, DType dtype = DType::float32) {
  return detail::summarize(block, block(Symbol::variable("data", input, dtype)), input);
}

}  // namespace kaon::gluon
