#include "kaon/ops/movement/movement.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/math/runs.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/pad_axis.h"
#include "kaon/ops/movement/kernels/slice_range.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Pad::def = make_op_def<op::Pad>();
constinit const OpDef op::PadGrad::def = make_op_def<op::PadGrad>();

namespace {

const int64_t* source_positions(KernelContext& c, const PadAxis& axis) {
  const int64_t padded = axis.padded();
  int64_t* positions = static_cast<int64_t*>(c.run.workspace(size_t(std::max<int64_t>(1, padded)) * sizeof(int64_t)));
  for (int64_t i = 0; i < padded; ++i) positions[i] = axis.source(i);
  return positions;
}

// Takes the pads of one axis at a time from `in` to `out`; intermediate arrays are in workspace. `step` sums an array
// of shape `from` along axis `a`.
template <class Step>
void axis_by_axis(KernelContext& c, const IntTuple& pad_width, Step step) {
  const TensorView &in = c.in(0), &out = c.out();
  const int ndim = in.shape.ndim();
  int last = -1;
  for (int a = 0; a < ndim; ++a) {
    if (pad_width[2 * a] || pad_width[2 * a + 1]) last = a;
  }
  if (last < 0) return copy_bytes(c.run, in.data, out.data, out.bytes());
  Shape shape = in.shape;
  const void* from = in.data;
  for (int a = 0; a <= last; ++a) {
    if (!pad_width[2 * a] && !pad_width[2 * a + 1]) continue;
    Shape next = shape;
    next[a] -= pad_width[2 * a] + pad_width[2 * a + 1];
    void* to = a == last ? out.data : c.run.workspace(size_t(std::max<int64_t>(1, next.size())) * size_of(in.dtype));
    step(a, shape, next, from, to);
    shape = next, from = to;
  }
}

// The result as lines along the last axis that is padded, with all axes behind it in each element.
struct PaddedLines {
  int last = -1;  // that axis; -1: none
  int64_t inner = 1;
  std::array<PadAxis, Shape::max_ndim> axes{};
  std::array<int64_t, Shape::max_ndim> strides{};  // of the data

  PaddedLines(const op::Pad& op, const Shape& in) {
    for (int a = 0; a < in.ndim(); ++a) {
      axes[size_t(a)] = pad_axis(op.pad_width, a, in[a], op.mode);
      strides[size_t(a)] = in.product(a + 1, in.ndim());
      if (op.pad_width[2 * a] != 0 || op.pad_width[2 * a + 1] != 0) last = a;
    }
    inner = in.product(last + 1, in.ndim());
  }
  int64_t length() const { return axes[size_t(last)].padded() * inner; }
  int64_t count() const {
    int64_t n = 1;
    for (int a = 0; a < last; ++a) n *= axes[size_t(a)].padded();
    return n;
  }

  // Lines [begin, end). The bits of `constant` are where no element is copied.
  template <class T>
  void copy(int64_t begin, int64_t end, const T* in, uint64_t constant, T* out) const {
    std::array<int64_t, Shape::max_ndim> at{};
    int64_t rest = begin;
    for (int a = last - 1; a >= 0; --a) {
      at[size_t(a)] = rest % axes[size_t(a)].padded();
      rest /= axes[size_t(a)].padded();
    }
    for (int64_t line = begin; line < end; ++line) {
      int64_t from = 0;
      bool outside = false;
      for (int a = 0; a < last; ++a) {
        const int64_t source = axes[size_t(a)].source(at[size_t(a)]);
        from += source * strides[size_t(a)];
        outside = outside || source < 0;
      }
      T* const to = out + line * length();
      if (outside) {
        fill_run(to, constant, size_t(length()), sizeof(T));
      } else {
        copy_line(in + from, constant, to);
      }
      for (int a = last - 1; a >= 0 && ++at[size_t(a)] == axes[size_t(a)].padded(); --a) at[size_t(a)] = 0;
    }
  }

 private:
  template <class T>
  void copy_line(const T* in, uint64_t constant, T* to) const {
    const PadAxis& axis = axes[size_t(last)];
    const size_t bytes = size_t(inner) * sizeof(T);
    const auto put = [&](int64_t begin, int64_t end) {
      if (axis.mode == PadMode::constant) {
        return fill_run(to + begin * inner, constant, size_t((end - begin) * inner), sizeof(T));
      }
      for (int64_t i = begin; i < end; ++i) copy_run(to + i * inner, in + axis.source(i) * inner, bytes);
    };
    put(0, axis.before);
    copy_run(to + axis.before * inner, in, size_t(axis.n) * bytes);
    put(axis.before + axis.n, axis.padded());
  }
};

}  // namespace

void op::Pad::infer(InferContext& c) const {
  Shape out = c.shape(0);
  if (pad_width.size() != 2 * out.ndim()) {
    c.fail(fmt::format("pad_width must have two entries per axis of {}, got {}", out.str(), to_text(pad_width)));
  }
  for (int i = 0; i < out.ndim(); ++i) {
    const int64_t n = out[i], before = pad_width[2 * i], after = pad_width[2 * i + 1];
    if (before < 0 || after < 0)
      c.fail_value(fmt::format("pad_width must not be negative, got {}", to_text(pad_width)));
    const bool padded = before > 0 || after > 0;
    if (mode == PadMode::edge && padded && n == 0) c.fail(fmt::format("axis {} of {} has no edge", i, out.str()));
    if (mode == PadMode::reflect && padded && std::max(before, after) >= n) {
      c.fail(
          fmt::format("reflecting axis {} of {} takes pads less than {}, got {}", i, out.str(), n, to_text(pad_width)));
    }
    if (__builtin_add_overflow(out[i], before, &out[i]) || __builtin_add_overflow(out[i], after, &out[i])) {
      c.fail_value(fmt::format("pad_width {} is too large", to_text(pad_width)));
    }
  }
  expect_holds(c, "constant_value", constant_value, c.dtype());
  c.set_output(out, c.dtype());
}

void op::Pad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  if (mode != PadMode::constant) {
    g.set(0, nd._backward_pad(g.head(), {.mode = mode, .pad_width = pad_width}));
    return;
  }
  Shape begin, end;
  for (int i = 0; i < g.input_like(0).ndim(); ++i) {
    begin.push_back(pad_width[2 * i]);
    end.push_back(pad_width[2 * i] + g.input_like(0).shape()[i]);
  }
  g.set(0, nd.slice(g.head(), begin, end));
}

void run_cpu(const op::Pad& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (out.size() == 0) return;
  const PaddedLines lines(op, in.shape);
  if (lines.last < 0) return copy_bytes(c.run, in.data, out.data, out.bytes());
  const uint64_t constant = op.mode == PadMode::constant ? element_bits(op.constant_value, in.dtype) : 0;
  dispatch_width(in.dtype, [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / lines.length());
    c.run.parallel_for(lines.count(), grain, [&](int64_t begin, int64_t end) {
      lines.copy(begin, end, in.as<const T>(), constant, out.as<T>());
    });
  });
}

void op::PadGrad::infer(InferContext& c) const {
  if (mode == PadMode::constant) c.fail_value("mode must be edge or reflect");
  c.expect_floating();
  Shape out = c.shape(0);
  if (pad_width.size() != 2 * out.ndim()) c.fail("pad_width must have two entries per axis");
  for (int i = 0; i < out.ndim(); ++i) {
    const int64_t before = pad_width[2 * i], after = pad_width[2 * i + 1], n = out[i] - before - after;
    const bool fits = before >= 0 && after >= 0 && n >= 0 &&
                      (before + after == 0 || (mode == PadMode::edge ? n > 0 : std::max(before, after) < n));
    if (!fits) c.fail(fmt::format("pad_width {} does not fit head {}", to_text(pad_width), c.shape(0).str()));
    out[i] = n;
  }
  c.set_output(out, c.dtype());
}

void op::PadGrad::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.pad(g.head(), {.mode = mode, .pad_width = pad_width}));
}

void run_cpu(const op::PadGrad& op, KernelContext& c) {
  axis_by_axis(c, op.pad_width, [&](int a, const Shape& from, const Shape& to, const void* src, void* dst) {
    const int64_t* positions = source_positions(c, pad_axis(op.pad_width, a, to[a], op.mode));
    scatter_add(c, positions, from[a], to[a], to.product(0, a), to.product(a + 1, to.ndim()), src, dst, c.out().dtype);
  });
}

}  // namespace kaon
