// Histograms on CUDA: every element adds to its bin.
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/statistics/kernels/even_bins.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;
namespace {

// Edges of equal bins, as reals of type T have them.
template <class T>
struct EvenEdges {
  EvenBins bins;
  __device__ double operator()(int64_t i) const {
    const double edge = bins.edge(i);
    if constexpr (is_floating(dtype_of<T>)) {
      return double(accumulate_t<T>(T(accumulate_t<T>(edge))));
    } else {
      return edge;
    }
  }
  __device__ int64_t guess(double x) const { return bins.guess(x); }
};

template <class T>
struct GivenEdges {
  const T* edges;
  __device__ double operator()(int64_t i) const { return double(accumulate_t<T>(edges[i])); }
  __device__ int64_t guess(double) const { return -1; }
};

template <class T, class Edges>
struct CountElement {
  const T* data;
  Edges edges;
  int64_t bins;
  unsigned long long* counts;
  __device__ void operator()(int64_t i) const {
    const double x = double(accumulate_t<T>(data[i]));
    if (!(x >= edges(0) && x <= edges(bins))) return;
    atomicAdd(counts + bin_of(x, bins, edges.guess(x), edges), 1ull);
  }
};

template <class T, class Edges>
struct WriteEdge {
  Edges edges;
  T* out;
  __device__ void operator()(int64_t i) const { out[i] = convert<T>(edges(i)); }
};

template <class T, class Edges>
void count(KernelContext& c, const Edges& edges) {
  const int64_t bins = c.out(0).size();
  if (c.out(1).data) cuda::for_each(c, bins + 1, WriteEdge<T, Edges>{edges, c.out(1).as<T>()});
  if (!c.out(0).data) return;
  auto* counts = c.out(0).as<unsigned long long>();
  cuda::zero_bytes(c, counts, c.out(0).bytes());
  cuda::for_each(c, c.in(0).size(), CountElement<T, Edges>{c.in(0).as<const T>(), edges, bins, counts});
}

}  // namespace

void run_cuda(const op::Histogram& op, KernelContext& c) {
  dispatch_number("_histogram", c.in(0).dtype, [&]<class T>() {
    if (op.bin_cnt) return count<T>(c, EvenEdges<T>{even_bins(op)});
    count<T>(c, GivenEdges<T>{c.in(1).as<const T>()});
  });
}

}  // namespace kaon
