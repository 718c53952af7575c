#include "kaon/ops/kernels/epilogue.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/kernels/epilogue.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// the functions of the elementwise operators: fused or not, the bits are the same
#include "kaon/ops/math/math.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Identity {
  template <class D, class V>
  V operator()(D, V x) const {
    return x;
  }
};

// Max alone would turn NaN into 0 on x86, and so does oneDNN's.
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

// The steps before the addend, for element j of a row: each element its own channel, or all of one channel.
struct Unchanged {
  template <class D, class V>
  V operator()(D, V x, int64_t) const {
    return x;
  }
};
struct ShiftEach {
  const float* shift;
  template <class D, class V>
  V operator()(D d, V x, int64_t j) const {
    return hn::Add(x, hn::LoadU(d, shift + j));
  }
};
struct ScaleEach {
  const float *scale, *shift;
  template <class D, class V>
  V operator()(D d, V x, int64_t j) const {
    return hn::MulAdd(x, hn::LoadU(d, scale + j), hn::LoadU(d, shift + j));
  }
};
struct ShiftAll {
  float shift;
  template <class D, class V>
  V operator()(D d, V x, int64_t) const {
    return hn::Add(x, hn::Set(d, shift));
  }
};
struct ScaleAll {
  float scale, shift;
  template <class D, class V>
  V operator()(D d, V x, int64_t) const {
    return hn::MulAdd(x, hn::Set(d, scale), hn::Set(d, shift));
  }
};

template <class D, class C, class F>
HWY_INLINE void finish_at(D d, C channel, F f, const float* x, const float* addend, float* y, int64_t j) {
  auto v = channel(d, hn::LoadU(d, x + j), j);
  if (addend) v = hn::Add(v, hn::LoadU(d, addend + j));
  hn::StoreU(f(d, v), d, y + j);
}

template <class C, class F>
HWY_INLINE void finish_row(C channel, F f, const float* x, const float* addend, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) finish_at(d, channel, f, x, addend, y, j);
  for (; j < n; ++j) finish_at(hn::CappedTag<float, 1>(), channel, f, x, addend, y, j);
}

template <class F>
void rows_with(F f, const float* x, int64_t x_stride, float* y, int64_t stride, int64_t rows, int64_t channels,
               const Epilogue<float>& e) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* addend = e.addend ? e.addend + i * stride : nullptr;
    if (e.scale) {
      finish_row(ScaleEach{e.scale, e.shift}, f, x + i * x_stride, addend, y + i * stride, channels);
    } else if (e.shift) {
      finish_row(ShiftEach{e.shift}, f, x + i * x_stride, addend, y + i * stride, channels);
    } else {
      finish_row(Unchanged(), f, x + i * x_stride, addend, y + i * stride, channels);
    }
  }
}

template <class F>
void planes_with(F f, const float* x, float* y, int64_t planes, int64_t channels, int64_t positions,
                 const Epilogue<float>& e) {
  for (int64_t i = 0; i < planes; ++i) {
    const int64_t channel = i % channels, at = i * positions;
    const float* addend = e.addend ? e.addend + at : nullptr;
    if (e.scale) {
      finish_row(ScaleAll{e.scale[channel], e.shift[channel]}, f, x + at, addend, y + at, positions);
    } else if (e.shift) {
      finish_row(ShiftAll{e.shift[channel]}, f, x + at, addend, y + at, positions);
    } else {
      finish_row(Unchanged(), f, x + at, addend, y + at, positions);
    }
  }
}

// Calls body(f) with the activation's functor.
template <class Body>
HWY_INLINE void with_activation(FusedActivation activation, Body&& body) {
  switch (activation) {
    case FusedActivation::none: return body(Identity());
    case FusedActivation::relu: return body(Relu());
    case FusedActivation::sigmoid: return body(Sigmoid());
    case FusedActivation::tanh: return body(Tanh());
  }
}

}  // namespace

void FinishRows(const float* x, int64_t x_stride, float* y, int64_t stride, int64_t rows, int64_t channels,
                const Epilogue<float>& e) {
  with_activation(e.activation, [&](auto f) HWY_ATTR { rows_with(f, x, x_stride, y, stride, rows, channels, e); });
}

void FinishPlanes(const float* x, float* y, int64_t planes, int64_t channels, int64_t positions,
                  const Epilogue<float>& e) {
  with_activation(e.activation, [&](auto f) HWY_ATTR { planes_with(f, x, y, planes, channels, positions, e); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(FinishRows);
HWY_EXPORT(FinishPlanes);

void finish_rows(const float* x, int64_t x_stride, float* y, int64_t stride, int64_t rows, int64_t channels,
                 const Epilogue<float>& e) {
  if (x == y && e.is_empty()) return;
  HWY_DYNAMIC_DISPATCH(FinishRows)(x, x_stride, y, stride, rows, channels, e);
}

void finish_planes(const float* x, float* y, int64_t planes, int64_t channels, int64_t positions,
                   const Epilogue<float>& e) {
  if (x == y && e.is_empty()) return;
  HWY_DYNAMIC_DISPATCH(FinishPlanes)(x, y, planes, channels, positions, e);
}

namespace {
double finished(double v, const Epilogue<double>& e, int64_t channel, int64_t element) {
  if (e.scale) v *= e.scale[channel];
  if (e.shift) v += e.shift[channel];
  if (e.addend) v += e.addend[element];
  switch (e.activation) {
    case FusedActivation::none: return v;
    case FusedActivation::relu: return v < 0 ? 0 : v;
    case FusedActivation::sigmoid: return 1 / (1 + std::exp(-v));
    case FusedActivation::tanh: return std::tanh(v);
  }
  return v;
}
}  // namespace

void finish_rows(const double* x, int64_t x_stride, double* y, int64_t stride, int64_t rows, int64_t channels,
                 const Epilogue<double>& e) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < channels; ++j) y[i * stride + j] = finished(x[i * x_stride + j], e, j, i * stride + j);
  }
}

void finish_planes(const double* x, double* y, int64_t planes, int64_t channels, int64_t positions,
                   const Epilogue<double>& e) {
  for (int64_t i = 0; i < planes; ++i) {
    for (int64_t j = i * positions; j < (i + 1) * positions; ++j) y[j] = finished(x[j], e, i % channels, j);
  }
}

std::string to_text(const PostOps& post_ops) {
  std::string text = post_ops.scale ? "scale" : "";
  if (post_ops.addend) text += text.empty() ? "addend" : "+addend";
  if (post_ops.activation == FusedActivation::none) return text.empty() ? "none" : text;
  if (!text.empty()) text += '+';
  return text += enum_names(FusedActivation{})[size_t(post_ops.activation)];
}

bool from_text(std::string_view text, PostOps& post_ops) {
  for (bool scale : {false, true}) {
    for (bool addend : {false, true}) {
      for (int activation = 0; activation < 4; ++activation) {
        const PostOps candidate{scale, addend, FusedActivation(activation)};
        if (to_text(candidate) == text) return post_ops = candidate, true;
      }
    }
  }
  return false;
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
