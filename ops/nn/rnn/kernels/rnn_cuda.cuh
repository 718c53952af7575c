// What the recurrence and its gradient share on CUDA.
#pragma once

#include <algorithm>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/rnn/kernels/rnn_bounds.h"
#include "kaon/ops/nn/rnn/kernels/rnn_cell.h"
#include "kaon/ops/nn/rnn/kernels/rnn_sizes.h"

namespace kaon {
namespace cuda {

// n numbers of workspace.
template <class T>
T* take(KernelContext& c, int64_t n) {
  return static_cast<T*>(c.run.workspace(size_t(std::max<int64_t>(1, n)) * sizeof(T)));
}

}  // namespace cuda

namespace ops {

template <class T>
struct CutLengths {
  const T* given;  // null: all are `most`
  int64_t most;
  int64_t* lengths;
  __device__ void operator()(int64_t i) const { lengths[i] = given ? cut_length(given[i], most) : most; }
};

// Lengths in workspace, cut to `most`, which all have where none are given.
inline const int64_t* device_lengths(KernelContext& c, const TensorView* given, int64_t count, int64_t most) {
  auto* const lengths = cuda::take<int64_t>(c, count);
  if (!given) {
    cuda::for_each(c, count, CutLengths<float>{nullptr, most, lengths});
    return lengths;
  }
  dispatch_all("sequence lengths", given->dtype, [&]<class L>() {
    cuda::for_each(c, count, CutLengths<L>{given->as<L>(), most, lengths});
  });
  return lengths;
}

// The state (batch, result + hidden) as h and c, or for modes other than lstm as h; and back.
template <class T, bool join>
struct MoveState {
  int64_t columns, result;
  T *state, *h, *cell;
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / columns, j = i % columns;
    T& part = j < result ? h[n * result + j] : cell[n * (columns - result) + j - result];
    if (join) {
      state[i] = part;
    } else {
      part = state[i];
    }
  }
};
template <class T>
void split_state(KernelContext& c, const RnnSizes& s, const T* state, T* h, T* cell) {
  cuda::for_each(c, s.batch * s.state_columns(),
                 MoveState<T, false>{s.state_columns(), s.result, const_cast<T*>(state), h, cell});
}
template <class T>
void join_state(KernelContext& c, const RnnSizes& s, const T* h, T* cell, T* state) {
  cuda::for_each(c, s.batch * s.state_columns(),
                 MoveState<T, true>{s.state_columns(), s.result, state, const_cast<T*>(h), cell});
}

template <class Op>
CellClip clip_of(const Op& op) {
  CellClip clip{.low = op.clip_min.value_or(0), .high = op.clip_max.value_or(0), .is_given = op.clip_min.has_value()};
  if constexpr (requires { op.clip_nan; }) clip.nan_is_low = op.clip_nan;
  return clip;
}

}  // namespace ops
}  // namespace kaon
