#include <fmt/format.h>

#include <cmath>

#include "kaon/engine/error.h"
#include "kaon/ops/array/checked_size.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

void InferContext::expect_shape(int i, const Shape& expected) {
  Shape& given = inputs_[size_t(i)]->shape;
  if (given.ndim() < 0) {
    given = expected;
    return;
  }
  bool fits = given.ndim() == expected.ndim();
  for (int k = 0; fits && k < given.ndim(); ++k) {
    if (given[k] < 0) {
      given[k] = expected[k];
    } else if (expected[k] >= 0) {
      fits = given[k] == expected[k];
    }
  }
  if (!fits) {
    throw ShapeError(fmt::format("[{}] {} must have shape {}, got {}; inputs: {}", op_,
                                 traits_.variadic ? fmt::format("input {}", i) : std::string(traits_.inputs[i]),
                                 expected.str(), given.str(), describe_inputs()));
  }
}

void InferContext::expect_input(int i, const Shape& expected, DType dtype) {
  TensorMeta& given = *inputs_[size_t(i)];
  if (given.shape.ndim() < 0) given.dtype = dtype;
  expect_shape(i, expected);
  if (given.dtype == dtype) return;
  fail_dtype(fmt::format("{} must be of {}, got {}",
                         traits_.variadic ? fmt::format("input {}", i) : std::string(traits_.inputs[i]), name_of(dtype),
                         name_of(given.dtype)));
}

void InferContext::expect_ndim(int i, int ndim) const {
  if (shape(i).ndim() != ndim) {
    fail(fmt::format("{} must have {} dimensions, got shape {}",
                     traits_.variadic ? fmt::format("input {}", i) : std::string(traits_.inputs[i]), ndim,
                     shape(i).str()));
  }
}

void InferContext::expect_ndim_at_least(int i, int ndim) const {
  if (shape(i).ndim() < ndim) {
    fail(fmt::format("{} must have at least {} dimensions, got shape {}",
                     traits_.variadic ? fmt::format("input {}", i) : std::string(traits_.inputs[i]), ndim,
                     shape(i).str()));
  }
}

void InferContext::expect_same_dtype() const {
  for (int i = 1; i < num_inputs(); ++i) {
    if (dtype(i) != dtype(0)) {
      fail_dtype(
          fmt::format("inputs must have one dtype, got {} and {}; use cast", name_of(dtype(0)), name_of(dtype(i))));
    }
  }
}

void InferContext::expect_floating(int i) const {
  if (!is_floating(dtype(i))) fail_dtype(fmt::format("needs a floating dtype, got {}; use cast", name_of(dtype(i))));
}

void InferContext::set_output(int i, const Shape& shape, DType dtype) {
  if (!is_valid(dtype)) fail_dtype("unknown dtype");
  if (!has_countable_bytes(shape, dtype) && shape.is_known()) [[unlikely]] {
    fail(fmt::format("a result of shape {} and dtype {} is too large", shape.str(), name_of(dtype)));
  }
  TensorMeta& out = outputs_[size_t(i)];
  out.shape = shape;
  out.dtype = dtype;
}

void InferContext::fail(const std::string& why) const { throw ShapeError(fmt::format("[{}] {}", op_, why)); }
void InferContext::fail_dtype(const std::string& why) const { throw TypeError(fmt::format("[{}] {}", op_, why)); }
void InferContext::fail_value(const std::string& why) const { throw ValueError(fmt::format("[{}] {}", op_, why)); }

std::string InferContext::describe_inputs() const {
  std::string text;
  for (int i = 0; i < num_inputs(); ++i) {
    if (i) text += ", ";
    text += traits_.variadic ? fmt::format("input {} {}", i, shape(i).str())
                             : fmt::format("{} {}", traits_.inputs[i], shape(i).str());
  }
  return text;
}

}  // namespace kaon

namespace kaon::ops {

void expect_holds(const InferContext& c, const char* what, double value, DType dtype) {
  if (is_floating(dtype)) return;
  const int bits = 8 * int(size_of(dtype)) - (is_unsigned(dtype) ? 0 : 1);
  const double end = std::ldexp(1.0, bits), cut = std::trunc(value);
  const bool holds =
      dtype == DType::boolean ? std::isfinite(value) : cut >= (is_unsigned(dtype) ? 0 : -end) && cut < end;
  if (!holds) c.fail_value(fmt::format("{} must be a value of dtype {}, got {}", what, name_of(dtype), value));
}

void fail_unsupported_dtype(const char* op, DType dtype) {
  throw TypeError(fmt::format("[{}] is not implemented for dtype {}", op, name_of(dtype)));
}

}  // namespace kaon::ops
