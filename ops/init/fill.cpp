#include "kaon/ops/init/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/init/kernels/sequence.h"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

namespace {

constexpr int64_t fill_bytes = 512 * 1024;  // per piece: about 20 us of stores
constexpr int64_t grain = 32768;            // elements per piece where each is computed

void set_output(InferContext& c, const Shape& shape, DType dtype) {
  if (!shape.is_known()) c.fail("shape must have no unknown dimension, got " + shape.str());
  c.set_output(shape, dtype);
}

// out[i] = f(i), computed in double.
template <class F>
void generate(const TensorView& out, RunContext& run, F f) {
  dispatch_all("_arange", out.dtype, [&]<class T>() {
    run.parallel_for(out.size(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out.as<T>()[i] = convert<T>(f(i));
    });
  });
}

}  // namespace

constinit const OpDef op::Zeros::def = make_op_def<op::Zeros>();
constinit const OpDef op::Ones::def = make_op_def<op::Ones>();
constinit const OpDef op::Full::def = make_op_def<op::Full>();
constinit const OpDef op::Arange::def = make_op_def<op::Arange>();
constinit const OpDef op::Linspace::def = make_op_def<op::Linspace>();
constinit const OpDef op::Eye::def = make_op_def<op::Eye>();

}  // namespace kaon

namespace kaon::ops {

void fill(const TensorView& out, double value, RunContext& run) {
  dispatch_all("_full", out.dtype, [&]<class T>() {
    const T v = convert<T>(value);
    run.parallel_for(out.size(), fill_bytes / int64_t(sizeof(T)),
                     [&](int64_t begin, int64_t end) { std::fill(out.as<T>() + begin, out.as<T>() + end, v); });
  });
}

}  // namespace kaon::ops

namespace kaon {

void op::Zeros::infer(InferContext& c) const { set_output(c, shape, dtype); }
void run_cpu(const op::Zeros&, KernelContext& c) { fill(c.out(), 0, c.run); }

void op::Ones::infer(InferContext& c) const { set_output(c, shape, dtype); }
void run_cpu(const op::Ones&, KernelContext& c) { fill(c.out(), 1, c.run); }

void op::Full::infer(InferContext& c) const {
  expect_holds(c, "value", value, dtype);
  set_output(c, shape, dtype);
}
void run_cpu(const op::Full& op, KernelContext& c) { fill(c.out(), op.value, c.run); }

void op::Arange::infer(InferContext& c) const {
  if (infer_range) c.fail_value("infer_range is not implemented: give stop");
  const auto [first, last] = range(*this);
  if (!std::isfinite(first) || !std::isfinite(last)) c.fail_value("start and stop must be finite");
  if (step == 0 || !std::isfinite(step)) c.fail_value("step must be finite and not 0");
  if (!is_floating(dtype) && (first != std::floor(first) || step != std::floor(step))) {
    c.fail_value(
        fmt::format("start {} and step {} must be whole numbers for dtype {}; use cast", first, step, name_of(dtype)));
  }
  if (repeat < 1) c.fail_value("repeat must be at least 1, got " + to_text(repeat));
  const double steps = std::ceil((last - first) / step);
  if (steps * repeat > 9e15) c.fail_value("too many elements");
  set_output(c, Shape(steps > 0 ? int64_t(steps) * repeat : 0), dtype);
}
void run_cpu(const op::Arange& op, KernelContext& c) { generate(c.out(), c.run, ArangeValues(op)); }

void op::Linspace::infer(InferContext& c) const {
  if (!stop) c.fail_value("stop must be given");
  if (!std::isfinite(start) || !std::isfinite(*stop)) c.fail_value("start and stop must be finite");
  if (num < 0) c.fail_value("num must not be negative, got " + to_text(num));
  set_output(c, Shape(num), dtype);
}
void run_cpu(const op::Linspace& op, KernelContext& c) { generate(c.out(), c.run, LinspaceValues(op)); }

void op::Eye::infer(InferContext& c) const {
  if (N < 0 || M < 0) c.fail_value("N and M must not be negative, got " + to_text(N) + " and " + to_text(M));
  set_output(c, Shape(N, M == 0 ? N : M), dtype);
}
void run_cpu(const op::Eye& op, KernelContext& c) {
  const TensorView out = c.out();
  const int64_t columns = out.shape[1];
  fill(out, 0, c.run);
  dispatch_all("_eye", out.dtype, [&]<class T>() {
    const int64_t k = std::clamp(op.k, -out.shape[0], columns);  // the same diagonal, or as empty
    for (int64_t row = 0; row < out.shape[0]; ++row) {
      const int64_t column = row + k;
      if (column >= 0 && column < columns) out.as<T>()[row * columns + column] = convert<T>(1);
    }
  });
}

}  // namespace kaon
