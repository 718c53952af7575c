// The recurrence on CUDA: each step is a matrix product and a kernel over the units of the state.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/nn/rnn/kernels/rnn_cuda.cuh"

namespace kaon {

using namespace ops;
namespace {

// A thread makes one unit of one sequence in step t. sums: of all gates, with x added for all modes but gru.
template <class T>
struct CellStep {
  RnnSizes s;
  CellClip clip;
  int64_t t;
  const int64_t* length;
  const T *x, *sums, *before;
  T *after, *y, *cell, *saved;  // after: h; y: the step's results, or null where `after` is they; saved may be null

  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const int64_t n = i / s.hidden, j = i % s.hidden;
    const int64_t row = n * s.gate_columns() + j, at = (t * s.batch + n) * s.saved_columns() + j;
    const auto sum = [&](int64_t gate) { return A(sums[row + gate * s.hidden]); };
    const auto save = [&](int64_t block, A v) {
      if (saved) saved[at + block * s.hidden] = T(v);
    };
    if (t >= length[n]) {
      for (int64_t block = 0; block < saved_blocks(s.mode); ++block) save(block, A(0));
      if (s.mode == RnnMode::lstm) save(4, A(cell[i]));
      after[i] = s.projected ? T(0) : before[i];
      if (y) y[i] = T(0);
      return;
    }
    A h;
    if (s.mode == RnnMode::lstm) {
      auto u = LstmUnit<A>::step(sum(0), sum(1), sum(2), sum(3), A(cell[i]), clip);
      cell[i] = T(u.cell);
      save(0, u.in), save(1, u.forget), save(2, u.value), save(3, u.out), save(4, u.cell);
      h = u.output();
    } else if (s.mode == RnnMode::gru) {
      const auto in = [&](int64_t gate) { return A(x[row + gate * s.hidden]); };
      const auto u = GruUnit<A>::step(in(0), in(1), in(2), sum(0), sum(1), sum(2));
      save(0, u.reset), save(1, u.update), save(2, u.value), save(3, u.recurrent);
      h = u.output(A(before[i]));
    } else {
      h = plain_unit(s.mode == RnnMode::rnn_relu, sum(0));
    }
    after[i] = T(h);
    if (y) y[i] = T(h);
  }
};

// Results of a projection: those of steps that a sequence does not have are 0, and its state stays.
template <class T>
struct MaskProjected {
  int64_t columns, t;
  const int64_t* length;
  const T* before;
  T *after, *y;

  __device__ void operator()(int64_t i) const {
    const bool is_over = t >= length[i / columns];
    if (is_over) after[i] = before[i];
    y[i] = is_over ? T(0) : after[i];
  }
};

template <class T>
void scan(const op::RnnScan& op, KernelContext& c) {
  const RnnSizes s(op, c.in(1).shape, c.in(0).shape);
  if (s.batch == 0) return;
  const int64_t units = s.batch * s.hidden, results = s.batch * s.result;
  const int64_t* const length =
      device_lengths(c, op.use_sequence_length ? &c.inputs.back() : nullptr, s.batch, s.steps);
  const auto take = [&](int64_t n) { return cuda::take<T>(c, n); };
  T* const y = c.out(0).data ? c.out(0).as<T>() : take(s.steps * results);
  T* const sums = take(s.batch * s.gate_columns());
  T* const first = take(results);
  T* const hidden = s.projected ? take(units) : nullptr;
  T* const cell = s.mode == RnnMode::lstm ? take(units) : nullptr;
  T* const states[2] = {op.use_sequence_length ? take(results) : nullptr,
                        op.use_sequence_length ? take(results) : nullptr};
  split_state(c, s, c.in(2).as<T>(), first, cell);
  const bool is_gru = s.mode == RnnMode::gru;
  const T* before = first;
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = s.step(i);
    T* const result = y + t * results;
    T* const after = op.use_sequence_length ? states[i % 2] : result;
    T* const masked = op.use_sequence_length ? result : nullptr;
    const T* const x = c.in(0).as<T>() + t * s.batch * s.gate_columns();
    Epilogue<void> epilogue;
    if (is_gru) {
      epilogue.shift = c.in(3).data;
    } else {
      epilogue.addend = x;
    }
    cuda::multiply(c, {.a = before,
                       .b = c.in(1).data,
                       .c = sums,
                       .dtype = c.in(0).dtype,
                       .m = s.batch,
                       .n = s.gate_columns(),
                       .k = s.result,
                       .transpose_b = true,
                       .epilogue = epilogue});
    T* const saved = saved_blocks(s.mode) > 0 ? c.out(2).as<T>() : nullptr;
    cuda::for_each(c, units,
                   CellStep<T>{s, clip_of(op), t, length, x, sums, before, s.projected ? hidden : after,
                               s.projected ? nullptr : masked, cell, saved});
    if (s.projected) {
      cuda::multiply(c, {.a = hidden,
                         .b = c.in(3).data,
                         .c = after,
                         .dtype = c.in(0).dtype,
                         .m = s.batch,
                         .n = s.result,
                         .k = s.hidden,
                         .transpose_b = true});
      if (masked) cuda::for_each(c, results, MaskProjected<T>{s.result, t, length, before, after, masked});
    }
    before = after;
  }
  if (c.out(1).data) join_state(c, s, before, cell, c.out(1).as<T>());
}

}  // namespace

void run_cuda(const op::RnnScan& op, KernelContext& c) {
  const op::RnnScan rounded = with_rounded_bounds(op, c.in(0).dtype);
  dispatch_float("_rnn_scan", c.in(0).dtype, [&]<class T>() { scan<T>(rounded, c); });
}

}  // namespace kaon
