// Regions: the positions of their samples and parts, and one element of each operator on regions. For both devices.
#pragma once

#include <math.h>

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/detection/detection.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// The image that a region's number means, or -1 for none.
template <class A>
KAON_HOST_DEVICE inline int64_t image_of(A number, int64_t images) {
  return number >= 0 && number < A(images) ? int64_t(number) : -1;
}

// The two pixels of an axis that a sample is between, with their weights; none where it is outside.
template <class A>
struct AxisSample {
  int64_t low, high;
  A low_weight, high_weight;
  bool is_inside;
  KAON_HOST_DEVICE AxisSample(A at, int64_t size) {
    is_inside = at >= -1 && at <= A(size);
    if (!is_inside) at = 0;
    if (at < 0) at = 0;
    low = int64_t(at), high = low + 1;
    if (low >= size - 1) low = high = size - 1, at = A(low);
    high_weight = at - A(low), low_weight = 1 - high_weight;
  }
  KAON_HOST_DEVICE A weight(int64_t pixel) const {
    if (!is_inside) return A(0);
    return (low == pixel ? low_weight : A(0)) + (high == pixel ? high_weight : A(0));
  }
};

// Calls visit(pixel, weight) for the pixels that a sample is between, without those of weight 0.
template <class A, class Visit>
KAON_HOST_DEVICE inline void each_pixel(const AxisSample<A>& y, const AxisSample<A>& x, int64_t width, Visit&& visit) {
  visit(y.low * width + x.low, y.low_weight * x.low_weight);
  if (x.high_weight > 0) visit(y.low * width + x.high, y.low_weight * x.high_weight);
  if (!(y.high_weight > 0)) return;
  visit(y.high * width + x.low, y.high_weight * x.low_weight);
  if (x.high_weight > 0) visit(y.high * width + x.high, y.high_weight * x.high_weight);
}

// One axis of a region: `parts` parts of `samples` samples.
template <class A>
struct RegionAxis {
  A begin, part;
  int64_t samples;
  KAON_HOST_DEVICE RegionAxis(A from, A to, bool aligned, int64_t parts, int sample_ratio) : begin(from) {
    A length = to - from;
    if (!aligned && length < 1) length = 1;
    part = length / A(parts);
    constexpr int64_t most = 1 << 12;  // of a box that is no part of any image
    const A own = A(::ceil(part));
    samples = sample_ratio > 0 ? sample_ratio : own > 0 ? own < A(most) ? int64_t(own) : most : 0;
  }
  KAON_HOST_DEVICE A at(int64_t i, int64_t s) const {
    return begin + A(i) * part + (A(s) + A(0.5)) * part / A(samples);
  }
  KAON_HOST_DEVICE AxisSample<A> sample(int64_t i, int64_t s, int64_t size) const { return {at(i, s), size}; }
};

// What ROIAlign and its gradient share. The shape of data is (images, channels, height, width).
template <class T>
struct AlignJob {
  using A = accumulate_t<T>;
  int64_t images, channels, height, width, regions, rows, columns;
  A scale;
  int sample_ratio;
  bool position_sensitive, aligned;
  const T* rois;

  // `op` has the attributes of the samples, and `pooled` the shape of the results.
  template <class Op>
  AlignJob(const Op& op, const Shape& data, const Shape& pooled, const T* rois)
      : images(data[0]),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        regions(pooled[0]),
        rows(pooled[2]),
        columns(pooled[3]),
        scale(A(op.spatial_scale)),
        sample_ratio(op.sample_ratio),
        position_sensitive(op.position_sensitive),
        aligned(op.aligned),
        rois(rois) {}

  KAON_HOST_DEVICE int64_t image(int64_t region) const { return image_of(A(rois[region * 5]), images); }
  KAON_HOST_DEVICE RegionAxis<A> down(int64_t region) const { return axis(region, 2, rows); }
  KAON_HOST_DEVICE RegionAxis<A> across(int64_t region) const { return axis(region, 1, columns); }
  KAON_HOST_DEVICE int64_t results() const { return position_sensitive ? channels / (rows * columns) : channels; }
  // The channel of data that part (i, j) of channel k of the result is from.
  KAON_HOST_DEVICE int64_t source(int64_t k, int64_t i, int64_t j) const {
    return position_sensitive ? (k * rows + i) * columns + j : k;
  }
  // By how many samples the sum of a part is divided.
  KAON_HOST_DEVICE static A divisor(const RegionAxis<A>& down, const RegionAxis<A>& across) {
    const int64_t n = down.samples * across.samples;
    return A(n > 0 ? n : 1);
  }

 private:
  KAON_HOST_DEVICE RegionAxis<A> axis(int64_t region, int first, int64_t parts) const {
    const T* const roi = rois + region * 5 + first;
    const A offset = aligned ? A(0.5) : A(0);
    return {A(roi[0]) * scale - offset, A(roi[2]) * scale - offset, aligned, parts, sample_ratio};
  }
};

// Element e of ROIAlign.
template <class T>
struct AlignValue {
  using A = accumulate_t<T>;
  AlignJob<T> job;
  const T* data;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t j = e % job.columns, i = e / job.columns % job.rows, channel = e / job.columns / job.rows;
    const int64_t region = channel / job.results(), image = job.image(region);
    if (image < 0) {
      out[e] = T(A(0));
      return;
    }
    const RegionAxis<A> down = job.down(region), across = job.across(region);
    const int64_t from = image * job.channels + job.source(channel % job.results(), i, j);
    const T* const plane = data + from * job.height * job.width;
    A sum = 0;
    for (int64_t s = 0; s < down.samples; ++s) {
      const AxisSample<A> y = down.sample(i, s, job.height);
      for (int64_t t = 0; t < across.samples && y.is_inside; ++t) {
        const AxisSample<A> x = across.sample(j, t, job.width);
        if (!x.is_inside) continue;
        each_pixel(y, x, job.width, [&](int64_t pixel, A weight) { sum += weight * A(plane[pixel]); });
      }
    }
    out[e] = T(sum / AlignJob<T>::divisor(down, across));
  }
};

// Element e of data's gradient, from all regions. The weights of both axes are independent.
template <class T>
struct AlignGradient {
  using A = accumulate_t<T>;
  AlignJob<T> job;
  const T* head;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t x = e % job.width, y = e / job.width % job.height, plane = e / job.width / job.height;
    const int64_t image = plane / job.channels, channel = plane % job.channels;
    A sum = 0;
    for (int64_t r = 0; r < job.regions; ++r) {
      if (job.image(r) != image) continue;
      const RegionAxis<A> down = job.down(r), across = job.across(r);
      if (!near(down, job.rows, y, job.height) || !near(across, job.columns, x, job.width)) continue;
      A own = 0;
      for (int64_t i = 0; i < job.rows; ++i) {
        const A row = weight(down, i, y, job.height);
        if (row == 0) continue;
        for (int64_t j = 0; j < job.columns; ++j) {
          const int64_t k = job.position_sensitive ? channel / (job.rows * job.columns) : channel;
          if (job.source(k, i, j) != channel) continue;
          const A both = row * weight(across, j, x, job.width);
          if (both != 0) own += both * A(head[((r * job.results() + k) * job.rows + i) * job.columns + j]);
        }
      }
      sum += own / AlignJob<T>::divisor(down, across);
    }
    out[e] = T(sum);
  }

 private:
  // Whether samples may reach a pixel.
  KAON_HOST_DEVICE static bool near(const RegionAxis<A>& axis, int64_t parts, int64_t pixel, int64_t size) {
    const A end = axis.begin + axis.part * A(parts);
    const A low = axis.begin < end ? axis.begin : end, high = axis.begin < end ? end : axis.begin;
    return (pixel == size - 1 || low < A(pixel + 2)) && (pixel == 0 || high > A(pixel - 2));
  }
  KAON_HOST_DEVICE static A weight(const RegionAxis<A>& axis, int64_t part, int64_t pixel, int64_t size) {
    A sum = 0;
    for (int64_t s = 0; s < axis.samples; ++s) sum += axis.sample(part, s, size).weight(pixel);
    return sum;
  }
};

// One axis of a region of whole pixels.
template <class A>
struct PixelAxis {
  int64_t begin;
  A part;
  KAON_HOST_DEVICE PixelAxis(A from, A to, int64_t parts) {
    begin = whole(A(::round(from)));
    const int64_t length = whole(A(::round(to))) - begin + 1;
    part = A(length < 1 ? 1 : length) / A(parts);
  }
  KAON_HOST_DEVICE int64_t first(int64_t i, int64_t size) const {
    return within(int64_t(::floor(A(i) * part)) + begin, size);
  }
  KAON_HOST_DEVICE int64_t end(int64_t i, int64_t size) const {
    return within(int64_t(::ceil(A(i + 1) * part)) + begin, size);
  }

 private:
  KAON_HOST_DEVICE static int64_t within(int64_t at, int64_t size) { return at < 0 ? 0 : at > size ? size : at; }
  // Coordinates that no image has are cut off; NaN is 0.
  KAON_HOST_DEVICE static int64_t whole(A x) {
    constexpr A most = A(1 << 28);
    return x >= -most ? x <= most ? int64_t(x) : int64_t(most) : x < 0 ? -int64_t(most) : 0;
  }
};

// Element e of ROIPooling.
template <class T>
struct RoiPoolValue {
  using A = accumulate_t<T>;
  int64_t images, channels, height, width, rows, columns;
  A scale;
  const T *data, *rois;
  T* out;
  int64_t* pixels;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t j = e % columns, i = e / columns % rows, channel = e / columns / rows % channels;
    const T* const roi = rois + e / columns / rows / channels * 5;
    const int64_t image = image_of(A(roi[0]), images);
    int64_t best = -1;
    A most = 0;
    if (image >= 0) {
      const T* const plane = data + (image * channels + channel) * height * width;
      const PixelAxis<A> down(A(roi[2]) * scale, A(roi[4]) * scale, rows);
      const PixelAxis<A> across(A(roi[1]) * scale, A(roi[3]) * scale, columns);
      const int64_t bottom = down.end(i, height), right = across.end(j, width);
      for (int64_t y = down.first(i, height); y < bottom; ++y) {
        for (int64_t x = across.first(j, width); x < right; ++x) {
          const A here = A(plane[y * width + x]);
          if (best < 0 || here > most || (here != here && most == most)) most = here, best = y * width + x;
        }
      }
    }
    if (out) out[e] = T(most);
    if (pixels) pixels[e] = best;
  }
};

// Element e of data's gradient, from all regions.
template <class T>
struct RoiPoolGradient {
  using A = accumulate_t<T>;
  int64_t images, channels, area, regions, parts;  // area: of a channel, parts: of a region
  const T *head, *rois;
  const int64_t* pixels;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t pixel = e % area, channel = e / area % channels, image = e / area / channels;
    A sum = 0;
    for (int64_t r = 0; r < regions; ++r) {
      if (image_of(A(rois[r * 5]), images) != image) continue;
      const int64_t first = (r * channels + channel) * parts;
      for (int64_t k = first; k < first + parts; ++k) {
        if (pixels[k] == pixel) sum += A(head[k]);
      }
    }
    out[e] = T(sum);
  }
};

}  // namespace kaon::ops
