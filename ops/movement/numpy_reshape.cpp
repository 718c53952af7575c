// Reshapes with the codes of NumPy's front end.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "kaon/ops/array/checked_size.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/movement/movement.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::NumpyReshape::def = make_op_def<op::NumpyReshape>();
constinit const OpDef op::NpxReshape::def = make_op_def<op::NpxReshape>();

namespace {

void check_order(const InferContext& c, Word order) {
  if (order != Word{"C"}) c.fail_value(fmt::format("order must be C, got {}", order.text));
}

[[noreturn]] void fail(const InferContext& c, const Shape& codes, std::string_view why) {
  c.fail(fmt::format("cannot reshape {} to {}: {}", c.shape(0).str(), codes.str(), why));
}

// Replaces the dimension `inferred` of `out`, if any, by what is left of the elements of `in`, and checks their number.
Shape completed(const InferContext& c, const Shape& codes, Shape out, int inferred) {
  const Shape& in = c.shape(0);
  if (inferred >= 0) {
    out[inferred] = 1;
    const std::optional<int64_t> given = checked_size(out);
    if (!given || *given == 0 || in.size() % *given != 0) fail(c, codes, "no number takes the place of -1");
    out[inferred] = in.size() / *given;
  }
  if (checked_size(out) != in.size()) fail(c, codes, "the number of elements differs");
  return out;
}

Shape reversed(Shape shape) {
  if (shape.ndim() > 1) std::reverse(&shape[0], &shape[0] + shape.ndim());
  return shape;
}

// The dimensions that codes describe, walked along from the first one on, or with `reverse` from the last. A -6 takes
// the next two codes of this walk, which then stand in front of it, as MXNet has it.
Shape extended_shape(const InferContext& c, const Shape& codes, bool reverse) {
  Shape in = c.shape(0), walked = codes;
  if (reverse) in = reversed(in), walked = reversed(walked);
  Shape out;
  int at = 0, inferred = -1;
  const auto take = [&]() -> int64_t {
    if (at >= in.ndim()) fail(c, codes, "its codes take more dimensions than there are");
    return in[at++];
  };
  const auto give = [&](int64_t size) {
    if (out.ndim() == Shape::max_ndim) fail(c, codes, fmt::format("more than {} dimensions", Shape::max_ndim));
    out.push_back(size);
  };
  for (int i = 0; i < walked.ndim(); ++i) {
    const int64_t code = walked[i];
    if (code >= 0) {
      give(code), ++at;
    } else if (code == -1) {
      if (inferred >= 0) fail(c, codes, "only one dimension may be -1");
      inferred = out.ndim(), give(1), ++at;
    } else if (code == -2) {
      give(take());
    } else if (code == -3) {
      if (take() != 1) fail(c, codes, "-3 leaves a dimension of 1 out");
    } else if (code == -4) {
      while (at < in.ndim()) give(take());
    } else if (code == -5) {
      const int64_t first = take();
      give(first * take());
    } else if (code == -6) {
      if (i + 2 >= walked.ndim()) fail(c, codes, "-6 needs two sizes after it");
      const int64_t whole = take();
      int64_t a = walked[i + 1], b = walked[i + 2];
      i += 2;
      if (a == -1 && b > 0) a = whole / b;
      else if (b == -1 && a > 0) b = whole / a;
      if (a < 0 || b < 0 || checked_size(Shape(a, b)) != whole) {
        fail(c, codes, "the two sizes after -6 do not multiply to the dimension");
      }
      give(a), give(b);
    } else {
      fail(c, codes, "codes are -6 and above");
    }
  }
  out = completed(c, codes, out, inferred);
  return reverse ? reversed(out) : out;
}

}  // namespace

void op::NumpyReshape::infer(InferContext& c) const {
  check_order(c, order);
  int inferred = -1;
  for (int i = 0; i < newshape.ndim(); ++i) {
    if (newshape[i] >= 0) continue;
    if (newshape[i] < -1 || inferred >= 0) fail(c, newshape, "one dimension may be -1, others not negative");
    inferred = i;
  }
  c.set_output(completed(c, newshape, newshape, inferred), c.dtype());
}
void op::NumpyReshape::compose(ComposeContext& c) const {
  c.set(nd._reshape_to(c.input(), {.shape = c.output().shape}));
}

void op::NpxReshape::infer(InferContext& c) const {
  check_order(c, order);
  c.set_output(extended_shape(c, newshape, reverse), c.dtype());
}
void op::NpxReshape::compose(ComposeContext& c) const { c.set(nd._reshape_to(c.input(), {.shape = c.output().shape})); }

}  // namespace kaon
