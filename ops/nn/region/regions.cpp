// PSROIPooling, DeformablePSROIPooling, RROIAlign and their gradients.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/region/kernels/region_jobs.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Checks rois of `width` numbers and spatial_scale.
void expect_rois(InferContext& c, int at, int64_t width, float spatial_scale) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(at, 2);
  if (c.shape(at)[1] != width) c.fail(fmt::format("rois must be (r, {}), got {}", width, c.shape(at).str()));
  if (!(spatial_scale >= 0 && spatial_scale <= 1)) {
    c.fail_value(fmt::format("spatial_scale must be 0 to 1, got {}", spatial_scale));
  }
}

void expect_images(const InferContext& c, const Shape& data) {
  if (data.ndim() != 4 || !data.is_known() || data[2] < 1 || data[3] < 1) {
    c.fail(fmt::format("data must be images (n, c, h, w) of at least one pixel, got {}", data.str()));
  }
}

void expect_positive(const InferContext& c, const char* name, int value, int least = 1) {
  constexpr int most = 1 << 10;
  if (value < least || value > most) c.fail_value(fmt::format("{} must be {} to {}, got {}", name, least, most, value));
}

void expect_channels(const InferContext& c, const Shape& data, int64_t wanted) {
  if (data[1] != wanted) {
    c.fail(
        fmt::format("data must have output_dim times the groups of a part, {} channels, got {}", wanted, data.str()));
  }
}

template <class Body>
void for_each(KernelContext& c, int64_t n, int64_t grain, const Body& body) {
  c.run.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// The means of one part of a region for all results: where a part is does not depend on the result.
template <class T>
void pool_part(const PSJob<T>& job, const T* data, int64_t r, int64_t at, T* out) {
  const int64_t parts = job.rows * job.columns, i = at / job.columns, j = at % job.columns, image = job.image(r);
  const PSPart<T> part = job.part(r, 0, i, j);
  const T divisor = part.divisor();
  for (int64_t k = 0; k < job.results; ++k) {
    T sum = 0;
    if (image >= 0) {
      const T* const plane = data + (image * job.channels + job.channel(k, i, j)) * job.area();
      for (int64_t y = part.down.first; y < part.down.end; ++y) {
        for (int64_t x = part.across.first; x < part.across.end; ++x) sum += plane[y * job.width + x];
      }
    }
    out[(r * job.results + k) * parts + at] = sum / divisor;
  }
}

template <class T, class Job>
void give_back(KernelContext& c, const Job& job) {
  if (c.out().size() == 0) return;
  T* const out = c.out().as<T>();
  for_each(c, job.images * job.channels, 1, PlaneGradient<Job, T>{job, c.in(0).as<const T>(), out, out});
}

}  // namespace

// --- PSROIPooling

template <RegionPart P>
constinit const OpDef op::PSROIPoolingOp<P>::def = make_op_def<op::PSROIPoolingOp<P>>();

template <RegionPart P>
void op::PSROIPoolingOp<P>::infer(InferContext& c) const {
  constexpr bool is_forward = P == RegionPart::forward;
  expect_rois(c, 1, 5, spatial_scale);
  const Shape data = is_forward ? c.shape(0) : shape;
  expect_images(c, data);
  expect_positive(c, "pooled_size", pooled_size), expect_positive(c, "output_dim", output_dim);
  expect_positive(c, "group_size", group_size, 0);
  const int64_t groups = group_size > 0 ? group_size : pooled_size;
  expect_channels(c, data, output_dim * groups * groups);
  const Shape pooled(c.shape(1)[0], output_dim, pooled_size, pooled_size);
  if constexpr (!is_forward) c.expect_shape(0, pooled);
  c.set_output(is_forward ? pooled : data, c.dtype());
}

template <RegionPart P>
void op::PSROIPoolingOp<P>::grad(GradContext& g) const requires(P == RegionPart::forward) {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_PSROIPooling(g.head(), g.input(1),
                                     {spatial_scale, output_dim, pooled_size, group_size, g.input_like(0).shape()}));
}

template <RegionPart P>
void run_cpu(const op::PSROIPoolingOp<P>& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    constexpr bool is_forward = P == RegionPart::forward;
    const Shape &data = is_forward ? c.in(0).shape : c.out().shape,
                &pooled = is_forward ? c.out().shape : c.in(0).shape;
    const PSJob<T> job(op, data, pooled, c.in(1).template as<const T>());
    if constexpr (is_forward) {
      const int64_t parts = job.rows * job.columns;
      for_each(c, job.regions * parts, std::max<int64_t>(1, 128 / job.results), [&](int64_t i) {
        pool_part(job, c.in(0).template as<const T>(), i / parts, i % parts, c.out().template as<T>());
      });
    } else {
      give_back<T>(c, job);
    }
  });
}

// --- DeformablePSROIPooling

template <RegionPart P>
constinit const OpDef op::DeformablePSROIPoolingOp<P>::def = make_op_def<op::DeformablePSROIPoolingOp<P>>();

template <RegionPart P>
void op::DeformablePSROIPoolingOp<P>::infer(InferContext& c) const {
  constexpr int at = P == RegionPart::backward_trans ? 2 : 1;  // of rois
  expect_rois(c, at, 5, spatial_scale);
  const Shape data = P == RegionPart::backward_data ? shape : c.shape(at - 1);
  expect_images(c, data);
  expect_positive(c, "output_dim", output_dim), expect_positive(c, "group_size", group_size);
  expect_positive(c, "pooled_size", pooled_size), expect_positive(c, "part_size", part_size, 0);
  expect_positive(c, "sample_per_part", sample_per_part);
  expect_channels(c, data, int64_t(output_dim) * group_size * group_size);
  const int64_t regions = c.shape(at)[0], parts = part_size > 0 ? part_size : pooled_size;
  if (no_trans && P == RegionPart::backward_trans) c.fail_value("no_trans leaves no gradient");
  if (!no_trans) {
    c.expect_ndim(at + 1, 4);
    const Shape trans = c.shape(at + 1);
    if (trans[0] != regions || trans[1] < 2 || trans[1] % 2 != 0 || output_dim % (trans[1] / 2) != 0 ||
        trans[2] != parts || trans[3] != parts) {
      c.fail(fmt::format("trans must be ({}, 2 times a divisor of {}, {}, {}), got {}", regions, output_dim, parts,
                         parts, trans.str()));
    }
  }
  const Shape pooled(regions, output_dim, pooled_size, pooled_size);
  if constexpr (P != RegionPart::forward) c.expect_shape(0, pooled);
  c.set_output(P == RegionPart::forward ? pooled : P == RegionPart::backward_data ? data : c.shape(at + 1), c.dtype());
}

template <RegionPart P>
void op::DeformablePSROIPoolingOp<P>::grad(GradContext& g) const requires(P == RegionPart::forward) {
  if (!g.has_head(0)) return;
  const auto part = [&]<RegionPart Q>(const Shape& data) {
    return DeformablePSROIPoolingOp<Q>{spatial_scale,   output_dim, group_size, pooled_size, part_size,
                                       sample_per_part, trans_std,  no_trans,   data};
  };
  if (g.wants(0)) {
    const auto back = part.template operator()<RegionPart::backward_data>(g.input_like(0).shape());
    g.set(0, no_trans ? nd._backward_DeformablePSROIPooling_data(g.head(), g.input(1), back)
                      : nd._backward_DeformablePSROIPooling_data(g.head(), g.input(1), g.input(2), back));
  }
  if (no_trans || !g.wants(2)) return;
  g.set(2, nd._backward_DeformablePSROIPooling_trans(g.head(), g.input(0), g.input(1), g.input(2),
                                                     part.template operator()<RegionPart::backward_trans>({})));
}

template <RegionPart P>
void run_cpu(const op::DeformablePSROIPoolingOp<P>& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    constexpr int at = P == RegionPart::backward_trans ? 2 : 1;  // of rois
    const Shape& data = P == RegionPart::backward_data ? c.out().shape : c.in(at - 1).shape;
    const Shape& pooled = P == RegionPart::forward ? c.out().shape : c.in(0).shape;
    const T* const trans = op.no_trans ? nullptr : c.in(at + 1).template as<const T>();
    const DeformedJob<T> job(op, data, pooled, c.in(at).template as<const T>(), trans,
                             op.no_trans ? 1 : c.in(at + 1).shape[1] / 2);
    if constexpr (P == RegionPart::forward) {
      for_each(c, c.out().size(), 256,
               PartValue<DeformedJob<T>, T>{job, c.in(0).template as<const T>(), c.out().template as<T>()});
    } else if constexpr (P == RegionPart::backward_data) {
      give_back<T>(c, job);
    } else {
      for_each(c, c.out().size() / 2, 8,
               TransGradient<T>{job, c.in(0).template as<const T>(), c.in(1).template as<const T>(),
                                c.out().template as<T>()});
    }
  });
}

// --- RROIAlign

template <RegionPart P>
constinit const OpDef op::RROIAlignOp<P>::def = make_op_def<op::RROIAlignOp<P>>();

template <RegionPart P>
void op::RROIAlignOp<P>::infer(InferContext& c) const {
  constexpr bool is_forward = P == RegionPart::forward;
  expect_rois(c, 1, 6, spatial_scale);
  const Shape data = is_forward ? c.shape(0) : shape;
  expect_images(c, data);
  if (pooled_size.ndim() != 2 || pooled_size[0] < 1 || pooled_size[1] < 1) {
    c.fail_value(fmt::format("pooled_size must be two positive numbers, got {}", pooled_size.str()));
  }
  const Shape pooled(c.shape(1)[0], data[1], pooled_size[0], pooled_size[1]);
  if constexpr (!is_forward) c.expect_shape(0, pooled);
  c.set_output(is_forward ? pooled : data, c.dtype());
}

template <RegionPart P>
void op::RROIAlignOp<P>::grad(GradContext& g) const requires(P == RegionPart::forward) {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_RROIAlign(g.head(), g.input(1),
                                  {pooled_size, spatial_scale, sampling_ratio, g.input_like(0).shape()}));
}

template <RegionPart P>
double op::RROIAlignOp<P>::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  const double samples = sampling_ratio > 0 ? double(sampling_ratio) * sampling_ratio : 4;
  return 12 * samples * double((P == RegionPart::forward ? outputs[0] : inputs[0]).shape.size());
}

namespace {

// All channels of one part: a sample is looked for once.
template <class T>
void align_part(const RotatedJob<T>& job, const T* data, int64_t r, int64_t part, T* out) {
  const int64_t parts = job.rows * job.columns, area = job.area(), image = job.image(r);
  T* const to = out + r * job.channels * parts + part;
  for (int64_t c = 0; c < job.channels; ++c) to[c * parts] = 0;
  if (image < 0) return;
  const RotatedPart<T> samples = job.part(r, 0, part / job.columns, part % job.columns);
  const T* const planes = data + image * job.channels * area;
  samples.each([&](int64_t pixel, T weight) {
    for (int64_t c = 0; c < job.channels; ++c) to[c * parts] += weight * planes[c * area + pixel];
  });
  for (int64_t c = 0; c < job.channels; ++c) to[c * parts] /= samples.divisor();
}

// The gradients of some channels of one image.
template <class T>
void align_planes(const RotatedJob<T>& job, const T* head, int64_t image, int64_t first, int64_t end, T* out) {
  const int64_t parts = job.rows * job.columns, area = job.area();
  T* const planes = out + image * job.channels * area;
  std::fill(planes + first * area, planes + end * area, T(0));
  for (int64_t i = 0; i < job.regions * parts; ++i) {
    const int64_t r = i / parts, part = i % parts;
    if (job.image(r) != image) continue;
    const RotatedPart<T> samples = job.part(r, 0, part / job.columns, part % job.columns);
    const T* const heads = head + r * job.channels * parts + part;
    const T scale = T(1) / samples.divisor();
    samples.each([&](int64_t pixel, T weight) {
      for (int64_t c = first; c < end; ++c) planes[c * area + pixel] += weight * scale * heads[c * parts];
    });
  }
}

}  // namespace

template <RegionPart P>
void run_cpu(const op::RROIAlignOp<P>& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    constexpr bool is_forward = P == RegionPart::forward;
    const Shape &data = is_forward ? c.in(0).shape : c.out().shape,
                &pooled = is_forward ? c.out().shape : c.in(0).shape;
    const RotatedJob<T> job(op, data, pooled, c.in(1).template as<const T>());
    const int64_t parts = job.rows * job.columns;
    const T* const from = c.in(0).template as<const T>();
    T* const out = c.out().template as<T>();
    if constexpr (is_forward) {
      for_each(c, job.regions * parts, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, job.channels)),
               [&](int64_t i) { align_part(job, from, i / parts, i % parts, out); });
    } else {
      constexpr int64_t together = 16;
      const int64_t bundles = (job.channels + together - 1) / together;
      for_each(c, job.images * bundles, 1, [&](int64_t i) {
        const int64_t first = i % bundles * together;
        align_planes(job, from, i / bundles, first, std::min(job.channels, first + together), out);
      });
    }
  });
}

template struct op::PSROIPoolingOp<RegionPart::forward>;
template struct op::PSROIPoolingOp<RegionPart::backward_data>;
template struct op::DeformablePSROIPoolingOp<RegionPart::forward>;
template struct op::DeformablePSROIPoolingOp<RegionPart::backward_data>;
template struct op::DeformablePSROIPoolingOp<RegionPart::backward_trans>;
template struct op::RROIAlignOp<RegionPart::forward>;
template struct op::RROIAlignOp<RegionPart::backward_data>;
template void run_cpu(const op::PSROIPooling&, KernelContext&);
template void run_cpu(const op::BackwardPSROIPooling&, KernelContext&);
template void run_cpu(const op::DeformablePSROIPooling&, KernelContext&);
template void run_cpu(const op::BackwardDeformablePSROIPoolingData&, KernelContext&);
template void run_cpu(const op::BackwardDeformablePSROIPoolingTrans&, KernelContext&);
template void run_cpu(const op::RROIAlign&, KernelContext&);
template void run_cpu(const op::BackwardRROIAlign&, KernelContext&);

}  // namespace kaon
