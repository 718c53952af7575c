// The float32 tiles of activations per instruction set, and loops in float64.
#include "kaon/ops/nn/activation/kernels/shape_kernels.h"

#include "kaon/ops/nn/activation/kernels/shape_value.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/activation/kernels/shape_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/tile_loop.h"
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

struct SiluVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, vm::sigmoid(d, x));
  }
};
struct MishVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, vm::tanh(d, vm::softrelu(d, x)));
  }
};
struct LogSigmoidVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sub(hn::Zero(d), vm::softrelu(d, hn::Neg(x)));  // 0, not -0
  }
};
struct TanhShrinkVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sub(x, vm::tanh(d, x));
  }
};
struct CeluVector {
  float alpha;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Set(d, alpha);
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(a, vm::expm1(d, hn::Div(x, a))));
  }
};
struct GluVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::Mul(a, vm::sigmoid(d, b));
  }
};

struct HardSwishVector {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V gate = hn::Add(hn::Div(x, hn::Set(d, 6.0f)), hn::Set(d, 0.5f));
    return hn::Mul(x, hn::Min(hn::Max(gate, hn::Zero(d)), hn::Set(d, 1.0f)));
  }
};
struct HardShrinkVector {
  float lambd;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenZeroElse(hn::Le(hn::Abs(x), hn::Set(d, lambd)), x);
  }
};
struct SoftShrinkVector {
  float lambd;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V away = hn::Sub(x, hn::CopySignToAbs(hn::Set(d, lambd), x));
    return hn::IfThenZeroElse(hn::Le(hn::Abs(x), hn::Set(d, lambd)), away);
  }
};
struct ThresholdVector {
  float threshold, value;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Le(x, hn::Set(d, threshold)), hn::Set(d, value), x);
  }
};

void HardSwishTile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, HardSwishVector{});
}
void HardShrinkTile(const void* attrs, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, HardShrinkVector{float(static_cast<const op::HardShrink*>(attrs)->lambd)});
}
void SoftShrinkTile(const void* attrs, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, SoftShrinkVector{float(static_cast<const op::SoftShrink*>(attrs)->lambd)});
}
void ThresholdTile(const void* attrs, const float* const* in, float* out, size_t n) {
  const op::Threshold& op = *static_cast<const op::Threshold*>(attrs);
  vm::tile_loop<1>(in, out, n, ThresholdVector{float(op.threshold), float(op.value)});
}
void SiluTile(const void*, const float* const* in, float* out, size_t n) { vm::tile_loop<1>(in, out, n, SiluVector{}); }
void MishTile(const void*, const float* const* in, float* out, size_t n) { vm::tile_loop<1>(in, out, n, MishVector{}); }
void LogSigmoidTile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, LogSigmoidVector{});
}
void TanhShrinkTile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, TanhShrinkVector{});
}
void CeluTile(const void* attrs, const float* const* in, float* out, size_t n) {
  vm::tile_loop<1>(in, out, n, CeluVector{float(static_cast<const op::Celu*>(attrs)->alpha)});
}
void GluTile(const void*, const float* const* in, float* out, size_t n) { vm::tile_loop<2>(in, out, n, GluVector{}); }

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {
namespace {

HWY_EXPORT(SiluTile);
HWY_EXPORT(MishTile);
HWY_EXPORT(LogSigmoidTile);
HWY_EXPORT(TanhShrinkTile);
HWY_EXPORT(CeluTile);
HWY_EXPORT(GluTile);
HWY_EXPORT(HardSwishTile);
HWY_EXPORT(HardShrinkTile);
HWY_EXPORT(SoftShrinkTile);
HWY_EXPORT(ThresholdTile);

template <class Op>
void tile(const void* attrs, const float* const* in, float* out, size_t n) {
  if constexpr (std::is_same_v<Op, op::Silu>) {
    HWY_DYNAMIC_DISPATCH(SiluTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::Mish>) {
    HWY_DYNAMIC_DISPATCH(MishTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::LogSigmoid>) {
    HWY_DYNAMIC_DISPATCH(LogSigmoidTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::TanhShrink>) {
    HWY_DYNAMIC_DISPATCH(TanhShrinkTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::Celu>) {
    HWY_DYNAMIC_DISPATCH(CeluTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::HardSwish>) {
    HWY_DYNAMIC_DISPATCH(HardSwishTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::HardShrink>) {
    HWY_DYNAMIC_DISPATCH(HardShrinkTile)(attrs, in, out, n);
  } else if constexpr (std::is_same_v<Op, op::SoftShrink>) {
    HWY_DYNAMIC_DISPATCH(SoftShrinkTile)(attrs, in, out, n);
  } else {
    static_assert(std::is_same_v<Op, op::Threshold>);
    HWY_DYNAMIC_DISPATCH(ThresholdTile)(attrs, in, out, n);
  }
}

template <class Op>
void in_double(const void* attrs, const void* const* in, void* out, size_t n) {
  const Op op = std::is_empty_v<Op> ? Op() : *static_cast<const Op*>(attrs);
  const double* x = static_cast<const double*>(in[0]);
  for (size_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = shape_value(op, x[i]);
}

void glu_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(GluTile)(attrs, in, out, n);
}
void glu_in_double(const void*, const void* const* in, void* out, size_t n) {
  const double *a = static_cast<const double*>(in[0]), *b = static_cast<const double*>(in[1]);
  for (size_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = glu_value(a[i], b[i]);
}

}  // namespace

const PointwiseKernels& glu_kernels() {
  static constexpr PointwiseKernels kernels{.float32 = &glu_tile, .float64 = &glu_in_double};
  return kernels;
}

template <class Op>
const PointwiseKernels& shape_kernels() {
  static constexpr PointwiseKernels kernels{.float32 = &tile<Op>, .float64 = &in_double<Op>};
  return kernels;
}

template const PointwiseKernels& shape_kernels<op::Silu>();
template const PointwiseKernels& shape_kernels<op::Mish>();
template const PointwiseKernels& shape_kernels<op::LogSigmoid>();
template const PointwiseKernels& shape_kernels<op::HardSwish>();
template const PointwiseKernels& shape_kernels<op::TanhShrink>();
template const PointwiseKernels& shape_kernels<op::HardShrink>();
template const PointwiseKernels& shape_kernels<op::SoftShrink>();
template const PointwiseKernels& shape_kernels<op::Celu>();
template const PointwiseKernels& shape_kernels<op::Threshold>();

}  // namespace kaon::ops
#endif  // HWY_ONCE
