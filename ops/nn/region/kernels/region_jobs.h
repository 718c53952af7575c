// The parts of regions as sums of pixels with weights, for both devices.
#pragma once

#include <math.h>

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/detection/kernels/roi_values.h"
#include "kaon/ops/nn/region/region.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// What all jobs share: images (images, channels, height, width), and results (regions, results, rows, columns).
template <class T>
struct RegionSizes {
  using A = accumulate_t<T>;
  int64_t images, channels, height, width, regions, results, rows, columns;
  A scale;
  const T* rois;

  RegionSizes(const Shape& data, const Shape& pooled, float scale, const T* rois)
      : images(data[0]),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        regions(pooled[0]),
        results(pooled[1]),
        rows(pooled[2]),
        columns(pooled[3]),
        scale(A(scale)),
        rois(rois) {}
  KAON_HOST_DEVICE int64_t area() const { return height * width; }
};

// Groups of channels for the parts of a result.
struct PartGroups {
  int64_t groups, parts;
  KAON_HOST_DEVICE int64_t of(int64_t part) const { return part * groups / parts; }
  KAON_HOST_DEVICE int64_t channel(int64_t k, int64_t i, int64_t j) const {
    return (k * groups + of(i)) * groups + of(j);
  }
};

// A job has image(r), channel(k, i, j), result_of(channel), and part(r, k, i, j): something with each(visit), which
// calls visit(pixel, weight), and the divisor of the sum.

// --- PSROIPooling

template <class A>
struct PixelRange {
  int64_t first, end;
  // Part i of `parts` of the region between these corners.
  KAON_HOST_DEVICE PixelRange(A from, A to, A scale, int64_t i, int64_t parts, int64_t size) {
    const A begin = A(::round(from)) * scale, over = (A(::round(to)) + 1) * scale;
    A each = over - begin;
    if (!(each > A(0.1))) each = A(0.1);
    each /= A(parts);
    first = within(A(::floor(A(i) * each + begin)), size), end = within(A(::ceil(A(i + 1) * each + begin)), size);
  }

 private:
  KAON_HOST_DEVICE static int64_t within(A at, int64_t size) { return at > 0 ? at < A(size) ? int64_t(at) : size : 0; }
};

template <class T>
struct PSPart {
  using A = accumulate_t<T>;
  PixelRange<A> down, across;
  int64_t width;
  KAON_HOST_DEVICE A divisor() const {
    const int64_t n = (down.end - down.first) * (across.end - across.first);
    return A(n > 0 ? n : 1);
  }
  template <class Visit>
  KAON_HOST_DEVICE void each(const Visit& visit) const {
    for (int64_t y = down.first; y < down.end; ++y) {
      for (int64_t x = across.first; x < across.end; ++x) visit(y * width + x, A(1));
    }
  }
};

template <class T>
struct PSJob : RegionSizes<T> {
  using A = accumulate_t<T>;
  PartGroups groups;
  template <class Op>
  PSJob(const Op& op, const Shape& data, const Shape& pooled, const T* rois)
      : RegionSizes<T>(data, pooled, op.spatial_scale, rois),
        groups{op.group_size > 0 ? op.group_size : op.pooled_size, op.pooled_size} {}
  KAON_HOST_DEVICE int64_t image(int64_t r) const { return image_of(A(this->rois[r * 5]), this->images); }
  KAON_HOST_DEVICE int64_t channel(int64_t k, int64_t i, int64_t j) const { return groups.channel(k, i, j); }
  KAON_HOST_DEVICE int64_t result_of(int64_t channel) const { return channel / (groups.groups * groups.groups); }
  KAON_HOST_DEVICE PSPart<T> part(int64_t r, int64_t, int64_t i, int64_t j) const {
    const T* const roi = this->rois + r * 5;
    return {{A(roi[2]), A(roi[4]), this->scale, i, this->rows, this->height},
            {A(roi[1]), A(roi[3]), this->scale, j, this->columns, this->width},
            this->width};
  }
};

// --- DeformablePSROIPooling

// The samples of one part along one axis.
template <class A>
struct SampleLine {
  A begin, step, length;  // of a sample, and of the region
  int64_t size;
  // At a sample's pixels; none where it does not count.
  KAON_HOST_DEVICE AxisSample<A> sample(int64_t s) const {
    const A at = begin + A(s) * step;
    if (!(at >= A(-0.5) && at <= A(size) - A(0.5))) return {A(-2), size};
    AxisSample<A> sample(at, size);
    if (at < 0) sample.high = sample.low;  // that pixel wherever it is
    return sample;
  }
  KAON_HOST_DEVICE int64_t count(int64_t samples) const {
    int64_t n = 0;
    for (int64_t s = 0; s < samples; ++s) n += sample(s).is_inside;
    return n;
  }
};

template <class T>
struct DeformedPart {
  using A = accumulate_t<T>;
  SampleLine<A> down, across;
  int64_t samples;
  KAON_HOST_DEVICE A divisor() const {
    const int64_t n = down.count(samples) * across.count(samples);
    return A(n > 0 ? n : 1);
  }
  // visit(samples along both axes)
  template <class Visit>
  KAON_HOST_DEVICE void each_sample(const Visit& visit) const {
    for (int64_t s = 0; s < samples; ++s) {
      const AxisSample<A> y = down.sample(s);
      for (int64_t t = 0; t < samples && y.is_inside; ++t) {
        const AxisSample<A> x = across.sample(t);
        if (x.is_inside) visit(y, x);
      }
    }
  }
  template <class Visit>
  KAON_HOST_DEVICE void each(const Visit& visit) const {
    each_sample([&](const AxisSample<A>& y, const AxisSample<A>& x) { each_pixel(y, x, across.size, visit); });
  }
};

template <class T>
struct DeformedJob : RegionSizes<T> {
  using A = accumulate_t<T>;
  PartGroups groups, parts;
  int64_t samples, classes, per_class;
  A std;
  const T* trans;  // nullptr: nothing moves

  // `classes`: of trans.
  template <class Op>
  DeformedJob(const Op& op, const Shape& data, const Shape& pooled, const T* rois, const T* trans, int64_t classes)
      : RegionSizes<T>(data, pooled, op.spatial_scale, rois),
        groups{op.group_size, op.pooled_size},
        parts{op.part_size > 0 ? op.part_size : op.pooled_size, op.pooled_size},
        samples(op.sample_per_part),
        classes(classes),
        per_class(op.output_dim / classes),
        std(A(op.trans_std)),
        trans(trans) {}
  KAON_HOST_DEVICE int64_t image(int64_t r) const { return image_of(A(this->rois[r * 5]), this->images); }
  KAON_HOST_DEVICE int64_t channel(int64_t k, int64_t i, int64_t j) const { return groups.channel(k, i, j); }
  KAON_HOST_DEVICE int64_t result_of(int64_t channel) const { return channel / (groups.groups * groups.groups); }
  // Where trans says how far a class's part (i, j) moves along an axis: 0 down, the second one, 1 to the right.
  KAON_HOST_DEVICE int64_t trans_at(int64_t r, int64_t l, int axis, int64_t i, int64_t j) const {
    return (((r * classes + l) * 2 + 1 - axis) * parts.groups + i) * parts.groups + j;
  }
  KAON_HOST_DEVICE DeformedPart<T> part(int64_t r, int64_t k, int64_t i, int64_t j) const {
    return {line(r, k, 0, i, j), line(r, k, 1, i, j), samples};
  }

 private:
  KAON_HOST_DEVICE SampleLine<A> line(int64_t r, int64_t k, int axis, int64_t i, int64_t j) const {
    const T* const roi = this->rois + r * 5 + (axis == 0 ? 2 : 1);
    const A begin = A(::round(A(roi[0]))) * this->scale - A(0.5);
    A length = (A(::round(A(roi[2]))) + 1) * this->scale - A(0.5) - begin;
    if (!(length > A(0.1))) length = A(0.1);
    const A each = length / A(this->rows);
    const A moved = trans ? A(trans[trans_at(r, k / per_class, axis, parts.of(i), parts.of(j))]) * std * length : A(0);
    return {A(axis == 0 ? i : j) * each + begin + moved, each / A(samples), length,
            axis == 0 ? this->height : this->width};
  }
};

// --- RROIAlign

// A turned region: where its samples are.
template <class A>
struct TurnedRegion {
  A middle_x, middle_y, cosine, sine;
  RegionAxis<A> down, across;  // from the middle
  template <class T>
  KAON_HOST_DEVICE TurnedRegion(const T* roi, A scale, int64_t rows, int64_t columns, int ratio)
      : middle_x(A(roi[1]) * scale),
        middle_y(A(roi[2]) * scale),
        cosine(A(::cos(angle(roi)))),
        sine(A(::sin(angle(roi)))),
        down(axis(A(roi[4]) * scale, rows, ratio)),
        across(axis(A(roi[3]) * scale, columns, ratio)) {}
  KAON_HOST_DEVICE A divisor() const { return A(down.samples * across.samples); }
  // Calls visit(samples along both axes of the image) for those of part (i, j) that are inside.
  template <class Visit>
  KAON_HOST_DEVICE void each_sample(int64_t i, int64_t j, int64_t height, int64_t width, const Visit& visit) const {
    for (int64_t s = 0; s < down.samples; ++s) {
      const A v = down.at(i, s);
      for (int64_t t = 0; t < across.samples; ++t) {
        const A u = across.at(j, t);
        const AxisSample<A> y(v * cosine - u * sine + middle_y, height), x(u * cosine + v * sine + middle_x, width);
        if (y.is_inside && x.is_inside) visit(y, x);
      }
    }
  }

 private:
  template <class T>
  KAON_HOST_DEVICE static A angle(const T* roi) {
    return A(roi[5]) * A(3.14159265358979323846 / 180);
  }
  KAON_HOST_DEVICE static RegionAxis<A> axis(A length, int64_t parts, int ratio) {
    if (!(length > 1)) length = 1;
    return {-length / 2, length / 2, true, parts, ratio};
  }
};

template <class T>
struct RotatedPart {
  using A = accumulate_t<T>;
  TurnedRegion<A> region;
  int64_t i, j, height, width;
  KAON_HOST_DEVICE A divisor() const { return region.divisor(); }
  template <class Visit>
  KAON_HOST_DEVICE void each(const Visit& visit) const {
    region.each_sample(i, j, height, width,
                       [&](const AxisSample<A>& y, const AxisSample<A>& x) { each_pixel(y, x, width, visit); });
  }
};

template <class T>
struct RotatedJob : RegionSizes<T> {
  using A = accumulate_t<T>;
  int ratio;
  template <class Op>
  RotatedJob(const Op& op, const Shape& data, const Shape& pooled, const T* rois)
      : RegionSizes<T>(data, pooled, op.spatial_scale, rois), ratio(op.sampling_ratio) {}
  // A region without end has no samples inside.
  KAON_HOST_DEVICE int64_t image(int64_t r) const {
    A sum = 0;
    for (int64_t i = r * 6 + 1; i < r * 6 + 6; ++i) sum += A(rois_at(i)) - A(rois_at(i));
    return sum == 0 ? image_of(A(rois_at(r * 6)), this->images) : -1;
  }
  KAON_HOST_DEVICE int64_t channel(int64_t k, int64_t, int64_t) const { return k; }
  KAON_HOST_DEVICE int64_t result_of(int64_t channel) const { return channel; }
  KAON_HOST_DEVICE TurnedRegion<A> region(int64_t r) const {
    return {this->rois + r * 6, this->scale, this->rows, this->columns, ratio};
  }
  KAON_HOST_DEVICE RotatedPart<T> part(int64_t r, int64_t, int64_t i, int64_t j) const {
    return {region(r), i, j, this->height, this->width};
  }

 private:
  KAON_HOST_DEVICE T rois_at(int64_t i) const { return this->rois[i]; }
};

// --- One element, and one plane

// Element e of the results.
template <class Job, class T>
struct PartValue {
  using A = accumulate_t<T>;
  Job job;
  const T* data;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t j = e % job.columns, i = e / job.columns % job.rows, result = e / job.columns / job.rows;
    const int64_t k = result % job.results, r = result / job.results, image = job.image(r);
    A sum = 0;
    if (image >= 0) {
      const T* const plane = data + (image * job.channels + job.channel(k, i, j)) * job.area();
      const auto part = job.part(r, k, i, j);
      part.each([&](int64_t pixel, A weight) { sum += weight * A(plane[pixel]); });
      sum /= part.divisor();
    }
    out[e] = T(sum);
  }
};

// The gradient of one channel of one image, added up in `sums` and then written to `out`; they may be the same.
template <class Job, class T>
struct PlaneGradient {
  using A = accumulate_t<T>;
  Job job;
  const T* head;
  A* sums;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t plane) const {
    const int64_t area = job.area(), channel = plane % job.channels, k = job.result_of(channel);
    A* const to = sums + plane * area;
    for (int64_t p = 0; p < area; ++p) to[p] = 0;
    for (int64_t r = 0; r < job.regions && k < job.results; ++r) {
      if (job.image(r) != plane / job.channels) continue;
      for (int64_t i = 0; i < job.rows; ++i) {
        for (int64_t j = 0; j < job.columns; ++j) {
          if (job.channel(k, i, j) != channel) continue;
          const auto part = job.part(r, k, i, j);
          const A each = A(head[((r * job.results + k) * job.rows + i) * job.columns + j]) / part.divisor();
          part.each([&](int64_t pixel, A weight) { to[pixel] += weight * each; });
        }
      }
    }
    if constexpr (sizeof(T) != sizeof(A)) {
      for (int64_t p = 0; p < area; ++p) out[plane * area + p] = T(to[p]);
    }
  }
};

// The gradient of both numbers of trans for one part of one class: e counts (region, class, row, column).
template <class T>
struct TransGradient {
  using A = accumulate_t<T>;
  DeformedJob<T> job;
  const T *head, *data;
  T* out;
  KAON_HOST_DEVICE void operator()(int64_t e) const {
    const int64_t count = job.parts.groups, column = e % count, row = e / count % count;
    const int64_t l = e / count / count % job.classes, r = e / count / count / job.classes, image = job.image(r);
    A down = 0, right = 0;
    for (int64_t k = l * job.per_class; k < (l + 1) * job.per_class && image >= 0; ++k) {
      for (int64_t i = 0; i < job.rows; ++i) {
        for (int64_t j = 0; j < job.columns && job.parts.of(i) == row; ++j) {
          if (job.parts.of(j) != column) continue;
          const T* const plane = data + (image * job.channels + job.channel(k, i, j)) * job.area();
          const DeformedPart<T> part = job.part(r, k, i, j);
          if (part.down.count(job.samples) * part.across.count(job.samples) == 0) continue;
          A by_y = 0, by_x = 0;
          part.each_sample([&](const AxisSample<A>& y, const AxisSample<A>& x) {
            const T *const low = plane + y.low * job.width, *const high = plane + y.high * job.width;
            by_y +=
                x.low_weight * (A(high[x.low]) - A(low[x.low])) + x.high_weight * (A(high[x.high]) - A(low[x.high]));
            by_x +=
                y.low_weight * (A(low[x.high]) - A(low[x.low])) + y.high_weight * (A(high[x.high]) - A(high[x.low]));
          });
          const A each = A(head[((r * job.results + k) * job.rows + i) * job.columns + j]) * job.std / part.divisor();
          down += each * part.down.length * by_y, right += each * part.across.length * by_x;
        }
      }
    }
    out[job.trans_at(r, l, 0, row, column)] = T(down), out[job.trans_at(r, l, 1, row, column)] = T(right);
  }
};

}  // namespace kaon::ops
