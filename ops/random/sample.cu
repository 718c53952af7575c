// Draws whose parameters are arrays, and those of distributions that reject, on CUDA: the numbers that the CPU draws.
#include <algorithm>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/random/kernels/draws.h"

namespace kaon {

using namespace ops;
namespace {

// The standard number of element i, by the words that the CPU's chunks have for it.
template <class A>
__device__ A standard_number(Distribution d, const RandomKey& key, int64_t i, int offset) {
  constexpr int per_block = 16 / int(sizeof(A));
  const Philox4 w = random_block(key.seed, key.offset, uint64_t(i / per_block));
  const int at = int(i % per_block);
  if constexpr (sizeof(A) == 4) {
    float pair[2];
    switch (d) {
      case Distribution::uniform: return float(int32_t(w.v[at] >> 8) + offset) * 0x1p-24f;
      case Distribution::normal:
        normal_pair(w.v[at / 2 * 2], w.v[at / 2 * 2 + 1], pair[0], pair[1]);
        return pair[at % 2];
      default: return exponential_number(w.v[at]);
    }
  } else {
    double pair[2];
    switch (d) {
      case Distribution::uniform: return uniform_double(w.v[2 * at], w.v[2 * at + 1]);
      case Distribution::normal: normal_pair(w.v, pair[0], pair[1]); return pair[at];
      default: return exponential_number(w.v[2 * at], w.v[2 * at + 1]);
    }
  }
}

template <class T>
struct DrawScaled {
  Draws d;
  RandomKey key;
  T* out;
  __device__ void operator()(int64_t i) const {
    const int64_t parameter = i / d.repeats;
    const ScaledNoise<T> scaled(d.distribution, d.first[parameter], d.second[parameter]);
    out[i] = T(scaled(standard_number<accumulate_t<T>>(d.distribution, key, i, uniform_offset<T>)));
  }
};

struct StoreNumber {
  WordStream& words;
  DrawnNumbers out;
  int64_t i;
  template <class Number>
  __device__ void operator()(const Number& number) const {
    out.set(i, number(words));
  }
};

struct DrawRejecting {
  Draws d;
  RandomKey key;
  DrawnNumbers out;
  __device__ void operator()(int64_t i) const {
    const int64_t parameter = i / d.repeats;
    WordStream words(key, uint64_t(i), random_block(key.seed, key.offset, uint64_t(i)));
    with_rejecting_number(d.distribution, d.first[parameter], d.second[parameter], StoreNumber{words, out, i});
  }
};

void draw(const Draws& d, KernelContext& c) {
  const TensorView& out = c.out();
  if (!is_scaled_noise(d.distribution)) {
    return cuda::for_each(c, out.size(), DrawRejecting{d, c.random, DrawnNumbers(out)});
  }
  dispatch_float("_sample", out.dtype, [&]<class T>() {
    cuda::for_each(c, out.size(), DrawScaled<T>{d, c.random, out.as<T>()});
  });
}

void draw(Distribution distribution, double first, double second, KernelContext& c) {
  DrawParameter a, b;
  a.number = first;
  b.number = second;
  draw(Draws{distribution, a, b, std::max<int64_t>(1, c.out().size())}, c);
}

}  // namespace

void ops::run_sample_cuda(Distribution distribution, KernelContext& c) {
  if (c.out().size() == 0) return;
  DrawParameter parameters[2];
  parameters[1].number = 1;
  for (int i = 0; i < c.num_inputs(); ++i) {
    parameters[i].data = c.in(i).data;
    parameters[i].dtype = c.in(i).dtype;
  }
  draw(Draws{distribution, parameters[0], parameters[1], c.out().size() / c.in(0).size()}, c);
}

void run_cuda(const op::RandomGamma& op, KernelContext& c) { draw(Distribution::gamma, op.alpha, op.beta, c); }
void run_cuda(const op::RandomExponential& op, KernelContext& c) { draw(Distribution::exponential, op.lam, 1, c); }
void run_cuda(const op::RandomPoisson& op, KernelContext& c) { draw(Distribution::poisson, op.lam, 1, c); }
void run_cuda(const op::RandomNegativeBinomial& op, KernelContext& c) {
  draw(Distribution::negative_binomial, op.k, op.p, c);
}
void run_cuda(const op::RandomGeneralizedNegativeBinomial& op, KernelContext& c) {
  draw(Distribution::generalized_negative_binomial, op.mu, op.alpha, c);
}

}  // namespace kaon
