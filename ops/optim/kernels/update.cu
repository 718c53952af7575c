// The update operators on CUDA: many weights in one launch.
#include "kaon/ops/optim/kernels/adapted_rate.h"
#include "kaon/ops/optim/kernels/gradient_factor.h"
#include "kaon/ops/optim/kernels/tensor_list.cuh"
#include "kaon/ops/optim/kernels/update_check.h"

namespace kaon {
namespace ops {
namespace {

// The vocabulary of the formulas for numbers.
template <class A>
__device__ A fma(A a, A b, A c) {
  return ::fma(a, b, c);
}
template <class A>
__device__ A nfma(A a, A b, A c) {
  return ::fma(-a, b, c);
}
template <class A>
__device__ A root(A a) {
  return ::sqrt(a);
}
template <class A>
__device__ A magnitude(A a) {
  return ::fabs(a);
}
template <class A>
__device__ A sign(A a) {
  return a > 0 ? A(1) : a < 0 ? A(-1) : a;  // 0 and NaN stay
}
template <class A>
__device__ A larger(A a, A b) {
  return a != a || a > b ? a : b;
}
template <class A>
__device__ A bounded(A a, A least, A most) {
  const A below = a > most ? most : a;
  return below < least ? least : below;
}
template <class A>
__device__ A nonzero_ratio(A a, A b) {
  return b == 0 ? A(0) : a / b;
}
template <class A>
__device__ A zero_unless_larger(A a, A bound, A other) {
  return ::fabs(a) <= bound ? A(0) : other;
}
template <class A>
__device__ A without_denormals(A a) {
  constexpr A least = sizeof(A) == 8 ? A(0x1p-1022) : A(0x1p-126);
  return ::fabs(a) < least ? A(0) : a;
}

#define KAON_UPDATE_INLINE __device__ inline
#include "kaon/ops/optim/kernels/update_formulas.h"
#undef KAON_UPDATE_INLINE

using Tensors = cuda::TensorList<UpdateTensor::count>;

// What a launch knows of its weights beside their arrays: dtypes, and the numbers, of which those in the device's
// memory count, at the number of the weight among all.
struct UpdateArguments {
  uint8_t dtypes[Tensors::most][UpdateTensor::count] = {};
  UpdateNumbers numbers[Tensors::most];
  const float *lr = nullptr, *wd = nullptr, *x = nullptr, *y = nullptr;
  const double* adapted = nullptr;  // rates in place of lr

  __device__ UpdateNumbers of(const Tensors& list, int tensor) const {
    UpdateNumbers n = numbers[tensor];
    const int number = list.number[tensor];
    if (lr) n.lr = lr[number];
    if (adapted) n.lr = adapted[number];
    if (wd) n.wd = wd[number];
    if (x) n.x = x[number];
    if (y) n.y = y[number];
    return n;
  }
};
static_assert(sizeof(Tensors) + sizeof(UpdateArguments) + sizeof(UpdateRule) + 64 <= 4096);

// rescale_grad where it, or a factor of it, is in the device's memory.
struct Scale {
  const void* number = nullptr;
  DType dtype = DType::float32;
  bool is_factor = false;

  // Whether anything is to be done: then the rule has its rescale_grad.
  __device__ bool set(UpdateRule& rule) const {
    if (!number) return true;
    const double value = get(0);
    rule.rescale_grad = is_factor ? rule.rescale_grad * value : value;
    return value != 0 && (is_factor || ::fabs(value) < double(INFINITY));
  }
  __device__ double get(double otherwise) const {
    if (!number) return otherwise;
    switch (dtype) {
      case DType::float64: return *static_cast<const double*>(number);
      case DType::float16: return double(float(*static_cast<const float16*>(number)));
      case DType::bfloat16: return double(float(*static_cast<const bfloat16*>(number)));
      default: return double(*static_cast<const float*>(number));
    }
  }
};

template <class A, class T, int N>
__device__ void load_as(const void* from, int64_t at, int64_t n, bool whole, A (&to)[N]) {
  const cuda::Pack<T, N> pack = cuda::load_pack<N>(static_cast<const T*>(from), at, n, whole);
#pragma unroll
  for (int j = 0; j < N; ++j) to[j] = A(pack.v[j]);
}
template <class T, class A, int N>
__device__ void store_as(const A (&from)[N], void* to, int64_t at, int64_t n, bool whole) {
  cuda::Pack<T, N> pack;
#pragma unroll
  for (int j = 0; j < N; ++j) pack.v[j] = T(from[j]);
  cuda::store_pack(static_cast<T*>(to), at, n, whole, pack);
}

// Elements `at`, ... of an array of this dtype; doubles are computed with doubles alone.
template <class A, int N>
__device__ void load(const void* from, uint8_t dtype, int64_t at, int64_t n, bool whole, A (&to)[N]) {
  if constexpr (sizeof(A) == 8) {
    load_as<A, double>(from, at, n, whole, to);
  } else {
    switch (DType(dtype)) {
      case DType::float16: return load_as<A, float16>(from, at, n, whole, to);
      case DType::bfloat16: return load_as<A, bfloat16>(from, at, n, whole, to);
      default: return load_as<A, float>(from, at, n, whole, to);
    }
  }
}
template <class A, int N>
__device__ void store(const A (&from)[N], void* to, uint8_t dtype, int64_t at, int64_t n, bool whole) {
  if constexpr (sizeof(A) == 8) {
    store_as<double>(from, to, at, n, whole);
  } else {
    switch (DType(dtype)) {
      case DType::float16: return store_as<float16>(from, to, at, n, whole);
      case DType::bfloat16: return store_as<bfloat16>(from, to, at, n, whole);
      default: return store_as<float>(from, to, at, n, whole);
    }
  }
}

// The sum over the threads of a block, for the first of them.
__device__ double block_sum(double value) {
  __shared__ double parts[cuda::block];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = cuda::block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = parts[0];
  __syncthreads();
  return sum;
}

// Rules with up to `states` states. `sums`: two for each block of this launch.
template <class A, int states>
__global__ void update_kernel(Tensors list, UpdateArguments arguments, UpdateRule rule, Scale scale, double* sums) {
  constexpr int N = 16 / int(sizeof(A)), K = UpdateTensor::first_state + states;
  if (!scale.set(rule)) return;
  const int tensor = list.tensor();
  const UpdateTraits traits = traits_of(rule.kind);
  const UpdateConstants<A> constants(rule, arguments.of(list, tensor));
  const int64_t begin = list.begin(tensor), n = list.size[tensor];
  const int64_t end = begin + cuda::list_part < n ? begin + cuda::list_part : n;
  const bool copied = list.array[tensor][UpdateTensor::master] != nullptr;
  double total[2] = {};
  for (int64_t at = begin + int64_t(threadIdx.x) * N; at < end; at += int64_t(blockDim.x) * N) {
    const bool whole = list.aligned[tensor] && at + N <= n;
    A v[K][N];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (k >= UpdateTensor::first_state + traits.states) continue;
      const int from = k == UpdateTensor::weight && copied ? int(UpdateTensor::master) : k;
      load<A>(list.array[tensor][from], arguments.dtypes[tensor][from], at, n, whole, v[k]);
    }
    with_update_kind(rule.kind, [&]<UpdateKind kind>() {
      if constexpr (traits_of(kind).states <= states) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          if (traits_of(kind).sums && at + j >= n) continue;
          UpdateElements<A> e{v[0][j], v[1][j], {}, {}};
#pragma unroll
          for (int k = 0; k < states; ++k) e.state[k] = v[UpdateTensor::first_state + k][j];
          update_elements<kind>(constants, e);
          v[0][j] = e.weight;
#pragma unroll
          for (int k = 0; k < states; ++k) v[UpdateTensor::first_state + k][j] = e.state[k];
          total[0] += double(e.sum[0]), total[1] += double(e.sum[1]);
        }
      }
    });
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const bool written = k == UpdateTensor::weight ? traits.writes_weight : traits.writes_states;
      if (k == UpdateTensor::grad || !written || k >= UpdateTensor::first_state + traits.states) continue;
      store<A>(v[k], list.array[tensor][k], arguments.dtypes[tensor][k], at, n, whole);
    }
    if (copied && traits.writes_weight) store_as<float>(v[0], list.array[tensor][UpdateTensor::master], at, n, whole);
  }
  if (!traits.sums) return;
  for (int k = 0; k < 2; ++k) {
    const double sum = block_sum(total[k]);
    if (threadIdx.x == 0) sums[2 * blockIdx.x + k] = sum;
  }
}

// sums[2 i + k] = the sum of those of the blocks of weight i, in their order.
__global__ void add_kernel(Tensors list, const double* blocks, double* sums) {
  const unsigned tensor = blockIdx.x;
  for (int k = 0; k < 2; ++k) {
    double own = 0;
    for (unsigned i = list.first_block[tensor] + threadIdx.x; i < list.first_block[tensor + 1]; i += blockDim.x) {
      own += blocks[2 * i + k];
    }
    const double sum = block_sum(own);
    if (threadIdx.x == 0) sums[2 * list.number[tensor] + k] = sum;
  }
}

// rates[i] = the rate of weight i that follows from its sums.
__global__ void adapt_kernel(Tensors list, UpdateArguments arguments, UpdateRule rule, Scale scale, const double* sums,
                             double* rates) {
  scale.set(rule);
  const int tensor = int(threadIdx.x);
  if (tensor >= list.count) return;
  const int number = list.number[tensor];
  rates[number] = adapted_rate(rule, arguments.of(list, tensor), sums[2 * number], sums[2 * number + 1]);
}

struct LambRate {
  double lr, lower_bound, upper_bound;
  Scale weight, direction;
  double* rate;
  __device__ void operator()(int64_t) const {
    *rate = lamb_rate(lr, lower_bound, upper_bound, weight.get(0), direction.get(0));
  }
};

// The weights of a call, in lists of one kind of number each.
struct Update {
  KernelContext& c;
  UpdateRule rule;
  Scale scale{};
  UpdateArguments shared{};  // its pointers

  // f(list, arguments) for lists of weights that are computed with A. tensor(i) is weight i.
  template <class A, class Tensor, class F>
  void for_lists(int count, const Tensor& tensor, const F& f) const {
    Tensors list;
    UpdateArguments arguments = shared;
    const auto flush = [&] {
      if (list.blocks() > 0) f(list, arguments);
      list = {};
    };
    for (int i = 0; i < count; ++i) {
      const UpdateTensor t = tensor(i);
      if (t.is_double() != (sizeof(A) == 8)) continue;
      for (int k = 0; k < UpdateTensor::count; ++k) arguments.dtypes[list.count][k] = uint8_t(t.dtypes[k]);
      arguments.numbers[list.count] = t.numbers;
      list.add(i, t.size, t.arrays);
      if (list.is_full()) flush();
    }
    flush();
  }

  template <class A>
  void launch(UpdateKind kind, const Tensors& list, const UpdateArguments& arguments, double* sums) const {
    UpdateRule step = rule;
    step.kind = kind;
    const unsigned blocks = list.blocks(), threads = unsigned(cuda::block);
    if (traits_of(kind).states <= 1) {
      cuda::launch(c, update_kernel<A, 1>, blocks, threads, list, arguments, step, scale, sums);
    } else if (traits_of(kind).states == 2) {
      cuda::launch(c, update_kernel<A, 2>, blocks, threads, list, arguments, step, scale, sums);
    } else {
      cuda::launch(c, update_kernel<A, 3>, blocks, threads, list, arguments, step, scale, sums);
    }
    if (traits_of(kind).writes_weight || traits_of(kind).writes_states) c.run.updates_are_whole = false;
  }

  // Two sums for each weight.
  template <class A, class Tensor>
  void sum(UpdateKind kind, int count, const Tensor& tensor, double* sums) const {
    for_lists<A>(count, tensor, [&](const Tensors& list, const UpdateArguments& arguments) {
      double* const blocks = static_cast<double*>(c.run.workspace(2 * list.blocks() * sizeof(double)));
      launch<A>(kind, list, arguments, blocks);
      cuda::launch(c, add_kernel, unsigned(list.count), unsigned(cuda::block), list, blocks, sums);
    });
  }

  template <class A, class Tensor>
  void run_typed(int count, const Tensor& tensor) const {
    const UpdateSteps steps = steps_of(rule.kind);
    const double* rates = nullptr;
    if (steps.sums != steps.last) {
      double* const sums = static_cast<double*>(c.run.workspace(2 * size_t(count) * sizeof(double)));
      double* const adapted = static_cast<double*>(c.run.workspace(size_t(count) * sizeof(double)));
      sum<A>(steps.sums, count, tensor, sums);
      for_lists<A>(count, tensor, [&](const Tensors& list, const UpdateArguments& arguments) {
        cuda::launch(c, adapt_kernel, 1u, unsigned(Tensors::most), list, arguments, rule, scale, sums, adapted);
      });
      rates = adapted;
    }
    for_lists<A>(count, tensor, [&](const Tensors& list, UpdateArguments arguments) {
      if (rates) arguments.adapted = rates;
      launch<A>(steps.last, list, arguments, nullptr);
    });
  }

  template <class Tensor>
  void run(int count, const Tensor& tensor) const {
    if (count == 0) return;
    run_typed<float>(count, tensor);
    run_typed<double>(count, tensor);
  }
};

Scale scale_of(const TensorView& view, bool is_factor = false) { return {view.data, view.dtype, is_factor}; }

}  // namespace

void run_update_cuda(const UpdateCall& call, KernelContext& c) {
  c.run.updates_are_whole = true;  // until the first launch
  const UpdateForm& form = call.form;
  const int states = inputs_as_states(form), group = group_of(form), n = c.num_inputs();
  Update update{c, call.rule};
  const bool preloaded = form.shared == UpdateForm::Shared::lrs_and_wds;
  if (form.shared == UpdateForm::Shared::rescale_grad) update.scale = scale_of(c.in(n - 1));
  if (preloaded) update.shared.lr = c.in(n - 2).as<float>(), update.shared.wd = c.in(n - 1).as<float>();
  update.run((n - shared_inputs(form)) / group, [&](int i) {
    UpdateTensor t = update_tensor(c, i * group, states, form.multi_precision);
    if (!preloaded) t.numbers = call.numbers(call.op, i);
    if (!c.outputs.empty()) t.set(UpdateTensor::first_state + states, c.out());
    return t;
  });
}

void run_multi_update_cuda(const UpdateRule& rule, int arrays, KernelContext& c) {
  c.run.updates_are_whole = true;  // as above
  const int states = traits_of(rule.kind).states, n = (c.num_inputs() - 1) / arrays;
  const bool multi_precision = arrays > UpdateTensor::first_state + states;
  const float* rates = c.in(n * arrays).as<float>();
  Update update{c, rule};
  if (c.num_inputs() == n * arrays + 2) update.scale = scale_of(c.in(c.num_inputs() - 1), true);
  update.shared.lr = rates, update.shared.wd = rates + n, update.shared.x = rates + 2 * n,
  update.shared.y = rates + 3 * n;
  update.run(n, [&](int i) { return update_tensor(c, i * arrays, states, multi_precision); });
}

void run_lamb_step_cuda(double lr, double lower_bound, double upper_bound, KernelContext& c) {
  c.run.updates_are_whole = true;
  double* const rate = static_cast<double*>(c.run.workspace(sizeof(double)));
  cuda::for_each(c, 1, LambRate{lr, lower_bound, upper_bound, scale_of(c.in(2)), scale_of(c.in(3)), rate});
  Update update{c, {.kind = UpdateKind::sgd}};
  update.shared.adapted = rate;
  update.run(1, [&](int) {
    UpdateTensor t{.size = c.in(0).size()};
    t.set(UpdateTensor::weight, c.in(0));
    t.set(UpdateTensor::grad, c.in(1));
    if (c.num_inputs() > 4) t.set(UpdateTensor::master, c.in(4));
    return t;
  });
}

namespace {
__global__ void first_sums_kernel(int n, const double* sums, float* out) {
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) out[i] = float(sums[2 * i]);
}
}  // namespace

}  // namespace ops

namespace ops {
namespace {

// As many pairs of doubles as there are inputs from `first` on: the first is the sum of its squares.
const double* sums_of_squares(KernelContext& c, int first) {
  const int n = c.num_inputs() - first;
  double* const sums = static_cast<double*>(c.run.workspace(2 * size_t(n) * sizeof(double)));
  cuda::zero_bytes(c, sums, 2 * size_t(n) * sizeof(double));  // of arrays without elements
  const auto tensor = [&](int i) {
    UpdateTensor t{.size = c.in(first + i).size()};
    t.set(UpdateTensor::weight, c.in(first + i));
    t.set(UpdateTensor::grad, c.in(first + i));
    return t;
  };
  const Update update{c, {.kind = UpdateKind::norms}};
  update.sum<float>(UpdateKind::norms, n, tensor, sums);
  update.sum<double>(UpdateKind::norms, n, tensor, sums);
  return sums;
}

// One thread.
template <class Op>
__global__ void factor_kernel(Op op, int n, const double* sums, float* state, float* out) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += sums[2 * i];
  *out = gradient_factor(op, squares, state);
}

template <class Op>
void find_factor(const Op& op, KernelContext& c) {
  c.run.updates_are_whole = true;
  float* const state = scale_state(op, c);
  const int first = state ? 1 : 0;
  const double* const sums = sums_of_squares(c, first);
  cuda::launch(c, factor_kernel<Op>, 1u, 1u, op, c.num_inputs() - first, sums, state, c.out().as<float>());
  c.run.updates_are_whole = false;
}

}  // namespace
}  // namespace ops

void run_cuda(const op::GradientFactor& op, KernelContext& c) { ops::find_factor(op, c); }
void run_cuda(const op::LossScale& op, KernelContext& c) { ops::find_factor(op, c); }

void run_cuda(const op::MultiSumSq&, KernelContext& c) {
  const int n = c.num_inputs();
  if (n == 0) return;
  const double* const sums = ops::sums_of_squares(c, 0);
  cuda::launch(c, ops::first_sums_kernel, 1u, unsigned(cuda::block), n, sums, c.out().as<float>());
}

}  // namespace kaon
