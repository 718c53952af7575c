// The operators that create arrays from numbers on CUDA.
#include "kaon/ops/init/init.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/init/kernels/sequence.h"
#include "kaon/ops/math/convert.h"

namespace kaon {

using namespace ops;
namespace {

template <class Bits>
struct ConstantFn {
  Bits value;
  __device__ Bits operator()() const { return value; }
};

template <class T, class F>
struct Generate {
  F f;
  T* out;
  __device__ void operator()(int64_t i) const { out[i] = convert<T>(f(i)); }
};

// out[i] = f(i), computed in double.
template <class F>
void generate(KernelContext& c, const F& f) {
  dispatch_all("_arange", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(), Generate<T, F>{f, c.out().as<T>()});
  });
}

struct Diagonal {
  int64_t columns, k;
  __device__ double operator()(int64_t i) const {
    const int64_t row = i / columns;
    return i - row * columns - row == k ? 1 : 0;
  }
};

}  // namespace

void ops::fill_cuda(const TensorView& out, double value, KernelContext& c) {
  dispatch_all("_full", out.dtype, [&]<class T>() {
    const T v = convert<T>(value);
    dispatch_width(out.dtype, [&]<class Bits>() {
      if constexpr (sizeof(Bits) == sizeof(v)) {
        ConstantFn<Bits> f{};
        memcpy(&f.value, &v, sizeof(v));
        cuda::elementwise(c, out.size(), f, out.as<Bits>());
      }
    });
  });
}

void run_cuda(const op::Zeros&, KernelContext& c) { fill_cuda(c.out(), 0, c); }
void run_cuda(const op::Ones&, KernelContext& c) { fill_cuda(c.out(), 1, c); }
void run_cuda(const op::Full& op, KernelContext& c) { fill_cuda(c.out(), op.value, c); }
void run_cuda(const op::Arange& op, KernelContext& c) { generate(c, ArangeValues(op)); }
void run_cuda(const op::Linspace& op, KernelContext& c) { generate(c, LinspaceValues(op)); }
void run_cuda(const op::Eye& op, KernelContext& c) { generate(c, Diagonal{c.out().shape[1], op.k}); }

}  // namespace kaon
