// add_n on CUDA: one pass over all inputs, which are summed in registers.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/scalar_math.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int most_terms = 64;  // of one launch

struct Terms {
  int count = 0;
  const void* at[most_terms];
};

// out = before + terms in their order; without `before` it starts with the first term.
template <int N, class T, class A, class Out>
__global__ void add_kernel(int64_t n, bool aligned, Terms terms, const A* before, Out* out) {
  using cuda::Pack;
  for (int64_t at = cuda::first_item() * N; at < n; at += cuda::item_step() * N) {
    const bool whole = aligned && at + N <= n;
    Pack<A, N> sum{};
    if (before) sum = cuda::load_pack<N>(before, at, n, whole);
    for (int k = 0; k < terms.count; ++k) {
      const Pack<T, N> x = cuda::load_pack<N>(static_cast<const T*>(terms.at[k]), at, n, whole);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum.v[j] = k == 0 && !before ? A(x.v[j]) : binary_value<BinaryKind::add, A>(sum.v[j], A(x.v[j]));
      }
    }
    Pack<Out, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) y.v[j] = Out(sum.v[j]);
    cuda::store_pack(out, at, n, whole, y);
  }
}

template <class T, class A, class Out>
void add(KernelContext& c, const Terms& terms, const A* before, Out* out) {
  constexpr int N = 16 / int(sizeof(A));
  const int64_t n = c.out().size();
  bool aligned = cuda::is_aligned<N>(out);
  for (int k = 0; k < terms.count; ++k) aligned = aligned && cuda::is_aligned<N>(static_cast<const T*>(terms.at[k]));
  cuda::launch(c, add_kernel<N, T, A, Out>, cuda::blocks_for(n, cuda::block, N), unsigned(cuda::block), n, aligned,
               terms, before, out);
}

}  // namespace

void run_cuda(const op::AddN& op, KernelContext& c) {
  const TensorView& out = c.out();
  if (out.size() == 0) return;
  dispatch_signed("add_n", out.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    A* sums = op.num_args > most_terms ? static_cast<A*>(c.run.workspace(size_t(out.size()) * sizeof(A))) : nullptr;
    for (int done = 0; done < op.num_args;) {
      const A* before = done > 0 ? sums : nullptr;
      Terms terms;
      while (terms.count < most_terms && done < op.num_args) terms.at[terms.count++] = c.in(done++).data;
      if (done < op.num_args) {
        add<T>(c, terms, before, sums);
      } else {
        add<T>(c, terms, before, out.as<T>());
      }
    }
  });
}

}  // namespace kaon
