#include "kaon/ops/nn/as_float32.h"

#include "kaon/ops/dispatch.h"

namespace kaon {
namespace {

constexpr int64_t grain = 1 << 15;

template <class F>
void dispatch_half(DType dtype, F&& f) {
  if (dtype == DType::float16) {
    f.template operator()<float16>();
  } else {
    f.template operator()<bfloat16>();
  }
}

}  // namespace

void widen(RunContext& run, const TensorView& from, float* to) {
  dispatch_half(from.dtype, [&]<class T>() {
    const T* source = from.as<T>();
    run.parallel_for(from.size(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = float(source[i]);
    });
  });
}

void narrow(RunContext& run, const float* from, const TensorView& to) {
  dispatch_half(to.dtype, [&]<class T>() {
    T* target = to.as<T>();
    run.parallel_for(to.size(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) target[i] = T(from[i]);
    });
  });
}

}  // namespace kaon
