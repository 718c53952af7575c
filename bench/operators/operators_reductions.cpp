// Reductions, running sums and statistics.
#include "kaon/bench/operators/operators_parts.h"

namespace kaon::bench {

Cases reductions(int64_t n) {
  const Shape matrix(n / row_length(n), row_length(n));
  const NDArray x = between(-3, 3, matrix), y = nd._copy(x), near_one = between(0.99, 1.01, matrix),
                flat = nd.reshape(x, {n}), numbers = integers(0, 100, {n}), full = nd.ones(matrix),
                truth = nd.cast(full, DType::boolean), falsehood = nd.cast(nd.zeros(matrix), DType::boolean);
  return {
      {"sum", [=] { nd.sum(x); }},
      {"sum_rows", [=] { nd.sum(x, 1); }},
      {"sum_columns", [=] { nd.sum(x, 0); }},
      {"mean", [=] { nd.mean(x); }},
      {"mean_columns", [=] { nd.mean(x, 0); }},
      {"prod", [=] { nd.prod(near_one); }},
      {"max", [=] { nd.max(x); }},
      {"max_rows", [=] { nd.max(x, {.axis = Shape(1)}); }},
      {"min_columns", [=] { nd.min(x, {.axis = Shape(0)}); }},
      {"argmax", [=] { nd.argmax(x); }},
      {"argmax_rows", [=] { nd.argmax(x, {.axis = 1}); }},
      {"argmax_columns", [=] { nd.argmax(x, {.axis = 0}); }},
      {"norm", [=] { nd.norm(x); }},
      {"norm_rows", [=] { nd.norm(x, {.axis = Shape(1)}); }},
      {"std", [=] { nd.std(x); }},
      {"var", [=] { nd.var(x); }},
      {"var_rows", [=] { nd.var(x, {.axis = Shape(1)}); }},
      {"any", [=] { nd.any(falsehood); }},
      {"all", [=] { nd.all(truth); }},
      {"all_float32", [=] { nd.all(full); }},
      {"logsumexp_rows", [=] { nd.logsumexp(x, {.axis = Shape(1)}); }},
      {"nansum", [=] { nd.nansum(x); }},
      {"cumsum", [=] { nd.cumsum(x); }},
      {"cumsum_rows", [=] { nd.cumsum(x, {.axis = 1}); }},
      {"cumsum_columns", [=] { nd.cumsum(x, {.axis = 0}); }},
      {"cumprod_rows", [=] { nd.cumprod(near_one, {.axis = 1}); }},
      {"cumprod", [=] { nd.cumprod(near_one); }},
      {"cummax_rows", [=] { nd.cummax(x, {.axis = 1}); }},
      {"cummax", [=] { nd.cummax(flat, {.axis = 0}); }},
      {"median", [=] { nd.median(x); }},
      {"median_rows", [=] { nd.median(x, {.axis = Shape(1)}); }},
      {"quantile", [=] { nd.quantile(x, 0.3); }},
      {"quantile_rows", [=] { nd.quantile(x, 0.3, {.axis = Shape(1)}); }},
      {"histogram", [=] { nd.histogram(x, 20, -3, 3); }},
      {"bincount", [=] { nd.bincount(numbers); }},
      {"allclose", [=] { nd.allclose(x, y); }},
      {"array_equal", [=] { nd.array_equal(x, y); }},
  };
}

}  // namespace kaon::bench
