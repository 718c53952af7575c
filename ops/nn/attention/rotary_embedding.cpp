#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/nn/attention/kernels/rotary_call.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t run_length = 32;  // steps of which the first has its sines computed, and the others the ones before

// cosines and sines (steps, pairs) of one run of positions. Positions that follow each other by 1 are reached by
// turning, in double, which is several times as fast as sines and loses no bit that counts within a run.
template <class A>
void turns(const RotarySizes& s, const double* frequencies, const double* positions, int64_t count, double* state,
           A* cosines, A* sines) {
  double *const cosine = state, *const sine = state + s.pairs;
  const double *const step_cosine = state + 2 * s.pairs, *const step_sine = state + 3 * s.pairs;
  for (int64_t t = 0; t < count; ++t, cosines += s.pairs, sines += s.pairs) {
    const bool follows = t > 0 && positions[t] - positions[t - 1] == 1;
    for (int64_t i = 0; i < s.pairs; ++i) {
      if (follows) {
        const double c = cosine[i], n = sine[i];
        cosine[i] = c * step_cosine[i] - n * step_sine[i];
        sine[i] = n * step_cosine[i] + c * step_sine[i];
      } else {
        const double angle = positions[t] * frequencies[i];
        cosine[i] = std::cos(angle), sine[i] = std::sin(angle);
      }
      cosines[i] = A(cosine[i]), sines[i] = A(sine[i]);
    }
  }
}

template <class T, class A>
void turn_row(const RotarySizes& s, const A* cosines, const A* sines, const T* x, T* y) {
  if (s.interleaved) {
    for (int64_t i = 0; i < s.pairs; ++i) {
      const A a = A(x[2 * i]), b = A(x[2 * i + 1]);
      y[2 * i] = T(a * cosines[i] - b * sines[i]);
      y[2 * i + 1] = T(a * sines[i] + b * cosines[i]);
    }
  } else {
    const T* const second = x + s.pairs;
    T* const to = y + s.pairs;
    for (int64_t i = 0; i < s.pairs; ++i) {
      const A a = A(x[i]), b = A(second[i]);
      y[i] = T(a * cosines[i] - b * sines[i]);
      to[i] = T(a * sines[i] + b * cosines[i]);
    }
  }
  std::copy(x + 2 * s.pairs, x + s.dim, y + 2 * s.pairs);
}

template <class T>
void rotate(const op::RotaryEmbedding& op, KernelContext& c) {
  using A = accumulate_t<T>;
  const TensorView* const given = op.use_positions ? &c.in(1) : nullptr;
  const RotarySizes s(op, c.in(0).shape, given ? &given->shape : nullptr);
  const int64_t steps = s.samples * s.length;
  const auto doubles = [&](int64_t n) { return static_cast<double*>(c.run.workspace(size_t(n + 1) * sizeof(double))); };
  double *const positions = doubles(steps), *const frequencies = doubles(3 * s.pairs);
  for (int64_t i = 0; i < steps; ++i) positions[i] = op.offset + double(i % s.length);
  if (given) {
    dispatch_number("rotary_embedding", given->dtype, [&]<class P>() {
      for (int64_t i = 0; i < steps; ++i) positions[i] = op.offset + double(accumulate_t<P>(given->as<P>()[i]));
    });
  }
  for (int64_t i = 0; i < s.pairs; ++i) frequencies[i] = s.frequency(i);
  A* const cosines = static_cast<A*>(c.run.workspace(2 * sizeof(A) * size_t(steps * s.pairs + 1)));
  A* const sines = cosines + steps * s.pairs;
  const int64_t runs = (s.length + run_length - 1) / run_length;
  double* const states = doubles(4 * s.pairs * s.samples * runs);
  c.run.parallel_for(s.samples * runs, std::max<int64_t>(1, 4096 / (run_length * s.pairs + 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         const int64_t first = i % runs * run_length, at = i / runs * s.length + first;
                         double* const state = states + 4 * s.pairs * i;
                         for (int64_t k = 0; k < s.pairs; ++k) {
                           state[2 * s.pairs + k] = std::cos(frequencies[k]);
                           state[3 * s.pairs + k] = std::sin(frequencies[k]);
                         }
                         turns(s, frequencies, positions + at, std::min(run_length, s.length - first), state,
                               cosines + at * s.pairs, sines + at * s.pairs);
                       }
                     });
  const T* const x = c.in(0).as<T>();
  T* const y = c.out().as<T>();
  const int64_t rows = s.samples * s.inner * s.length;
  c.run.parallel_for(rows, std::max<int64_t>(1, 16384 / (s.dim + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = (row / (s.inner * s.length) * s.length + row % s.length) * s.pairs;
      turn_row(s, cosines + at, sines + at, x + row * s.dim, y + row * s.dim);
    }
  });
}

}  // namespace

constinit const OpDef op::RotaryEmbedding::def = make_op_def<op::RotaryEmbedding>();

void op::RotaryEmbedding::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 2);
  const Shape data = c.shape(0);
  if (!(base > 0) || !std::isfinite(base)) c.fail_value(fmt::format("base must be positive and finite, got {}", base));
  if (!std::isfinite(offset)) c.fail_value(fmt::format("offset must be finite, got {}", offset));
  const int64_t turned = dims == 0 ? data.back() : dims;
  if (turned < 0 || turned > data.back() || turned % 2 != 0) {
    c.fail_value(fmt::format("dims must be even and at most {}, got {}: {}", data.back(), turned, c.describe_inputs()));
  }
  if (use_positions) {
    const Shape positions = c.shape(1);
    const int64_t length = data[data.ndim() - 2];
    const bool is_shared = positions.ndim() == 1 && positions[0] == length;
    const bool is_by_sample =
        data.ndim() > 2 && positions.ndim() == 2 && positions[0] == data[0] && positions[1] == length;
    if (!is_shared && !is_by_sample) {
      c.fail(fmt::format("positions must have shape ({},) or (batch, {}): {}", length, length, c.describe_inputs()));
    }
    if (c.dtype(1) == DType::boolean) c.fail_dtype("positions must be numbers, got bool");
  }
  c.set_output(data, c.dtype());
}

void op::RotaryEmbedding::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  RotaryEmbedding back = *this;
  back.inverse = !inverse;
  g.set(0, use_positions ? nd.rotary_embedding(g.head(), g.input(1), back) : nd.rotary_embedding(g.head(), back));
}

bool op::RotaryEmbedding::keeps_rows(const RowQuery& q) const {
  if (q.ndim() < 3 || !q.has_rows(0)) return false;
  return !use_positions || q.has_rows(1) == (q.ndim(1) == 2);
}

void run_cpu(const op::RotaryEmbedding& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float("rotary_embedding", c.in(0).dtype, [&]<class T>() { rotate<T>(op, c); });
}

}  // namespace kaon
