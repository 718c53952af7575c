// Boxes as numbers, and one element of each operator on boxes. For both devices.
#pragma once

#include <math.h>

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/detection/detection.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// a b, rounded by itself: were it part of a fused multiply-add, a GPU would choose other boxes than the CPU.
template <class A>
KAON_HOST_DEVICE inline A rounded_product(A a, A b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(A) == 8) {
    return __dmul_rn(a, b);
  } else {
    return __fmul_rn(a, b);
  }
#else
  return a * b;
#endif
}

// A box as its corners. `area` is that of its own numbers, 0 where one of its sides is negative.
template <class A>
struct Box {
  A left, top, right, bottom, area;

  template <class T>
  KAON_HOST_DEVICE static Box load(const T* p, BoxFormat format) {
    const A a = A(p[0]), b = A(p[1]), c = A(p[2]), d = A(p[3]);
    if (format == BoxFormat::corner) return {a, b, c, d, area_of(c - a, d - b)};
    const A w = c / 2, h = d / 2;
    return {a - w, b - h, a + w, b + h, area_of(c, d)};
  }
  KAON_HOST_DEVICE static A area_of(A width, A height) {
    return width < 0 || height < 0 ? A(0) : rounded_product(width, height);
  }
};

template <class A>
KAON_HOST_DEVICE inline A common_part(A first_begin, A first_end, A second_begin, A second_end) {
  const A begin = first_begin > second_begin ? first_begin : second_begin;
  const A end = first_end < second_end ? first_end : second_end;
  return end - begin > 0 ? end - begin : A(0);
}
template <class A>
KAON_HOST_DEVICE inline A intersection(const Box<A>& a, const Box<A>& b) {
  return rounded_product(common_part(a.left, a.right, b.left, b.right), common_part(a.top, a.bottom, b.top, b.bottom));
}

// The nearest of n numbers from 0 on: none is followed out of an array.
KAON_HOST_DEVICE inline int64_t nearest_index(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

// The element i of box_iou.
template <class T>
struct BoxIouValue {
  using A = accumulate_t<T>;
  int64_t count;  // of rhs
  BoxFormat format;
  const T *lhs, *rhs;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const Box<A> a = Box<A>::load(lhs + i / count * 4, format), b = Box<A>::load(rhs + i % count * 4, format);
    const A common = intersection(a, b);
    out[i] = T(common > 0 ? common / (a.area + b.area - common) : A(0));
  }
};

// An anchor as its middle and size.
template <class A>
struct Anchor {
  A x, y, width, height;
  template <class T>
  KAON_HOST_DEVICE static Anchor load(const T* p, BoxFormat format) {
    const A a = A(p[0]), b = A(p[1]), c = A(p[2]), d = A(p[3]);
    if (format == BoxFormat::center) return {a, b, c, d};
    return {a + rounded_product(c - a, A(0.5)), b + rounded_product(d - b, A(0.5)), c - a, d - b};
  }
};

// Box i of box_decode.
template <class T>
struct BoxDecodeValue {
  using A = accumulate_t<T>;
  op::BoxDecode op;
  int64_t count;  // anchors
  const T *data, *anchors;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const Anchor<A> a = Anchor<A>::load(anchors + i % count * 4, op.format);
    const T* const d = data + i * 4;
    const A x = rounded_product(rounded_product(A(d[0]), A(op.std0)), a.width) + a.x;
    const A y = rounded_product(rounded_product(A(d[1]), A(op.std1)), a.height) + a.y;
    const A w = half(A(d[2]) * A(op.std2), a.width), h = half(A(d[3]) * A(op.std3), a.height);
    T* const to = out + i * 4;
    to[0] = T(x - w), to[1] = T(y - h), to[2] = T(x + w), to[3] = T(y + h);
  }

 private:
  KAON_HOST_DEVICE A half(A exponent, A size) const {
    if (op.clip > 0 && exponent > A(op.clip)) exponent = A(op.clip);
    return rounded_product(rounded_product(A(::exp(exponent)), size), A(0.5));
  }
};

// Box i of box_encode.
template <class T>
struct BoxEncodeValue {
  using A = accumulate_t<T>;
  int64_t anchor_count, ref_count;  // of a sample
  const T *samples, *matches, *anchors, *refs, *means, *stds;
  T *targets, *masks;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const bool is_sample = A(samples[i]) > A(0.5) && ref_count > 0;
    A target[4] = {};
    if (is_sample) {
      const A match = A(matches[i]);
      const int64_t at = !(match > 0) ? 0 : match >= A(ref_count - 1) ? ref_count - 1 : int64_t(match);
      const T* const ref = refs + (i / anchor_count * ref_count + at) * 4;
      const Anchor<A> a = Anchor<A>::load(anchors + i * 4, BoxFormat::corner);
      const Anchor<A> b = Anchor<A>::load(ref, BoxFormat::corner);
      target[0] = (b.x - a.x) / a.width, target[1] = (b.y - a.y) / a.height;
      target[2] = A(::log(b.width / a.width)), target[3] = A(::log(b.height / a.height));
    }
    for (int k = 0; k < 4; ++k) {
      if (targets) targets[i * 4 + k] = T(is_sample ? (target[k] - A(means[k])) / A(stds[k]) : A(0));
      if (masks) masks[i * 4 + k] = T(is_sample ? A(1) : A(0));
    }
  }
};

// Number i of _box_take.
template <class T>
struct BoxTakeValue {
  using A = accumulate_t<T>;
  op::BoxTake op;
  int64_t count, taken, width;  // rows of data and of the result, numbers of a row
  const T* data;
  const int64_t* rows;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = i / width;
    const int k = int(i % width), part = k - op.coord_start;
    if (rows[at] < 0 || count == 0) {
      out[i] = T(-1);
      return;
    }
    const int64_t row = nearest_index(rows[at], count);
    const T* const from = data + (at / taken * count + row) * width;
    out[i] = op.in_format == op.out_format || part < 0 || part > 3 ? from[k] : converted(from + op.coord_start, part);
  }

 private:
  KAON_HOST_DEVICE T converted(const T* box, int part) const {
    const A a = A(box[part & 1]), b = A(box[2 + (part & 1)]);
    if (op.out_format == BoxFormat::center) return T(part < 2 ? (a + b) / 2 : b - a);
    return T(part < 2 ? a - b / 2 : a + b / 2);
  }
};

// Column i % width of sample i / width of _backward_box_take, in zeros: by itself, in case rows are equal.
template <class T>
struct BoxGiveBack {
  int64_t count, taken, width;
  const T* head;
  const int64_t* rows;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const int64_t sample = i / width, k = i % width;
    for (int64_t at = sample * taken; at < (sample + 1) * taken; ++at) {
      if (rows[at] < 0 || count == 0) continue;
      T& to = out[(sample * count + nearest_index(rows[at], count)) * width + k];
      to = T(A(to) + A(head[at * width + k]));
    }
  }
};

// The pairs of sample i.
template <class T>
struct BipartiteSample {
  using A = accumulate_t<T>;
  op::BipartitePairs op;
  int64_t rows, columns;
  const T* data;
  const int64_t* order;
  T *by_row, *by_column;

  BipartiteSample(const op::BipartitePairs& op, KernelContext& c)
      : op(op),
        rows(c.in(0).shape[1]),
        columns(c.in(0).shape[2]),
        data(c.in(0).as<const T>()),
        order(c.in(1).as<const int64_t>()),
        by_row(output(c, 0, rows)),
        by_column(output(c, 1, columns)) {}

  KAON_HOST_DEVICE void operator()(int64_t i) const {
    T *const row = by_row + i * rows, *const column = by_column + i * columns;
    for (int64_t r = 0; r < rows; ++r) row[r] = T(-1);
    for (int64_t c = 0; c < columns; ++c) column[c] = T(-1);
    const int64_t n = rows * columns;
    int64_t pairs = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = nearest_index(order[i * n + j], n), r = at / columns, c = at % columns;
      const A score = A(data[i * n + at]);
      if (score != score || A(row[r]) >= 0 || A(column[c]) >= 0) continue;
      if (!(op.is_ascend ? score < A(op.threshold) : score > A(op.threshold))) return;
      row[r] = T(A(c)), column[c] = T(A(r));
      if (op.topk > 0 && ++pairs > op.topk) return;
    }
  }

 private:
  // An output that nobody wants is needed all the same, to see which rows and columns have a pair.
  static T* output(KernelContext& c, int i, int64_t length) {
    if (c.out(i).data) return c.out(i).as<T>();
    return static_cast<T*>(c.run.workspace(size_t(c.in(0).shape[0] * length) * sizeof(T)));
  }
};

}  // namespace kaon::ops
