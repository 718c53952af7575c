// The sizes of a recurrence and the order of its steps, for both devices.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/nn/rnn/rnn.h"

namespace kaon::ops {

struct RnnSizes {
  RnnMode mode;
  bool reverse, projected;
  int64_t steps, batch, hidden, result;  // result: of a step, the projection's or hidden

  // From op::RnnScan or op::BackwardRnnScan, and the shapes of its recurrent weight and of an array of all steps.
  template <class Op>
  RnnSizes(const Op& op, const Shape& weight, const Shape& all_steps)
      : mode(op.mode),
        reverse(op.reverse),
        projected(op.projected),
        steps(all_steps[0]),
        batch(all_steps[1]),
        hidden(weight[0] / gates_of(op.mode)),
        result(weight[1]) {}

  KAON_HOST_DEVICE int64_t gates() const { return mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1; }
  KAON_HOST_DEVICE int64_t gate_columns() const { return gates() * hidden; }
  KAON_HOST_DEVICE int64_t saved_columns() const { return saved_blocks(mode) * hidden; }
  KAON_HOST_DEVICE int64_t state_columns() const { return mode == RnnMode::lstm ? result + hidden : result; }
  // The index of the step that runs as number i, and of the one that has run before step t; steps or -1 for none.
  KAON_HOST_DEVICE int64_t step(int64_t i) const { return reverse ? steps - 1 - i : i; }
  KAON_HOST_DEVICE int64_t before(int64_t t) const { return reverse ? t + 1 : t - 1; }
  // Whether step t is the first of a sequence of `length` steps.
  KAON_HOST_DEVICE bool is_first(int64_t t, int64_t length) const { return t == (reverse ? length - 1 : 0); }
};

// The shape of the i-th array of a layer's flat parameters.
inline Shape parameter_shape(const op::RnnParameters& op, int i) {
  const int64_t rows = gates_of(op.mode) * op.state_size;
  const int per_cell = op.weights_of_cell();
  if (i >= op.cells() * per_cell) return Shape(rows);
  const int64_t input = i / per_cell < op.directions() ? op.input_size : op.result_size() * op.directions();
  switch (i % per_cell) {
    case 0: return {rows, input};
    case 1: return {rows, op.result_size()};
    default: return {op.projection_size, op.state_size};
  }
}

// A given length as one in [0, most]. NaN counts as 0.
template <class T>
KAON_HOST_DEVICE int64_t cut_length(T length, int64_t most) {
  const int64_t n = to_index(length);
  return n < 0 ? 0 : n > most ? most : n;
}

// The lengths of `count` sequences, in workspace: `most` for each where none are given.
inline const int64_t* load_lengths(KernelContext& c, const TensorView* given, int64_t count, int64_t most) {
  auto* const lengths = static_cast<int64_t*>(c.run.workspace(size_t(count + 1) * sizeof(int64_t)));
  for (int64_t i = 0; i < count; ++i) lengths[i] = most;
  if (!given) return lengths;
  dispatch_all("sequence lengths", given->dtype, [&]<class T>() {
    for (int64_t i = 0; i < count; ++i) lengths[i] = cut_length(given->as<T>()[i], most);
  });
  return lengths;
}

}  // namespace kaon::ops
