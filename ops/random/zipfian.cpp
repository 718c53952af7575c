#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/op_def.h"
#include "kaon/ops/random/kernels/zipfian.h"
#include "kaon/ops/random/random.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::SampleUniqueZipfian::def = make_op_def<op::SampleUniqueZipfian>();

void op::SampleUniqueZipfian::infer(InferContext& c) const {
  if (range_max < 1) c.fail_value(fmt::format("range_max must be at least 1, got {}", range_max));
  if (shape.ndim() != 2 || !shape.is_known()) {
    c.fail_value(fmt::format("shape must be (batch, classes to draw), got {}", shape.str()));
  }
  if (shape[1] > range_max) {
    c.fail_value(fmt::format("{} distinct classes cannot be drawn from {}", shape[1], range_max));
  }
  c.set_output(0, shape, DType::int64);
  c.set_output(1, Shape(shape[0]), DType::int64);
}

void run_cpu(const op::SampleUniqueZipfian& op, KernelContext& c) {
  const ZipfianRows rows = zipfian_rows(op.range_max, c);
  c.run.parallel_for(op.shape[0], std::max<int64_t>(1, 1024 / (op.shape[1] + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) rows(row);
  });
}

}  // namespace kaon
