// MultiBoxPrior, MultiBoxDetection, MultiBoxTarget.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/detection/kernels/multibox_values.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void expect_count(const InferContext& c, const char* name, const FloatTuple& values, int count) {
  if (values.size() != count) {
    c.fail_value(fmt::format("{} must be {} numbers, got {}", name, count, to_text(values)));
  }
}

// Checks cls_prob, loc_pred and anchor. Returns the shape of the detections.
Shape detections(InferContext& c, const FloatTuple& variances) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 3);
  const Shape probability = c.shape(0);
  c.expect_shape(1, {probability[0], probability[2] * 4});
  c.expect_shape(2, {1, probability[2], 4});
  expect_count(c, "variances", variances, 4);
  return {probability[0], probability[2], 6};
}

}  // namespace

// --- MultiBoxPrior

constinit const OpDef op::MultiBoxPrior::def = make_op_def<op::MultiBoxPrior>();

void op::MultiBoxPrior::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 4);
  if (sizes.size() == 0 || ratios.size() == 0) {
    c.fail_value(fmt::format("needs a size and a ratio, got {} and {}", to_text(sizes), to_text(ratios)));
  }
  expect_count(c, "steps", steps, 2);
  expect_count(c, "offsets", offsets, 2);
  if (steps[0] * steps[1] < 0) c.fail_value(fmt::format("needs both steps or none, got {}", to_text(steps)));
  const Shape& data = c.shape(0);
  c.set_output({1, data[2] * data[3] * (sizes.size() + ratios.size() - 1), 4}, c.dtype());
}

void run_cpu(const op::MultiBoxPrior& op, KernelContext& c) {
  dispatch_float("_contrib_MultiBoxPrior", c.out().dtype, [&]<class T>() {
    const PriorValue<T> prior{op, c.in(0).shape[2], c.in(0).shape[3], c.out().as<T>()};
    c.run.parallel_for(c.out().size() / 4, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) prior(i);
    });
  });
}

// --- MultiBoxDetection

constinit const OpDef op::MultiBoxDetection::def = make_op_def<op::MultiBoxDetection>();
constinit const OpDef op::MultiBoxRows::def = make_op_def<op::MultiBoxRows>();

void op::MultiBoxDetection::infer(InferContext& c) const { c.set_output(detections(c, variances), c.dtype()); }

void op::MultiBoxDetection::compose(ComposeContext& c) const {
  // in float32 where data have 16 bits: boxes that are rounded would suppress others
  const DType dtype = c.output().dtype;
  const bool is_narrow = size_of(dtype) == 2;
  const auto input = [&](int i) { return is_narrow ? nd.cast(c.input(i), DType::float32) : c.input(i); };
  const auto give = [&](const NDArray& y) { c.set(is_narrow ? nd.cast(y, dtype) : y); };
  const NDArray found =
      nd._multibox_rows(input(0), input(1), input(2), {.clip = clip, .threshold = threshold, .variances = variances});
  const int64_t samples = found.shape()[0], n = found.shape()[1];
  if (found.size() == 0) return give(found);
  const auto column = [&](const NDArray& rows, int64_t begin, int64_t end) {
    return nd.slice_axis(rows, 2, begin, end);
  };
  // in the order of a number of each row, the largest first
  const auto ordered = [&](const NDArray& by) {
    return nd._order(nd._reshape_to(by, {.shape = {samples, n}}), {.is_ascend = false})[1];
  };
  const bool sorts = nms_threshold > 0 && nms_threshold <= 1, cuts = nms_topk > 0 && nms_topk < n;
  NDArray by_anchor;
  if (!sorts || cuts) {
    by_anchor = nd._box_take(found, ordered(nd._greater_equal_scalar(column(found, 0, 1), {.scalar = 0})), {});
  }
  if (!sorts) return give(by_anchor);
  const NDArray order = ordered(column(found, 1, 2));
  NDArray rows = nd._box_take(found, order, {});
  if (cuts) {
    rows = nd.concat(nd.slice_axis(rows, 1, 0, nms_topk), nd.slice_axis(by_anchor, 1, nms_topk));
  }
  const NDArray kept = nd._box_suppress(found, order,
                                        {.kind = SuppressKind::multibox,
                                         .overlap_thresh = nms_threshold,
                                         .topk = cuts ? nms_topk : -1,
                                         .id_index = 0,
                                         .force_suppress = force_suppress});
  const NDArray stays = nd._greater_equal_scalar(nd._reshape_to(kept, {.shape = {samples, n, 1}}), {.scalar = 0});
  const NDArray ids = column(rows, 0, 1);
  give(nd.concat({.dim = 2}, nd.where(stays, ids, nd.zeros_like(ids) - 1), column(rows, 1, 6)));
}

void op::MultiBoxRows::infer(InferContext& c) const { c.set_output(detections(c, variances), c.dtype()); }

void run_cpu(const op::MultiBoxRows& op, KernelContext& c) {
  dispatch_float("_multibox_rows", c.out().dtype, [&]<class T>() {
    const Shape& probability = c.in(0).shape;
    const DetectionValue<T> row{op,
                                probability[1],
                                probability[2],
                                c.in(0).as<const T>(),
                                c.in(1).as<const T>(),
                                c.in(2).as<const T>(),
                                c.out().as<T>()};
    c.run.parallel_for(c.out().size() / 6, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) row(i);
    });
  });
}

// --- MultiBoxTarget

constinit const OpDef op::MultiBoxTarget::def = make_op_def<op::MultiBoxTarget>();

void op::MultiBoxTarget::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 3);
  c.expect_ndim(1, 3);
  c.expect_ndim(2, 3);
  const Shape &anchor = c.shape(0), &label = c.shape(1), &prediction = c.shape(2);
  if (anchor[0] != 1 || anchor[2] != 4) c.fail(fmt::format("anchor must be (1, n, 4), got {}", anchor.str()));
  if (label[2] < 5) c.fail(fmt::format("label must have a class and a box in each row, got {}", label.str()));
  if (prediction[0] != label[0] || prediction[2] != anchor[1] || prediction[1] < 1) {
    c.fail(fmt::format("cls_pred must be ({}, classes, {}), got {}", label[0], anchor[1], prediction.str()));
  }
  expect_count(c, "variances", variances, 4);
  for (int output : {0, 1}) c.set_output(output, {label[0], anchor[1] * 4}, c.dtype());
  c.set_output(2, {label[0], anchor[1]}, c.dtype());
}

void run_cpu(const op::MultiBoxTarget& op, KernelContext& c) {
  dispatch_float("_contrib_MultiBoxTarget", c.in(0).dtype, [&]<class T>() {
    const TargetSample<T> sample(op, c);
    c.run.parallel_for(c.in(1).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sample(i);
    });
  });
}

}  // namespace kaon
