#include "kaon/ops/nn/activation/kernels/activation_kernel.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/activation/kernels/activation_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// y = x where x > 0 or NaN, else negative(x).
template <class D, class V>
HWY_INLINE V by_sign(D d, V x, V left) {
  return hn::IfThenElse(hn::Le(x, hn::Zero(d)), left, x);
}

template <class T>
void forward(ActivationType type, const T* x, T* y, size_t n) {
  switch (type) {
    case ActivationType::relu:
      return map(
          n, y, [](auto d, auto v) HWY_ATTR { return by_sign(d, v, hn::Zero(d)); }, x);
    case ActivationType::sigmoid:
      return map(
          n, y, [](auto d, auto v) HWY_ATTR { return sigmoid(d, v); }, x);
    case ActivationType::tanh:
      return map(
          n, y, [](auto d, auto v) HWY_ATTR { return tanh(d, v); }, x);
    case ActivationType::softrelu:
      return map(
          n, y, [](auto d, auto v) HWY_ATTR { return softrelu(d, v); }, x);
    case ActivationType::softsign:
      return map(
          n, y,
          [](auto d, auto v) HWY_ATTR {
            const auto one = constant(d, 1), a = hn::Abs(v);
            const auto infinite = hn::Eq(a, constant(d, std::numeric_limits<double>::infinity()));
            return hn::IfThenElse(infinite, hn::CopySign(one, v), hn::Div(v, hn::Add(one, a)));
          },
          x);
  }
}

template <class T>
void backward(ActivationType type, const T* head, const T* y, T* dx, size_t n) {
  switch (type) {
    case ActivationType::relu:
      return map(
          n, dx,
          [](auto d, auto h, auto v)
              HWY_ATTR { return hn::IfThenElse(hn::IsNaN(v), v, hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), h)); },
          head, y);
    case ActivationType::sigmoid:
      return map(
          n, dx, [](auto, auto h, auto v) HWY_ATTR { return hn::Mul(h, hn::NegMulAdd(v, v, v)); }, head, y);
    case ActivationType::tanh:
      return map(
          n, dx, [](auto d, auto h, auto v) HWY_ATTR { return hn::Mul(h, hn::NegMulAdd(v, v, constant(d, 1))); }, head,
          y);
    case ActivationType::softrelu:  // -expm1(-y) keeps small y exact
      return map(
          n, dx, [](auto d, auto h, auto v) HWY_ATTR { return hn::Mul(h, hn::Neg(expm1(d, hn::Neg(v)))); }, head, y);
    case ActivationType::softsign:
      return map(
          n, dx,
          [](auto d, auto h, auto v) HWY_ATTR {
            const auto s = hn::Sub(constant(d, 1), hn::Abs(v));
            return hn::Mul(h, hn::Mul(s, s));
          },
          head, y);
  }
}

template <class T>
void forward(LeakyType type, double slope, const T* x, T* y, size_t n) {
  switch (type) {
    case LeakyType::leaky:
    case LeakyType::prelu:
    case LeakyType::rrelu:
      return map(
          n, y, [=](auto d, auto v) HWY_ATTR { return by_sign(d, v, hn::Mul(v, constant(d, slope))); }, x);
    case LeakyType::elu:
      return map(
          n, y,
          [=](auto d, auto v)
              HWY_ATTR { return by_sign(d, v, hn::Mul(constant(d, slope), expm1(d, hn::Min(v, hn::Zero(d))))); },
          x);
    case LeakyType::selu:
      return map(
          n, y,
          [](auto d, auto v) HWY_ATTR {
            const auto left = hn::Mul(constant(d, selu_alpha), expm1(d, hn::Min(v, hn::Zero(d))));
            return hn::Mul(constant(d, selu_scale), by_sign(d, v, left));
          },
          x);
    case LeakyType::gelu:
      return map(
          n, y, [](auto d, auto v) HWY_ATTR { return gelu(d, v); }, x);
  }
}

template <class T>
void backward(LeakyType type, double slope, const T* head, const T* x, T* dx, size_t n) {
  // head where x > 0, head * left elsewhere, NaN where x is NaN
  const auto chain = [](auto d, auto h, auto v, auto left) HWY_ATTR {
    const auto g = hn::IfThenElse(hn::Gt(v, hn::Zero(d)), h, hn::Mul(h, left));
    return hn::IfThenElse(hn::IsNaN(v), v, g);
  };
  switch (type) {
    case LeakyType::leaky:
    case LeakyType::prelu:
    case LeakyType::rrelu:
      return map(
          n, dx, [=](auto d, auto h, auto v) HWY_ATTR { return chain(d, h, v, constant(d, slope)); }, head, x);
    case LeakyType::elu:
      return map(
          n, dx,
          [=](auto d, auto h, auto v)
              HWY_ATTR { return chain(d, h, v, hn::Mul(constant(d, slope), exp(d, hn::Min(v, hn::Zero(d))))); },
          head, x);
    case LeakyType::selu:
      return map(
          n, dx,
          [=](auto d, auto h, auto v) HWY_ATTR {
            const auto left = hn::Mul(constant(d, selu_alpha), exp(d, hn::Min(v, hn::Zero(d))));
            return hn::Mul(constant(d, selu_scale), chain(d, h, v, left));
          },
          head, x);
    case LeakyType::gelu:
      return map(
          n, dx, [](auto d, auto h, auto v) HWY_ATTR { return hn::Mul(h, gelu_slope(d, v)); }, head, x);
  }
}

template <class T>
void prelu_rows(const ChannelView& s, const T* head, const T* x, const T* gammas, T* out, int64_t begin, int64_t end) {
  const auto value = [](auto d, auto v, auto g) HWY_ATTR { return by_sign(d, v, hn::Mul(v, g)); };
  const auto slope = [](auto d, auto h, auto v, auto g) HWY_ATTR {
    return hn::IfThenElse(hn::IsNaN(v), v, hn::IfThenElse(hn::Gt(v, hn::Zero(d)), h, hn::Mul(h, g)));
  };
  for (int64_t row = begin; row < end; ++row) {
    const T* const gamma = gammas + row / s.outer * s.channels;
    if (s.inner == 1) {
      const int64_t at = row * s.channels;
      if (head) {
        map(size_t(s.channels), out + at, slope, head + at, x + at, gamma);
      } else {
        map(size_t(s.channels), out + at, value, x + at, gamma);
      }
      continue;
    }
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t at = (row * s.channels + c) * s.inner;
      const double g = double(accumulate_t<T>(gamma[c]));
      if (head) {
        map(
            size_t(s.inner), out + at, [&](auto d, auto h, auto v) HWY_ATTR { return slope(d, h, v, constant(d, g)); },
            head + at, x + at);
      } else {
        map(
            size_t(s.inner), out + at, [&](auto d, auto v) HWY_ATTR { return value(d, v, constant(d, g)); }, x + at);
      }
    }
  }
}

template <class T>
void gamma_sums(const ChannelView& s, const T* head, const T* x, accumulate_t<T>* sums, int64_t begin, int64_t end) {
  using A = accumulate_t<T>;
  const Lane<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto term = [](auto h, auto v) HWY_ATTR {
    return hn::IfThenElse(hn::Gt(v, hn::Zero(Lane<T>())), hn::Zero(Lane<T>()), hn::Mul(h, v));
  };
  for (int64_t row = begin; row < end; ++row) {
    if (s.inner == 1) {
      const T* h = head + row * s.channels;
      const T* v = x + row * s.channels;
      int64_t c = 0;
      for (; c + lanes <= s.channels; c += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, sums + c), term(load(d, h + c), load(d, v + c))), d, sums + c);
      }
      for (; c < s.channels; ++c) sums[c] += A(v[c]) > 0 ? A(0) : A(h[c]) * A(v[c]);
      continue;
    }
    for (int64_t c = 0; c < s.channels; ++c) {
      const T* h = head + (row * s.channels + c) * s.inner;
      const T* v = x + (row * s.channels + c) * s.inner;
      auto sum = hn::Zero(d);
      int64_t i = 0;
      for (; i + lanes <= s.inner; i += lanes) sum = hn::Add(sum, term(load(d, h + i), load(d, v + i)));
      if (i < s.inner) {
        const size_t rest = size_t(s.inner - i);
        sum = hn::Add(sum, term(load_n(d, h + i, rest), load_n(d, v + i, rest)));
      }
      sums[c] += hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

template <class T>
void rrelu_piece(RandomKey key, double low, double high, const T* x, T* y, T* slopes, int64_t begin, int64_t end) {
  using A = accumulate_t<T>;
  for (int64_t i = begin; i < end; i += 4) {
    const Philox4 words = random_block(key.seed, key.offset, uint64_t(i) / 4);
    for (int64_t k = i; k < end && k < i + 4; ++k) {
      const A v = A(x[k]);
      const A slope = v > 0 ? A(1) : A(drawn_slope(low, high, words.v[k - i]));
      y[k] = T(v * slope);
      if (slopes) slopes[k] = T(slope);
    }
  }
}

template <class T>
const T* at(const void* p, int64_t i) {
  return static_cast<const T*>(p) + i;
}
template <class T>
T* at(void* p, int64_t i) {
  return static_cast<T*>(p) + i;
}

void ActivationForward(ActivationType type, DType t, const void* x, void* y, int64_t b, int64_t e) {
  dispatch_float("Activation", t, [&]<class T>() { forward(type, at<T>(x, b), at<T>(y, b), size_t(e - b)); });
}
void ActivationBackward(ActivationType type, DType t, const void* h, const void* y, void* dx, int64_t b, int64_t e) {
  dispatch_float("Activation", t,
                 [&]<class T>() { backward(type, at<T>(h, b), at<T>(y, b), at<T>(dx, b), size_t(e - b)); });
}
void LeakyForward(LeakyType type, double slope, DType t, const void* x, void* y, int64_t b, int64_t e) {
  dispatch_float("LeakyReLU", t, [&]<class T>() { forward(type, slope, at<T>(x, b), at<T>(y, b), size_t(e - b)); });
}
void LeakyBackward(LeakyType type, double slope, DType t, const void* h, const void* x, void* dx, int64_t b,
                   int64_t e) {
  dispatch_float("LeakyReLU", t,
                 [&]<class T>() { backward(type, slope, at<T>(h, b), at<T>(x, b), at<T>(dx, b), size_t(e - b)); });
}
void RReLUForward(RandomKey key, double low, double high, DType t, const void* x, void* y, void* slopes, int64_t b,
                  int64_t e) {
  dispatch_float("LeakyReLU", t, [&]<class T>() {
    rrelu_piece(key, low, high, at<T>(x, 0), at<T>(y, 0), static_cast<T*>(slopes), b, e);
  });
}
void PReLU(const ChannelView& s, DType t, const void* h, const void* x, const void* gamma, void* out, int64_t b,
           int64_t e) {
  dispatch_float("LeakyReLU", t, [&]<class T>() {
    prelu_rows(s, static_cast<const T*>(h), at<T>(x, 0), at<T>(gamma, 0), at<T>(out, 0), b, e);
  });
}
void PReLUGammaSums(const ChannelView& s, DType t, const void* h, const void* x, void* sums, int64_t b, int64_t e) {
  dispatch_float("LeakyReLU", t, [&]<class T>() {
    gamma_sums(s, at<T>(h, 0), at<T>(x, 0), static_cast<accumulate_t<T>*>(sums), b, e);
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ActivationForward);
HWY_EXPORT(ActivationBackward);
HWY_EXPORT(LeakyForward);
HWY_EXPORT(LeakyBackward);
HWY_EXPORT(RReLUForward);
HWY_EXPORT(PReLU);
HWY_EXPORT(PReLUGammaSums);

void activation_forward(ActivationType type, DType dtype, const void* x, void* y, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ActivationForward)(type, dtype, x, y, begin, end);
}
void activation_backward(ActivationType type, DType dtype, const void* head, const void* y, void* dx, int64_t begin,
                         int64_t end) {
  HWY_DYNAMIC_DISPATCH(ActivationBackward)(type, dtype, head, y, dx, begin, end);
}
void leaky_forward(LeakyType type, double slope, DType dtype, const void* x, void* y, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(LeakyForward)(type, slope, dtype, x, y, begin, end);
}
void leaky_backward(LeakyType type, double slope, DType dtype, const void* head, const void* x, void* dx, int64_t begin,
                    int64_t end) {
  HWY_DYNAMIC_DISPATCH(LeakyBackward)(type, slope, dtype, head, x, dx, begin, end);
}
void rrelu_forward(RandomKey key, double low, double high, DType dtype, const void* x, void* y, void* slopes,
                   int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(RReLUForward)(key, low, high, dtype, x, y, slopes, begin, end);
}
void prelu(const ChannelView& view, DType dtype, const void* head, const void* x, const void* gamma, void* out,
           int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(PReLU)(view, dtype, head, x, gamma, out, begin, end);
}
void prelu_gamma_sums(const ChannelView& view, DType dtype, const void* head, const void* x, void* sums, int64_t begin,
                      int64_t end) {
  HWY_DYNAMIC_DISPATCH(PReLUGammaSums)(view, dtype, head, x, sums, begin, end);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
