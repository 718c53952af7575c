// Regions of images, beyond RoIAlign and RoIPooling: position-sensitive, deformed and rotated ones, and proposals.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace ops {
enum class RegionPart { forward, backward_data, backward_trans };

constexpr OpTraits position_sensitive_traits(RegionPart part) {
  if (part == RegionPart::forward) return {.name = "_contrib_PSROIPooling", .inputs = Names("data", "rois")};
  return {.name = "_backward_PSROIPooling", .inputs = Names("head", "rois"), .in_mxnet = false};
}
constexpr OpTraits deformable_traits(RegionPart part) {
  switch (part) {
    case RegionPart::forward:
      return {.name = "_contrib_DeformablePSROIPooling", .inputs = Names("data", "rois", "trans")};
    case RegionPart::backward_data:
      return {
          .name = "_backward_DeformablePSROIPooling_data", .inputs = Names("head", "rois", "trans"), .in_mxnet = false};
    case RegionPart::backward_trans:
      return {.name = "_backward_DeformablePSROIPooling_trans",
              .inputs = Names("head", "data", "rois", "trans"),
              .in_mxnet = false};
  }
  return {};
}
constexpr OpTraits rotated_traits(RegionPart part) {
  if (part == RegionPart::forward) return {.name = "_contrib_RROIAlign", .inputs = Names("data", "rois")};
  return {.name = "_backward_RROIAlign", .inputs = Names("head", "rois"), .in_mxnet = false};
}
}  // namespace ops

// --- Regions (RoI): a row of rois (r, 5) is the number of an image in data (n, c, h, w), and a box as corners, which
// spatial_scale makes one of pixels. Regions of an image that does not exist, as -1, give 0. The first of the other
// parts of an operator is its gradient of data of `shape`.

namespace op {
// The means of pixels over pooled_size x pooled_size parts of each region: (r, output_dim, pooled_size, pooled_size).
// Part (i, j) of result k is from channel (k g + floor(i g / pooled_size)) g + floor(j g / pooled_size) of
// output_dim g g, g = group_size, or pooled_size where that is 0. Corners are rounded to whole numbers, both belong to
// the region, which is at least 0.1 large; a part has the pixels from floor to ceil of its share, and is 0 without any.
template <RegionPart P>
struct PSROIPoolingOp {
  float spatial_scale = 0;
  int output_dim = 0;
  int pooled_size = 0;
  int group_size = 0;
  Shape shape{};
  static constexpr OpTraits traits = ops::position_sensitive_traits(P);
  static constexpr void fields(auto field) {
    field("spatial_scale", &PSROIPoolingOp::spatial_scale, true);
    field("output_dim", &PSROIPoolingOp::output_dim, true);
    field("pooled_size", &PSROIPoolingOp::pooled_size, true);
    field("group_size", &PSROIPoolingOp::group_size);
    if constexpr (P != RegionPart::forward) field("shape", &PSROIPoolingOp::shape);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const requires(P == RegionPart::forward);
};
using PSROIPooling = PSROIPoolingOp<RegionPart::forward>;
using BackwardPSROIPooling = PSROIPoolingOp<RegionPart::backward_data>;

// The same of sample_per_part x sample_per_part bilinear samples of each part, which has moved: unless no_trans, by
// trans_std trans[r, 2 l + (0, 1), i', j'] times the width and height of the region, trans (r, 2 classes, part_size,
// part_size), where class l has output_dim / classes results and i', j' = floor(i part_size / pooled_size), of
// pooled_size where part_size is 0. Regions begin half a pixel further left and up; samples begin at the corner of a
// part. Those more than half a pixel outside of the image do not count.
template <RegionPart P>
struct DeformablePSROIPoolingOp {
  float spatial_scale = 0;
  int output_dim = 0;
  int group_size = 0;
  int pooled_size = 0;
  int part_size = 0;
  int sample_per_part = 1;
  float trans_std = 0;
  bool no_trans = false;
  Shape shape{};
  static constexpr OpTraits traits = ops::deformable_traits(P);
  static constexpr void fields(auto field) {
    field("spatial_scale", &DeformablePSROIPoolingOp::spatial_scale, true);
    field("output_dim", &DeformablePSROIPoolingOp::output_dim, true);
    field("group_size", &DeformablePSROIPoolingOp::group_size, true);
    field("pooled_size", &DeformablePSROIPoolingOp::pooled_size, true);
    field("part_size", &DeformablePSROIPoolingOp::part_size);
    field("sample_per_part", &DeformablePSROIPoolingOp::sample_per_part);
    field("trans_std", &DeformablePSROIPoolingOp::trans_std);
    field("no_trans", &DeformablePSROIPoolingOp::no_trans);
    if constexpr (P == RegionPart::backward_data) field("shape", &DeformablePSROIPoolingOp::shape);
  }
  static const OpDef def;
  int num_inputs() const { return traits.inputs.size() - int(no_trans); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const requires(P == RegionPart::forward);
};
using DeformablePSROIPooling = DeformablePSROIPoolingOp<RegionPart::forward>;
using BackwardDeformablePSROIPoolingData = DeformablePSROIPoolingOp<RegionPart::backward_data>;
using BackwardDeformablePSROIPoolingTrans = DeformablePSROIPoolingOp<RegionPart::backward_trans>;

// ROIAlign of rotated regions: rois (r, 6) are the image, x and y of the middle, width and height, at least a pixel,
// and an angle in degrees, by which the region is turned from the x axis to minus the y axis: upwards, as images have
// it. pooled_size is (rows, columns), sampling_ratio as sample_ratio of ROIAlign.
template <RegionPart P>
struct RROIAlignOp {
  Shape pooled_size{};
  float spatial_scale = 0;
  int sampling_ratio = -1;
  Shape shape{};
  static constexpr OpTraits traits = ops::rotated_traits(P);
  static constexpr void fields(auto field) {
    field("pooled_size", &RROIAlignOp::pooled_size, true);
    field("spatial_scale", &RROIAlignOp::spatial_scale, true);
    field("sampling_ratio", &RROIAlignOp::sampling_ratio);
    if constexpr (P != RegionPart::forward) field("shape", &RROIAlignOp::shape);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const requires(P == RegionPart::forward);
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};
using RROIAlign = RROIAlignOp<RegionPart::forward>;
using BackwardRROIAlign = RROIAlignOp<RegionPart::backward_data>;

// Their members are in regions.cpp.
extern template struct PSROIPoolingOp<RegionPart::forward>;
extern template struct PSROIPoolingOp<RegionPart::backward_data>;
extern template struct DeformablePSROIPoolingOp<RegionPart::forward>;
extern template struct DeformablePSROIPoolingOp<RegionPart::backward_data>;
extern template struct DeformablePSROIPoolingOp<RegionPart::backward_trans>;
extern template struct RROIAlignOp<RegionPart::forward>;
extern template struct RROIAlignOp<RegionPart::backward_data>;
}  // namespace op
template <ops::RegionPart P>
void run_cpu(const op::PSROIPoolingOp<P>& op, KernelContext& c);
template <ops::RegionPart P>
void run_cuda(const op::PSROIPoolingOp<P>& op, KernelContext& c);
template <ops::RegionPart P>
void run_cpu(const op::DeformablePSROIPoolingOp<P>& op, KernelContext& c);
template <ops::RegionPart P>
void run_cuda(const op::DeformablePSROIPoolingOp<P>& op, KernelContext& c);
template <ops::RegionPart P>
void run_cpu(const op::RROIAlignOp<P>& op, KernelContext& c);
template <ops::RegionPart P>
void run_cuda(const op::RROIAlignOp<P>& op, KernelContext& c);

// --- Proposals: the boxes that a network of region proposals (RPN) finds.

namespace op {
// The rpn_post_nms_top_n best boxes of each image, as rois (n m, 5) of the number of the image and corners, and with
// output_score their scores (n m, 1). At each place of a map (h, w), feature_stride pixels apart, are anchors of all
// ratios (height / width) and scales; anchor a's score is cls_prob[:, A + a] of (n, 2 A, h, w), its box is moved by
// bbox_pred (n, 4 A, h, w) as box_decode has it, or by iou_loss with the numbers added to its corners, and cut to the
// image, whose height, width and scale are im_info (n, 3). A box that is less than rpn_min_size times the scale high or
// wide grows by half of that on each side and has score -1, as have places outside of the image. Of the
// rpn_pre_nms_top_n best boxes, all where that is not positive, those stay that overlap no better one by an IoU above
// threshold; where they are fewer than m they are repeated in order. A box contains the pixels at both corners. The
// gradient is zero. MXNet takes one image in Proposal.
struct Proposal {
  int rpn_pre_nms_top_n = 6000;
  int rpn_post_nms_top_n = 300;
  float threshold = 0.7f;
  int rpn_min_size = 16;
  FloatTuple scales{4.0f, 8.0f, 16.0f, 32.0f};
  FloatTuple ratios{0.5f, 1.0f, 2.0f};
  int feature_stride = 16;
  bool output_score = false;
  bool iou_loss = false;
  static constexpr OpTraits traits{
      .name = "_contrib_Proposal", .inputs = Names("cls_prob", "bbox_pred", "im_info"), .outputs = 2, .flat = true};
  static constexpr void fields(auto field) {
    field("rpn_pre_nms_top_n", &Proposal::rpn_pre_nms_top_n);
    field("rpn_post_nms_top_n", &Proposal::rpn_post_nms_top_n);
    field("threshold", &Proposal::threshold);
    field("rpn_min_size", &Proposal::rpn_min_size);
    field("scales", &Proposal::scales);
    field("ratios", &Proposal::ratios);
    field("feature_stride", &Proposal::feature_stride);
    field("output_score", &Proposal::output_score);
    field("iou_loss", &Proposal::iou_loss);
  }
  static const OpDef def;
  int num_outputs() const { return output_score ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same of several images.
struct MultiProposal {
  int rpn_pre_nms_top_n = 6000;
  int rpn_post_nms_top_n = 300;
  float threshold = 0.7f;
  int rpn_min_size = 16;
  FloatTuple scales{4.0f, 8.0f, 16.0f, 32.0f};
  FloatTuple ratios{0.5f, 1.0f, 2.0f};
  int feature_stride = 16;
  bool output_score = false;
  bool iou_loss = false;
  static constexpr OpTraits traits{.name = "_contrib_MultiProposal",
                                   .inputs = Names("cls_prob", "bbox_pred", "im_info"),
                                   .outputs = 2,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("rpn_pre_nms_top_n", &MultiProposal::rpn_pre_nms_top_n);
    field("rpn_post_nms_top_n", &MultiProposal::rpn_post_nms_top_n);
    field("threshold", &MultiProposal::threshold);
    field("rpn_min_size", &MultiProposal::rpn_min_size);
    field("scales", &MultiProposal::scales);
    field("ratios", &MultiProposal::ratios);
    field("feature_stride", &MultiProposal::feature_stride);
    field("output_score", &MultiProposal::output_score);
    field("iou_loss", &MultiProposal::iou_loss);
  }
  static const OpDef def;
  int num_outputs() const { return output_score ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The boxes of all anchors before one suppresses another: (n, h w A, 5), score, left, top, and right and bottom plus 1,
// by place and then by anchor; float64 of such data, else float32.
struct ProposalRows {
  int rpn_min_size = 16;
  FloatTuple scales{4.0f, 8.0f, 16.0f, 32.0f};
  FloatTuple ratios{0.5f, 1.0f, 2.0f};
  int feature_stride = 16;
  bool iou_loss = false;
  static constexpr OpTraits traits{
      .name = "_proposal_rows", .inputs = Names("cls_prob", "bbox_pred", "im_info"), .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("rpn_min_size", &ProposalRows::rpn_min_size);
    field("scales", &ProposalRows::scales);
    field("ratios", &ProposalRows::ratios);
    field("feature_stride", &ProposalRows::feature_stride);
    field("iou_loss", &ProposalRows::iou_loss);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// Of such rows (n, k, 5) those whose numbers are kept (n, k), int64, up to the first negative one: `count` of each
// image, repeated in order where they are fewer, 0 where there are none: rois (n count, 5) and scores (n count, 1).
struct ProposalRois {
  int64_t count = 1;
  static constexpr OpTraits traits{
      .name = "_proposal_rois", .inputs = Names("rows", "kept"), .outputs = 2, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) { field("count", &ProposalRois::count); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::ProposalRows& op, KernelContext& c);
void run_cuda(const op::ProposalRows& op, KernelContext& c);
void run_cpu(const op::ProposalRois& op, KernelContext& c);
void run_cuda(const op::ProposalRois& op, KernelContext& c);

}  // namespace kaon
