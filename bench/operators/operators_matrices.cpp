// Products of matrices, and their factorisations.
#include "kaon/bench/operators/operators_parts.h"

namespace kaon::bench {

Cases matrices(int64_t n) {
  const bool large = n >= 1'000'000;
  const int64_t side = large ? 1000 : 32, root = large ? 32 : 6, count = large ? 100 : 1, part = large ? 100 : 32;
  const Shape square(side, side), batch(count, part, part);
  const NDArray a = between(-1, 1, square), b = between(-1, 1, square), v = between(-1, 1, {side}),
                small = between(-1, 1, {root, root}), many = between(-1, 1, batch), others = between(-1, 1, batch),
                unit = nd.broadcast_to(nd.expand_dims(nd.eye(part), 0), batch),
                positive = nd.batch_dot(many, many, {.transpose_b = true}) + unit * double(part),
                lower = nd.linalg_potrf(positive), regular = many + unit * 20.0;
  const std::vector<NDArray> two{a, b}, batches{many, others};
  return {
      {"matmul", [=] { nd.matmul(a, b); }},
      {"matmul_transposed", [=] { nd.dot(a, b, {.transpose_b = true}); }},
      {"matrix_times_vector", [=] { nd.dot(a, v); }},
      {"batch_dot", [=] { nd.batch_dot(many, others); }},
      {"einsum_matmul", [=] { nd.einsum("ij,jk->ik", two); }},
      {"einsum_batch", [=] { nd.einsum("bij,bjk->bik", batches); }},
      {"einsum_sum", [=] { nd.einsum("ij,ij->i", two); }},
      {"tensordot",
       [=] {
         nd.tensordot(many, others, op::Tensordot{.a_axes_summed = {0, 2}, .b_axes_summed = {0, 2}});
       }},
      {"kron", [=] { nd.kron(small, small); }},
      {"outer", [=] { nd.outer(v, v); }},
      {"potrf", [=] { nd.linalg_potrf(positive); }},
      {"trsm", [=] { nd.linalg_trsm(lower, many); }},
      {"solve", [=] { nd.linalg_solve(regular, many); }},
      {"inverse", [=] { nd.linalg_inverse(regular); }},
      {"det", [=] { nd.linalg_det(regular); }},
      {"slogdet", [=] { nd.linalg_slogdet(regular); }},
      {"syevd", [=] { nd.linalg_syevd(positive); }},
      {"svd", [=] { nd.linalg_svd(many); }},
  };
}

}  // namespace kaon::bench
