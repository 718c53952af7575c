// NumPy's pad: axis by axis, by indices of the elements that are repeated.
#include <fmt/format.h>

#include <charconv>

#include "kaon/ops/functions.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::NumpyPad::def = make_op_def<op::NumpyPad>();

std::string ops::to_text(const PadWidths& value) {
  std::string text = "(";
  for (int i = 0; i + 1 < value.numbers.size(); i += 2) {
    text += fmt::format("{}({}, {})", i ? ", " : "", value.numbers[i], value.numbers[i + 1]);
  }
  return text + (value.numbers.size() == 2 ? ",)" : ")");
}

// Pairs in brackets, in brackets.
bool ops::from_text(std::string_view text, PadWidths& value) {
  IntTuple numbers;
  int depth = 0, in_pair = 0;
  for (size_t i = 0; i < text.size();) {
    const char ch = text[i];
    if (ch == '(' || ch == '[') {
      if (++depth > 2) return false;
      in_pair = 0, ++i;
    } else if (ch == ')' || ch == ']') {
      if (depth == 2 ? in_pair != 2 : depth != 1) return false;
      --depth, ++i;
    } else if (ch == ' ' || ch == ',') {
      ++i;
    } else {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), number);
      if (error != std::errc() || depth != 2 || ++in_pair > 2 || !numbers.push_back(number)) return false;
      i = size_t(end - text.data());
    }
  }
  if (depth != 0 || text.find_first_of("([") == text.npos) return false;
  return value.numbers = numbers, true;
}

void op::NumpyPad::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  if (reflect_type != ops::Word{"even"})
    c.fail_value(fmt::format("reflect_type must be even, got {}", reflect_type.text));
  if (pad_width.numbers.size() != 2 * in.ndim()) {
    c.fail_value(
        fmt::format("pad_width must have two numbers for each of {} axes, got {}", in.ndim(), ops::to_text(pad_width)));
  }
  const bool is_extreme = mode == NumpyPadMode::maximum || mode == NumpyPadMode::minimum;
  if (is_extreme && c.dtype() == DType::boolean)
    c.fail_dtype("the largest and smallest are of numbers, got bool; use cast");
  if (mode == NumpyPadMode::constant) expect_holds(c, "constant_value", constant_value, c.dtype());
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    const int64_t before = pad_width.numbers[2 * i], after = pad_width.numbers[2 * i + 1];
    if (before < 0 || after < 0) {
      c.fail_value(fmt::format("pad_width must not be negative, got {}", ops::to_text(pad_width)));
    }
    if (mode != NumpyPadMode::constant && in[i] == 0 && before + after > 0) {
      c.fail(fmt::format("axis {} of data {} has no element to repeat", i, in.str()));
    }
    out.push_back(before + in[i] + after);
  }
  c.set_output(out, c.dtype());
}

namespace {

// Which element of an axis of n stands at each place of the padded one, (before + n + after,).
NDArray sources(NumpyPadMode mode, int64_t n, int64_t before, int64_t after) {
  const op::Arange places{.dtype = DType::int64};
  const NDArray at = nd.arange(double(-before), double(n + after), places);
  if (mode == NumpyPadMode::edge || n == 1) return nd.clip(at, 0, double(n - 1));
  const int64_t last = mode == NumpyPadMode::reflect ? 2 * (n - 1) : 2 * n - 1;  // opposite of 0 in a period
  const NDArray in_period = at % double(mode == NumpyPadMode::reflect ? last : last + 1);
  return nd.minimum(in_period, double(last) - in_period);
}

}  // namespace

void op::NumpyPad::compose(ComposeContext& c) const {
  NDArray x = c.input();
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t before = pad_width.numbers[2 * i], after = pad_width.numbers[2 * i + 1];
    if (before + after == 0) continue;
    if (mode == NumpyPadMode::edge || mode == NumpyPadMode::reflect || mode == NumpyPadMode::symmetric) {
      x = nd.take(x, sources(mode, x.shape()[i], before, after), {.axis = i});
      continue;
    }
    const auto ends = [&](int64_t size) {
      Shape shape = x.shape();
      shape[i] = size;
      if (mode == NumpyPadMode::constant) return nd.full(shape, constant_value, {.dtype = x.dtype()});
      const NDArray extreme = mode == NumpyPadMode::maximum ? nd.max(x, i, true) : nd.min(x, i, true);
      return nd.broadcast_axis(extreme, Shape(i), Shape(size));
    };
    x = nd.concat({.dim = i}, ends(before), x, ends(after));
  }
  c.set(x);
}

}  // namespace kaon
