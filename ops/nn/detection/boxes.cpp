// box_iou, box_decode, box_encode.
#include <fmt/format.h>

#include "kaon/ops/nn/detection/kernels/box_values.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void expect_boxes(const InferContext& c, int input) {
  if (c.shape(input).back() != 4) {
    c.fail(fmt::format("a box is 4 numbers along the last axis; inputs: {}", c.describe_inputs()));
  }
}

// Calls body(i) for [0, n), in pieces.
template <class Body>
void for_each(KernelContext& c, int64_t n, const Body& body) {
  c.run.parallel_for(n, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace

// --- box_iou

constinit const OpDef op::BoxIou::def = make_op_def<op::BoxIou>();

void op::BoxIou::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  Shape out;
  for (int input : {0, 1}) {
    c.expect_ndim_at_least(input, 2);
    expect_boxes(c, input);
    const Shape& s = c.shape(input);
    if (out.ndim() + s.ndim() - 1 > Shape::max_ndim) {
      c.fail(fmt::format("the result has more than 8 dimensions; inputs: {}", c.describe_inputs()));
    }
    for (int i = 0; i + 1 < s.ndim(); ++i) out.push_back(s[i]);
  }
  c.set_output(out, c.dtype());
}

void run_cpu(const op::BoxIou& op, KernelContext& c) {
  dispatch_float("_contrib_box_iou", c.out().dtype, [&]<class T>() {
    for_each(
        c, c.out().size(),
        BoxIouValue<T>{c.in(1).size() / 4, op.format, c.in(0).as<const T>(), c.in(1).as<const T>(), c.out().as<T>()});
  });
}

// --- box_decode

constinit const OpDef op::BoxDecode::def = make_op_def<op::BoxDecode>();

void op::BoxDecode::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 3);
  expect_boxes(c, 0);
  c.expect_shape(1, {1, c.shape(0)[1], 4});
  c.set_output(c.shape(0), c.dtype());
}

void run_cpu(const op::BoxDecode& op, KernelContext& c) {
  dispatch_float("_contrib_box_decode", c.out().dtype, [&]<class T>() {
    for_each(c, c.out().size() / 4,
             BoxDecodeValue<T>{op, c.in(0).shape[1], c.in(0).as<const T>(), c.in(1).as<const T>(), c.out().as<T>()});
  });
}

// --- box_encode

constinit const OpDef op::BoxEncode::def = make_op_def<op::BoxEncode>();

void op::BoxEncode::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 2);
  c.expect_shape(1, c.shape(0));
  const int64_t samples = c.shape(0)[0], anchors = c.shape(0)[1];
  c.expect_shape(2, {samples, anchors, 4});
  c.expect_ndim(3, 3);
  if (c.shape(3)[0] != samples) {
    c.fail(fmt::format("refs must be of {} samples; inputs: {}", samples, c.describe_inputs()));
  }
  expect_boxes(c, 3);
  for (int input : {4, 5}) c.expect_shape(input, Shape(4));
  for (int output : {0, 1}) c.set_output(output, {samples, anchors, 4}, c.dtype());
}

void run_cpu(const op::BoxEncode&, KernelContext& c) {
  dispatch_float("_contrib_box_encode", c.in(0).dtype, [&]<class T>() {
    const auto in = [&](int i) { return c.in(i).as<const T>(); };
    for_each(c, c.in(0).size(),
             BoxEncodeValue<T>{c.in(0).shape[1], c.in(3).shape[1], in(0), in(1), in(2), in(3), in(4), in(5),
                               c.out(0).as<T>(), c.out(1).as<T>()});
  });
}

}  // namespace kaon
