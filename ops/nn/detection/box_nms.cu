// Suppression on CUDA, a block for each sample, and rows by their numbers.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/detection/kernels/suppression.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int threads = 256;

// How many threads before this one have `flag`; `total`: how many have it. For all threads of a block at once.
__device__ int64_t count_before(bool flag, int64_t& total) {
  __shared__ int counts[threads + 1];
  const int t = int(threadIdx.x);
  counts[t + 1] = flag;
  __syncthreads();
  if (t == 0) {
    counts[0] = 0;
    for (int i = 0; i < threads; ++i) counts[i + 1] += counts[i];
  }
  __syncthreads();
  const int64_t before = counts[t];
  total = counts[threads];
  __syncthreads();
  return before;
}

// Where a block keeps the candidates of its sample.
template <class A>
struct Lists {
  Candidate<A>* candidates;
  uint8_t* is_suppressed;
};

template <class T>
__global__ void __launch_bounds__(threads)
    suppress_kernel(SuppressJob<T> job, int64_t samples, Lists<accumulate_t<T>> lists) {
  const int t = int(threadIdx.x);
  auto* const all = lists.candidates + int64_t(blockIdx.x) * job.count;
  uint8_t* const is_suppressed = lists.is_suppressed + int64_t(blockIdx.x) * job.count;
  for (int64_t sample = blockIdx.x; sample < samples; sample += gridDim.x) {
    int64_t* const rows = job.rows + sample * job.count;
    int64_t n = 0, total = 0;
    for (int64_t first = 0; first < job.count && n < job.limit(); first += threads) {
      const int64_t place = first + t;
      const T* const row = place < job.count ? job.row_at(sample, place) : nullptr;
      const bool is_candidate = row && job.is_candidate(row);
      const int64_t at = n + count_before(is_candidate, total);
      if (is_candidate && at < job.limit()) all[at] = job.candidate(row, place), is_suppressed[at] = 0;
      n += total;
    }
    if (n > job.limit()) n = job.limit();
    for (int64_t i = t; i < job.count; i += threads) rows[i] = -1;
    __syncthreads();
    for (int64_t i = 0; i < n; ++i) {
      if (!is_suppressed[i]) {
        for (int64_t j = i + 1 + t; j < n; j += threads) {
          if (!is_suppressed[j] && job.suppresses(all[i], all[j])) is_suppressed[j] = 1;
        }
      }
      __syncthreads();
    }
    int64_t kept = 0;
    for (int64_t first = 0; first < n; first += threads) {
      const int64_t i = first + t;
      const bool stays = i < n && !is_suppressed[i];
      const int64_t at = kept + count_before(stays, total);
      if (stays) {
        rows[job.op.kind == SuppressKind::box ? at : all[i].place] = job.row_number(sample, all[i].place);
      }
      kept += total;
    }
    __syncthreads();
  }
}

}  // namespace

void run_cuda(const op::BoxSuppress& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float("_box_suppress", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const SuppressJob<T> job(op, c);
    const int64_t samples = c.in(0).shape[0], blocks = samples < 1024 ? samples : 1024;
    const Lists<A> lists{static_cast<Candidate<A>*>(c.run.workspace(size_t(blocks * job.count) * sizeof(Candidate<A>))),
                         static_cast<uint8_t*>(c.run.workspace(size_t(blocks * job.count)))};
    cuda::launch(c, suppress_kernel<T>, unsigned(blocks), unsigned(threads), job, samples, lists);
  });
}

void run_cuda(const op::BoxTake& op, KernelContext& c) {
  dispatch_float("_box_take", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(),
                   BoxTakeValue<T>{op, c.in(0).shape[1], c.in(1).shape[1], c.in(0).shape[2], c.in(0).as<const T>(),
                                   c.in(1).as<const int64_t>(), c.out().as<T>()});
  });
}

void run_cuda(const op::BackwardBoxTake& op, KernelContext& c) {
  cuda::zero_bytes(c, c.out().data, c.out().bytes());
  dispatch_float("_backward_box_take", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.in(0).shape[0] * c.in(0).shape[2],
                   BoxGiveBack<T>{op.count, c.in(0).shape[1], c.in(0).shape[2], c.in(0).as<const T>(),
                                  c.in(1).as<const int64_t>(), c.out().as<T>()});
  });
}

}  // namespace kaon
