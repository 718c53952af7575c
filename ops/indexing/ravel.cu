// Tuples of indices and positions on CUDA.
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/indexing/kernels/ravel_value.h"
#include "kaon/ops/kernels/index_list.cuh"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct Ravel {
  RavelSizes sizes;
  int64_t n;
  const T* tuples;
  T* positions;
  __device__ void operator()(int64_t j) const { positions[j] = T(accumulate_t<T>(ravel_value(sizes, tuples, n, j))); }
};

template <class T>
struct Unravel {
  RavelSizes sizes;
  int64_t n;
  const T* positions;
  T* tuples;
  __device__ void operator()(int64_t j) const { unravel_value(sizes, positions[j], tuples, n, j); }
};

}  // namespace

void run_cuda(const op::RavelMultiIndex& op, KernelContext& c) {
  const int64_t n = c.out().size();
  dispatch_number("_ravel_multi_index", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, n, Ravel<T>{RavelSizes(*op.shape), n, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::UnravelIndex& op, KernelContext& c) {
  const int64_t n = c.in(0).size();
  dispatch_number("_unravel_index", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, n, Unravel<T>{RavelSizes(*op.shape), n, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

}  // namespace kaon
