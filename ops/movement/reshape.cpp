#include "kaon/ops/movement/movement.h"

#include <algorithm>

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/ops/array/checked_size.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/movement/kernels/shapes.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Reshape::def = make_op_def<op::Reshape>();
constinit const OpDef op::ReshapeLike::def = make_op_def<op::ReshapeLike>();
constinit const OpDef op::Flatten::def = make_op_def<op::Flatten>();
constinit const OpDef op::ExpandDims::def = make_op_def<op::ExpandDims>();
constinit const OpDef op::Squeeze::def = make_op_def<op::Squeeze>();
constinit const OpDef op::ReshapeTo::def = make_op_def<op::ReshapeTo>();

namespace {

void copy_all(KernelContext& c) { copy_bytes(c.run, c.in(0).data, c.out().data, c.in(0).bytes()); }

void restore_shape(GradContext& g) {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._reshape_to(g.head(), {.shape = g.input_like(0).shape()}));
}

Shape legacy_target(const Shape& in, Shape target, bool keep_highest, InferContext& c) {
  if (keep_highest && !in.empty()) target[0] = in[0];
  int inferred = -1;
  int64_t known = 1;
  for (int i = 0; i < target.ndim(); ++i) {
    if (target[i] != 0 || (keep_highest && i == 0)) {
      known *= target[i];
    } else if (inferred >= 0) {
      c.fail_value(fmt::format("target_shape may leave one dimension 0, got {}", target.str()));
    } else {
      inferred = i;
    }
  }
  if (inferred >= 0) target[inferred] = known != 0 ? in.size() / known : 0;
  return target;
}

}  // namespace

}  // namespace kaon

namespace kaon::ops {

Shape infer_reshape(const Shape& in, const Shape& codes, bool reverse, const char* op) {
  auto fail = [&](const char* why) -> void {
    throw ShapeError(fmt::format("[{}] cannot reshape {} to {}: {}", op, in.str(), codes.str(), why));
  };
  // One code with the two entries that follow a -4.
  struct Token {
    int64_t code, first, second;
  };
  Shape list = codes, dims = in;
  if (reverse) {  // -4 comes after its entries then
    const auto turn = [](Shape& s) {
      if (s.ndim() > 1) std::reverse(&s[0], &s[0] + s.ndim());
    };
    turn(list), turn(dims);
  }
  Token tokens[Shape::max_ndim];
  int count = 0;
  for (int i = 0; i < list.ndim(); ++i) {
    Token t{list[i], 0, 0};
    if (t.code < -4) fail("codes are -4 and above");
    if (t.code == -4) {
      if (i + 2 >= list.ndim()) fail(reverse ? "-4 needs two entries before it" : "-4 needs two entries after it");
      t.first = list[i + 1], t.second = list[i + 2], i += 2;
      if (t.first < -1 || t.second < -1 || (t.first == -1 && t.second == -1)) fail("-4 takes two sizes, one may be -1");
    }
    tokens[count++] = t;
  }
  Shape out;
  int at = 0, inferred = -1;
  // -1 is the product of the dimensions that no code copies, divided by the given sizes: right for a batch of 0 too.
  int64_t given = 1, free = 1;
  bool used[Shape::max_ndim] = {};
  auto take = [&]() -> int64_t {
    if (at >= dims.ndim()) fail("it copies more dimensions than there are");
    used[at] = true;
    return dims[at++];
  };
  for (int i = 0; i < count; ++i) {
    const Token& t = tokens[i];
    if (t.code > 0) {
      if (__builtin_mul_overflow(given, t.code, &given)) fail("the sizes are too large");
      out.push_back(t.code), ++at;
    } else if (t.code == 0) {
      out.push_back(take());
    } else if (t.code == -1) {
      if (inferred >= 0) fail("only one dimension may be -1");
      inferred = out.ndim(), out.push_back(1), ++at;
    } else if (t.code == -2) {
      while (at < dims.ndim()) out.push_back(take());
    } else if (t.code == -3) {
      const int64_t a = take();
      out.push_back(a * take());
    } else {
      const int64_t whole = take();
      int64_t a = t.first, b = t.second;
      if (a == -1 && b > 0) a = whole / b;
      if (b == -1 && a > 0) b = whole / a;
      if (a < 0 || b < 0 || checked_size(Shape(a, b)) != whole) {
        fail("the two sizes after -4 do not multiply to the dimension");
      }
      out.push_back(a), out.push_back(b);
    }
  }
  for (int i = 0; i < dims.ndim(); ++i) {
    if (!used[i]) free *= dims[i];
  }
  if (inferred >= 0) out[inferred] = free / given;
  if (checked_size(out) != in.size()) fail("the number of elements differs");
  if (reverse) std::reverse(&out[0], &out[0] + out.ndim());
  return out;
}

}  // namespace kaon::ops

namespace kaon {

void op::Reshape::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  if (!shape.empty()) {
    c.set_output(infer_reshape(in, shape, reverse, c.op()), c.dtype());
    return;
  }
  if (target_shape.empty()) c.fail_value("needs the attribute shape");
  const Shape out = legacy_target(in, target_shape, keep_highest, c);
  if (!out.is_known() || checked_size(out) != in.size()) {
    c.fail(fmt::format("cannot reshape {} to target_shape {}", in.str(), target_shape.str()));
  }
  c.set_output(out, c.dtype());
}
void op::Reshape::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::Reshape&, KernelContext& c) { copy_all(c); }

void op::ReshapeLike::infer(InferContext& c) const {
  const Shape &lhs = c.shape(0), &rhs = c.shape(1);
  auto position = [&](std::optional<int> given, int otherwise, int ndim) {
    const int p = given ? (*given < 0 ? *given + ndim : *given) : otherwise;
    if (p < 0 || p > ndim) c.fail_value(fmt::format("position {} is out of range for {} dimensions", *given, ndim));
    return p;
  };
  const int lb = position(lhs_begin, 0, lhs.ndim()), le = position(lhs_end, lhs.ndim(), lhs.ndim());
  const int rb = position(rhs_begin, 0, rhs.ndim()), re = position(rhs_end, rhs.ndim(), rhs.ndim());
  if (lb > le || rb > re) c.fail_value("a range begins after its end");
  Shape out;
  for (int i = 0; i < lb; ++i) out.push_back(lhs[i]);
  for (int i = rb; i < re; ++i) out.push_back(rhs[i]);
  for (int i = le; i < lhs.ndim(); ++i) out.push_back(lhs[i]);
  if (out.size() != lhs.size()) c.fail(fmt::format("cannot reshape {} to {}", lhs.str(), out.str()));
  c.set_output(out, c.dtype());
}
void op::ReshapeLike::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::ReshapeLike&, KernelContext& c) { copy_all(c); }

void op::Flatten::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  const Shape& in = c.shape(0);
  c.set_output(Shape(in[0], in.product(1, in.ndim())), c.dtype());
}
void op::Flatten::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::Flatten&, KernelContext& c) { copy_all(c); }

void op::ExpandDims::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  const int last = in.ndim(), at = axis < 0 ? axis + last + 1 : axis;
  if (at < 0 || at > last) {
    c.fail(
        fmt::format("axis {} is out of range: an array of {} dimensions takes {} to {}", axis, last, -last - 1, last));
  }
  Shape out;
  for (int i = 0; i <= in.ndim(); ++i) {
    if (i == at) out.push_back(1);
    if (i < in.ndim()) out.push_back(in[i]);
  }
  c.set_output(out, c.dtype());
}
void op::ExpandDims::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::ExpandDims&, KernelContext& c) { copy_all(c); }

void op::Squeeze::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  uint32_t mask = 0;
  if (axis) {
    for (int64_t a : *axis) {
      const int i = normalize_axis(a, in.ndim(), c.op());
      if (in[i] != 1) c.fail(fmt::format("axis {} must have size 1, got shape {}", a, in.str()));
      mask |= bit(i);
    }
  } else {
    for (int i = 0; i < in.ndim(); ++i) mask |= in[i] == 1 ? bit(i) : 0;
  }
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    if (!((mask >> i) & 1)) out.push_back(in[i]);
  }
  if (out.empty()) out.push_back(1);
  c.set_output(out, c.dtype());
}
void op::Squeeze::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::Squeeze&, KernelContext& c) { copy_all(c); }

void op::ReshapeTo::infer(InferContext& c) const {
  if (!shape.is_known() || checked_size(shape) != c.shape(0).size()) {
    c.fail(fmt::format("cannot reshape {} to {}", c.shape(0).str(), shape.str()));
  }
  c.set_output(shape, c.dtype());
}
void op::ReshapeTo::grad(GradContext& g) const { restore_shape(g); }
void run_cpu(const op::ReshapeTo&, KernelContext& c) { copy_all(c); }

}  // namespace kaon
