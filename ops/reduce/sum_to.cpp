#include "kaon/ops/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/tile.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t column_block = 2048;     // kept columns per unit: their sums stay in L1
constexpr int64_t piece_elements = 65536;  // read by one piece, at least
constexpr int64_t max_splits = 32;

// A group of neighbouring axes of the input that are all kept or all summed.
struct Group {
  int64_t size, in_stride, out_stride;
};

// The input as an inner run of `length` elements, repeated over kept and summed outer groups.
struct Plan {
  int64_t length = 1;
  bool inner_kept = true;
  int kept_groups = 0, summed_groups = 0;
  Group kept[Shape::max_ndim], summed[Shape::max_ndim];
  int64_t kept_rows = 1, summed_rows = 1;  // products of the outer groups
};

int64_t offset_of(const Group* groups, int n, int64_t index, int64_t Group::*stride) {
  int64_t offset = 0;
  for (int i = n; i-- > 0;) {
    offset += index % groups[i].size * (groups[i].*stride);
    index /= groups[i].size;
  }
  return offset;
}

Plan make_plan(const Shape& in, const Shape& out) {
  int64_t size[Shape::max_ndim];
  bool kept[Shape::max_ndim];
  int n = 0;
  const int skipped = in.ndim() - out.ndim();
  for (int i = 0; i < in.ndim(); ++i) {
    if (in[i] == 1) continue;
    const bool keep = i >= skipped && out[i - skipped] == in[i];
    if (n > 0 && kept[n - 1] == keep) {
      size[n - 1] *= in[i];
    } else {
      size[n] = in[i];
      kept[n++] = keep;
    }
  }
  Plan p;
  if (n == 0) return p;
  p.length = size[n - 1];
  p.inner_kept = kept[n - 1];
  int64_t in_stride = p.length, out_stride = p.inner_kept ? p.length : 1;
  for (int i = n - 1; i-- > 0;) {
    const Group g{size[i], in_stride, out_stride};
    in_stride *= size[i];
    if (kept[i]) {
      p.kept[p.kept_groups++] = g;
      p.kept_rows *= size[i];
      out_stride *= size[i];
    } else {
      p.summed[p.summed_groups++] = g;
      p.summed_rows *= size[i];
    }
  }
  std::reverse(p.kept, p.kept + p.kept_groups);
  std::reverse(p.summed, p.summed + p.summed_groups);
  return p;
}

// Calls f(values, first, count) on parts of [from, from + n), 16-bit floats widened.
template <class T, class F>
void widened(const T* from, int64_t n, const F& f) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    float buffer[512];
    for (int64_t i = 0; i < n; i += 512) {
      const int64_t m = std::min<int64_t>(512, n - i);
      half_to_float32(dtype_of<T>)(from + i, buffer, size_t(m));
      f(static_cast<const float*>(buffer), i, m);
    }
  } else {
    f(from, int64_t(0), n);
  }
}

template <class T, class Acc>
Acc sum_run(const T* from, int64_t n) {
  Acc total = 0;
  widened(from, n, [&](auto* v, int64_t, int64_t m) {
    if constexpr (std::is_same_v<decltype(v), const float*>) {
      if (m >= 32) {
        total += sum_floats(v, size_t(m));
        return;
      }
    }
    Acc lane[4] = {};  // independent sums: the additions overlap
    int64_t j = 0;
    for (; j + 4 <= m; j += 4) {
      for (int k = 0; k < 4; ++k) lane[k] += Acc(v[j + k]);
    }
    for (; j < m; ++j) lane[0] += Acc(v[j]);
    total += (lane[0] + lane[1]) + (lane[2] + lane[3]);
  });
  return total;
}

// Columns [first, last) of kept row `row`, summed over rows [begin, end) of the summed groups.
template <class T, class Acc>
void sum_columns(const Plan& p, const T* in, int64_t row, int64_t begin, int64_t end, int64_t first, int64_t last,
                 Acc* acc) {
  std::fill_n(acc, last - first, Acc(0));
  const T* base = in + offset_of(p.kept, p.kept_groups, row, &Group::in_stride) + first;
  for (int64_t r = begin; r < end; ++r) {
    widened(base + offset_of(p.summed, p.summed_groups, r, &Group::in_stride), last - first,
            [&](auto* v, int64_t at, int64_t m) {
              if constexpr (std::is_same_v<decltype(v), const float*>) {
                if (m >= 32) return add_floats(v, acc + at, size_t(m));
              }
              for (int64_t j = 0; j < m; ++j) acc[at + j] += Acc(v[j]);
            });
  }
}

// Kept row `row`, summed over positions [begin, end) of all its (summed row, element) pairs.
template <class T, class Acc>
Acc sum_elements(const Plan& p, const T* in, int64_t row, int64_t begin, int64_t end) {
  const T* base = in + offset_of(p.kept, p.kept_groups, row, &Group::in_stride);
  Acc total = 0;
  while (begin < end) {
    const int64_t r = begin / p.length, first = begin - r * p.length, n = std::min(p.length - first, end - begin);
    total += sum_run<T, Acc>(base + offset_of(p.summed, p.summed_groups, r, &Group::in_stride) + first, n);
    begin += n;
  }
  return total;
}

template <class T, class Acc>
T narrowed(Acc v) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return T(float(v));
  } else {
    return T(v);
  }
}

template <class T>
void sum_to(const Plan& p, const T* in, T* out, RunContext& run) {
  using Acc = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  const int64_t width = p.inner_kept ? p.length : 1;
  const int64_t blocks = (width + column_block - 1) / column_block;
  const int64_t units = p.kept_rows * blocks;
  const int64_t positions = p.inner_kept ? p.summed_rows : p.summed_rows * p.length;  // summed per output
  const int64_t unit_cost = std::max<int64_t>(1, positions * std::min(width, column_block));
  const int64_t total = units * unit_cost;
  if (units >= 16 || total <= 2 * piece_elements) {  // each output in one piece
    run.parallel_for(units, std::max<int64_t>(1, piece_elements / unit_cost), [&](int64_t begin, int64_t end) {
      Acc acc[column_block];
      for (int64_t u = begin; u < end; ++u) {
        const int64_t row = u / blocks, first = u % blocks * column_block, last = std::min(width, first + column_block);
        T* to = out + row * width + first;
        if (p.inner_kept) {
          sum_columns(p, in, row, 0, positions, first, last, acc);
        } else {
          acc[0] = sum_elements<T, Acc>(p, in, row, 0, positions);
        }
        for (int64_t j = 0; j < last - first; ++j) to[j] = narrowed<T>(acc[j]);
      }
    });
    return;
  }
  // Few outputs: parts of the sums, then their sum in order.
  const int64_t splits = std::min({max_splits, (total + piece_elements - 1) / piece_elements, positions});
  const int64_t per_split = (positions + splits - 1) / splits, outputs = p.kept_rows * width;
  Acc* partial = static_cast<Acc*>(run.workspace(size_t(splits * outputs) * sizeof(Acc)));
  run.parallel_for(splits, 1, [&](int64_t s_begin, int64_t s_end) {
    for (int64_t s = s_begin; s < s_end; ++s) {
      const int64_t begin = std::min(positions, s * per_split), end = std::min(positions, begin + per_split);
      for (int64_t u = 0; u < units; ++u) {
        const int64_t row = u / blocks, first = u % blocks * column_block, last = std::min(width, first + column_block);
        Acc* acc = partial + s * outputs + row * width + first;
        if (p.inner_kept) {
          sum_columns(p, in, row, begin, end, first, last, acc);
        } else {
          *acc = sum_elements<T, Acc>(p, in, row, begin, end);
        }
      }
    }
  });
  for (int64_t i = 0; i < outputs; ++i) {
    Acc sum = 0;
    for (int64_t s = 0; s < splits; ++s) sum += partial[s * outputs + i];
    out[i] = narrowed<T>(sum);
  }
}

}  // namespace

constinit const OpDef op::SumTo::def = make_op_def<op::SumTo>();

void op::SumTo::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  if (shape.ndim() > in.ndim()) {
    c.fail(fmt::format("shape {} has more dimensions than the input {}", shape.str(), in.str()));
  }
  Shape out = shape;
  const int skipped = in.ndim() - shape.ndim();
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == -1) out[i] = in[i + skipped];
    if (out[i] != 1 && out[i] != in[i + skipped]) {
      c.fail(fmt::format("shape {} does not broadcast to the input {}", shape.str(), in.str()));
    }
  }
  c.set_output(out, c.dtype());
}

void op::SumTo::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.zeros_like(g.input_like(0)) + g.head());
}

void run_cpu(const op::SumTo&, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_signed("_sum_to", c.in(0).dtype, [&]<class T>() {
    if (c.in(0).size() == 0) {
      std::fill_n(c.out().as<T>(), c.out().size(), T(0));
    } else {
      sum_to(make_plan(c.in(0).shape, c.out().shape), c.in(0).as<T>(), c.out().as<T>(), c.run);
    }
  });
}

}  // namespace kaon
