// Object detection: boxes, their overlap and suppression, anchors and their targets, regions of images.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// A box is four numbers: (left, top, right, bottom), or (x, y, width, height) with x, y in its middle.
enum class BoxFormat : uint8_t { center, corner };
constexpr std::array<std::string_view, 2> enum_names(BoxFormat) { return {"center", "corner"}; }

namespace ops {
// Who is suppressed: for box_nms a box that overlaps a better one by more than the threshold, for MultiBoxDetection by
// the threshold or more.
enum class SuppressKind : uint8_t { box, multibox };
constexpr std::array<std::string_view, 2> enum_names(SuppressKind) { return {"box", "multibox"}; }
}  // namespace ops

namespace op {
// Boxes (..., n, k) of k >= 5 numbers in the order of their scores, without those that overlap a better one. A row has
// its score at score_index, a box at coord_start, and with id_index >= 0 its class there. Rows are dropped whose score
// is not above valid_thresh (NaN is not), and with id_index those of class background_id, -1 too; then all but the
// first topk; then each that overlaps a row before it, of its class unless force_suppress, by an IoU above
// overlap_thresh. The rows that stay come first, their boxes in out_format; the others are -1. Equal scores keep their
// order. topk = 0 gives data as they are. The second output, hidden, has the number of the row in data, or -1, int64
// (..., n, 1). The gradient of a row goes to its source as it is, whatever the formats, as in MXNet. Floating dtypes.
struct BoxNms {
  float overlap_thresh = 0.5f;
  float valid_thresh = 0;
  int topk = -1;
  int coord_start = 2;
  int score_index = 1;
  int id_index = -1;
  int background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::corner;
  BoxFormat out_format = BoxFormat::corner;
  static constexpr OpTraits traits{.name = "_contrib_box_nms",
                                   .outputs = 2,
                                   .visible_outputs = 1,
                                   .aliases = Names("_contrib_box_non_maximum_suppression")};
  static constexpr void fields(auto field) {
    field("overlap_thresh", &BoxNms::overlap_thresh);
    field("valid_thresh", &BoxNms::valid_thresh);
    field("topk", &BoxNms::topk);
    field("coord_start", &BoxNms::coord_start);
    field("score_index", &BoxNms::score_index);
    field("id_index", &BoxNms::id_index);
    field("background_id", &BoxNms::background_id);
    field("force_suppress", &BoxNms::force_suppress);
    field("in_format", &BoxNms::in_format);
    field("out_format", &BoxNms::out_format);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The rows of data (b, n, k) that stay when boxes are suppressed, with attributes as in box_nms and `order` (b, n) the
// numbers of the rows by falling score: their numbers, int64 (b, n). box: those that stay come first, then -1.
// multibox: at each place of `order` its row or -1; a row is dropped whose class is negative.
struct BoxSuppress {
  SuppressKind kind = SuppressKind::box;
  float overlap_thresh = 0.5f;
  float valid_thresh = 0;
  int topk = -1;
  int coord_start = 2;
  int score_index = 1;
  int id_index = -1;
  int background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::corner;
  static constexpr OpTraits traits{
      .name = "_box_suppress", .inputs = Names("data", "order"), .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("kind", &BoxSuppress::kind);
    field("overlap_thresh", &BoxSuppress::overlap_thresh);
    field("valid_thresh", &BoxSuppress::valid_thresh);
    field("topk", &BoxSuppress::topk);
    field("coord_start", &BoxSuppress::coord_start);
    field("score_index", &BoxSuppress::score_index);
    field("id_index", &BoxSuppress::id_index);
    field("background_id", &BoxSuppress::background_id);
    field("force_suppress", &BoxSuppress::force_suppress);
    field("in_format", &BoxSuppress::in_format);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// Row rows[b, i] of data (b, n, k), or -1 where that is negative: (b, m, k) for rows (b, m) of int64; a number past the
// last row is taken for the last. The box at coord_start is changed from in_format to out_format.
struct BoxTake {
  int coord_start = 0;
  BoxFormat in_format = BoxFormat::corner;
  BoxFormat out_format = BoxFormat::corner;
  static constexpr OpTraits traits{.name = "_box_take", .inputs = Names("data", "rows"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("coord_start", &BoxTake::coord_start);
    field("in_format", &BoxTake::in_format);
    field("out_format", &BoxTake::out_format);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
  void grad(GradContext& g) const;
};

// Its gradient, of `count` rows: head[b, i] is added to row rows[b, i] of zeros.
struct BackwardBoxTake {
  int64_t count = 0;
  static constexpr OpTraits traits{.name = "_backward_box_take", .inputs = Names("head", "rows"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("count", &BackwardBoxTake::count); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The intersection of each box of lhs (..., 4) with each of rhs (..., 4), divided by their union: lhs.shape[:-1] +
// rhs.shape[:-1]; 0 where they do not meet. A box of negative width or height has area 0. No gradient.
struct BoxIou {
  BoxFormat format = BoxFormat::corner;
  static constexpr OpTraits traits{.name = "_contrib_box_iou", .inputs = Names("lhs", "rhs"), .flat = true};
  static constexpr void fields(auto field) { field("format", &BoxIou::format); }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};

// Boxes (b, n, 4), as corners, from data (b, n, 4) that say how they differ from anchors (1, n, 4). With an anchor in
// the middle x, y of size w, h: x + std0 d0 w, y + std1 d1 h, w exp(std2 d2), h exp(std3 d3). clip > 0: no exponent
// above it. No gradient, as in MXNet.
struct BoxDecode {
  float std0 = 1;
  float std1 = 1;
  float std2 = 1;
  float std3 = 1;
  float clip = -1;
  BoxFormat format = BoxFormat::center;
  static constexpr OpTraits traits{.name = "_contrib_box_decode", .inputs = Names("data", "anchors"), .flat = true};
  static constexpr void fields(auto field) {
    field("std0", &BoxDecode::std0);
    field("std1", &BoxDecode::std1);
    field("std2", &BoxDecode::std2);
    field("std3", &BoxDecode::std3);
    field("clip", &BoxDecode::clip);
    field("format", &BoxDecode::format);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows(); }
};

// What box_decode would need to make refs[b, matches[b, i]] of anchors (b, n, 4), both as corners, where samples[b, i]
// (b, n) is above 1/2: ((x' - x) / w - means[0]) / stds[0], (log(w' / w) - means[2]) / stds[2], y and h likewise. Else
// 0. And a mask of the same shape that is 1 there. refs (b, m, 4), means and stds (4,). A match outside of [0, m) is
// taken for the nearest. No gradient.
struct BoxEncode {
  static constexpr OpTraits traits{.name = "_contrib_box_encode",
                                   .inputs = Names("samples", "matches", "anchors", "refs", "means", "stds"),
                                   .outputs = 2,
                                   .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.count() == 4 && !q.has_rows(4) && !q.has_rows(5); }
};

// Pairs of rows and columns of scores (..., r, c), the best first: each pair in order of the scores that is better than
// `threshold` and has neither a row nor a column of a pair before. For each row (..., r) the number of its column, for
// each column (..., c) that of its row, or -1, in data's dtype. topk > 0: at most topk + 1 pairs, as MXNet counts. NaN
// makes no pair. No gradient.
struct BipartiteMatching {
  bool is_ascend = false;
  float threshold = 0;
  int topk = -1;
  static constexpr OpTraits traits{.name = "_contrib_bipartite_matching", .outputs = 2};
  static constexpr void fields(auto field) {
    field("is_ascend", &BipartiteMatching::is_ascend);
    field("threshold", &BipartiteMatching::threshold, true);
    field("topk", &BipartiteMatching::topk);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same for scores (b, r, c) whose numbers r * c are in `order`, int64 (b, r c).
struct BipartitePairs {
  bool is_ascend = false;
  float threshold = 0;
  int topk = -1;
  static constexpr OpTraits traits{
      .name = "_bipartite_pairs", .inputs = Names("data", "order"), .outputs = 2, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("is_ascend", &BipartitePairs::is_ascend);
    field("threshold", &BipartitePairs::threshold);
    field("topk", &BipartitePairs::topk);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
}  // namespace op
void run_cpu(const op::BoxSuppress& op, KernelContext& c);
void run_cuda(const op::BoxSuppress& op, KernelContext& c);
void run_cpu(const op::BoxTake& op, KernelContext& c);
void run_cuda(const op::BoxTake& op, KernelContext& c);
void run_cpu(const op::BackwardBoxTake& op, KernelContext& c);
void run_cuda(const op::BackwardBoxTake& op, KernelContext& c);
void run_cpu(const op::BoxIou& op, KernelContext& c);
void run_cuda(const op::BoxIou& op, KernelContext& c);
void run_cpu(const op::BoxDecode& op, KernelContext& c);
void run_cuda(const op::BoxDecode& op, KernelContext& c);
void run_cpu(const op::BoxEncode& op, KernelContext& c);
void run_cuda(const op::BoxEncode& op, KernelContext& c);
void run_cpu(const op::BipartitePairs& op, KernelContext& c);
void run_cuda(const op::BipartitePairs& op, KernelContext& c);

// --- Single-shot detectors (MultiBox): anchors of several sizes at each place of a feature map.

namespace op {
// Anchors for the places of a feature map (b, c, h, w), as corners in parts of the image: (1, h w (s + r - 1), 4) for s
// sizes and r ratios. In the middle ((x + offsets[1]) steps[1], (y + offsets[0]) steps[0]), with steps 1 / w and 1 / h
// unless they are given; first each size with ratios[0], then sizes[0] with each other ratio: size h / w sqrt(ratio)
// wide and size / sqrt(ratio) high. clip: within [0, 1].
struct MultiBoxPrior {
  FloatTuple sizes{1.0f};
  FloatTuple ratios{1.0f};
  bool clip = false;
  FloatTuple steps{-1.0f, -1.0f};
  FloatTuple offsets{0.5f, 0.5f};
  static constexpr OpTraits traits{.name = "_contrib_MultiBoxPrior", .flat = true};
  static constexpr void fields(auto field) {
    field("sizes", &MultiBoxPrior::sizes);
    field("ratios", &MultiBoxPrior::ratios);
    field("clip", &MultiBoxPrior::clip);
    field("steps", &MultiBoxPrior::steps);
    field("offsets", &MultiBoxPrior::offsets);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Detections (b, n, 6): class, score, left, top, right, bottom, in order of their scores. For each of the n anchors
// (1, n, 4) the class but 0 whose probability, cls_prob (b, classes, n), is largest, minus 1, unless it is below
// threshold; its box from loc_pred (b, 4 n) as in box_decode with stds `variances`, within [0, 1] with clip. Of those
// that overlap a better one, of the same class unless force_suppress, by an IoU of nms_threshold or more, the class
// becomes -1. nms_topk > 0: only the first so many count; after them come rows in the order of anchors, of class -1. A
// nms_threshold outside of (0, 1] suppresses nothing and does not sort. Rows without a detection are -1. background_id
// changes nothing, as in MXNet. No gradient.
struct MultiBoxDetection {
  bool clip = true;
  float threshold = 0.01f;
  int background_id = 0;
  float nms_threshold = 0.5f;
  bool force_suppress = false;
  FloatTuple variances{0.1f, 0.1f, 0.2f, 0.2f};
  int nms_topk = -1;
  static constexpr OpTraits traits{.name = "_contrib_MultiBoxDetection",
                                   .inputs = Names("cls_prob", "loc_pred", "anchor")};
  static constexpr void fields(auto field) {
    field("clip", &MultiBoxDetection::clip);
    field("threshold", &MultiBoxDetection::threshold);
    field("background_id", &MultiBoxDetection::background_id);
    field("nms_threshold", &MultiBoxDetection::nms_threshold);
    field("force_suppress", &MultiBoxDetection::force_suppress);
    field("variances", &MultiBoxDetection::variances);
    field("nms_topk", &MultiBoxDetection::nms_topk);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The detections of each anchor, before any is suppressed: (b, n, 6).
struct MultiBoxRows {
  bool clip = true;
  float threshold = 0.01f;
  FloatTuple variances{0.1f, 0.1f, 0.2f, 0.2f};
  static constexpr OpTraits traits{
      .name = "_multibox_rows", .inputs = Names("cls_prob", "loc_pred", "anchor"), .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("clip", &MultiBoxRows::clip);
    field("threshold", &MultiBoxRows::threshold);
    field("variances", &MultiBoxRows::variances);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.count() == 2 && !q.has_rows(2); }
};

// What a detector should say at anchors (1, n, 4) for labels (b, m, k >= 5), each a class and a box, up to the first of
// class -1. First each label, the best overlap first, gets the anchor that it overlaps most; then each other anchor
// gets the label that it overlaps most, if by more than overlap_threshold. These anchors are positive. With
// negative_mining_ratio > 0, of the others that overlap each label by less than negative_mining_thresh those are
// negative whose softmax of cls_pred (b, classes, n) is smallest for class 0: that many times the number of positive
// ones. Else all others are. Outputs: loc_target (b, 4 n), box_encode's with means 0 and stds `variances` at positive
// anchors, else 0; loc_mask (b, 4 n), 1 there; cls_target (b, n), 1 + the class, 0 at negative ones, else ignore_label,
// as everywhere in a sample without labels. minimum_negative_samples changes nothing, as in MXNet. No gradient.
struct MultiBoxTarget {
  float overlap_threshold = 0.5f;
  float ignore_label = -1;
  float negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int minimum_negative_samples = 0;
  FloatTuple variances{0.1f, 0.1f, 0.2f, 0.2f};
  static constexpr OpTraits traits{
      .name = "_contrib_MultiBoxTarget", .inputs = Names("anchor", "label", "cls_pred"), .outputs = 3, .flat = true};
  static constexpr void fields(auto field) {
    field("overlap_threshold", &MultiBoxTarget::overlap_threshold);
    field("ignore_label", &MultiBoxTarget::ignore_label);
    field("negative_mining_ratio", &MultiBoxTarget::negative_mining_ratio);
    field("negative_mining_thresh", &MultiBoxTarget::negative_mining_thresh);
    field("minimum_negative_samples", &MultiBoxTarget::minimum_negative_samples);
    field("variances", &MultiBoxTarget::variances);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.count() == 2 && !q.has_rows(0); }
};
}  // namespace op
void run_cpu(const op::MultiBoxPrior& op, KernelContext& c);
void run_cuda(const op::MultiBoxPrior& op, KernelContext& c);
void run_cpu(const op::MultiBoxRows& op, KernelContext& c);
void run_cuda(const op::MultiBoxRows& op, KernelContext& c);
void run_cpu(const op::MultiBoxTarget& op, KernelContext& c);
void run_cuda(const op::MultiBoxTarget& op, KernelContext& c);

// --- Regions (RoI): a row of rois (r, 5) is the number of an image in data (n, c, h, w), and a box as corners that
// spatial_scale, 0 to 1, makes one of pixels. Regions of an image that does not exist, as -1, give 0. The gradient goes
// to data alone.

namespace op {
// The means of bilinear samples over pooled_size parts of each region: (r, c, rows, columns). sample_ratio x
// sample_ratio samples a part, or where it is not positive ceil(height / rows) x ceil(width / columns). A region is at
// least 1 x 1 pixels large; with `aligned` it moves by half a pixel to the left and up instead. A sample takes pixels
// at the border for those outside, and 0 from one pixel on. position_sensitive: part (i, j) of channel k is from
// channel (k rows + i) columns + j, so that c / (rows columns) are left.
struct ROIAlign {
  Shape pooled_size{};
  float spatial_scale = 0;
  int sample_ratio = -1;
  bool position_sensitive = false;
  bool aligned = false;
  static constexpr OpTraits traits{.name = "_contrib_ROIAlign", .inputs = Names("data", "rois")};
  static constexpr void fields(auto field) {
    field("pooled_size", &ROIAlign::pooled_size, true);
    field("spatial_scale", &ROIAlign::spatial_scale, true);
    field("sample_ratio", &ROIAlign::sample_ratio);
    field("position_sensitive", &ROIAlign::position_sensitive);
    field("aligned", &ROIAlign::aligned);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// Its gradient for data of this shape.
struct BackwardROIAlign {
  Shape shape{};
  float spatial_scale = 0;
  int sample_ratio = -1;
  bool position_sensitive = false;
  bool aligned = false;
  static constexpr OpTraits traits{.name = "_backward_ROIAlign", .inputs = Names("head", "rois"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &BackwardROIAlign::shape);
    field("spatial_scale", &BackwardROIAlign::spatial_scale);
    field("sample_ratio", &BackwardROIAlign::sample_ratio);
    field("position_sensitive", &BackwardROIAlign::position_sensitive);
    field("aligned", &BackwardROIAlign::aligned);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The largest pixels of pooled_size parts of each region: (r, c, rows, columns). Corners are rounded to whole pixels,
// both belong to the region, and it has at least one; a part is from floor to ceil of its share, and 0 where the image
// has nothing of it. NaN in a part gives NaN. The second output, hidden, has the pixel in its channel, or -1, int64.
// The gradient goes to the first largest pixel.
struct ROIPooling {
  Shape pooled_size{};
  float spatial_scale = 0;
  static constexpr OpTraits traits{
      .name = "ROIPooling", .inputs = Names("data", "rois"), .outputs = 2, .visible_outputs = 1};
  static constexpr void fields(auto field) {
    field("pooled_size", &ROIPooling::pooled_size, true);
    field("spatial_scale", &ROIPooling::spatial_scale, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// Its gradient for data of this shape, from head, rois and the pixels that it took.
struct BackwardROIPooling {
  Shape shape{};
  static constexpr OpTraits traits{
      .name = "_backward_ROIPooling", .inputs = Names("head", "rois", "pixels"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &BackwardROIPooling::shape); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::ROIAlign& op, KernelContext& c);
void run_cuda(const op::ROIAlign& op, KernelContext& c);
void run_cpu(const op::BackwardROIAlign& op, KernelContext& c);
void run_cuda(const op::BackwardROIAlign& op, KernelContext& c);
void run_cpu(const op::ROIPooling& op, KernelContext& c);
void run_cuda(const op::ROIPooling& op, KernelContext& c);
void run_cpu(const op::BackwardROIPooling& op, KernelContext& c);
void run_cuda(const op::BackwardROIPooling& op, KernelContext& c);

}  // namespace kaon
