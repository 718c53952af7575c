// The operators that draw random numbers on CUDA: the numbers that the CPU draws.
#include "kaon/ops/random/random.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/cuda/random.cuh"
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/random/kernels/draws.h"

namespace kaon {

using namespace ops;
namespace {

using cuda::Pack;

// The elements of one block, written together where they are whole and aligned.
template <class T, int N>
__device__ void store_block(T* out, int64_t block, int64_t n, bool aligned, const Pack<T, N>& y) {
  cuda::store_pack(out, block * N, n, aligned && (block + 1) * N <= n, y);
}

template <class T>
struct UniformFn {
  using A = accumulate_t<T>;
  static constexpr int per_block = 16 / int(sizeof(A));
  A low, width, limit;
  T* out;
  int64_t n;
  bool aligned;
  __device__ void operator()(int64_t block, const Philox4& w) const {
    Pack<T, per_block> y;
#pragma unroll
    for (int j = 0; j < per_block; ++j) {
      A unit;
      if constexpr (sizeof(A) == 4) {
        unit = uniform_float<T>(w.v[j]);
      } else {
        unit = uniform_double(w.v[2 * j], w.v[2 * j + 1]);
      }
      const A x = ::fma(unit, width, low);
      y.v[j] = T(x < limit ? x : limit);
    }
    store_block(out, block, n, aligned, y);
  }
};

template <class T>
struct NormalFn {
  using A = accumulate_t<T>;
  static constexpr int per_block = 16 / int(sizeof(A));
  A mean, deviation;
  T* out;
  int64_t n;
  bool aligned;
  __device__ void operator()(int64_t block, const Philox4& w) const {
    A z[per_block];
    if constexpr (sizeof(A) == 4) {
      normal_pair(w.v[0], w.v[1], z[0], z[1]);
      normal_pair(w.v[2], w.v[3], z[2], z[3]);
    } else {
      normal_pair(w.v, z[0], z[1]);
    }
    Pack<T, per_block> y;
#pragma unroll
    for (int j = 0; j < per_block; ++j) y.v[j] = T(::fma(z[j], deviation, mean));
    store_block(out, block, n, aligned, y);
  }
};

template <class T>
struct RandintFn {
  int64_t low;
  uint64_t range;
  T* out;
  int64_t n;
  bool aligned;
  __device__ void operator()(int64_t block, const Philox4& w) const {
    Pack<T, 2> y;
#pragma unroll
    for (int j = 0; j < 2; ++j) y.v[j] = T(uint64_t(low) + uniform_below(w.v[2 * j], w.v[2 * j + 1], range));
    store_block(out, block, n, aligned, y);
  }
};

constexpr int scan_tile = 256;
constexpr int scan_warps = 4;  // rows per block

// sums[i] = data[0] + ... + data[i] of each row, a warp for each: one lane adds, in the order of the CPU. NaN from the
// first number on that is no probability.
template <class T>
__global__ void scan_kernel(int64_t rows, int64_t k, const T* data, double* sums) {
  __shared__ double tiles[scan_warps][scan_tile];
  double* tile = tiles[threadIdx.y];
  const int lane = int(threadIdx.x);
  const int64_t step = int64_t(gridDim.x) * scan_warps;
  for (int64_t first = int64_t(blockIdx.x) * scan_warps; first < rows; first += step) {
    const int64_t row = first + threadIdx.y;
    double sum = 0;
    for (int64_t begin = 0; begin < k; begin += scan_tile) {
      const int m = int(k - begin < scan_tile ? k - begin : scan_tile);
      for (int i = lane; i < m && row < rows; i += 32) {
        const double p = double(accumulate_t<T>(data[row * k + begin + i]));
        tile[i] = p >= 0 ? p : std::numeric_limits<double>::quiet_NaN();
      }
      __syncthreads();
      for (int i = 0; i < m && lane == 0; ++i) tile[i] = sum += tile[i];
      __syncthreads();
      for (int i = lane; i < m && row < rows; i += 32) sums[row * k + begin + i] = tile[i];
      __syncthreads();
    }
  }
}

template <class T>
struct DrawClass {
  const double* sums;
  int64_t k, draws;
  T* out;
  DrawParameter probabilities;
  DrawnNumbers log_probabilities;
  __device__ void operator()(int64_t i, const Philox4& w) const {
    const double* row = sums + i / draws * k;
    const double sum = row[k - 1], u = uniform_double(w.v[0], w.v[1]) * sum;
    if (!(sum > 0 && sum <= std::numeric_limits<double>::max())) {
      out[i] = convert<T>(int64_t(-1));
      return log_probabilities.set(i, std::numeric_limits<double>::quiet_NaN());
    }
    int64_t low = 0, high = k - 1;  // the first sum above u, at most the last
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (row[middle] > u) high = middle;
      else low = middle + 1;
    }
    out[i] = convert<T>(low);
    if (log_probabilities.data) log_probabilities.set(i, ::log(probabilities[i / draws * k + low]));
  }
};

// Step i of a shuffle exchanges row i with this row, which is not before i.
__device__ int64_t shuffle_partner(const RandomKey& key, int64_t i, int64_t rows) {
  const Philox4 w = random_block(key.seed, key.offset, uint64_t(i));
  return i + int64_t(uniform_below(w.v[0], w.v[1], uint64_t(rows - i)));
}

struct WritePartner {
  RandomKey key;
  int64_t rows;
  int64_t* partner;
  __device__ void operator()(int64_t i) const { partner[i] = shuffle_partner(key, i, rows); }
};

// The order after all steps, computed for each row in parallel. Step i fixes the row that its partner's place holds:
// the row that the latest earlier step k with the same partner has put there (place k's row when step k began), or the
// place's own row if there is no such step. `steps` are sorted by partner. The row of a place is found by going back
// from step to step: one on average, and not much more than the logarithm of the number of rows at most.
struct ShuffledRow {
  RandomKey key;
  int64_t rows;
  cuda::Contributions steps;
  int64_t* taken;  // by step
  __device__ void operator()(int64_t at) const {
    const int64_t i = steps.order[at], partner = shuffle_partner(key, i, rows);
    taken[i] = at > steps.start[partner] ? held(steps.order[at - 1]) : partner;
  }
  // The row at place k when step k begins: only steps up to k have place k as their partner.
  __device__ int64_t held(int64_t k) const {
    for (;;) {
      const int64_t first = steps.start[k];
      int64_t last = steps.start[k + 1] - 1;
      if (last >= first && steps.order[last] == k) --last;
      if (last < first) return k;
      k = steps.order[last];
    }
  }
};

template <class Unit>
struct TakeRows {
  const Unit* in;
  const int64_t* order;
  Unit* out;
  int64_t units;  // per row
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / units;
    out[i] = in[order[row] * units + (i - row * units)];
  }
};

template <class Unit>
bool take_rows(KernelContext& c, const int64_t* order) {
  const TensorView &in = c.in(0), &out = c.out();
  const size_t row_bytes = in.bytes() / size_t(in.shape[0]);
  if (row_bytes % sizeof(Unit) != 0 || !cuda::is_aligned<1>(in.as<Unit>()) || !cuda::is_aligned<1>(out.as<Unit>())) {
    return false;
  }
  const int64_t units = int64_t(row_bytes / sizeof(Unit));
  cuda::for_each(c, in.shape[0] * units, TakeRows<Unit>{in.as<Unit>(), order, out.as<Unit>(), units});
  return true;
}

}  // namespace

void run_cuda(const op::RandomUniform& op, KernelContext& c) {
  const TensorView& out = c.out();
  dispatch_float("_random_uniform", out.dtype, [&]<class T>() {
    using F = UniformFn<T>;
    using A = accumulate_t<T>;
    const F f{A(op.low),   A(op.high - op.low), uniform_limit<T>(op.low, op.high),
              out.as<T>(), out.size(),          cuda::is_aligned<F::per_block>(out.as<T>())};
    cuda::for_random_blocks(c, out.size(), F::per_block, f);
  });
}

void run_cuda(const op::RandomNormal& op, KernelContext& c) {
  expect_scale(op.scale);
  const TensorView& out = c.out();
  dispatch_float("_random_normal", out.dtype, [&]<class T>() {
    using F = NormalFn<T>;
    using A = accumulate_t<T>;
    const F f{A(op.loc), A(op.scale), out.as<T>(), out.size(), cuda::is_aligned<F::per_block>(out.as<T>())};
    cuda::for_random_blocks(c, out.size(), F::per_block, f);
  });
}

void run_cuda(const op::RandomRandint& op, KernelContext& c) {
  const TensorView& out = c.out();
  const uint64_t range = uint64_t(op.high) - uint64_t(op.low);
  dispatch_width(out.dtype, [&]<class T>() {
    cuda::for_random_blocks(c, out.size(), 2,
                            RandintFn<T>{op.low, range, out.as<T>(), out.size(), cuda::is_aligned<2>(out.as<T>())});
  });
}

void run_cuda(const op::SampleMultinomial& op, KernelContext& c) {
  const TensorView &data = c.in(0), &out = c.out();
  const int64_t k = data.shape.back(), rows = data.size() / k;
  if (out.size() == 0) return;
  double* sums = static_cast<double*>(c.run.workspace(sizeof(double) * size_t(data.size())));
  const DrawParameter probabilities{data.data, data.dtype};
  const DrawnNumbers log_probabilities(op.get_prob ? c.out(1) : TensorView());
  dispatch_float("_sample_multinomial", data.dtype, [&]<class T>() {
    cuda::launch(c, scan_kernel<T>, cuda::blocks_for(rows, scan_warps), dim3(32, scan_warps), rows, k,
                 data.as<const T>(), sums);
  });
  dispatch_all("_sample_multinomial", as_signed(out.dtype), [&]<class T>() {
    cuda::for_random_blocks(c, out.size(), 1,
                            DrawClass<T>{sums, k, op.shape.size(), out.as<T>(), probabilities, log_probabilities});
  });
}

void run_cuda(const op::Shuffle&, KernelContext& c) {
  const TensorView& in = c.in(0);
  if (in.size() == 0) return;
  const int64_t rows = in.shape[0];
  int64_t* partner = static_cast<int64_t*>(c.run.workspace(sizeof(int64_t) * size_t(rows)));
  cuda::for_each(c, rows, WritePartner{c.random, rows, partner});
  const cuda::Contributions steps = cuda::sort_contributions(c, partner, rows, rows);
  int64_t* order = partner;  // sorted, it is not needed
  cuda::for_each(c, rows, ShuffledRow{c.random, rows, steps, order});
  take_rows<Pack<uint32_t, 4>>(c, order) || take_rows<uint64_t>(c, order) || take_rows<uint32_t>(c, order) ||
      take_rows<uint16_t>(c, order) || take_rows<uint8_t>(c, order);
}

}  // namespace kaon
