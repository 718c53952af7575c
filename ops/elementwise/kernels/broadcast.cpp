#include "kaon/ops/elementwise/kernels/broadcast.h"

#include <algorithm>
#include <numeric>

#include "kaon/ops/elementwise/kernels/gather_broadcast.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/runs.h"

namespace kaon::ops {
namespace {

// Rows shorter than this are gathered into tiles: a call per row would cost more than its elements.
constexpr int64_t short_row = 64;

// The output's dimensions in memory order, merged where both inputs step evenly through them.
struct Plan {
  int ndim = 0;
  int64_t size[Shape::max_ndim];
  int64_t stride[2][Shape::max_ndim];  // in elements; 0: repeated
};

bool is_last(const TensorView& v) { return v.layout == Layout::channels_last && v.shape.ndim() == 4; }

// Element steps of the dimensions of v, matched from the right to `ndim` dimensions; 0 for repeated ones.
void logical_strides(const TensorView& v, int ndim, int64_t* stride) {
  static constexpr int row_major[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr int channels_last[] = {0, 2, 3, 1};
  const int* order = is_last(v) ? channels_last : row_major;
  const int skipped = ndim - v.shape.ndim();
  std::fill_n(stride, ndim, 0);
  int64_t step = 1;
  for (int i = v.shape.ndim(); i-- > 0;) {
    const int axis = order[i];
    if (v.shape[axis] != 1) stride[skipped + axis] = step;
    step *= v.shape[axis];
  }
}

Plan make_plan(const TensorView& a, const TensorView& b, const TensorView& out) {
  const int n = out.shape.ndim();
  int64_t strides[2][Shape::max_ndim];
  logical_strides(a, n, strides[0]);
  logical_strides(b, n, strides[1]);
  Plan p;
  for (int i = 0; i < n; ++i) {
    const int axis = !is_last(out) ? i : i == 0 ? 0 : i == 3 ? 1 : i + 1;
    const int64_t size = out.shape[axis];
    if (size == 1) continue;
    const int last = p.ndim - 1;
    if (p.ndim > 0 && p.stride[0][last] == strides[0][axis] * size && p.stride[1][last] == strides[1][axis] * size) {
      p.size[last] *= size;
      p.stride[0][last] = strides[0][axis];
      p.stride[1][last] = strides[1][axis];
    } else {
      p.size[p.ndim] = size;
      p.stride[0][p.ndim] = strides[0][axis];
      p.stride[1][p.ndim] = strides[1][axis];
      ++p.ndim;
    }
  }
  if (p.ndim == 0) {
    p.ndim = 1;
    p.size[0] = 1;
    p.stride[0][0] = p.stride[1][0] = 1;
  }
  return p;
}

// Goes through the rows of the output (all dimensions but the last), with the offset of each in both inputs.
class Rows {
 public:
  Rows(const Plan& p, int64_t row) : p_(p) {
    for (int i = p.ndim - 1; i-- > 0;) {
      at_[i] = row % p.size[i];
      row /= p.size[i];
      for (int k = 0; k < 2; ++k) offset[k] += at_[i] * p.stride[k][i];
    }
  }
  void next() {
    for (int i = p_.ndim - 1; i-- > 0;) {
      offset[0] += p_.stride[0][i], offset[1] += p_.stride[1][i];
      if (++at_[i] < p_.size[i]) return;
      offset[0] -= at_[i] * p_.stride[0][i], offset[1] -= at_[i] * p_.stride[1][i];
      at_[i] = 0;
    }
  }
  int64_t offset[2] = {0, 0};

 private:
  const Plan& p_;
  int64_t at_[Shape::max_ndim] = {};
};

struct Call {
  const PointwiseKernels& kernels;
  const void* attrs;
  Plan plan;
  DType dtype;
  const char* in[2];
  char* out;
  bool stream;
  NumberTiles with_number;
};

// Long rows: each is one call, or tiles when an input has to be spread into a buffer first.
template <class T>
void run_long_rows(const Call& c, int64_t begin, int64_t end) {
  const Plan& p = c.plan;
  const int64_t length = p.size[p.ndim - 1];
  const int64_t step[] = {p.stride[0][p.ndim - 1], p.stride[1][p.ndim - 1]};
  // one number and a dense row
  const bool has_number = c.dtype == DType::float32 && c.with_number.first && step[0] + step[1] == 1;
  const PointwiseKernels number_kernels{.float32 = step[0] == 0 ? c.with_number.first : c.with_number.second};
  const bool direct = step[0] == 1 && step[1] == 1;
  alignas(64) T buffers[2][pointwise_tile];
  int64_t first = begin % length;
  for (Rows rows(p, begin / length); begin < end; rows.next(), first = 0) {
    const int64_t n = std::min(length - first, end - begin);
    const T* from[2];
    for (int k = 0; k < 2; ++k) {
      from[k] = reinterpret_cast<const T*>(c.in[k]) + rows.offset[k] + first * step[k];
    }
    char* const out = c.out + size_t(begin) * sizeof(T);
    const auto run = [&](const PointwiseKernels& kernels, const void* attrs, const void* const* in, int inputs,
                         int64_t i, int64_t m) {
      run_piece(kernels, attrs, c.dtype, in, inputs, out + size_t(i) * sizeof(T), size_t(m),
                c.stream && m >= int64_t(pointwise_tile));
    };
    begin += n;
    const void* in[] = {from[0], from[1]};
    if (has_number) {
      const int number = int(step[0]);  // 0 and 1, or 1 and 0
      run(number_kernels, in[number], &in[1 - number], 1, 0, n);
      continue;
    }
    if (direct) {
      run(c.kernels, c.attrs, in, 2, 0, n);
      continue;
    }
    for (int k = 0; k < 2; ++k) {
      if (step[k] != 0) continue;
      fill_run(buffers[k], uint64_t(*from[k]), size_t(std::min(n, int64_t(pointwise_tile))), sizeof(T));
    }
    for (int64_t i = 0; i < n; i += int64_t(pointwise_tile)) {
      const int64_t m = std::min(int64_t(pointwise_tile), n - i);
      for (int k = 0; k < 2; ++k) {
        in[k] = step[k] == 1 ? from[k] + i : buffers[k];
        if (step[k] > 1) {
          for (int64_t j = 0; j < m; ++j) buffers[k][j] = from[k][(i + j) * step[k]];
        }
      }
      run(c.kernels, c.attrs, in, 2, i, m);
    }
  }
  if (c.stream) stream_flush();
}

// Short rows: tiles of whole rows, inputs gathered unless they are dense; a row that repeats is gathered once.
template <class T>
void run_short_rows(const Call& c, int64_t tile, int64_t begin, int64_t end) {
  const Plan& p = c.plan;
  alignas(64) T buffers[2][pointwise_tile];
  bool dense[2], periodic[2], filled[2] = {false, false};
  for (int k = 0; k < 2; ++k) {
    int64_t step = 1;
    dense[k] = true;
    for (int i = p.ndim; i-- > 0;) {
      dense[k] = dense[k] && p.stride[k][i] == step;
      step *= p.size[i];
    }
    periodic[k] = p.ndim == 2 && p.stride[k][0] == 0;
  }
  for (int64_t i = begin; i < end; i += tile) {
    const int64_t m = std::min(tile, end - i);
    const void* in[2];
    for (int k = 0; k < 2; ++k) {
      const T* from = reinterpret_cast<const T*>(c.in[k]);
      in[k] = dense[k] ? from + i : buffers[k];
      if (dense[k] || (periodic[k] && filled[k])) continue;
      gather_broadcast(p.ndim, p.size, p.stride[k], from, i, buffers[k], m);
      filled[k] = true;
    }
    run_piece(c.kernels, c.attrs, c.dtype, in, 2, c.out + size_t(i) * sizeof(T), size_t(m), c.stream);
  }
  if (c.stream) stream_flush();
}

// Whether each row has a number in one input and dense elements in the other, and a call per row would cost much.
bool has_number_rows(const Call& c) {
  const Plan& p = c.plan;
  const int last = p.ndim - 1;
  return c.dtype == DType::float32 && c.with_number.first_rows && last > 0 && p.size[last] >= least_number_row &&
         p.size[last] < int64_t(pointwise_tile) && p.stride[0][last] + p.stride[1][last] == 1;
}

// Rows `begin` to `end` with a number each, together as far as they lie evenly in both inputs.
void run_number_rows(const Call& c, int64_t begin, int64_t end) {
  const Plan& p = c.plan;
  const int last = p.ndim - 1, number = int(p.stride[0][last]), dense = 1 - number;
  const NumberRowsFn run = number == 0 ? c.with_number.first_rows : c.with_number.second_rows;
  const int64_t length = p.size[last], group = p.size[last - 1];
  const int64_t number_step = p.stride[number][last - 1], row_step = p.stride[dense][last - 1];
  alignas(64) float tile[pointwise_tile];
  const int64_t most = c.stream ? int64_t(pointwise_tile) / length : group;
  Plan groups = p;
  --groups.ndim;
  int64_t first = begin % group;
  for (Rows at(groups, begin / group); begin < end; at.next(), first = 0) {
    const float* from[2];
    for (int k = 0; k < 2; ++k) {
      from[k] = reinterpret_cast<const float*>(c.in[k]) + at.offset[k] + first * p.stride[k][last - 1];
    }
    for (int64_t rest = std::min(group - first, end - begin); rest > 0;) {
      const int64_t rows = std::min(rest, most);
      float* const out = reinterpret_cast<float*>(c.out) + begin * length;
      run({from[number], number_step, from[dense], row_step, rows, length, c.stream ? tile : out});
      if (c.stream) stream_copy(out, tile, size_t(rows * length));
      from[number] += rows * number_step, from[dense] += rows * row_step;
      begin += rows, rest -= rows;
    }
  }
  if (c.stream) stream_flush();
}

}  // namespace

void run_broadcast(const PointwiseKernels& kernels, const void* attrs, KernelContext& c,
                   const NumberTiles& with_number) {
  const TensorView &a = c.in(0), &b = c.in(1), &out = c.out();
  const int64_t n = out.size();
  if (n == 0) return;
  const bool one_order = a.layout == b.layout && a.layout == out.layout;
  if (one_order && a.shape == b.shape) return run_pointwise(kernels, attrs, c);
  Call call{kernels,
            attrs,
            make_plan(a, b, out),
            out.dtype,
            {a.as<const char>(), b.as<const char>()},
            out.as<char>(),
            wants_stream(out.dtype, n, 2) && out.data != a.data && out.data != b.data,
            with_number};
  const Plan& p = call.plan;
  const int64_t length = p.size[p.ndim - 1];
  if (has_number_rows(call)) {
    if (n <= pointwise_grain) return run_number_rows(call, 0, n / length);
    return c.run.parallel_for(n / length, pointwise_grain / length,
                              [&](int64_t begin, int64_t end) { run_number_rows(call, begin, end); });
  }
  dispatch_width(out.dtype, [&]<class T>() {
    if (length >= short_row || p.ndim == 1) {
      if (n <= pointwise_grain) return run_long_rows<T>(call, 0, n);
      c.run.parallel_for(n, pointwise_grain, [&](int64_t begin, int64_t end) { run_long_rows<T>(call, begin, end); });
    } else {
      const int64_t unit = std::lcm(length, int64_t(16));  // whole rows and whole cache lines of float32
      const int64_t tile = int64_t(pointwise_tile) / unit * unit;
      const int64_t grain = tile * (pointwise_grain / int64_t(pointwise_tile));
      if (n <= grain) return run_short_rows<T>(call, tile, 0, n);
      c.run.parallel_for(n, grain, [&](int64_t begin, int64_t end) { run_short_rows<T>(call, tile, begin, end); });
    }
  });
}

}  // namespace kaon::ops
