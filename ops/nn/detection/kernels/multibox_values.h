// MultiBox: one anchor, one detection, the targets of one sample. For both devices.
#pragma once

#include "kaon/ops/nn/detection/kernels/box_values.h"
#include "kaon/ops/reduce/kernels/order_key.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

template <class A>
KAON_HOST_DEVICE inline A within_unit(A x) {
  return x < 0 ? A(0) : x > 1 ? A(1) : x;
}

// Anchor i of MultiBoxPrior.
template <class T>
struct PriorValue {
  using A = accumulate_t<T>;
  op::MultiBoxPrior op;
  int64_t height, width;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const int sizes = op.sizes.size(), each = sizes + op.ratios.size() - 1, k = int(i % each);
    const int64_t x = i / each % width, y = i / each / width;
    const A step_x = op.steps[1] > 0 ? A(op.steps[1]) : A(1) / A(width);
    const A step_y = op.steps[0] > 0 ? A(op.steps[0]) : A(1) / A(height);
    const A center_x = rounded_product(A(x) + A(op.offsets[1]), step_x);
    const A center_y = rounded_product(A(y) + A(op.offsets[0]), step_y);
    const A size = A(op.sizes[k < sizes ? k : 0]);
    const A ratio = A(::sqrt(A(op.ratios[k < sizes ? 0 : k - sizes + 1])));
    const A w = rounded_product(rounded_product(size, A(height)) / A(width), ratio) / 2, h = size / ratio / 2;
    const A box[] = {center_x - w, center_y - h, center_x + w, center_y + h};
    for (int e = 0; e < 4; ++e) out[i * 4 + e] = T(op.clip ? within_unit(box[e]) : box[e]);
  }
};

// Row i of _multibox_rows.
template <class T>
struct DetectionValue {
  using A = accumulate_t<T>;
  op::MultiBoxRows op;
  int64_t classes, count;
  const T *probability, *location, *anchors;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t sample = i / count, at = i % count;
    A score = -1;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; ++k) {
      const A p = A(probability[(sample * classes + k) * count + at]);
      if (p > score) score = p, best = k;
    }
    T* const to = out + i * 6;
    if (best == 0 || score < A(op.threshold)) {
      for (int e = 0; e < 6; ++e) to[e] = T(-1);
      return;
    }
    const T *const a = anchors + at * 4, *const d = location + i * 4;
    const A left = A(a[0]), top = A(a[1]), right = A(a[2]), bottom = A(a[3]);
    const A x = rounded_product(rounded_product(A(d[0]), A(op.variances[0])), right - left) + (left + right) / 2;
    const A y = rounded_product(rounded_product(A(d[1]), A(op.variances[1])), bottom - top) + (top + bottom) / 2;
    const A w = rounded_product(A(::exp(A(d[2]) * A(op.variances[2]))), right - left) / 2;
    const A h = rounded_product(A(::exp(A(d[3]) * A(op.variances[3]))), bottom - top) / 2;
    const A box[] = {x - w, y - h, x + w, y + h};
    to[0] = T(A(best - 1)), to[1] = T(score);
    for (int e = 0; e < 4; ++e) to[2 + e] = T(op.clip ? within_unit(box[e]) : box[e]);
  }
};

// An array of n entries in ascending order, by heap sort: no two are equal, so that it is as good as a stable one.
template <class E>
KAON_HOST_DEVICE inline void sort_in_place(E* entries, int64_t n) {
  const auto sink = [entries](int64_t at, int64_t end) {
    for (int64_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
      if (child + 1 < end && entries[child] < entries[child + 1]) ++child;
      if (!(entries[at] < entries[child])) return;
      const E swapped = entries[at];
      entries[at] = entries[child], entries[child] = swapped;
      at = child;
    }
  };
  for (int64_t i = n / 2; i-- > 0;) sink(i, n);
  for (int64_t end = n - 1; end > 0; --end) {
    const E swapped = entries[0];
    entries[0] = entries[end], entries[end] = swapped;
    sink(0, end);
  }
}

// The targets of sample i. It has parts of its own in the arrays at the end, of `count` and `labels` elements.
template <class T>
struct TargetSample {
  using A = accumulate_t<T>;
  using Entry = OrderEntry<OrderKey<A>>;
  enum Kind : int8_t { ignored, negative, positive };

  op::MultiBoxTarget op;
  int64_t count, labels, width, classes;
  const T *anchors, *label, *prediction;
  T *loc_target, *loc_mask, *cls_target;
  A* overlap;      // of each anchor with the label that it overlaps most; -1: not known
  int64_t* match;  // that label
  Entry* entries;
  Kind* kind;
  bool* is_matched;  // of each label

  TargetSample(const op::MultiBoxTarget& op, KernelContext& c)
      : op(op),
        count(c.in(0).shape[1]),
        labels(c.in(1).shape[1]),
        width(c.in(1).shape[2]),
        classes(c.in(2).shape[1]),
        anchors(c.in(0).as<const T>()),
        label(c.in(1).as<const T>()),
        prediction(c.in(2).as<const T>()),
        loc_target(c.out(0).as<T>()),
        loc_mask(c.out(1).as<T>()),
        cls_target(c.out(2).as<T>()) {
    const int64_t samples = c.in(1).shape[0];
    const auto make = [&]<class E>(E*& array, int64_t n) {
      array = static_cast<E*>(c.run.workspace(size_t(samples * n) * sizeof(E)));
    };
    make(overlap, count), make(match, count), make(entries, count), make(kind, count), make(is_matched, labels);
  }

  KAON_HOST_DEVICE void operator()(int64_t i) const {
    TargetSample own = *this;
    own.label += i * labels * width, own.prediction += i * classes * count;
    if (loc_target) own.loc_target += i * count * 4;
    if (loc_mask) own.loc_mask += i * count * 4;
    if (cls_target) own.cls_target += i * count;
    own.overlap += i * count, own.match += i * count, own.entries += i * count, own.kind += i * count;
    own.is_matched += i * labels;
    own.run();
  }

 private:
  KAON_HOST_DEVICE void run() {
    int64_t valid = 0;
    while (valid < labels && A(label[valid * width]) != A(-1)) is_matched[valid++] = false;
    for (int64_t a = 0; a < count; ++a) overlap[a] = -1, match[a] = -1, kind[a] = ignored;
    if (valid > 0) {
      const int64_t positives = match_labels(valid) + match_anchors(valid);
      if (op.negative_mining_ratio > 0) {
        choose_negatives(valid, positives);
      } else {
        for (int64_t a = 0; a < count; ++a) kind[a] = kind[a] == positive ? positive : negative;
      }
    }
    for (int64_t a = 0; a < count; ++a) write(a);
  }

  KAON_HOST_DEVICE const T* label_box(int64_t l) const { return label + l * width + 1; }
  KAON_HOST_DEVICE A overlap_of(int64_t a, int64_t l) const {
    const auto p = Box<A>::load(anchors + a * 4, BoxFormat::corner), q = Box<A>::load(label_box(l), BoxFormat::corner);
    const A common = intersection(p, q), all = p.area + q.area - common;
    return all == 0 ? A(0) : common / all;
  }

  // An anchor for each label, the largest overlap first. Returns how many have one.
  KAON_HOST_DEVICE int64_t match_labels(int64_t valid) {
    for (int64_t n = 0; n < valid; ++n) {
      int64_t anchor = -1, best = -1;
      A most = A(1e-6f);
      for (int64_t a = 0; a < count; ++a) {
        for (int64_t l = 0; l < valid && kind[a] != positive; ++l) {
          if (is_matched[l]) continue;
          const A here = overlap_of(a, l);
          if (here > most) most = here, anchor = a, best = l;
        }
      }
      if (anchor < 0) return n;
      overlap[anchor] = most, match[anchor] = best, kind[anchor] = positive, is_matched[best] = true;
    }
    return valid;
  }

  KAON_HOST_DEVICE void find_match(int64_t a, int64_t valid) {
    for (int64_t l = 0; l < valid; ++l) {
      const A here = overlap_of(a, l);
      if (here > overlap[a]) overlap[a] = here, match[a] = l;
    }
  }

  // The label of each other anchor. Returns how many of these are positive.
  KAON_HOST_DEVICE int64_t match_anchors(int64_t valid) {
    if (!(op.overlap_threshold > 0)) return 0;
    int64_t found = 0;
    for (int64_t a = 0; a < count; ++a) {
      if (kind[a] == positive) continue;
      find_match(a, valid);
      if (match[a] >= 0 && overlap[a] > A(op.overlap_threshold)) kind[a] = positive, ++found;
    }
    return found;
  }

  KAON_HOST_DEVICE void choose_negatives(int64_t valid, int64_t positives) {
    const float wanted = float(positives) * op.negative_mining_ratio;
    int64_t n = wanted < float(count - positives) ? int64_t(wanted) : count - positives, found = 0;
    for (int64_t a = 0; a < count && n > 0; ++a) {
      if (kind[a] == positive) continue;
      if (overlap[a] < 0) find_match(a, valid);
      if (!(overlap[a] < A(op.negative_mining_thresh))) continue;
      entries[found++] = Entry(ascending_key(background(a)), uint32_t(a));
    }
    sort_in_place(entries, found);
    for (int64_t k = 0; k < n && k < found; ++k) kind[entries[k].index()] = negative;
  }

  // The softmax of class 0 at an anchor.
  KAON_HOST_DEVICE A background(int64_t a) const {
    A most = A(prediction[a]), sum = 0;
    for (int64_t k = 1; k < classes; ++k) {
      const A p = A(prediction[k * count + a]);
      if (p > most) most = p;
    }
    for (int64_t k = 0; k < classes; ++k) sum += A(::exp(A(prediction[k * count + a]) - most));
    return A(::exp(A(prediction[a]) - most)) / sum;
  }

  KAON_HOST_DEVICE void write(int64_t a) const {
    const bool is_positive = kind[a] == positive;
    if (cls_target) {
      cls_target[a] = T(is_positive ? A(label[match[a] * width]) + 1 : kind[a] == negative ? A(0) : A(op.ignore_label));
    }
    A target[4] = {};
    if (is_positive) {
      const T *const p = anchors + a * 4, *const q = label_box(match[a]);
      for (int axis = 0; axis < 2; ++axis) {
        const A begin = A(p[axis]), end = A(p[axis + 2]), from = A(q[axis]), to = A(q[axis + 2]);
        target[axis] = ((from + to) / 2 - (begin + end) / 2) / (end - begin) / A(op.variances[axis]);
        target[axis + 2] = A(::log((to - from) / (end - begin))) / A(op.variances[axis + 2]);
      }
    }
    for (int e = 0; e < 4; ++e) {
      if (loc_target) loc_target[a * 4 + e] = T(target[e]);
      if (loc_mask) loc_mask[a * 4 + e] = T(is_positive ? A(1) : A(0));
    }
  }
};

}  // namespace kaon::ops
