// Places in images, for both devices: the element that each names, and the image that they fill.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The place that `from` names in an image of `size` elements; -1: none. `fail` is called for one that is outside.
template <class Fail>
KAON_HOST_DEVICE int64_t checked_place(int64_t from, int64_t size, const Fail& fail) {
  if (uint64_t(from) < uint64_t(size)) return from;
  if (from != -1) fail(from, size);
  return -1;
}

// Element e of the places (planes, places).
template <class T, class Fail>
struct TakePlace {
  int64_t size, places;  // of an image
  const T* images;
  const int64_t* indices;
  T* out;
  Fail fail;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t place = checked_place(indices[e], size, fail);
    out[e] = place < 0 ? T(0) : images[e / places * size + place];
  }
};

// One whole image, from its places. Where places add up, sums are in `sums`, which may be `images`.
template <class T, class A, bool add, class Fail>
struct FillPlane {
  int64_t size, places;
  const T* data;
  const int64_t* indices;
  A* sums;
  T* images;
  Fail fail;
  KAON_HOST_DEVICE void operator()(int64_t plane) const {
    A* const to = sums + plane * size;
    for (int64_t i = 0; i < size; ++i) to[i] = A(0);
    for (int64_t i = plane * places; i < (plane + 1) * places; ++i) {
      const int64_t place = checked_place(indices[i], size, fail);
      if (place >= 0) to[place] = add ? to[place] + A(data[i]) : A(data[i]);
    }
    if constexpr (sizeof(T) != sizeof(A)) {
      for (int64_t i = 0; i < size; ++i) images[plane * size + i] = T(to[i]);
    }
  }
};

}  // namespace kaon::ops
