#include "kaon/ops/nn/fused_activation.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/fused_activation.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// the functions of the elementwise operators: fused or not, the bits are the same
#include "kaon/ops/elementwise/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Identity {
  template <class D, class V>
  V operator()(D, V x) const {
    return x;
  }
};

// Max alone would turn NaN into 0 on x86.
struct Relu {
  template <class D, class V>
  V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  }
};

struct Sigmoid {
  template <class D, class V>
  V operator()(D d, V x) const {
    return math::HWY_NAMESPACE::sigmoid(d, x);
  }
};

struct Tanh {
  template <class D, class V>
  V operator()(D d, V x) const {
    return math::HWY_NAMESPACE::tanh(d, x);
  }
};

template <class F>
void run_rows(F f, float* y, int64_t rows, int64_t columns, int64_t stride, const float* bias) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i, y += stride) {
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      auto v = hn::LoadU(d, y + j);
      if (bias) v = hn::Add(v, hn::LoadU(d, bias + j));
      hn::StoreU(f(d, v), d, y + j);
    }
    for (; j < columns; ++j) {
      auto v = hn::LoadU(one, y + j);
      if (bias) v = hn::Add(v, hn::LoadU(one, bias + j));
      hn::StoreU(f(one, v), one, y + j);
    }
  }
}

void AddBiasAndActivate(float* y, int64_t rows, int64_t columns, int64_t stride, const float* bias,
                        FusedActivation activation) {
  switch (activation) {
    case FusedActivation::none:
      if (bias) run_rows(Identity(), y, rows, columns, stride, bias);
      break;
    case FusedActivation::relu: run_rows(Relu(), y, rows, columns, stride, bias); break;
    case FusedActivation::sigmoid: run_rows(Sigmoid(), y, rows, columns, stride, bias); break;
    case FusedActivation::tanh: run_rows(Tanh(), y, rows, columns, stride, bias); break;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon {

HWY_EXPORT(AddBiasAndActivate);

void add_bias_and_activate(float* y, int64_t rows, int64_t columns, int64_t stride, const float* bias,
                           FusedActivation activation) {
  HWY_DYNAMIC_DISPATCH(AddBiasAndActivate)(y, rows, columns, stride, bias, activation);
}

void activate(double* y, int64_t n, FusedActivation activation) {
  switch (activation) {
    case FusedActivation::none: break;
    case FusedActivation::relu:
      for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0 ? 0 : y[i];
      break;
    case FusedActivation::sigmoid:
      for (int64_t i = 0; i < n; ++i) y[i] = 1 / (1 + std::exp(-y[i]));
      break;
    case FusedActivation::tanh:
      for (int64_t i = 0; i < n; ++i) y[i] = std::tanh(y[i]);
      break;
  }
}

}  // namespace kaon
#endif
