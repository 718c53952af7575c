// Proposal and MultiProposal: boxes of all anchors, those that overlap no better one, and the best of these.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/region/kernels/proposal_values.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Checks the maps and the attributes of anchors. Returns how many anchors there are in an image.
template <class Op>
int64_t expect_maps(InferContext& c, const Op& op) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 4);
  const auto expect = [&](const char* name, const FloatTuple& values) {
    bool is_good = values.size() > 0;
    for (int i = 0; i < values.size(); ++i) is_good = is_good && values[i] > 0 && std::isfinite(values[i]);
    if (!is_good) c.fail_value(fmt::format("{} must be positive numbers, got {}", name, to_text(values)));
  };
  expect("scales", op.scales), expect("ratios", op.ratios);
  constexpr int most = 1 << 15;
  if (op.feature_stride < 1 || op.feature_stride > most) {
    c.fail_value(fmt::format("feature_stride must be 1 to {}, got {}", most, op.feature_stride));
  }
  const Shape map = c.shape(0);
  const int64_t anchors = int64_t(op.scales.size()) * op.ratios.size();
  c.expect_shape(0, {map[0], 2 * anchors, map[2], map[3]});
  c.expect_shape(1, {map[0], 4 * anchors, map[2], map[3]});
  c.expect_shape(2, {map[0], 3});
  return map[2] * map[3] * anchors;
}

DType type_of_rows(DType data) { return data == DType::float64 ? data : DType::float32; }

template <class Op>
void infer_proposals(const Op& op, InferContext& c) {
  if (expect_maps(c, op) < 1) c.fail(fmt::format("needs a place; inputs: {}", c.describe_inputs()));
  if (op.rpn_post_nms_top_n < 1) {
    c.fail_value(fmt::format("rpn_post_nms_top_n must be positive, got {}", op.rpn_post_nms_top_n));
  }
  const int64_t n = c.shape(0)[0] * op.rpn_post_nms_top_n;
  c.set_output(0, {n, 5}, c.dtype());
  if (op.output_score) c.set_output(1, {n, 1}, c.dtype());
}

template <class Op>
void compose_proposals(const Op& op, ComposeContext& c) {
  const NDArray rows = nd._proposal_rows(c.input(0), c.input(1), c.input(2),
                                         {op.rpn_min_size, op.scales, op.ratios, op.feature_stride, op.iou_loss});
  const Shape counts(rows.shape()[0], rows.shape()[1]);
  const NDArray scores = nd._reshape_to(nd.slice_axis(rows, 2, 0, 1), {.shape = counts});
  const NDArray order = nd._order(scores, {.is_ascend = false})[1];
  const NDArray kept = nd._box_suppress(rows, order,
                                        {.overlap_thresh = op.threshold,
                                         .valid_thresh = std::numeric_limits<float>::lowest(),
                                         .topk = op.rpn_pre_nms_top_n > 0 ? op.rpn_pre_nms_top_n : -1,
                                         .coord_start = 1,
                                         .score_index = 0,
                                         .force_suppress = true});
  const std::vector<NDArray> found = nd._proposal_rois(rows, kept, {.count = op.rpn_post_nms_top_n});
  for (int i = 0; i < op.num_outputs(); ++i) c.set(i, nd.cast(found[size_t(i)], c.output(i).dtype));
}

}  // namespace

constinit const OpDef op::Proposal::def = make_op_def<op::Proposal>();
constinit const OpDef op::MultiProposal::def = make_op_def<op::MultiProposal>();
constinit const OpDef op::ProposalRows::def = make_op_def<op::ProposalRows>();
constinit const OpDef op::ProposalRois::def = make_op_def<op::ProposalRois>();

void op::Proposal::infer(InferContext& c) const { infer_proposals(*this, c); }
void op::Proposal::compose(ComposeContext& c) const { compose_proposals(*this, c); }
void op::MultiProposal::infer(InferContext& c) const { infer_proposals(*this, c); }
void op::MultiProposal::compose(ComposeContext& c) const { compose_proposals(*this, c); }

void op::ProposalRows::infer(InferContext& c) const {
  const int64_t count = expect_maps(c, *this);
  c.set_output({c.shape(0)[0], count, 5}, type_of_rows(c.dtype()));
}

void run_cpu(const op::ProposalRows& op, KernelContext& c) {
  dispatch_float("_proposal_rows", c.in(0).dtype, [&]<class T>() {
    const ProposalRow<T, accumulate_t<T>> row(op, c);
    c.run.parallel_for(c.out().size() / 5, 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) row(i);
    });
  });
}

void op::ProposalRois::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  const Shape rows = c.shape(0);
  if (c.dtype(1) != DType::int64) {
    c.fail_dtype(fmt::format("numbers of rows must be int64, got {}", name_of(c.dtype(1))));
  }
  if (rows[2] != 5) c.fail(fmt::format("rows must be (n, k, 5), got {}", rows.str()));
  c.expect_shape(1, {rows[0], rows[1]});
  if (count < 1) c.fail_value(fmt::format("count must be positive, got {}", count));
  c.set_output(0, {rows[0] * count, 5}, c.dtype());
  c.set_output(1, {rows[0] * count, 1}, c.dtype());
}

void run_cpu(const op::ProposalRois& op, KernelContext& c) {
  dispatch_float("_proposal_rois", c.in(0).dtype, [&]<class T>() {
    const ProposalRoi<T> roi{op.count,        c.in(0).shape[1], c.in(0).as<const T>(), c.in(1).as<const int64_t>(),
                             c.out().as<T>(), c.out(1).as<T>()};
    c.run.parallel_for(c.out().shape[0], 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) roi(i);
    });
  });
}

}  // namespace kaon
