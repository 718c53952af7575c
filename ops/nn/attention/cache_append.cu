#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/nn/attention/attention.h"

namespace kaon {

using namespace ops;
namespace {

// Element i of data (rows, n, dim) into a cache (rows, capacity, dim) of elements of this size.
template <class T>
struct AppendFn {
  cuda::FastDivide size, dim, heads;  // n dim
  int64_t capacity, step;
  cuda::Positions positions;
  const T* data;
  T* cache;
  __device__ void operator()(int64_t i) const {
    int64_t at = i;
    const int64_t row = size.split(at), first = positions(heads.quotient(row) * step);
    cache[(row * capacity + first) * dim.divisor() + at] = data[i];
  }
};

}  // namespace

void run_cuda(const op::CacheAppend&, KernelContext& c) {
  const Shape &cache = c.in(0).shape, &data = c.in(1).shape;
  const cuda::Positions positions(c.in(2), cache[2] - data[2] + 1, IndexMode::raise);
  dispatch_width(c.in(0).dtype, [&]<class T>() {
    cuda::for_each(
        c, data.size(),
        AppendFn<T>{cuda::FastDivide(data[2] * data[3]), cuda::FastDivide(data[3]), cuda::FastDivide(data[1]), cache[2],
                    c.in(2).size() == 1 ? 0 : 1, positions, c.in(1).as<T>(), c.in(0).as<T>()});
  });
}

}  // namespace kaon
