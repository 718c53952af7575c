// DynamicQuantizeLSTM, which ONNX Runtime's dynamic quantisation writes for LSTM: the products take levels of 8 bits,
// whose scales follow from the values: one for the inputs of all steps, and one for the states at each step.
#include <fmt/format.h>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/recurrent.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

// Rounded to the levels that DynamicQuantizeLinear finds.
Symbol rounded_to_levels(Call& c, const Symbol& x) {
  const std::vector<Value> levels = standard_all(c, "DynamicQuantizeLinear", {Value::of(x)}, {}, 3);
  return standard(c, "DequantizeLinear", levels).symbol;
}

// The numbers of input `i`, (directions, rows, 4 H), with the scale and the zero point at `scale` and behind it, which
// are one for each direction or for each column of it; as (4 H, rows) of one direction.
Symbol weight(Call& c, int i, int scale, int direction) {
  const Shape& shape = c.shape(i);
  return c.conversion().once(c, {i, scale, scale + 1}, fmt::format("DynamicQuantizeLSTM {}", direction), [&] {
    const auto part = [&](int input) {
      const Symbol all = cast(c.x(input), DType::float32);
      const Symbol one = slice_along(all, 0, direction, direction + 1);
      return input == i ? reshaped(one, Shape(shape[1], shape[2])) : reshaped(one, Shape(1, shape_of(one).size()));
    };
    const Symbol numbers = c.has(scale + 1) ? sym.broadcast_sub(part(i), part(scale + 1)) : part(i);
    return sym.transpose(sym.broadcast_mul(numbers, part(scale)));
  });
}

// x, w (directions, inputs, 4 H), r (directions, H, 4 H), bias, lengths, states, peepholes, scales and zero points of w
// and of r
void dynamic_lstm(Call& c) {
  constexpr int w = 1, r = 2, w_scale = 8, r_scale = 10;
  for (const auto& [i, scale] : {std::pair(w, w_scale), std::pair(r, r_scale)}) {
    const Shape& shape = c.shape(i);
    if (shape.ndim() != 3)
      c.fail(fmt::format("input {} must be of shape (directions, rows, 4 hidden), got {}", i, shape.str()));
    for (int at = scale; at < scale + 2; ++at) {
      if (at > scale && !c.has(at)) continue;
      const int64_t size = c.shape(at).size();
      if (c.rank(at) < 1 || c.shape(at)[0] != shape[0] || (size != shape[0] && size != shape[0] * shape[2])) {
        c.fail(fmt::format("input {} must have an element for each of {} directions or for each column, got shape {}",
                           at, shape[0], c.shape(at).str()));
      }
    }
  }
  lstm(c, {.size = c.shape(r)[1],
           .w = [&](int direction) { return weight(c, w, w_scale, direction); },
           .r = [&](int direction) { return weight(c, r, r_scale, direction); },
           .factor = [&](const Symbol& x) { return rounded_to_levels(c, x); }});
}

constexpr Row runtime_recurrent_table[] = {{"DynamicQuantizeLSTM", dynamic_lstm, 1, kMicrosoft}};

}  // namespace

std::span<const Row> runtime_recurrent_rows() { return runtime_recurrent_table; }

}  // namespace kaon::onnx::convert
