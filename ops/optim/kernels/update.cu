// The update operators on CUDA: many tensors in one launch.
#include <utility>

#include "kaon/ops/optim/kernels/tensor_list.cuh"
#include "kaon/ops/optim/kernels/update_rules.h"

namespace kaon {

using namespace ops;
namespace {

using cuda::Pack;

constexpr int arrays_of(UpdateKind kind) { return kind == UpdateKind::sgd ? 2 : kind == UpdateKind::adam ? 4 : 3; }

// The parameters that all updates share, in the type that they compute with.
template <class A>
struct Rule {
  bool clips;
  A rescale, clip, momentum, beta1, rest1, beta2, rest2, epsilon;

  explicit Rule(const UpdateRule& r)
      : clips(r.clip >= 0),
        rescale(A(r.rescale)),
        clip(A(r.clip)),
        momentum(A(r.momentum)),
        beta1(A(r.beta1)),
        rest1(A(1 - r.beta1)),
        beta2(A(r.beta2)),
        rest2(A(1 - r.beta2)),
        epsilon(A(r.epsilon)) {}

  __device__ A clipped(A g) const {
    if (!clips) return g;
    const A below = g > clip ? clip : g;  // NaN stays
    return below < -clip ? -clip : below;
  }
};

// Denormal states become zero as on the CPU, where they cost time.
template <class A>
__device__ A without_denormals(A state) {
  constexpr A least = sizeof(A) == 8 ? A(0x1p-1022) : A(0x1p-126);
  return ::fabs(state) < least ? A(0) : state;
}

// Element j of a weight, its gradient and its states; roundings as on the CPU.
template <UpdateKind kind, int N, class A, int K>
__device__ void update(const Rule<A>& r, A lr, A wd, A keep, A lr_wd, A (&v)[K][N], int j) {
  A &weight = v[0][j], &grad = v[1][j];
  if constexpr (kind == UpdateKind::sgd) {
    weight = ::fma(-lr, r.clipped(grad * r.rescale), keep * weight);
  } else if constexpr (kind == UpdateKind::sgd_momentum) {
    A& mom = v[2][j];
    mom = without_denormals(::fma(-lr, r.clipped(grad * r.rescale), ::fma(-lr_wd, weight, r.momentum * mom)));
    weight = weight + mom;
  } else {
    A &mean = v[2][j], &var = v[3][j];
    const A g = r.clipped(::fma(wd, weight, grad * r.rescale));
    mean = without_denormals(::fma(r.beta1, mean, r.rest1 * g));
    var = without_denormals(::fma(r.beta2, var, r.rest2 * (g * g)));
    weight = weight - lr * mean / (::sqrt(var) + r.epsilon);
  }
}

// With `rates`: the learning rates of `tensors` tensors, then their weight decays; else lr and wd.
template <class T, UpdateKind kind>
__global__ void update_kernel(cuda::TensorList<arrays_of(kind)> list, Rule<accumulate_t<T>> rule, const float* rates,
                              int tensors, double lr, double wd) {
  using A = accumulate_t<T>;
  constexpr int K = arrays_of(kind), N = 16 / int(sizeof(A));
  const int tensor = list.tensor();
  if (rates) {
    lr = rates[list.number[tensor]];
    wd = rates[tensors + list.number[tensor]];
  }
  const A keep = A(1 - lr * wd), lr_wd = A(lr * wd);
  const int64_t begin = list.begin(tensor), n = list.size[tensor];
  const int64_t end = begin + cuda::list_part < n ? begin + cuda::list_part : n;
  for (int64_t at = begin + int64_t(threadIdx.x) * N; at < end; at += int64_t(blockDim.x) * N) {
    const bool whole = list.aligned[tensor] && at + N <= n;
    A v[K][N];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Pack<T, N> x = cuda::load_pack<N>(static_cast<const T*>(list.array[tensor][k]), at, n, whole);
#pragma unroll
      for (int j = 0; j < N; ++j) v[k][j] = A(x.v[j]);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) update<kind, N>(rule, A(lr), A(wd), keep, lr_wd, v, j);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (k == 1) continue;  // the gradient
      Pack<T, N> y;
#pragma unroll
      for (int j = 0; j < N; ++j) y.v[j] = T(v[k][j]);
      cuda::store_pack(static_cast<T*>(list.array[tensor][k]), at, n, whole, y);
    }
  }
}

// Groups of inputs, one for each tensor.
struct Update {
  KernelContext& c;
  const UpdateRule& rule;
  int tensors;
  const float* rates;
  double lr, wd;

  template <class T, UpdateKind kind>
  void flush(cuda::TensorList<arrays_of(kind)>& list) const {
    if (list.blocks() > 0) {
      cuda::launch(c, update_kernel<T, kind>, list.blocks(), unsigned(cuda::block), list, Rule<accumulate_t<T>>(rule),
                   rates, tensors, lr, wd);
      c.run.updates_are_whole = false;
    }
    list = {};
  }

  // All tensors of one dtype.
  template <class T, UpdateKind kind>
  void run_typed() const {
    constexpr int K = arrays_of(kind);
    cuda::TensorList<K> list;
    for (int i = 0; i < tensors; ++i) {
      if (c.in(i * K).dtype != dtype_of<T>) continue;
      void* arrays[K];
      for (int k = 0; k < K; ++k) arrays[k] = c.in(i * K + k).data;
      list.add(i, c.in(i * K).size(), arrays);
      if (list.is_full()) flush<T, kind>(list);
    }
    flush<T, kind>(list);
  }

  template <UpdateKind kind>
  void run_kind() const {
    run_typed<float, kind>();
    run_typed<double, kind>();
    run_typed<float16, kind>();
    run_typed<bfloat16, kind>();
  }

  void run() const {
    c.run.updates_are_whole = true;  // until the first launch
    switch (rule.kind) {
      case UpdateKind::sgd: return run_kind<UpdateKind::sgd>();
      case UpdateKind::sgd_momentum: return run_kind<UpdateKind::sgd_momentum>();
      case UpdateKind::adam: return run_kind<UpdateKind::adam>();
    }
  }
};

template <class Op>
void update_one(const Op& op, KernelContext& c) {
  Update{c, rule_of(op), 1, nullptr, op.lr, op.wd}.run();
}

template <class Op>
void update_many(const Op& op, KernelContext& c) {
  const UpdateRule rule = rule_of(op);
  const int n = c.num_inputs() - 1;
  Update{c, rule, n / arrays_of(rule.kind), c.in(n).as<float>(), 0, 0}.run();
}

}  // namespace

void run_cuda(const op::SGDUpdate& op, KernelContext& c) { update_one(op, c); }
void run_cuda(const op::SGDMomUpdate& op, KernelContext& c) { update_one(op, c); }
void run_cuda(const op::AdamUpdate& op, KernelContext& c) { update_one(op, c); }
void run_cuda(const op::MultiSGDUpdate& op, KernelContext& c) { update_many(op, c); }
void run_cuda(const op::MultiSGDMomUpdate& op, KernelContext& c) { update_many(op, c); }
void run_cuda(const op::MultiAdamUpdate& op, KernelContext& c) { update_many(op, c); }

}  // namespace kaon
