// The gradient of the recurrence on CUDA: the steps from the last to the first, then one product for each weight.
#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/nn/rnn/kernels/rnn_cuda.cuh"

namespace kaon {

using namespace ops;
namespace {

// h before each step; 0 for steps that a sequence does not have.
template <class T>
struct GatherStates {
  RnnSizes s;
  const int64_t* length;
  const T *state, *y;
  T* before;

  __device__ void operator()(int64_t i) const {
    const int64_t row = i / s.result, j = i % s.result, t = row / s.batch, n = row % s.batch;
    T h = T(0);
    if (t >= length[n]) {
    } else if (s.is_first(t, length[n])) {
      h = state[n * s.state_columns() + j];
    } else {
      h = y[(s.before(t) * s.batch + n) * s.result + j];
    }
    before[i] = h;
  }
};

// With a projection: the gradient of the results of step t; what is left of the state's.
template <class T>
struct HeadStep {
  int64_t columns, t;
  const int64_t* length;
  const T* arrived;
  T *head, *d_state;

  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const bool is_over = t >= length[i / columns];
    head[i] = is_over ? T(0) : T(A(arrived[i]) + A(d_state[i]));
    if (!is_over) d_state[i] = T(0);
  }
};

// A thread takes one unit of one sequence in step t.
template <class T>
struct CellBackward {
  RnnSizes s;
  CellClip clip;
  int64_t t;
  bool is_first;  // no step of any sequence runs before it
  const int64_t* length;
  const T *head, *state, *y, *saved, *before;  // head: of the units; saved, y and before: of all steps
  T *d_state, *d_cell, *d_gates, *d_sums, *hidden;

  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const int64_t n = i / s.hidden, j = i % s.hidden, row = t * s.batch + n;
    const int64_t gates = row * s.gate_columns() + j;
    const auto set = [&](T* to, int64_t gate, A v) { to[gates + gate * s.hidden] = T(v); };
    const auto kept = [&](int64_t of, int64_t block) {
      return A(saved[of * s.saved_columns() + block * s.hidden + j]);
    };
    if (t >= length[n]) {
      for (int64_t gate = 0; gate < s.gates(); ++gate) set(d_gates, gate, A(0)), set(d_sums, gate, A(0));
      if (hidden) hidden[row * s.hidden + j] = T(0);
      return;
    }
    A g = A(head[i]);
    if (!s.projected) {
      g += A(d_state[i]);
      d_state[i] = T(0);
    }
    if (s.mode == RnnMode::lstm) {
      const LstmUnit<A> u{kept(row, 0), kept(row, 1), kept(row, 2), kept(row, 3), kept(row, 4)};
      const A c_before = is_first ? A(state[n * s.state_columns() + s.result + j]) : kept(s.before(t) * s.batch + n, 4);
      A dc = A(d_cell[i]), d[4];
      u.back(g, c_before, clip, dc, d);
      d_cell[i] = T(dc);
      for (int64_t gate = 0; gate < 4; ++gate) set(d_gates, gate, d[gate]);
      if (hidden) hidden[row * s.hidden + j] = T(u.output());
    } else if (s.mode == RnnMode::gru) {
      const GruUnit<A> u{kept(row, 0), kept(row, 1), kept(row, 2), kept(row, 3)};
      A d[3], d_recurrent, d_before;
      u.back(g, A(before[row * s.result + j]), d, d_recurrent, d_before);
      for (int64_t gate = 0; gate < 3; ++gate) set(d_gates, gate, d[gate]);
      set(d_sums, 0, d[0]), set(d_sums, 1, d[1]), set(d_sums, 2, d_recurrent);
      d_state[i] = T(d_before);
    } else {
      set(d_gates, 0, plain_unit_back(s.mode == RnnMode::rnn_relu, A(y[row * s.result + j]), g));
    }
  }
};

template <class T>
struct FillOnes {
  T* x;
  __device__ void operator()(int64_t i) const { x[i] = T(1); }
};

// C (m, n) = A' B for A (rows, m) and B (rows, n).
void multiply_rows(KernelContext& c, const void* a, const void* b, void* out, DType dtype, int64_t rows, int64_t m,
                   int64_t n) {
  if (!out) return;
  cuda::multiply(c, {.a = a, .b = b, .c = out, .dtype = dtype, .m = m, .n = n, .k = rows, .transpose_a = true});
}

template <class T>
void backward(const op::BackwardRnnScan& op, KernelContext& c) {
  const RnnSizes s(op, c.in(2).shape, c.in(4).shape);
  const DType dtype = c.in(0).dtype;
  const int64_t rows = s.steps * s.batch, units = s.batch * s.hidden, results = s.batch * s.result;
  const int64_t* const length =
      device_lengths(c, op.use_sequence_length ? &c.inputs.back() : nullptr, s.batch, s.steps);
  const auto take = [&](int64_t n) { return cuda::take<T>(c, n); };
  const bool is_lstm = s.mode == RnnMode::lstm, is_gru = s.mode == RnnMode::gru;
  const T* const saved = is_lstm || is_gru ? c.in(5).as<T>() : nullptr;
  T* const d_gates = c.out(0).data ? c.out(0).as<T>() : take(rows * s.gate_columns());
  T* const d_sums = is_gru ? take(rows * s.gate_columns()) : d_gates;
  T* const before = take(rows * s.result);
  T* const d_state = take(results);
  T* const d_cell = is_lstm ? take(units) : nullptr;
  T* const heads = s.projected ? take(rows * s.result) : nullptr;
  T* const hidden = s.projected ? take(rows * s.hidden) : nullptr;
  T* const d_hidden = s.projected ? take(units) : nullptr;
  split_state(c, s, c.in(1).as<T>(), d_state, d_cell);
  cuda::for_each(c, rows * s.result, GatherStates<T>{s, length, c.in(3).as<T>(), c.in(4).as<T>(), before});
  const auto through_sums = [&](const T* d) {  // the state's gradient gets what flows back through a step's sums
    cuda::multiply(c, {.a = d,
                       .b = c.in(2).data,
                       .c = d_state,
                       .dtype = dtype,
                       .m = s.batch,
                       .n = s.result,
                       .k = s.gate_columns(),
                       .epilogue = {.addend = d_state}});
  };
  const T* d_after = nullptr;
  for (int64_t i = s.steps; i-- > 0 && s.batch > 0;) {
    const int64_t t = s.step(i);
    if (d_after) through_sums(d_after);
    const T* head = c.in(0).as<T>() + t * results;
    if (s.projected) {
      T* const whole = heads + t * results;
      cuda::for_each(c, results, HeadStep<T>{s.result, t, length, head, whole, d_state});
      cuda::multiply(
          c,
          {.a = whole, .b = c.in(6).data, .c = d_hidden, .dtype = dtype, .m = s.batch, .n = s.hidden, .k = s.result});
      head = d_hidden;
    }
    cuda::for_each(c, units,
                   CellBackward<T>{s, clip_of(op), t, i == 0, length, head, c.in(3).as<T>(), c.in(4).as<T>(), saved,
                                   before, d_state, d_cell, d_gates, d_sums, hidden});
    d_after = d_sums + t * s.batch * s.gate_columns();
  }
  if (d_after) through_sums(d_after);
  if (c.out(2).data) join_state(c, s, d_state, d_cell, c.out(2).as<T>());
  multiply_rows(c, d_sums, before, c.out(1).data, dtype, rows, s.gate_columns(), s.result);
  if (s.projected) multiply_rows(c, heads, hidden, c.out(3).data, dtype, rows, s.result, s.hidden);
  if (is_gru && c.out(3).data) {
    T* const ones = take(rows);
    cuda::for_each(c, rows, FillOnes<T>{ones});
    multiply_rows(c, ones, d_sums, c.out(3).data, dtype, rows, 1, s.gate_columns());
  }
}

}  // namespace

void run_cuda(const op::BackwardRnnScan& op, KernelContext& c) {
  const op::BackwardRnnScan rounded = with_rounded_bounds(op, c.in(0).dtype);
  dispatch_float("_backward_rnn_scan", c.in(0).dtype, [&]<class T>() { backward<T>(rounded, c); });
}

}  // namespace kaon
