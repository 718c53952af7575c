// Regions on CUDA: a thread for each result, and for each channel of an image that gradients are added up in: without
// atomics the bits are the same each time.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/region/kernels/region_jobs.h"

namespace kaon {

using namespace ops;
namespace {

template <class T, class Job>
void pool(KernelContext& c, const Job& job, const T* data) {
  cuda::for_each(c, c.out().size(), PartValue<Job, T>{job, data, c.out().as<T>()});
}

template <class T, class Job>
void give_back(KernelContext& c, const Job& job) {
  using A = accumulate_t<T>;
  if (c.out().size() == 0) return;
  void* const sums = sizeof(T) == sizeof(A) ? c.out().data : c.run.workspace(size_t(c.out().size()) * sizeof(A));
  cuda::for_each(c, job.images * job.channels,
                 PlaneGradient<Job, T>{job, c.in(0).as<const T>(), static_cast<A*>(sums), c.out().as<T>()});
}

// For operators with rois as input 1.
template <template <class> class Job, RegionPart P, class Op>
void run(const Op& op, KernelContext& c) {
  constexpr bool is_forward = P == RegionPart::forward;
  dispatch_float(op.traits.name.data(), c.out().dtype, [&]<class T>() {
    const Shape &data = is_forward ? c.in(0).shape : c.out().shape,
                &pooled = is_forward ? c.out().shape : c.in(0).shape;
    const Job<T> job(op, data, pooled, c.in(1).template as<const T>());
    if constexpr (is_forward) {
      pool<T>(c, job, c.in(0).template as<const T>());
    } else {
      give_back<T>(c, job);
    }
  });
}

}  // namespace

template <RegionPart P>
void run_cuda(const op::PSROIPoolingOp<P>& op, KernelContext& c) {
  run<PSJob, P>(op, c);
}

template <RegionPart P>
void run_cuda(const op::RROIAlignOp<P>& op, KernelContext& c) {
  run<RotatedJob, P>(op, c);
}

template <RegionPart P>
void run_cuda(const op::DeformablePSROIPoolingOp<P>& op, KernelContext& c) {
  dispatch_float(op.traits.name.data(), c.out().dtype, [&]<class T>() {
    constexpr int at = P == RegionPart::backward_trans ? 2 : 1;  // of rois
    const Shape& data = P == RegionPart::backward_data ? c.out().shape : c.in(at - 1).shape;
    const Shape& pooled = P == RegionPart::forward ? c.out().shape : c.in(0).shape;
    const T* const trans = op.no_trans ? nullptr : c.in(at + 1).template as<const T>();
    const DeformedJob<T> job(op, data, pooled, c.in(at).template as<const T>(), trans,
                             op.no_trans ? 1 : c.in(at + 1).shape[1] / 2);
    if constexpr (P == RegionPart::forward) {
      pool<T>(c, job, c.in(0).template as<const T>());
    } else if constexpr (P == RegionPart::backward_data) {
      give_back<T>(c, job);
    } else {
      cuda::for_each(c, c.out().size() / 2,
                     TransGradient<T>{job, c.in(0).template as<const T>(), c.in(1).template as<const T>(),
                                      c.out().template as<T>()});
    }
  });
}

template void run_cuda(const op::PSROIPooling&, KernelContext&);
template void run_cuda(const op::BackwardPSROIPooling&, KernelContext&);
template void run_cuda(const op::DeformablePSROIPooling&, KernelContext&);
template void run_cuda(const op::BackwardDeformablePSROIPoolingData&, KernelContext&);
template void run_cuda(const op::BackwardDeformablePSROIPoolingTrans&, KernelContext&);
template void run_cuda(const op::RROIAlign&, KernelContext&);
template void run_cuda(const op::BackwardRROIAlign&, KernelContext&);

}  // namespace kaon
