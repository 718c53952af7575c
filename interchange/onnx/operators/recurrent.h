// LSTM layers whose products are not those of the standard's operator.
#pragma once

#include <cstdint>
#include <functional>

#include "kaon/graph/symbol.h"
#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// What replaces the weights, which are the inputs 1 and 2 of the standard's operator.
struct LstmProducts {
  int64_t size = 0;                               // H
  std::function<Symbol(int direction)> w, r;      // (4 H, inputs), (4 H, H)
  std::function<Symbol(const Symbol& x)> factor;  // what the products take in place of all inputs, or of a state
};
// An LSTM with the standard's other inputs and attributes.
void lstm(Call& c, const LstmProducts& products);

}  // namespace kaon::onnx::convert
