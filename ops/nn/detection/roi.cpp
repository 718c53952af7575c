// ROIAlign, ROIPooling and their gradients.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/detection/kernels/roi_values.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Checks images or pooled regions, rois and the scale.
void expect_regions(InferContext& c, float spatial_scale, int dimensions) {
  for (int i = 1; i < std::min(c.num_inputs(), 2); ++i) {
    if (c.dtype(i) != c.dtype(0)) {
      c.fail_dtype(fmt::format("data and rois must have one dtype, got {} and {}; use cast", name_of(c.dtype(0)),
                               name_of(c.dtype(i))));
    }
  }
  c.expect_floating();
  c.expect_ndim(0, dimensions);
  c.expect_ndim(1, 2);
  if (c.shape(1)[1] != 5) c.fail(fmt::format("rois must be (r, 5), got {}", c.shape(1).str()));
  if (!(spatial_scale >= 0 && spatial_scale <= 1)) {
    c.fail_value(fmt::format("spatial_scale must be 0 to 1, got {}", spatial_scale));
  }
}

// Checks the arguments of a pooling. Returns the shape of its result for this many channels.
Shape pooled_shape(InferContext& c, const Shape& pooled_size, float spatial_scale) {
  expect_regions(c, spatial_scale, 4);
  if (pooled_size.ndim() != 2 || pooled_size[0] < 1 || pooled_size[1] < 1) {
    c.fail_value(fmt::format("pooled_size must be two positive numbers, got {}", pooled_size.str()));
  }
  if (c.shape(0)[2] < 1 || c.shape(0)[3] < 1) {
    c.fail(fmt::format("images must have at least one pixel; inputs: {}", c.describe_inputs()));
  }
  return {c.shape(1)[0], c.shape(0)[1], pooled_size[0], pooled_size[1]};
}

void expect_divisible(const InferContext& c, int64_t channels, const Shape& pooled) {
  const int64_t parts = pooled[2] * pooled[3];
  if (channels % parts != 0) {
    c.fail(fmt::format("position_sensitive needs a multiple of {} channels, got {}", parts, channels));
  }
}

// Multiplications and additions of a forward pass with these results, or of its gradient.
double align_flops(const Shape& pooled, int sample_ratio) {
  const double samples = sample_ratio > 0 ? double(sample_ratio) * sample_ratio : 4;
  return double(pooled.size()) * samples * 12;
}

template <class Body>
void for_each(KernelContext& c, int64_t n, int64_t grain, const Body& body) {
  c.run.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// A gradient of images: add(plane, sums) adds up the gradients of the pixels of each channel of each image.
template <class T, class Add>
void sum_planes(KernelContext& c, const Shape& images, const Add& add) {
  using A = accumulate_t<T>;
  const int64_t area = images[2] * images[3];
  for_each(c, images[0] * images[1], 1, [&](int64_t plane) {
    const Scratch scratch(size_t(area) * sizeof(A));
    A* const sums = scratch.as<A>();
    std::fill_n(sums, area, A(0));
    add(plane, sums);
    T* const out = c.out().as<T>() + plane * area;
    for (int64_t i = 0; i < area; ++i) out[i] = T(sums[i]);
  });
}

// One axis of one region: the pixels and weights of all its samples.
template <class A>
std::vector<AxisSample<A>> all_samples(const RegionAxis<A>& axis, int64_t parts, int64_t size) {
  std::vector<AxisSample<A>> all;
  all.reserve(size_t(parts * axis.samples));
  for (int64_t i = 0; i < parts; ++i) {
    for (int64_t s = 0; s < axis.samples; ++s) all.push_back(axis.sample(i, s, size));
  }
  return all;
}

// Adds the gradient of region r to the sums of a channel's pixels.
template <class T>
void add_region(const AlignJob<T>& job, int64_t r, int64_t channel, const T* head, accumulate_t<T>* sums) {
  using A = accumulate_t<T>;
  const RegionAxis<A> down = job.down(r), across = job.across(r);
  const std::vector<AxisSample<A>> rows = all_samples(down, job.rows, job.height);
  const std::vector<AxisSample<A>> columns = all_samples(across, job.columns, job.width);
  const int64_t parts = job.rows * job.columns, k = job.position_sensitive ? channel / parts : channel;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t i = part / job.columns, j = part % job.columns;
    if (job.source(k, i, j) != channel) continue;
    const A each = A(head[(r * job.results() + k) * parts + part]) / AlignJob<T>::divisor(down, across);
    for (int64_t s = 0; s < down.samples; ++s) {
      const AxisSample<A>& y = rows[size_t(i * down.samples + s)];
      for (int64_t t = 0; t < across.samples && y.is_inside; ++t) {
        const AxisSample<A>& x = columns[size_t(j * across.samples + t)];
        if (!x.is_inside) continue;
        each_pixel(y, x, job.width, [&](int64_t pixel, A weight) { sums[pixel] += each * weight; });
      }
    }
  }
}

}  // namespace

// --- ROIAlign

constinit const OpDef op::ROIAlign::def = make_op_def<op::ROIAlign>();
constinit const OpDef op::BackwardROIAlign::def = make_op_def<op::BackwardROIAlign>();

void op::ROIAlign::infer(InferContext& c) const {
  Shape out = pooled_shape(c, pooled_size, spatial_scale);
  if (position_sensitive) {
    expect_divisible(c, out[1], out);
    out[1] /= out[2] * out[3];
  }
  c.set_output(out, c.dtype());
}

void op::ROIAlign::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  g.set(0, nd._backward_ROIAlign(g.head(), g.input(1),
                                 {.shape = g.input_like(0).shape(),
                                  .spatial_scale = spatial_scale,
                                  .sample_ratio = sample_ratio,
                                  .position_sensitive = position_sensitive,
                                  .aligned = aligned}));
}

double op::ROIAlign::flops(std::span<const TensorMeta>, std::span<const TensorMeta> outputs) const {
  return align_flops(outputs[0].shape, sample_ratio);
}

void run_cpu(const op::ROIAlign& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float("_contrib_ROIAlign", c.out().dtype, [&]<class T>() {
    const AlignJob<T> job(op, c.in(0).shape, c.out().shape, c.in(1).as<const T>());
    for_each(c, c.out().size(), 512, AlignValue<T>{job, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void op::BackwardROIAlign::infer(InferContext& c) const {
  expect_regions(c, spatial_scale, 4);
  if (shape.ndim() != 4 || !shape.is_known()) c.fail_value(fmt::format("shape must be of images, got {}", shape.str()));
  const Shape head = c.shape(0);
  if (head[2] < 1 || head[3] < 1) c.fail(fmt::format("regions must have parts, got head {}", head.str()));
  if (position_sensitive) expect_divisible(c, shape[1], head);
  c.expect_shape(0, {c.shape(1)[0], position_sensitive ? shape[1] / (head[2] * head[3]) : shape[1], head[2], head[3]});
  c.set_output(shape, c.dtype());
}

void op::BackwardROIAlign::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const Shape& head = g.input_like(0).shape();
  g.set(0, nd.ROIAlign(g.head(), g.input(1),
                       {.pooled_size = {head[2], head[3]},
                        .spatial_scale = spatial_scale,
                        .sample_ratio = sample_ratio,
                        .position_sensitive = position_sensitive,
                        .aligned = aligned}));
}

double op::BackwardROIAlign::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  return align_flops(inputs[0].shape, sample_ratio);
}

void run_cpu(const op::BackwardROIAlign& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float("_backward_ROIAlign", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const AlignJob<T> job(op, op.shape, c.in(0).shape, c.in(1).as<const T>());
    sum_planes<T>(c, op.shape, [&](int64_t plane, A* sums) {
      for (int64_t r = 0; r < job.regions; ++r) {
        if (job.image(r) != plane / job.channels) continue;
        add_region(job, r, plane % job.channels, c.in(0).as<const T>(), sums);
      }
    });
  });
}

// --- ROIPooling

constinit const OpDef op::ROIPooling::def = make_op_def<op::ROIPooling>();
constinit const OpDef op::BackwardROIPooling::def = make_op_def<op::BackwardROIPooling>();

void op::ROIPooling::infer(InferContext& c) const {
  const Shape out = pooled_shape(c, pooled_size, spatial_scale);
  c.set_output(0, out, c.dtype());
  c.set_output(1, out, DType::int64);
}

void op::ROIPooling::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_ROIPooling(g.head(), g.input(1), g.output(1), {.shape = g.input_like(0).shape()}));
}

void run_cpu(const op::ROIPooling& op, KernelContext& c) {
  dispatch_float("ROIPooling", c.in(0).dtype, [&]<class T>() {
    const Shape &x = c.in(0).shape, &pooled = op.pooled_size;
    for_each(c, c.in(1).shape[0] * x[1] * pooled[0] * pooled[1], 512,
             RoiPoolValue<T>{x[0], x[1], x[2], x[3], pooled[0], pooled[1], accumulate_t<T>(op.spatial_scale),
                             c.in(0).as<const T>(), c.in(1).as<const T>(), c.out(0).as<T>(), c.out(1).as<int64_t>()});
  });
}

void op::BackwardROIPooling::infer(InferContext& c) const {
  expect_regions(c, 1, 4);
  c.expect_shape(2, c.shape(0));
  if (c.dtype(2) != DType::int64) c.fail_dtype(fmt::format("pixels must be int64, got {}", name_of(c.dtype(2))));
  if (shape.ndim() != 4 || !shape.is_known()) c.fail_value(fmt::format("shape must be of images, got {}", shape.str()));
  const Shape head = c.shape(0);
  c.expect_shape(0, {c.shape(1)[0], shape[1], head[2], head[3]});
  c.set_output(shape, c.dtype());
}

void run_cpu(const op::BackwardROIPooling& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float("_backward_ROIPooling", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const int64_t channels = op.shape[1], area = op.shape[2] * op.shape[3], regions = c.in(1).shape[0];
    const int64_t parts = c.in(0).shape[2] * c.in(0).shape[3];
    const T *const head = c.in(0).as<const T>(), *const rois = c.in(1).as<const T>();
    const int64_t* const pixels = c.in(2).as<const int64_t>();
    sum_planes<T>(c, op.shape, [&](int64_t plane, A* sums) {
      for (int64_t r = 0; r < regions; ++r) {
        if (image_of(A(rois[r * 5]), op.shape[0]) != plane / channels) continue;
        const int64_t first = (r * channels + plane % channels) * parts;
        for (int64_t k = first; k < first + parts; ++k) {
          if (pixels[k] >= 0 && pixels[k] < area) sums[pixels[k]] += A(head[k]);
        }
      }
    });
  });
}

}  // namespace kaon
