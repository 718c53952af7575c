#include "kaon/ops/operator/checked_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "kaon/ops/math/dispatch.h"

namespace kaon {

using namespace ops;

namespace {

enum : unsigned { nan_bit = 1, infinity_bit = 2, indices_bit = 4, unread = 8 };  // of active_checks

unsigned bits_of(const Checks& c) { return c.nan * nan_bit + c.infinity * infinity_bit + c.indices * indices_bit; }

unsigned from_environment() {
  const char* text = std::getenv("KAON_CHECK");
  unsigned bits = 0;
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "nan") {
      bits |= nan_bit;
    } else if (word == "infinity") {
      bits |= infinity_bit;
    } else if (word == "indices") {
      bits |= indices_bit;
    } else {
      throw ValueError(fmt::format(
          "[checks] KAON_CHECK: expected words of nan, infinity, indices with commas between, got '{}'", text));
    }
  }
  return bits;
}

unsigned current() {
  unsigned bits = active_checks.load();
  if (bits != unread) return bits;
  const unsigned read = from_environment();
  active_checks.compare_exchange_strong(bits, read);  // unless another thread has set them
  return active_checks.load();
}

}  // namespace

std::atomic<unsigned> ops::active_checks{unread};

void set_checks(const Checks& checks) { active_checks = bits_of(checks); }

Checks checks() {
  const unsigned bits = current();
  return {.nan = (bits & nan_bit) != 0, .infinity = (bits & infinity_bit) != 0, .indices = (bits & indices_bit) != 0};
}

namespace ops {

bool read_checks() { return current() != 0; }

namespace {

// The position of the first element that is a NaN, or not finite; -1: there is none.
int64_t find_bad(const TensorView& x, bool infinity) {
  if (x.data == nullptr || !is_floating(x.dtype)) return -1;
  int64_t found = -1;
  dispatch_float("checks", x.dtype, [&]<class T>() {
    const T* values = x.as<T>();
    for (int64_t i = 0; i < x.size() && found < 0; ++i) {
      const auto v = accumulate_t<T>(values[i]);
      if (infinity ? !std::isfinite(v) : std::isnan(v)) found = i;
    }
  });
  return found;
}

std::string position(const Shape& shape, int64_t at) {
  Shape p = shape;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    p[d] = at % shape[d];
    at /= shape[d];
  }
  return p.str();
}

void check_indices(const OpDef& def, const void* attrs, const IndexUse& use, const TensorView& x) {
  dispatch_all("checks", x.dtype, [&]<class T>() {
    for (int64_t i = 0; i < x.size(); ++i) {
      const double v = double(accumulate_t<T>(x.as<T>()[i]));
      if ((v > -1 && v < double(use.count)) || use.ignored == v) continue;  // fractions are cut off
      throw IndexError(fmt::format("[{}] {} at {}: expected 0 to {}, got {} (found by checks)", def.name(),
                                   def.traits_of(attrs).inputs[use.input], position(x.shape, i), use.count - 1, v));
    }
  });
}

}  // namespace

void run_checked(const OpDef& def, const void* attrs, KernelContext& c) {
  const unsigned bits = current();
  if ((bits & indices_bit) != 0 && def.index_use != nullptr) {
    const IndexUse use = def.index_use(attrs, c.inputs);
    if (use.input >= 0) check_indices(def, attrs, use, c.in(use.input));
  }
  if ((bits & (nan_bit | infinity_bit)) == 0) return def.cpu(attrs, c);
  const bool infinity = (bits & infinity_bit) != 0;
  bool is_first = true;
  for (const TensorView& x : c.inputs) is_first = is_first && find_bad(x, infinity) < 0;
  def.cpu(attrs, c);
  if (!is_first) return;
  const auto check = [&](const TensorView& x, const std::string& what) {
    const int64_t at = find_bad(x, infinity);
    if (at < 0) return;
    throw ValueError(fmt::format("[{}] {} has {} at {}, and no input has one (found by checks)", def.name(), what,
                                 infinity ? "an infinity or a NaN" : "a NaN", position(x.shape, at)));
  };
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    check(c.outputs[i], c.outputs.size() == 1 ? "the result" : fmt::format("result {}", i));
  }
  for (int i = 0; i < int(c.inputs.size()); ++i) {
    if (is_mutated(def.traits, i, int(c.inputs.size()))) check(c.in(i), fmt::format("updated input {}", i));
  }
}

}  // namespace ops
}  // namespace kaon
