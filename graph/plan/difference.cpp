#include "kaon/graph/plan/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kaon/ops/math/dispatch.h"

namespace kaon::graph {
namespace {

template <class T>
bool is_same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

double largest(const auto* values, int64_t n) {
  double most = 1;
  for (int64_t i = 0; i < n; ++i) {
    const double x = std::abs(double(values[i]));
    if (x < INFINITY) most = std::max(most, x);
  }
  return most;
}

bool is_within(double expected, double got, double rtol, double atol) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  return std::abs(got - expected) <= rtol * std::abs(expected) + atol;
}

// The first element that differs; n when none does.
template <class T>
int64_t first_difference(const T* expected, const T* got, int64_t n, const Bounds& bounds) {
  if (std::memcmp(expected, got, size_t(n) * sizeof(T)) == 0) return n;
  int64_t i = 0;
  if constexpr (std::is_integral_v<T>) {
    while (i < n && is_same(expected[i], got[i])) ++i;
  } else {
    const double atol = bounds.exact ? 0 : bounds.atol * largest(expected, n);
    auto fits = [&](double a, double b) {
      return bounds.exact ? std::isnan(a) && std::isnan(b) : is_within(a, b, bounds.rtol, atol);
    };
    while (i < n && (is_same(expected[i], got[i]) || fits(double(expected[i]), double(got[i])))) ++i;
  }
  return i;
}

// "(0, 1, 1)"
std::string position(const Shape& shape, int64_t index) {
  Shape at = shape;
  for (int d = shape.ndim(); d-- > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at.str();
}

}  // namespace

Bounds bounds_for(DType dtype, bool is_gradient) {
  const double rounding = dtype == DType::float64 ? 1e-10 : dtype == DType::float16 ? 1e-2 : 8e-2;
  switch (dtype) {
    case DType::float32: return {false, is_gradient ? 1e-3 : 1e-4, is_gradient ? 1e-4 : 1e-5};
    case DType::float64:
    case DType::float16:
    case DType::bfloat16: return {false, is_gradient ? 2 * rounding : rounding, rounding};
    default: return {};
  }
}

std::optional<std::string> find_difference(const TensorMeta& meta, const void* expected, const void* got,
                                           const Bounds& bounds) {
  const int64_t n = meta.shape.size();
  if (n == 0) return {};
  return dispatch_all("verify", meta.dtype, [&]<class T>() -> std::optional<std::string> {
    const T *want = static_cast<const T*>(expected), *is = static_cast<const T*>(got);
    const int64_t i = first_difference(want, is, n, bounds);
    if (i == n) return {};
    const std::string allowed = bounds.exact || std::is_integral_v<T>
                                    ? "bit for bit"
                                    : fmt::format("within {} of it and {} of the largest", bounds.rtol, bounds.atol);
    return fmt::format("at element {} {}: expected {}, got {} ({})", i, position(meta.shape, i), wide_t<T>(want[i]),
                       wide_t<T>(is[i]), allowed);
  });
}

}  // namespace kaon::graph
