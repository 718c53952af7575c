#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/kernels/window_columns.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Im2col::def = make_op_def<op::Im2col>();
constinit const OpDef op::Col2im::def = make_op_def<op::Col2im>();

namespace {

// Of images of h x w pixels; refuses windows that do not fit.
template <class Op>
WindowColumns expect_windows(const InferContext& c, const Op& op, int64_t h, int64_t w) {
  const auto expect = [&](const char* name, const Shape& value, int64_t least) {
    constexpr int64_t most = 1 << 30;
    const bool fits =
        value.ndim() == 2 && std::min(value[0], value[1]) >= least && std::max(value[0], value[1]) <= most;
    if (!fits) c.fail_value(fmt::format("{} must be two numbers of {} to {}, got {}", name, least, most, value.str()));
  };
  expect("kernel", op.kernel, 1);
  if (!op.stride.empty()) expect("stride", op.stride, 1);
  if (!op.dilate.empty()) expect("dilate", op.dilate, 1);
  if (!op.pad.empty()) expect("pad", op.pad, 0);
  const WindowColumns all = window_columns(op, 0, h, w);
  for (const WindowAxis& a : {all.y, all.x}) {
    if (a.windows < 1) {
      c.fail(fmt::format("windows of {} pixels do not fit into {} with pads of {}", (a.kernel - 1) * a.dilate + 1,
                         a.size, a.pad));
    }
  }
  return all;
}

}  // namespace

void op::Im2col::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 4);
  const Shape& s = c.shape(0);
  const WindowColumns all = expect_windows(c, *this, s[2], s[3]);
  c.set_output(Shape(s[0], s[1] * kernel[0] * kernel[1], all.windows()), c.dtype());
}

void op::Im2col::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& s = g.input_like(0).shape();
  g.set(0, nd.col2im(
               g.head(),
               {.output_size = Shape(s[2], s[3]), .kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad}));
}

void run_cpu(const op::Im2col& op, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s[2], s[3]);
  const int64_t windows = all.windows();
  dispatch_float("im2col", c.out().dtype, [&]<class T>() {
    const T* images = c.in(0).as<const T>();
    T* columns = c.out().as<T>();
    c.run.parallel_for(all.rows(), std::max<int64_t>(1, (1 << 13) / windows), [&](int64_t row, int64_t end) {
      for (; row < end; ++row) {
        for (int64_t k = 0; k < windows; ++k) columns[row * windows + k] = all.element(images, row, k);
      }
    });
  });
}

void op::Col2im::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  if (output_size.ndim() != 2 || output_size[0] < 1 || output_size[1] < 1) {
    c.fail_value(fmt::format("output_size must be two numbers of at least 1, got {}", output_size.str()));
  }
  const Shape& s = c.shape(0);
  const WindowColumns all = expect_windows(c, *this, output_size[0], output_size[1]);
  const int64_t elements = kernel[0] * kernel[1];
  if (s[1] % elements != 0 || s[2] != all.windows()) {
    c.fail(fmt::format("data must have shape (n, a multiple of {}, {}), got {}", elements, all.windows(), s.str()));
  }
  c.set_output(Shape(s[0], s[1] / elements, output_size[0], output_size[1]), c.dtype());
}

void op::Col2im::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd.im2col(g.head(), {.kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad}));
}

void run_cpu(const op::Col2im& op, KernelContext& c) {
  const Shape& s = c.out().shape;
  const WindowColumns all = window_columns(op, s[0] * s[1], s[2], s[3]);
  const int64_t cost = all.y.kernel * all.x.kernel * s[3];
  dispatch_float("col2im", c.out().dtype, [&]<class T>() {
    const T* columns = c.in(0).as<const T>();
    T* images = c.out().as<T>();
    c.run.parallel_for(all.planes * s[2], std::max<int64_t>(1, (1 << 13) / cost), [&](int64_t line, int64_t end) {
      for (; line < end; ++line) {
        for (int64_t px = 0; px < s[3]; ++px) {
          images[line * s[3] + px] = all.sum(columns, line / s[2], line % s[2], px);
        }
      }
    });
  });
}

}  // namespace kaon
