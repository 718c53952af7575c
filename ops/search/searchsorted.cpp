#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/search/kernels/sorted_place.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::SearchSorted::def = make_op_def<op::SearchSorted>();

void op::SearchSorted::infer(InferContext& c) const {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  c.expect_ndim_at_least(0, 1);
  const Shape &sorted = c.shape(0), &values = c.shape(1);
  bool fits = sorted.ndim() == 1 || sorted.ndim() == values.ndim();
  for (int i = 0; fits && i + 1 < sorted.ndim(); ++i) fits = sorted[i] == values[i];
  if (!fits) c.fail("sorted must be 1-D or have the axes of values but for the last: " + c.describe_inputs());
  c.set_output(values, DType::int64);
}

void run_cpu(const op::SearchSorted& op, KernelContext& c) {
  const TensorView &sorted = c.in(0), &values = c.in(1);
  const int64_t n = sorted.shape.back(), m = sorted.shape.ndim() == 1 ? values.size() : values.shape.back();
  int64_t* const out = c.out().as<int64_t>();
  dispatch_number("searchsorted", values.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const T *const rows = sorted.as<const T>(), *const v = values.as<const T>();
    c.run.parallel_for(values.size(), 1 << 12, [&](int64_t i, int64_t end) {
      while (i < end) {
        const T* const row = rows + i / m * n;
        for (const int64_t last = std::min(end, (i / m + 1) * m); i < last; ++i) {
          out[i] = sorted_place<A>(row, n, A(v[i]), op.right);
        }
      }
    });
  });
}

}  // namespace kaon
