#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/kernels/repeated_gemm.h"
#include "kaon/ops/nn/rnn/kernels/rnn_call.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// One call on the CPU: the steps from the last to the first over pieces of units (each two with a projection), and then
// the gradients of the weights as one product each over all steps.
template <class T>
class ScanBackward {
 public:
  ScanBackward(const op::BackwardRnnScan& op, KernelContext& c)
      : c_(c),
        s_(op, c.in(2).shape, c.in(4).shape),
        rows_(rnn_rows<T>()),
        bounds_(cell_bounds<T>(op)),
        length_(load_lengths(c, op.use_sequence_length ? &c.inputs.back() : nullptr, s_.batch, s_.steps)),
        has_saved_(saved_blocks(op.mode) > 0),
        units_(units_of_gradient<T>(s_)),
        to_result_(c, s_.batch, s_.result, s_.gate_columns(), c.in(2).as<T>(), false, units_) {
    if (s_.projected) {
      to_hidden_.emplace(c, s_.batch, s_.hidden, s_.result, c.in(6).as<T>(), false, units_);
      heads_ = take(s_.steps * s_.batch * s_.result);
      hidden_ = take(s_.steps * s_.batch * s_.hidden);
    }
    const int64_t gates = s_.steps * s_.batch * s_.gate_columns();
    d_gates_ = c.out(0).data ? c.out(0).as<T>() : take(gates);
    d_sums_ = s_.mode == RnnMode::gru ? take(gates) : d_gates_;
    before_ = take(s_.steps * s_.batch * s_.result);
    d_state_ = take(s_.batch * s_.result);
    if (s_.mode == RnnMode::lstm) d_cell_ = take(s_.batch * s_.hidden);
  }

  void run() {
    const T* const last = c_.in(1).as<T>();
    for (int64_t n = 0; n < s_.batch; ++n) {
      const T* const row = last + n * s_.state_columns();
      std::copy_n(row, s_.result, d_state_ + n * s_.result);
      if (d_cell_) std::copy_n(row + s_.result, s_.hidden, d_cell_ + n * s_.hidden);
    }
    gather_states();
    const int64_t parts = to_hidden_ ? 2 : 1, loops = s_.steps * parts + int64_t(s_.steps > 0);
    in_steps(c_.run, loops, pieces_of_step(to_result_, to_hidden_), [&](int64_t number, int64_t piece) {
      const int64_t done = number / parts, i = s_.steps - 1 - done;  // one more than the steps: the last product alone
      const T* const d_sums = done > 0 ? d_sums_ + s_.step(i + 1) * s_.batch * s_.gate_columns() : nullptr;
      if (number % parts == 1) {
        if (piece < to_hidden_->pieces()) through_projection(s_.step(i), piece);
      } else if (piece >= to_result_.pieces()) {
        return;
      } else if (i >= 0) {
        through_sums(s_.step(i), piece, d_sums);
      } else {
        add_product(piece, d_sums);
      }
    });
    T* const out = c_.out(2).as<T>();
    for (int64_t n = 0; out && n < s_.batch; ++n) {
      T* const row = out + n * s_.state_columns();
      std::copy_n(d_state_ + n * s_.result, s_.result, row);
      if (d_cell_) std::copy_n(d_cell_ + n * s_.hidden, s_.hidden, row + s_.result);
    }
    weights();
  }

 private:
  T* take(int64_t n) { return static_cast<T*>(c_.run.workspace(size_t(std::max<int64_t>(1, n)) * sizeof(T))); }
  bool is_over(int64_t t, int64_t n) const { return t >= length_[n]; }

  // h before each step; 0 for steps that a sequence does not have.
  void gather_states() {
    const T* const y = c_.in(4).as<T>();
    c_.run.parallel_for(s_.steps * s_.batch, std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, s_.result)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            const int64_t t = row / s_.batch, n = row % s_.batch;
                            T* const to = before_ + row * s_.result;
                            if (is_over(t, n)) {
                              std::fill_n(to, s_.result, T(0));
                            } else if (s_.is_first(t, length_[n])) {
                              std::copy_n(c_.in(3).as<T>() + n * s_.state_columns(), s_.result, to);
                            } else {
                              std::copy_n(y + (s_.before(t) * s_.batch + n) * s_.result, s_.result, to);
                            }
                          }
                        });
  }

  // The state's gradient gets what flows back through the recurrent sums of a step, for the piece's columns.
  void add_product(int64_t piece, const T* d_sums) {
    const int64_t count = to_result_.columns_of(piece), first = piece * to_result_.width();
    const Scratch scratch(size_t(s_.batch * count) * sizeof(T));
    to_result_.run(piece, d_sums, scratch.as<T>());
    for (int64_t n = 0; n < s_.batch; ++n) {
      T* const to = d_state_ + n * s_.result + first;
      const T* const more = scratch.as<T>() + n * count;
      for (int64_t j = 0; j < count; ++j) to[j] += more[j];
    }
  }

  // Step t for the units of a piece, after the product of the step that was before it here. With a projection only the
  // gradient of the step's result is made.
  void through_sums(int64_t t, int64_t piece, const T* d_sums) {
    const int64_t count = to_result_.columns_of(piece), first = piece * to_result_.width();
    for (int64_t n = 0; n < std::min(s_.batch, rows_ahead); ++n) fetch(t, n, first, count);
    if (d_sums) add_product(piece, d_sums);
    const Scratch scratch(size_t(count) * sizeof(T));
    for (int64_t n = 0; n < s_.batch; ++n) {
      if (n + rows_ahead < s_.batch) fetch(t, n + rows_ahead, first, count);
      const int64_t at = (t * s_.batch + n) * s_.result + first;
      T* const d_state = d_state_ + n * s_.result + first;
      T* const head = s_.projected ? heads_ + at : scratch.as<T>();
      if (is_over(t, n)) {
        if (s_.projected) {
          std::fill_n(head, count, T(0));
        } else {
          clear(t, n, first, count);
        }
        continue;
      }
      const T* const arrived = c_.in(0).as<T>() + at;
      for (int64_t j = 0; j < count; ++j) head[j] = arrived[j] + d_state[j];
      std::fill_n(d_state, count, T(0));
      if (!s_.projected) through_cell(t, n, first, count, head, d_state);
    }
  }

  // What a row reads and writes beside the product is in memory, or in another core's cache, until now: it comes while
  // the product or an earlier row runs.
  void fetch(int64_t t, int64_t n, int64_t first, int64_t count) const {
    const int64_t row = t * s_.batch + n;
    fetch_to_read(c_.in(0).as<T>() + row * s_.result + first, count);
    if (s_.projected) return;
    if (has_saved_) {
      const T* const saved = c_.in(5).as<T>() + row * s_.saved_columns() + first;
      fetch_to_read(saved, count, saved_blocks(s_.mode), s_.hidden);
      if (s_.mode == RnnMode::lstm && s_.step(0) != t) fetch_to_read(cell_before(t, n) + first, count);
    }
    const int64_t gates = row * s_.gate_columns() + first;
    fetch_to_write(d_gates_ + gates, count, s_.gates(), s_.hidden);
    if (d_sums_ != d_gates_) fetch_to_write(d_sums_ + gates, count, s_.gates(), s_.hidden);
  }

  // Of a step that is not the first.
  const T* cell_before(int64_t t, int64_t n) const {
    return c_.in(5).as<T>() + (s_.before(t) * s_.batch + n) * s_.saved_columns() + 4 * s_.hidden;
  }

  void through_projection(int64_t t, int64_t piece) {
    const int64_t count = to_hidden_->columns_of(piece), first = piece * to_hidden_->width();
    const Scratch scratch(size_t(s_.batch * count) * sizeof(T));
    to_hidden_->run(piece, heads_ + t * s_.batch * s_.result, scratch.as<T>());
    for (int64_t n = 0; n < s_.batch; ++n) {
      if (is_over(t, n)) {
        clear(t, n, first, count);
      } else {
        through_cell(t, n, first, count, scratch.as<T>() + n * count, nullptr);
      }
    }
  }

  // A step that the sequence does not have passes the state's gradient on.
  void clear(int64_t t, int64_t n, int64_t first, int64_t count) {
    const int64_t at = (t * s_.batch + n) * s_.gate_columns() + first;
    for (int64_t gate = 0; gate < s_.gates(); ++gate) {
      std::fill_n(d_gates_ + at + gate * s_.hidden, count, T(0));
      std::fill_n(d_sums_ + at + gate * s_.hidden, count, T(0));
    }
    if (s_.projected) std::fill_n(hidden_ + (t * s_.batch + n) * s_.hidden + first, count, T(0));
  }

  void through_cell(int64_t t, int64_t n, int64_t first, int64_t count, const T* head, T* d_state) {
    const int64_t row = t * s_.batch + n, gates = row * s_.gate_columns() + first;
    T* const d_gates = d_gates_ + gates;
    const T* const saved = has_saved_ ? c_.in(5).as<T>() + row * s_.saved_columns() + first : nullptr;
    if (s_.mode == RnnMode::lstm) {
      const bool is_first = s_.step(0) == t;
      const T* const c_before =
          is_first ? c_.in(3).as<T>() + n * s_.state_columns() + s_.result + first : cell_before(t, n) + first;
      rows_.lstm_backward(count, saved, s_.hidden, c_before, head, bounds_, d_cell_ + n * s_.hidden + first, d_gates,
                          s_.hidden);
      if (s_.projected) rows_.lstm_output(count, saved, s_.hidden, hidden_ + row * s_.hidden + first);
    } else if (s_.mode == RnnMode::gru) {
      rows_.gru_backward(count, saved, s_.hidden, before_ + row * s_.result + first, head, d_gates, d_sums_ + gates,
                         s_.hidden, d_state);
    } else {
      rows_.plain_backward(count, s_.mode == RnnMode::rnn_relu, c_.in(4).as<T>() + row * s_.result + first, head,
                           d_gates);
    }
  }

  void weights() {
    const int64_t rows = s_.steps * s_.batch;
    if (c_.out(1).data) {
      gemm(c_, Gemm<T>{.a = d_sums_,
                       .b = before_,
                       .c = c_.out(1).as<T>(),
                       .m = s_.gate_columns(),
                       .n = s_.result,
                       .k = rows,
                       .transpose_a = true});
    }
    if (s_.projected && c_.out(3).data) {
      gemm(c_, Gemm<T>{.a = heads_,
                       .b = hidden_,
                       .c = c_.out(3).as<T>(),
                       .m = s_.result,
                       .n = s_.hidden,
                       .k = rows,
                       .transpose_a = true});
    }
    if (s_.mode == RnnMode::gru && c_.out(3).data) sum_rows(rows);
  }

  // The bias's gradient: each column summed in the order of the rows.
  void sum_rows(int64_t rows) {
    T* const out = c_.out(3).as<T>();
    const int64_t columns = s_.gate_columns();
    c_.run.parallel_for(columns, std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, rows), 64, 1 << 16),
                        [&](int64_t begin, int64_t end) {
                          std::fill(out + begin, out + end, T(0));
                          for (int64_t row = 0; row < rows; ++row) {
                            const T* const from = d_sums_ + row * columns;
                            for (int64_t j = begin; j < end; ++j) out[j] += from[j];
                          }
                        });
  }

  KernelContext& c_;
  RnnSizes s_;
  const RnnRows<T>& rows_;
  CellBounds<T> bounds_;
  const int64_t* length_;
  bool has_saved_;
  int64_t units_;
  RepeatedGemm<T> to_result_;
  std::optional<RepeatedGemm<T>> to_hidden_;
  T *heads_ = nullptr, *hidden_ = nullptr;     // with a projection, of all steps: gradients of results, units before it
  T *d_gates_, *d_sums_, *before_, *d_state_;  // gradients of gates and of sums, h before each step, its gradient now
  T* d_cell_ = nullptr;
};

}  // namespace

constinit const OpDef op::BackwardRnnScan::def = make_op_def<op::BackwardRnnScan>();

double op::BackwardRnnScan::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const double rows = double(inputs[4].shape[0] * inputs[4].shape[1]);
  return 4 * rows * double(inputs[2].shape.size() + (projected ? inputs[6].shape.size() : 0));
}

void op::BackwardRnnScan::infer(InferContext& c) const {
  expect_scan(c, *this);
  c.expect_ndim(2, 2);
  c.expect_ndim(4, 3);
  const int64_t gates = gates_of(mode), columns = c.shape(2)[0], result = c.shape(2)[1];
  const int64_t steps = c.shape(4)[0], batch = c.shape(4)[1];
  if (columns % gates != 0 || (!projected && columns != result * gates)) {
    c.fail(fmt::format("weight must have {} rows per unit: {}", gates, c.describe_inputs()));
  }
  const int64_t hidden = columns / gates;
  const Shape state(batch, mode == RnnMode::lstm ? result + hidden : result);
  c.expect_shape(0, {steps, batch, result});
  c.expect_shape(1, state);
  c.expect_shape(3, state);
  c.expect_shape(4, {steps, batch, result});
  if (saved_blocks(mode) > 0) c.expect_shape(5, {steps, batch, saved_blocks(mode) * hidden});
  if (projected) c.expect_shape(6, {result, hidden});
  expect_scan_dtypes(c, num_inputs() - 1, use_sequence_length, batch);
  c.set_output(0, {steps, batch, columns}, c.dtype());
  c.set_output(1, c.shape(2), c.dtype());
  c.set_output(2, state, c.dtype());
  if (projected) c.set_output(3, {result, hidden}, c.dtype());
  if (mode == RnnMode::gru) c.set_output(3, Shape(columns), c.dtype());
}

void run_cpu(const op::BackwardRnnScan& op, KernelContext& context) {
  const op::BackwardRnnScan rounded = with_rounded_bounds(op, context.out().dtype);
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    KernelContext stateless = c;  // several products share the call
    stateless.state = nullptr;
    ScanBackward<T>(rounded, stateless).run();
  });
}

}  // namespace kaon
