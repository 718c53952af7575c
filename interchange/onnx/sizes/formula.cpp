#include "kaon/interchange/onnx/sizes/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kaon::onnx::exporting {

namespace {

constexpr int64_t kLargest = int64_t(1) << 31;  // of a number that follows from sizes
// By which programs divide sizes: into parts, and by the strides of windows.
constexpr int64_t kDivisors[] = {2, 3, 4, 5, 6, 7, 8, 16, 32};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool all_equal(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
}

// By unsigned numbers, whose overflow is defined: what has wrapped fits no other value.
int64_t sum_of(const std::vector<int64_t>& terms, const Sizes& sizes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < terms.size(); ++at) {
    uint64_t product = uint64_t(terms[at]);
    for (size_t name = 0; name < sizes.size(); ++name) {
      if ((at >> name & 1) != 0) product *= uint64_t(sizes[name]);
    }
    sum += product;
  }
  return int64_t(sum);
}

}  // namespace

bool Formula::is_constant() const {
  return std::all_of(terms.begin() + 1, terms.end(), [](int64_t c) { return c == 0; });
}

int64_t Formula::operator()(const Sizes& sizes) const {
  return int64_t(uint64_t(factor) * uint64_t(floor_div(sum_of(terms, sizes), divisor)) + uint64_t(offset));
}

Fitting::Fitting(std::vector<Sizes> sizes, int64_t step) : sizes_(std::move(sizes)), step_(step) {}

bool Fitting::holds(const Formula& formula, const std::vector<int64_t>& values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (formula(sizes_[i]) != values[i]) return false;
  }
  return true;
}

std::optional<Formula> Fitting::operator()(const std::vector<int64_t>& values) const {
  if (all_equal(values)) {
    Formula constant{.terms = std::vector<int64_t>(size_t(1) << names())};
    constant.terms[0] = values[0];
    return constant;
  }
  if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v < -kLargest || v > kLargest; }))
    return std::nullopt;
  std::optional<Formula> found = linear(values);
  for (size_t name = 0; !found && name < names(); ++name) found = rounded(values, name);
  return found;
}

// Through the corners: the differences from one size to the next are `step` times the terms. With a divisor, where the
// program takes multiples of it alone.
std::optional<Formula> Fitting::linear(const std::vector<int64_t>& values) const {
  const size_t corners = size_t(1) << names();
  std::vector<int64_t> p(values.begin(), values.begin() + std::ptrdiff_t(corners));
  int64_t scale = 1;
  for (size_t name = 0; name < names(); ++name) scale *= step_;
  for (int64_t& v : p) v *= scale;
  for (size_t name = 0; name < names(); ++name) {
    const size_t bit = size_t(1) << name;
    for (size_t at = 0; at < corners; ++at) {
      if ((at & bit) != 0) continue;
      p[at | bit] = int64_t(uint64_t(p[at | bit]) - uint64_t(p[at])) / step_;
      p[at] = int64_t(uint64_t(p[at]) - uint64_t(p[at | bit]) * uint64_t(sizes_[0][name]));
    }
  }
  int64_t common = scale;
  for (const int64_t v : p) common = std::gcd(common, v);
  for (int64_t& v : p) v /= common;
  Formula formula{.terms = std::move(p), .divisor = scale / common};
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t sum = sum_of(formula.terms, sizes_[i]);
    if (sum % formula.divisor != 0 || (formula.divisor > 1 && sum < 0)) return std::nullopt;
  }
  if (!holds(formula, values)) return std::nullopt;
  return formula;
}

// factor floor((a size + b) / divisor) + offset. The values have to leave one b alone: else there are sizes at which
// several formulas differ.
std::optional<Formula> Fitting::rounded(const std::vector<int64_t>& values, size_t name) const {
  size_t least = 0, most = 0;
  int64_t unit = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (sizes_[i][name] < sizes_[least][name]) least = i;
    if (sizes_[i][name] > sizes_[most][name]) most = i;
    unit = std::gcd(unit, values[i] - values[0]);
  }
  const int64_t length = sizes_[most][name] - sizes_[least][name];
  if (length == 0 || values[most] == values[least]) return std::nullopt;
  const int64_t factor = values[most] < values[least] ? -unit : unit;
  const auto level = [&](size_t i) { return (values[i] - values[least]) / factor; };
  const double slope = double(level(most) - level(least)) / double(length);
  for (const int64_t divisor : kDivisors) {
    const auto a = int64_t(std::llround(slope * double(divisor)));
    if (a < 1 || std::gcd(a, divisor) != 1) continue;
    int64_t first = std::numeric_limits<int64_t>::min(), last = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < values.size(); ++i) {  // divisor level <= a size + b < divisor (level + 1)
      const int64_t b = divisor * level(i) - a * sizes_[i][name];
      first = std::max(first, b);
      last = std::min(last, b + divisor - 1);
    }
    if (first != last) continue;
    const int64_t whole = floor_div(first, divisor);  // so that the sum is nowhere negative
    Formula formula{.terms = std::vector<int64_t>(size_t(1) << names()),
                    .divisor = divisor,
                    .factor = factor,
                    .offset = values[least] + factor * whole};
    formula.terms[0] = first - whole * divisor;
    formula.terms[size_t(1) << name] = a;
    if (holds(formula, values)) return formula;
  }
  return std::nullopt;
}

}  // namespace kaon::onnx::exporting
