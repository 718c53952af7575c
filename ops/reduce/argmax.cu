#include "kaon/ops/reduce/reduce.h"

#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon {

using namespace ops;
namespace {

template <class V>
struct Best {
  V value;
  int64_t index;  // -1: of nothing
};

// The best element and its place; of equal ones the first.
template <class V, class Out>
struct ArgBest {
  using Acc = Best<V>;
  using Fold = ArgBest;
  bool largest;
  Out* out;

  __device__ Acc identity() const { return {V(0), -1}; }
  __device__ bool better(V a, V b) const { return largest ? beats<Combine::max>(a, b) : beats<Combine::min>(a, b); }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (better(a.value, b.value)) return a;
    if (better(b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }
  __device__ void store(int64_t k, const Acc& acc) const { out[k] = Out(accumulate_t<Out>(acc.index)); }
};

template <class T, class V, class Out>
struct ArgElements : ArgBest<V, Out> {
  const T* data;
  __device__ Best<V> add(const Best<V>& acc, int64_t at, int64_t, int64_t j) const {
    const V v = V(data[at]);
    return acc.index < 0 || this->better(v, acc.value) ? Best<V>{v, j} : acc;  // j grows
  }
};

void run_arg(KernelContext& c, bool largest, std::optional<int> axis, const char* name) {
  const TensorView& in = c.in(0);
  if (in.size() == 0) return;
  const int ndim = in.shape.ndim();
  const ReduceDims dims(in.shape, axis ? bit(normalize_axis(*axis, ndim, name)) : (1u << ndim) - 1);
  dispatch_all(name, in.dtype, [&]<class T>() {
    using V = wide_t<T>;
    using Out = std::conditional_t<std::is_same_v<T, bool>, float, T>;
    cuda::reduce(c, ArgElements<T, V, Out>{{largest, c.out().as<Out>()}, in.as<T>()}, dims.span());
  });
}

}  // namespace

void run_cuda(const op::ArgMax& op, KernelContext& c) { run_arg(c, true, op.axis, "argmax"); }
void run_cuda(const op::ArgMin& op, KernelContext& c) { run_arg(c, false, op.axis, "argmin"); }
void run_cuda(const op::ArgMaxChannel&, KernelContext& c) { run_arg(c, true, 1, "argmax_channel"); }

}  // namespace kaon
