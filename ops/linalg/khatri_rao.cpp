#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::KhatriRao::def = make_op_def<op::KhatriRao>();

void op::KhatriRao::infer(InferContext& c) const {
  if (num_args < 1) c.fail_value(fmt::format("num_args must be at least 1, got {}", num_args));
  c.expect_same_dtype();
  c.expect_floating();
  int64_t rows = 1;
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.expect_ndim(i, 2);
    if (c.shape(i)[1] != c.shape(0)[1]) {
      c.fail(fmt::format("the matrices must have the same number of columns, got {}", c.describe_inputs()));
    }
    if (__builtin_mul_overflow(rows, c.shape(i)[0], &rows)) {
      c.fail(fmt::format("the result has too many rows; inputs: {}", c.describe_inputs()));
    }
  }
  c.set_output(Shape(rows, c.shape(0)[1]), c.dtype());
}

void op::KhatriRao::compose(ComposeContext& c) const {
  NDArray product = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    const NDArray& next = c.input(i);
    const int64_t rows = product.shape()[0], more = next.shape()[0], columns = next.shape()[1];
    const NDArray pairs = nd.broadcast_mul(nd._reshape_to(product, {.shape = Shape(rows, 1, columns)}),
                                           nd._reshape_to(next, {.shape = Shape(1, more, columns)}));
    product = nd._reshape_to(pairs, {.shape = Shape(rows * more, columns)});
  }
  c.set(product);
}

}  // namespace kaon
