// SuppressJob: which rows of a sample may stay, and which of them suppress others. For both devices.
#pragma once

#include "kaon/ops/nn/detection/kernels/box_values.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// A row that may stay.
template <class A>
struct Candidate {
  Box<A> box;
  A id;           // its class
  int64_t place;  // in the order of scores
};

template <class T>
struct SuppressJob {
  using A = accumulate_t<T>;
  op::BoxSuppress op;
  int64_t count, width;
  const T* data;
  const int64_t* order;
  int64_t* rows;

  SuppressJob(const op::BoxSuppress& op, KernelContext& c)
      : op(op),
        count(c.in(0).shape[1]),
        width(c.in(0).shape[2]),
        data(c.in(0).as<const T>()),
        order(c.in(1).as<const int64_t>()),
        rows(c.out().as<int64_t>()) {}

  KAON_HOST_DEVICE int64_t limit() const { return op.topk < 0 || op.topk > count ? count : op.topk; }
  KAON_HOST_DEVICE int64_t row_number(int64_t sample, int64_t place) const {
    return nearest_index(order[sample * count + place], count);
  }
  KAON_HOST_DEVICE const T* row_at(int64_t sample, int64_t place) const {
    return data + (sample * count + row_number(sample, place)) * width;
  }
  KAON_HOST_DEVICE bool is_candidate(const T* row) const {
    if (op.kind == SuppressKind::multibox) return A(row[op.id_index]) >= 0;
    if (!(A(row[op.score_index]) > A(op.valid_thresh))) return false;
    return op.id_index < 0 || A(row[op.id_index]) != A(op.background_id);
  }
  KAON_HOST_DEVICE Candidate<A> candidate(const T* row, int64_t place) const {
    return {Box<A>::load(row + op.coord_start, op.in_format),
            op.id_index < 0 || op.force_suppress ? A(0) : A(row[op.id_index]), place};
  }
  KAON_HOST_DEVICE bool suppresses(const Candidate<A>& a, const Candidate<A>& b) const {
    if (a.id != b.id) return false;
    const A common = intersection(a.box, b.box);
    const A all = a.box.area + b.box.area - common;
    if (op.kind == SuppressKind::box) return common / all > A(op.overlap_thresh);
    return (all <= 0 ? A(0) : common / all) >= A(op.overlap_thresh);
  }
};

}  // namespace kaon::ops
