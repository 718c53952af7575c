#include "kaon/ops/nn/activation/activation.h"

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/init/init.h"
#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random/kernels/random_kernel.h"
#include "kaon/ops/random/kernels/random_words.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t grain = 65536;     // elements per piece where nothing is drawn
constexpr int64_t chunk_grain = 16;  // buffers per piece where something is

// Multiplies by a mask with extent 1 on some axes, row of the last axis by row.
void multiply_broadcast(const TensorView& x, const TensorView& mask, const TensorView& y, RunContext& run) {
  const int last = x.shape.ndim() - 1;
  const int64_t columns = x.shape[last], mask_columns = mask.shape[last];
  if (x.size() == 0) return;
  const size_t width = size_of(x.dtype);
  run.parallel_for(x.size() / columns, std::max<int64_t>(1, grain / columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, mask_row = 0, stride = 1;
      for (int axis = last - 1; axis >= 0; --axis) {
        if (mask.shape[axis] != 1) mask_row += rest % x.shape[axis] * stride;
        stride *= mask.shape[axis];
        rest /= x.shape[axis];
      }
      const size_t at = size_t(row * columns) * width;
      multiply_row(x.dtype, x.as<char>() + at, mask.as<char>() + size_t(mask_row * mask_columns) * width,
                   mask_columns == 1, y.as<char>() + at, columns);
    }
  });
}

}  // namespace

constinit const OpDef op::Dropout::def = make_op_def<op::Dropout>();

void op::Dropout::infer(InferContext& c) const {
  c.expect_floating();
  if (!(p >= 0 && p <= 1)) c.fail_value("p must lie in [0, 1], got " + to_text(p));
  c.set_output(0, c.shape(0), c.dtype());
  c.set_output(1, mask_shape(c.shape(0)), c.dtype());
}

Shape op::Dropout::mask_shape(const Shape& data) const {
  Shape mask = data;
  for (int64_t axis : axes) mask[normalize_axis(axis, mask.ndim(), "Dropout")] = 1;
  return mask;
}

void op::Dropout::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, g.head() * g.output(1));
}

void run_cpu(const op::Dropout& op, KernelContext& c) {
  const TensorView x = c.in(0), y = c.out();
  TensorView mask{c.out(1).data, op.mask_shape(x.shape), x.dtype};  // data is null if it is not wanted
  if (op.p == 0 || (!c.training && op.mode == DropoutMode::training)) {
    if (mask.data) fill(mask, 1, c.run);
    return copy_bytes(c.run, x.data, y.data, y.bytes());
  }
  const bool shared = mask.shape != x.shape;
  if (shared && !mask.data) mask.data = c.run.workspace(std::max<size_t>(1, mask.bytes()));
  c.run.parallel_for(random_chunks(mask.size()), chunk_grain, [&](int64_t begin, int64_t end) {
    dropout_chunks(c.random, op.p, x.dtype, shared ? nullptr : x.data, y.data, mask.data, mask.size(), begin, end);
  });
  if (shared) multiply_broadcast(x, mask, y, c.run);
}

}  // namespace kaon
