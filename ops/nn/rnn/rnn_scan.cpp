#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/kernels/gemv.h"
#include "kaon/ops/linalg/kernels/repeated_gemm.h"
#include "kaon/ops/nn/rnn/kernels/rnn_call.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// One call on the CPU. The units of the state are cut into pieces: a piece makes the recurrent sums of all gates of its
// units, and their new state while these are in the cache. A projection, which needs all units, is a step of its own.
template <class T>
class Scan {
 public:
  Scan(const op::RnnScan& op, KernelContext& c)
      : c_(c),
        s_(op, c.in(1).shape, c.in(0).shape),
        rows_(rnn_rows<T>()),
        bounds_(cell_bounds<T>(op)),
        length_(op.use_sequence_length ? load_lengths(c, &c.inputs.back(), s_.batch, s_.steps) : nullptr),
        units_(units_of_piece<T>(s_)),
        sums_(c, s_.batch, s_.gate_columns(), s_.result, by_piece(), true, units_ * s_.gates()) {
    if (s_.projected) {
      hidden_ = take(s_.batch * s_.hidden);
      projection_.emplace(c, s_.batch, s_.result, s_.hidden, c.in(3).as<T>(), true, units_);
    }
    if (length_) states_[0] = take(s_.batch * s_.result), states_[1] = take(s_.batch * s_.result);
    y_ = c.out(0).data ? c.out(0).as<T>() : take(s_.steps * s_.batch * s_.result);
    first_ = take(s_.batch * s_.result);
    cell_ = s_.mode == RnnMode::lstm ? take(s_.batch * s_.hidden) : nullptr;
    const T* const state = c.in(2).as<T>();
    for (int64_t n = 0; n < s_.batch; ++n) {
      const T* const row = state + n * s_.state_columns();
      std::copy_n(row, s_.result, first_ + n * s_.result);
      if (cell_) std::copy_n(row + s_.result, s_.hidden, cell_ + n * s_.hidden);
    }
  }

  void run() {
    const int64_t parts = projection_ ? 2 : 1;
    in_steps(c_.run, s_.steps * parts, pieces_of_step(sums_, projection_), [&](int64_t number, int64_t piece) {
      const int64_t i = number / parts, t = s_.step(i);
      if (number % parts == 0) {
        if (piece < sums_.pieces()) cells(t, piece, state_before(i), state_before(i + 1));
      } else if (piece < projection_->pieces()) {
        project(t, piece, state_before(i), state_before(i + 1));
      }
    });
    const T* const before = state_before(s_.steps);
    T* const last = c_.out(1).as<T>();
    for (int64_t n = 0; last && n < s_.batch; ++n) {
      T* const row = last + n * s_.state_columns();
      std::copy_n(before + n * s_.result, s_.result, row);
      if (cell_) std::copy_n(cell_ + n * s_.hidden, s_.hidden, row + s_.result);
    }
  }

 private:
  T* take(int64_t n) { return static_cast<T*>(c_.run.workspace(size_t(std::max<int64_t>(1, n)) * sizeof(T))); }

  // The state before the step that runs as number i; that before number i + 1 is what step i makes.
  T* state_before(int64_t i) const {
    if (i == 0) return first_;
    return length_ ? states_[(i - 1) % 2] : y_ + s_.step(i - 1) * s_.batch * s_.result;
  }

  // A row takes a product for each gate, whose weights are neighbours as they are.
  bool is_row() const { return std::is_same_v<T, float> && s_.batch == 1; }

  // The recurrent weight with its rows in the order of pieces, and within each in that of the gates.
  const T* by_piece() {
    const T* const weight = c_.in(1).as<T>();
    if (units_ >= s_.hidden || s_.gates() == 1 || is_row()) return weight;
    T* const moved = take(s_.gate_columns() * s_.result);
    c_.run.parallel_for(pieces_of(s_.hidden, units_), 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece * units_, count = std::min(units_, s_.hidden - first);
        T* to = moved + first * s_.gates() * s_.result;
        for (int64_t gate = 0; gate < s_.gates(); ++gate) {
          to = std::copy_n(weight + (gate * s_.hidden + first) * s_.result, count * s_.result, to);
        }
      }
    });
    return moved;
  }

  bool is_over(int64_t t, int64_t n) const { return length_ && t >= length_[n]; }

  // The results of step t for sequence n, units [first, first + count), are in `after`.
  void finish(int64_t t, int64_t n, int64_t first, int64_t count, const T* before, T* after) const {
    if (!length_) return;
    const int64_t at = n * s_.result + first;
    T* const y = y_ + t * s_.batch * s_.result + at;
    if (is_over(t, n)) {
      std::copy_n(before + at, count, after + at);
      std::fill_n(y, count, T(0));
    } else {
      std::copy_n(after + at, count, y);
    }
  }

  void recurrent_sums(int64_t piece, const T* before, T* sums) const {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t count = sums_.columns_of(piece) / s_.gates(), first = piece * units_;
      for (int64_t gate = 0; is_row() && gate < s_.gates(); ++gate) {
        const float* const weight = c_.in(1).as<float>() + (gate * s_.hidden + first) * s_.result;
        gemv(c_.run, weight, before, sums + gate * count, count, s_.result);
      }
      if (is_row()) return;
    }
    sums_.run(piece, before, sums);
  }

  void cells(int64_t t, int64_t piece, const T* before, T* after) {
    const int64_t columns = sums_.columns_of(piece), count = columns / s_.gates(), first = piece * units_;
    const Scratch scratch(size_t(s_.batch * columns) * sizeof(T));
    for (int64_t n = 0; n < std::min(s_.batch, rows_ahead); ++n) fetch(t, n, first, count, after);
    recurrent_sums(piece, before, scratch.as<T>());
    for (int64_t n = 0; n < s_.batch; ++n) {
      if (n + rows_ahead < s_.batch) fetch(t, n + rows_ahead, first, count, after);
      const int64_t row = t * s_.batch + n, own = n * s_.hidden + first;
      const T* const x = c_.in(0).as<T>() + row * s_.gate_columns() + first;
      const T* const sums = scratch.as<T>() + n * columns;
      T* const h = s_.projected ? hidden_ + own : after + own;
      T* const saved = saved_at(row, first);
      if (is_over(t, n)) {
        keep(own, count, saved);
      } else if (s_.mode == RnnMode::lstm) {
        rows_.lstm(count, x, s_.hidden, sums, count, bounds_, cell_ + own, h, saved, s_.hidden);
      } else if (s_.mode == RnnMode::gru) {
        rows_.gru(count, x, s_.hidden, sums, count, c_.in(3).as<T>() + first, s_.hidden, before + own, h, saved,
                  s_.hidden);
      } else {
        rows_.plain(count, s_.mode == RnnMode::rnn_relu, x, sums, h);
      }
      if (!s_.projected) finish(t, n, first, count, before, after);
    }
  }

  // What a row reads and writes beside the product is in memory, or in another core's cache, until now: it comes while
  // the product or an earlier row runs.
  void fetch(int64_t t, int64_t n, int64_t first, int64_t count, const T* after) const {
    const int64_t row = t * s_.batch + n;
    fetch_to_read(c_.in(0).as<T>() + row * s_.gate_columns() + first, count, s_.gates(), s_.hidden);
    fetch_to_write(saved_at(row, first), count, saved_blocks(s_.mode), s_.hidden);
    if (!s_.projected) fetch_to_write(after + n * s_.hidden + first, count);
  }

  T* saved_at(int64_t row, int64_t first) const {
    if (saved_blocks(s_.mode) == 0 || !c_.out(2).data) return nullptr;
    return c_.out(2).as<T>() + row * s_.saved_columns() + first;
  }

  // A step that the sequence does not have: what its gradient reads is c, which stays, and else anything finite.
  void keep(int64_t own, int64_t count, T* saved) const {
    if (s_.projected) std::fill_n(hidden_ + own, count, T(0));
    if (!saved) return;
    for (int64_t block = 0; block < saved_blocks(s_.mode); ++block) std::fill_n(saved + block * s_.hidden, count, T(0));
    if (cell_) std::copy_n(cell_ + own, count, saved + 4 * s_.hidden);
  }

  void project(int64_t t, int64_t piece, const T* before, T* after) {
    const int64_t count = projection_->columns_of(piece), first = piece * projection_->width();
    const Scratch scratch(size_t(s_.batch * count) * sizeof(T));
    projection_->run(piece, hidden_, scratch.as<T>());
    for (int64_t n = 0; n < s_.batch; ++n) {
      std::copy_n(scratch.as<T>() + n * count, count, after + n * s_.result + first);
      finish(t, n, first, count, before, after);
    }
  }

  KernelContext& c_;
  RnnSizes s_;
  const RnnRows<T>& rows_;
  CellBounds<T> bounds_;
  const int64_t* length_;  // null: all have every step
  int64_t units_;          // of a piece
  RepeatedGemm<T> sums_;
  std::optional<RepeatedGemm<T>> projection_;
  T *y_ = nullptr, *hidden_ = nullptr, *cell_ = nullptr, *first_ = nullptr, *states_[2] = {};
};

}  // namespace

constinit const OpDef op::RnnScan::def = make_op_def<op::RnnScan>();

double op::RnnScan::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  const double rows = double(outputs[0].shape[0] * outputs[0].shape[1]);
  return 2 * rows * double(inputs[1].shape.size() + (projected ? inputs[3].shape.size() : 0));
}

void op::RnnScan::infer(InferContext& c) const {
  expect_scan(c, *this);
  c.expect_ndim(0, 3);
  c.expect_ndim(1, 2);
  const int64_t gates = gates_of(mode), columns = c.shape(1)[0], result = c.shape(1)[1];
  const Shape data = c.shape(0);
  if (columns % gates != 0) c.fail(fmt::format("weight must have {} rows per unit: {}", gates, c.describe_inputs()));
  const int64_t hidden = columns / gates, state = mode == RnnMode::lstm ? result + hidden : result;
  if (!projected && result != hidden) {
    c.fail(fmt::format("weight must have {} columns: {}", hidden, c.describe_inputs()));
  }
  c.expect_shape(0, {data[0], data[1], columns});
  c.expect_shape(2, {data[1], state});
  if (mode == RnnMode::gru) c.expect_shape(3, Shape(columns));
  if (projected) c.expect_shape(3, {result, hidden});
  expect_scan_dtypes(c, num_inputs() - 1, use_sequence_length, data[1]);
  c.set_output(0, {data[0], data[1], result}, c.dtype());
  c.set_output(1, {data[1], state}, c.dtype());
  if (num_outputs() == 3) c.set_output(2, {data[0], data[1], saved_blocks(mode) * hidden}, c.dtype());
}

void op::RnnScan::grad(GradContext& g) const {
  bool wanted = false;
  for (int i = 0; i < 3 + int(has_extra()); ++i) wanted = wanted || g.wants(i);
  if (!wanted) return;
  if (num_outputs() == 3 && g.has_head(2)) throw StateError("[_rnn_scan] has no second derivative");
  std::vector<NDArray> arrays{g.head(0), g.head(1), g.input(1), g.input(2), g.output(0)};
  if (num_outputs() == 3) arrays.push_back(g.output(2));
  if (projected) arrays.push_back(g.input(3));
  if (use_sequence_length) arrays.push_back(g.input(num_inputs() - 1));
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const std::vector<NDArray> d = nd._backward_rnn_scan(pointers, {.mode = mode,
                                                                  .reverse = reverse,
                                                                  .projected = projected,
                                                                  .use_sequence_length = use_sequence_length,
                                                                  .clip_min = clip_min,
                                                                  .clip_max = clip_max});
  for (size_t i = 0; i < d.size(); ++i) {
    if (g.wants(int(i))) g.set(int(i), d[i]);
  }
}

void run_cpu(const op::RnnScan& op, KernelContext& context) {
  const op::RnnScan rounded = with_rounded_bounds(op, context.out().dtype);
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    KernelContext stateless = c;  // several products share the call
    stateless.state = nullptr;
    if (c.in(2).size() > 0) Scan<T>(rounded, stateless).run();
  });
}

}  // namespace kaon
