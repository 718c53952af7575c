#include "kaon/ops/indexing/indexing.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::SequenceMask::def = make_op_def<op::SequenceMask>();

void op::SequenceMask::infer(InferContext& c) const {
  if (axis != 0 && axis != 1) c.fail_value(fmt::format("axis must be 0 or 1, got {}", axis));
  if (c.num_inputs() != num_inputs()) {
    c.fail_value(fmt::format("with use_sequence_length={} takes {} arrays, got {}", to_text(use_sequence_length),
                             num_inputs(), c.num_inputs()));
  }
  c.expect_ndim_at_least(0, 2);
  if (use_sequence_length) {
    c.expect_shape(1, Shape(c.shape(0)[1 - axis]));
    if (c.dtype(1) == DType::boolean) c.fail_dtype("sequence_length must be numbers, got bool");
  }
  expect_holds(c, "value", value, c.dtype());
  c.set_output(c.shape(0), c.dtype());
}

void op::SequenceMask::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, use_sequence_length ? nd.SequenceMask(g.head(), g.input(1), {.axis = axis}) : g.head());
}

void run_cpu(const op::SequenceMask& op, KernelContext& c) {
  const TensorView& out = c.out();
  copy_bytes(c.run, c.in(0).data, out.data, out.bytes());
  if (!op.use_sequence_length || out.size() == 0) return;
  const Shape& shape = out.shape;
  const int64_t inner = shape.product(2, shape.ndim());
  dispatch_all("SequenceMask", c.in(1).dtype, [&]<class L>() {
    const L* length = c.in(1).as<L>();
    dispatch_width(out.dtype, [&]<class T>() {
      const T value = T(element_bits(op.value, out.dtype));
      T* data = out.as<T>();
      c.run.parallel_for(shape[0] * shape[1], std::max<int64_t>(1, (1 << 15) / inner), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t a = i / shape[1], b = i % shape[1];
          const int64_t step = op.axis == 0 ? a : b, sequence = op.axis == 0 ? b : a;
          if (double(step) >= std::trunc(double(accumulate_t<L>(length[sequence]))))
            std::fill_n(data + i * inner, inner, value);
        }
      });
    });
  });
}

}  // namespace kaon
