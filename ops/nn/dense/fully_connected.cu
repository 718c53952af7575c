#include "kaon/ops/nn/dense/dense.h"

#include "kaon/ops/kernels/epilogue.cuh"
#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t few_rows = 4;
constexpr int64_t long_columns = 4096, many_columns = 1024;
constexpr int warps = 4;  // of a block

// C: of the numbers per channel.
template <class T, class C>
struct Vectors {
  const T *x, *w;
  T* y;
  const C *scale, *shift;
  const T* addend;
  FusedActivation activation;
  int64_t hidden, k;
};

// A warp makes one column of y: it reads a row of w once, for all M rows of x. N elements are read at a time.
template <int M, int N, class T, class C>
__global__ void __launch_bounds__(warps* cuda::warp) few_rows_kernel(Vectors<T, C> v) {
  using A = accumulate_t<T>;
  using Read = cuda::Pack<T, N>;
  const int lane = int(threadIdx.x % cuda::warp);
  const int64_t column = int64_t(blockIdx.x) * warps + threadIdx.x / cuda::warp;
  if (column >= v.hidden) return;
  const Read* const row = reinterpret_cast<const Read*>(v.w + column * v.k);
  A sum[M] = {};
#pragma unroll 4
  for (int64_t i = lane; i < v.k / N; i += cuda::warp) {
    const Read w = row[i];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const Read x = reinterpret_cast<const Read*>(v.x + m * v.k)[i];
#pragma unroll
      for (int j = 0; j < N; ++j) sum[m] += A(x.v[j]) * A(w.v[j]);
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    for (int bits = 1; bits < cuda::warp; bits *= 2) sum[m] += cuda::shuffle_xor(sum[m], bits);
    if (lane != m) continue;
    const int64_t at = m * v.hidden + column;
    A value = sum[m];
    if (v.scale) value *= A(v.scale[column]);
    if (v.shift) value += A(v.shift[column]);
    if (v.addend) value += A(v.addend[at]);
    v.y[at] = T(cuda::activate(value, v.activation));
  }
}

template <int M, class T, class C>
void launch_few_rows(KernelContext& c, const Vectors<T, C>& v) {
  constexpr int N = 16 / sizeof(T);
  const bool packs = v.k % N == 0 && cuda::is_aligned<N>(v.x) && cuda::is_aligned<N>(v.w);
  const auto kernel = packs ? few_rows_kernel<M, N, T, C> : few_rows_kernel<M, 1, T, C>;
  cuda::launch(c, kernel, unsigned((v.hidden + warps - 1) / warps), unsigned(warps * cuda::warp), v);
}

// A product with few rows is bound by reading its weights: this kernel reads them once.
template <class T, class C>
void few_rows_product(KernelContext& c, int64_t rows, const Epilogue<void>& e, int64_t hidden, int64_t k) {
  const Vectors<T, C> v{c.in(0).as<T>(),
                        c.in(1).as<T>(),
                        c.out().as<T>(),
                        static_cast<const C*>(e.scale),
                        static_cast<const C*>(e.shift),
                        static_cast<const T*>(e.addend),
                        e.activation,
                        hidden,
                        k};
  switch (rows) {
    case 1: return launch_few_rows<1>(c, v);
    case 2: return launch_few_rows<2>(c, v);
    case 3: return launch_few_rows<3>(c, v);
    default: return launch_few_rows<4>(c, v);
  }
}

}  // namespace

void run_cuda(const op::FullyConnected& op, KernelContext& c) {
  const int64_t hidden = c.in(1).shape[0], k = c.in(1).shape[1], rows = hidden ? c.out().size() / hidden : 0;
  const Epilogue<void> e = layer_epilogue<void>(c, op.no_bias, op.post_ops);
  if (rows == 0) return;
  // few warps with long work would leave most of a GPU idle
  const bool keeps_busy = k <= long_columns || hidden >= many_columns;
  if (rows <= few_rows && keeps_busy && hidden < int64_t(1) << 32) {
    return dispatch_float("FullyConnected", c.out().dtype, [&]<class T>() {
      if (e.scale) {
        few_rows_product<T, accumulate_t<T>>(c, rows, e, hidden, k);
      } else {
        few_rows_product<T, T>(c, rows, e, hidden, k);
      }
    });
  }
  cuda::multiply(c, {.a = c.in(0).data,
                     .b = c.in(1).data,
                     .c = c.out().data,
                     .dtype = c.out().dtype,
                     .m = rows,
                     .n = hidden,
                     .k = k,
                     .transpose_b = true,
                     .epilogue = e});
}

}  // namespace kaon
