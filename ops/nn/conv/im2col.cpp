#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/kernels/window_columns.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Im2col::def = make_op_def<op::Im2col>();
constinit const OpDef op::Col2im::def = make_op_def<op::Col2im>();

namespace {

// Checks the attributes of windows of one to three axes.
template <class Op>
void expect_windows(const InferContext& c, const Op& op) {
  const int axes = op.kernel.ndim();
  if (axes < 1 || axes > 3) c.fail_value(fmt::format("kernel must have 1 to 3 numbers, got {}", op.kernel.str()));
  const auto expect = [&](const char* name, const Shape& value, int64_t least) {
    constexpr int64_t most = 1 << 20;
    const bool fits = value.ndim() == axes &&
                      std::all_of(value.begin(), value.end(), [&](int64_t v) { return v >= least && v <= most; });
    if (!fits) {
      c.fail_value(fmt::format("{} must be numbers of {} to {}, as many as kernel {}, got {}", name, least, most,
                               op.kernel.str(), value.str()));
    }
  };
  expect("kernel", op.kernel, 1);
  if (!op.stride.empty()) expect("stride", op.stride, 1);
  if (!op.dilate.empty()) expect("dilate", op.dilate, 1);
  if (!op.pad.empty()) expect("pad", op.pad, 0);
}

// The windows of images (n, c, ...); refuses those that do not fit.
template <class Op>
WindowColumns fitting_windows(const InferContext& c, const Op& op, const Shape& images) {
  const WindowColumns all = window_columns(op, 0, images);
  for (const WindowAxis& a : {all.z, all.y, all.x}) {
    if (a.windows < 1) {
      c.fail(fmt::format("windows of {} pixels do not fit into {} with pads of {}", (a.kernel - 1) * a.dilate + 1,
                         a.size, a.pad));
    }
  }
  return all;
}

// (n, c) and these sizes.
Shape images_of(int64_t n, int64_t c, const Shape& sizes) {
  Shape images(n, c);
  for (int64_t s : sizes) images.push_back(s);
  return images;
}

// The columns of one row: a line of windows at a time.
template <class T>
void take_row(const WindowColumns& all, const T* images, int64_t row, T* to) {
  const int64_t j = row % all.x.kernel, i = row / all.x.kernel % all.y.kernel;
  const int64_t h = row / all.x.kernel / all.y.kernel % all.z.kernel;
  const T* const image = images + row / all.taps() * all.pixels();
  const int64_t first = all.x.first_inside(j), end = std::max(first, all.x.end_inside(j)), step = all.x.stride;
  for (int64_t line = 0; line < all.z.windows * all.y.windows; ++line, to += all.x.windows) {
    const int64_t pz = all.z.pixel(line / all.y.windows, h), py = all.y.pixel(line % all.y.windows, i);
    if (pz < 0 || pz >= all.z.size || py < 0 || py >= all.y.size) {
      std::fill_n(to, all.x.windows, T(0));
      continue;
    }
    const T* const from = image + (pz * all.y.size + py) * all.x.size + all.x.pixel(0, j);
    std::fill_n(to, first, T(0)), std::fill(to + end, to + all.x.windows, T(0));
    if (step == 1) {
      std::copy(from + first, from + end, to + first);
    } else {
      for (int64_t w = first; w < end; ++w) to[w] = from[w * step];
    }
  }
}

}  // namespace

void op::Im2col::infer(InferContext& c) const {
  c.expect_floating();
  expect_windows(c, *this);
  c.expect_ndim(0, kernel.ndim() + 2);
  const Shape& s = c.shape(0);
  const WindowColumns all = fitting_windows(c, *this, s);
  c.set_output(Shape(s[0], s[1] * all.taps(), all.windows()), c.dtype());
}

void op::Im2col::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& s = g.input_like(0).shape();
  Shape size;
  for (int i = 2; i < s.ndim(); ++i) size.push_back(s[i]);
  g.set(0,
        nd.col2im(g.head(), {.output_size = size, .kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad}));
}

void run_cpu(const op::Im2col& op, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s);
  const int64_t windows = all.windows();
  dispatch_width(c.out().dtype, [&]<class T>() {
    c.run.parallel_for(all.rows(), std::max<int64_t>(1, (1 << 14) / windows), [&](int64_t row, int64_t end) {
      for (; row < end; ++row) take_row(all, c.in(0).as<const T>(), row, c.out().as<T>() + row * windows);
    });
  });
}

void op::Col2im::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  expect_windows(c, *this);
  const bool fits = output_size.ndim() == kernel.ndim() &&
                    std::all_of(output_size.begin(), output_size.end(), [](int64_t size) { return size >= 1; });
  if (!fits) {
    c.fail_value(fmt::format("output_size must be numbers of at least 1, as many as kernel {}, got {}", kernel.str(),
                             output_size.str()));
  }
  const Shape& s = c.shape(0);
  const WindowColumns all = fitting_windows(c, *this, images_of(s[0], 0, output_size));
  if (s[1] % all.taps() != 0 || s[2] != all.windows()) {
    c.fail(fmt::format("data must have shape (n, a multiple of {}, {}), got {}", all.taps(), all.windows(), s.str()));
  }
  c.set_output(images_of(s[0], s[1] / all.taps(), output_size), c.dtype());
}

void op::Col2im::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd.im2col(g.head(), {.kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad}));
}

void run_cpu(const op::Col2im& op, KernelContext& c) {
  const Shape& s = c.out().shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s);
  const int64_t width = all.x.size, step = all.x.stride, lines = all.z.size * all.y.size;
  dispatch_float("col2im", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const T* columns = c.in(0).as<const T>();
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (all.taps() * width));
    c.run.parallel_for(all.planes * lines, grain, [&](int64_t line, int64_t end) {
      const Scratch scratch(size_t(width) * sizeof(A));
      A* const sums = scratch.as<A>();
      for (; line < end; ++line) {
        std::fill_n(sums, width, A(0));
        all.each_line(line / lines, line / all.y.size % all.z.size, line % all.y.size, [&](int64_t at, int64_t j) {
          const int64_t last = all.x.end_inside(j), shift = all.x.pixel(0, j);
          const T* const from = columns + at;
          for (int64_t w = all.x.first_inside(j); w < last; ++w) sums[w * step + shift] += A(from[w]);
        });
        T* const to = c.out().as<T>() + line * width;
        for (int64_t x = 0; x < width; ++x) to[x] = T(sums[x]);
      }
    });
  });
}

}  // namespace kaon
