// Object detection as ONNX nodes: boxes, those that overlap better ones, detections and proposals.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/nn/region/kernels/proposal_values.h"

namespace kaon::onnx::exporting {

namespace {

using ops::SuppressKind;

// In which kernels compute.
DType computed_in(DType t) { return size_of(t) == 2 ? DType::float32 : t; }

std::string in_type(Emit& e, const std::string& x, DType from, DType to) { return from == to ? x : e.cast(x, to); }

// 0, 1, ..., n - 1
std::string counted(Emit& e, int64_t n, const Shape& shape, DType dtype) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(double(i));
  return e.array(numbers, shape, dtype);
}

// --- boxes

using Box = std::array<std::string, 4>;

Box sides(Emit& e, const std::string& boxes, int axis) {
  Box b;
  for (int64_t i = 0; i < 4; ++i) b[size_t(i)] = e.slice(boxes, axis, i, i + 1);
  return b;
}

Box corners(Emit& e, const Box& b, BoxFormat format, DType dtype) {
  if (format == BoxFormat::corner) return b;
  const std::string half = e.number(0.5, dtype), w = e.mul(b[2], half), h = e.mul(b[3], half);
  return {e.sub(b[0], w), e.sub(b[1], h), e.add(b[0], w), e.add(b[1], h)};
}

Box centers(Emit& e, const Box& b, DType dtype) {
  const std::string half = e.number(0.5, dtype);
  return {e.mul(e.add(b[0], b[2]), half), e.mul(e.add(b[1], b[3]), half), e.sub(b[2], b[0]), e.sub(b[3], b[1])};
}

// The middle, width and height of an anchor.
Box middle(Emit& e, const Box& b, BoxFormat format) {
  if (format == BoxFormat::center) return b;
  const std::string half = e.number(0.5), w = e.sub(b[2], b[0]), h = e.sub(b[3], b[1]);
  return {e.add(b[0], e.mul(w, half)), e.add(b[1], e.mul(h, half)), w, h};
}

void box_iou(Emit& e) {
  const auto& op = e.op<op::BoxIou>();
  const std::string zero = e.number(0);
  const Box a = corners(e, sides(e, e.reshape(e.in(0), Shape(e.shape(0).size() / 4, 1, 4)), 2), op.format, e.dtype());
  const Box b = corners(e, sides(e, e.reshape(e.in(1), Shape(1, e.shape(1).size() / 4, 4)), 2), op.format, e.dtype());
  const auto length = [&](const std::string& from, const std::string& to) {
    return e.node("Max", {e.sub(to, from), zero});
  };
  const auto area = [&](const Box& x) { return e.mul(length(x[0], x[2]), length(x[1], x[3])); };
  const std::string common = e.mul(length(e.node("Max", {a[0], b[0]}), e.node("Min", {a[2], b[2]})),
                                   length(e.node("Max", {a[1], b[1]}), e.node("Min", {a[3], b[3]})));
  const std::string whole = e.sub(e.add(area(a), area(b)), common), meets = e.less(zero, common);
  e.set(e.reshape(e.where(meets, e.div(common, e.where(meets, whole, e.number(1))), zero), e.result()));
}

void box_decode(Emit& e) {
  const auto& op = e.op<op::BoxDecode>();
  const Box d = sides(e, e.in(0), 2), a = middle(e, sides(e, e.in(1), 2), op.format);
  const auto size = [&](int i, float std) {
    std::string x = e.mul(d[size_t(i)], e.number(std));
    if (op.clip > 0) x = e.node("Min", {x, e.number(op.clip)});
    return e.mul(e.node("Exp", {x}), e.mul(a[size_t(i)], e.number(0.5)));
  };
  const std::string x = e.add(e.mul(e.mul(d[0], e.number(op.std0)), a[2]), a[0]), w = size(2, op.std2);
  const std::string y = e.add(e.mul(e.mul(d[1], e.number(op.std1)), a[3]), a[1]), h = size(3, op.std3);
  e.set(e.concat({e.sub(x, w), e.sub(y, h), e.add(x, w), e.add(y, h)}, 2));
}

void box_take(Emit& e) {
  const auto& op = e.op<op::BoxTake>();
  const Shape& s = e.result();
  const std::string rows = e.reshape(e.in(1), Shape(s[0], s[1], 1)), zero = e.number(0, DType::int64);
  const std::string known = e.node("Clip", {rows, zero, e.number(double(e.shape()[1] - 1), DType::int64)});
  std::string y = e.node("GatherElements", {e.in(0), e.expand(known, s)}, {integer("axis", 1)});
  if (op.in_format != op.out_format) {
    const DType t = computed_in(e.dtype());
    const std::string given = e.slice(y, 2, op.coord_start, op.coord_start + 4);
    const Box from = sides(e, in_type(e, given, e.dtype(), t), 2);
    Box box = op.out_format == BoxFormat::corner ? corners(e, from, op.in_format, t) : centers(e, from, t);
    for (std::string& side : box) side = in_type(e, side, t, e.dtype());
    std::vector<std::string> parts;
    if (op.coord_start > 0) parts.push_back(e.slice(y, 2, 0, op.coord_start));
    parts.insert(parts.end(), box.begin(), box.end());
    if (op.coord_start + 4 < s[2]) parts.push_back(e.slice(y, 2, op.coord_start + 4, s[2]));
    y = e.concat(parts, 2);
  }
  e.set(e.where(e.less(rows, zero), e.number(-1), y));
}

// --- suppression

// _box_suppress. The first `most` candidates of each sample are taken together, in their order: (samples, most).
class Suppression {
 public:
  explicit Suppression(Emit& e) : e_(e), op_(e.op<op::BoxSuppress>()), dtype_(computed_in(e.dtype())) {
    samples_ = e.shape()[0], count_ = e.shape()[1];
    most_ = op_.topk < 0 ? count_ : std::min<int64_t>(op_.topk, count_);
    has_classes_ = op_.id_index >= 0 && !op_.force_suppress;
  }

  void write() {
    if (most_ == 0) return e_.set(e_.expand(whole(-1), e_.result()));
    find_candidates();
    const std::string stays = is_standard() ? by_operator() : by_loop();
    e_.set(op_.kind == SuppressKind::box ? in_front(stays) : at_places(stays));
  }

 private:
  // Whether ONNX's NonMaxSuppression does the same, bit by bit: on corners in float32, by an overlap of 0 to 1. It
  // takes the area of a box from its corners, where Kaon takes it from a width and a height.
  bool is_standard() const {
    const float least = op_.kind == SuppressKind::box ? 0 : std::numeric_limits<float>::denorm_min();
    return dtype_ == DType::float32 && op_.in_format == BoxFormat::corner && op_.overlap_thresh >= least &&
           op_.overlap_thresh <= 1;
  }

  std::string number(double value) { return e_.number(value, dtype_); }
  std::string whole(int64_t value) { return e_.number(double(value), DType::int64); }
  std::string both(const std::string& a, const std::string& b) { return e_.node("And", {a, b}); }
  std::string taken(const std::string& x, const std::string& at) {
    return e_.node("GatherElements", {x, at}, {integer("axis", 1)});
  }
  // The smallest of each row, in order, and where they are.
  std::vector<std::string> smallest(const std::string& keys) {
    return e_.nodes("TopK", {keys, e_.builder().constant({most_})},
                    {integer("axis", -1), integer("largest", 0), integer("sorted", 1)}, 2);
  }
  std::string column(int i) { return e_.reshape(e_.slice(data_, 2, i, i + 1), Shape(samples_, count_)); }

  void find_candidates() {
    data_ = in_type(e_, e_.in(0), e_.dtype(), dtype_);
    const std::string order = e_.node("Clip", {e_.in(1), whole(0), whole(count_ - 1)});
    const std::string classes = op_.id_index >= 0 ? column(op_.id_index) : "";
    std::string is_candidate;
    if (op_.kind == SuppressKind::multibox) {
      is_candidate = e_.node("GreaterOrEqual", {taken(classes, order), number(0)});
    } else {
      is_candidate = e_.node("Greater", {taken(column(op_.score_index), order), number(op_.valid_thresh)});
      if (op_.id_index >= 0) {
        const std::string is_background = e_.equal(taken(classes, order), number(op_.background_id));
        is_candidate = both(is_candidate, e_.node("Not", {is_background}));
      }
    }
    const std::string places = counted(e_, count_, Shape(count_), DType::int64), none = whole(count_);
    const std::vector<std::string> first = smallest(e_.where(is_candidate, places, none));
    is_there_ = e_.less(first[0], none);
    places_ = first[1];
    rows_ = taken(order, places_);
    const std::string boxes = e_.slice(data_, 2, op_.coord_start, op_.coord_start + 4);
    boxes_ = taken(boxes, e_.expand(e_.reshape(rows_, Shape(samples_, most_, 1)), Shape(samples_, most_, 4)));
    if (has_classes_) classes_ = taken(classes, rows_);
    positions_ = counted(e_, most_, Shape(most_), DType::int64);
  }

  // By NonMaxSuppression, to which the candidates of each class in any sample are a class, by scores that fall.
  std::string by_operator() {
    // It exchanges corners where Kaon takes an area of 0, and a box that is not a number overlaps none.
    const Box b = sides(e_, boxes_, 2);
    const std::string is_box = both(e_.node("LessOrEqual", {b[0], b[2]}), e_.node("LessOrEqual", {b[1], b[3]}));
    const std::string boxes = e_.where(is_box, boxes_, number(0));
    const std::string scores = e_.cast(e_.sub(whole(most_), positions_), DType::float32);
    const Shape rows(samples_, 1, most_);
    std::string is_member = e_.reshape(is_there_, rows), alone;
    if (has_classes_) {
      alone = e_.node("IsNaN", {classes_});  // no class is its own
      const std::string known = e_.where(alone, number(0), classes_);
      const std::string all = e_.node("Unsqueeze", {e_.node("Unique", {known}), e_.builder().constant({1})});
      is_member = both(is_member, e_.equal(e_.reshape(classes_, rows), all));
    }
    const float more = op_.kind == SuppressKind::box ? op_.overlap_thresh : std::nextafter(op_.overlap_thresh, 0.0f);
    const std::string found = e_.node(
        "NonMaxSuppression", {boxes, e_.where(is_member, scores, number(-1)), whole(most_), number(more), number(0)});
    const std::string where = e_.node("Gather", {found, e_.builder().constant({0, 2})}, {integer("axis", 1)});
    const std::string count = e_.node("Shape", {found}, {integer("start", 0), integer("end", 1)});
    const std::string none = e_.expand(e_.number(0, DType::boolean), Shape(samples_, most_));
    const std::string stays =
        e_.node("ScatterND", {none, where, e_.node("Expand", {e_.number(1, DType::boolean), count})});
    return has_classes_ ? e_.node("Or", {stays, both(is_there_, alone)}) : stays;
  }

  // By a loop over the candidates: each that is still there removes those behind it that it overlaps.
  std::string by_loop() {
    const Box given = sides(e_, boxes_, 2), b = corners(e_, given, op_.in_format, dtype_);
    const auto plain = [&](const std::string& x) { return e_.reshape(x, Shape(samples_, most_)); };
    const bool is_corner = op_.in_format == BoxFormat::corner;
    const std::string width = is_corner ? e_.sub(b[2], b[0]) : given[2],
                      height = is_corner ? e_.sub(b[3], b[1]) : given[3];
    const std::string is_none = e_.node("Or", {e_.less(width, number(0)), e_.less(height, number(0))});
    const std::string area = plain(e_.where(is_none, number(0), e_.mul(width, height)));
    const Box box{plain(b[0]), plain(b[1]), plain(b[2]), plain(b[3])};
    const std::string samples = e_.reduce("ReduceSum", e_.cast(is_there_, DType::int64), {0}, false);
    const std::string steps = e_.reduce("ReduceSum", e_.cast(e_.less(whole(0), samples), DType::int64), {0}, false);
    Builder& builder = e_.builder();
    const TensorMeta state{Shape(samples_, most_), DType::boolean};
    builder.open_graph("suppress");
    const std::string step = builder.body_input("step", {Shape(), DType::int64});
    const std::string goes_on = builder.body_input("goes_on", {Shape(), DType::boolean});
    const std::string stays = builder.body_input("stays", state);
    const std::string at = e_.reshape(step, Shape(1));
    const auto own = [&](const std::string& x) { return e_.node("Gather", {x, at}, {integer("axis", 1)}); };
    const auto part = [&](size_t axis) {
      const std::string begin = box[axis], end = box[axis + 2], own_begin = own(begin), own_end = own(end);
      const std::string from = e_.where(e_.less(begin, own_begin), own_begin, begin);
      const std::string length = e_.sub(e_.where(e_.less(own_end, end), own_end, end), from);
      return e_.where(e_.less(number(0), length), length, number(0));
    };
    const std::string common = e_.mul(part(0), part(1));
    const std::string all = e_.sub(e_.add(own(area), area), common), ratio = e_.div(common, all);
    const std::string threshold = number(op_.overlap_thresh);
    std::string removes;
    if (op_.kind == SuppressKind::box) {
      removes = e_.less(threshold, ratio);
    } else {
      const std::string is_empty = e_.node("LessOrEqual", {all, number(0)});
      removes = e_.node("LessOrEqual", {threshold, e_.where(is_empty, number(0), ratio)});
    }
    removes = both(removes, both(own(stays), e_.less(step, positions_)));
    if (has_classes_) removes = both(removes, e_.equal(own(classes_), classes_));
    builder.set_body_outputs({goes_on, both(stays, e_.node("Not", {removes}))}, {{Shape(), DType::boolean}, state});
    return e_.node("Loop", {steps, e_.number(1, DType::boolean), is_there_}, {body("body", builder.close_graph())});
  }

  // The rows that stay, then -1.
  std::string in_front(const std::string& stays) {
    const std::string none = whole(most_);
    const std::vector<std::string> first = smallest(e_.where(stays, positions_, none));
    const std::string rows = e_.where(e_.less(first[0], none), taken(rows_, first[1]), whole(-1));
    if (op_.topk < 0) return rows;
    return e_.node("Pad", {rows, e_.builder().constant({0, 0, 0, count_ - most_}), whole(-1)});
  }

  std::string at_places(const std::string& stays) {
    const std::string none = e_.expand(whole(-1), e_.result());
    return e_.node("ScatterElements", {none, places_, e_.where(stays, rows_, whole(-1))}, {integer("axis", 1)});
  }

  Emit& e_;
  const op::BoxSuppress& op_;
  DType dtype_;
  int64_t samples_, count_, most_;
  bool has_classes_;
  std::string data_, is_there_, places_, rows_, boxes_, classes_, positions_;
};

// --- detections of anchors

std::string within_unit(Emit& e, const std::string& x, const std::string& zero, const std::string& one) {
  return e.where(e.less(x, zero), zero, e.where(e.less(one, x), one, x));
}

void multibox_rows(Emit& e) {
  const auto& op = e.op<op::MultiBoxRows>();
  const DType t = computed_in(e.dtype());
  const int64_t samples = e.shape()[0], classes = e.shape()[1], n = e.shape()[2];
  const std::string none = e.number(-1);
  if (classes < 2) return e.set(e.expand(none, e.result()));
  const auto number = [&](double value) { return e.number(value, t); };
  const auto input = [&](int i) { return in_type(e, e.in(i), e.dtype(), t); };
  const std::string given = e.slice(input(0), 1, 1, classes), least = number(-1);
  const std::string scores = e.where(e.node("IsNaN", {given}), least, given);
  const Shape column(samples, n, 1);
  const std::string score = e.reshape(e.reduce("ReduceMax", scores, {1}, false), column);
  const std::string id = e.reshape(e.node("ArgMax", {scores}, {integer("axis", 1), integer("keepdims", 0)}), column);
  const std::string is_found =
      e.node("And", {e.less(least, score), e.node("GreaterOrEqual", {score, number(op.threshold)})});
  const Box d = sides(e, e.reshape(input(1), Shape(samples, n, 4)), 2), a = sides(e, input(2), 2);
  const std::string two = number(2), zero = number(0), one = number(1);
  Box box;
  for (size_t axis : {0, 1}) {
    const std::string size = e.sub(a[axis + 2], a[axis]), middle = e.div(e.add(a[axis], a[axis + 2]), two);
    const std::string at = e.add(e.mul(e.mul(d[axis], number(op.variances[int(axis)])), size), middle);
    const std::string factor = e.node("Exp", {e.mul(d[axis + 2], number(op.variances[int(axis) + 2]))});
    const std::string half = e.div(e.mul(factor, size), two);
    box[axis] = e.sub(at, half), box[axis + 2] = e.add(at, half);
  }
  std::vector<std::string> parts{e.cast(id, t), score};
  for (const std::string& side : box) parts.push_back(op.clip ? within_unit(e, side, zero, one) : side);
  e.set(e.where(is_found, in_type(e, e.concat(parts, 2), t, e.dtype()), none));
}

// --- proposals

// Width and height of each anchor, as kernels have them.
template <class A>
std::vector<std::array<double, 2>> anchor_sizes(const op::ProposalRows& op, int64_t anchors) {
  std::vector<std::array<double, 2>> sizes;
  for (int64_t a = 0; a < anchors; ++a) {
    A size[2];
    ops::anchor_size(op, a, size);
    sizes.push_back({double(size[0]), double(size[1])});
  }
  return sizes;
}

// Rows of all anchors: computed as (image, row, column, anchor, 1).
void proposal_rows(Emit& e) {
  const auto& op = e.op<op::ProposalRows>();
  const DType t = e.result_dtype();
  const Shape& map = e.shape();
  const int64_t images = map[0], anchors = map[1] / 2, h = map[2], w = map[3];
  const auto number = [&](double value) { return e.number(value, t); };
  const auto input = [&](int i) { return in_type(e, e.in(i), e.dtype(i), t); };
  const std::string one = number(1), two = number(2), zero = number(0), none = number(-1);
  const std::string deltas = e.transpose(e.reshape(input(1), Shape{images, anchors, 4, h, w}), {0, 3, 4, 1, 2});
  const std::string foreground = e.transpose(e.slice(input(0), 1, anchors, 2 * anchors), {0, 2, 3, 1});
  std::string score = e.reshape(foreground, Shape{images, h, w, anchors, 1});
  const std::string info = input(2);
  const auto of_image = [&](int64_t i) { return e.reshape(e.slice(info, 1, i, i + 1), Shape{images, 1, 1, 1, 1}); };
  const std::string least = e.mul(number(op.rpn_min_size), of_image(2));
  const std::vector<std::array<double, 2>> extents =
      t == DType::float64 ? anchor_sizes<double>(op, anchors) : anchor_sizes<float>(op, anchors);
  const std::string stride = number(op.feature_stride);
  std::string is_small, is_outside, begin[2], end[2];  // x, then y
  const auto either = [&](const std::string& a, const std::string& b) { return a.empty() ? b : e.node("Or", {a, b}); };
  for (size_t axis : {0, 1}) {
    const int64_t n = axis == 0 ? w : h;
    const std::string place = counted(e, n, axis == 0 ? Shape(n, 1, 1) : Shape(n, 1, 1, 1), t);
    std::vector<double> lengths;
    for (const auto& size : extents) lengths.push_back(size[axis]);
    const std::string extent = e.array(lengths, Shape(anchors, 1), t);
    const std::string middle = e.add(number((op.feature_stride - 1) / 2.0), e.mul(place, stride));
    const std::string near = e.slice(deltas, 4, int64_t(axis), int64_t(axis) + 1),
                      far = e.slice(deltas, 4, int64_t(axis) + 2, int64_t(axis) + 3);
    if (op.iou_loss) {
      const std::string half = e.div(e.sub(extent, one), two);
      begin[axis] = e.add(e.sub(middle, half), near), end[axis] = e.add(e.add(middle, half), far);
    } else {
      const std::string half = e.div(e.sub(e.mul(e.node("Exp", {far}), extent), one), two);
      const std::string moved = e.add(e.mul(near, extent), middle);
      begin[axis] = e.sub(moved, half), end[axis] = e.add(moved, half);
    }
    const std::string size = of_image(axis == 0 ? 1 : 0), last = e.sub(size, one);
    for (std::string* side : {&begin[axis], &end[axis]}) {
      const std::string most = e.where(e.less(last, *side), last, *side);
      *side = e.where(e.less(most, zero), zero, most);
    }
    is_small = either(is_small, e.less(e.add(e.sub(end[axis], begin[axis]), one), least));
    const std::string places = e.div(size, stride);  // toward 0
    const std::string known = e.where(e.less(places, zero), e.node("Ceil", {places}), e.node("Floor", {places}));
    is_outside = either(is_outside, e.node("GreaterOrEqual", {place, known}));
  }
  score = e.where(either(is_small, is_outside), none, score);
  const std::string margin = e.where(is_small, e.div(least, two), zero);
  std::vector<std::string> parts{score};
  for (const std::string& side : begin) parts.push_back(e.sub(side, margin));
  for (const std::string& side : end) parts.push_back(e.add(e.add(side, margin), one));
  e.set(e.reshape(e.concat(parts, 4), e.result()));
}

void proposal_rois(Emit& e) {
  const auto& op = e.op<op::ProposalRois>();
  const DType t = computed_in(e.dtype());
  const int64_t images = e.shape()[0], n = e.shape()[1], count = op.count;
  const auto whole = [&](int64_t value) { return e.number(double(value), DType::int64); };
  // how many are kept before the first that is not, up to `count`
  const std::string missing = e.cast(e.less(e.in(1), whole(0)), DType::int64);
  const std::string before = e.node("CumSum", {missing, whole(1)});
  const std::string kept = e.reduce("ReduceSum", e.cast(e.equal(before, whole(0)), DType::int64), {1}, true);
  const std::string some = e.node("Min", {kept, whole(count)}), is_there = e.less(whole(0), some);
  const std::string turn = counted(e, count, Shape(count), DType::int64);
  const std::string at = e.node("Mod", {turn, e.node("Max", {some, whole(1)})});
  const std::string number = e.node("GatherElements", {e.in(1), at}, {integer("axis", 1)});
  const std::string row = e.node("Clip", {number, whole(0), whole(n - 1)});
  const std::string rows =
      e.node("GatherElements", {e.in(0), e.expand(e.reshape(row, Shape(images, count, 1)), Shape(images, count, 5))},
             {integer("axis", 1)});
  const std::string ends = in_type(e, e.slice(rows, 2, 3, 5), e.dtype(), t);
  const std::string inside =
      in_type(e, e.sub(ends, e.number(1, t)), t, e.dtype());  // pixels at corners belong to boxes
  const std::string found = e.reshape(is_there, Shape(images, 1, 1)), zero = e.number(0);
  const std::string image = e.expand(counted(e, images, Shape(images, 1, 1), e.dtype()), Shape(images, count, 1));
  const std::string box = e.where(found, e.concat({e.slice(rows, 2, 1, 3), inside}, 2), zero);
  e.set(e.reshape(e.concat({image, box}, 2), e.result()), 0);
  e.set(e.reshape(e.where(found, e.slice(rows, 2, 0, 1), zero), e.result(1)), 1);
}

const WriterRow detection_table[] = {
    {&op::BoxIou::def, box_iou},
    {&op::BoxDecode::def, box_decode},
    {&op::BoxTake::def, box_take},
    {&op::BoxSuppress::def, [](Emit& e) { Suppression(e).write(); }},
    {&op::MultiBoxRows::def, multibox_rows},
    {&op::ProposalRows::def, proposal_rows},
    {&op::ProposalRois::def, proposal_rois},
};

}  // namespace

std::span<const WriterRow> detection_writers() { return detection_table; }

}  // namespace kaon::onnx::exporting
